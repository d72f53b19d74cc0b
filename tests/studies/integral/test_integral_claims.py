"""Verdicts on the paper on integral privacy follow from rows: change these, and those change."""

import re
from pathlib import Path

import pytest

from studies.common.rows import read_rows
from studies.integral.claims import CODED, PROVEN, TUNED, USED, claims_of

FOLDER = Path(__file__).parents[3] / "docs" / "results" / "integral"


@pytest.fixture(scope="module")
def rows():
    found = {name: read_rows(FOLDER, name) for name in ("curves", "bounds", "audit")}
    return found | {"dpgan": read_rows(FOLDER, "ring_dpgan")}


def verdicts(rows, words, where=""):
    claims = claims_of({n: r for n, r in rows.items() if n != "dpgan"}, rows["dpgan"])
    return [c.verdict for c in claims if words in c.quote and where in c.place]


def moved(rows, method, target, shift):
    """The same rows with other NLL of one method on one target."""
    change = [
        row | {"nll": row["nll"] + shift}
        if (row["method"], row["target"]) == (method, target)
        else row
        for row in rows["curves"]
    ]
    return rows | {"curves": change}


def test_a_rival_that_gets_better_or_worse_changes_the_verdict(rows):
    sentence = "if we look at the ring Gaussian problem"
    assert verdicts(rows, sentence, "as proven, DPB as used there") == ["confirmed"]
    better = moved(rows, USED, "ring", -3.0)
    assert verdicts(better, sentence, "as proven, DPB as used there") == ["contradicted"]
    worse = moved(rows, TUNED, "ring", 3.0)
    assert verdicts(worse, sentence, "as proven, DPB tuned") == ["confirmed"]


def test_privacy_is_judged_by_the_largest_ratio(rows):
    sentence = "integrally private"
    assert verdicts(rows, sentence) == ["confirmed", "contradicted"]
    wide = [
        row | {"stretch": 0.6 * row["epsilon"]} if row["method"] == PROVEN else row
        for row in rows["curves"]
    ]
    assert verdicts(rows | {"curves": wide}, sentence)[0] == "contradicted"
    narrow = [
        row | {"searched": 0.9 * row["epsilon"]} for row in rows["audit"] if "searched" in row
    ]
    assert {row["method"] for row in narrow} >= {CODED}
    assert verdicts(rows | {"audit": narrow}, sentence)[1] == "confirmed"


def test_steadiness_is_a_ratio_of_deviations(rows):
    sentence = "often 100 times smaller"
    assert verdicts(rows, sentence) == ["contradicted"]
    wild = [
        row | {"nll": 4.0 + 1e3 * row["seed"]}
        if row["method"] == USED and row["target"] in ("ring", "three")
        else row
        for row in rows["curves"]
    ]
    assert verdicts(rows | {"curves": wild}, sentence) == ["confirmed"]


def test_every_verdict_names_where_its_rows_stand(rows):
    claims = claims_of({n: r for n, r in rows.items() if n != "dpgan"}, rows["dpgan"])
    measured = [claim for claim in claims if claim.votes]
    assert all(re.search(r"\]\(integral(/\w+)?\.md", claim.place) for claim in measured)
    assert all("|" not in claim.found for claim in claims)  # a cell of a table
