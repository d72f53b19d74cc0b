"""Audit of a randomizer: tests whether its noise contradicts the guarantee that it states.

**Recomputed guarantee.** The guarantee is computed again from the schema and the noise. A stated ε or δ
that is smaller, or another neighboring relation or unit, is refuted without any draws. Machines may
round a logarithm differently, and the Gaussian calibration is accurate to a relative 1e-9, so an ε is
refuted only if it is too small by more than a relative 2e-9.

**Distribution.** `Randomizer.privatize` draws reports of invented people, whose values are inside the
declared limits, or a thousand times as far out. Every report must be possible (on the grid, or a set of
the right size). The mechanism's distribution function (`Mechanism.probability_cells`) maps the reports
of every record to numbers that must be uniform, whether reports are drawn in one call or one by one. No
noisy report may be more frequent than its probability allows. Noise must be independent between
coordinates, columns, people, calls, threads and forked processes, and the choice of reported columns
must not depend on the record.

**Lower bounds.** The reports of two records that are as far apart as the domain allows give a lower
bound on ε (`privot.audit.statistics`). For Gaussian noise, whose δ may be far below the inverse number
of draws, they also give a lower bound on μ of Gaussian differential privacy. A bound above the guarantee
refutes it; a bound below it proves nothing. Under a pure guarantee, the likelihood ratio of two records
must also be at most e^ε for every drawn report.

The report of one column is a function of the whole report, so the stated guarantee holds for every
column. The ε of a column is therefore bounded by its guarantee and by the stated ε (if the stated δ is
at most the column's).

**Errors.** The error probabilities of all tests and bounds hold for every number of draws. The tests
share one half of 1 − confidence equally, and the bounds the other half, so an honest randomizer is
refuted with probability at most 1 − confidence.

**Limits.** An audit misses leaks that show only in more draws or for other records, code that behaves
differently on other machines, and access to raw values before the noise.
"""

import json
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from privot.audit.law import LawTest, Sample, draw_sample, run_law_tests
from privot.audit.statistics import AnyArray, AuditResult, audit, gaussian_mu_lower, require_audit
from privot.audit.trials import Trial, trials
from privot.core.errors import PrivotError
from privot.privacy import ApproximateDP, PureDP, calibrate_gaussian, guarantee_from_dict
from privot.randomizer.randomizer import Randomizer

_ROUNDING = 2e-9  # relative tolerance of ε and μ
_LOG_ROUNDING = 1e-11  # absolute tolerance of a sum of logarithms over the coordinates of a report


@dataclass(frozen=True)
class ColumnAudit:
    """Guarantee of one part of the report, and a lower bound on its privacy loss.

    Arguments:
        column: Name of the part.
        mechanism: Kind of the mechanism.
        epsilon, delta: Guarantee of the part.
        epsilon_lower: Lower bound on ε at `delta`, with the audit's confidence.
        event: Family of the event that gives the bound.
        num_tested: Draws of each record that tested the event.
        ratio: Largest absolute log-likelihood ratio of a drawn report; at most ε if δ = 0.
        mu, mu_lower: Guarantee and lower bound on μ; None unless the noise is Gaussian.
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
        if self.delta == 0 and self.ratio > self.epsilon * (1 + _ROUNDING) + _LOG_ROUNDING:
            return True
        return self.epsilon_lower > self.epsilon


@dataclass(frozen=True)
class RandomizerAudit:
    """Result of an audit: the promised guarantee, the one implied by the noise, tests and bounds.

    With probability at least `confidence`, all bounds hold and no true hypothesis is rejected.
    """

    promised: PureDP | ApproximateDP
    implied: PureDP | ApproximateDP
    tests: tuple[LawTest, ...]
    columns: tuple[ColumnAudit, ...]
    confidence: float

    @property
    def overstated(self) -> bool:
        """True if the recomputed guarantee is weaker than the promised one, or of another kind."""
        return (
            self.implied.epsilon > self.promised.epsilon * (1 + _ROUNDING)
            or _delta(self.implied) > _delta(self.promised)
            or self.implied.neighboring != self.promised.neighboring
            or self.implied.unit != self.promised.unit
        )

    @property
    def refuted(self) -> bool:
        """True if anything contradicts the guarantee."""
        failed = any(test.refuted for test in self.tests)
        return self.overstated or failed or any(column.refuted for column in self.columns)


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
        promised: The stated guarantee; by default, the one that the randomizer implies.
        num_draws: Reports of each invented record; by default up to 200,000, fewer for wide reports.
        confidence: Least probability that an honest randomizer passes, in (0, 1).

    Raises:
        PrivotError: if num_draws < 100, or the confidence is out of range.
    """
    require_audit(num_draws, confidence)
    promised = promised or randomizer.guarantee
    parts = trials(randomizer)
    rng = np.random.default_rng()  # draws invented people and points of cells, no privacy noise
    error = (1 - confidence) / 2  # of all tests, and of all bounds
    try:
        sample = draw_sample(randomizer, parts, num_draws, rng)
    except PrivotError as refusal:
        # A record that the schema allows was refused, or its report is impossible.
        failed = LawTest("every record has a possible report", 0.0, 0.0, str(refusal))
        return RandomizerAudit(promised, randomizer.guarantee, (failed,), (), confidence)
    tests = run_law_tests(randomizer, parts, sample, error, rng)
    bounded = [part for part in parts if part.pairs]
    num_bounds = 0
    for part in bounded:  # Gaussian noise has two bounds a pair, on ε and on μ
        num_bounds += len(part.pairs) * (1 if part.gaussian_mu() is None else 2)
    columns = tuple(_audit_part(part, sample, promised, error / num_bounds) for part in bounded)
    return RandomizerAudit(promised, randomizer.guarantee, tests, columns, confidence)


def stated_guarantee(text: str) -> PureDP | ApproximateDP:
    """Return the guarantee that a randomizer's JSON states, without comparing it with the noise.

    Raises:
        PrivotError: if the text states no guarantee, or one of a kind that no randomizer has.
    """
    try:
        stated = guarantee_from_dict(json.loads(text)["guarantee"])
    except (PrivotError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        stated = None
    if not isinstance(stated, PureDP | ApproximateDP):
        raise PrivotError(
            "the randomizer states no guarantee to audit: write it again with `privot calibrate`"
        )
    return stated


def _audit_part(
    part: Trial, sample: Sample, promised: PureDP | ApproximateDP, error: float
) -> ColumnAudit:
    """Bound the privacy loss of one part over its pairs; each bound errs with probability ≤ `error`."""
    mu = part.gaussian_mu()
    epsilon, delta = part.guarantee().epsilon, _delta(part.guarantee())
    if _delta(promised) <= delta:
        epsilon = min(epsilon, promised.epsilon)
    if mu is not None and _delta(promised) > 0:
        # The largest μ that the stated ε and δ allow, rounded up.
        mu = min(mu, (1 + _ROUNDING) / calibrate_gaussian(1.0, promised.epsilon, _delta(promised)))
    bounds, mu_lower, ratio = [], 0.0, 0.0
    for pair in part.pairs:
        ratios = _log_ratios(part, sample, pair)
        ratio = max(ratio, float(np.abs(ratios).max()))
        bounds.append(_bound_from_ratios(ratios, delta, error))
        if mu is not None:
            mu_lower = max(mu_lower, gaussian_mu_lower(*ratios, error))
    best = max(bounds, key=lambda result: result.epsilon_lower)
    return ColumnAudit(
        column=part.name,
        mechanism=part.kind,
        epsilon=epsilon,
        delta=delta,
        epsilon_lower=best.epsilon_lower,
        event=best.event,
        num_tested=best.num_tested,
        ratio=ratio,
        mu=mu,
        mu_lower=None if mu is None else mu_lower,
    )


def _bound_from_ratios(
    ratios: tuple[AnyArray, AnyArray], delta: float, error: float
) -> AuditResult:
    """Bound ε from the log-likelihood ratios of the reports of records 0 and 1."""
    return audit(
        lambda record, count: ratios[record],
        [(0, 1)],
        num_draws=len(ratios[0]),
        delta=delta,
        confidence=1 - error,
        # Ratios are those of record 0 to record 1, and change signs in the other order.
        score=lambda outputs, record, other: outputs * (other - record),
    )


def _log_ratios(part: Trial, sample: Sample, pair: tuple[int, int]) -> tuple[AnyArray, AnyArray]:
    """Return the log-likelihood ratios (n,) of n reports of each record of a pair."""
    rows = [np.flatnonzero(sample.indices[part.name] == record) for record in pair]
    count = min(len(rows[0]), len(rows[1]))
    first, second = (sample.table.take(pa.array(record_rows[:count])) for record_rows in rows)
    return part.log_ratio(first, *pair), part.log_ratio(second, *pair)


def _delta(guarantee: PureDP | ApproximateDP) -> float:
    return guarantee.delta if isinstance(guarantee, ApproximateDP) else 0.0
