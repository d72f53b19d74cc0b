r"""Fitting a model from a curator's records: by rounds of noisy sums, or through noisy slices.

A mechanism owns the records; everything here sees releases only, so the guarantee of the plan is the
model's, however it is learned (post-processing), and all of its folder may be published: times, which
depend on raw records, are in checkpoints alone, which stay with the curator.

- **Sums** of all records (`privot.sliced.sums`), a few rounds, each a Gaussian mechanism: what is wanted
  are means and products of few coordinates, and a plain noisy sum tells them with the least noise.
- **Slices** of batches (`privot.sliced.releases`), fresh ones at each of thousands of steps: a network
  is trained on a distance between distributions.

**Resuming.** The checkpoint holds what was learned, or released; the ledger is a file of its own that is
never behind (`privot.disk.ledger`). After a kill, releases that were counted but whose effect was lost
stay spent. Losses in the history are functions of releases.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch
from torch import Tensor

from privot.models import Checkpoint, History
from privot.schema import Schema
from privot.sliced.images import ImageRecords
from privot.sliced.law import Law
from privot.sliced.mixtures.image_fit import fit_images
from privot.sliced.mixtures.settings import MixtureSettings
from privot.sliced.mixtures.table_fit import CodedTable, fit_table, plan_table
from privot.sliced.mixtures.table_law import TableMixture
from privot.sliced.mixtures.vector_fit import VectorRecipe, fit_vectors
from privot.sliced.mixtures.vectors import LabeledVectors
from privot.sliced.model import Plan, SlicedModel, records_of
from privot.sliced.network import train_network
from privot.sliced.records import Records, raw_table
from privot.sliced.releases.mechanism import SlicingMechanism
from privot.sliced.releases.plan import open_ledger
from privot.sliced.settings import SlicedSettings
from privot.sliced.sums.mechanism import SumMechanism
from privot.sliced.sums.plan import SumPlan
from privot.sliced.sums.rounds import Rounds
from privot.training import Progress
from privot.training.parallel import threads_for


def fit(
    table: Any,
    schema: Schema,
    *,
    epsilon: float,
    delta: float = 1e-5,
    settings: MixtureSettings | SlicedSettings | None = None,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> SlicedModel:
    """Learn a model of private records through noisy sums or slices, keeping (ε, δ).

    Arguments:
        table: Private records: a table (pandas, polars, pyarrow, dict) or the path of one.
        schema: What a record may be: columns of a table, or images and their label.
        epsilon: ε of the whole run.
        delta: δ of the whole run.
        settings: What is released, and what is made of it. By default `MixtureSettings`, rounds of
            noisy sums, where the schema is of images, of vectors in boxes with at most one column of
            codes beside them, or of columns with codes or numbers alone.
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
    settings = settings or usual_settings(schema)
    given = raw_table(table, schema)
    path = None if checkpoint is None else Path(checkpoint)
    run = _Run(given, schema, epsilon, delta, path, resume, progress)
    with threads_for(0):
        if isinstance(settings, MixtureSettings):
            return run.by_sums(settings)
        return run.by_slices(settings)


def usual_settings(schema: Schema) -> MixtureSettings | SlicedSettings:
    """Rounds of noisy sums, for labeled images and vectors and for tables of codes; else slices."""
    coded = set(schema.columns) == set(schema.coded)
    if schema.images or coded or LabeledVectors.declared_by(schema):
        return MixtureSettings()
    return SlicedSettings()


@dataclass(frozen=True)
class _Run:
    """One fit of private records."""

    table: pa.Table
    schema: Schema
    epsilon: float
    delta: float
    path: Path | None
    resume: bool
    progress: Progress | None

    def by_sums(self, settings: MixtureSettings) -> SlicedModel:
        """A mixture, learned by rounds of noisy sums."""
        records = records_of(self.schema, degree=1)
        count = len(self.table)
        if isinstance(records, ImageRecords):
            recipe = settings.recipe(self.epsilon, self.delta, count, records)
            plan = recipe.plan(self.epsilon, self.delta, count, records)
            values, labels = records.encode(self.table)
            if labels is None:
                labels = torch.zeros(count, dtype=torch.int64)
            with self._rounds(plan, (values, labels), settings) as rounds:
                return self._model(fit_images(rounds, records, recipe), records, plan, settings)
        if LabeledVectors.declared_by(self.schema):
            vectors = LabeledVectors(self.schema)
            asked = VectorRecipe.of(settings, self.epsilon, self.delta, count, vectors)
            plan = asked.plan(self.epsilon, self.delta, count, vectors)
            with self._rounds(plan, vectors.encode(self.table), settings) as rounds:
                return self._model(fit_vectors(rounds, vectors, asked), records, plan, settings)
        coded = CodedTable(self.schema)
        plan = plan_table(coded, self.epsilon, self.delta, count)
        with self._rounds(plan, (coded.encode(self.table),), settings) as rounds:
            sampler = fit_table(rounds, coded, count, settings.classes, settings.seed)
            return self._model(TableMixture(sampler), records, plan, settings)

    @contextmanager
    def _rounds(
        self, plan: SumPlan, records: tuple[Tensor, ...], settings: MixtureSettings
    ) -> Iterator[Rounds]:
        ledger = open_ledger(plan, self.path, self.resume)
        state = Checkpoint(self.path, {"ledger": ledger.id} | asdict(settings), self.resume)
        try:
            yield Rounds(SumMechanism(records, ledger), state, self.progress)
        finally:
            ledger.close()

    def by_slices(self, settings: SlicedSettings) -> SlicedModel:
        """A network, trained on slices."""
        records = records_of(self.schema, **settings.features)
        values, labels = records.encode(self.table)
        plan = settings.plan(self.epsilon, self.delta, len(values), records)
        ledger = open_ledger(plan, self.path, self.resume)
        mechanism = SlicingMechanism(values, labels, records, ledger)
        state = Checkpoint(self.path, {"ledger": ledger.id}, self.resume)
        try:
            law, history = train_network(mechanism, records, settings, state, self.progress)
        finally:
            ledger.close()
        return self._model(law, records, plan, settings, ledger.spent, history)

    def _model(
        self,
        law: Law,
        records: Records,
        plan: Plan,
        settings: MixtureSettings | SlicedSettings,
        releases: int | None = None,
        history: History | None = None,
    ) -> SlicedModel:
        asked = {"epsilon": self.epsilon, "delta": self.delta}
        made_with = asked | asdict(settings) | {"estimator": law.kind}
        return SlicedModel(law, records, plan, releases or plan.uses, made_with, history)
