"""Fitting latent classes to a release: for tables whose columns are all reported as codes.

The likelihood of such reports is exact and needs no batches. Split reports have unbiased likelihoods of
single columns as well, and the mixture is raked to them.
"""

from __future__ import annotations

import time
from dataclasses import asdict

import numpy as np

from privot.errors import PrivotError
from privot.local.classes.count_tables import count_tables
from privot.local.classes.grouping import alphabet_sizes, report_groups
from privot.local.classes.latent_classes import LatentClassSettings, choose, refit
from privot.local.classes.marginals import rake, stacked_marginals
from privot.local.model import LocalModel
from privot.local.samplers import LatentClassSampler
from privot.local.settings import FitSettings, Run
from privot.release import Release
from privot.training.parallel import started_by_torchrun


def fit_classes(release: Release, settings: FitSettings, run: Run) -> LocalModel:
    """A model whose sampler is a mixture of product distributions; only the seed is used.

    Raises:
        PrivotError: if a column has noise added, or a setting would be ignored.
    """
    _refuse_ignored(settings, run)
    start = time.perf_counter()
    tables = count_tables(report_groups(release), alphabet_sizes(release.randomizer))
    marginals = stacked_marginals(tables)
    trials = choose(tables, LatentClassSettings(), settings.seed)
    mixture = refit(tables, marginals, trials, LatentClassSettings(), settings.seed)
    if release.randomizer.joint is None:
        # Of joint reports the classes' own marginals are better: those of one column at a time have
        # to guess what the other columns of a report add, and err where columns depend.
        mixture = rake(mixture, np.split(marginals[:, 0], tables.offsets[1:-1]))
    made_with = {
        "estimator": "latent_classes",
        "loss": "exact likelihood",
        "seed": settings.seed,
        "classes": mixture.num_classes,
        "averaged": [asdict(trial) for trial in trials],
        "num_reports": len(release),
        "seconds": time.perf_counter() - start,
    }
    return LocalModel(LatentClassSampler(mixture, release.schema), release.randomizer, made_with)


def _refuse_ignored(settings: FitSettings, run: Run) -> None:
    """Refuse what only a generator takes."""
    if started_by_torchrun():
        raise PrivotError(
            "estimator 'latent_classes' counts the reports in one process: start it without "
            "torchrun, or use estimator 'generator'"
        )
    if run.resume and run.checkpoint is not None and run.checkpoint.exists():
        raise PrivotError(
            f"checkpoint {run.checkpoint} is of a generator, and this fit makes latent classes, "
            "perhaps of another release: resume with the same arguments, or remove it"
        )
    if run.loss is not None:
        raise PrivotError("loss is a generator's: give estimator 'generator' or 'auto'")
    steps = ("steps", "batch_size", "learning_rate")
    given = [name for name in steps if getattr(settings, name) is not None]
    given += ["loss"] if settings.loss != "auto" else []
    if given:
        raise PrivotError(
            f"{', '.join(given)} would be ignored: this release is fitted by latent classes; leave "
            "out what is a generator's, or give estimator 'generator'"
        )
