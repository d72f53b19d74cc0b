"""Fits of models to a curator's records, by noisy sums or noisy slices.

A fit learns only from releases of a mechanism. So a model has the guarantee of their plan, however it is
learned (post-processing), and its whole folder may be published. Durations, which depend on raw records,
are only in checkpoints, which stay with the curator.

**Sums** of all records (`privot.central.sums`), released in a few rounds, are the least noisy estimates
of means and products of a few coordinates. **Slices** of batches (`privot.central.slices`), released at
each of thousands of steps, train a network. Each kind of records has three classes: a `RecordMap`
encodes rows of a schema, a `CentralFit` plans releases and learns from them, and a `Law` samples rows.

**Resuming.** The checkpoint contains the state of training, or the releases. The ledger is a separate
file that counts each release before it is made (`privot.privacy.ledger`). After a kill, releases that
were counted remain spent even if their effect was lost.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privot.central.sums import (
    CHUNK,
    Budget,
    Chunks,
    NoisySums,
    Query,
    Records,
    Rounds,
    SumMechanism,
    SumPlan,
    open_ledger,
)
from privot.core.errors import (
    MOST_COORDINATES,
    MOST_STEPS,
    PrivotError,
    load_object,
    require_choice,
    require_count,
    require_seed,
)
from privot.local.model import read_condition
from privot.models import Checkpoint, Component, History, Model, ModelKind, Stored
from privot.privacy import ApproximateDP
from privot.privacy.ledger import Ledger
from privot.schema import Box, Schema
from privot.schema.columns.column import CodedColumn, PointColumn
from privot.schema.schema import promise_or_epsilon
from privot.tables.csv_records import COMMA_SEPARATED, RecordForm
from privot.tables.files import METADATA_KEY, RecordBatches, TableBatches, as_table, read_table
from privot.tables.record_files import open_records
from privot.training import Progress

if TYPE_CHECKING:
    from privot.central.slice_fit import SliceSettings
    from privot.central.slices import SlicePlan

Method = Literal["sums", "slices"]
PIECE = 16_384  # rows sampled at once
_DEFAULT_DELTA = 1e-5
# Places: maximum number of halvings of each axis of the box, by the number of coordinates.
PLACE_DEPTHS = {1: 10, 2: 7, 3: 5}
# Classes are imported on use: most need PyTorch. Fits by kind of records; None is the fit by slices.
_FITS = {
    "images": "privot.central.mixture_fit:ImageFit",
    "images at once": "privot.central.mixture_fit:ImageRoundFit",
    "vectors": "privot.central.mixture_fit:VectorFit",
    "tables": "privot.central.table_fit:TableFit",
    "places": "privot.central.pyramid:PlaceFit",
    None: "privot.central.slice_fit:SliceFit",
}
# The law and the record map of each kind of model.
_LAWS = {
    "classes": ("privot.central.table_fit:TableMixture", "privot.central.table_fit:CodedRecords"),
    "pyramid": ("privot.central.pyramid:PlaceDensity", "privot.central.pyramid:PlaceRecords"),
    "mixture": ("privot.central.mixtures:ImageMixture", "privot.central.records:ImageRecords"),
    "vectors": ("privot.central.mixtures:VectorMixture", "privot.central.records:VectorRecords"),
    "network": ("privot.central.slice_fit:LabeledNetwork", "privot.central.records:records_of"),
}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Base of the settings of a fit; values out of range are refused.

    Arguments:
        seed: Seed of random starts and other public draws; never of noise.
    """

    seed: int = 0

    # Largest value of each integer; the smallest is 1. Where the default is None, None is allowed.
    maxima: ClassVar[dict[str, int]] = {}

    def __post_init__(self) -> None:
        for name, maximum in self.maxima.items():
            value = getattr(self, name)
            if value is not None or getattr(type(self), name, 0) is not None:
                object.__setattr__(self, name, require_count(name, value, maximum))
        object.__setattr__(self, "seed", require_seed(self.seed))


@dataclass(frozen=True, kw_only=True)
class NetworkSettings(Settings):
    """Base of the settings of a fit that trains a network.

    Arguments:
        hidden: Widths of the network's hidden layers.
        learning_rate: Peak learning rate of Adam, positive.
        averaging: Decay per step of the moving average of the weights, in [0, 1).
    """

    hidden: tuple[int, ...] = (256, 256)
    learning_rate: float = 2e-3
    averaging: float = 0.995

    def __post_init__(self) -> None:
        super().__post_init__()
        widths = tuple(require_count("hidden", width, MOST_COORDINATES) for width in self.hidden)
        object.__setattr__(self, "hidden", widths)


@dataclass(frozen=True, kw_only=True)
class SumSettings(Settings):
    """Settings of a fit by noisy sums; where one is None, the fit chooses it from public numbers.

    Arguments:
        components: Number of components of each label's mixture (images, vectors).
        low_pass: Number of frequencies of components' means, along each axis (images).
        residual_low_pass: Number of frequencies of covariances within components, along each axis
            (images).
        norm: Norm to which a record is clipped, in (0, 1], relative to the norm of a white image or the
            largest norm of a vector in the scaled box.
        classes: Number of latent classes (tables); by default as many as the releases support.

    Examples:
        >>> SumSettings(components=3).norm
        0.5
    """

    components: int | None = None
    low_pass: int | None = None
    residual_low_pass: int | None = None
    norm: float = 0.5
    classes: int | None = None

    maxima: ClassVar[dict[str, int]] = dict.fromkeys(
        ("components", "low_pass", "residual_low_pass", "classes"), MOST_STEPS
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.norm <= 1:
            raise PrivotError(f"norm {self.norm} is not in (0, 1]: give a share, such as 0.5")


def coded_column(schema: Schema, name: str) -> CodedColumn | None:
    """Return the column `name` if its values are encoded as codes; None if as numbers in a box."""
    column = schema.columns[name]
    as_codes = column.domain is None or (column.nullable and column.is_number)
    return schema.coded[name] if as_codes else None


def unit_rows(schema: Schema, table: pa.Table) -> NDArray[np.float64]:
    """Encode rows as coordinates (n, p) in [0, 1]: one-hot codes, and numbers clipped to bounds."""
    parts = []
    for name in schema.columns:
        if column := coded_column(schema, name):
            parts.append(np.eye(column.alphabet.size)[column.encode_codes(name, table)])
        else:
            units = schema.point_column(name).encode_units(name, table)
            parts.append(np.clip((units + 1) / 2, 0.0, 1.0))
    return np.concatenate(parts, axis=1)


class RecordMap(ABC):
    """Public map from rows of a schema to arrays; each row is mapped independently of the others."""

    schema: Schema

    @property
    def unit(self) -> str:
        """Owner of one record, such as a person, whom the guarantee protects."""
        return self.schema.unit

    @property
    def label(self) -> str | None:
        """Column of codes that labels the records; None if there is none."""
        return None

    @property
    def num_labels(self) -> int:
        """Number of labels; 1 where there are none."""
        return 1 if self.label is None else self.schema.coded[self.label].alphabet.size

    @abstractmethod
    def encode(self, table: pa.Table) -> tuple[Any, ...]:
        """Encode n rows as arrays or tensors whose first axis has length n."""

    def allowed(self, where: Mapping[str, Any]) -> NDArray[np.float32]:
        """Return a mask (num_labels,): 1.0 for labels that meet a condition, 0.0 for the others.

        Raises:
            PrivotError: if the condition names another column than the label, no value, or a value that
                the schema does not declare.
        """
        if others := [name for name in where if name != self.label]:
            raise PrivotError(
                f"where names {', '.join(others)}: this model knows conditions on "
                f"{self.label or 'no column'} alone; draw more, and select rows"
            )
        allowed = np.ones(self.num_labels, np.float32)
        for codes in read_condition(self.schema, where).values():
            if not codes:
                raise PrivotError(f"where gives column {self.label!r} no value: give at least one")
            allowed = np.zeros(self.num_labels, np.float32)
            allowed[codes] = 1.0
        return allowed

    def to_dict(self) -> dict[str, Any]:
        """Return plain values from which the map can be built again."""
        names = [field.name for field in fields(self)]  # type: ignore[arg-type]  # all are dataclasses
        return {name: getattr(self, name) for name in names} | {"schema": self.schema.to_dict()}


class Law(Component):
    """Distribution of records that was learned from releases, restored for its map of records."""

    @abstractmethod
    def pieces(
        self, records: Any, num_rows: int, rng: np.random.Generator, where: Mapping[str, Any]
    ) -> Iterator[pa.Table]:
        """Sample rows that meet the condition `where`, and yield tables of at most `PIECE` rows."""


class CentralFit(ABC):
    """Fit of one kind of records by one method.

    Arguments:
        schema: Schema of the records.
        settings: Settings of the fit.
        budget: ε, δ and the number of records.

    Attributes:
        records: Map of the records.
    """

    records: RecordMap

    @abstractmethod
    def __init__(self, schema: Schema, settings: Any, budget: Budget) -> None: ...

    @abstractmethod
    def plan(self) -> "SumPlan | SlicePlan":
        """Return the plan of the releases, computed from public numbers.

        Raises:
            PrivotError: if the noise would be too large for the budget and the number of records.
        """

    def chunks(self, source: RecordBatches) -> Chunks:
        """Return a function whose every call reads the records and yields them encoded, in chunks."""
        return encoded_chunks(source, self.records)

    @abstractmethod
    def learn(
        self, chunks: Chunks, ledger: Ledger[Any], state: Checkpoint, progress: Progress | None
    ) -> tuple[Law, History | None]:
        """Learn the law of the records that `chunks` yields, from releases of the ledger's plan.

        Returns:
            The law, and the loss by step, which is None for a fit by sums.
        """


def encoded_chunks(source: RecordBatches, records: RecordMap) -> Chunks:
    """Return a function whose every call reads the source and yields records encoded, in chunks."""

    def encode(table: pa.Table) -> Records:
        records.schema.check_table(table)
        return tuple(map(np.asarray, records.encode(table)))

    return partial(source.mapped, encode, CHUNK)


class SumFit(CentralFit):
    """Fit of one kind of records by rounds of noisy sums."""

    settings: SumSettings
    budget: Budget

    def learn(
        self, chunks: Chunks, ledger: Ledger[SumPlan], state: Checkpoint, progress: Progress | None
    ) -> tuple[Law, None]:
        state = state.of(asdict(self.settings))
        return self.estimate(Rounds(SumMechanism(chunks, ledger), state, progress)), None

    @abstractmethod
    def estimate(self, rounds: Rounds) -> Law:
        """Estimate the law of the records from rounds of the plan."""


class OneSumFit(SumFit):
    """Fit of one kind of records by a single round.

    Attributes:
        query: Query of the round, a function of public numbers.
    """

    query: Query

    def estimate(self, rounds: Rounds) -> Law:
        return self.law(rounds.release(self.query))

    @abstractmethod
    def law(self, released: NoisySums) -> Law:
        """Estimate the law of the records from noisy sums: of the mechanism, or of several servers."""


@dataclass(frozen=True, eq=False, repr=False)
class LawModel(Model):
    """Model that samples records from a law."""

    law: Law  # law of the encoded records
    records: RecordMap  # public map between rows of the schema and encoded records

    @property
    def schema(self) -> Schema:
        """Schema of the records."""
        return self.records.schema

    def draw(
        self, num_rows: int, rng: np.random.Generator, where: Mapping[str, Any]
    ) -> Iterator[pa.Table]:
        """See `Model`; the kind of law determines which columns `where` may name."""
        return self.law.pieces(self.records, num_rows, rng, where)

    def fields(self) -> dict[str, Any]:
        return {
            "records": self.records.to_dict(),
            "law": {"kind": self.law.kind} | self.law.fields(),
        }

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        return self.law.arrays()


@dataclass(frozen=True, eq=False, repr=False)
class CentralModel(LawModel):
    """Model of records, learned from noisy sums or slices of private ones.

    Arguments:
        plan: Declared releases.
        releases: Number of releases made.
        made_with: Settings of the fit, as plain values.
        history: Loss by step; None for a fit by sums.
    """

    kind: ClassVar[ModelKind] = ModelKind("central", 6, "privot central fit")

    plan: "SumPlan | SlicePlan"
    releases: int
    made_with: dict[str, Any]
    history: History | None = None

    @property
    def guarantee(self) -> ApproximateDP:
        """Guarantee of all declared releases together."""
        return self.plan.guarantee

    def fields(self) -> dict[str, Any]:
        releases = {"releases": self.releases, "plan": self.plan.to_dict()}
        return releases | super().fields() | {"made_with": self.made_with}

    @classmethod
    def build(cls, stored: Stored) -> Self:
        fields = stored.fields
        records, law = stored_law(fields["records"], fields["law"], stored.arrays)
        name = "slices:SlicePlan" if "accounting" in fields["plan"] else "sums:SumPlan"
        plan_class = load_object(f"privot.central.{name}", "a model's plan")
        plan = plan_class.from_dict(fields["plan"])
        return cls(law, records, plan, fields["releases"], fields["made_with"], stored.history)


def fit(
    table: Any,
    schema: Schema,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    method: "Method | SumSettings | SliceSettings | None" = None,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> CentralModel:
    """Learn a model of private records from noisy sums or slices, with (ε, δ)-differential privacy.

    Arguments:
        table: Private records: a table (pandas, polars, pyarrow, dict), the path of one, or the result
            of `raw_records`. Sums read Parquet, a file or a folder, in batches, once a round.
        schema: Schema of a table's columns, or of images and their label.
        epsilon: ε of the whole run; omitted if the schema promises ε, with `where = "central"`.
        delta: δ of the whole run, 1e-5 by default; omitted if the schema promises ε.
        method: `"sums"` for a mixture or a map fitted to a few noisy sums of all records, `"slices"` for
            a network trained on noisy slices of batches, or `SumSettings` or `SliceSettings` for other
            settings. The default is sums if the schema allows them, otherwise slices. Sums learn images,
            one place, vectors in boxes with one column of codes at most, or tables of codes and numbers.
        checkpoint: File of the run's state; its ledger is written beside it, as `<name>.ledger`.
            Without it, the ledger is in memory and the run cannot be resumed. In both cases the run is
            entered in the account of its records, and the curator is warned of earlier runs.
        resume: Whether to continue from checkpoint and ledger.
        progress: Callback after every step.

    Raises:
        PrivotError: if the records or settings cannot be used or do not keep the schema's promise, the
            ledger has another plan, or the run to be resumed is finished.
        Interrupted: on SIGINT or SIGTERM, after state and ledger were saved.

    Examples:
        >>> people = {"old": [True, False] * 500, "sick": [True, False, False, False] * 250}
        >>> schema = Schema.from_dict({"columns": {name: {"kind": "boolean"} for name in people}})
        >>> model = fit(people, schema, epsilon=1.0, method=SumSettings(classes=2))
        >>> print(model.guarantee)
        ε = 1, δ = 1e-05, replace_one, per person
    """
    settings = settings_of(method, schema)
    source = raw_records(table, schema)
    budget = budget_of(schema, epsilon, delta, source.num_rows or 0)
    central_fit = fit_of(schema, settings, budget)
    chunks = central_fit.chunks(source)  # slices refuse records here, before minutes of calibration
    plan = central_fit.plan()
    path = None if checkpoint is None else Path(checkpoint)
    ledger = open_ledger(plan, path, resume)
    state = Checkpoint(path, {"ledger": ledger.id}, resume)
    try:
        law, history = central_fit.learn(chunks, ledger, state, progress)
    finally:
        ledger.close()
    privacy = {"epsilon": budget.epsilon, "delta": budget.delta}
    made_with = privacy | asdict(settings) | {"estimator": law.kind}
    return CentralModel(law, central_fit.records, plan, ledger.spent, made_with, history)


def fit_of(
    schema: Schema, settings: "SumSettings | SliceSettings", budget: Budget, one_round: bool = False
) -> CentralFit:
    """Build the fit of a schema's records by the method that the settings belong to.

    With `one_round`, images are fitted by one round instead of several, with less accuracy.
    """
    kind: str | None = kind_of_records(schema) if isinstance(settings, SumSettings) else None
    if one_round and kind == "images":
        kind = "images at once"
    central_fit: CentralFit = load_object(_FITS[kind], "this fit")(schema, settings, budget)
    return central_fit


def stored_law(records: Mapping[str, Any], law: Mapping[str, Any], arrays: Any) -> tuple[Any, Any]:
    """Build the map of records and the law of a stored model, from their fields and arrays."""
    map_fields, law_fields = dict(records), dict(law)
    kind = law_fields.pop("kind")
    schema = Schema.from_dict(map_fields.pop("schema"))
    law_class, map_class = (load_object(name, f"a model of kind {kind!r}") for name in _LAWS[kind])
    record_map = map_class(schema, **map_fields)
    return record_map, law_class.build(record_map, law_fields, arrays)


def budget_of(schema: Schema, epsilon: float | None, delta: float | None, records: int) -> Budget:
    """Return the budget of a run from the schema's promise, or from ε and δ; refuse both or neither."""
    schema.require_listed()
    if schema.promise is None and epsilon is not None:
        return Budget(epsilon, _DEFAULT_DELTA if delta is None else delta, records, schema.unit)
    promise = promise_or_epsilon(schema.promise, epsilon, delta, " and where = 'central'")
    assert promise is not None  # without a promise, ε is missing here, which was refused
    if promise.where != "central":
        raise PrivotError(
            f"where is {promise.where!r}, where no curator sees records: learn from the reports "
            "sent there, or promise 'central'"
        )
    if promise.people is not None and records < promise.people:
        raise PrivotError(
            f"{records:,} records are fewer than the {promise.people:,} that the schema promises: wait "
            "for more"
        )
    return Budget(promise.epsilon, promise.delta, records, schema.unit)


def raw_records(data: Any, schema: Schema, form: RecordForm = COMMA_SEPARATED) -> RecordBatches:
    """Open a curator's records: Parquet is read batch by batch, and anything else into memory."""
    if isinstance(data, RecordBatches):
        return data
    if isinstance(data, str | Path) and (opened := open_records(data, schema, form)).num_rows:
        return opened
    return TableBatches(raw_table(data, schema, form))


def raw_table(data: Any, schema: Schema, form: RecordForm = COMMA_SEPARATED) -> pa.Table:
    """Read a curator's records, a table or its file; refuse releases, and rows that break the schema."""
    table = read_table(data, schema, form) if isinstance(data, str | Path) else as_table(data)
    if METADATA_KEY in (table.schema.metadata or {}):
        raise PrivotError(
            "the table is a release, its records are noised already: give raw records, or learn from "
            "the release with `privot fit`"
        )
    schema.check_table(table)
    return table


def settings_of(
    method: "Method | SumSettings | SliceSettings | None", schema: Schema
) -> "SumSettings | SliceSettings":
    """Return the settings of a method: those given, or the defaults of the named or default method.

    Raises:
        PrivotError: for an unknown name, sums that cannot learn a schema, or less than it promises.
    """
    kind = kind_of_records(schema)
    if not isinstance(method, str | None):
        settings = method
    elif method == "sums" or (method is None and kind):
        settings = SumSettings()
    else:
        require_choice("method", method or "slices", get_args(Method))
        settings = load_object("privot.central.slice_fit:SliceSettings", "a fit by slices")()
    if isinstance(settings, SumSettings) and kind is None:
        raise PrivotError(
            f"method 'sums' cannot learn columns {', '.join(schema.columns)} together: it takes images, "
            "vectors in boxes with at most one column of codes, or columns with codes or numbers alone; "
            "use method 'slices'"
        )
    require_promised(schema, getattr(settings, "neighboring", "replace_one"))
    return settings


def require_promised(schema: Schema, neighboring: str) -> None:
    """Raise PrivotError for blanks under a schema's promise, which is between any two records."""
    if schema.promise and neighboring == "zero_out":
        raise PrivotError("neighboring 'zero_out' promises less than the schema: use 'replace_one'")


def kind_of_records(schema: Schema) -> Literal["images", "vectors", "tables", "places"] | None:
    """Classify the records of a schema for a fit by sums; None if sums cannot learn them."""
    if schema.images:
        return "images"
    if len(schema.columns) == 1 and any(map(_is_place, schema.vectors.values())):
        return "places"
    if set(schema.columns) == set(schema.coded):
        return "tables"
    in_boxes = all(
        isinstance(column.domain, Box) and not column.is_number and not column.nullable
        for name, column in schema.columns.items()
        if name not in schema.coded
    )
    return "vectors" if len(schema.coded) <= 1 and in_boxes else None


def _is_place(column: PointColumn) -> bool:
    """Return whether a column is a vector of 1 to 3 coordinates in a box, without declared bins."""
    domain = column.domain
    return (
        isinstance(domain, Box) and domain.dimension in PLACE_DEPTHS and not column.declares_codes
    )
