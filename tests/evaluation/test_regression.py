"""A number is told from the others as well as its noise allows, and not where nothing tells it."""

import numpy as np
import pytest

from privot import PrivotError, Schema, evaluate

SCHEMA = Schema.from_toml("""
[columns.size]
kind = "numeric"
bounds = [0, 10]
[columns.price]
kind = "numeric"
bounds = [-50, 150]
nullable = true
""")
pytest.importorskip("sklearn")


def records(num, seed, apart=False):
    rng = np.random.default_rng(seed)
    size = rng.uniform(0, 10, num)
    price = 10 * size + rng.normal(0, 10, num)
    price = rng.permutation(price) if apart else price
    return {"size": size, "price": [None if i % 10 == 0 else p for i, p in enumerate(price)]}


def test_a_number_is_told():
    found = evaluate(records(900, 0), records(800, 1), SCHEMA, target="price")
    told = found.prediction
    assert (told.measure, told.num_real) == ("R²", 720)
    for score in told.scores:
        assert 0.75 < score.synthetic < 0.95
        assert score.real == pytest.approx(score.synthetic, abs=0.08)
    assert found.verdict[-1].topic == "predicting price"
    assert found.verdict[-1].grade == "good"


def test_what_synthetic_records_do_not_tell():
    found = evaluate(records(900, 0, apart=True), records(800, 1), SCHEMA, target="price")
    assert all(score.synthetic < 0.2 for score in found.prediction.scores)
    assert found.verdict[-1].grade == "poor"
    both = evaluate(
        records(900, 0, apart=True), records(800, 1, apart=True), SCHEMA, target="price"
    )
    assert "real records do not predict it either" in both.verdict[-1].words


def test_refusals():
    alone = Schema.from_toml('[columns.a]\nkind = "numeric"\nbounds = [0, 1]')
    table = {"a": np.linspace(0, 1, 30)}
    with pytest.raises(PrivotError, match="'a' is the only column"):
        evaluate(table, table, alone, target="a")
    constant = records(30, 0) | {"price": [1.0] * 30}
    with pytest.raises(PrivotError, match="'price' has 1 values in 30 real records"):
        evaluate(constant, constant, SCHEMA, target="price")
