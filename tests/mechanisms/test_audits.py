"""Every mechanism with a pure guarantee, attacked from outside: 0.8 ε ≤ the audit's bound ≤ ε.

The mechanisms of the papers are audited in `privacy/test_lower_bound.py`. Events are chosen by the
mechanism's own likelihood ratio, the strongest test there is.

Bounds are above ε with probability 1e-6 at most. Draws are so many that the mean bound is at least
eight of its standard deviations (of eight repetitions) on the side that is asserted.
"""

from dataclasses import replace

import numpy as np
import pytest

from privot.audit.statistics import audit
from privot.mechanisms import SubsetSelection, Window
from privot.schema.domains import Box, L2Ball

EPSILONS = [0.5, 1.0, 2.0, 4.0]
CONFIDENCE = 1 - 1e-6
DISK = L2Ball(2, 3.0)
BASE = 12


def attack(mechanism, pair, num_draws):
    """Audit on one pair of records, each of the mechanism's own shape and type."""

    def randomize(record, n):
        return numbered(
            mechanism, mechanism.privatize(np.repeat(np.asarray(record)[None], n, axis=0))
        )

    def score(outputs, record, other):
        reports = restored(mechanism, outputs)
        here, there = np.asarray(record), np.asarray(other)
        return mechanism.log_likelihood(reports, here) - mechanism.log_likelihood(reports, there)

    return audit(randomize, [pair], num_draws=num_draws, confidence=CONFIDENCE, score=score)


def numbered(mechanism, reports):
    """The audit sees numbers: of a set of codes or of bits, the one that its digits make."""
    if mechanism.takes_codes and reports.ndim == 2:
        return (reports @ BASE ** np.arange(reports.shape[1])).astype(np.float64)
    return reports


def restored(mechanism, outputs):
    """The reports that the numbers stand for, as likelihoods want them."""
    if not mechanism.takes_codes:
        return outputs
    (report,) = mechanism.privatize(np.zeros(1, np.int64))
    if not np.ndim(report):
        return outputs.astype(np.int64)
    digits = outputs.astype(np.int64)[:, None] // BASE ** np.arange(len(report)) % BASE
    return digits.astype(report.dtype)


def shipped(epsilon):
    return {
        "subset_selection": (SubsetSelection(BASE, epsilon), (2, 9)),
    }


KINDS = list(shipped(1.0))


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("kind", KINDS)
def test_shipped(kind, epsilon):
    result = attack(*shipped(epsilon)[kind], num_draws=300_000 if epsilon < 1 else 100_000)
    assert 0.8 * epsilon <= result.epsilon_lower <= epsilon


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("kind", KINDS)
def test_shipped_with_many_draws(kind, epsilon):
    """Six times the draws come within a tenth of ε, and not beyond."""
    result = attack(*shipped(epsilon)[kind], num_draws=3_000_000)
    assert 0.9 * epsilon <= result.epsilon_lower <= epsilon


@pytest.mark.parametrize(
    "epsilon", [1.0, *(pytest.param(e, marks=pytest.mark.slow) for e in (0.5, 2.0, 4.0))]
)
@pytest.mark.parametrize("kind", KINDS)
def test_a_tenth_less_noise_is_caught(kind, epsilon):
    """The audit has power: the same mechanisms made for ε/0.9 are found out."""
    result = attack(*shipped(epsilon / 0.9)[kind], num_draws=500_000 if epsilon == 1 else 2_000_000)
    assert result.refutes(epsilon)


def far(domain, **shape):
    """A window, and the pairs of records that it protects least: far apart, or one missing."""

    def made(epsilon):
        return replace(Window.for_domain(domain, epsilon), **shape)

    first, second = (np.asarray(p) for p in domain.unit.far_apart()[0])
    if not shape.get("nullable"):
        return made, (first, second)
    return made, (np.append(first, 0.0), np.append(0.0 * first, 1.0))


WINDOWS = {
    "interval": far(Box((0.0,), (1.0,))),
    "disk": far(DISK),
    "disk in a box": far(Box((0.0, 0.0), (1.0, 1.0))),
    "ball": far(L2Ball(3, 1.0)),
    "product": far(Box((0.0, 0.0), (1.0, 1.0)), shape="product"),
    "missing": far(Box((0.0, 0.0), (1.0, 1.0)), nullable=True),
}


@pytest.mark.parametrize(
    "epsilon", [2.0, *(pytest.param(e, marks=pytest.mark.slow) for e in (0.5, 8.0))]
)
@pytest.mark.parametrize("kind", WINDOWS)
def test_windows(kind, epsilon):
    made, pair = WINDOWS[kind]
    result = attack(made(epsilon), pair, num_draws=100_000 if epsilon == 2 else 800_000)
    assert 0.8 * epsilon <= result.epsilon_lower <= epsilon


@pytest.mark.parametrize("kind", ["disk", "missing"])
def test_a_window_for_a_tenth_more_epsilon_is_caught(kind):
    made, pair = WINDOWS[kind]
    assert attack(made(2.0 / 0.9), pair, num_draws=200_000).refutes(2.0)
