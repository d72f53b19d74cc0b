"""A card a column: bars of categories, histograms of numbers and coordinates, graded as documented."""

import numpy as np
import pyarrow as pa

from privot.evaluation import compare
from privot.report.table_pages import MAX_COLUMNS, cards
from privot.schema import Schema

SCHEMA = Schema.from_toml("""
[columns.color]
kind = "categorical"
categories = ["red", "blue"]
[columns.size]
kind = "numeric"
bounds = [0, 100]
nullable = true
[columns.place]
kind = "vector"
columns = ["x", "y"]
bounds = [[0, 1], [0, 1]]
""")


def people(num, seed, scale=1.0):
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "color": np.where(rng.random(num) < 0.3, "red", "blue"),
            "size": pa.array(rng.exponential(10 * scale, num), mask=rng.random(num) < 0.1),
            "x": rng.random(num),
            "y": rng.random(num),
        }
    )


def test_every_column_has_the_card_of_its_kind():
    ours, truth = people(900, 0, scale=2.0), people(800, 1)
    found = {
        card.name: card for card in cards(SCHEMA, ours, truth, compare(SCHEMA, ours, truth), None)
    }
    assert list(found) == ["color", "size", "x", "y"]
    assert [len(card.bars) for card in found.values()] == [2, 0, 0, 0]
    assert found["color"].scale == max(bar.longest for bar in found["color"].bars)
    assert found["color"].grade == found["x"].grade == "good"
    assert found["size"].grade == "poor"
    assert found["size"].score.startswith("KS 0.")
    facts = {fact.name: fact for fact in found["size"].facts}
    assert float(facts["mean"].synthetic) > 1.5 * float(facts["mean"].real)
    assert facts["missing"].real.endswith(" %")
    assert facts["mean"].reports is None
    assert found["y"].histogram.real is not None


def test_of_many_columns_the_most_wrong_are_shown():
    names = [f"c{i}" for i in range(MAX_COLUMNS + 5)]
    schema = Schema.from_dict({"columns": {name: {"kind": "boolean"} for name in names}})
    rng = np.random.default_rng(0)
    truth = pa.table({name: rng.random(50) < 0.5 for name in names})
    wrong = truth.set_column(7, "c7", pa.array(~truth["c7"].to_numpy(zero_copy_only=False)))
    found = cards(schema, wrong, truth, compare(schema, wrong, truth), None)
    assert len(found) == MAX_COLUMNS
    assert "c7" in [card.name for card in found]
