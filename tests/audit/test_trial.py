"""What a trial reads: what reports tell, and uniform points of their cells."""

import numpy as np
from scipy import stats

from privot.audit.trials import PartReports

LOW = np.array([[0.0, 0.5], [0.75, 0.0], [0.0, 0.0]])
HIGH = np.array([[0.5, 0.75], [1.25, 0.25], [1.0, 1.0]])
READ = PartReports(LOW, HIGH, np.array([True, True, False]), np.arange(3).astype(np.uint64))


def test_bits_are_those_of_the_cells_of_who_reported():
    np.testing.assert_allclose(READ.bits, [3.0, 3.0, 0.0])


def test_points_are_uniform_within_their_cells():
    rng = np.random.default_rng(0)  # so that it holds or not for good
    drawn = np.stack([READ.uniforms(rng) for _ in range(2000)])
    assert ((drawn[:, 0] >= LOW[0]) & (drawn[:, 0] < HIGH[0])).all()
    around = (drawn[:, 1, 0] - 0.75) % 1.0  # the cell goes on at 0
    assert stats.kstest(around, stats.uniform(0, 0.5).cdf).pvalue > 1e-6
