"""The theorems of the papers, on laws of a few points."""

import argparse
import json
import math

import numpy as np
import pytest

from studies.entropic import theorems
from studies.entropic.theory import (
    clean_law,
    deconvolve,
    distortion_rows,
    excess,
    excess_bound,
    laplace_channel,
    misfit_rows,
    rate_rows,
    smoothed_divergence,
    source,
    transport_cost,
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


def test_the_recipe_writes_rows_picture_and_tables(tmp_path, monkeypatch):
    monkeypatch.setattr(theorems, "rate_rows", lambda seeds: rate_rows(seeds, (100, 1_000)))
    monkeypatch.setattr(theorems, "FACTORS", (0.25, 1.0, 1.5))
    page = tmp_path / "theorems.md"
    (tmp_path / "theorems").mkdir()
    page.write_text("<!-- table rates -->\n<!-- end -->\n<!-- table misfit -->\n<!-- end -->\n")
    theorems.run(argparse.Namespace(seeds=1, page=page, command="once"))
    assert "| 5 | 1,000 |" in page.read_text()
    assert (tmp_path / "theorems" / "theorems.png").stat().st_size > 10_000
    row = json.loads((tmp_path / "theorems" / "theorems.json").read_text())
    assert [r["people"] for r in row["rates"]] == [100, 1_000] * 2
