"""A density of hats: what is drawn follows its weights, to the cell."""

import numpy as np
import pytest
from scipy.stats import ks_2samp

from privot.core.errors import PrivotError
from privot.local import FitSettings, fit
from privot.local.grid_channels import GridDensity, GridSampler, cell_shares
from privot.randomizer import Randomizer
from privot.schema import Schema


@pytest.mark.parametrize(("steps", "nodes"), [(8, 8), (8, 4), (16, 4)])
def test_cells_of_draws_are_as_often_as_their_shares_say(steps, nodes):
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.ones(nodes + 1))
    drawn = GridDensity(weights).sample(200_000, rng)[:, 0]
    cells = np.bincount(np.rint((drawn + 1) / 2 * steps).astype(int), minlength=steps + 1)
    expected = 200_000 * cell_shares(steps, nodes) @ weights
    assert ((cells - expected) ** 2 / expected).sum() < 60  # χ² of at most 16 degrees


def test_draws_are_continuous_between_nodes():
    """Two equal neighbors make a plateau: no gap and no pile where their hats meet."""
    drawn = GridDensity(np.array([0.0, 0.5, 0.5, 0.0])).sample(90_000, np.random.default_rng(1))[
        :, 0
    ]
    inner, _ = np.histogram(drawn, bins=np.linspace(-1 / 3, 1 / 3, 10))
    assert np.abs(inner / 5_000 - 1).max() < 0.06


def test_coordinates_keep_their_places_and_missing_their_share():
    weights = np.zeros((5, 5))
    weights[4, 1] = 0.7
    drawn = GridDensity(weights, missing=0.3).sample(4_000, np.random.default_rng(2))
    absent = np.isnan(drawn).all(axis=1)
    assert absent.mean() == pytest.approx(0.3, abs=0.03)
    assert np.isnan(drawn).any(axis=1).sum() == absent.sum()
    assert drawn[~absent, 0].min() >= 0.5
    assert drawn[~absent, 0].max() <= 1
    assert drawn[~absent, 1].mean() == pytest.approx(-0.5, abs=0.02)


def test_dictionaries_hold_it():
    density = GridDensity(np.random.default_rng(3).dirichlet(np.ones(9)).reshape(3, 3), 0.25)
    again = GridDensity.of(density.flat, density.weights.shape)
    assert again.missing == 0.25
    assert (again.weights == density.weights).all()


@pytest.mark.parametrize("nullable", [False, True])
def test_bins_can_be_given_and_what_is_drawn_is_the_rest_of_the_law(nullable):
    column = {"kind": "numeric", "bounds": [0, 100], "nullable": nullable}
    schema = Schema.from_dict({"columns": {"age": column}})
    ages = np.random.default_rng(0).triangular(0, 30, 100, 20_000)
    model = fit(Randomizer.calibrate(schema, 4.0).privatize({"age": ages}), seed=0)
    assert model.sampler.kind == "grid"
    labels = schema.coded["age"].labels
    given = model.sample(5_000, seed=0, where={"age": [labels[2], labels[3]]})["age"].to_numpy()
    everybody = model.sample(50_000, seed=1)["age"].drop_null().to_numpy()
    among = everybody[(everybody >= 20) & (everybody < 40)]
    assert len(given) == 5_000
    assert given.min() >= 20
    assert given.max() < 40
    assert ks_2samp(given, among).pvalue > 1e-6
    assert ks_2samp(given, everybody).pvalue < 1e-9


def test_what_hardly_anybody_is_cannot_be_given():
    schema = Schema.from_dict({"columns": {"age": {"kind": "numeric", "bounds": [0, 100]}}})
    release = Randomizer.calibrate(schema, 4.0).privatize({"age": np.full(100, 5.0)})
    model = fit(release, FitSettings(steps=1), seed=0)  # whose density is replaced
    weights = np.zeros_like(model.sampler.density.weights)
    weights[3] = 1.0
    sampler = GridSampler(GridDensity(weights), "age", model.sampler.randomizer)
    with pytest.raises(PrivotError, match="has hardly any probability: relax it"):
        sampler.records(10, np.random.default_rng(0), {"age": [9]})
