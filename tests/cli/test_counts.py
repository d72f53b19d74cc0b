"""Counts on the command line: of releases, loose files and counts, and what is learned from them."""

import json

import numpy as np
import pyarrow as pa
import pytest

from commands import privot
from privot import Counts, Randomizer, Schema, count, load
from privot.randomizer.reports.rows import ReportTable

PLACE = {"kind": "vector", "columns": ["x", "y"], "bounds": [[0, 1], [0, 4]]}


@pytest.fixture(scope="module")
def made_by():
    return Randomizer.calibrate(Schema.from_dict({"columns": {"p": PLACE}}), 3.0)


def people(made_by, number, seed):
    rng = np.random.default_rng(seed)
    return made_by.privatize({"x": rng.random(number), "y": rng.random(number)})


def ran(folder, line, code=0):
    done = privot(folder, *line.split())
    assert done.returncode == code, done.stderr
    return done


def test_releases_files_and_counts_are_added_up(made_by, tmp_path):
    made_by.save(tmp_path / "randomizer.json")
    releases = [people(made_by, 200, seed) for seed in range(3)]
    for number, release in enumerate(releases):
        release.save(tmp_path / f"{number}.parquet")
    ran(tmp_path, "collect 0.parquet --count -o first")
    (tmp_path / "inbox").mkdir()
    for name in ("once.parquet", "again.parquet"):  # of one device, which sent it twice
        releases[1].save(tmp_path / "inbox" / name)
    done = ran(tmp_path, "collect first inbox 2.parquet --count")
    assert done.stdout.startswith("counts: 600 reports, counted, ε = 3 (pure)")
    assert "200 copies of reports were left out" in done.stderr
    assert Counts.load(tmp_path / "counts").to_bytes() == count(releases).to_bytes()
    twice = ran(tmp_path, "collect counts first --count -o more", 1 + 1)
    assert "releases 1 and 2 (counts, first) share 200 reports" in twice.stderr
    assert not (tmp_path / "more").exists()
    assert "counts exists" in ran(tmp_path, "collect first --count", 2).stderr


def test_impossible_reports_are_put_aside_and_the_model_is_that_of_the_rest(made_by, tmp_path):
    release = people(made_by, 300, 5)
    wrong = release.table.set_column(0, "x", pa.array([50.0, *release.table["x"].to_pylist()[1:]]))
    ReportTable.of(wrong).save(tmp_path / "bad.parquet", made_by.to_json())
    done = ran(tmp_path, "collect bad.parquet --count -o counts")
    assert "1 reports cannot be counted and are in counts.0.quarantine.csv" in done.stderr
    assert len(Counts.load(tmp_path / "counts")) == 299
    assert "report 1" in ran(tmp_path, "collect bad.parquet --count --strict -o no", 2).stderr
    ran(tmp_path, "fit counts -o of_counts --seed 4")
    ran(tmp_path, "fit bad.parquet -o of_reports --seed 4")
    one, other = (load(tmp_path / name).arrays() for name in ("of_counts", "of_reports"))
    np.testing.assert_array_equal(one["weights"], other["weights"])
    refused = ran(tmp_path, "fit counts -o no --estimator generator", 2)
    assert "learns from single reports, and counts hold none" in refused.stderr


def test_a_table_is_checked_by_counts(tmp_path):
    columns = {"a": {"kind": "boolean"}, "b": {"kind": "categorical", "categories": list("pq")}}
    made_by = Randomizer.calibrate(Schema.from_dict({"columns": columns}), 4.0)
    made_by.privatize({"a": [True, False] * 200, "b": list("pqqp") * 100}).save(
        tmp_path / "release.parquet"
    )
    ran(tmp_path, "collect release.parquet --count")
    ran(tmp_path, "fit counts -o model --no-check")
    found = [
        json.loads(ran(tmp_path, f"check model {name} --json").stdout)
        for name in ("counts", "release.parquet")
    ]
    # Rehearsed errors are of fresh noise; estimates and their intervals are not.
    one, other = ([column["shares"] for column in each["columns"]] for each in found)
    assert one == other
