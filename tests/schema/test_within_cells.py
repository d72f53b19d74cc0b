"""Within cells: masses stay, the density is a density, and no step is left where cells meet.

All draws are seeded: what passes does not fail by chance.
"""

import numpy as np
import pytest

from laws.density import two_lines
from privot.schema import Box, L2Ball
from privot.schema.columns.vector import Cells
from privot.schema.sampling import draw_within, end_densities


@pytest.fixture
def rng():
    return np.random.default_rng(0)


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
