"""The default forms: every pair is covered, equal columns alike, and the design is optimal."""

import math
from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import minimize

from privot.core.errors import PrivotError
from privot.randomizer import Randomizer
from privot.randomizer.information import (
    Incidence,
    _optimal_shares,
    _possible_forms,
    choose_forms,
)
from privot.schema import Schema

SIZES = [9, 16, 7, 15, 6, 5, 2, 2, 10, 10]


def shares_by_length(sizes, epsilon):
    forms, weights = choose_forms(sizes, epsilon)
    return np.bincount(list(map(len, forms)), weights, 5) / sum(weights)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0, 8.0, 14.0])
@pytest.mark.parametrize("sizes", [SIZES, [2, 2], [3] * 40, [40, 2, 3, 16]])
def test_every_pair_is_asked_by_positive_weights(sizes, epsilon):
    forms, weights = choose_forms(sizes, epsilon)
    covered = {pair for form in forms for pair in combinations(form, 2)}
    assert covered == set(combinations(range(len(sizes)), 2))
    assert len(set(forms)) == len(forms) == len(weights)
    assert min(weights) > 0
    assert all(type(weight) is int for weight in weights)


def test_small_budgets_ask_single_columns_and_large_ones_many_together():
    found = [shares_by_length(SIZES, epsilon) for epsilon in (1.0, 4.0, 8.0, 14.0)]
    lengths = [shares @ np.arange(5) for shares in found]
    assert lengths == sorted(lengths)
    assert 0.2 < found[0][1] < 0.5  # single columns
    assert found[1][2] > 0.9
    assert found[2][3] > 0.5
    assert found[3][4] > 0.9


def test_columns_of_one_size_are_asked_alike():
    forms, weights = choose_forms([5, 3, 5, 3], 2.0)
    drawn = dict(zip(forms, weights, strict=True))
    swapped = {tuple(sorted({0: 2, 2: 0}.get(c, c) for c in form)): w for form, w in drawn.items()}
    assert swapped == drawn


def test_the_design_has_the_least_sum_of_all():
    """As a general minimizer finds it, over four columns at an ε that mixes lengths."""
    sizes, epsilon = [2, 9, 4, 6], 3.0
    candidates = _possible_forms(sizes)
    pairs = list(combinations(range(4), 2))
    incidence = Incidence.of(candidates, sizes, epsilon)
    free = [size**0.7 * (size**0.7 - 1) for size in sizes]

    def total(shares):
        main, pair = incidence.information(shares)
        out = 0.0
        for i, j in pairs:
            needed = 0.2 * (epsilon / 8) ** 3 + 1 / 16 / ((sizes[i] - 1) * (sizes[j] - 1))
            both = min(1, needed) * free[i] * free[j] / pair[4 * i + j]
            out += math.sqrt(free[i] / main[i] + free[j] / main[j] + both)
        return out

    def of_logits(logits):
        shares = np.exp(logits - logits.max())
        return total(shares / shares.sum())

    found = minimize(of_logits, np.zeros(len(candidates)), method="BFGS").fun
    assert total(_optimal_shares(sizes, candidates, pairs, epsilon, np.ones(6))) <= 1.002 * found


def test_what_does_not_fit_is_not_asked():
    assert choose_forms([5], 1.0) == (((0,),), (1,))
    forms, _ = choose_forms([300, 300, 2], 8.0)
    assert set(forms) == {(0, 2), (1, 2)}  # 90 000 cells are too many, 180 000 as well
    assert set(choose_forms([400, 300, 200], 4.0)[0]) == {(0,), (1, 2)}
    forms, _ = choose_forms([2] * 400, 8.0)
    assert {len(form) for form in forms} == {1}  # 79 800 pairs are too many forms
    with pytest.raises(PrivotError, match="a column has 100000 values"):
        choose_forms([100_000, 2], 1.0)


def test_calibration_asks_them():
    columns = {f"c{i}": {"kind": "categorical", "categories": list("abcdefg"[:size])}
               for i, size in enumerate((2, 3, 7))}  # fmt: skip
    design = Randomizer.calibrate(Schema.from_dict({"columns": columns}), 2.0).joint.design
    assert (design.forms, design.weights) == choose_forms([2, 3, 7], 2.0)
