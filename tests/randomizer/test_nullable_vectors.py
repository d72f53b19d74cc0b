"""Vectors that may be missing, from the schema to the file and back."""

import numpy as np
import pyarrow as pa
import pytest

from privot.audit import audit_randomizer
from privot.core.errors import PrivotError
from privot.mechanisms import RandomizedResponse
from privot.mechanisms.additive_noise import NullableNoise
from privot.randomizer import Randomizer, Release
from privot.randomizer.reports.rows import ReportTable
from privot.schema import Schema

HOME = {"kind": "vector", "columns": ["x", "y"], "bounds": [[0, 10], [0, 20]], "nullable": True}


SCHEMA = Schema.from_dict(
    {"columns": {"home": HOME, "sex": {"kind": "categorical", "categories": ["F", "M"]}}}
)


PEOPLE = {"x": [1.0, None, 3.0, 30.0], "y": [5.0, 1.0, None, 7.0], "sex": ["F", "M", "F", "M"]}


def test_every_report_has_a_flag_and_a_point(tmp_path):
    randomizer = Randomizer.calibrate(SCHEMA, 2.0, report="joint", mechanism="laplace")
    assert randomizer.guarantee.epsilon == pytest.approx(2.0)
    assert randomizer.mechanisms["home"].flag.epsilon == pytest.approx(0.5)
    release = randomizer.privatize(PEOPLE)
    assert release.table.column_names == [
        "joint.sheet", "joint.cells", "x", "y", "home.missing", "report_id",
    ]  # fmt: skip
    assert release.table["home.missing"].type == pa.bool_()
    assert not any(release.table[name].null_count for name in release.table.column_names)
    release.save(tmp_path / "r.parquet")
    again = Release.load(tmp_path / "r.parquet")
    assert again.randomizer == randomizer
    values, reported = again.reports("home")
    assert values.shape == (4, 3)
    assert reported.all()
    grid = randomizer.mechanisms["home"].value.grid
    assert (values[:, :2] / grid == np.rint(values[:, :2] / grid)).all()


def test_who_is_missing_is_hidden_and_can_be_counted():
    randomizer = Randomizer.calibrate(SCHEMA, 4.0, report="joint", mechanism="laplace")
    n = 40_000
    missing = np.arange(n) % 4 == 0
    people = {
        "x": np.where(missing, np.nan, 9.0),
        "y": np.full(n, 1.0),
        "sex": ["F", "M"] * (n // 2),
    }
    values, _ = randomizer.privatize(people, keep_order=True).reports("home")
    keep, wrong = randomizer.mechanisms["home"].flag.probabilities
    estimate = (values[:, 2].mean() - wrong) / (keep - wrong)
    assert estimate == pytest.approx(0.25, abs=5 * 0.5 / (keep - wrong) / np.sqrt(n))
    # Noise is around the middle where nothing is known, around the home elsewhere.
    assert np.median(values[missing, 0]) == pytest.approx(0.0, abs=0.1)
    assert np.median(values[~missing, 0]) == pytest.approx(0.8, abs=0.1)


def test_split_reports_leave_out_whole_columns():
    release = Randomizer.calibrate(SCHEMA, 1.0, report="split", report_columns=1).privatize(
        {"x": [1.0, None] * 100, "y": [2.0, None] * 100, "sex": ["F", "M"] * 100}
    )
    valid = [release.table[name].is_valid().to_numpy() for name in ("x", "y", "home.missing")]
    assert (valid[0] == valid[2]).all()
    assert 40 < valid[0].sum() < 160
    assert (release.table["sex"].is_valid().to_numpy() != valid[0]).all()


def test_altered_flags_and_names_that_clash_are_refused(tmp_path):
    release = Randomizer.calibrate(SCHEMA, 1.0, report="joint", mechanism="laplace").privatize(
        PEOPLE
    )
    path = tmp_path / "r.parquet"
    place = release.table.column_names.index("home.missing")
    for flags in (pa.array([0.0, 1.0, 0.0, 1.0]), pa.array([True, None, True, True])):
        table = release.table.set_column(place, "home.missing", flags)
        Release(ReportTable.of(table), release.randomizer).save(path)
        with pytest.raises(PrivotError, match="altered"):
            Release.load(path)
    clash = {"kind": "vector", "columns": ["home.missing"], "radius": 1.0}
    schema = Schema.from_dict({"columns": {"home": HOME, "other": clash}})
    with pytest.raises(PrivotError, match="flags of missing values"):
        Randomizer.calibrate(schema, 1.0)


def test_the_audit_tries_missing_against_present(no_streams):
    """False-alarm rate 1e-6; a flag of ε = 4 in place of 1/2 shows in a few hundred reports."""
    few = {"num_draws": 3_000, "confidence": 1 - 1e-6}
    randomizer = Randomizer.calibrate(
        Schema.from_dict({"columns": {"home": HOME}}), 1.0, mechanism="laplace"
    )
    assert not audit_randomizer(randomizer, **few).refuted
    # A flag with far more than its half is found out by the pair that only it tells apart.
    own = randomizer.mechanisms["home"]
    loud = NullableNoise(own.value, RandomizedResponse(2, 4.0))
    broken = Randomizer(randomizer.schema, {"home": loud})
    result = audit_randomizer(broken, randomizer.guarantee, **few)
    assert result.overstated
    assert result.columns[0].refuted
