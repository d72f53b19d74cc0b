"""Verdicts by votes: what an exponent, seeds and settings say, and how sentences are counted."""

import numpy as np
import pytest

from studies.common.verdicts import Claim, Estimate, ahead, claims_table, counted


def points(exponent, noise, seed=0, sizes=(100, 1_000, 10_000, 100_000)):
    """A power law at several n, with relative errors of deviation `noise`."""
    rng = np.random.default_rng(seed)
    return [
        {"n": n, "y": 3.0 * n**exponent * np.exp(noise * rng.standard_normal()),
         "y_std": noise * 3.0 * n**exponent}
        for n in sizes
    ]  # fmt: skip


def test_an_exponent_is_found_and_another_refused():
    """b deviates by .016: limits stand at six of its deviations from −.5, and 7.7 from −.35."""
    found = [Estimate.exponent(points(-0.5, 0.08, seed), "n", "y") for seed in range(20)]
    assert all(abs(b.value + 0.5) < 3 * b.chance for b in found)  # six deviations
    assert all(b.near(-0.35) is False and b.at_most(-0.35) for b in found)
    assert found[0].chance == pytest.approx(2 * 0.08 / (np.log(10) * np.sqrt(5)), rel=0.2)


def test_an_exponent_that_chance_hides_votes_for_neither_side():
    wide = Estimate.exponent(points(-0.5, 0.8), "n", "y")
    assert wide.near(wide.value) is None
    assert wide.at_most(wide.value + wide.chance / 2) is None


def test_seeds_vote_by_their_own_differences():
    assert ahead([0.1, 0.11, 0.09]) is True
    assert ahead([-0.1, -0.11, -0.09]) is False
    assert ahead([0.1, 0.3, -0.1]) is None


def test_sentences_are_counted_not_settings():
    same = [
        Claim("a", place, "", [vote]) for place, vote in (("x", True), ("y", False), ("z", False))
    ]
    told = counted([*same, Claim("b", "x", "", []), Claim("c", "x", "", [False])])
    assert told.splitlines() == [
        "3 sentences: 1 contradicted, 1 not tested in every setting; 1 confirmed in some, contradicted "
        "in others.",
        "Of all 5 verdicts 1 says confirmed, 3 contradicted (of 2 sentences), 1 not tested.",
    ]
    assert claims_table(same).startswith("1 sentence: 1 confirmed in some, contradicted in others.")
