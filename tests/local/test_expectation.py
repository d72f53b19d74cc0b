"""A pass of expectation and maximization does not depend on the order of columns."""

import numpy as np

from privot.local.classes.counts import count_tables
from privot.local.classes.expectation import ascend
from privot.local.classes.marginals import stacked_marginals
from privot.local.classes.mixture import LatentClasses
from simulated_reports import draw_classes, draw_people, joint_group

SIZES = (4, 3, 5, 2, 3)


def two_classes(seed, count):
    rng = np.random.default_rng(seed)
    truth = LatentClasses(*draw_classes(rng, SIZES, 2))
    return rng, truth, draw_people(rng, truth.weights, truth.probabilities, count)


def test_passes_do_not_depend_on_the_columns_order():
    rng, _, people = two_classes(5, 3000)
    order = [3, 0, 4, 1, 2]
    sizes = tuple(SIZES[c] for c in order)
    pairs = [(i, j) for i in range(5) for j in range(i + 1, 5)]
    assigned = rng.integers(len(pairs), size=len(people))
    starts = draw_classes(rng, SIZES, 4)
    found = []
    for shuffled in (False, True):
        groups = []
        for number, (i, j) in enumerate(pairs):
            noise = np.random.default_rng(number)
            mine = people[assigned == number]
            # w = 1 at this epsilon: the set of one cell does not depend on the cells' order.
            cells = noise.random(len(mine)) < 0.8
            revealed = np.where(cells[:, None], mine[:, [i, j]], 0)
            columns = (i, j)
            if shuffled:
                columns = tuple(order.index(c) for c in (i, j))
                if columns[0] > columns[1]:
                    columns, revealed = columns[::-1], revealed[:, ::-1]
            shape = tuple((sizes if shuffled else SIZES)[c] for c in columns)
            whole = np.zeros((len(revealed), 5), np.int64)
            whole[:, list(columns)] = revealed
            assert np.prod(shape) < 1 + np.exp(6.0)
            groups.append(joint_group(Silent(), whole, columns, sizes if shuffled else SIZES, 6.0))
        size = sizes if shuffled else SIZES
        tables = count_tables(groups, size)
        start = [starts[1][c] for c in order] if shuffled else starts[1]
        prior = stacked_marginals(tables)
        p, weights = ascend(tables, prior, np.concatenate(start), starts[0], 1.0, 30)
        columns = np.split(p, np.cumsum(size)[:-1])
        found.append(
            (weights, [columns[order.index(c)] for c in range(5)] if shuffled else columns)
        )
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-6)
    for a, b in zip(found[0][1], found[1][1]):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-8)


class Silent:
    """A source of coins that always keeps the true cell."""

    def random(self, size):
        return np.zeros(size)
