"""One call evaluates a model or a table, and says what it found as the command line does."""

import pytest

import privot
from privot import PrivotError, Randomizer, Schema
from privot.models import Learned

SCHEMA = Schema.from_toml("""
[columns.color]
kind = "categorical"
categories = ["red", "blue"]
[columns.size]
kind = "numeric"
bounds = [0, 10]
bins = 4
""")
REAL = {"color": ["red", "blue"] * 50, "size": [1.0, 9.0] * 50}


def test_a_model_is_sampled_and_compared():
    model = privot.fit(Randomizer.calibrate(SCHEMA, 8.0).privatize(REAL))
    found = privot.evaluate(model, REAL, target="color", num_rows=200, seed=1)
    assert found.synthetic.equals(model.sample(200, seed=1))
    again = privot.evaluate(found.synthetic, REAL, SCHEMA, target="color", seed=1)
    assert again.summary() == found.summary()
    facts = found.summary()
    assert {"one_way", "two_way"} <= set(facts)
    assert "AUC of color, logistic regression" in facts


def test_it_is_shown_as_what_it_found():
    apart = {"color": ["red"] * 100, "size": [1.0] * 100}
    found = privot.evaluate(apart, REAL, SCHEMA)
    assert repr(found).startswith("Evaluation(one_way: 0.5000 (floor 0.")
    assert "<tr><th>one_way</th><td>0.5000 (floor 0." in found._repr_html_()


def test_a_table_needs_its_schema():
    with pytest.raises(PrivotError, match="dict is not sampled here: give .* the schema"):
        privot.evaluate(REAL, REAL)


def test_draws_that_are_counted_are_not_made_here():
    class Counted(Learned):
        guarantee = fields = arrays = build = None

    with pytest.raises(PrivotError, match="Counted is not sampled here: give a table of its"):
        privot.evaluate(Counted(), REAL)
