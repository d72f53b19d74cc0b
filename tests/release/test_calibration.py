"""One budget for many columns: what is asked for is reached, in every mixture, and not wasted."""

import math

import pytest

from privot.mechanisms import Gaussian
from privot.mechanisms.additive.additive_noise import rounded_sensitivity
from privot.privacy import gaussian_epsilon
from privot.privacy.rounding import sum_up
from privot.release.budget.split_columns import calibrate_columns, split_guarantee
from privot.schema import Schema


def mixture(num_numeric, num_categorical):
    numbers = {f"n{i}": {"kind": "numeric", "bounds": [0, i + 1]} for i in range(num_numeric)}
    codes = {
        f"c{i}": {"kind": "categorical", "categories": [str(j) for j in range(2 + i % 4)]}
        for i in range(num_categorical)
    }
    return Schema.from_dict({"columns": numbers | codes})


def every_mixture(schema, mechanisms, num_reported, delta):
    """ε of each number j of Gaussian columns that a report may hold, without any shortcut."""
    ratios, losses = [], []
    for name, mechanism in mechanisms.items():
        if isinstance(mechanism, Gaussian):
            domain = schema.point_column(name).domain
            ratios.append(rounded_sensitivity(domain, 2, mechanism.grid) / mechanism.stddev)
        else:
            losses.append(mechanism.guarantee().epsilon)
    ratios.sort(reverse=True)
    losses.sort(reverse=True)
    for j in range(max(0, num_reported - len(losses)), min(num_reported, len(ratios)) + 1):
        gaussian = gaussian_epsilon(1.0, math.hypot(*ratios[:j]), delta) if j else 0.0
        yield sum_up([gaussian, *losses[: num_reported - j]])


@pytest.mark.parametrize("num_columns", [(100, 0), (50, 50), (3, 7), (1, 1)])
@pytest.mark.parametrize("epsilon", [0.5, 4.0, 30.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-3])
def test_gaussian_columns_reach_epsilon_in_every_mixture(num_columns, epsilon, delta):
    """50 numbers and 50 categories at ε = 4 once ended an ulp above it, and were refused."""
    schema = mixture(*num_columns)
    for num_reported in {1, 2, sum(num_columns) // 2, sum(num_columns)}:
        mechanisms = calibrate_columns(
            schema, list(schema.columns), epsilon, delta, "gaussian", num_reported
        )
        guarantee = split_guarantee(schema, mechanisms, num_reported, delta)
        worst = max(every_mixture(schema, mechanisms, num_reported, delta))
        assert worst * (1 - 1e-12) <= guarantee.epsilon <= epsilon
        assert guarantee.epsilon >= epsilon * (1 - 1e-9)
