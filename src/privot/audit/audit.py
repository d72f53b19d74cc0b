"""Audit of a whole randomizer: its stated guarantee against the behavior of its noise.

**By arithmetic.** The guarantee is computed again from the schema and the noise; a file that states a
smaller ε or δ, other neighbors or another unit is refuted without a single draw. Two machines may round
a logarithm differently, and the inverse of a Gaussian's curve is found to a relative 1e-9, so ε counts
as smaller only by more than 2e-9 of itself: no honest file is refuted, and no guarantee overstated by
more than that passes.

**By distribution.** Raw values of invented people, inside the declared limits and a thousand times as
far out, go through `Randomizer.privatize` as on a device. The reports must be possible (on the grid,
sets of the right size); turned into uniform numbers by each mechanism's own distribution
(`Mechanism.probability_cells`), they must fit it, tails included, for every record, in one call and one
by one; no noisy report may be more frequent than it allows; the noise must be independent between
coordinates, columns, people, calls, threads and forked processes; and which columns are reported must
not depend on the record.

**By trial.** The reports of two records that are as far apart as the domain allows give a lower bound
on ε (`privot.audit.statistics`). For Gaussian noise, whose δ may be far below one over the draws, they
bound μ, the distance of the two distributions: in Gaussian differential privacy a parameter as good as
ε and δ. A bound above the guarantee refutes it; one below proves nothing. And no report that was drawn
may be e^ε times likelier, by the distribution that was tested, for one record than for another, where
the guarantee is pure.

A column's report is a function of the whole report, so the guarantee of the whole holds for each column
too: the limit of a column is the smaller of its own ε and the stated one (where the stated δ is no
larger than the column's).

**Errors.** All tests and bounds have error probabilities that hold for every number of draws. Tests
share half of 1 − confidence equally, bounds the other half, which limits how often an honest randomizer
is refuted.

**What no audit finds**: a leak that shows only in more draws than are made, or only for records that are
not tried; code that behaves differently elsewhere than here; access to the raw values before the noise.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from privot.audit.law import LawTest, Sample, draw_sample, test_law
from privot.audit.statistics import AnyArray, AuditResult, audit, gaussian_mu_lower
from privot.audit.trials import Trial, trials
from privot.core.errors import PrivotError
from privot.privacy import ApproximateDP, PureDP, calibrate_gaussian, guarantee_from_dict
from privot.randomizer.randomizer import Randomizer

_ROUNDING = 2e-9
_LOG_ROUNDING = 1e-11  # of a sum of logarithms over the coordinates of a report


@dataclass(frozen=True)
class ColumnAudit:
    """One part of the report: with the audit's confidence, its ε at `delta` is ≥ `epsilon_lower`.

    `epsilon` is the guarantee, `event` the family of events behind the bound, `num_tested` the draws of
    each record that tested it; `mu` and `mu_lower` are the same for Gaussian noise. `ratio` is the
    largest log-likelihood ratio, by the part's own distribution, of a report that was drawn: at δ = 0 no
    larger than ε.
    """

    column: str
    mechanism: str
    epsilon: float
    delta: float
    epsilon_lower: float
    event: str
    num_tested: int
    ratio: float
    mu: float | None = None
    mu_lower: float | None = None

    @property
    def refuted(self) -> bool:
        """True if the column's loss exceeds its guarantee."""
        if self.mu is not None and self.mu_lower is not None and self.mu_lower > self.mu:
            return True
        likelier = self.delta == 0 and self.ratio > self.epsilon * (1 + _ROUNDING) + _LOG_ROUNDING
        return likelier or self.epsilon_lower > self.epsilon


@dataclass(frozen=True)
class RandomizerAudit:
    """Result of an audit: the guarantee `promised`, that `implied` by the noise, and all tests.

    All bounds and tests hold together with probability `confidence`.
    """

    promised: PureDP | ApproximateDP
    implied: PureDP | ApproximateDP
    tests: tuple[LawTest, ...]
    columns: tuple[ColumnAudit, ...]
    confidence: float

    @property
    def overstated(self) -> bool:
        """True if the arithmetic alone refutes the guarantee."""
        return (
            self.implied.epsilon > self.promised.epsilon * (1 + _ROUNDING)
            or _delta(self.implied) > _delta(self.promised)
            or self.implied.neighboring != self.promised.neighboring
            or self.implied.unit != self.promised.unit
        )

    @property
    def refuted(self) -> bool:
        """True if anything contradicts the guarantee."""
        found = any(test.refuted for test in self.tests)
        return self.overstated or found or any(column.refuted for column in self.columns)


def audit_randomizer(
    randomizer: Randomizer,
    promised: PureDP | ApproximateDP | None = None,
    *,
    num_draws: int | None = None,
    confidence: float = 0.999,
) -> RandomizerAudit:
    """Try to refute the guarantee of a randomizer.

    Arguments:
        randomizer: The randomizer that devices apply.
        promised: The guarantee stated for it; its own by default.
        num_draws: Reports of each invented record; by default some 10⁵, fewer for many dimensions.
        confidence: Probability that an honest randomizer passes.

    Raises:
        PrivotError: if num_draws < 100, or the confidence is out of range.
    """
    if num_draws is not None and num_draws < 100:
        raise PrivotError(f"num_draws is {num_draws}: give at least 100")
    if not 0 < confidence < 1:
        raise PrivotError(f"confidence is {confidence!r}: give a number between 0 and 1")
    promised = promised or randomizer.guarantee
    parts = trials(randomizer)
    rng = np.random.default_rng()  # for invented people, and points of cells: no noise
    error = (1 - confidence) / 2
    try:
        sample = draw_sample(randomizer, parts, num_draws, rng)
    except PrivotError as refusal:
        # A device refused a record that the schema allows, or made a report that it cannot make.
        tests = (LawTest("every record has a possible report", 0.0, 0.0, str(refusal)),)
        return RandomizerAudit(promised, randomizer.guarantee, tests, (), confidence)
    found = test_law(randomizer, parts, sample, error, rng)
    tried = [part for part in parts if part.pairs]
    bounds = sum(len(part.pairs) * (1 + (part.gaussian_mu() is not None)) for part in tried)
    columns = tuple(_column(part, sample, promised, error / bounds) for part in tried)
    return RandomizerAudit(promised, randomizer.guarantee, found, columns, confidence)


def stated_guarantee(text: str) -> PureDP | ApproximateDP:
    """Return the guarantee that a randomizer's JSON states, as written, whatever its noise.

    Raises:
        PrivotError: if there is none, or of a kind that no randomizer has.
    """
    try:
        values = json.loads(text)["guarantee"]
        stated = guarantee_from_dict(values)
    except (PrivotError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        stated = None
    if not isinstance(stated, PureDP | ApproximateDP):
        raise PrivotError(
            "the randomizer states no guarantee to audit: write it again with `privot calibrate`"
        )
    return stated


def _column(
    part: Trial, sample: Sample, promised: PureDP | ApproximateDP, error: float
) -> ColumnAudit:
    """Bound the loss of one part, the largest over its pairs, each wrong with probability `error`."""
    own, mu = part.guarantee(), part.gaussian_mu()
    epsilon, delta = own.epsilon, _delta(own)
    if _delta(promised) <= delta:
        epsilon = min(epsilon, promised.epsilon)
    if mu is not None and _delta(promised) > 0:
        # The loosest μ that the stated ε and δ allow, rounded up.
        mu = min(mu, (1 + _ROUNDING) / calibrate_gaussian(1.0, promised.epsilon, _delta(promised)))
    bounds, apart, ratio = [], 0.0, 0.0
    for pair in part.pairs:
        scores = _scores(part, sample, pair)
        ratio = max(ratio, *(float(np.abs(drawn).max()) for drawn in scores))
        bounds.append(_bound(scores, delta, error))
        if mu is not None:
            apart = max(apart, gaussian_mu_lower(*scores, error))
    best = max(bounds, key=lambda result: result.epsilon_lower)
    tried = (best.epsilon_lower, best.event, best.num_tested, ratio)
    return ColumnAudit(
        part.name, part.kind, epsilon, delta, *tried, mu, None if mu is None else apart
    )


def _bound(scores: tuple[AnyArray, AnyArray], delta: float, error: float) -> AuditResult:
    return audit(
        lambda which, count: scores[which],
        [(0, 1)],
        num_draws=len(scores[0]),
        delta=delta,
        confidence=1 - error,
        score=lambda outputs, record, other: outputs * (other - record),
    )


def _scores(part: Trial, sample: Sample, pair: tuple[int, int]) -> tuple[AnyArray, AnyArray]:
    """Return log-likelihood ratios of equally many reports of either record of a pair."""
    who, table = sample.who[part.name], sample.table
    rows = [np.flatnonzero(who == record) for record in pair]
    fewest = min(map(len, rows))
    first, second = (part.log_ratio(table.take(pa.array(own[:fewest])), *pair) for own in rows)
    return first, second


def _delta(guarantee: PureDP | ApproximateDP) -> float:
    return guarantee.delta if isinstance(guarantee, ApproximateDP) else 0.0
