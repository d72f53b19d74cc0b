"""Tilted densities with known tilts: exact draws, the fixed number of proposals, envelopes."""

import math

import mpmath
import numpy as np
import pytest
from scipy.stats import binom, norm

from laws.reference import FALSE_ALARM, chi_square
from privot.audit.statistics import audit
from privot.core.errors import PrivotError
from privot.integral import ClippedRatioSettings, clip_ratio
from privot.integral.density import Normalizer, TiltedDensity
from privot.integral.references import StandardNormal


class Wave:
    """A tilt beyond its limits here and there."""

    def __call__(self, x):
        return 1.2 * np.sin(3 * x[:, 0]) + 0.3 * x[:, 0]

    def pack(self):
        raise NotImplementedError


class Spoiled(Wave):
    def __call__(self, x):
        return np.where(x[:, 0] > 0, np.nan, np.inf)


def wave(low=-0.75, high=0.75):
    return TiltedDensity(StandardNormal(1), Wave(), low, high)


def cells(density, edges):
    """Probabilities of cells, by 200 midpoints in each."""
    low, high = edges[:-1, None], edges[1:, None]
    x = low + (high - low) * (np.arange(200) + 0.5) / 200
    log = density.log_unnormalized(x.reshape(-1, 1)).reshape(x.shape)
    mass = np.exp(log).mean(axis=1) * (high - low)[:, 0]
    return mass / mass.sum()


@pytest.mark.parametrize("num", [100_000, 1_000_000])
@pytest.mark.parametrize("exact", [False, True])
def test_draws_agree_with_quadrature(num, exact):
    density = wave()
    if exact:
        settings = ClippedRatioSettings()
        untilted = settings.untilted(StandardNormal(1), 1.5)
        density = settings.clipped(untilted, Wave(), np.zeros((1, 1)))
    edges = np.linspace(-5.5, 5.5, 111)
    mass = cells(density, edges)
    counts = np.histogram(density.draw(num), bins=edges)[0]
    assert chi_square(counts, mass * num) > FALSE_ALARM
    wrong = mass**0.95
    assert chi_square(counts, wrong / wrong.sum() * num) < 1e-6, "no power"


def test_fixed_proposals_have_the_law_they_say():
    """Of density (1−f) q + f q₀ with f = (1−ā)^m, whatever m is.

    Two statistics, each with a false-alarm rate of 5e-7.
    """
    density, edges = wave(-1.5, 1.5), np.linspace(-5, 5, 51)
    mass, reference = cells(density, edges), np.diff(norm.cdf(edges))
    x = StandardNormal(1).sample(400_000, np.random.default_rng(0))
    accepted = np.exp(density.log_tilt(x) - density.high).mean()
    for proposals in (1, 3):
        fallback = (1 - accepted) ** proposals
        mixed = (1 - fallback) * mass + fallback * reference
        counts = np.histogram(density.draw(60_000, proposals=proposals), bins=edges)[0]
        assert chi_square(counts, mixed * 60_000) > FALSE_ALARM
        assert chi_square(counts, mass * 60_000) < 1e-6, "no power"
        assert fallback <= density.shortfall(proposals)


def test_shortfall_and_its_inverse():
    density = wave()
    for shortfall in (0.1, 1e-3, 1e-9):
        proposals = density.proposals_for(shortfall)
        assert density.shortfall(proposals) <= shortfall < density.shortfall(max(1, proposals - 1))
    assert density.proposals_for(0.999999) == 1


def test_a_tilt_of_zero_width_is_the_reference():
    density = TiltedDensity(StandardNormal(1), Wave(), 0.0, 0.0)
    assert density.epsilon == 0.0
    assert density.acceptance_floor == 1.0
    assert len(density.draw(10, proposals=1)) == 10


def test_epsilon_counts_the_normalizer():
    assert wave().epsilon == 3.0
    certified = TiltedDensity(StandardNormal(1), Wave(), -1.0, 1.0, Normalizer(-0.125, 0.125))
    assert certified.epsilon == 2.25


@pytest.mark.parametrize("width", np.linspace(0.01, 12.0, 60))
def test_odds_of_acceptance_are_within_the_width_in_integers(width):
    """All of 2^63 coins accept at most; the fewest are not below 2^63 e^−w, where floats may be."""
    density = TiltedDensity(StandardNormal(1), lambda x: x[:, 0], -width / 2, width / 2)
    few, most = density.coins_of(np.array([density.low, density.high])).tolist()
    with mpmath.workdps(50):
        exact = 2**63 * mpmath.exp(mpmath.mpf(density.low) - mpmath.mpf(density.high))
        assert exact <= few <= exact * (1 + mpmath.mpf(2) ** -48) + 1
    assert most == 2**63


def test_whatever_a_tilt_returns_is_clipped():
    density = TiltedDensity(StandardNormal(1), Spoiled(), -0.5, 0.25)
    x = np.array([[1.0], [-1.0]])
    assert density.log_tilt(x).tolist() == [-0.5, 0.25]
    assert np.isfinite(density.draw(100)).all()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: wave(1.0, -1.0), "no interval"),
        (lambda: wave(-math.inf, 1.0), "no interval"),
        (lambda: wave(-20.0, 20.0), "draw may take"),
        (lambda: wave(-1e300, 1e300), "draw may take"),
        (lambda: wave().draw(-1), "negative"),
        (lambda: wave().draw(1, proposals=0), "proposals 0 cannot be"),
        (lambda: wave().proposals_for(0.0), "shortfall"),
    ],
)
def test_refusals(build, message):
    with pytest.raises(PrivotError, match=message):
        build()


@pytest.mark.parametrize(("normalizer", "least"), [("exact", 0.85), ("none", 0.3)])
def test_audit_of_opposite_data_sets(normalizer, least):
    """Two models of opposite data sets, told apart by their draws alone: never beyond ε, not idle.

    Beyond ε once in a million audits; bounds are .942 ± .009 and .383 ± .010.
    """
    epsilon, rng = 1.0, np.random.default_rng(0)
    settings = ClippedRatioSettings(normalizer=normalizer)
    models = {
        sign: clip_ratio(rng.normal(sign * 2, 0.5, (2000, 1)), StandardNormal(1), epsilon, settings)
        for sign in (-1, 1)
    }
    result = audit(
        lambda sign, n: models[sign].draw(n)[:, 0],
        [(-1, 1)],
        num_draws=100_000,
        confidence=1 - 1e-6,
    )
    assert least * epsilon < result.epsilon_lower <= epsilon


def test_the_audit_would_notice():
    """The same draws against a claim of 60 % of ε: refuted."""
    rng = np.random.default_rng(0)
    low, high = (
        clip_ratio(rng.normal(s * 2, 0.5, (2000, 1)), StandardNormal(1), 1.0) for s in (-1, 1)
    )
    left = [int((model.draw(200_000) < -1.5).sum()) for model in (low, high)]
    # P(left | low) > e^0.6 P(left | high), at a level of 10^−6.
    assert binom.sf(left[0] - 1, sum(left), math.exp(0.6) / (1 + math.exp(0.6))) < 1e-6
