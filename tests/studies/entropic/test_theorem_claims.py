"""Verdicts on the theorems follow from rows: change these, and those change."""

import json
from pathlib import Path

import pytest

from privot.privacy.shuffling import shuffled_epsilon
from studies.common.pages import fill
from studies.entropic.theorem_claims import UNTESTED, support_claims, theorem_claims
from studies.entropic.theorems import tables_of

ROWS = Path(__file__).parents[3] / "docs" / "results" / "theorems" / "theorems.json"


@pytest.fixture(scope="module")
def row():
    return json.loads(ROWS.read_text(encoding="utf-8"))


def test_every_table_is_that_of_the_rows(row):
    text = (ROWS.parents[1] / "theorems.md").read_text(encoding="utf-8")
    assert fill(text, tables_of(row)) == text


def verdicts(row, words, where=""):
    return [c.verdict for c in theorem_claims(row) if words in c.quote and where in c.place]


def as_power(points, name, exponent):
    """The same points, with a quantity that falls by another power of the people."""
    return [p | {name: p["people"] ** exponent, f"{name}_std": 0.0} for p in points]


def test_a_rate_is_the_excess_and_not_the_distance(row):
    assert verdicts(row, "at the parametric rate") == ["confirmed"] * 3
    assert verdicts(row, "thus parametric") == ["contradicted"]
    slow = row | {"rates": as_power(row["rates"], "excess", -0.4)}
    assert verdicts(slow, "at the parametric rate") == ["contradicted", "confirmed", "confirmed"]
    fast = row | {name: as_power(row[name], "w1", -0.6) for name in ("rates", "noises")}
    assert verdicts(fast, "thus parametric") == ["confirmed"]


def test_a_growth_that_chance_hides_is_undecided(row):
    assert verdicts(row, "approximately linear") == ["undecided"]

    def grown(power):
        exact = {"risk_std": 0.0}
        noises = [
            p | exact | {"risk": p["stddev"] ** (2 * power)} if p["noise"] == "gaussian" else p
            for p in row["noises"]
        ]
        return row | {"noises": noises}

    assert verdicts(grown(0.9), "approximately linear") == ["confirmed"]
    assert verdicts(grown(0.5), "approximately linear") == ["contradicted"]


def test_misprints_hold_where_both_formulas_are_one(row):
    assert verdicts(row, "(11)") == ["contradicted", "confirmed"]
    assert verdicts(row, "recovers the target distribution") == ["contradicted"]
    right = [r | {"printed_w1": r["matched_w1"]} for r in row["weights"]]
    assert verdicts(row | {"weights": right}, "recovers the target distribution") == ["confirmed"]


def test_shuffling_is_judged_at_the_honest_epsilon_as_well(row):
    """At 8.54 the closed form amplifies nothing; the numerical bounds do, to more than is printed."""
    assert verdicts(row, "central differential privacy") == ["confirmed", "contradicted"]
    honest = shuffled_epsilon(8.54, 400_000, 1e-6)
    assert honest.epsilon_closed_form == pytest.approx(8.54)
    assert 0.353 < honest.epsilon_lower < honest.epsilon < 8.54


def test_curves_are_recovered_only_if_nearer_than_reports_alike():
    def told(projected, reports):
        values = {
            "raw": 0.2,
            "released": 0.9,
            "projected": projected,
            "released_projected": reports,
        }
        found = {f"w2_{name}": value for name, value in values.items()} | {"w2_floor": 0.04}
        row = {"setting": {"mechanism": "gaussian"}, "epsilon_by_radius": 4.95}
        return [claim.verdict for claim in support_claims([row | found])]

    assert told(0.05, 0.2) == ["contradicted", "confirmed"]
    assert told(0.05, 0.045) == ["contradicted", "contradicted"]


def test_what_is_not_tested_says_why():
    assert {claim.verdict for claim in UNTESTED} == {"not tested"}
    assert all(len(claim.found) > 20 for claim in UNTESTED)
