"""The theorems of the papers, on laws of a few points."""

import argparse
import json
import math

import numpy as np
import pytest

from studies.common.verdicts import Estimate
from studies.entropic import theorems
from studies.entropic.theory import (
    clean_law,
    deconvolve,
    distortion_rows,
    excess,
    excess_bound,
    laplace_channel,
    misfit_rows,
    noise_rows,
    printed_bound_rows,
    rate_rows,
    response_rows,
    smoothed_divergence,
    source,
    transport_cost,
    weight_rows,
)

NODES = (np.arange(20) + 0.5) / 20
CHANNEL = laplace_channel(NODES, 4.0)
CLEAN = clean_law(NODES)


def test_reports_are_laws_and_differ_by_no_more_than_epsilon():
    np.testing.assert_allclose(CHANNEL.sum(axis=1), 1)
    ratios = CHANNEL.max(axis=0) / CHANNEL.min(axis=0)
    assert math.exp(3.7) < ratios.max() < math.exp(4.0)


def test_the_clean_law_has_no_excess_and_another_at_least_its_smoothed_divergence():
    shares = CLEAN @ CHANNEL
    assert abs(excess(CLEAN, CHANNEL, shares)) < 1e-7
    for seed in range(5):
        law = np.random.default_rng(seed).dirichlet(np.ones(20))
        divergence = smoothed_divergence(law, CHANNEL, shares)
        assert 0.003 < divergence < excess(law, CHANNEL, shares)


def test_deconvolution_recovers_and_says_how_much_is_left():
    fitted = deconvolve(CHANNEL, CLEAN @ CHANNEL)
    assert fitted.gap < 1e-6
    assert transport_cost(fitted.law, CLEAN, NODES) < 0.01
    early = deconvolve(CHANNEL, CLEAN @ CHANNEL, most_steps=101)
    gained = smoothed_divergence(early.law, CHANNEL, CLEAN @ CHANNEL)
    assert 1e-6 < gained <= early.gap


def test_the_bound_holds_of_every_number_of_people():
    rows = rate_rows(num_seeds=1, people=(100, 1_000))
    assert all(0 < row["divergence"] <= row["excess"] < row["bound"] for row in rows)
    assert excess_bound(5.0, 100) / excess_bound(1.0, 100) == pytest.approx(math.exp(4))


def test_classes_without_the_clean_law_stay_below_the_distance_to_it():
    rows = misfit_rows()
    assert all(0 <= row["excess"] < row["bound"] for row in rows)
    assert rows[-1]["excess"] > 100 * rows[0]["excess"]


def test_the_matched_weight_alone_reconstructs_the_clean_law():
    low, matched, high = distortion_rows((0.25, 1.0, 2.25))
    assert low["rate"] == pytest.approx(low["lower"], abs=1e-3)
    assert matched["rate"] == pytest.approx(matched["lower"], abs=1e-3)
    assert high["rate"] > high["lower"] + 0.01
    assert matched["w1"] < 0.005 < 0.03 < min(low["w1"], high["w1"])
    nodes, clean = source()
    spread = [np.sqrt(np.array(law) @ (nodes - np.array(law) @ nodes) ** 2)
              for law in (low["law"], clean)]  # fmt: skip
    # The reconstruction at a quarter of the weight has three quarters of the noise's variance left.
    assert spread[0] ** 2 - spread[1] ** 2 == pytest.approx(0.75 * 0.12**2, rel=0.02)


def test_the_printed_weight_learns_points_and_the_matched_one_the_clean_law():
    """At ε = Δ both weights are one; the proof has the median of the reports for the largest weights."""
    equal, apart = weight_rows((1.0, 4.0))
    assert equal["printed_w1"] == equal["matched_w1"] < 0.02
    assert apart["matched_w1"] < 0.01 < 0.15 < apart["printed_w1"]
    assert apart["printed_points"] <= 4 < 40 < apart["matched_points"]
    shares = CLEAN @ CHANNEL
    law = deconvolve(np.exp(-np.abs(NODES[:, None] - NODES) / 50.0), shares, 20_000).law
    median = NODES[np.searchsorted(np.cumsum(shares), 0.5)]
    assert law[np.abs(NODES - median) < 0.06].sum() > 0.95


def test_bound_11_fails_without_its_factor_and_holds_with_it():
    """The divergences are integrated here, and closed forms there."""
    rows = printed_bound_rows()
    for row in rows:
        scale = row["scale"]
        closed = (
            1 / (2 * scale**2)
            if row["noise"] == "gaussian"
            else 1 / scale + math.exp(-1 / scale) - 1
        )
        assert row["divergence"] == pytest.approx(closed, rel=1e-6)
        assert row["divergence"] <= row["bound"] * (1 + 1e-9)
    assert [row["divergence"] > row["printed"] for row in rows] == [True, False, True]


def test_under_randomized_response_excess_falls_faster_than_a_root():
    rows = response_rows(1, (1_000, 100_000))
    assert -1.1 < Estimate.exponent(rows, "people", "excess").value < -0.6


@pytest.mark.slow
def test_under_smooth_noise_excess_falls_fast_and_distance_slowly():
    """Seeded: the powers differ by .3 and more, and deviate by .1."""
    rows = noise_rows(4, (100, 1_000), (0.25,))
    assert Estimate.exponent(rows, "people", "excess").value < -0.6
    assert Estimate.exponent(rows, "people", "w1").value > -0.4
    assert all(row["risk"] == pytest.approx(2 * 0.25**2 * row["excess"]) for row in rows)


def test_the_recipe_writes_rows_picture_and_tables(tmp_path, monkeypatch):
    monkeypatch.setattr(theorems, "rate_rows", lambda seeds: rate_rows(seeds, (100, 1_000)))
    found = response_rows(1, (50, 100))
    smooth = [
        row | {"noise": "gaussian", "stddev": 0.5, "risk": row["excess"] / 2} for row in found
    ]
    monkeypatch.setattr(theorems, "noise_rows", lambda seeds: smooth)
    monkeypatch.setattr(theorems, "response_rows", lambda seeds: found)
    monkeypatch.setattr(theorems, "weight_rows", lambda: weight_rows((5.0,)))
    monkeypatch.setattr(theorems, "FACTORS", (0.25, 1.0, 1.5))
    page = tmp_path / "theorems.md"
    (tmp_path / "theorems").mkdir()
    page.write_text("<!-- table rates -->\n<!-- end -->\n<!-- table misfit -->\n<!-- end -->\n")
    theorems.run(argparse.Namespace(seeds=1, page=page, command="once"))
    assert "| 5 | 1,000 |" in page.read_text()
    assert (tmp_path / "theorems" / "theorems.png").stat().st_size > 10_000
    row = json.loads((tmp_path / "theorems" / "theorems.json").read_text())
    assert [r["people"] for r in row["rates"]] == [100, 1_000] * 2
