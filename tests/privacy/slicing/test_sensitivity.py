"""Who may differ, how batches are drawn: the Δ that follows, and what no proof covers."""

import numpy as np
import pytest

from privot.errors import PrivotError
from privot.privacy.slicing import record_sensitivity


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
