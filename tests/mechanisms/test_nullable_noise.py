"""Points that may be missing: the laws, what a flag tells and a point does not, and the split of ε."""

import math

import numpy as np
import pytest

from laws.mechanism import MechanismLaws, chi_square
from privot.core.errors import PrivotError
from privot.mechanisms import Gaussian, Laplace, RandomizedResponse
from privot.mechanisms.additive_noise import NullableNoise, mark_missing, stand_in
from privot.schema.domains import Box, L1Ball, L2Ball, Polyline

GRID = 2.0**-5
MISSING = np.array([0.0, 1.0])
CORNER = Polyline(((0.0, 0.0), (1.0, 0.0), (1.0, 0.5)))


def made(scale=8 * GRID, epsilon=4.0):
    return NullableNoise(Laplace(scale, GRID), RandomizedResponse(2, epsilon))


class TestNullableNoise(MechanismLaws):
    mechanism = made()
    wrong = (made(8.08 * GRID), made(7.92 * GRID), made(epsilon=4.04), made(epsilon=3.96))
    domain = Box((0.0,), (7.0,))
    record = np.array([0.4, 0.0])
    worst_pairs = (
        (np.array([-1.0, 0.0]), np.array([1.0, 0.0])),
        (MISSING, np.array([1.0, 0.0])),
        (np.array([-1.0, 0.0]), MISSING),
    )
    records = mark_missing(np.append(np.linspace(-1, 1, 400), [np.nan] * 200)[:, None], domain)
    cells = np.arange(-600, 601)
    outcomes = np.stack([np.tile(cells * GRID, 2), np.repeat([0.0, 1.0], 1201)], axis=1)
    invalid_fields = (
        ("value", Gaussian(1.0, 2.0**-19)),
        ("flag", RandomizedResponse(3, 1.0)),
    )

    def index(self, reports):
        cells = np.rint(reports[..., 0] / GRID).astype(np.int64)
        inside = np.abs(cells) <= 600
        place = cells + 600 + len(self.cells) * reports[..., 1].astype(np.int64)
        return np.where(inside, place, len(self.outcomes))

    def test_each_kind_of_pair_spends_the_whole_budget(self):
        """ε/2 of the flag and half the way from the center add up to what two ends differ by."""
        for pair in self.worst_pairs:
            here, there = (self.mechanism.log_likelihood(self.outcomes, each) for each in pair)
            assert np.abs(here - there).max() == pytest.approx(8.0, rel=1e-9)
        assert self.mechanism.guarantee(self.domain).epsilon == 8.0

    def test_the_point_knows_of_missingness_only_what_the_flag_tells(self):
        """Missing against present at the stand-in: every report's ratio is its flag's."""
        present = np.array([0.0, 0.0])
        gap = self.mechanism.log_likelihood(self.outcomes, MISSING) - (
            self.mechanism.log_likelihood(self.outcomes, present)
        )
        ratio = math.log(self.mechanism.flag.likelihood_ratio)
        np.testing.assert_allclose(gap, np.where(self.outcomes[:, 1] == 1, ratio, -ratio))

    def test_points_drawn_for_missing_records_have_the_stand_in_s_law(self):
        """With power: noise of another scale, or no noise at all, would be told apart."""
        reports = self.mechanism.privatize(np.tile(MISSING, (400_000, 1)))
        for flag in (0.0, 1.0):
            points = reports[reports[:, 1] == flag, 0]
            counts = np.bincount(np.rint(points / GRID).astype(int) + 600, minlength=1201)
            for scale, right in ((8.0, True), (8.8, False)):
                other = Laplace(scale * GRID, GRID)
                law = np.exp(other.log_likelihood(self.cells[:, None] * GRID, np.zeros(1)))
                if flag == 1.0 or right:
                    assert (chi_square(counts, law) > 1e-6) == right


@pytest.mark.parametrize("kind", [Laplace], ids=lambda cls: cls.kind)
@pytest.mark.parametrize(
    "domain", [Box((0.0, 0.0), (3.0, 3.0)), L2Ball(2, 5.0), L2Ball(2, 5.0, True), CORNER]
)
@pytest.mark.parametrize("epsilon", [0.3, 2.0, 7.0])
def test_no_two_records_differ_by_more_than_promised(kind, domain, epsilon):
    mechanism = NullableNoise.around(kind, domain, epsilon)
    promised = mechanism.guarantee(domain).epsilon
    assert epsilon * (1 - 1e-9) <= promised <= epsilon
    rng = np.random.default_rng(0)
    points = domain.unit.project(rng.normal(0, 2, (200, 2)))
    records = mark_missing(np.concatenate([points, np.full((1, 2), np.nan)]), domain)
    reports = mechanism.privatize(np.repeat(records, 5, axis=0))
    logs = mechanism.log_likelihood(reports[:, None], records)
    assert (logs.max(axis=1) - logs.min(axis=1)).max() <= promised * (1 + 1e-12)


def test_half_the_distance_holds_only_where_the_domain_is_symmetric():
    """A curve's stand-in can be a whole diameter from an end: half of ε would not do there."""
    line = Polyline(((0.0, 0.0), (0.4, 0.6), (1.0, 0.0)))
    far = np.abs(line.unit.project(np.array([[9.0, -9.0], [-9.0, -9.0]])) - stand_in(line)).sum(1)
    assert far.max() > 0.55 * line.unit.diameter(1)
    assert not line.symmetric
    assert not L1Ball(2, 1.0, non_negative=True).symmetric
    for domain in (Box((1.0, 5.0), (2.0, 9.0)), L1Ball(3, 2.0), L2Ball(3, 2.0)):
        points = domain.unit.project(np.random.default_rng(1).normal(size=(50, domain.dimension)))
        assert domain.symmetric
        np.testing.assert_array_equal(domain.unit.project(-points), -points)
        np.testing.assert_array_equal(stand_in(domain), 0)


def test_half_missing_is_missing():
    domain = Box((0.0, 0.0), (1.0, 1.0))
    marked = mark_missing(np.array([[0.5, np.nan], [0.5, -1.0]]), domain)
    assert marked.tolist() == [[0.0, 0.0, 1.0], [0.5, -1.0, 0.0]]


def test_refusals():
    with pytest.raises(PrivotError, match="value is Gaussian: a point that may be missing"):
        NullableNoise(Gaussian(1.0, GRID), RandomizedResponse(2, 1.0))
    with pytest.raises(PrivotError, match="flag that is neither 0 nor 1"):
        made().privatize(np.array([[0.0, 0.5]]))
    with pytest.raises(PrivotError, match="domain is None"):
        made().guarantee()
