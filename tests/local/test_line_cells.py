"""Cells of the line: masses stay, densities fall where they should, and no step is left between cells.

All draws are seeded: what passes does not fail by chance.
"""

import numpy as np
import pytest

from laws.density import two_lines
from privot.schema.sampling import LineCells


@pytest.fixture
def rng():
    return np.random.default_rng(0)


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
