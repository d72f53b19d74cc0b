"""Learning the distribution of the clean records from their reports, by whichever estimator fits them.

Tables whose columns are all reported as codes are fitted by **latent classes**, whose likelihood is
exact and needs no batches; anything with added noise by a **generator** and entropic optimal transport,
by several processes together where torchrun started them.

Privacy: a function of the release alone, hence post-processing: the guarantee of the release is the
guarantee of the model, whatever is fitted, however long, however often. The seed is no secret; neither
are held-out reports, which are as private as the others.
"""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from pathlib import Path

import torch

from privot.errors import PrivotError
from privot.local.classes.count_tables import count_tables
from privot.local.classes.grouping import all_coded, alphabet_sizes, report_groups
from privot.local.classes.latent_classes import LatentClassSettings, choose, refit
from privot.local.classes.marginals import column_marginals, rake
from privot.local.generators.entropic_fit import fit_generator
from privot.local.generators.losses import Loss
from privot.local.model import LocalModel
from privot.local.samplers import LatentClassSampler
from privot.local.settings import FitSettings
from privot.privacy.rounding import check_delta
from privot.release import Release
from privot.training import Progress
from privot.training.parallel import join, local_device, started_by_torchrun


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
    where = _device(device)
    path = None if checkpoint is None else Path(checkpoint)
    estimator = settings.estimator
    if estimator == "auto":
        coded = loss is None and all_coded(release.randomizer)
        estimator = "latent_classes" if coded else "generator"
    if estimator == "latent_classes":
        _refuse_what_generators_take(settings, loss, path if resume else None)
        return fit_latent_class_model(release, settings)
    where = local_device(where)
    return fit_generator(release, settings, where, path, resume, progress, join(where), loss)


def _refuse_what_generators_take(
    settings: FitSettings, loss: Loss | None, resumed: Path | None
) -> None:
    """Refuse what a fit of latent classes would ignore."""
    if started_by_torchrun():
        raise PrivotError(
            "estimator 'latent_classes' counts the reports in one process: start it without "
            "torchrun, or use estimator 'generator'"
        )
    if resumed is not None and resumed.exists():
        raise PrivotError(
            f"checkpoint {resumed} is of a generator, and this fit makes latent classes, perhaps of "
            "another release: resume with the same arguments, or remove it"
        )
    if loss is not None:
        raise PrivotError("loss is a generator's: give estimator 'generator' or 'auto'")
    settings.refuse_ignored()


def fit_latent_class_model(
    release: Release, settings: FitSettings, classes: LatentClassSettings | None = None
) -> LocalModel:
    """A model whose sampler is a mixture of product distributions.

    Split reports have unbiased likelihoods of single columns, and the mixture is raked to them.

    Arguments:
        release: Reports of codes.
        settings: Only the seed is used.
        classes: What to try; the defaults otherwise.

    Raises:
        PrivotError: if a column has noise added.
    """
    classes = classes or LatentClassSettings()
    start = time.perf_counter()
    groups, sizes = report_groups(release), alphabet_sizes(release.randomizer)
    tables = count_tables(groups, sizes)
    trials = choose(tables, classes, settings.seed)
    model = refit(tables, trials, classes, settings.seed)
    if release.randomizer.joint is None:
        # Of joint reports the classes' own marginals are better: those of one column at a time have
        # to guess what the other columns of a report add, and err where columns depend.
        model = rake(model, column_marginals(groups, sizes))
    made_with = {
        "estimator": "latent_classes",
        "loss": "exact likelihood",
        "seed": settings.seed,
        "classes": model.num_classes,
        "averaged": [asdict(trial) for trial in trials],
        "num_reports": len(release),
        "seconds": time.perf_counter() - start,
    }
    return LocalModel(LatentClassSampler(model, release.schema), release.randomizer, made_with)


def _device(device: str) -> torch.device:
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise PrivotError(f"device {device!r} is not available here: use 'auto' or 'cpu'")
    try:
        return torch.device(device)
    except RuntimeError:
        raise PrivotError(f"device {device!r} is not known: use 'auto', 'cpu' or 'cuda'") from None


def require_release(release: Release) -> None:
    """Refuse raw records, and whatever else is no release.

    Raises:
        PrivotError: saying how records are privatized.
    """
    if not isinstance(release, Release):
        raise PrivotError(
            f"release is a {type(release).__name__}: privatize records on the device first, by `privot "
            "privatize TABLE -r randomizer.json` or Randomizer.privatize, and give what Release.load "
            "reads"
        )
