"""Alphabets: every value has one code, decoding stays within it, and uniformly."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from privot.core.errors import PrivotError
from privot.schema import Schema
from privot.schema.columns.alphabet import Bins, Categories, choose_edges


@given(
    low=st.integers(-(10**6), 10**6),
    span=st.integers(4, 3000),
    bins=st.integers(1, 50),
    num_spikes=st.integers(0, 3),
    nullable=st.booleans(),
    seed=st.integers(0, 99),
)
def test_integers_return_to_the_bin_they_came_from(low, span, bins, num_spikes, nullable, seed):
    rng = np.random.default_rng(seed)
    high = low + span
    edges = choose_edges(low, high, True, min(bins, max(1, (span + 1) // (num_spikes + 1))))
    spikes = tuple(
        sorted(float(s) for s in rng.choice(np.arange(low, high + 1), num_spikes, False))
    )
    alphabet = Bins(edges, spikes, integer=True, nullable=nullable)
    values = np.arange(low, high + 1.0)
    codes = alphabet.encode(values)
    assert len(alphabet.labels) == alphabet.size
    # All values of one code share its label's range; spikes stand alone.
    counts = np.bincount(codes, minlength=alphabet.size)
    assert (counts[: alphabet.num_bins] > 0).all()
    assert (counts[alphabet.num_bins : alphabet.num_bins + num_spikes] == 1).all()
    assert np.ptp(counts[: alphabet.num_bins]) <= 1 + num_spikes
    decoded = alphabet.decode(codes, rng)
    assert (alphabet.encode(decoded) == codes).all()
    assert (decoded == np.rint(decoded)).all()
    assert low <= decoded.min() <= decoded.max() <= high


@given(
    edges=st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=9, unique=True),
    seed=st.integers(0, 9),
)
def test_real_numbers_return_to_the_bin_they_came_from(edges, seed):
    rng = np.random.default_rng(seed)
    alphabet = Bins(tuple(sorted(edges)))
    values = rng.uniform(min(edges) - 1, max(edges) + 1, 50)
    codes = alphabet.encode(values)
    decoded = alphabet.decode(codes, rng)
    inner = decoded < max(edges)  # a narrow bin's draw may round to its upper edge
    assert (alphabet.encode(decoded)[inner] == codes[inner]).all()


def test_decoded_integers_are_uniform_over_what_is_no_spike():
    alphabet = Bins((0.0, 10.0, 20.0), spikes=(3.0, 5.0, 19.0), integer=True)
    numbers = alphabet.decode(np.repeat([0, 1], 40_000), np.random.default_rng(0))
    counts = np.bincount(numbers.astype(int), minlength=20)
    assert (counts[[3, 5, 19]] == 0).all()
    kept = np.delete(counts, [3, 5, 19])
    assert stats.chisquare(kept[:8]).pvalue > 1e-6
    assert stats.chisquare(kept[8:]).pvalue > 1e-6


def test_values_beyond_the_bounds_are_in_the_outer_bins_and_missing_ones_in_the_last_code():
    alphabet = Bins((0.0, 1.0, 2.0), spikes=(2.0,), nullable=True)
    codes = alphabet.encode(np.array([-5.0, 0.0, 1.0, 2.0, 99.0, np.nan]))
    assert codes.tolist() == [0, 0, 1, 2, 2, 3]
    assert np.isnan(alphabet.decode(np.array([3]), np.random.default_rng(0))).all()
    assert alphabet.labels == ("[0, 1)", "[1, 2]", "2", "(missing)")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"edges": (0.0, 0.0)}, "do not increase"),
        ({"edges": (0.0,)}, "do not increase"),
        ({"edges": (0.0, 1.0), "spikes": (2.0,)}, "spikes"),
        ({"edges": (0.0, 1.0), "spikes": (0.5, 0.5)}, "spikes"),
        ({"edges": (0.0, 1.5), "integer": True}, "give integers"),
        ({"edges": (0.0, 1.0, 9.0), "spikes": (0.0,), "integer": True}, "no integer from 0 to 0"),
    ],
)
def test_bins_that_cannot_be_are_refused(arguments, words):
    with pytest.raises(PrivotError, match=words):
        Bins(**arguments)


def test_a_missing_number_is_refused_where_none_may_be():
    with pytest.raises(PrivotError, match="not nullable"):
        Bins((0.0, 1.0)).encode(np.array([np.nan]))


def test_no_two_bins_have_the_same_label():
    """Split reports are stored by their label."""
    narrow = Bins(choose_edges(1e6, 1e6 + 1, False, 10), nullable=True)
    assert len(set(narrow.labels)) == narrow.size
    with pytest.raises(PrivotError, match="rename it"):
        Categories(("x", "(missing)"), nullable=True)


@given(
    low=st.integers(1, 50), span=st.integers(1, 10**6), bins=st.integers(1, 40), whole=st.booleans()
)
def test_bins_of_a_log_scale_are_equal_in_the_logarithm(low, span, bins, whole):
    bins = min(bins, span + 1)
    edges = np.array(choose_edges(low, low + span, whole, bins, "log"))
    assert (edges[0], edges[-1]) == (low, low + span + whole)
    assert (np.diff(edges) >= (1 if whole else 0)).all()
    exact = np.geomspace(low, low + span + whole, bins + 1)
    # Whole numbers are rounded where bins are wide, and moved to make room where they are not.
    far = exact >= bins / np.log(exact[-1] / low) + bins if whole else np.ones(bins + 1, bool)
    assert np.allclose(edges[far], exact[far], rtol=0 if whole else 1e-9, atol=0.5 if whole else 0)


def test_a_log_scale_needs_a_low_bound_above_0():
    with pytest.raises(PrivotError, match="low bound above 0, which is 0"):
        Schema.from_toml('[columns.paid]\nkind = "numeric"\nbounds = [0, 9]\nscale = "log"')
    column = Schema.from_toml(
        '[columns.paid]\nkind = "numeric"\nbounds = [1, 100]\nscale = "log"\nbins = 2'
    )
    assert column.coded["paid"].alphabet.edges == (1.0, 10.0, 100.0)
