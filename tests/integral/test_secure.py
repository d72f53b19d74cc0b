"""Numbers from the system's entropy: their laws, to the ends of their ranges."""

import numpy as np
from scipy import stats

from privot.integral import references
from privot.integral.references import SecureGenerator
from privot.mechanisms import samplers

DRAWS = SecureGenerator()


def test_uniforms_and_normals_have_their_laws():
    assert stats.kstest(DRAWS.random(50_000), "uniform").pvalue > 1e-6
    normal = DRAWS.standard_normal((100, 500))
    assert normal.shape == (100, 500)
    assert stats.kstest(normal.ravel(), "norm").pvalue > 1e-6
    assert stats.kstest(normal.ravel() * 1.1, "norm").pvalue < 1e-6, "no power"


def test_integers_are_uniform():
    counts = np.bincount(DRAWS.integers(-3, 4, 70_000) + 3, minlength=7)
    assert len(counts) == 7
    assert stats.chisquare(counts).pvalue > 1e-6
    assert stats.chisquare(counts, 10_000 + 400 * np.array([3, -3, 3, -3, 3, -3, 0])).pvalue < 1e-6


def test_extreme_words_stay_inside(monkeypatch):
    """No uniform is 0 or 1, both tails of a normal end alike, and no integer is out of range."""
    words = np.array([0, 1, 2**64 - 2, 2**64 - 1], np.uint64)
    monkeypatch.setattr(references, "random_words", lambda count: np.resize(words, count))
    uniform = DRAWS.random(4)
    assert 0 < uniform.min() < uniform.max() < 1
    normal = np.sort(DRAWS.standard_normal(4))
    np.testing.assert_array_equal(normal, -normal[::-1])
    assert 9 < normal[-1] < 10


def test_words_beyond_the_last_full_multiple_are_left_out(monkeypatch):
    """Or small integers would be likelier by 1 in 2^64/span, which no sample of tests can show."""
    drawn = iter([[2**64 - 1, 2**64 - 2, 4], [2**64 - 1], [5]])  # 2^64 is 1 modulo 3
    for module in (samplers, references):  # whichever draws them
        monkeypatch.setattr(module, "random_words", lambda count: np.array(next(drawn), np.uint64))
    assert DRAWS.integers(-1, 2, 3).tolist() == [1, (2**64 - 2) % 3 - 1, 0]
