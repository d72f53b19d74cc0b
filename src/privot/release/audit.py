"""The audit of a whole randomizer: what its file promises, against what its noise does.

**By arithmetic.** The guarantee is computed again from the schema and the noise; a file that
states a smaller ε or δ, other neighbors or another unit is refuted without a single draw.

**By trial.** Every split column's mechanism, singly, and the joint report's at the fewest and the most
cells it can be asked for, draws reports of two records that are as far apart
as its domain allows, and `privot.privacy.audit` turns the draws into a lower bound on ε that holds
with the stated confidence. What is tried is the law of one column's report given that it is
reported; that columns are randomized independently, and how their budgets add up, is left to the
arithmetic. A bound above the promise refutes it. One below proves nothing: in many dimensions, or
for a δ far below one over the draws, it may be far below the truth.

A column's report is a function of the whole report, so what is promised for the whole holds for
each column too: a column is held to the smaller of its own ε and the stated one (where the stated
δ is no larger than the column's).

Each draw is reduced to its log-likelihood ratio and one coordinate, block by block: memory does not
grow with the dimension. The records are invented here; no private data is seen.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from privot.errors import PrivotError
from privot.mechanisms import FrequencyOracle, Mechanism, NullableNoise
from privot.privacy import ApproximateDP, PureDP, guarantee_from_dict
from privot.privacy.audit import Array, AuditResult, audit
from privot.release.randomizer import Randomizer
from privot.schema import Box, Domain, ImageDomain, L1Ball, L2Ball, Polyline

_MOST_DRAWS, _FEWEST_DRAWS = 1_000_000, 20_000
_TOTAL_DRAWS, _TOTAL_VALUES = 8_000_000, 2**26
_BLOCK_VALUES = 2**21

Pair = tuple[Array, Array]


@dataclass(frozen=True)
class ColumnAudit:
    """One column: with the audit's confidence, its ε at `delta` is at least `epsilon_lower`.

    `epsilon` is what is promised, `event` the family of events behind the bound, `num_tested` the
    draws of each record that tested it.
    """

    column: str
    mechanism: str
    epsilon: float
    delta: float
    epsilon_lower: float
    event: str
    num_tested: int

    @property
    def refuted(self) -> bool:
        """Whether the column lost more than promised."""
        return self.epsilon_lower > self.epsilon


@dataclass(frozen=True)
class RandomizerAudit:
    """What is `promised`, what the noise `implies` by arithmetic, and what trials found by column.

    All columns' bounds hold together with probability `confidence`.
    """

    promised: PureDP | ApproximateDP
    implied: PureDP | ApproximateDP
    columns: tuple[ColumnAudit, ...]
    confidence: float

    @property
    def overstated(self) -> bool:
        """Whether the arithmetic alone refutes the promise."""
        return (
            self.implied.epsilon > self.promised.epsilon
            or _delta(self.implied) > _delta(self.promised)
            or self.implied.neighboring != self.promised.neighboring
            or self.implied.unit != self.promised.unit
        )

    @property
    def refuted(self) -> bool:
        """Whether anything contradicts the promise."""
        return self.overstated or any(column.refuted for column in self.columns)


def audit_randomizer(
    randomizer: Randomizer,
    promised: PureDP | ApproximateDP | None = None,
    *,
    num_draws: int | None = None,
    confidence: float = 0.999,
) -> RandomizerAudit:
    """Try to refute the promise of a randomizer, column by column.

    Arguments:
        randomizer: What devices would apply.
        promised: The guarantee that somebody states for it; its own by default.
        num_draws: Draws of each record; by default a million, fewer for many columns or dimensions.
        confidence: Probability that all bounds are true.

    Raises:
        PrivotError: if num_draws < 100, or the confidence is out of range.
    """
    promised = promised or randomizer.guarantee
    tried = list(_answers(randomizer))
    error = (1 - confidence) / len(tried)
    columns = []
    for name, mechanism in tried:
        own, pairs = _column(randomizer, name, mechanism)
        result = _audit_pairs(
            mechanism,
            pairs,
            num_draws or default_draws(_width(pairs[0], mechanism), len(tried)),
            _delta(own),
            1 - error / len(pairs),
        )
        held_to = own.epsilon
        if _delta(promised) <= _delta(own):
            held_to = min(held_to, promised.epsilon)
        columns.append(
            ColumnAudit(
                name,
                mechanism.kind,
                held_to,
                _delta(own),
                result.epsilon_lower,
                result.event,
                result.num_tested,
            )
        )
    return RandomizerAudit(promised, randomizer.guarantee, tuple(columns), confidence)


def stated_guarantee(text: str) -> PureDP | ApproximateDP:
    """The guarantee that a randomizer's JSON states, as written, whatever its noise.

    Raises:
        PrivotError: if there is none, or of a kind that no randomizer has.
    """
    try:
        values = json.loads(text)["guarantee"]
        stated = guarantee_from_dict(values)
    except (PrivotError, ValueError, KeyError, TypeError, AttributeError):
        stated = None
    if not isinstance(stated, PureDP | ApproximateDP):
        raise PrivotError(
            "the randomizer states no guarantee that could be audited: "
            "write it again with `privot calibrate`"
        )
    return stated


def default_draws(dimension: int, num_columns: int) -> int:
    """Draws of each record of one column: a million, or what keeps an audit within seconds.

    >>> default_draws(dimension=1, num_columns=3)
    1000000
    """
    fair = min(_TOTAL_DRAWS // num_columns, _TOTAL_VALUES // (dimension * num_columns))
    return max(_FEWEST_DRAWS, min(_MOST_DRAWS, fair))


def farthest_pairs(domain: Domain) -> list[Pair]:
    """Pairs of points in unit coordinates, each point (d,), that attain the ℓ1 and ℓ2 diameters.

    >>> [(first.tolist(), second.tolist()) for first, second in farthest_pairs(Box((0.0,), (9.0,)))]
    [([-1.0], [1.0])]

    Raises:
        PrivotError: for a domain whose ends are not known here.
    """
    if type(domain) not in _ENDS:
        raise PrivotError(
            f"domain {type(domain).__name__} has no known farthest points: "
            f"use one of {', '.join(known.__name__ for known in _ENDS)}"
        )
    unit = domain.unit
    return [
        (unit.project(first[None])[0], unit.project(second[None])[0])
        for first, second in _ENDS[type(domain)](unit)
    ]


def _answers(randomizer: Randomizer) -> Iterator[tuple[str, Mechanism]]:
    """Every split column's mechanism, and the joint report's at its fewest and its most cells."""
    if randomizer.joint is not None:
        cells = sorted(set(randomizer.joint.num_cells.tolist()))
        for size in dict.fromkeys((cells[0], cells[-1])):
            yield f"joint report, {size:,} cells", randomizer.joint.mechanism(size)
    yield from randomizer.mechanisms.items()


def _width(pair: Pair, mechanism: Mechanism) -> int:  # of a report
    return mechanism.privatize(pair[0][None]).size


def _column(
    randomizer: Randomizer, name: str, mechanism: Mechanism
) -> tuple[PureDP | ApproximateDP, list[Pair]]:
    if isinstance(mechanism, FrequencyOracle):
        last = mechanism.num_values - 1
        # Every pair should do; a mechanism that errs at an end of its alphabet shows it here.
        codes = [(0, 1)] if last == 1 else [(0, 1), (0, last)]
        return mechanism.guarantee(), [(np.int64(a), np.int64(b)) for a, b in codes]  # type: ignore[misc]  # records are codes here
    domain = randomizer.schema.point_column(name).domain
    pairs = farthest_pairs(domain)
    if isinstance(mechanism, NullableNoise):
        pairs = mechanism.worst_pairs(pairs, domain)
    return mechanism.guarantee(domain, randomizer.delta), pairs


def _audit_pairs(
    mechanism: Mechanism, pairs: list[Pair], num_draws: int, delta: float, confidence: float
) -> AuditResult:
    results = [
        audit(
            _draw_scores(mechanism, pair),
            [(0, 1)],
            num_draws=num_draws,
            delta=delta,
            confidence=confidence,
            score=lambda outputs, record, other: outputs[:, 0] * (other - record),
        )
        for pair in pairs
    ]
    return max(results, key=lambda result: result.epsilon_lower)


def _draw_scores(mechanism: Mechanism, pair: Pair) -> Callable[[int, int], Array]:
    """Draw reports of one record of the pair as rows (log-likelihood ratio, one coordinate)."""
    widest = int(np.argmax(np.abs(np.subtract(*pair)))) if pair[0].ndim else 0

    def draw(which: int, count: int) -> Array:
        scores = np.empty((count, 2))
        for rows in _blocks(count, _width(pair, mechanism)):
            records = np.broadcast_to(pair[which], (rows.stop - rows.start, *pair[which].shape))
            reports = mechanism.privatize(records)
            first, second = (mechanism.log_likelihood(reports, record) for record in pair)
            scores[rows, 0] = first - second
            scores[rows, 1] = reports.reshape(len(reports), -1)[:, widest]
        return scores

    return draw


def _blocks(count: int, width: int) -> Iterator[slice]:
    step = max(1, _BLOCK_VALUES // width)
    return (slice(start, min(start + step, count)) for start in range(0, count, step))


def _delta(guarantee: PureDP | ApproximateDP) -> float:
    return guarantee.delta if isinstance(guarantee, ApproximateDP) else 0.0


def _box_ends(box: Box) -> list[Pair]:
    return [(np.asarray(box.lower), np.asarray(box.upper))]


def _l2_ball_ends(ball: L2Ball) -> list[Pair]:
    # Spread over all coordinates, the two points are ℓ1-farthest among those ℓ2-farthest.
    d = ball.dimension
    if not ball.non_negative:
        return [(np.full(d, -1 / np.sqrt(d)), np.full(d, 1 / np.sqrt(d)))]
    low = np.arange(d) < d // 2
    return [(low / np.sqrt(max(1, d // 2)), ~low / np.sqrt(d - d // 2))]


def _l1_ball_ends(ball: L1Ball) -> list[Pair]:
    corner = np.eye(ball.dimension)[0]
    if not ball.non_negative:
        return [(-corner, corner)]
    return [(np.eye(ball.dimension)[1] if ball.dimension > 1 else 0 * corner, corner)]


def _polyline_ends(line: Polyline) -> list[Pair]:
    points = np.asarray(line.corners)
    pairs = set()
    for norm in (1, 2):
        distances = [np.linalg.norm(points - corner, ord=norm, axis=1) for corner in points]
        first, second = np.unravel_index(int(np.argmax(distances)), (len(points), len(points)))
        pairs.add((int(first), int(second)))
    return [(points[first], points[second]) for first, second in sorted(pairs)]


_ENDS: dict[type, Callable[[Any], list[Pair]]] = {
    Box: _box_ends,
    L2Ball: _l2_ball_ends,
    L1Ball: _l1_ball_ends,
    Polyline: _polyline_ends,
    ImageDomain: ImageDomain.far_apart,
}
