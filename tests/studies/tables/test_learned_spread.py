"""What the learned-spread experiment measures, and that it would show a shrunken fit."""

import math

import numpy as np
import pytest
import torch

from studies.__main__ import main
from studies.tables import learned_spread
from studies.tables.known_records import LatentCategories, LinearGaussian
from studies.tables.learned_spread import (
    Fit,
    Outcome,
    constant,
    measure,
    spread,
    spread_along,
    table_of_batches,
    table_of_schedules,
)


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_reports_have_the_covariance_of_records_and_noise(noise):
    records = LinearGaussian(noise, dimension=6, rank=2, stddev=2.0)
    reports = records.release(100_000, seed=3).reports("x")[0] * 100.0
    _, true = records.covariances(records.generator(0), seed=3)
    assert float(true.trace()) == pytest.approx(6, rel=1e-5)
    assert torch.linalg.matrix_rank(true, tol=1e-3) == 2
    # 100 000 rows: entries of Σ₀ + 4I are known to about 0.02; 10 % more noise would add 0.84.
    np.testing.assert_allclose(np.cov(reports.T), true.numpy() + 4 * np.eye(6), atol=0.15)


def test_noise_laws_are_what_they_are_called():
    """The fourth moment tells a Laplace law (6σ⁴) from a Gaussian one (3σ⁴)."""
    kurtosis = {}
    for noise in ("gaussian", "laplace"):
        # Noise of 20 over records of 1: next to nothing else is seen.
        records = LinearGaussian(noise, dimension=2, rank=1, stddev=20.0)
        x = records.release(200_000, seed=0).reports("x")[0].ravel()
        kurtosis[noise] = np.mean(x**4) / np.mean(x**2) ** 2
    assert kurtosis["gaussian"] == pytest.approx(3, abs=0.1)
    assert kurtosis["laplace"] == pytest.approx(6, abs=0.5)


def test_closed_form_finds_the_spread_that_the_reports_do_not_have():
    records = LinearGaussian("laplace", dimension=30, rank=5, stddev=1.0)
    estimated = records.closed_form(records.release(50_000, seed=1))
    _, true = records.covariances(records.generator(1), seed=1)
    assert spread(estimated, true) == pytest.approx(1, abs=0.02)
    assert spread_along(estimated, true, 5) == pytest.approx(1, abs=0.02)
    assert torch.linalg.matrix_rank(estimated, tol=1e-3) == 5


def test_spread_along_the_signal_leaves_out_what_is_beside_it():
    true = torch.diag(torch.tensor([4.0, 4.0, 0.0, 0.0]))
    learned = torch.diag(torch.tensor([1.0, 1.0, 3.0, 3.0]))
    assert spread(learned, true) == pytest.approx(1.0)
    assert spread_along(learned, true, 2) == pytest.approx(0.5)


def test_the_true_probabilities_have_the_true_spread_and_initial_ones_less():
    records = LatentCategories(num_columns=4, num_categories=3, rank=2, epsilon=2.0)
    learned, true = records.covariances(records.truth(seed=5), seed=5)
    assert spread(learned, true) == pytest.approx(1, abs=1e-6)
    learned, true = records.covariances(records.generator(seed=5), seed=5)
    assert spread(learned, true) < 0.6


def test_categories_are_reported_by_randomized_response():
    records = LatentCategories(num_columns=2, num_categories=3, rank=2, epsilon=50.0)
    release = records.release(50_000, seed=2)
    truth = records.truth(seed=2)
    latent = truth.draw_latent(50_000, torch.Generator().manual_seed(9))
    with torch.no_grad():
        expected = torch.softmax(truth(latent).view(-1, 2, 3), 2).mean(0).numpy()
    codes = np.stack([release.table.column(n).to_numpy() for n in ("x0", "x1")])
    shares = np.stack([[np.mean(c == v) for v in "abc"] for c in codes])
    np.testing.assert_allclose(shares, expected, atol=0.015)


def test_small_batches_shrink_plain_fits_and_no_others():
    records = LinearGaussian("laplace", dimension=20, rank=20, stddev=1.0)
    plain, corrected = (
        measure(Fit(records, constant(loss, 50), steps=700)) for loss in ("plain", "self_corrected")
    )
    assert plain.spread < 0.65
    assert corrected.spread == pytest.approx(1, abs=0.06)
    assert plain.along == pytest.approx(plain.spread, rel=1e-4)  # of full rank: all is signal


def test_stages_follow_one_another(monkeypatch):
    called = []

    def objective_of(generator, head, release, settings, loss, device):
        def objective(rng):
            called.append((loss.__name__, settings.batch_size))
            return (next(generator.parameters()) ** 2).sum(), 0.0

        return objective

    monkeypatch.setattr(learned_spread, "TransportObjective", objective_of)
    records = LinearGaussian("gaussian", dimension=3, rank=2, stddev=1.0)
    stages = ((0.4, "plain", 10), (1.0, "self_corrected", 20))
    measure(Fit(records, stages, steps=10, num_people=50))
    assert called == [("plain", 10)] * 4 + [("self_corrected", 20)] * 6


def test_tables_put_every_outcome_into_its_cell():
    population = [LinearGaussian("gaussian", 4, 4, 1.0), LinearGaussian("laplace", 200, 10, 3.0)]

    def run(fits):
        for fit in fits:
            (_, loss, b), *_ = fit.schedule
            value = b / 1000 + (loss == "plain") + fit.records.dimension
            yield Outcome(value, value / 2, seconds=fit.steps)

    lines = table_of_batches(population, {100: 30, 400: 7}, 0, run).split("\n")
    assert lines[0] == (
        "| records | plain, b = 100 | plain, b = 400 "
        "| self-corrected, b = 100 | self-corrected, b = 400 |"
    )
    assert lines[2] == (
        "| Gaussian, d = 4, σ = 1 | 5.100 (30 s) | 5.400 (7 s) | 4.100 (30 s) | 4.400 (7 s) |"
    )
    assert lines[5] == "| … along the signal | 100.550 | 100.700 | 100.050 | 100.200 |"
    assert lines[4].startswith("| Laplace, d = 200 of rank 10, σ = 3 | 201.100 ")
    schedules = table_of_schedules(population, 0, run).split("\n")
    assert len({len(line.split("|")) for line in schedules}) == 1
    assert any(line.startswith("| … plain for half | 5.100") for line in schedules)


def test_command_writes_what_it_prints(tmp_path, monkeypatch, capsys):
    small = (LinearGaussian("gaussian", 3, 2, 0.5),)
    monkeypatch.setattr(learned_spread, "VECTORS", small)
    main(["tables.learned_spread", "--only", "closed_forms", "-o", str(tmp_path / "spread.md")])
    printed = capsys.readouterr().out
    assert (tmp_path / "spread.md").read_text().strip() == printed.strip()
    row = printed.strip().split("\n")[-1].split(" | ")
    assert row[0] == "| Gaussian, d = 3 of rank 2, σ = 0.5"
    assert math.isclose(float(row[1]), 1, abs_tol=0.02)
    with pytest.raises(SystemExit):
        main(["tables.learned_spread", "--only", "nothing"])
