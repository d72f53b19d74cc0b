r"""The slicing mechanism: the only code that touches private records.

A release is (U, XU + V): U ∈ R^{d×k} public unit columns drawn afresh and independently of the
data, X the records of a secret batch, V independent N(0, σ²) (Rakotomamonjy, Ralaivola 2021; here
with exact accounting, see `privot.privacy.slicing`). Everything computed from releases is
post-processing.

**Adjacency** is the plan's: `replace_one`, one unit's record becomes any other; `zero_out`, a blank.
The unit is the record map's, and the plan's must be the same. One record of each is assumed: nothing
here can see whether two records belong to one unit.
**Δ** is 2R, √2·R for records with ⟨r, r′⟩ ≥ 0, or R for zero_out with padded Poisson batches: features
are clipped to the public radius here, whatever the map does, and a record whose features overflow counts
as zeros: NaN would pass the clipping and show who was drawn, a refusal would show that somebody has such
a record. No batch norm, no batch maximum: the row of a slot is a function of the one record in it.
**Noise** is a Gaussian rounded to a power-of-two grid exactly, added in integers to projections
that were rounded to the same grid; coins of noise and of batches are the operating system's.
**Directions** are drawn here as well, from the words that noise is made of: no resumed run and no forked
process may repeat directions, for the accounting averages over each release's own.
**Count first**: the plan's whole guarantee is entered in the account of these records before the first
release (`privot.disk.accounts`), and the ledger is charged before a batch is drawn; without budget
nothing happens. Threads may share a mechanism: the ledger keeps them apart.

**Who sees what.** Releases have public shapes, (rows, k), whoever was drawn. What else depends on raw
records stays with the curator: the fingerprint of values and labels by which a second run on the same
records is seen, the warning of it, and the time of a release (rows are grouped by label for speed, and
the rejections of the samplers), so releases are not to be timed by anyone but the curator. Nothing is
logged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from privot.disk import Ledger, charge, fingerprint
from privot.errors import PrivotError
from privot.mechanisms.samplers.rounded_gaussian import sample_rounded_gaussian
from privot.sliced.curator_table import whole_records
from privot.sliced.records import RecordMap
from privot.sliced.releases.drawing import EMPTY, draw_batch, draw_directions
from privot.sliced.releases.plan import SlicePlan

_CHUNK = 4096
# Clipped records aim this much inside the ball, so that rounding errors never leave it.
_INSIDE = 1.0 - 2.0**-40


@dataclass(frozen=True, eq=False)
class Slices:
    """One release: noisy projections `values` (rows, k) and the `directions` (d, k) they belong to.

    Examples:
        >>> Slices(directions=torch.eye(4)[:, :2], values=torch.zeros(8, 2)).values.shape
        torch.Size([8, 2])
    """

    directions: Tensor
    values: Tensor


class SlicingMechanism:
    """Owns private records and the ledger; gives out noisy slices until the budget is spent.

    Arguments:
        values: Raw records (n, …), floats, as the map takes them.
        labels: Their labels (n,), in range(num_labels); None where there are none.
        record_map: How they become features.
        ledger: What may be released.

    Raises:
        PrivotError: if records and plan do not fit each other, or a value is not finite.
    """

    def __init__(
        self,
        values: ArrayLike | Tensor,
        labels: ArrayLike | Tensor | None,
        record_map: RecordMap,
        ledger: Ledger[SlicePlan],
    ) -> None:
        accounting = ledger.plan.accounting
        values = given_values(values)
        dim = record_map.num_labels * record_map.width
        if len(values) != accounting.records or dim != accounting.dim:
            raise PrivotError(
                f"{len(values):,} records of {dim} coordinates do not fit a plan for "
                f"{accounting.records:,} of {accounting.dim}: calibrate it for them"
            )
        if accounting.non_negative and not record_map.non_negative:
            raise PrivotError(
                "the plan counts on non_negative records, this map's may point apart: "
                "calibrate with non_negative=False"
            )
        if accounting.unit != record_map.unit:
            raise PrivotError(
                f"the plan promises per {accounting.unit}, a record belongs to one {record_map.unit}: "
                "calibrate it for the unit of the records"
            )
        self.map, self.ledger = record_map, ledger
        self._values = _prepared(values, record_map)
        self._labels = given_labels(labels, len(values), record_map.num_labels)
        self._rows = ledger.plan.rows
        self._digest = fingerprint(
            whole_records(values.numpy(force=True), self._labels.numpy(force=True))
        )
        self._entered = False

    def release(self) -> Slices:
        """Noisy slices of one batch, along fresh directions; counted first.

        Raises:
            BudgetExhausted: if no release is left.
        """
        if not self._entered:
            charge(self._digest, self.ledger)
            self._entered = True
        self.ledger.spend()
        directions = self._draw_directions()
        batch = draw_batch(self.ledger.plan, self._rows)
        values = np.empty((self._rows, directions.shape[1]), np.float32)
        for start in range(0, self._rows, _CHUNK):
            part = slice(start, start + _CHUNK)
            values[part] = self._noisy(self._project(batch[part], directions))
        return Slices(directions, torch.from_numpy(values))

    def _project(self, batch: np.ndarray, directions: Tensor) -> Tensor:
        """XU of the records in the slots, zeros in empty ones; (rows, k) in double precision."""
        chosen = torch.from_numpy(np.maximum(batch, 0))
        labels, order = self._labels[chosen].sort()
        batch, chosen = batch[order.numpy()], chosen[order]
        features = self.map.features(self._values[chosen].double()).double()
        radius = self.ledger.plan.accounting.radius
        norm = features.norm(dim=1, keepdim=True)
        features = torch.where(torch.isfinite(norm), features, 0.0)
        scale = torch.where(norm > radius * _INSIDE, radius * _INSIDE / norm, 1.0)
        scale[torch.from_numpy(batch == EMPTY)] = 0.0
        blocks = directions.double().reshape(self.map.num_labels, self.map.width, -1)
        ends = torch.bincount(labels, minlength=len(blocks)).cumsum(0).tolist()
        # Records are grouped for speed; what that does to last bits, the plan's grid pays for.
        projected = torch.cat(
            [
                features[start:end] @ block
                for block, start, end in zip(blocks, [0, *ends], ends, strict=False)
            ]
        )
        return (projected * scale)[torch.argsort(order)]

    def _noisy(self, projected: Tensor) -> np.ndarray:
        """Projections rounded to the grid, plus exactly rounded Gaussian noise, in integers."""
        plan = self.ledger.plan
        steps = np.rint(projected.numpy() / plan.grid).astype(np.int64)
        noise = sample_rounded_gaussian(steps.shape, plan.stddev / plan.grid)
        return (steps + noise) * plan.grid

    def _draw_directions(self) -> Tensor:
        accounting = self.ledger.plan.accounting
        return draw_directions(accounting.dim, accounting.num_projections, accounting.orthonormal)


def _prepared(values: Tensor, record_map: RecordMap) -> Tensor:
    prepared = torch.cat([record_map.prepare(part) for part in values.split(_CHUNK)])
    finite = torch.isfinite(prepared.flatten(1)).all(dim=1)
    if not bool(torch.isfinite(values[~finite]).all()):
        raise PrivotError("values hold NaN or infinity: replace or drop such records first")
    # Finite values that overflowed on the way are a record like any other.
    prepared[~finite] = 0.0
    return prepared


def given_values(values: ArrayLike | Tensor) -> Tensor:
    """Raw records (n, …) as numbers with fractions."""
    tensor = _as_tensor("values", values)
    if tensor.ndim == 0 or len(tensor) == 0:
        raise PrivotError("there are no records: give at least one")
    if not tensor.is_floating_point():
        raise PrivotError(
            f"values are {tensor.dtype}: give floats, scaled by public numbers (pixels to [0, 1])"
        )
    return tensor


def given_labels(labels: ArrayLike | Tensor | None, count: int, num_labels: int) -> Tensor:
    """Their labels (n,), int64; zeros where there are none."""
    if labels is None:
        if num_labels > 1:
            raise PrivotError(f"labels are missing: give one in 0 to {num_labels - 1} a record")
        return torch.zeros(count, dtype=torch.int64)
    given = _as_tensor("labels", labels)
    if given.shape != (count,):
        raise PrivotError(
            f"labels of shape {tuple(given.shape)} do not fit {count:,} records: give one a record"
        )
    whole = given.long()
    if bool(((whole != given) | (whole < 0) | (whole >= num_labels)).any()):
        raise PrivotError(
            f"labels hold what is no class of num_labels {num_labels}: give whole numbers from 0 to "
            f"{num_labels - 1}"
        )
    return whole


def _as_tensor(name: str, given: Any) -> Tensor:
    if isinstance(given, Tensor):
        return given
    try:
        array = np.asarray(given)
    except (TypeError, ValueError) as error:
        raise PrivotError(f"{name} are no array ({error}): give one of numbers") from None
    if array.dtype.kind not in "biuf":
        raise PrivotError(f"{name} are of {array.dtype}: give an array of numbers")
    return torch.tensor(array)
