"""Numbers by their values: shapes within bins are seen, floors are met, correlations are NumPy's."""

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from privot.evaluation.distances import (
    LEVELS,
    compare_correlations,
    compare_numbers,
    correlations,
    ks_distance,
    number_series,
)
from privot.schema import Schema

SCHEMA = Schema.from_toml("""
[columns.price]
kind = "numeric"
bounds = [0, 100]
bins = 1
[columns.size]
kind = "numeric"
bounds = [0, 100]
nullable = true
[columns.place]
kind = "vector"
columns = ["x", "y"]
bounds = [[0, 1], [0, 1]]
[columns.day]
kind = "datetime"
bounds = [2000-01-01, 2009-12-31]
""")


def people(num, seed):
    rng = np.random.default_rng(seed)
    size = rng.exponential(8, num).clip(0, 100)
    return pa.table(
        {
            "price": (3 * size + rng.normal(0, 2, num)).clip(0, 100),
            "size": pa.array(size, mask=rng.random(num) < 0.2),
            "x": size / 100,
            "y": rng.random(num),
            "day": np.datetime64("2000-01-01") + rng.integers(0, 3000, num),
        }
    )


def test_a_shape_within_one_bin_is_seen():
    """All of it in one bin: the total variation of codes would say 0."""
    real = people(4000, 0)
    flat = real.set_column(0, "price", pa.array(np.random.default_rng(1).uniform(0, 100, 4000)))
    price = compare_numbers(SCHEMA, flat, real)[0]
    assert price.name == "price"
    assert price.ks.synthetic > 0.4
    assert price.ks.floor < 0.04
    assert price.mean.synthetic == pytest.approx(50, abs=2)
    assert price.mean.real < 30
    assert price.quantiles[3].synthetic > 1.5 * price.quantiles[3].real
    assert price.tails[0].synthetic < 0.01


def test_a_perfect_model_scores_the_floor():
    scores = [
        compare_numbers(SCHEMA, people(2000, 2 * i), people(900, 2 * i + 1)) for i in range(12)
    ]
    for place in range(5):
        found = [each[place].ks for each in scores]
        error = np.std([each.synthetic for each in found]) / len(found) ** 0.5
        assert np.mean([each.floor for each in found]) == pytest.approx(
            np.mean([each.synthetic for each in found]), abs=3.5 * error
        )
    for score in scores[0]:
        assert [pair.real for pair in score.tails] == pytest.approx([0.01, 0.01], abs=0.011)
    assert scores[0][1].missing.synthetic == pytest.approx(0.2, abs=0.03)
    assert len(scores[0][0].quantiles) == len(LEVELS)


def test_ks_is_scipys():
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 9, 70).astype(float), rng.integers(2, 11, 50).astype(float)
    assert ks_distance(x, y) == pytest.approx(stats.ks_2samp(x, y).statistic)


def test_coordinates_and_dates_are_numbers():
    assert list(number_series(SCHEMA, people(5, 0))) == ["price", "size", "x", "y", "day"]


def test_correlations_are_numpys():
    real = people(3000, 0)
    apart = real.set_column(
        0, "price", pa.array(np.random.default_rng(1).permutation(real["price"]))
    )
    scores = {(s.first, s.second): s for s in compare_correlations(SCHEMA, apart, real)}
    assert len(scores) == 10
    score = scores["price", "x"]
    expected = np.corrcoef(real["price"].to_numpy(), real["x"].to_numpy())[0, 1]
    assert score.correlation.real == pytest.approx(expected)
    assert score.difference.synthetic > 0.9
    assert score.difference.independence == pytest.approx(score.difference.synthetic, rel=0.1)
    assert score.difference.floor < 0.02
    size = real["size"].to_numpy(zero_copy_only=False)
    known = ~np.isnan(size)
    own = np.corrcoef(size[known], real["y"].to_numpy()[known])[0, 1]
    assert scores["size", "y"].correlation.real == pytest.approx(own)


def test_constants_and_absent_values_correlate_with_nothing():
    far = 1e9 + np.zeros(5)
    values = np.stack([far, np.arange(5.0), np.full(5, np.nan)], axis=1)
    found = correlations(values)
    assert found[0, 1] == found[1, 2] == found[0, 2] == 0
    assert found[1, 1] == pytest.approx(1)


@pytest.mark.parametrize("declared", ["decimals = 2", "step = 0.05"])
def test_numbers_of_steps_are_compared_in_values(declared):
    schema = Schema.from_toml(f"""
    [columns.price]
    kind = "numeric"
    bounds = [0, 100]
    {declared}
    [columns.day]
    kind = "datetime"
    bounds = [2000-01-01, 2009-12-31]
    """)
    rng = np.random.default_rng(0)
    prices = np.round(np.round(rng.uniform(0, 100, 200) / 0.05) * 0.05, 2)
    days = np.datetime64("2000-01-01") + rng.integers(0, 3000, 200)
    table = pa.table({"price": prices, "day": days})
    price, _ = compare_numbers(schema, table, table)
    truth = np.quantile(prices, LEVELS, method="inverted_cdf")
    assert price.ks.synthetic == 0
    assert [both.real for both in price.quantiles] == truth.tolist()
    assert (price.mean.real, price.std.real) == pytest.approx((prices.mean(), prices.std()))
    assert number_series(schema, table)["price"].tolist() == prices.tolist()
