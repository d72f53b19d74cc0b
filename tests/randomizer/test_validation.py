"""A sealed randomizer is read as it was written, or not at all; impossible reports are reported."""

import json

import numpy as np
import pytest
from scipy import stats

from homes_and_ages import SCHEMA
from privot import Randomizer, Schema
from privot.collector.collecting import collect_files
from privot.core.errors import PrivotError
from privot.mechanisms import Gaussian, Laplace
from privot.randomizer.integrity import seal, unseal
from privot.randomizer.privatize import path_for_pipe
from privot.schema.domains import Box, L2Ball
from privot.tables.record_files import open_records
from randomizer.strange_reports import answers, changed, homes


def test_altered_randomizers_are_refused():
    text = Randomizer.calibrate(SCHEMA, 1.0, mechanism="laplace").to_json()
    fields = json.loads(text)
    fields["mechanisms"]["age"]["scale"] /= 2
    for broken, words in (
        (json.dumps(fields), "was altered after it was calibrated"),
        (
            seal(**unseal(text) | {"campaign": "of Ann"}),
            "campaign is no name of 32 hexadecimal digits",
        ),
        (json.dumps(json.loads(text) | {"format": 99}), "format 99"),
        (text[:-20], "not readable"),
        ("[]", "not readable"),
        ("{}", "not readable"),
    ):
        with pytest.raises(PrivotError, match=words):
            Randomizer.from_json(broken)


@pytest.mark.parametrize(
    ("field", "value"), [("epsilon", 0.5), ("epsilon", 1 + 1e-6), ("unit", "visit")]
)
def test_a_sealed_text_cannot_state_what_its_noise_does_not_give(field, value):
    """The seal is a hash that anybody computes: what is stated is compared with the mechanisms."""
    fields = unseal(Randomizer.calibrate(SCHEMA, 1.0, mechanism="laplace").to_json())
    fields["guarantee"][field] = value
    with pytest.raises(PrivotError, match="the randomizer states .* its noise gives .*: calibrate"):
        Randomizer.from_json(seal(**fields))


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
    place = path_for_pipe(records, randomizer, "refuse")
    monkeypatch.setattr(
        Randomizer, "to_json", lambda self: text
    )  # as the version that wrote it says
    assert place == path_for_pipe(records, randomizer, "refuse")


def refused_rows(release):
    return np.flatnonzero(release.randomizer.reasons(release.table).is_valid()).tolist()


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_every_report_that_a_device_makes_is_possible(mechanism):
    assert refused_rows(homes(20_000, mechanism)) == []


@pytest.mark.parametrize(
    "options", [{}, {"report": "split"}, {"report": "split", "mechanism": "auto"}]
)
def test_every_answer_that_a_device_makes_is_possible(options):
    assert refused_rows(answers(20_000, **options)) == []


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_points_that_no_device_sends_are_told(mechanism):
    release = homes(mechanism=mechanism)
    inside = release.table["x"][8].as_py()
    bad = changed(
        release,
        x={0: 1e9, 1: np.nan, 2: np.inf, 3: None, 4: 1e308, 8: inside + 2.0**-45},
        y={0: 1e9, 5: -1e4, 6: None},
        report_id={7: None},
    )
    assert refused_rows(bad) == list(range(9))


def test_joint_answers_that_no_device_sends_are_told():
    release = answers()
    cells = release.table["joint.cells"].to_pylist()
    bad = changed(
        release,
        **{
            "joint.sheet": {0: -1, 1: 10**6, 2: None},
            "joint.cells": {
                3: [*cells[3], cells[3][-1] + 1],
                4: cells[4][:-1],
                5: [10**6] * len(cells[5]),
                6: None,
                7: [None] * len(cells[7]),
                8: [-1, *cells[8][1:]],
                9: [],
            },
        },
    )
    assert refused_rows(bad) == list(range(10))


def test_split_answers_that_no_device_sends_are_told():
    release = answers(report="split", mechanism="auto", report_columns=2)
    bad = changed(release, sex={0: "Z"}, age={1: 1e12})
    # Of rows that did not report the column, one that does holds three.
    assert refused_rows(bad) == [0, 1]


def test_a_list_as_long_as_a_stranger_likes_costs_no_memory():
    schema = Schema.from_toml('[columns.c]\nkind = "numeric"\nbounds = [0, 40]\n')
    categories = [f"c{k}" for k in range(40)]
    schema = Schema.from_dict({"columns": {"c": {"kind": "categorical", "categories": categories}}})
    randomizer = Randomizer.calibrate(schema, 3.0, report="split", mechanism="auto")
    release = randomizer.privatize({"c": categories * 250})
    # As wide as that, for all 10 000 rows, it would be 120 GB.
    bad = changed(release, c={3: list(range(3_000_000))})
    assert refused_rows(bad) == [3]


@pytest.mark.parametrize("num", [1, 2, 30])
def test_noise_beyond_its_reach_is_unheard_of(num):
    """Half of the reach in the log, so that it can be compared with an exact tail."""
    box, ball = Box((0.0,) * num, (1.0,) * num), L2Ball(num, 1.0)
    laplace, gaussian = Laplace(1.0, 2.0**-20), Gaussian(1.0, 2.0**-20)
    reach = laplace._reach(num)
    assert np.log2(stats.gamma.sf(reach, num)) == pytest.approx(-64, abs=0.1)
    reach = gaussian._reach(num)
    assert np.log2(stats.chi2.sf(reach**2, num)) == pytest.approx(-64, abs=0.1)
    y = np.zeros((3, num))
    y[0, 0], y[1, 0], y[2, 0] = 10.0, 200.0 + num, np.nan
    assert laplace.possible(y, box).tolist() == [True, False, False]
    assert gaussian.possible(y, ball).tolist() == [bool(num), False, False]


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_what_is_possible_bounds_what_one_report_says(mechanism):
    """The worst report that is let in, against the bound of the additive noise's docstring."""
    release = homes(10, mechanism)
    noise, domain = (
        release.randomizer.mechanisms["home"],
        release.schema.point_column("home").domain,
    )
    far = np.array([10.0**k * np.array([np.cos(a), np.sin(a)]) for k in np.arange(-2, 12, 0.05)
                    for a in (0.0, 0.7)])  # fmt: skip
    far = noise.to_grid(far)
    far = far[noise.possible(far, domain)]
    angle = np.linspace(0, 2 * np.pi, 64, endpoint=False)
    records = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    found = noise.log_likelihood(far[None], records[:, None])
    ratio = (found.max(axis=0) - found.min(axis=0)).max()
    if mechanism == "gaussian":
        diameter = 2.0
        bound = diameter * (diameter + noise._reach(2)) / noise.stddev**2
        assert ratio <= bound * 1.001
        assert bound < 25
    else:
        assert ratio <= 2.0 * (1 + 1e-9)
