"""A verdict against real records: right tables pass at any size, wrong ones are named."""

import numpy as np
import pyarrow as pa
import pytest

from privot.evaluation import compare
from privot.evaluation.prediction import ClassifierScore, Prediction
from privot.evaluation.result import judge_prediction
from privot.schema import Schema

SCHEMA = Schema.from_toml("""
[columns.color]
kind = "categorical"
categories = ["red", "green", "blue"]
[columns.size]
kind = "numeric"
bounds = [0, 10]
bins = 5
[columns.price]
kind = "numeric"
bounds = [0, 100]
bins = 1
""")


def people(num, seed):
    rng = np.random.default_rng(seed)
    size = rng.uniform(0, 10, num)
    color = np.array(["red", "green", "blue"])[(size // 3.4).astype(int)]
    return pa.table({"color": color, "size": size, "price": size**2})


def grades(ours, truth):
    return {f.topic: f for f in compare(SCHEMA, ours, truth).verdict}


@pytest.mark.parametrize("num", [60, 4000])
def test_a_perfect_table_is_good_for_everything(num):
    found = grades(people(num, 0), people(num, 1))
    assert list(found) == [
        "single columns", "numbers, value by value", "pairs of columns", "dependence of pairs",
        "correlations", "rank correlations",
    ]  # fmt: skip
    assert {finding.grade for finding in found.values()} == {"good"}


def test_what_is_wrong_is_named():
    real = people(4000, 0)
    flat = real.set_column(2, "price", pa.array(np.random.default_rng(1).uniform(0, 100, 4000)))
    found = grades(flat, real)
    assert found["single columns"].grade == "good"  # one bin holds them all
    assert found["numbers, value by value"].grade == "fair"
    assert "price (" in found["numbers, value by value"].words
    assert found["correlations"].grade == "poor"
    assert "size × price" in found["correlations"].words


def test_independent_columns_are_called_so():
    rng = np.random.default_rng(2)
    real = people(4000, 0)
    apart = pa.table(
        {
            name: rng.permutation(real[name].to_numpy(zero_copy_only=False))
            for name in real.column_names
        }
    )
    found = grades(apart, real)
    assert found["dependence of pairs"].grade == "poor"
    assert grades(apart, apart)["dependence of pairs"].grade == "unknown"


def test_classifiers_in_words():
    scores = (ClassifierScore("trees", 0.88, 0.9), ClassifierScore("logistic", 0.6, 0.7))
    good = judge_prediction(Prediction("income", 10, 10, scores))
    assert good.grade == "good"
    assert good.words.startswith("trees has AUC 0.880")
    assert (
        judge_prediction(Prediction("x", 9, 9, (ClassifierScore("a", 0.5, 0.51),))).grade
        == "unknown"
    )
    r2 = Prediction("x", 9, 9, (ClassifierScore("a", 0.3, 0.4),), measure="R²")
    assert judge_prediction(r2).grade == "fair"
