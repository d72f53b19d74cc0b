"""Fits of a schema that promises an epsilon to the people."""

import pytest

from privot.central import SliceSettings, fit, fit_classifier
from privot.core.errors import PrivotError
from privot.schema import Schema

PEOPLE = {"old": [True, False] * 500}
COLUMNS = {"old": {"kind": "boolean"}}


def promising(**promise):
    fields = {"epsilon": 1.0, "where": "central", "delta": 1e-6, "people": 1000} | promise
    return Schema.from_dict({"columns": COLUMNS, "promise": fields})


def test_epsilon_and_delta_are_those_of_the_promise():
    model = fit(PEOPLE, promising())
    assert 0.999 < model.guarantee.epsilon <= 1
    assert model.guarantee.delta == 1e-6
    assert model.made_with["epsilon"] == 1
    assert fit(PEOPLE, Schema.from_dict({"columns": COLUMNS}), epsilon=1.0).guarantee.delta == 1e-5


def test_what_contradicts_a_promise_is_refused(tmp_path):
    for more, match in (({"epsilon": 1.0}, "epsilon is 1.0"), ({"delta": 1e-6}, "delta is 1e-06")):
        with pytest.raises(PrivotError, match=match + ", and the schema promises"):
            fit(PEOPLE, promising(), **more)
    with pytest.raises(PrivotError, match="1,000 records are fewer than the 1,001"):
        fit(PEOPLE, promising(people=1001), checkpoint=tmp_path / "run")
    assert not [*tmp_path.iterdir()]
    with pytest.raises(PrivotError, match="where is 'shuffled'"):
        fit(PEOPLE, promising(where="shuffled"))
    blanks = SliceSettings(neighboring="zero_out")  # ε = 2.2 between any two records, at the same δ
    with pytest.raises(PrivotError, match="zero_out.*use 'replace_one'"):
        fit(PEOPLE, promising(), method=blanks)
    with pytest.raises(PrivotError, match="zero_out.*use 'replace_one'"):
        fit_classifier(PEOPLE, promising(), neighboring="zero_out")
    with pytest.raises(PrivotError, match="epsilon is missing"):
        fit(PEOPLE, Schema.from_dict({"columns": COLUMNS}))
