"""The law of ‖Uᵀz‖²: moments and atoms against simulated directions and frames."""

import mpmath
import numpy as np
import pytest
from scipy import stats

from privot.core.errors import PrivotError
from privot.privacy.slice_sensitivity import ProjectedLength, length_law

DRAWS = 20_000
FAR = 5.33  # a false-alarm rate of 1e-7, two-sided


def simulated(length, rng):
    """H from the definition: directions as normalized Gaussians, frames by QR."""
    normals = rng.standard_normal((DRAWS, length.dim, length.num_projections))
    if length.orthonormal:
        directions, _ = np.linalg.qr(normals)
    else:
        directions = normals / np.linalg.norm(normals, axis=1, keepdims=True)
    z = rng.standard_normal(length.dim)
    z *= length.sensitivity / np.linalg.norm(z)
    return np.square(np.einsum("d,ndk->nk", z, directions)).sum(axis=1)


SETTINGS = [
    ProjectedLength(3, 1, 1.0),
    ProjectedLength(6, 9, 0.7),
    ProjectedLength(20, 4, 1.5, orthonormal=True),
    ProjectedLength(5, 37, 1.0),
]


@pytest.mark.parametrize("length", SETTINGS, ids=str)
def test_moments_and_atoms_are_those_of_simulated_directions(length):
    """Four statistics of seeded draws; with another seed they would fail by chance once in 10⁶.

    The exponential moment is taken where its draws are not skewed, so that their mean is normal.
    """
    rng = np.random.default_rng(7)
    draws = simulated(length, rng)
    scale = 2.0 / length.sensitivity**2 / max(1.0, length.num_projections / length.dim)
    powers = np.exp(scale * draws)
    error = powers.std() / DRAWS**0.5
    moment = np.exp(length.log_moment(np.array([scale]))[0])
    assert abs(moment - powers.mean()) < FAR * error
    # Power: a sensitivity that is 10 % off is noticed.
    wrong = np.exp(length.log_moment(np.array([1.21 * scale]))[0])
    assert abs(wrong - powers.mean()) > 2 * FAR * error
    values, weights = length_law(length)
    assert weights.sum() == pytest.approx(1.0, abs=1e-12)
    distance = np.sqrt(np.log(2e6) / (2 * DRAWS))  # Dvoretzky–Kiefer–Wolfowitz: 5e-7 on one side
    cdf = np.cumsum(weights)
    empirical = np.searchsorted(np.sort(draws), values, side="right") / DRAWS
    assert (cdf <= empirical + distance).all()
    # Rounded up, but not by much.
    assert draws.mean() <= values @ weights + FAR * draws.std() / DRAWS**0.5
    assert values @ weights <= draws.mean() * 1.012 + FAR * draws.std() / DRAWS**0.5


@pytest.mark.parametrize(("dim", "k"), [(784, 1000), (784, 33), (50, 7), (10**6, 10**5), (2, 2)])
def test_atoms_have_the_exact_mean_and_variance(dim, k):
    values, weights = length_law(ProjectedLength(dim, k, 1.0))
    mean = values @ weights
    spread = np.sqrt(weights @ (values - mean) ** 2)
    exact = np.sqrt(2 * k * (dim - 1) / (dim + 2)) / dim
    assert k / dim <= mean <= k / dim + 0.04 * exact + 2e-4 * k / dim
    assert spread == pytest.approx(exact, rel=0.01)


@pytest.mark.parametrize("k", [300, 1000])
def test_moments_of_the_atoms_lie_above_and_near(k):
    # Tails, too: a moment that lives six standard deviations out.
    length = ProjectedLength(784, k, 1.0)
    values, weights = length_law(length)
    spread = np.sqrt(2 * k) / 784
    for scale in (1.0 / spread, 5.0 / spread):
        exact = length.log_moment(np.array([scale]))[0]
        rounded = np.log(weights @ np.exp(scale * (values - k / 784))) + scale * k / 784
        assert exact <= rounded <= exact * 1.06


def test_single_share_has_beta_probabilities():
    length = ProjectedLength(30, 6, 1.0, orthonormal=True)
    values, weights = length_law(length)
    law = stats.beta(3, 12)
    assert np.allclose(np.cumsum(weights), law.cdf(values), atol=1e-10)


def test_moment_of_frames_against_mpmath():
    length = ProjectedLength(100, 30, 1.3, orthonormal=True)
    scale = np.array([0.1, 3.0, 60.0])
    for got, c in zip(length.log_moment(scale), scale):
        true = mpmath.log(mpmath.hyp1f1(15, 50, mpmath.mpf(c) * mpmath.mpf(1.3) ** 2))
        assert float(true) <= got * (1 + 1e-14)
        assert got <= float(true) * (1 + 1e-10)


def test_all_directions_of_a_frame_keep_the_length():
    length = ProjectedLength(9, 9, 0.5, orthonormal=True)
    assert length.log_moment(np.array([2.0]))[0] == pytest.approx(0.5)
    values, weights = length_law(length)
    assert values == pytest.approx([0.25])
    assert weights == pytest.approx([1.0])


def test_grid_bounds_what_rounding_does():
    rng = np.random.default_rng(1)
    grid, length = 0.05, ProjectedLength(6, 9, 0.7)
    rows = rng.standard_normal((2, DRAWS, 6))
    rows[1] = rows[0] + 0.7 * rows[1] / np.linalg.norm(rows[1], axis=1, keepdims=True)
    normals = rng.standard_normal((DRAWS, 6, 9))
    directions = normals / np.linalg.norm(normals, axis=1, keepdims=True)
    rounded = np.round(np.einsum("snd,ndk->snk", rows, directions) / grid) * grid
    draws = np.square(rounded[0] - rounded[1]).sum(axis=1)
    for scale in (0.5, 4.0):
        with_grid = ProjectedLength(6, 9, 0.7, grid=grid).log_moment(np.array([scale]))[0]
        assert np.log(np.exp(scale * draws).mean()) <= with_grid
        assert with_grid > length.log_moment(np.array([scale]))[0]
    values, weights = length_law(ProjectedLength(6, 9, 0.7, grid=grid))
    bare, same = length_law(length)
    assert values == pytest.approx((np.sqrt(bare) + 3 * grid) ** 2)
    assert np.array_equal(weights, same)
    # The bound that is optimized over t is valid, and within a little of the moment itself.
    exact = np.log(weights @ np.exp(4.0 * values))
    bound = ProjectedLength(6, 9, 0.7, grid=grid).log_moment(np.array([4.0]))[0]
    assert exact * 0.98 <= bound <= exact * 1.1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((5, 2, 0.0), "sensitivity is 0.0"),
        ((5, 2, 1.0, False, -1.0), "grid is -1.0"),
        ((5, 6, 1.0, True), "at most dim = 5 directions can be orthonormal"),
    ],
)
def test_refusals(arguments, message):
    with pytest.raises(PrivotError, match=message):
        ProjectedLength(*arguments)
