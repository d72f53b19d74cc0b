"""What every public reference density promises: a subclass gives it, and these tests follow.

The statistical test has a false-alarm rate below 1e-6: chi-square at `FALSE_ALARM`, half of that, over
cells that expect 50 draws or more, where the statistic has the tail of its limit.
"""

import numpy as np
from scipy.stats import chi2

from privot.integral.references import SecureGenerator

FALSE_ALARM = 5e-7
LEAST_EXPECTED = 50


class ReferenceLaws:
    """Subclasses define `reference` and `box`, a box (lower, upper) for quadrature or counting."""

    reference: object
    box: tuple[tuple[float, ...], tuple[float, ...]]
    discrete: tuple[int, ...] = ()
    cells = 24

    def test_draws_have_the_shape_and_lie_inside(self):
        for generator in (np.random.default_rng(0), SecureGenerator()):
            x = self.reference.sample(1000, generator)
            assert x.shape == (1000, self.reference.dim)
            assert x.dtype == np.float64
            assert self.reference.contains(x).all()
            assert np.isfinite(self.reference.log_density(x)).all()

    def test_what_is_not_inside_has_no_density(self):
        for outside in (np.nan, np.inf):
            x = np.full((1, self.reference.dim), outside)
            assert not self.reference.contains(x).any()

    def test_a_seed_repeats(self):
        one, two = (self.reference.sample(50, np.random.default_rng(3)) for _ in range(2))
        np.testing.assert_array_equal(one, two)

    def test_secure_draws_do_not_repeat(self):
        one, two = (self.reference.sample(50, SecureGenerator()) for _ in range(2))
        assert (one != two).any()

    def masses(self):
        """Edges of each coordinate, and the probabilities of their cells by the midpoint rule."""
        fine, edges = 40, []
        points, widths = [], []
        for j, (low, high) in enumerate(zip(*self.box)):
            if j in self.discrete:
                values = np.arange(low, high + 1)
                edges.append(np.append(values, high + 1) - 0.5)
                points.append(values[:, None])
                widths.append(1.0)
            else:
                edges.append(np.linspace(low, high, self.cells + 1))
                step = (high - low) / self.cells / fine
                inner = low + step * (np.arange(self.cells * fine) + 0.5)
                points.append(inner.reshape(self.cells, fine))
                widths.append(step)
        shape = [p.shape for p in points]
        grid = np.meshgrid(*[p.ravel() for p in points], indexing="ij")
        density = np.exp(self.reference.log_density(np.stack([g.ravel() for g in grid], axis=1)))
        blocks = density.reshape([size for pair in shape for size in pair])
        summed = blocks.sum(axis=tuple(range(1, 2 * len(shape), 2)))
        return edges, summed * np.prod(widths)

    def test_the_density_is_that_of_the_draws(self):
        edges, masses = self.masses()
        assert abs(masses.sum() - 1) < 2e-3
        x = self.reference.sample(100_000, SecureGenerator())
        counts = np.histogramdd(x, bins=edges)[0].ravel()
        assert chi_square(counts, masses.ravel() * len(x)) > FALSE_ALARM
        wrong = masses.ravel() * np.where(np.arange(masses.size) % 2, 0.9, 1.1)
        assert chi_square(counts, wrong / wrong.sum() * len(x)) < 1e-6, "no power"


def chi_square(counts, expected):
    """Survival probability of the statistic; cells that expect less than 50 are one cell."""
    rare = expected < LEAST_EXPECTED
    total = max(counts.sum(), expected.sum())
    counts = np.append(counts[~rare], total - counts[~rare].sum())
    expected = np.append(expected[~rare], total - expected[~rare].sum())
    keep = expected >= LEAST_EXPECTED
    statistic = ((counts - expected)[keep] ** 2 / expected[keep]).sum()
    return chi2.sf(statistic, keep.sum() - 1)
