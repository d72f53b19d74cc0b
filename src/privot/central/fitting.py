"""Fitting a model from a curator's records: by rounds of noisy sums, or through noisy slices.

A mechanism owns the records; everything here sees releases only, so the guarantee of the plan is the
model's, however it is learned (post-processing), and all of its folder may be published: times, which
depend on raw records, are in checkpoints alone, which stay with the curator.

- **Sums** of all records (`privot.sliced.sums`), a few rounds, each a Gaussian mechanism: what is wanted
  are means and products of few coordinates, and a plain noisy sum tells them with the least noise.
- **Slices** of batches (`privot.sliced.releases`), fresh ones at each of thousands of steps: a network
  is trained on a distance between distributions.

**Resuming.** The checkpoint holds what was learned, or released; the ledger is a file of its own that is
never behind (`privot.privacy.ledger`). After a kill, releases that were counted but whose effect was
lost stay spent. Losses in the history are functions of releases.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Self, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privot.central.sums import Rounds, SumMechanism, SumPlan, open_ledger, raw_table
from privot.central.table_fit import (
    CodedTable,
    Law,
    SchemaRecords,
    TableMixture,
    fit_table,
    plan_table,
)
from privot.core.errors import (
    MOST_STEPS,
    PrivotError,
    load_object,
    require_choice,
    require_count,
    require_seed,
)
from privot.models import Checkpoint, History, Model, ModelKind, Stored
from privot.privacy import ApproximateDP
from privot.schema import Box, Schema
from privot.training import Progress

if TYPE_CHECKING:
    from privot.central.slice_fit import SliceSettings

# What a fit by rounds of noisy sums may be told; what is left open follows from ε, records and size.


Method = Literal["sums", "slices"]
_NORM = 0.5  # of an image's, were all pixels 1: what is longer is made darker


@dataclass(frozen=True, kw_only=True)
class SumSettings:
    """What rounds of noisy sums are to tell; None is chosen from ε, δ and the number of records.

    Arguments:
        components: Of images and vectors, for each label.
        low_pass: Of images: frequencies of components' means, along each axis.
        residual_low_pass: Of images: frequencies in which the rest varies, along each axis.
        norm: Of images: length, in units of a white one's, beyond which an image is made darker; of
            vectors, in units of the longest from the middle, beyond which one is made shorter.
        classes: Of tables: latent classes; by default as many as explain what was released.
        seed: Of starts and what else is drawn in public; never of noise.
    """

    components: int | None = None
    low_pass: int | None = None
    residual_low_pass: int | None = None
    norm: float = _NORM
    classes: int | None = None
    seed: int = 0

    counts: ClassVar[tuple[str, ...]] = ("components", "low_pass", "residual_low_pass", "classes")

    def __post_init__(self) -> None:
        for name in self.counts:
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, require_count(name, value, MOST_STEPS))
        if not 0 < self.norm <= 1:
            raise PrivotError(f"norm {self.norm}: give a share of a white image's, up to 1")
        object.__setattr__(self, "seed", require_seed(self.seed))


# Models that a curator learns through noisy releases: drawing records, and what they promise.


# Laws of tensors, imported when a model has one: tables by sums need no PyTorch.
_TENSOR_LAWS = {
    "network": "privot.central.slice_fit:LabeledNetwork",
    "mixture": "privot.central.components:ImageMixture",
    "vectors": "privot.central.components:VectorMixture",
}


class Plan(Protocol):
    """What could be released: `SumPlan` or `SlicePlan`."""

    @property
    def guarantee(self) -> ApproximateDP:
        """Of all releases together."""

    @property
    def uses(self) -> int:
        """Releases that are declared."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""


@dataclass(frozen=True, eq=False, repr=False)
class CentralModel(Model):
    """A distribution of records, learned from noisy slices or sums of private ones.

    Arguments:
        law: What records are drawn from.
        records: The public map of the records it was learned from.
        plan: What could be released.
        releases: How many releases were made.
        made_with: Settings of the fit, plain values.
        history: Loss over the steps; None if it was not trained by steps.
    """

    kind: ClassVar[ModelKind] = ModelKind("central", 5, "privot central fit")

    law: Law
    records: SchemaRecords
    plan: Plan
    releases: int
    made_with: dict[str, Any]
    history: History | None = None

    @property
    def guarantee(self) -> ApproximateDP:
        """What was spent: the guarantee of all releases that were counted."""
        return self.plan.guarantee

    @property
    def schema(self) -> Schema:
        """What one record may be."""
        return self.records.schema

    def draw(
        self, num_rows: int, rng: np.random.Generator, where: Mapping[str, Any]
    ) -> Iterator[pa.Table]:
        """See `Model`; of a table `where` may name any column, of images their label."""
        return self.law.pieces(self.records, num_rows, rng, where)

    def fields(self) -> dict[str, Any]:
        """See `Model`."""
        return {
            "releases": self.releases,
            "plan": self.plan.to_dict(),
            "records": self.records.to_dict(),
            "law": {"kind": self.law.kind} | self.law.fields(),
            "made_with": self.made_with,
        }

    def arrays(self) -> dict[str, NDArray[Any]]:
        """See `Model`."""
        return self.law.arrays()

    @classmethod
    def build(cls, stored: Stored) -> Self:
        """See `Model`."""
        fields = stored.fields
        kind, schema = fields["law"].pop("kind"), Schema.from_dict(fields["records"].pop("schema"))
        records: SchemaRecords
        law: type[Law]
        if kind == TableMixture.kind:
            records, law = CodedTable(schema), TableMixture
        else:
            purpose = f"a model of kind {kind!r}"
            make = load_object("privot.central.records:records_of", purpose)
            records, law = (
                make(schema, **fields["records"]),
                load_object(_TENSOR_LAWS[kind], purpose),
            )
        plan: Plan
        if "ratios" in fields["plan"]:
            plan = SumPlan.from_dict(fields["plan"])
        else:
            kind_of_plan = load_object("privot.central.slices:SlicePlan", "a model of slices")
            plan = kind_of_plan.from_dict(fields["plan"])
        built = law.build(records, fields["law"], stored.arrays)
        return cls(built, records, plan, fields["releases"], fields["made_with"], stored.history)


# What fits by tensors, imported when it is used: tables of codes need no PyTorch.
_TENSOR_FITS = "privot.central.image_fit"


def fit(
    table: Any,
    schema: Schema,
    *,
    epsilon: float,
    delta: float = 1e-5,
    method: Method | SumSettings | SliceSettings | None = None,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> CentralModel:
    """Learn a model of private records through noisy sums or slices, keeping (ε, δ).

    Arguments:
        table: Private records: a table (pandas, polars, pyarrow, dict) or the path of one.
        schema: What a record may be: columns of a table, or images and their label.
        epsilon: ε of the whole run.
        delta: δ of the whole run.
        method: `"sums"`, a mixture by a few noisy sums of all records, or `"slices"`, a network trained
            on noisy slices of batches; `SumSettings` or `SliceSettings` in place of the name change its
            settings. By default sums where the schema allows them: one of images, of vectors in boxes
            with at most one column of codes beside them, or of columns with codes or numbers alone.
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
    settings = settings_of(method, schema)
    if not isinstance(settings, SumSettings):
        return _by_tensors("fit_slices", run, settings, "a fit by slices")
    if schema.images:
        return _by_tensors("fit_image_sums", run, settings, "a fit of images")
    if holds_vectors(schema):
        return _by_tensors("fit_vector_sums", run, settings, "a fit of vectors")
    return fit_table_sums(run, settings)


def _by_tensors(name: str, run: Run, settings: Any, purpose: str) -> CentralModel:
    model: CentralModel = load_object(f"{_TENSOR_FITS}:{name}", purpose)(run, settings)
    return model


def settings_of(
    method: Method | SumSettings | SliceSettings | None, schema: Schema
) -> SumSettings | SliceSettings:
    """Return the settings of a method given by name, by settings, or by default for the schema.

    Raises:
        PrivotError: for an unknown name, or sums of a schema that they cannot learn.
    """
    fits_sums = bool(schema.images) or set(schema.columns) == set(schema.coded)
    fits_sums = fits_sums or holds_vectors(schema)
    if method is None:
        method = "sums" if fits_sums else "slices"
    if isinstance(method, str):
        require_choice("method", method, get_args(Method))
        if method == "slices":
            place = "privot.central.slice_fit:SliceSettings"
            settings: SliceSettings = load_object(place, "a fit by slices")()
            return settings
        method = SumSettings()
    if isinstance(method, SumSettings) and not fits_sums:
        raise PrivotError(
            f"method 'sums' cannot learn columns {', '.join(schema.columns)} together: it takes images, "
            "vectors in boxes with at most one column of codes, or columns with codes or numbers alone; "
            "use method 'slices'"
        )
    return method


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
        self, plan: SumPlan, records: tuple[NDArray[Any], ...], settings: SumSettings
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
        settings: SumSettings | SliceSettings,
        releases: int | None = None,
        history: History | None = None,
    ) -> CentralModel:
        """The model of what was learned."""
        budget = {"epsilon": self.epsilon, "delta": self.delta}
        made_with = budget | asdict(settings) | {"estimator": law.kind}
        return CentralModel(law, records, plan, releases or plan.uses, made_with, history)


def fit_table_sums(run: Run, settings: SumSettings) -> CentralModel:
    """Latent classes of a table of codes, by one round of noisy counts of pairs."""
    count, coded = len(run.table), CodedTable(run.schema)
    plan = plan_table(coded, run.epsilon, run.delta, count)
    with run.rounds(plan, (coded.encode(run.table),), settings) as rounds:
        sampler = fit_table(rounds, coded, count, settings.classes, settings.seed)
        return run.model(TableMixture(sampler), coded, plan, settings)
