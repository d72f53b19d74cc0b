"""What to expect of places, numbers and dates: a Wasserstein distance, by `mechanisms.planned_error`."""

from __future__ import annotations

from functools import partial

from privot.errors import PrivotError
from privot.mechanisms import Gaussian, Mechanism, mechanism_kinds
from privot.mechanisms.planned_error import planned_error
from privot.release.planning.columns import Expected, Way
from privot.schema import Column


def ways_of_places(column: Column, delta: float, *, alone: bool) -> dict[str, Way]:
    """All mechanisms of points that are for the column; alone, or beside others."""
    return {
        kind: partial(_expect, column, made, delta, alone)
        for kind, made in mechanism_kinds(column).items()
        if made.by_kind and not made.takes_codes
    }


def of_kind(column: Column, kind: type[Mechanism], epsilon: float, delta: float) -> Mechanism:
    """A mechanism of points for the column; δ is Gaussian noise's."""
    assert column.domain is not None
    if kind.shares_delta:
        return Gaussian.calibrate(column.domain, epsilon, delta)
    return kind.for_column(column, epsilon)


def _expect(
    column: Column, kind: type[Mechanism], delta: float, alone: bool, epsilon: float, people: int
) -> Expected:
    assert column.domain is not None
    made = of_kind(column, kind, epsilon, delta)
    if not alone and made.form(column).alone:
        raise PrivotError(f"mechanism {kind.kind!r} is learned from alone: use 'laplace'")
    return Expected(planned_error(made, column.domain, people))
