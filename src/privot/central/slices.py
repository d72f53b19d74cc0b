r"""Noisy slices of private records: the plan of a run, batches and directions, and the mechanism.

**Mechanism.** A release is (U, XU + V). U ∈ R^{d×k} has public unit columns, drawn for each release and
independently of the data; the rows of X are the records of a secret batch; and V has independent N(0,
σ²) entries (Rakotomamonjy, Ralaivola 2021; `privot.privacy.slice_accounting` accounts for it exactly).
Everything computed from releases is post-processing.

- **Adjacency** is declared by the plan. With `replace_one`, the record of one unit becomes any other;
  with `zero_out`, it becomes blank. The plan and the record map must have the same unit. Each unit must
  have only one record, which the mechanism cannot check.
- **Δ** is 2R, √2·R for records with ⟨r, r′⟩ ≥ 0, or R for zero_out with padded Poisson batches. The
  mechanism clips features to the public radius R. A record whose features overflow counts as zeros: NaN
  would pass the clipping and reveal that the record was drawn, and a refusal would reveal that it
  exists. There is no batch norm and no batch maximum: the row of a slot depends on its record alone.
- **Noise** is an exact Gaussian rounded to a power-of-two grid, added in integers to projections rounded
  to the same grid. Noise and batches use the operating system's entropy.
- **Count first**: the plan's whole guarantee is entered in the account of these records before the first
  release (`privot.privacy.ledger`), and the ledger is charged before a batch is drawn. Threads may share
  a mechanism: the ledger numbers their releases.

**Grid.** Projections are rounded to multiples of a power of two g, far below the noise; the accountant
uses a grid of (2 + √rows)·g. One g covers the rounding of two neighbors (½ each). Another covers the
floating-point error of projections: in double precision it is below d·2^−52·R, and the plan is refused
unless this is at most g/2. The rest covers the **other** rows of a batch: labels determine which rows
are multiplied together, and so the last bits of all projections. Each projection may change by one g,
and the k projections of all rows by √(rows·k)·g in norm.

**Batches** are drawn by the scheme that is accounted. Amplification by sampling holds only if nobody
knows who was drawn, so batches are neither seeded, logged nor stored.

- `without_replacement`: a uniformly random subset of fixed size **in uniformly random order**.
- `padded_poisson`: every record is chosen with probability at most q, independently of the others. The
  chosen ones are put into uniformly random slots; the number of slots is public and constant, and the
  other slots stay empty. The accounting is conditional on enough slots; δ includes the probability of an
  overflow, in which case records without a slot are omitted.
- `none`: all records.

**Directions** are uniform on the sphere and never longer than 1, since the accounting averages over U
with independent uniform unit columns (or a uniform frame: orthonormal columns). Columns are normalized
Gaussian vectors from the operating system's entropy (`privot.mechanisms.samplers`). So no two runs,
threads or forked processes share directions, as the accounting requires. Box–Muller pairs

$$ (\sqrt{−2 \ln u} \cos φ, \sqrt{−2 \ln u} \sin φ), \qquad u = (w + ½)/2^{32}, \quad φ = π w'/2^{31} $$

in single precision, from 32-bit words w, w′, take half the time of a ziggurat. Coordinates beyond 6.76
standard deviations (1.4e-11 of them) do not occur, so the distribution of the projected sensitivity has
a lighter tail, not a heavier one.

**Norm of directions.** Columns are scaled to norm 1 − 2^−19 in single precision. Let ϖ = 2^−24 be its
unit roundoff, and d < 2^20. A square has one rounding, and numpy's pairwise sum of squares at most
19 + log₂(d/128) ≤ 32. The root halves these 33ϖ; root, quotient and product add 3ϖ. So the relative
error is below 20ϖ < 2^−19 to first order, and no norm exceeds 1. If a column has norm c ≤ 1, its part of
H = ‖Uᵀz‖², for a change z of one record, is multiplied by c². So given U, the mechanism is Gaussian with
a smaller sensitivity than the accounted one.

**Privacy review: who sees what.** Releases have public shapes (rows, k), whoever was drawn. Other
functions of raw records stay with the curator: the fingerprint of values and labels, which recognizes a
second run on the same records; the warning of such a run; and the time of a release, which depends on
the labels that group its rows, and on the samplers' rejections. The index of each slot stays inside the
mechanism; the time of drawing it depends only on coins and on the number of records. Nothing is logged.

References:
    Box, Muller, *A note on the generation of random normal deviates* (1958).
    Rakotomamonjy, Ralaivola, *Differentially private sliced Wasserstein distance* (2021).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from privot.central.records import FeatureMap
from privot.central.sums import Integers, whole_records
from privot.core.errors import PrivotError
from privot.mechanisms.gaussian import sample_rounded_gaussian
from privot.mechanisms.samplers import random_words, uniforms_below
from privot.privacy import ApproximateDP
from privot.privacy.ledger import Ledger, Plan, charge, fingerprint
from privot.privacy.slice_accounting import Method, SlicedAccounting

EMPTY = -1  # index of an empty slot
# The grid is at least 2^19 times finer than the root mean square sensitivity of a projection, and so
# far below useful noise.
_GRID_BITS = 19
# Columns are scaled to this norm, so that errors of single precision never make one longer than 1.
_LENGTH = 1.0 - 2.0**-19
# Records are clipped to this factor times the radius, so that rounding errors never exceed it.
_INSIDE = 1.0 - 2.0**-40
_CHUNK = 4096  # records projected at once


@dataclass(frozen=True)
class SlicePlan(Plan):
    """Declared releases of a run, and the noise for their (ε, δ).

    The plan is public, and fixed before private data are read. Its guarantee covers all releases,
    however many are made; `privot.privacy.ledger` explains why no smaller one may be claimed for a part.

    Arguments:
        accounting: Parameters of the accounting; its `grid` is at least (2 + √rows) times `grid` below.
        stddev: Standard deviation σ of the noise of one projection of one row.
        steps: Number of releases.
        delta: δ of the guarantee.
        grid: Power of two g to which projections and noise are rounded.
        method: Accounting by `"pld"`, the privacy-loss distribution, or by `"rdp"`, Rényi divergences.

    Raises:
        PrivotError: if the accounting assumes a smaller grid, or double precision is too coarse.
    """

    accounting: SlicedAccounting
    stddev: float
    steps: int
    delta: float
    grid: float
    method: Method = "rdp"

    def __post_init__(self) -> None:
        accounted = self.accounting.grid >= accounted_grid(self.grid, self.rows)
        if math.frexp(self.grid)[0] != 0.5 or not accounted:
            raise PrivotError(
                f"grid {self.grid} is no power of two, or more than the accounted "
                f"{self.accounting.grid} pays for in {self.rows} rows: use SlicePlan.calibrate"
            )
        if self.accounting.dim * self.accounting.radius * 2.0**-52 > self.grid / 2:
            raise PrivotError(
                f"grid {self.grid} is too fine for double precision in {self.accounting.dim} "
                "dimensions: give fewer dimensions or more noise"
            )

    @classmethod
    def calibrate(
        cls,
        epsilon: float,
        delta: float,
        steps: int,
        accounting: Callable[[float], SlicedAccounting],
        method: Method = "rdp",
    ) -> Self:
        """Return the plan with the least noise for (ε, δ); `accounting` maps a grid to parameters."""
        without_grid = accounting(0.0)
        projected_sensitivity = without_grid.sensitivity / math.sqrt(without_grid.dim)
        grid = 2.0 ** (math.floor(math.log2(projected_sensitivity)) - _GRID_BITS)
        rows = without_grid.overflow(steps, delta).rows
        with_grid = accounting(accounted_grid(grid, rows))
        stddev = with_grid.calibrate(epsilon, delta, steps, method)
        return cls(with_grid, stddev, steps, delta, grid, method)

    @property
    def rows(self) -> int:
        """Number of rows of every release, including padding: public and constant."""
        return self.accounting.overflow(self.steps, self.delta).rows

    @property
    def uses(self) -> int:
        return self.steps

    @cached_property
    def guarantee(self) -> ApproximateDP:
        return self.accounting.guarantee(self.stddev, self.steps, self.delta, self.method)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        return cls(**fields | {"accounting": SlicedAccounting(**fields["accounting"])})


def accounted_grid(grid: float, rows: int) -> float:
    """Return the grid (2 + √rows)·g that accounts for batches of `rows` rows, rounded to g = `grid`."""
    return grid * (2 + math.sqrt(rows))


def draw_batch(plan: SlicePlan, rows: int) -> Integers:
    """Draw a batch: the index of the record in each slot, or `EMPTY` (rows,)."""
    accounting = plan.accounting
    if accounting.sampling == "none":
        return np.arange(accounting.records)
    if accounting.sampling == "padded_poisson":
        return fill_slots(poisson_sample(accounting.records, accounting.rate), rows)
    return ordered_sample(accounting.records, rows)


def ordered_sample(population: int, size: int) -> Integers:
    """Draw a uniformly random subset of `size` of range(population), in uniformly random order."""
    if 4 * size > population:  # redrawing repeated indices would take longer
        return random_order(population)[:size]
    chosen = np.empty(0, np.int64)
    while len(chosen) < size:
        more = uniforms_below(population, 2 * (size - len(chosen)) + 8)
        chosen = np.concatenate([chosen, more])
        _, first_occurrences = np.unique(chosen, return_index=True)
        chosen = chosen[np.sort(first_occurrences)]
    return chosen[:size]


def random_order(count: int) -> Integers:
    """Draw a uniform permutation: the ranks of 64-bit words, which are redrawn if two are equal."""
    while True:
        words = random_words(count)
        order = np.argsort(words, kind="stable")
        ranked = words[order]
        if not (ranked[1:] == ranked[:-1]).any():
            return order.astype(np.int64)


def poisson_sample(population: int, rate: float) -> Integers:
    """Choose each of range(population) with probability ⌊rate·2^64⌋/2^64 (1 if rate is 1)."""
    if rate >= 1:
        return np.arange(population)
    return np.flatnonzero(random_words(population) < np.uint64(int(rate * 2**64)))


def fill_slots(chosen: Integers, rows: int) -> Integers:
    """Put chosen records into uniformly random slots (rows,); the others are `EMPTY`."""
    slots = np.full(rows, EMPTY, np.int64)
    order = random_order(rows)
    slots[order[: len(chosen)]] = chosen[:rows]
    return slots


def draw_directions(dim: int, count: int, orthonormal: bool = False) -> Tensor:
    """Draw columns (d, k), float32: uniform and independent on the sphere, or a uniform frame.

    Arguments:
        dim: Dimension d.
        count: Number k of columns, at most d for a frame.
        orthonormal: Whether to draw a frame, whose columns are orthogonal to each other.

    Examples:
        >>> columns = draw_directions(5, 3)
        >>> columns.shape, bool((columns.norm(dim=0) - 1).abs().max() < 1e-5)
        (torch.Size([5, 3]), True)
    """
    normal = _normal(count, dim)
    if orthonormal:
        return (_LENGTH * torch.linalg.qr(normal.T.double()).Q).float()
    # Rows are contiguous: numpy then sums pairwise, which the bound on the length requires.
    squares = np.square(normal.numpy()).sum(axis=1)
    zeros = np.flatnonzero(squares == 0)  # for d = 1, once in 2^25: u is rounded to 1
    normal[zeros, 0], squares[zeros] = 1.0, 1.0
    normal *= torch.from_numpy(_LENGTH / np.sqrt(squares))[:, None]
    return normal.T


def _normal(rows: int, columns: int) -> Tensor:
    """Draw standard Gaussians (rows, columns) by Box and Muller."""
    half = (rows * columns + 1) // 2
    words = torch.from_numpy(random_words(half).view(np.int32).reshape(2, half))
    angle = words[0].float().mul_(math.pi / 2**31)
    # 2^31 is added to signed words in double precision, so that small u have all their bits.
    radius = words[1].double().add_(2.0**31 + 0.5).mul_(2.0**-32).float()
    radius = radius.log_().mul_(-2.0).sqrt_()
    pairs = torch.empty(2, half)
    torch.cos(angle, out=pairs[0]).mul_(radius)
    torch.sin(angle, out=pairs[1]).mul_(radius)
    return pairs.flatten()[: rows * columns].reshape(rows, columns)


@dataclass(frozen=True, eq=False)
class Slices:
    """Release: noisy projections `values` (rows, k) along `directions` (d, k)."""

    directions: Tensor
    values: Tensor


class SlicingMechanism:
    """Mechanism that holds private records, and releases noisy slices within the ledger's budget.

    Arguments:
        values: Raw records (n, …), floats of the shape that the map requires.
        labels: Labels of the records (n,), in range(num_labels); None without labels.
        record_map: Map from raw records to features.
        ledger: Ledger of the releases.

    Raises:
        PrivotError: if records and plan do not fit each other, or a value is not finite.
    """

    def __init__(
        self,
        values: ArrayLike | Tensor,
        labels: ArrayLike | Tensor | None,
        record_map: FeatureMap,
        ledger: Ledger[SlicePlan],
    ) -> None:
        accounting = ledger.plan.accounting
        values = require_values(values)
        dim = record_map.num_labels * record_map.width
        if len(values) != accounting.records or dim != accounting.dim:
            raise PrivotError(
                f"{len(values):,} records of {dim} coordinates do not fit a plan for "
                f"{accounting.records:,} of {accounting.dim}: calibrate it for them"
            )
        if accounting.non_negative and not record_map.non_negative:
            raise PrivotError(
                "the plan assumes non_negative records, and this map's may have negative inner "
                "products: calibrate with non_negative=False"
            )
        if accounting.unit != record_map.unit:
            raise PrivotError(
                f"the plan protects a {accounting.unit}, but a record belongs to a {record_map.unit}: "
                "calibrate it for the unit of the records"
            )
        self.map, self.ledger = record_map, ledger
        self._coordinates = _prepare(values, record_map)
        self._labels = require_labels(labels, len(values), record_map.num_labels)
        self._rows = ledger.plan.rows
        arrays = values.numpy(force=True), self._labels.numpy(force=True)
        self._digest = fingerprint(whole_records(*arrays))
        self._entered = False

    def release(self) -> Slices:
        """Count a release, and return noisy slices of a new batch along new directions.

        Raises:
            BudgetExhausted: if no release is left.
        """
        if not self._entered:
            charge(self._digest, self.ledger)
            self._entered = True
        self.ledger.spend()
        plan, declared = self.ledger.plan, self.ledger.plan.accounting
        directions = draw_directions(declared.dim, declared.num_projections, declared.orthonormal)
        batch = draw_batch(plan, self._rows)
        values = np.empty((self._rows, directions.shape[1]), np.float32)
        for start in range(0, self._rows, _CHUNK):
            part = slice(start, start + _CHUNK)
            projected = self._project(batch[part], directions).numpy()
            steps = np.rint(projected / plan.grid).astype(np.int64)
            noise = sample_rounded_gaussian(steps.shape, plan.stddev / plan.grid)
            values[part] = (steps + noise) * plan.grid
        return Slices(directions, torch.from_numpy(values))

    def _project(self, batch: np.ndarray, directions: Tensor) -> Tensor:
        """Return XU (rows, k) of a batch (rows,) in double precision, with zeros in empty slots."""
        chosen = torch.from_numpy(np.maximum(batch, 0))  # an empty slot has record 0, times 0
        # Records are grouped by label for speed; the plan's grid covers the effect on last bits.
        labels, order = self._labels[chosen].sort()
        batch, chosen = batch[order.numpy()], chosen[order]
        features = self.map.features(self._coordinates[chosen].double()).double()
        radius = self.ledger.plan.accounting.radius
        norm = features.norm(dim=1, keepdim=True)
        features = torch.where(torch.isfinite(norm), features, 0.0)
        scale = torch.where(norm > radius * _INSIDE, radius * _INSIDE / norm, 1.0)
        scale[torch.from_numpy(batch == EMPTY)] = 0.0
        # A record e_y ⊗ φ(x) is projected by the block of the directions that belongs to its label.
        blocks = directions.double().reshape(self.map.num_labels, self.map.width, -1)
        counts = torch.bincount(labels, minlength=len(blocks)).tolist()
        groups = zip(features.split(counts), blocks, strict=True)
        projected = torch.cat([group @ block for group, block in groups])
        return (projected * scale)[torch.argsort(order)]


def _prepare(values: Tensor, record_map: FeatureMap) -> Tensor:
    """Return the coordinates of raw records; refuse values that are not finite."""
    prepared = torch.cat([record_map.prepare(part) for part in values.split(_CHUNK)])
    finite = torch.isfinite(prepared.flatten(1)).all(dim=1)
    if not bool(torch.isfinite(values[~finite]).all()):
        raise PrivotError("values hold NaN or infinity: replace or drop such records first")
    prepared[~finite] = 0.0  # these values are finite, but their coordinates overflow
    return prepared


def require_values(values: ArrayLike | Tensor) -> Tensor:
    """Return raw records (n, …) as a tensor of floats; raise PrivotError for anything else."""
    tensor = _as_tensor("values", values)
    if tensor.ndim == 0 or len(tensor) == 0:
        raise PrivotError("there are no records: give at least one")
    if not tensor.is_floating_point():
        raise PrivotError(
            f"values are {tensor.dtype}: give floats, scaled by public numbers (pixels to [0, 1])"
        )
    return tensor


def require_labels(labels: ArrayLike | Tensor | None, count: int, num_labels: int) -> Tensor:
    """Return labels (count,), int64; None stands for zeros if `num_labels` is 1.

    Raises:
        PrivotError: unless labels are whole numbers in range(num_labels).
    """
    if labels is None:
        if num_labels > 1:
            raise PrivotError(
                f"labels are missing: give each record one from 0 to {num_labels - 1}"
            )
        return torch.zeros(count, dtype=torch.int64)
    numbers = _as_tensor("labels", labels)
    if numbers.shape != (count,):
        raise PrivotError(
            f"labels of shape {tuple(numbers.shape)} do not fit {count:,} records: give each one"
        )
    whole = numbers.long()
    if bool(((whole != numbers) | (whole < 0) | (whole >= num_labels)).any()):
        raise PrivotError(
            f"labels hold values that are no class of num_labels {num_labels}: give whole numbers from "
            f"0 to {num_labels - 1}"
        )
    return whole


def _as_tensor(name: str, numbers: Any) -> Tensor:
    """Return an array or tensor of numbers as a tensor; refuse anything else, under this name."""
    if isinstance(numbers, Tensor):
        return numbers
    try:
        array = np.asarray(numbers)
    except (TypeError, ValueError) as error:
        raise PrivotError(f"{name} are no array ({error}): give one of numbers") from None
    if array.dtype.kind not in "biuf":
        raise PrivotError(f"{name} are of {array.dtype}: give an array of numbers")
    return torch.tensor(array)
