r"""Linear classifiers of private records, by one noisy sum of products and rounds of noisy gradients.

**Features.** A public map takes a record to a unit vector $φ(x) ∈ R^d$, which ends in a constant.

- Images, of sides up to 32 (larger ones are averaged): roots of histograms of gradients, 8 orientations
  in cells of 4 × 4 pixels and in overlapping cells of twice the size; and pixels at half resolution.
- Tables: one-hot codes of each column, and codes as numbers.
- Vectors in boxes: coordinates, and products of two coordinates for at most 40 of them.

**Rounds.** Let n be the number of records, and K the number of labels.

1. The first round releases the sum of $φ(x) φ(x)^\top$ with noise. Let M be this sum divided by n, $M^+$
   its positive part, and τ the spectral norm of the noise of M times 0.4. With $A = (M^+ + τI)^{-1/2}$,
   later rounds use $z = A φ(x) / ‖A φ(x)‖$. So directions in which records differ little count as much
   as others, unless noise hides them.
2. T = 40 rounds of gradient descent follow. With $r = e_y - \mathrm{softmax}(W z)$, clipped to norm 1, a
   round releases $G = \sum r z^\top ∈ R^{K×d}$ with noise. Then $V ← 0.9 V + 0.1 G/n$ and $W ← W + η V$.

The classifier's W is the mean of the last T/2 iterates. The noise of a score $W z$ is about
$2 η T/(μ n)$ for any T. So $η T = 110 \sqrt{μ n}$ is fixed, but η is at most 30 times the number of
directions above the noise: the trace of $(M - ν I)^+ (M^+ + τ I)^{-1}$ with ν = τ/0.4, or 1 if larger.

**Privacy review.** Adjacency is `replace_one`, or `zero_out` if chosen; n is public. Rounds are those of
`privot.central.sums`, on one ledger and in the account of these records, so that the curator is warned
if they were used for synthetic records as well. **Δ** of the products is √2 (`zero_out`: 1), because
$‖φ φ^\top‖ = 1$ and two products never have a negative inner product. Δ of the gradients is 2
(`zero_out`: 1), because $‖r z^\top‖ = ‖r‖ ‖z‖ ≤ 1$ and r, r′ may be opposite. Both factors are rounded
towards zero to integers, whose norms are checked. **Raw data** enter the sums alone: the map, T and the
shares of μ² are public, η depends on public numbers and the first release, every record is in every
round, and nothing is stopped early. Features are in the memory of the curator, with 2 bytes a number.
The classifier is a function of the releases, and may be published. The constants were chosen on 10 000
held-out *training* images of MNIST and Fashion-MNIST.

References:
    Dalal, Triggs, *Histograms of oriented gradients for human detection* (2005). Tramèr, Boneh,
    *Differentially private learning needs better features (or much more data)* (2021), for linear
    models on fixed features. Bassily, Smith, Thakurta, *Private empirical risk minimization* (2014).
"""

import math
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.special import softmax

from privot.central.fitting import (
    RecordMap,
    budget_of,
    encoded_chunks,
    kind_of_records,
    raw_records,
    require_promised,
)
from privot.central.sums import (
    CHUNK,
    Chunks,
    Floats,
    Integers,
    NoisySums,
    Query,
    Records,
    Rounds,
    SumMechanism,
    SumPlan,
    fingerprint_of,
    open_ledger,
)
from privot.core.errors import PrivotError, load_object
from privot.models import Checkpoint, Learned, ModelKind, Stored
from privot.privacy.guarantees import ApproximateDP, Neighboring
from privot.schema import Schema
from privot.tables.files import as_table, read_table

# The map of each kind of records, imported on use: images and vectors need PyTorch.
_MAPS = {
    "images": "privot.central.records:ImageRecords",
    "vectors": "privot.central.records:VectorRecords",
    "tables": "privot.central.table_fit:CodedRecords",
}
LENGTH = 4096  # norm of the longest factor, in integer steps
_SCALE = 4095  # norm to which factors are scaled, so that rounding errors do not lead beyond LENGTH
_TINY = 1e-12  # divisors are at least this
_SIDE, _CELL, _BINS = 32, 4, 8  # images: largest side, cells of histograms, orientations
_CENTER = 0.8  # norm of the vector of equal coordinates that is subtracted from each part of norm 1
_CONSTANT = 0.3  # the last feature, before all are divided by their norm
_MAX_SQUARED = 40  # most coordinates of a vector whose products are features
_FIRST_SHARE = 0.1  # share of μ² of the first round
_ROUNDS, _MOMENTUM = 40, 0.9  # T, and the factor of V
_PROGRESS = 110.0  # ηT, relative to √(μn)
_MAX_STEP = 30.0  # largest η for each direction above the noise
_FLOOR = 0.4  # τ, relative to the spectral norm of the noise
_MAX_NOISE = 12.0  # of a score


@dataclass(frozen=True)
class Features:
    """Public map from rows of a schema to encoded records, and to features and labels."""

    schema: Schema
    label: str  # column of categories to predict

    @classmethod
    def of(cls, schema: Schema, label: str | None) -> Self:
        """Return the map for a label; None stands for the only column of categories.

        Raises:
            PrivotError: for columns that have no features, or a label that is no column of categories.
        """
        if kind_of_records(schema) not in _MAPS or len(schema.columns) < 2:
            raise PrivotError(
                f"columns {', '.join(schema.columns)} are no labeled images, labeled vectors or table "
                "of codes and numbers: a classifier takes one of these"
            )
        listed = [name for name in schema.coded if schema.columns[name].domain is None]
        if label is None and len(listed) == 1:
            label = listed[0]
        if label not in listed:
            raise PrivotError(
                f"label is {label!r}: name the column of categories to predict, one of "
                f"{', '.join(listed) or 'none, for there is none'}"
            )
        return cls(schema, label)

    @cached_property
    def records(self) -> RecordMap:
        """Map of whole records, as in a fit by sums, so that both runs are entered in one account."""
        return self._map(self.schema)

    @cached_property
    def inputs(self) -> RecordMap:
        """Map of rows without the label."""
        fields = self.schema.to_dict()["columns"]
        columns = {name: fields[name] for name in self.schema.columns if name != self.label}
        return self._map(Schema.from_dict({"unit": self.schema.unit, "columns": columns}))

    def _map(self, schema: Schema) -> RecordMap:
        cls = load_object(_MAPS[str(kind_of_records(self.schema))], "a classifier")
        return cast(RecordMap, cls(schema))

    def split(self, encoded: Records) -> tuple[NDArray[Any], Integers]:
        """Return the inputs (n, …) and labels (n,) of encoded records."""
        if len(encoded) > 1:
            return encoded[0], encoded[1]
        place = [*self.schema.columns].index(self.label)
        return np.delete(encoded[0], place, axis=1), encoded[0][:, place]

    def features(self, x: NDArray[Any]) -> Floats:
        """Return unit vectors (n, d) of encoded inputs (n, …), each computed from one record."""
        if self.schema.images:
            parts = histograms(np.clip(x, 0.0, 1.0).reshape(len(x), -1, *x.shape[-2:]))
        elif sizes := getattr(self.inputs, "sizes", None):
            codes = [np.eye(size)[column] for size, column in zip(sizes, x.T, strict=True)]
            numbers = x / np.maximum(np.array(sizes) - 1, 1)
            parts = np.concatenate([*codes, numbers], axis=1) / math.sqrt(len(sizes))
        else:
            i, j = np.triu_indices(x.shape[1] if x.shape[1] <= _MAX_SQUARED else 0)
            parts = np.concatenate([x, x[:, i] * x[:, j]], axis=1)
        return _unit(np.concatenate([parts, np.full((len(x), 1), _CONSTANT)], axis=1))


def histograms(images: NDArray[Any]) -> Floats:
    """Return features (n, d − 1), without the constant, of images (n, channels, h, w) in [0, 1]."""
    images = _pooled(images, -(-max(images.shape[-2:]) // _SIDE))
    half = _pooled(images, 2) if min(images.shape[-2:]) > _CELL else images
    fine = _oriented(images.mean(axis=1), _CELL)
    cells = _oriented(half.mean(axis=1), _CELL // 2)
    rows = cells[..., :-1, :] + cells[..., 1:, :]
    coarse = (rows[..., :-1] + rows[..., 1:]) / 4  # cells of twice the side, which overlap by half
    parts = [_unit(x.reshape(len(x), -1)) for x in (np.sqrt(fine), np.sqrt(coarse), half)]
    return np.concatenate([x - _CENTER / math.sqrt(max(x.shape[1], 1)) for x in parts], axis=1)


def _oriented(gray: NDArray[Any], cell: int) -> Floats:
    """Return histograms (n, 8, …): norms of gradients by orientation, means over cells of an image."""
    padded = np.pad(gray, ((0, 0), (1, 1), (1, 1)), mode="edge")
    across = padded[:, 1:-1, 2:] - padded[:, 1:-1, :-2]
    along = padded[:, 2:, 1:-1] - padded[:, :-2, 1:-1]
    norm, angle = np.hypot(across, along), np.arctan2(along, across) * (_BINS / (2 * math.pi))
    # A gradient is shared by the two nearest of the equally spaced orientations.
    shares = (1 - np.abs((angle - k + _BINS / 2) % _BINS - _BINS / 2) for k in range(_BINS))
    return np.stack([_pooled(norm * np.maximum(share, 0.0), cell) for share in shares], axis=1)


def _pooled(x: NDArray[Any], size: int) -> Floats:
    """Return means over squares of `size` pixels (…, height // size, width // size)."""
    high, wide = (side // size for side in x.shape[-2:])
    cut = x[..., : high * size, : wide * size]
    return np.asarray(cut.reshape(*x.shape[:-2], high, size, wide, size).mean(axis=(-3, -1)))


def _unit(x: NDArray[Any]) -> Floats:
    """Return vectors (n, d) divided by their norms."""
    return np.asarray(x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), _TINY))


def to_steps(x: Floats) -> NDArray[np.int16]:
    """Return vectors (n, d) of norm at most 1 in integer steps, rounded towards zero."""
    return np.trunc(x * _SCALE).astype(np.int16)


class Products(Query):
    """Query: the sum of φ φᵀ, for features φ in integer steps."""

    moment, slots, non_negative, radius = 2, 1, True, LENGTH

    def __init__(self, width: int) -> None:
        self.width = width

    def answer(self, records: Records) -> tuple[Integers, Integers]:
        return np.zeros(len(records[0]), np.int64), records[0].astype(np.int64)


class Gradients(Query):
    """Query: the sum of r zᵀ, for z and the residuals r of a classifier in integer steps.

    Arguments:
        weights: W (K, d).
    """

    moment, slots, non_negative, radius = 1, 1, False, LENGTH**2

    def __init__(self, weights: Floats) -> None:
        self.weights, self.width = weights, weights.size

    def factors(self, records: Records) -> tuple[Floats, Floats]:
        """Return r (n, K) and z (n, d) of features and labels; r is 0 where r zᵀ would be too long."""
        z = records[0].astype(np.float64)
        residuals = -softmax(z @ (self.weights.T / _SCALE), axis=1)
        residuals[np.arange(len(z)), records[1]] += 1.0
        norms = np.linalg.norm(residuals, axis=1, keepdims=True)
        r = np.trunc(residuals / np.maximum(norms, 1.0) * _SCALE)
        inside = (r**2).sum(axis=1) * (z**2).sum(axis=1) <= float(self.radius) ** 2
        return np.where(inside[:, None], r, 0.0), z

    def answer(self, records: Records) -> tuple[Integers, Integers]:
        r, z = self.factors(records)
        outer = (r[:, :, None] * z[:, None]).reshape(len(z), -1)
        return np.zeros(len(z), np.int64), outer.astype(np.int64)

    def add(self, total: Integers, records: Records) -> None:
        """See `Query`: integers below 2^53 are summed exactly, without forming the products."""
        r, z = self.factors(records)
        total += (r.T @ z).astype(np.int64).reshape(1, -1)


def whitening_matrix(released: NoisySums, count: int) -> tuple[NDArray[np.float32], float]:
    """Return A (d, d), and the number of directions above the noise, with n = `count`."""
    scale = count * float(_SCALE) ** 2
    width = released.sums.shape[-1]
    noise = released.stddev / scale * math.sqrt(2 * width)  # spectral norm (Wigner's semicircle)
    eigenvalues, basis = np.linalg.eigh(released.sums[0] / scale)
    floored = np.maximum(eigenvalues, 0.0) + _FLOOR * noise
    num_above = float((np.maximum(eigenvalues - noise, 0.0) / floored).sum())
    return ((basis / np.sqrt(floored)) @ basis.T).astype(np.float32), max(num_above, 1.0)


def descend(rounds: Rounds, shape: tuple[int, int], step: float, count: int) -> Floats:
    """Return the mean of W (K, d) = `shape` over the last half, with η = `step` and n = `count`."""
    weights, velocity, total = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    for t in range(_ROUNDS):
        released = rounds.release(Gradients(weights))
        gradient = released.sums.reshape(shape) / (count * float(_SCALE) ** 2)
        velocity = _MOMENTUM * velocity + (1 - _MOMENTUM) * gradient
        weights = weights + step * velocity
        total += weights if 2 * t >= _ROUNDS else 0.0
    return np.asarray(total / (_ROUNDS // 2))


@dataclass(frozen=True, eq=False, repr=False)
class LinearClassifier(Learned):
    """Linear classifier of records, with the guarantee of the releases that it was learned from."""

    kind: ClassVar[ModelKind] = ModelKind("central.linear", 1, "privot.central.fit_classifier")

    map: Features  # map of records to features, and the column to predict
    whitening: NDArray[np.float32]  # A (d, d)
    weights: Floats  # W (K, d)
    plan: SumPlan  # plan of the releases

    @property
    def guarantee(self) -> ApproximateDP:
        """Guarantee of all declared releases together."""
        return self.plan.guarantee

    @property
    def classes(self) -> NDArray[Any]:
        """Values (K,) of the label, in the order of probabilities."""
        label, rng = self.map.label, np.random.default_rng(0)  # categories draw nothing
        codes = np.arange(len(self.weights))
        return np.asarray(
            pa.array(self.map.schema.coded[label].decode_codes(label, codes, rng)[label])
        )

    def predict_proba(self, table: Any) -> Floats:
        """Return probabilities (n, K) of the label of each row; the table may lack the label.

        Raises:
            PrivotError: if a column is missing, or the schema does not allow a value.
        """
        if isinstance(table, str | Path):
            table = read_table(table, self.map.schema)
        table, inputs = as_table(table), self.map.inputs
        if self.map.label in table.column_names:
            table = table.drop_columns([self.map.label])
        chunks = encoded_chunks(raw_records(table, inputs.schema), inputs)()
        features = (self.map.features(encoded[0]) for encoded in chunks)
        scores = [_unit(x @ self.whitening) @ self.weights.T for x in features]
        return np.asarray(softmax(np.concatenate(scores), axis=1))

    def predict(self, table: Any) -> NDArray[Any]:
        """Return the most probable value of the label of each row (n,); see `predict_proba`."""
        return np.asarray(self.classes[self.predict_proba(table).argmax(axis=1)])

    def fields(self) -> dict[str, Any]:
        fields = {"schema": self.map.schema.to_dict(), "label": self.map.label}
        return fields | {"plan": self.plan.to_dict()}

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {"whitening": self.whitening, "weights": self.weights}

    @classmethod
    def build(cls, stored: Stored) -> Self:
        fields, arrays = stored.fields, stored.arrays
        features = Features.of(Schema.from_dict(fields["schema"]), fields["label"])
        plan = SumPlan.from_dict(fields["plan"])
        return cls(features, arrays["whitening"], arrays["weights"], plan)


def fit_classifier(
    table: Any,
    schema: Schema,
    *,
    label: str | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    neighboring: Neighboring = "replace_one",
    checkpoint: str | Path | None = None,
    resume: bool = False,
) -> LinearClassifier:
    """Learn to predict a column of private records from the others, with (ε, δ)-differential privacy.

    Arguments:
        table: Private records, as for `privot.central.fit`, in whose account this run is entered.
        schema: Schema of labeled images, labeled vectors, or a table of codes and numbers.
        label: Column of categories to predict; None for the only one.
        epsilon: ε of the whole run; omitted if the schema promises ε, with `where = "central"`.
        delta: δ of the whole run, 1e-5 by default; omitted if the schema promises ε.
        neighboring: Who may differ: `replace_one`, or `zero_out`, a weaker promise with less noise.
        checkpoint: File of the run's state; its ledger is written beside it, as `<name>.ledger`.
        resume: Whether to continue from checkpoint and ledger; a finished run is returned again.

    Raises:
        PrivotError: if records or label cannot be used, noise would hide all labels, the ledger has
            another plan, or the run to be resumed has other records or labels.
        Interrupted: on SIGINT or SIGTERM, after state and ledger were saved.

    Examples:
        >>> people = {"old": [True, False] * 5000, "sick": [True, False] * 5000}
        >>> schema = Schema.from_dict({"columns": {name: {"kind": "boolean"} for name in people}})
        >>> classifier = fit_classifier(people, schema, label="sick", epsilon=5.0)
        >>> classifier.predict({"old": [True, False]}).tolist(), str(classifier.guarantee)
        ([True, False], 'ε = 5, δ = 1e-05, replace_one, per person')
    """
    require_promised(schema, neighboring)
    features = Features.of(schema, label)
    source = raw_records(table, schema)
    budget = budget_of(schema, epsilon, delta, source.num_rows or 0)
    signal = budget.signal(1)
    noise = 2 * _PROGRESS / math.sqrt(max(signal, _TINY))
    effect = f"noise of {noise:.2g} on every score would hide the labels"
    budget.require_signal(noise**2, _MAX_NOISE**2, "records", effect, "a larger delta")
    shares = [_FIRST_SHARE, *[(1 - _FIRST_SHARE) / _ROUNDS] * _ROUNDS]
    plan = replace(budget.plan(shares), neighboring=neighboring)
    path = None if checkpoint is None else Path(checkpoint)
    with closing(open_ledger(plan, path, resume)) as ledger:
        state = Checkpoint(path, {"ledger": ledger.id, "label": features.label}, resume)
        x, labels, digest = gather(encoded_chunks(source, features.records), features)
        rounds = Rounds(SumMechanism((x, labels), ledger, digest), state)
        matrix, num_above = whitening_matrix(rounds.release(Products(x.shape[1])), len(x))
        for start in range(0, len(x), CHUNK):  # the mechanism sums these features from now on
            part = x[start : start + CHUNK]
            part[:] = to_steps(_unit(part @ matrix))
        step = min(_PROGRESS * math.sqrt(signal) / _ROUNDS, _MAX_STEP * num_above)
        num_labels = schema.coded[features.label].alphabet.size
        weights = descend(rounds, (num_labels, x.shape[1]), step, len(x))
    return LinearClassifier(features, matrix, weights, plan)


def gather(chunks: Chunks, features: Features) -> tuple[NDArray[np.int16], Integers, str]:
    """Return the features (n, d) in integer steps, the labels (n,) and the fingerprint of records."""
    parts: list[tuple[NDArray[np.int16], Integers]] = []

    def append_features() -> Iterator[Records]:
        for records in chunks():
            inputs, labels = features.split(records)
            parts.append((to_steps(features.features(inputs)), labels))
            yield records

    digest = fingerprint_of(append_features())
    x, labels = (np.concatenate(part) for part in zip(*parts, strict=True))
    return x, labels, digest
