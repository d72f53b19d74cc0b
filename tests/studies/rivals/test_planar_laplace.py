"""Planar Laplace: the laws, the triangle inequality, the normalizer, and two kinds of promise."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from audit import seeded_bugs
from collector import test_collect
from laws.mechanism import MechanismLaws
from local import test_channels
from mechanisms import test_audits, test_nullable_noise, test_planned_error
from mechanisms.test_audits import attack
from privot.audit import audit_randomizer, law
from privot.audit.statistics import uniformity
from privot.core.errors import PrivotError
from privot.local.networks.cost import LikelihoodCost
from privot.mechanisms import mechanism
from privot.mechanisms.additive_noise import NullableNoise
from privot.randomizer import Randomizer
from privot.schema import Schema
from privot.schema.domains import Box, L2Ball
from randomizer import test_validation
from studies.rivals.planar_laplace import _SERIES, PlanarLaplace, _lattice_sum

GRID = 2.0**-2
AXIS = np.arange(-100, 101)
SQUARE = Box((0.0, 0.0), (6.0, 6.0))


@pytest.fixture(autouse=True)
def _known_by_its_kind(monkeypatch):
    monkeypatch.setitem(mechanism._KINDS, "planar_laplace", PlanarLaplace)


class TestPlanarLaplace(MechanismLaws):
    mechanism = PlanarLaplace(scale=1.7 * GRID, grid=GRID)
    wrong = (PlanarLaplace(1.717 * GRID, GRID), PlanarLaplace(1.683 * GRID, GRID))
    domain = SQUARE
    record = np.array([0.4, -0.7])
    worst_pairs = (
        (np.array([-1.0, -1.0]), np.array([1.0, 1.0])),
        (np.array([1.0, -1.0]), np.array([-1.0, 1.0])),
        (np.array([1.0, 0.3]), np.array([-0.6, 0.2])),
    )
    records = np.stack([np.linspace(-1.0, 1.0, 401), np.linspace(1.0, -0.5, 401)], axis=1)
    outcomes = np.stack(np.meshgrid(AXIS, AXIS, indexing="ij"), axis=-1).reshape(-1, 2) * GRID
    invalid_fields = (
        ("scale", 0.0),
        ("scale", float("nan")),
        ("scale", True),
        ("scale", 2.0**38 * GRID * 8),
        ("grid", 0.3),
    )

    def index(self, reports):
        cells = np.rint(reports / GRID).astype(np.int64) - AXIS[0]
        inside = ((cells >= 0) & (cells < len(AXIS))).all(axis=-1)
        return np.where(inside, cells[..., 0] * len(AXIS) + cells[..., 1], len(self.outcomes))

    def test_reports_are_multiples_of_the_grid_whatever_the_record(self):
        for records in (self.records, self.records[:5] / 3, np.float64([[np.pi / 4, 1e-12]])):
            cells = self.mechanism.privatize(records) / GRID
            assert (cells == np.rint(cells)).all()

    def test_probability_cells_are_those_of_the_likelihood(self):
        """Of a fine lattice: rings and sectors of its points' probability, and uniform together."""
        fine, record = PlanarLaplace.calibrate(SQUARE, 1.0), np.array([0.5, -1.0])
        reports = fine.privatize(np.broadcast_to(record, (50_000, 2)))
        rng = np.random.default_rng(0)
        low, high = fine.probability_cells(reports, record, rng)
        held = np.exp(fine.log_likelihood(reports, record))
        np.testing.assert_allclose((high - low).prod(axis=1), held, rtol=1e-3)
        assert uniformity((low + rng.random(low.shape) * (high - low)) % 1.0) > 1e-6
        other = PlanarLaplace(fine.scale * 0.95, fine.grid)
        assert uniformity(other.probability_cells(reports, record, rng)[0] % 1.0) < 1e-6
        with pytest.raises(PrivotError, match="too coarse for an audit"):
            self.mechanism.probability_cells(reports, record, rng)

    def test_low_bits_are_independent_of_the_record(self):
        fine = PlanarLaplace.calibrate(SQUARE, 1.0)
        for record in (-1e-12, 1 / 3, 1.0):
            cells = fine.privatize(np.full((200_000, 2), record)) / fine.grid
            low = np.bincount((cells % 16).astype(int).ravel())
            assert np.abs(low - 25_000).max() < 6 * np.sqrt(25_000)

    def test_variance_is_exact(self):
        probabilities = np.exp(self.mechanism.log_likelihood(self.outcomes, np.zeros(2)))
        assert probabilities @ self.outcomes == pytest.approx([0.0, 0.0], abs=1e-12)
        second = probabilities @ self.outcomes**2
        assert second == pytest.approx([self.mechanism.variance] * 2, rel=1e-10)

    def test_likelihood_broadcasts_and_is_zero_off_the_grid(self):
        y, x = self.outcomes[20_000:20_004], self.records[:3]
        pairs = self.mechanism.log_likelihood(y[:, None], x)
        assert pairs.shape == (4, 3)
        assert pairs[1, 2] == self.mechanism.log_likelihood(y[1], x[2])
        assert self.mechanism.log_likelihood(y[0] + [0.0, GRID / 2], x[0]) == -np.inf

    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300])
    @pytest.mark.parametrize("count", [1, 100])
    def test_values_out_of_reach_are_refused(self, value, count):
        records = np.zeros((count, 2))
        records[-1, 1] = value
        with pytest.raises(PrivotError, match="project it"):
            self.mechanism.privatize(records)

    def test_other_dimensions_are_refused(self):
        for shape in ((4,), (4, 1), (2, 4)):
            with pytest.raises(PrivotError, match="two coordinates"):
                self.mechanism.privatize(np.zeros(shape))


def exact_normalizer(t):
    """The series to 30 terms, with digits to spare."""
    with mpmath.workdps(30):
        t, total = mpmath.mpf(t), mpmath.mpf(1)
        for j in range(30):
            s = mpmath.mpf(3) / 2 + j
            beta = 4**-s * (mpmath.zeta(s, 0.25) - mpmath.zeta(s, 0.75))
            term = 4 * mpmath.zeta(s) * beta * mpmath.binomial(-1.5, j)
            total += term / (2 * mpmath.pi * t) ** (3 + 2 * j)
        return 2 * mpmath.pi * t**2 * total


@pytest.mark.parametrize("t", [0.7, 2.5, 3.999, 4.0, 17.3, 2.0**19])
def test_normalizer(t):
    mechanism = PlanarLaplace(t * 2.0**-20, 2.0**-20)
    exact = float(mpmath.log(exact_normalizer(t)))
    assert mechanism._log_normalizer == pytest.approx(exact, rel=1e-14)


@pytest.mark.parametrize("t", [4.0, 9.7])
def test_series_and_lattice_agree(t):
    mechanism = PlanarLaplace(t * 2.0**-20, 2.0**-20)
    total, second = _lattice_sum(t)
    assert mechanism._log_normalizer == pytest.approx(np.log(total), rel=1e-14)
    assert mechanism.variance == pytest.approx(second / total / 2 * 2.0**-40, rel=1e-12)
    assert len(_SERIES) == 5


def test_the_usual_grid_changes_no_visible_digit_of_the_variance():
    mechanism = PlanarLaplace.calibrate(L2Ball(2, 5.0), 2.0)
    assert mechanism.scale == pytest.approx(1.0, rel=1e-5)
    assert mechanism.variance == pytest.approx(3 * mechanism.scale**2, rel=1e-12)


@given(epsilon=st.floats(1e-3, 50.0), radius=st.floats(1e-3, 1e4))
def test_calibration_is_safe_and_tight(epsilon, radius):
    for domain in (L2Ball(2, radius), Box((0.0, -radius), (radius, 0.0))):
        mechanism = PlanarLaplace.calibrate(domain, epsilon)
        spent = mechanism.guarantee(domain).epsilon
        assert epsilon * (1 - 1e-14) <= spent <= epsilon


@given(epsilon=st.floats(1e-3, 50.0), radius=st.floats(1e-1, 1e4))
def test_geo_calibration_is_safe_and_tight(epsilon, radius):
    """At the diameter, the two promises of one mechanism agree but for what rounding adds."""
    domain = L2Ball(2, radius)
    mechanism = PlanarLaplace.calibrate_geo(domain, epsilon)
    promise = mechanism.geo_guarantee(domain, "kilometer")
    assert epsilon * (1 - 1e-14) <= promise.epsilon_per_unit <= epsilon
    assert Fraction(promise.epsilon_per_unit) * Fraction(mechanism.scale) * Fraction(radius) >= 1
    pure = mechanism.guarantee(domain).epsilon
    assert (
        pure
        <= promise.to_pure(2 * radius).epsilon
        <= pure * (1 + 1e-12) + 2.0**-37 / mechanism.scale
    )


def test_the_promise_between_places_is_kept_and_met():
    """At every pair of places, the worst loss over all reports is at most ε at their distance."""
    domain = L2Ball(2, 10.0)
    mechanism = PlanarLaplace(scale=2.0, grid=2.0**-3)
    promise = mechanism.geo_guarantee(domain, "kilometer")
    axis = np.arange(-60, 61) * mechanism.grid
    reports = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)
    places = np.random.default_rng(0).uniform(-0.7, 0.7, (40, 2))
    likelihoods = np.stack([mechanism.log_likelihood(reports, place) for place in places])
    largest = 0.0
    for i, first in enumerate(places):
        for j, second in enumerate(places[:i]):
            loss = np.abs(likelihoods[i] - likelihoods[j]).max()
            distance = 10.0 * np.linalg.norm(first - second)
            assert loss <= promise.epsilon_at(distance) * (1 + 1e-12)
            largest = max(largest, loss / (promise.epsilon_per_unit * distance))
    assert largest > 0.99


def test_planes_of_two_scales_are_refused():
    mechanism = PlanarLaplace(1.0, 2.0**-10)
    for domain in (Box((0.0, 0.0), (1.0, 2.0)), L2Ball(3, 1.0)):
        for call in (
            lambda d=domain: PlanarLaplace.calibrate(d, 1.0),
            lambda d=domain: PlanarLaplace.calibrate_geo(d, 1.0),
            lambda d=domain: mechanism.geo_guarantee(d),
        ):
            with pytest.raises(PrivotError, match="same in both coordinates"):
                call()


def test_epsilons_are_refused():
    with pytest.raises(PrivotError, match="epsilon_per_unit is 0"):
        PlanarLaplace.calibrate_geo(SQUARE, 0.0)
    with pytest.raises(PrivotError, match="epsilon is nan"):
        PlanarLaplace.calibrate(SQUARE, float("nan"))
    with pytest.raises(PrivotError, match="domain is None"):
        PlanarLaplace(1.0, 2.0**-10).guarantee()


@pytest.mark.parametrize("epsilon", test_audits.EPSILONS)
def test_the_audit_finds_its_epsilon_and_no_more(epsilon):
    ends = ((-1.0, 0.0), (1.0, 0.0))
    noise = PlanarLaplace.calibrate(test_audits.DISK, epsilon)
    found = attack(noise, ends, num_draws=500_000 if epsilon < 1 else 300_000)
    assert 0.8 * epsilon <= found.epsilon_lower <= epsilon


def test_a_tenth_less_noise_is_caught():
    noise = PlanarLaplace.calibrate(test_audits.DISK, 1.0 / 0.9)
    assert attack(noise, ((-1.0, 0.0), (1.0, 0.0)), num_draws=1_000_000).refutes(1.0)


def test_a_location_is_audited_at_its_distance():
    """Between near places the audit finds no more than what their distance allows."""
    square = Box((0.0, 0.0), (8.0, 8.0))
    noise = PlanarLaplace.calibrate_geo(square, epsilon_per_unit=1.0)
    result = attack(noise, ((0.0, 0.0), (0.3, 0.4)), num_draws=300_000)  # 2 units apart
    assert 0.8 * 2.0 <= result.epsilon_lower <= noise.geo_guarantee(square).epsilon_at(2.0)


@pytest.mark.parametrize("epsilon", [0.3, 2.0, 7.0])
def test_beside_a_flag_no_two_records_differ_by_more_than_promised(epsilon):
    domains = Box((0.0, 0.0), (3.0, 3.0)), L2Ball(2, 5.0), L2Ball(2, 5.0, True)
    for domain in (*domains, test_nullable_noise.CORNER):
        test_nullable_noise.test_no_two_records_differ_by_more_than_promised(
            PlanarLaplace, domain, epsilon
        )
    assert isinstance(NullableNoise.around(PlanarLaplace, domain, 1.0).value, PlanarLaplace)


def test_waves_are_kept_as_reports_say():
    test_planned_error.test_waves_are_kept_as_reports_say(
        PlanarLaplace.calibrate(L2Ball(2, 1.0), 20.0)
    )


def test_reports_that_a_device_makes_are_possible_and_absurd_ones_are_not():
    reach = PlanarLaplace(1.0, 2.0**-20)._reach(2)
    assert np.log2(stats.gamma.sf(reach, 2)) == pytest.approx(-64, abs=0.1)
    test_validation.test_every_report_that_a_device_makes_is_possible("planar_laplace")
    test_validation.test_points_that_no_device_sends_are_told("planar_laplace")
    test_validation.test_what_is_possible_bounds_what_one_report_says("planar_laplace")
    for absurd in test_collect.ABSURD:
        test_collect.test_absurd_numbers_in_a_randomizer_change_no_promise_and_end_in_words(
            "planar_laplace", absurd
        )


def test_an_honest_randomizer_passes_the_audit(monkeypatch):
    """False-alarm rate 1e-6."""
    monkeypatch.setattr(law, "_NUM_SINGLES", 8)
    monkeypatch.setattr(law, "_MAX_STREAM_ROWS", 2**8)
    honest = Randomizer.calibrate(seeded_bugs.PLACE, 2.0, mechanism="planar_laplace")
    result = audit_randomizer(honest, num_draws=1000, confidence=1 - 1e-6)
    assert result.tests
    assert not result.refuted


@pytest.mark.parametrize("declared", [test_channels.BALL, test_channels.schema(radius=2.0)])
def test_beside_a_flag_the_cost_is_the_mixture_s_exact_likelihood(declared):
    test_channels.test_cost_is_the_mixture_s_exact_likelihood(declared, "planar_laplace")


def test_planar_noise_costs_its_distance_and_is_simulated_with_its_radius():
    """The false-alarm rate of the radius is 1e-6."""
    plane = Schema.from_toml('[columns.p]\nkind = "vector"\ncolumns = ["x", "y"]\nradius = 1')
    release = Randomizer.calibrate(plane, 3.0, mechanism="planar_laplace").privatize(
        {"x": np.zeros(20_000), "y": np.zeros(20_000)}
    )
    mechanism = release.randomizer.mechanisms["p"]
    assert isinstance(mechanism, PlanarLaplace)
    assert release.guarantee.epsilon <= 3
    model = LikelihoodCost(release.randomizer)
    reports = model.read(release, torch.device("cpu"))
    cost = model({"p": torch.zeros(1, 2)}, reports.rows(torch.arange(100)))
    exact = -mechanism.log_likelihood(reports.values["p"][:100].numpy(), np.zeros((1, 2)))
    np.testing.assert_allclose(
        cost[0].numpy() - float(cost.mean()), exact - exact.mean(), atol=1e-4
    )
    echo = model.simulate({"p": torch.zeros(20_000, 2)}, reports, torch.Generator().manual_seed(0))
    radii = [r.values["p"].norm(dim=1).numpy() for r in (reports, echo)]
    assert stats.ks_2samp(*radii).pvalue > 1e-6
    assert stats.ks_2samp(radii[0], 1.1 * radii[1]).pvalue < 1e-6
