"""The estimator follows scikit-learn's conventions, and takes releases only."""

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone

import privot
from privot import FitSettings, PrivotError, Randomizer, Schema, Synthesizer

SCHEMA = Schema.from_toml('[columns.color]\nkind = "categorical"\ncategories = ["red", "blue"]')
RECORDS = {"color": ["red", "blue"] * 100}


@pytest.fixture(scope="module")
def release():
    return Randomizer.calibrate(SCHEMA, epsilon=2.0).privatize(RECORDS)


def test_it_fits_what_fit_fits(release):
    synthesizer = Synthesizer(SCHEMA, 2.0, seed=3)
    assert synthesizer.fit(release) is synthesizer
    drawn = synthesizer.sample(20, seed=1, where={"color": "red"})
    assert drawn.equals(privot.fit(release, seed=3).sample(20, seed=1, where={"color": "red"}))
    assert synthesizer.model_.guarantee == release.guarantee


@pytest.mark.parametrize(
    "raw", [RECORDS, pd.DataFrame(RECORDS), pl.DataFrame(RECORDS), pa.table(RECORDS), "people.csv"]
)
def test_raw_records_are_refused_in_one_line(raw):
    with pytest.raises(PrivotError, match=r"^release is a \w+: privatize .*`privot privatize .*$"):
        Synthesizer(SCHEMA, 2.0).fit(raw)


def test_what_does_not_fit_is_named(release):
    with pytest.raises(PrivotError, match="epsilon 1 is less than the release's 2"):
        Synthesizer(SCHEMA, 1.0).fit(release)
    other = Schema.from_toml('[columns.color]\nkind = "boolean"')
    with pytest.raises(
        PrivotError, match=r"schema Schema\(columns: color.*\) is not the release's"
    ):
        Synthesizer(other).fit(release)
    with pytest.raises(PrivotError, match="not fitted: call fit"):
        Synthesizer(SCHEMA).sample(3)
    with pytest.raises(PrivotError, match="sed is no parameter: use one of schema, epsilon"):
        Synthesizer(SCHEMA).set_params(sed=1)


def test_a_clone_has_the_parameters_and_nothing_learned(release):
    fitted = Synthesizer(SCHEMA, 2.0, FitSettings(seed=1), seed=4).fit(release)
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params()
    assert not hasattr(copy, "model_")
    assert copy.set_params(seed=5).seed == 5
    assert "fitted: False" in repr(copy)
