"""Targets, quantities and tables of the experiments on integral privacy."""

from pathlib import Path

import numpy as np
import pytest

from privot.core.errors import PrivotError
from privot.integral import ClippedRatioSettings, clip_ratio
from privot.integral.density import make_grid
from privot.integral.references import StandardNormal
from studies.__main__ import main
from studies.common.densities import negative_log_likelihood
from studies.common.pages import fill
from studies.common.rows import read_rows, select
from studies.integral.audit import audit_pair, largest_log_ratio, opposites
from studies.integral.bernstein import BANDWIDTHS, Search, Settings
from studies.integral.bounds import discs, edges_of
from studies.integral.clients import Population, normal, optimal
from studies.integral.curves import mean_of_draws, stretch
from studies.integral.dpgan import best_in_hindsight
from studies.integral.page import clients_table, curves_table
from studies.integral.panels import METHODS, best_settings, draw_line, draw_plane
from studies.integral.targets import TARGETS, client, envelope

RESULTS = Path(__file__).parents[3] / "docs" / "results" / "integral"


@pytest.mark.parametrize("name", TARGETS)
def test_records_follow_the_density(name):
    """Their mean log density is minus the entropy, up to their spread."""
    mixture = TARGETS[name](3)
    grid = mixture.grid()
    p = mixture.density(grid)
    records = mixture.draw(4000, np.random.default_rng(0))
    assert (records > mixture.lower).all()
    assert (records < mixture.upper).all()
    side = np.subtract(grid.upper, grid.lower) / grid.num_cells
    cells = ((records - grid.lower) / side).astype(int)
    index = np.ravel_multi_index(tuple(cells.T), (grid.num_cells,) * grid.dim)
    logs = np.log(p[index])
    entropy = negative_log_likelihood(grid, p, p)
    assert -logs.mean() == pytest.approx(entropy, abs=4 * logs.std() / np.sqrt(4000) + 0.01)


def test_the_envelope_covers_every_client():
    grid = client(0).grid(500)
    covering, bound = envelope(grid)
    assert bound == pytest.approx(1.797, abs=2e-3)
    for index in range(20):
        assert (client(index).density(grid) <= bound * covering * (1 + 1e-4)).all()


def test_the_clipped_ratio_is_nearly_optimal():
    population = Population(3, 0)
    public = population.grid.normalized(normal(1.0).log_density(population.grid.points))[0]
    best = optimal(population, public, 1.0, np.exp(-0.5))
    settings = ClippedRatioSettings(floor_share=0.5)
    logs = [
        clip_ratio(x, normal(1.0), 1.0, settings).log_unnormalized(population.grid.points)
        for x in population.records
    ]
    found = population.divergences(logs)
    assert np.mean(found) < np.mean(best) + 2e-3
    # The optimum is one; tables and quadrature may differ by their steps only.
    assert (np.array(found) > np.array(best) - 1e-5).all()


def test_opposite_data_do_not_pass_epsilon():
    left, right = opposites(0)["two sides of a line"]
    models = tuple(clip_ratio(x[:500], StandardNormal(1), 1.0) for x in (left, right))
    cells = make_grid(StandardNormal(1))
    tilts = [model.log_tilt(cells.centers()) for model in models]
    logs = tuple(np.log(cells.mean(np.exp(tilt))) for tilt in tilts)
    assert 0.9 < largest_log_ratio(tilts[0], tilts[1], logs) <= 1.0
    assert 0.8 < audit_pair(models, 50_000) <= 1.0


def test_stretch_of_a_tilted_gaussian():
    """A shift by m tilts N(0, 1) by m x − m²/2, most at the box's end."""
    grid = TARGETS["three"](0).grid(2000)
    shifted = grid.normalized(-((grid.points[:, 0] - 0.5) ** 2) / 2)[0]
    assert stretch(grid, shifted) == pytest.approx(0.5 * 5 + 0.125, abs=2e-3)


def test_one_of_many_draws_together_is_nearer_to_the_truth():
    mixture = TARGETS["three"](0)
    grid, records = mixture.grid(400), mixture.draw(2000, np.random.default_rng(0))
    density = clip_ratio(records, StandardNormal(1), 1.0)
    model = mean_of_draws(density, grid, 50)
    assert grid.integral(model) == pytest.approx(1.0)
    alone = grid.normalized(density.log_unnormalized(grid.points))[0]
    truth = mixture.density(grid)
    losses = [negative_log_likelihood(grid, truth, q) for q in (truth, model, alone)]
    # 1.17, 1.19 and 1.40: draws together differ by less than .02 from run to run.
    assert losses[0] < losses[1] < losses[2] - 0.1


def test_a_bandwidth_by_records_held_out(monkeypatch):
    monkeypatch.setattr("studies.integral.bernstein._HELD_OUT", 40)
    search = Search("three", [1.0], [0], cross_validated=True)
    assert search.bandwidths in [[(bandwidth,)] for bandwidth in BANDWIDTHS[2:5]]
    assert (search.positivities, search.calibrations) == (("shift",), ("published",))


def test_bounds_hold_in_every_row_that_is_shown():
    """Rows are rounded to 1e-5; what is proven, and by which inequality, is their order."""
    rows = read_rows(RESULTS, "bounds")
    assert len({row["seed"] for row in select(rows, target="ring")}) >= 3
    for row in rows:
        upper = [row[key] for key in ("kl_at_most", "kl_published", "kl_high_regime")]
        known = [value for value in upper if value is not None]
        assert row["kl_at_least"] - 1e-4 <= row["kl"] <= known[0] + 1e-4
        assert known == sorted(known)
        for t in row["rounds"]:
            assert (t["published"] or -1) - 1e-4 <= t["proven"] <= t["gain"] + 1e-4
            assert abs(t["seen_p"] - t["gamma_p"]) < 0.05, "10 000 records"
            assert abs(t["seen_q"] - t["gamma_q"]) < 0.05, "8 192 draws"
        for mode in row["modes"]:
            assert mode["proven"] <= mode["captured"] + 1e-4
            assert mode["fat"] is None or mode["fat"] > 0


def test_no_best_settings_lie_at_the_end_of_the_search():
    rows = [r for r in read_rows(RESULTS, "curves") if r["method"].startswith("Bernstein")]
    assert {row["target"] for row in rows} == {*TARGETS}
    rows = [row for row in rows if row["method"].endswith("noise")]
    assert not [row for row in rows if row["border"]]
    best = [r["nll"] for r in select(rows, target="three") if "lattice" in r["method"]]
    assert max(best) < 1.4, "a search that ends at a degree of 200 leaves 1.40 at any ε"


def test_the_end_of_a_search_is_told():
    search = Search("three", [1.0], [0])
    assert not search.at_border(Settings(80, BANDWIDTHS[3], "clip"))
    for ends in ((search.degrees[0], 3), (search.degrees[-1], 3), (80, 0), (80, -1)):
        assert search.at_border(Settings(ends[0], BANDWIDTHS[ends[1]], "clip"))
    plane = Search("ring", [1.0], [0])
    assert not plane.at_border(Settings(1, BANDWIDTHS[3], "clip")), "there is no degree of 0"


def test_edges_by_quadrature():
    """c = log 2 · sign(x) for truth and model on the two sides of 0."""
    mixture = TARGETS["three"](0)
    grid = mixture.grid(400)
    right = grid.normalized(-((grid.points[:, 0] - 2) ** 2) / 0.02)[0]
    edges = edges_of(grid, right, right[::-1], np.log(2) * np.sign(grid.points[:, 0]))
    assert (edges.gamma_p, edges.gamma_q) == pytest.approx((1, 1))
    *modes, whole = discs(mixture, grid)
    masses = [grid.integral(mixture.density(grid)[inside]) for inside in modes]
    assert masses == pytest.approx([0.9545 / 3] * 3, abs=0.01)
    assert (whole == np.any(modes, axis=0)).all()


@pytest.mark.parametrize("target", ["ring", "three"])
def test_panels_of_densities(target, tmp_path):
    mixture = TARGETS[target](0)
    grid = mixture.grid(50)
    truth = mixture.density(grid)
    learned = {(method, epsilon): truth for method in METHODS for epsilon in (1.0, 5.0)}
    draw = draw_plane if mixture.dim == 2 else draw_line
    figure = draw(grid, truth, truth, learned)
    assert len(figure.axes) == (2 + len(learned) if mixture.dim == 2 else 2)
    degree, bandwidth, positivity = best_settings(RESULTS, target, 1.0)
    assert (degree, positivity) > (100, "")
    assert 0 < bandwidth < 1
    with pytest.raises(PrivotError, match="hold no Bernstein"):
        best_settings(tmp_path, target, 1.0)


def test_hindsight_keeps_the_best_settings_of_each_epsilon():
    losses = {("a|1", 0): 2.0, ("a|1", 1): 1.0, ("a|2", 0): 1.0, ("a|2", 1): 1.5, ("b", 0): 9.0}
    rows = [
        {"epsilon": 1.0, "seed": seed, "method": method, "nll": loss}
        for (method, seed), loss in losses.items()
    ]
    kept = best_in_hindsight(rows)
    assert [(row["method"], row["settings"]) for row in kept] == [("a", "2"), ("a", "2"), ("b", "")]


def test_tables_are_written_where_they_are_marked():
    rows = [{"epsilon": 1.0, "method": "m", "mean": 0.25, "worst": 0.5}]
    page = "before\n<!-- table clients -->\nold\n<!-- end -->\nafter"
    filled = fill(page, {"clients": lambda: clients_table(rows)})
    assert "| m | 0.2500 / 0.5000 |" in filled
    assert filled.startswith("before")
    assert filled.endswith("after")
    assert "old" not in filled
    with pytest.raises(PrivotError, match="marks table 'clients'"):
        fill(page, {})


def test_curves_are_means_over_seeds():
    rows = [
        {"target": "ring", "method": "optimum", "epsilon": 1.0, "nll": value}
        for value in (1.0, 3.0)
    ]
    assert "2.000 ± 1.414" in curves_table(rows, "ring", "nll")


def test_accidents_ask_for_their_folder(monkeypatch):
    monkeypatch.delenv("PRIVOT_DATA", raising=False)
    with pytest.raises(SystemExit, match="--data is missing"):
        main(["integral.accidents"])
