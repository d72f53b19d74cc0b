"""Trees as arrays: scikit-learn's own log odds, the same work whatever was grown."""

import numpy as np
import pytest

from privot.integral.learners import MOST_TREES, Trees, grow_trees

pytest.importorskip("sklearn")


@pytest.mark.parametrize("bound", [None, 0.3])
def test_arrays_hold_as_much_whatever_was_grown(bound):
    rng = np.random.default_rng(0)
    drawn, x = rng.normal(0, 1, (400, 2)), rng.normal(0, 2, (500, 2))
    sizes = set()
    for records in (rng.normal(1, 1, (400, 2)), np.zeros((1, 2))):
        trees = grow_trees(records, drawn, 0, bound)
        sizes.add(tuple(array.shape for array in trees.arrays().values()))
        again = Trees.from_arrays(trees.arrays(), trees.bound)
        np.testing.assert_array_equal(again(x), trees(x))
        assert bound is None or np.abs(trees(x)).max() <= bound
    assert sizes == {
        ((29 * MOST_TREES,), (29 * MOST_TREES,), (29 * MOST_TREES, 2), (29 * MOST_TREES,), (1,))
    }


def test_they_tell_records_from_draws():
    """scikit-learn's decision function is compared where they are made; here, that they learn."""
    rng = np.random.default_rng(0)
    trees = grow_trees(rng.normal(1, 1, (800, 1)), rng.normal(-1, 1, (800, 1)), 0, None)
    assert trees(np.array([[2.0]]))[0] > 1 > -1 > trees(np.array([[-2.0]]))[0]
