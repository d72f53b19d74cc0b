"""Within cells: masses stay, the density is a density, and no step is left where cells meet.

All draws are seeded: what passes does not fail by chance.
"""

import numpy as np
import pytest

from privot.local.releases import LineCells
from privot.schema import Box, L2Ball
from privot.schema.columns.vector import Cells
from privot.schema.sampling import draw_within, end_densities


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def two_lines(below, above):
    """The density of mean 1 on 2^14 places of [0, 1]: heights at ends and knot, by bisection."""
    u = (np.arange(2**14) + 0.5) / 2**14
    height = 2 - (below + above) / 2
    if (below - 1) * (above - 1) >= 0:
        return u, np.interp(u, [0, 0.5, 1], [below, height, above])
    height = np.clip(height, min(below, above), max(below, above))
    low, high = 0.0, 1.0
    for _ in range(60):
        knot = (low + high) / 2
        mass = (knot * below + (1 - knot) * above + height) / 2
        low, high = (knot, high) if (mass < 1) == (below > above) else (low, knot)
    return u, np.interp(u, [0, knot, 1], [below, height, above])


@pytest.mark.parametrize("ends", [(0.4, 1.9), (2.0, 0.9), (0.0, 0.0), (1.6, 2.0), (1.0, 0.3)])
def test_two_lines_are_drawn_and_no_others(rng, ends):
    """Shares below u, at all u, and an end that is .25 off is found.

    By Dvoretzky, Kiefer, Wolfowitz the distance is above 2.7/√n with probability 2e^(−2·2.7²) < 1e-6.
    """
    count = 200_000
    drawn = draw_within(np.array(ends)[:, None, None] * np.ones((2, count, 1)), rng)[:, 0]

    def gap(below, above):
        u, density = two_lines(below, above)
        assert density.min() >= 0
        assert density.mean() == pytest.approx(1, abs=1e-3)
        shares = np.arange(1, 20) / 20
        below_u = (np.cumsum(density) / density.sum())[(shares * len(u)).astype(int) - 1]
        return np.abs((drawn[:, None] < shares).mean(axis=0) - below_u).max()

    assert gap(*ends) < 2.7 / np.sqrt(count) < gap(abs(ends[0] - 0.25), ends[1])
    assert drawn.min() >= 0
    assert drawn.max() < 1


def test_a_density_that_falls_from_cell_to_cell_falls_within_them(rng):
    edges = np.array([0.0, 1.0, 2.0, 5.0, 20.0, 100.0])
    cells = LineCells(edges[:-1], edges[1:], integer=False)
    masses = np.array([[0.5], [0.2], [0.2], [0.08], [0.02]])
    ends = cells.ends(masses)
    density = masses / np.diff(edges)[:, None]
    for one in range(5):
        _, heights = two_lines(*ends[:, one, 0])
        assert (np.diff(heights) <= 1e-12).all()
        if one:
            assert ends[0, one] * density[one] == pytest.approx(ends[1, one - 1] * density[one - 1])
    drawn = cells.draw(rng.choice(5, 300_000, p=masses[:, 0]), np.zeros(300_000, int), masses, rng)
    found = np.histogram(drawn, edges)[0] / 300_000
    np.testing.assert_allclose(found, masses[:, 0], atol=0.0055)  # six deviations
    counts = np.histogram(drawn, 40, (0, 20))[0]
    # A difference of equal expectations has variance 2n: 39 comparisons at 5.6 deviations, 4e-7 in all.
    assert (np.diff(counts) < 8 * np.sqrt(counts[:-1] + 1)).all()


def test_integers_points_and_missing_values_of_the_line(rng):
    """Integers of an interval leave out those that are points; each class has its own shape."""
    cells = LineCells(
        np.array([0.0, 10.0, 4.0, np.nan]), np.array([10.0, 30.0, 4.0, np.nan]), integer=True
    )
    masses = np.array([[0.2, 0.7], [0.6, 0.1], [0.1, 0.1], [0.1, 0.1]])
    which = rng.integers(0, 4, 80_000)
    classes = rng.integers(0, 2, 80_000)
    drawn = cells.draw(which, classes, masses, rng)
    assert (drawn[which == 2] == 4).all()
    assert np.isnan(drawn[which == 3]).all()
    assert set(drawn[which == 0]) == set(range(10)) - {4}
    assert set(drawn[which == 1]) == set(range(10, 30))
    low = [drawn[(which == 0) & (classes == z)].mean() for z in (0, 1)]
    assert low[0] > 41 / 9 > low[1]  # towards the denser neighbor, and away from the thinner
    # Per integer, no step where the cells meet: their mean densities are as 2/9 to 6/20.
    kept = (classes == 0) & (which < 2)
    shares = np.bincount(drawn[kept].astype(int), masses[which[kept], 0], 30)
    assert shares[9] / shares[10] > 0.87


def test_neighbors_agree_where_they_meet_and_no_density_is_negative(rng):
    places = np.array([[i, j] for i in range(3) for j in range(3) for _ in range(3 ** (i + j))])
    ends = end_densities(places, 3, np.ones((3, 3), bool))
    mass = {(i, j): 3 ** (i + j) + 4 for i in range(3) for j in range(3)}
    found = {tuple(p): ends[:, k] for k, p in enumerate(places)}
    for i in range(2):
        for j in range(3):
            assert found[i, j][1, 0] * mass[i, j] == pytest.approx(
                found[i + 1, j][0, 0] * mass[i + 1, j]
            )
            assert found[j, i][1, 1] * mass[j, i] == pytest.approx(
                found[j, i + 1][0, 1] * mass[j, i + 1]
            )
    assert 0 < ends.min() < ends.max() <= 2


@pytest.mark.parametrize("domain", [Box((0.0, 0.0), (1.0, 3.0)), L2Ball(2, 2.0), L2Ball(3, 1.0)])
def test_every_cell_keeps_its_mass(domain, rng):
    cells = Cells(domain, nullable=True)
    codes = np.minimum((rng.exponential(cells.size / 6, 20_000)).astype(int), cells.size - 1)
    assert (cells.encode(cells.decode(codes, rng)) == codes).all()


def test_the_grid_is_not_seen(rng):
    """A smooth law in 16 bins an axis: steps at cells' edges are those of chance, not a histogram's."""
    cells, people = Cells(Box((-1.0, -1.0), (1.0, 1.0))), 400_000
    truth = np.clip(rng.normal(0, 0.25, (people, 2)), -1, 1)
    codes = cells.encode(truth)
    drawn = cells.decode(codes, rng)
    low = np.floor((drawn + 1) * 8) / 8 - 1
    flat = low + rng.random(low.shape) / 8
    found = {}
    for name, points in (("drawn", drawn), ("flat", flat), ("truth", truth)):
        found[name] = np.histogram(points[:, 0], 256, (-1, 1))[0]
    edges = np.arange(16, 256, 16)

    def step(counts):
        """Mean jump over the 15 inner edges, beside what chance makes."""
        return np.abs(counts[edges] - counts[edges - 1]).mean()

    assert step(found["drawn"]) < 0.35 * step(found["flat"])
    assert step(found["drawn"]) < 2 * step(found["truth"])


def test_a_handful_of_points_is_nearly_uniform(rng):
    """They do not gather in the middle of their cells."""
    ends = end_densities(np.array([[3, 5]]), 16, np.ones((16, 16), bool))
    assert np.abs(ends - 1).max() < 0.15
