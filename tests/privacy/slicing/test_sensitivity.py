"""Who may differ, how batches are drawn: the Δ that follows, what no proof covers; log ₁F₁."""

from dataclasses import replace

import mpmath
import numpy as np
import pytest

from privot.core.errors import PrivotError
from privot.privacy.slice_sensitivity import ProjectedLength, log_kummer, record_sensitivity


@pytest.mark.parametrize(
    ("neighboring", "sampling", "non_negative", "factor"),
    [
        ("replace_one", "without_replacement", False, 2.0),
        ("replace_one", "without_replacement", True, 2**0.5),
        ("replace_one", "none", False, 2.0),
        ("zero_out", "padded_poisson", False, 1.0),
        ("zero_out", "padded_poisson", True, 1.0),
        ("zero_out", "none", False, 1.0),
        ("zero_out", "without_replacement", False, 2.0),
        ("zero_out", "without_replacement", True, 2**0.5),
    ],
)
def test_factor_of_the_radius(neighboring, sampling, non_negative, factor):
    got = record_sensitivity(3.0, neighboring, sampling, non_negative)
    assert got == pytest.approx(3 * factor, rel=1e-15)
    assert got >= 3 * factor


def test_non_negative_rows_are_never_farther_apart():
    rng = np.random.default_rng(0)
    rows = rng.gamma(0.1, size=(2, 2000, 5))
    rows /= np.linalg.norm(rows, axis=-1, keepdims=True)
    distances = np.linalg.norm(rows[0] - rows[1], axis=-1)
    limit = record_sensitivity(1.0, "replace_one", "none", non_negative=True)
    assert 0.99 * limit < distances.max() <= limit


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.0, "replace_one", "none"), "radius is 0.0"),
        ((1.0, "local", "none"), "neighboring is 'local'"),
        ((1.0, "replace_one", "poisson"), "sampling is 'poisson': choose one of"),
        ((1.0, "replace_one", "padded_poisson"), "use neighboring 'zero_out'"),
    ],
)
def test_refusals(arguments, message):
    with pytest.raises(PrivotError, match=message):
        record_sensitivity(*arguments)


def exact(a, b, x):
    with mpmath.workdps(60):
        return mpmath.log(
            mpmath.hyp1f1(mpmath.mpf(a), mpmath.mpf(b), mpmath.mpf(x), maxterms=10**6)
        )


@pytest.mark.parametrize("dim", [2, 3, 10, 784, 7840])
@pytest.mark.parametrize("share", ["direction", "two", "half", "all but one"])
def test_against_mpmath(dim, share):
    a = {"direction": 0.5, "two": 1.0, "half": dim / 4, "all but one": (dim - 1) / 2}[share]
    # Both branches, both sides of the switch, and the transition at x = b.
    x = np.array(
        [1e-12, 1e-3, 1.0, 39.9, 40.1, dim / 4 + 1, dim / 2, dim / 2 * 1.02, 3.0 * dim, 1e4]
    )
    for got, at in zip(log_kummer(a, dim / 2, x), x):
        true = exact(a, dim / 2, at)
        assert got >= true * (1 - mpmath.mpf(2) ** -52)
        assert got <= true * (1 + 2e-9)


@pytest.mark.parametrize("dim", [10**5, 10**6])
@pytest.mark.parametrize("part", [1e-3, 0.5])
def test_large_dimension(dim, part):
    x = part * dim / 2
    true = exact(0.5, dim / 2, x)
    got = log_kummer(0.5, dim / 2, np.array([x]))[0]
    assert true * (1 - 1e-15) <= got <= true * (1 + 1e-9)


@pytest.mark.parametrize("dim", [2, 5, 784, 10**6])
def test_huge_arguments_follow_the_asymptotic_series(dim):
    # log ₁F₁ ~ x + (a−b) log x + log Γ(b)/Γ(a), with an error of order b²/x.
    a, b = 0.5, dim / 2
    for x in (1e15, 1e30, 1e100):
        leading = x + (a - b) * mpmath.log(x) + mpmath.loggamma(b) - mpmath.loggamma(a)
        got = log_kummer(a, b, np.array([x]))[0]
        assert float(leading) * (1 - 1e-15) <= got <= x


def test_one_dimension_is_the_exponential():
    x = np.array([0.0, 1e-300, 2.0, 1e200])
    assert np.array_equal(log_kummer(0.5, 0.5, x), x)


def test_is_increasing_and_convex_across_the_branches():
    for a, b in ((0.5, 392.0), (100.0, 392.0), (0.5, 1.0)):
        x = np.linspace(1.0, 900.0, 2000)
        slopes = np.diff(log_kummer(a, b, x))
        assert (slopes > 0).all()
        assert (np.diff(slopes) > -1e-10).all()


@pytest.mark.parametrize(
    ("dim", "num_projections", "orthonormal"),
    [(1, 4, False), (10, 16, False), (100_000, 50, False), (50, 20, True), (784, 784, True)],
)
@pytest.mark.parametrize("stddev", [0.1, 1.0, 30.0])
def test_chords_between_two_moments_bound_all_of_a_fine_grid(
    dim, num_projections, orthonormal, stddev
):
    """On a fine grid two moments replace nine: no bound is smaller than theirs, or much larger."""
    orders = np.arange(2.0, 257.0)
    scale = orders * (orders - 1) / (2 * stddev**2)
    length = ProjectedLength(dim, num_projections, 2.0, orthonormal)
    typical = 2.0 * np.sqrt(length.copies * length.beta[0] / length.beta[1])
    widths = 1e-5 * np.geomspace(0.25, 4.0, 9)
    rounding = 1e-5 * typical
    exact = np.min(
        [length.log_moment((1 + t) * scale) + (1 + 1 / t) * scale * rounding**2 for t in widths],
        axis=0,
    )
    fine = replace(length, grid=rounding / np.sqrt(num_projections)).log_moment(scale)
    assert np.all(fine >= exact * (1 - 1e-11))
    assert np.all(fine <= exact * (1 + 1e-6))
