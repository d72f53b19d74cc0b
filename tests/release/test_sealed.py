"""A sealed randomizer is read as it was written, or not at all."""

import json

import pytest

from privot.errors import PrivotError
from privot.release import Randomizer
from privot.release.collecting.collect import collect_files
from privot.release.reports.sealed import seal, unseal
from privot.release.streaming.sending import place_of_pipe
from privot.schema import Schema
from privot.tables.record_files import open_records

SCHEMA = Schema.from_toml("""
[columns.home]
kind = "vector"
columns = ["longitude", "latitude"]
bounds = [[-8.7, 1.8], [49.8, 60.9]]
[columns.age]
kind = "numeric"
bounds = [17, 90]
[columns.sex]
kind = "categorical"
categories = ["Female", "Male"]
""")


def test_altered_randomizers_are_refused():
    text = Randomizer.calibrate(SCHEMA, 1.0, report="split").to_json()
    fields = json.loads(text)
    fields["mechanisms"]["age"]["scale"] /= 2
    for broken, words in (
        (json.dumps(fields), "was altered after it was calibrated"),
        (json.dumps(json.loads(text) | {"format": 99}), "format 99"),
        (text[:-20], "not readable"),
        ("[]", "not readable"),
        ("{}", "not readable"),
    ):
        with pytest.raises(PrivotError, match=words):
            Randomizer.from_json(broken)


def written_by_another_version():
    """The text of a randomizer by a version that rounds ε otherwise, and has fields in other order."""
    schema = Schema.from_toml(
        '[columns.p]\nkind = "vector"\ncolumns = ["x", "y"]\nradius = 1.0\nnullable = true'
    )
    fields = unseal(Randomizer.calibrate(schema, 1.0).to_json())
    column = fields["schema"]["columns"]["p"]
    fields["schema"]["columns"]["p"] = dict(reversed(column.items()))
    fields["guarantee"]["epsilon"] *= 1 - 2.0**-45
    return seal(**fields)


def test_a_randomizer_that_was_read_says_what_was_read():
    text = written_by_another_version()
    read = Randomizer.from_json(text + "\n")
    assert read.to_json() == text
    assert text != Randomizer(read.schema, read.mechanisms).to_json()
    assert Randomizer.from_json(json.dumps(json.loads(text), indent=2)).to_json() == text


def test_fields_that_nobody_knows_do_not_travel_with_reports():
    """Or a curator could mark each device's reports by its randomizer's text alone."""
    text = written_by_another_version()
    marked = seal(**unseal(text), mark="device 17")
    assert Randomizer.from_json(marked).to_json() == text


def test_reports_of_another_versions_randomizer_are_collected(tmp_path):
    text = written_by_another_version()
    randomizer = Randomizer.from_json(text)
    reports = randomizer.privatize({"x": [0.5, None], "y": [0.0, 0.1]})
    reports.rows.save(tmp_path / "reports.parquet", text)
    for given in (None, randomizer):
        found = collect_files([tmp_path / "reports.parquet"], tmp_path / "all.parquet", given)
        assert (found.num_reports, found.quarantined) == (2, 0)


def test_records_whose_reports_wait_for_a_pipe_are_known_to_another_version(tmp_path, monkeypatch):
    """Whose own text of the randomizer differs: their records would be noised again otherwise."""
    monkeypatch.setenv("PRIVOT_STATE_DIR", str(tmp_path / "state"))
    (tmp_path / "people.csv").write_text("x,y\n0.5,0.1\n")
    text = written_by_another_version()
    (tmp_path / "randomizer.json").write_text(text + "\n")
    randomizer = Randomizer.load(tmp_path / "randomizer.json")
    records = open_records(tmp_path / "people.csv", randomizer.schema)
    place = place_of_pipe(records, randomizer, "refuse")
    monkeypatch.setattr(
        Randomizer, "to_json", lambda self: text
    )  # as the version that wrote it says
    assert place == place_of_pipe(records, randomizer, "refuse")
