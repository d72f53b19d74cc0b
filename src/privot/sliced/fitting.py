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
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from numpy.typing import NDArray

from privot.errors import load_object
from privot.models import Checkpoint, History
from privot.schema import Box, Schema
from privot.sliced.curator_table import raw_table
from privot.sliced.law import Law, SchemaRecords
from privot.sliced.ledgers import open_ledger
from privot.sliced.mixtures.settings import MixtureSettings
from privot.sliced.mixtures.table_fit import CodedTable, fit_table, plan_table
from privot.sliced.mixtures.table_law import TableMixture
from privot.sliced.model import Plan, SlicedModel
from privot.sliced.sums.mechanism import SumMechanism
from privot.sliced.sums.plan import SumPlan
from privot.sliced.sums.rounds import Rounds
from privot.training import Progress

if TYPE_CHECKING:
    from privot.sliced.settings import SlicedSettings

# What fits by tensors, imported when it is used: tables of codes need no PyTorch.
_TENSOR_FITS = "privot.sliced.tensor_fits"


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
    given = raw_table(table, schema)
    path = None if checkpoint is None else Path(checkpoint)
    run = Run(given, schema, epsilon, delta, path, resume, progress)
    settings = settings or usual_settings(schema)
    if not isinstance(settings, MixtureSettings):
        return _by_tensors("fit_slices", run, settings, "a fit by slices")
    if schema.images:
        return _by_tensors("fit_image_sums", run, settings, "a fit of images")
    if holds_vectors(schema):
        return _by_tensors("fit_vector_sums", run, settings, "a fit of vectors")
    return fit_table_sums(run, settings)


def _by_tensors(name: str, run: Run, settings: Any, purpose: str) -> SlicedModel:
    model: SlicedModel = load_object(f"{_TENSOR_FITS}:{name}", purpose)(run, settings)
    return model


def usual_settings(schema: Schema) -> MixtureSettings | SlicedSettings:
    """Rounds of noisy sums, for labeled images and vectors and for tables of codes; else slices."""
    coded = set(schema.columns) == set(schema.coded)
    if schema.images or coded or holds_vectors(schema):
        return MixtureSettings()
    settings: SlicedSettings = load_object(
        "privot.sliced.settings:SlicedSettings", "a fit by slices"
    )()
    return settings


def holds_vectors(schema: Schema) -> bool:
    """Whether rows are vectors in boxes, never missing, and at most one column of codes."""
    vectors = [name for name in schema.columns if name not in schema.coded]
    return bool(vectors) and len(schema.coded) <= 1 and all(
        name in schema.vectors
        and isinstance(schema.vectors[name].domain, Box)
        and not schema.columns[name].nullable
        for name in vectors
    )  # fmt: skip


@dataclass(frozen=True)
class Run:
    """One fit of private records: what was given.

    Arguments:
        table: The records.
        schema: What one may be.
        epsilon: ε of the whole run.
        delta: δ of the whole run.
        path: Of the checkpoint.
        resume: Whether to go on from it.
        progress: Callback after every step.
    """

    table: pa.Table
    schema: Schema
    epsilon: float
    delta: float
    path: Path | None
    resume: bool
    progress: Progress | None

    @contextmanager
    def rounds(
        self, plan: SumPlan, records: tuple[NDArray[Any], ...], settings: MixtureSettings
    ) -> Iterator[Rounds]:
        """The rounds of a plan on these records; the ledger is closed at the end."""
        ledger = open_ledger(plan, self.path, self.resume)
        state = Checkpoint(self.path, {"ledger": ledger.id} | asdict(settings), self.resume)
        try:
            yield Rounds(SumMechanism(records, ledger), state, self.progress)
        finally:
            ledger.close()

    def model(
        self,
        law: Law,
        records: SchemaRecords,
        plan: Plan,
        settings: MixtureSettings | SlicedSettings,
        releases: int | None = None,
        history: History | None = None,
    ) -> SlicedModel:
        """The model of what was learned."""
        budget = {"epsilon": self.epsilon, "delta": self.delta}
        made_with = budget | asdict(settings) | {"estimator": law.kind}
        return SlicedModel(law, records, plan, releases or plan.uses, made_with, history)


def fit_table_sums(run: Run, settings: MixtureSettings) -> SlicedModel:
    """Latent classes of a table of codes, by one round of noisy counts of pairs."""
    count, coded = len(run.table), CodedTable(run.schema)
    plan = plan_table(coded, run.epsilon, run.delta, count)
    with run.rounds(plan, (coded.encode(run.table),), settings) as rounds:
        sampler = fit_table(rounds, coded, count, settings.classes, settings.seed)
        return run.model(TableMixture(sampler), coded, plan, settings)
