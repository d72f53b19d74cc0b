"""A density of hats: what is drawn follows its weights, to the cell."""

import numpy as np
import pytest

from privot.local.grid.density import GridDensity, cell_shares


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
    again = GridDensity.from_dict(density.to_dict())
    assert again.missing == 0.25
    assert (again.weights == density.weights).all()
