"""Fits of tables that try few settings: for tests of what stands upon a model, not of the choice.

How settings are chosen, with all that `fit` tries, is what `tests/local` and the commands' tests check.
"""

from contextlib import contextmanager

import pytest

from privot.local.classes.class_fit import LatentClassSettings

FEW = LatentClassSettings(class_counts=(4, 8), strengths=(1.0,), starts=1, max_passes=60)


@contextmanager
def few_settings():
    """Inside, latent classes try four and eight of them, by every kind of prior, from one start."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("SETTINGS", "RELEVANCE_SETTINGS", "CURVE_SETTINGS"):
            patch.setattr(f"privot.local.classes.class_fit.{name}", FEW)
        yield
