"""Recipes of noisy slices: batches follow the number of releases, a single release has a whole frame."""

import numpy as np
import pytest
from scipy.stats import norm

from privot.sliced import records_of
from studies.sliced.images import SCHEMA, frequencies, recipe, single_recipe
from studies.sliced.timing import release_times


def gaussian_delta(multiplier, epsilon):
    """δ of the Gaussian mechanism whose noise is `multiplier` times the sensitivity."""
    shift, level = 0.5 / multiplier, epsilon * multiplier
    return norm.cdf(shift - level) - np.exp(epsilon) * norm.cdf(-shift - level)


@pytest.mark.parametrize(
    ("epsilon", "steps", "batch"),
    [(10.0, 60_000, 200), (10.0, 15_000, 400), (1.0, 60_000, 30), (8.0, 60_000, 200)],
)
def test_batches_grow_as_releases_get_fewer(epsilon, steps, batch):
    assert recipe(epsilon, "replace_one", steps, 0).batch_size == batch


def test_more_noise_keeps_fewer_frequencies():
    assert frequencies(10.0) == 10
    assert frequencies(2.0) == 7


def test_a_single_release_loses_no_direction():
    settings = single_recipe(3, seed=0)
    plan = settings.plan(10.0, 1e-5, 60_000, records_of(SCHEMA, low_pass=3))
    accounting = plan.accounting
    assert accounting.num_projections == accounting.dim == 550
    assert accounting.orthonormal
    assert plan.rows == 60_000
    assert plan.steps == 1
    # A frame loses nothing: this is one Gaussian release at Δ = √2 (Balle, Wang 2018).
    assert gaussian_delta(plan.stddev / 2**0.5, 10.0) <= 1e-5
    assert gaussian_delta(0.98 * plan.stddev / 2**0.5, 10.0) > 1e-5


def test_releases_are_timed_one_by_one():
    times = release_times(2)
    assert len(times) == 2
    assert min(times) > 0
