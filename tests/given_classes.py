"""Latent classes of given settings, for tests of what comes after.

To choose settings by held-out reports takes most of a fit.
"""

from privot.local.classes.class_fit import fit_classes
from privot.local.classes.selection import Trial
from privot.local.releases import Releases
from privot.local.settings import FitSettings, Run

FOUR = Trial(num_classes=4, strength=1.0, passes=60, gain=1.0, standard_error=0.1)


def fit_four(*releases, seed=0):
    """What `privot.fit` learns of releases, had their held-out reports chosen four classes."""
    return fit_classes(Releases(releases), FitSettings(seed=seed), Run(), [FOUR])
