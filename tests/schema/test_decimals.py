"""Short decimals: they increase as the edges do, and say what was declared."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from privot.schema.columns.alphabet import exact_text, short_edges


@given(st.lists(st.floats(-1e12, 1e12), min_size=2, max_size=12, unique=True))
def test_texts_increase_near_their_edges_and_the_bounds_are_exact(edges):
    edges = sorted(edges)
    read = np.array([float(text) for text in short_edges(edges)])
    widths = np.diff(edges)
    assert (np.diff(read) > 0).all()
    assert (np.abs(read - edges)[:-1] <= widths / 200).all()
    assert (np.abs(read - edges)[1:] <= widths / 200).all()
    assert (read[0], read[-1]) == (edges[0], edges[-1])


@given(
    low=st.decimals(-1000, 1000, places=2),
    width=st.decimals("0.01", 50, places=2),
    n=st.integers(2, 20),
)
def test_what_was_computed_for_a_decimal_is_written_as_it(low, width, n):
    exact = [low + i * width for i in range(n + 1)]
    texts = short_edges(np.linspace(float(exact[0]), float(exact[-1]), n + 1).tolist())
    assert texts == [exact_text(float(edge)) for edge in exact]


def test_no_digit_of_what_was_declared_is_lost():
    assert short_edges([0.0, 1234567.0, 1e9]) == ["0", "1234567", "1000000000"]
    assert exact_text(0.1 + 0.2) == "0.30000000000000004"
