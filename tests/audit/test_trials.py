"""Trials: one for each part of a report, and what honest reports look like in all of them."""

import numpy as np
import pytest

from audit.seeded_bugs import HONEST
from privot.audit import audit_randomizer, law
from privot.audit.trials import trials
from privot.randomizer import Randomizer
from privot.randomizer.reports.rows import REPORT_ID
from privot.schema import Schema
from privot.schema.columns.numeric import NumberColumn

LONG = ("candidates", "subset selection", "an image and its label")


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_randomizer_passes(name, monkeypatch):
    """False-alarm rate 1e-6. Streams are short; `test_streams` asks what long ones show.

    Reports of hundreds of numbers, or that cost as much, are a third as many.
    """
    monkeypatch.setattr(law, "_NUM_SINGLES", 8)
    monkeypatch.setattr(law, "_MAX_STREAM_ROWS", 2**8)
    draws = 300 if name in LONG else 1000
    result = audit_randomizer(HONEST[name](), num_draws=draws, confidence=1 - 1e-6)
    assert not result.refuted
    assert result.tests


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("laplace", ["age", "report ids"]),
        ("joint report", ["joint report", "report ids"]),
        ("a joint report and a vector", ["joint report", "place", "report ids"]),
        (
            "two columns of four",
            ["job", "hours", "born", "place", "columns reported", "report ids"],
        ),
    ],
)
def test_every_part_of_a_report_has_its_trial(name, parts):
    assert [trial.name for trial in trials(HONEST[name]())] == parts


def test_an_id_that_comes_twice_is_impossible():
    randomizer = HONEST["laplace"]()
    ids = trials(randomizer)[-1]
    table = randomizer.privatize({"age": np.full(50, 40.0)}).table
    place = table.column_names.index(REPORT_ID)
    twice = table.set_column(place, REPORT_ID, table[REPORT_ID].take([0, 0, *range(2, 50)]))
    rng = np.random.default_rng(0)
    assert [ids.read(t, np.zeros(50, int), rng).impossible for t in (table, twice)] == [0, 1]


@pytest.mark.parametrize("coding", [None, 2, 7])
def test_every_coding_of_a_number_is_audited(monkeypatch, coding):
    """A device that errs in one of eight: it tells values beyond the bounds apart from those within.

    The false-alarm rate of the honest one is 1e-6. Streams, which are of one record, show the error:
    their p-value is 1e-33, within a factor of 1e5, where 3e-8 refutes. The large sample may be small.
    """
    monkeypatch.setattr(law, "_NUM_SINGLES", 4)
    schema = Schema.from_toml("""
columns.n = {kind = "numeric", bounds = [0, 100]}
columns.b = {kind = "boolean"}
""")
    encode = NumberColumn.encode_codings

    def wrong(self, name, table):
        codes = encode(self, name, table)
        codes[coding, np.abs(self.accept(name, table)) > 1000] = 5
        return codes

    if coding is not None:
        monkeypatch.setattr(NumberColumn, "encode_codings", wrong)
    randomizer = Randomizer.calibrate(schema, 4.0)
    result = audit_randomizer(randomizer, num_draws=200, confidence=1 - 1e-6)
    assert result.refuted == (coding is not None)
