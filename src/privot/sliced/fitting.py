r"""Fitting a generative model to private records through noisy slices.

The mechanism owns the records; everything here sees releases only, so the guarantee of the plan is the
model's, however it is trained (post-processing). The mean record is pooled over all releases so far
(`privot.sliced.releases.pooled`). When the budget is spent, `"factors"` reads classes off the pooled
mean in closed form (`privot.sliced.factors`); a `"network"` is trained at every release
(`privot.sliced.network`).

**Resuming.** The checkpoint holds the model, the pooled mean and the optimizer; the ledger is a file of
its own that is never behind (`privot.disk.ledger`). After a kill, releases that were counted but
whose effect was lost stay spent. Losses in the history are functions of releases. Times depend on
raw records: a model has none, a checkpoint keeps them, and stays with the curator.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from privot.errors import PrivotError
from privot.models import Checkpoint, History
from privot.schema import Schema
from privot.sliced.factors import estimate_factors, require_visible
from privot.sliced.model import SlicedModel, records_of
from privot.sliced.network import LabeledLaw, train_network
from privot.sliced.records import raw_table
from privot.sliced.releases.checkpoints import Counted, open_ledger
from privot.sliced.releases.mechanism import SlicingMechanism
from privot.sliced.releases.pooled import PooledMean
from privot.sliced.settings import SlicedSettings
from privot.training import Interrupted, Progress
from privot.training.interrupt import deferred_interruption
from privot.training.threads import threads_for


def fit(
    table: Any,
    schema: Schema,
    *,
    epsilon: float,
    delta: float = 1e-5,
    settings: SlicedSettings | None = None,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> SlicedModel:
    """Learn a model of private records through noisy slices, keeping (ε, δ).

    Arguments:
        table: Private records: a table (pandas, polars, pyarrow, dict) or the path of one.
        schema: What a record may be: columns of a table, or images and their label.
        epsilon: ε of the whole run.
        delta: δ of the whole run.
        settings: What is released, and what is made of it; by default for tens of thousands of records.
        checkpoint: File of the run's state; its ledger is written beside it, as `<name>.ledger`.
            Without it, the run counts in memory only and cannot be resumed. Either way it is entered
            in the account of its records, and the curator is warned if it is not the first.
        resume: Whether to go on with checkpoint and ledger.
        progress: Told after every step.

    Raises:
        PrivotError: for input or settings that cannot be used, a ledger of another plan, or a run to
            be resumed that is finished.
        Interrupted: on SIGINT or SIGTERM, after state and ledger were saved.
    """
    settings = settings or SlicedSettings()
    records = records_of(schema, **settings.features)
    images = None if settings.estimator == "network" else records.squared_images
    if settings.estimator == "factors" and images is None:
        raise PrivotError(
            "estimator 'factors' needs images of degree 2, for their second moments: use 'network'"
        )
    values, labels = records.encode(raw_table(table, schema))
    plan = settings.plan(epsilon, delta, len(values), records)
    if images is not None:
        require_visible(plan, images)
    path = None if checkpoint is None else Path(checkpoint)
    ledger = open_ledger(plan, path, resume)
    mechanism = SlicingMechanism(values, labels, records, ledger)
    state = Checkpoint(path, {"ledger": ledger.id}, resume)
    history: History | None = None
    try:
        with threads_for(0):
            if images is not None:
                pooled = pool_releases(mechanism, state, progress)
                law: LabeledLaw = estimate_factors(pooled, images, settings.dither)
            else:
                law, history = train_network(mechanism, records, settings, state, progress)
    finally:
        ledger.close()
    made_with = {"epsilon": epsilon, "delta": delta} | asdict(settings) | {"estimator": law.kind}
    return SlicedModel(law, records, ledger.plan, ledger.spent, made_with, history)


def pool_releases(
    mechanism: SlicingMechanism, checkpoint: Checkpoint, progress: Progress | None = None
) -> PooledMean:
    """The mean record, pooled over all that is left of the budget.

    Raises:
        Interrupted: on a signal, between two releases, after saving.
    """
    ledger = mechanism.ledger
    counted = Counted(pooled=(pooled := PooledMean(ledger.plan)))
    counted.restore(checkpoint, ledger)
    with deferred_interruption() as interruption:
        while ledger.left:
            pooled.add(mechanism.release())
            if progress is not None:
                progress(ledger.spent, ledger.plan.steps, pooled.stddev)
            if checkpoint.due or interruption.requested:
                counted.keep(checkpoint, ledger)
            if interruption.requested:
                raise Interrupted(f"stopped after release {ledger.spent} of {ledger.plan.steps}")
    counted.keep(checkpoint, ledger)
    return pooled
