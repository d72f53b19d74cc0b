"""Learning the distribution of the clean records from their reports, by whichever estimator fits them.

Tables whose columns are all reported as codes are fitted by **latent classes**, whose likelihood is
exact and needs no batches; anything with added noise by a **generator** and entropic optimal transport,
by several processes together where torchrun started them.

Privacy: a function of the release alone, hence post-processing: the guarantee of the release is the
guarantee of the model, whatever is fitted, however long, however often. The seed is no secret; neither
are held-out reports, which are as private as the others.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from privot.errors import PrivotError
from privot.local.classes.class_fit import fit_classes
from privot.local.classes.grouping import all_coded
from privot.local.generators.entropic_fit import fit_generator
from privot.local.generators.losses import Loss
from privot.local.model import LocalModel
from privot.local.settings import FitSettings, Run
from privot.privacy.rounding import check_delta
from privot.release import Release
from privot.training import Progress

_ESTIMATORS = {"latent_classes": fit_classes, "generator": fit_generator}


def fit(
    release: Release,
    settings: FitSettings | None = None,
    *,
    seed: int | None = None,
    device: str = "auto",
    checkpoint: str | Path | None = None,
    resume: bool = False,
    progress: Progress | None = None,
    loss: Loss | None = None,
) -> LocalModel:
    """Learn the distribution of the clean records from their privatized reports.

    Arguments:
        release: The reports; nothing else is looked at.
        settings: How to fit; the defaults otherwise.
        seed: Shorthand for a seed in the settings. Same seed, same machine, same model.
        device: `"auto"`, `"cpu"`, `"cuda"`; of a generator.
        checkpoint: File for the state of a generator's run, saved every half minute and on Ctrl-C.
        resume: Whether to continue from the checkpoint, if there is one.
        progress: Told the step and the loss after every step of a generator.
        loss: Of a generator, in place of the settings' one: a function of a step
            (`privot.local.generators.losses`).

    Raises:
        PrivotError: for settings that cannot be used, or a checkpoint of another run.
        Interrupted: on Ctrl-C, after the checkpoint was saved.
    """
    require_release(release)
    check_delta(release.randomizer.delta, len(release))
    settings = settings or FitSettings()
    if settings.batch_size is not None and settings.batch_size > len(release):
        raise PrivotError(
            f"batch_size {settings.batch_size:,} is more than the release's {len(release):,} reports: "
            "give fewer"
        )
    if seed is not None:
        settings = replace(settings, seed=seed)
    run = Run(device, None if checkpoint is None else Path(checkpoint), resume, progress, loss)
    estimator = settings.estimator
    if estimator == "auto":
        coded = loss is None and all_coded(release.randomizer)
        estimator = "latent_classes" if coded else "generator"
    return _ESTIMATORS[estimator](release, settings, run)


def require_release(release: Release) -> None:
    """Refuse raw records, and whatever else is no release, saying how records are privatized."""
    if not isinstance(release, Release):
        raise PrivotError(
            f"release is a {type(release).__name__}: privatize records on the device first, by `privot "
            "privatize TABLE -r randomizer.json` or Randomizer.privatize, and give what Release.load "
            "reads"
        )
