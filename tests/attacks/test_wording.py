"""Sentences promise what is proved: to whom, about what, and by figures that are not too small."""

import math
import re

import numpy as np
import pytest

import privot
from privot.privacy import ApproximateDP, IntegralPrivacy, PureDP, ZeroConcentratedDP

CENTRAL = [
    PureDP(1.0, "replace_one", "visit"),
    ApproximateDP(1.0, 1e-6, "zero_out", "visit"),
    ZeroConcentratedDP(0.1, "replace_one", "visit"),
    IntegralPrivacy(1.0, unit="visit"),
    PureDP(1.0, "any", "visit"),
]


def test_no_factor_of_at_most_is_too_small():
    """Half of two thousand were; and ε = 10 was printed for 10.0049, δ = 1e-06 for 1.0049e-6."""
    for i in range(1, 2001):
        epsilon = i / 100
        number = re.search(r"at most e\^\S+ = (\d[\d,]*(?:\.\d+)?)", PureDP(epsilon).describe())
        assert float(number.group(1).replace(",", "")) >= math.exp(epsilon)
    assert str(PureDP(10.0049)).startswith("ε = 10.01 ")
    assert "δ = 1.01e-06" in str(ApproximateDP(1.0, 1.0049e-6))


@pytest.mark.parametrize("guarantee", CENTRAL, ids=str)
def test_central_promises_name_the_releases_they_cover(guarantee):
    """Never everything that a curator ever publishes: a second run on the same records adds up."""
    words = guarantee.describe()
    assert "hoever sees everything computed from these releases" in words
    assert "curator ever publishes" not in words
    assert re.search("Other releases from the same records, such as those of a second run, are not "
                     r"covered: the ε( and δ)? of both add up\.", words)  # fmt: skip
    assert "The curator, who holds the records, is trusted." in words


@pytest.mark.parametrize("neighboring", ["replace_one", "zero_out"])
def test_central_odds_are_of_somebody_who_knows_all_other_records(neighboring):
    """Of others they are not bounded: records of other people may tell about this one."""
    for guarantee in (PureDP(1.0, neighboring), ApproximateDP(1.0, 1e-6, neighboring)):
        assert "these releases, and knows every other record" in guarantee.describe()


def test_local_promises_are_about_one_report():
    words = PureDP(1.0, unit="visit").describe()
    assert words.startswith("Whoever sees one visit's report can change their odds between any two")
    assert "Another report of the same visit is not covered: the ε of both add up." in words
    assert "against the curator too" in words


def test_shuffling_is_said_to_help_whole_reports_only(capsys, monkeypatch):
    """A label beside its noised image was told apart at ε ≥ 1.7 where .13 had been claimed."""
    asked = "privot account shuffle --epsilon 2 --people 8000 --delta 1e-6"
    monkeypatch.setattr("sys.argv", asked.split())
    with pytest.raises(SystemExit, match="0"):
        privot.cli.main()
    printed = capsys.readouterr().out
    assert "whole record" in printed
    assert "a column of it is not amplified" in printed


SCHEMA = privot.Schema.from_toml("""
[columns.place]
kind = "vector"
columns = ["x", "y"]
radius = 1.0
""")


def test_a_delta_that_publishes_people_is_refused():
    for delta in (0.1, 0.5):
        with pytest.raises(privot.PrivotError, match=f"delta is {delta}: from 0.1 on"):
            privot.Randomizer.calibrate(SCHEMA, 1.0, delta, mechanism="gaussian")
        with pytest.raises(privot.PrivotError, match="promises nothing"):
            privot.randomizer.randomizer_from_noise(SCHEMA, 1.0, delta)


def test_a_delta_above_one_over_the_reports_is_told_where_they_are_counted():
    with pytest.warns(
        UserWarning, match="above one over 1,000 records, and how many there will be"
    ):
        privot.Randomizer.calibrate(SCHEMA, 1.0, 0.002, mechanism="gaussian")
    randomizer = privot.Randomizer.calibrate(SCHEMA, 1.0, 1e-3, mechanism="gaussian")
    points = np.random.default_rng(0).uniform(-0.5, 0.5, (1100, 2))
    release = randomizer.privatize({"x": points[:, 0], "y": points[:, 1]})
    settings = privot.FitSettings(steps=1)
    with pytest.warns(UserWarning, match="delta is 0.001, above one over the 1,100 records"):
        privot.fit(release, settings, seed=0)


def test_a_shuffled_delta_is_compared_with_those_who_came():
    """The promise compares δ with its least number of people only."""
    promise = {"epsilon": 1, "where": "shuffled", "delta": 9e-4, "people": 1000}
    columns = {"bit": {"kind": "boolean"}}
    schema = privot.Schema.from_dict({"columns": columns, "promise": promise})
    release = privot.Randomizer.calibrate(schema).privatize({"bit": np.arange(1200) % 2 == 0})
    with pytest.warns(UserWarning, match="delta is 0.0009, above one over the 1,200 records"):
        privot.fit(release, seed=0)
