"""Randomizers and releases: what is promised, what leaves the device, what is refused."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

from homes_and_ages import SCHEMA, people
from privot.core.errors import PrivotError
from privot.mechanisms import Laplace, RandomizedResponse, SubsetSelection
from privot.randomizer import Randomizer, Release
from privot.schema import Schema


def test_noise_is_scaled_to_each_side_and_has_the_promised_scale():
    """False-alarm rate 1e-6 a coordinate; noise that is 10 % off has p-values below that."""
    num = 40_000
    randomizer = Randomizer.calibrate(SCHEMA, 4.0, report="split")
    table = pa.table(people(num))
    release = randomizer.privatize(table, keep_order=True)
    share = 4.0 / 3
    # ℓ1 diameter of the unit box is 4: scale 4/share in units of half a side.
    for name, half_side in (("longitude", 10.5 / 2), ("latitude", 11.1 / 2)):
        noise = release.table[name].to_numpy() - table[name].to_numpy()
        scale = 4 / share * half_side
        assert stats.kstest(noise, stats.laplace(scale=scale).cdf).pvalue > 1e-6
        assert stats.kstest(noise, stats.laplace(scale=scale * 1.1).cdf).pvalue < 1e-6
    same = np.mean(release.table["sex"].to_numpy() == table["sex"].to_numpy())
    expected = np.exp(share) / (np.exp(share) + 1)
    # 5.5 standard deviations: false-alarm rate 4e-8 each.
    assert abs(same - expected) < 5.5 * np.sqrt(expected * (1 - expected) / num)


def test_a_second_call_draws_fresh_noise():
    randomizer = Randomizer.calibrate(SCHEMA, 4.0, report="split")
    first, second = (randomizer.privatize(people()).table["age"].to_numpy() for _ in range(2))
    assert (first != second).mean() > 0.99


def test_values_outside_are_projected_and_counted_on_the_device_only(tmp_path):
    randomizer = Randomizer.calibrate(SCHEMA, 400.0, report="split")
    raw = people(100)
    raw["age"] = np.where(np.arange(100) < 7, 1e6, raw["age"])
    assert randomizer.count_outside(raw) == {"home": 0, "age": 7}
    release = randomizer.privatize(raw, keep_order=True)
    assert release.table["age"].to_numpy()[:7].max() < 100
    release.save(tmp_path / "r.parquet")
    metadata = pq.read_metadata(tmp_path / "r.parquet").metadata
    assert set(metadata) <= {b"privot.randomizer", b"privot.batch", b"ARROW:schema"}


def test_the_guarantee_is_that_of_the_noise_as_it_is():
    """Noise that was exchanged afterwards cannot keep an old promise."""
    randomizer = Randomizer.calibrate(SCHEMA, 3.0, report="split")
    randomizer.mechanisms["age"] = Laplace(1e-3, 2.0**-20)
    assert randomizer.guarantee.epsilon > 1000


def test_mechanisms_must_fit_their_columns():
    mechanisms = dict(Randomizer.calibrate(SCHEMA, 3.0, report="split").mechanisms)
    for name, wrong in (
        ("age", RandomizedResponse(2, 1.0)),
        ("age", SubsetSelection(8, 1.0)),
        ("sex", Laplace(1.0, 2.0**-20)),
        ("sex", RandomizedResponse(5, 1.0)),
    ):
        with pytest.raises(PrivotError, match=f"column '{name}'"):
            Randomizer(SCHEMA, mechanisms | {name: wrong})
    with pytest.raises(PrivotError, match="delta nan"):
        Randomizer(SCHEMA, mechanisms, delta=float("nan"))


def test_tables_of_every_library_are_welcome():
    randomizer = Randomizer.calibrate(SCHEMA, 4.0, report="split")
    raw = people(50)
    for table in (pd.DataFrame(raw), pl.DataFrame(raw), pa.table(raw), raw):
        assert len(randomizer.privatize(table)) == 50
    with pytest.raises(PrivotError, match="a list is not a table"):
        randomizer.privatize([1, 2])


def test_json_round_trip_and_expected_noise(tmp_path):
    randomizer = Randomizer.calibrate(SCHEMA, 2.0, 1e-6, mechanism="gaussian", report_columns=2)
    randomizer.save(tmp_path / "randomizer.json")
    again = Randomizer.load(tmp_path / "randomizer.json")
    assert again == randomizer
    assert again.to_json() == randomizer.to_json()
    rows = {row["column"]: row for row in again.expected_noise()}
    sides = np.array([10.5, 11.1])
    stddev = randomizer.mechanisms["home"].stddev
    np.testing.assert_allclose(rows["home"]["stddev"], stddev * sides / 2, rtol=1e-6)
    assert rows["sex"]["keep"] == pytest.approx(np.e / (np.e + 1), rel=1e-6)


def test_release_round_trip(tmp_path):
    release = Randomizer.calibrate(SCHEMA, 2.0, report_columns=2, report="split").privatize(
        people()
    )
    release.save(tmp_path / "release.parquet")
    again = Release.load(tmp_path / "release.parquet")
    assert again.table.equals(release.table)
    assert again.guarantee == release.guarantee


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"epsilon": 0.0}, "epsilon 0.0 promises nothing"),
        ({"epsilon": -1.0}, "epsilon -1.0"),
        ({"epsilon": float("nan")}, "epsilon nan"),
        (
            {"epsilon": 1.0, "delta": 1.0, "mechanism": "gaussian"},
            "delta is 1.0: give 0 <= delta < 1",
        ),
        ({"epsilon": 1.0, "mechanism": "gaussian"}, "delta 0 is not possible"),
        ({"epsilon": 1.0, "delta": 1e-6}, "not needed by mechanism 'auto'"),
        ({"epsilon": 1.0, "mechanism": "cauchy"}, "mechanism 'cauchy' is not known"),
        ({"epsilon": 1.0, "report_columns": 4}, "report_columns 4 is not between 1"),
        ({"epsilon": 1.0, "report_columns": 0}, "report_columns 0 is not between 1"),
        ({"epsilon": 1.0, "report_columns": 1.5}, "report_columns 1.5 is not"),
        ({"epsilon": "1"}, "epsilon 1 promises nothing"),
        ({"epsilon": 1e7}, "at most 1000"),
    ],
)
def test_calibration_refusals(arguments, words):
    with pytest.raises(PrivotError) as caught:
        Randomizer.calibrate(SCHEMA, **{"report": "split", **arguments})
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"age": np.full(5, np.nan)}, "row 1: column 'age' has no value"),
        ({"age": [20, 30, float("inf"), 40, 50]}, "row 3: column 'age' is infinite"),
        ({"age": list("abcde")}, "row 1: column 'age' has text, not a number"),
        ({"age": [True] * 5}, "row 1: column 'age' holds bool, not numbers"),
        ({"age": pa.array([1, None, 3, 4, 5])}, "row 2: column 'age' has no value"),
        (
            {"sex": ["Male"] * 4 + ["male"]},
            "row 5: column 'sex' differs from a category by capitals",
        ),
        ({"sex": pa.array(["Male"] * 4 + [None])}, "column 'sex'"),
        ({"height": [1] * 5}, "columns ['height'] are not in the schema"),
        ({"age": None}, "columns ['age'] are missing"),
    ],
)
def test_records_that_cannot_be_used_are_refused(change, words):
    raw = people(5) | change
    table = pa.table({k: v for k, v in raw.items() if v is not None})
    with pytest.raises(PrivotError) as caught:
        Randomizer.calibrate(SCHEMA, 1.0, report="split").privatize(table)
    assert words in str(caught.value)


def write(path, table, metadata):
    pq.write_table(table.replace_schema_metadata(metadata), path)


def test_altered_releases_are_refused(tmp_path):
    randomizer = Randomizer.calibrate(SCHEMA, 1.0, report_columns=2, report="split")
    release = randomizer.privatize(people(20))
    metadata = {b"privot.randomizer": randomizer.to_json().encode()}
    path = tmp_path / "release.parquet"
    release.save(path)
    whole = path.read_bytes()

    def refused(words):
        with pytest.raises(PrivotError, match=words):
            Release.load(path)

    path.write_bytes(whole[: len(whole) // 2])
    refused("copy it again")
    path.write_bytes(b"")
    refused("cannot be read")
    write(path, release.table, None)
    refused("carries no randomizer")
    write(path, release.table, {b"privot.randomizer": b"{}"})
    refused("not readable")
    write(path, release.table.drop_columns(["age"]), metadata)
    refused("the reports have columns")
    write(path, release.table.set_column(3, "sex", pa.array(["x"] * 20)), metadata)
    refused("holds what the randomizer does not report")
    write(path, release.table.set_column(2, "age", pa.array([1.0] * 20)), metadata)
    refused("not have 2 of the split columns|half reported|does not report")
    write(path, release.table.set_column(2, "age", pa.array([1] * 20)), metadata)
    refused("has type int64")
    with pytest.raises(PrivotError, match="is not there"):
        Release.load(tmp_path / "nowhere.parquet")


def test_releases_pickle_into_a_spawned_process(tmp_path):
    """Ray and joblib send them so, whether their rows are in memory or in a file."""
    schema = Schema.from_toml('[columns.color]\nkind = "categorical"\ncategories = ["a", "b"]')
    held = Randomizer.calibrate(schema, 2.0).privatize({"color": ["a", "b", "a"]})
    held.save(tmp_path / "release.parquet")
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as others:
        for release in (held, Release.load(tmp_path / "release.parquet")):
            # By functions of Python's own, so that the other process imports no more than a release.
            there = [others.submit(look, release).result() for look in (len, repr)]
            names = ("randomizer", "table")
            there += [others.submit(getattr, release, name).result() for name in names]
            assert there == [3, repr(release), release.randomizer, release.table]
