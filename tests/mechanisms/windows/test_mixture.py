"""Mixtures: the ratio e^ε in integers, and draws that know nothing of the record."""

from fractions import Fraction

import mpmath
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from privot.mechanisms import samplers
from privot.mechanisms.window_cells import WindowCells, WindowMixture


@given(
    epsilon=st.floats(0.01, 30.0),
    dimension=st.integers(1, 3),
    radius=st.integers(0, 20),
    area=st.sampled_from(["box", "l2_ball"]),
    nullable=st.booleans(),
)
def test_integers_keep_epsilon_and_waste_nothing(epsilon, dimension, radius, area, nullable):
    cells = WindowCells(dimension, 16, radius, area, False)
    mixture = WindowMixture(cells, epsilon, nullable)
    near, anywhere = mixture.words
    assert near + anywhere == 2**64
    share = Fraction(mixture.total, len(cells.number_offsets))
    ratio = 1 + Fraction(near, anywhere) * share
    with mpmath.workdps(60):
        loss = mpmath.log(mpmath.mpf(ratio.numerator) / ratio.denominator)
        lost = 4 * mpmath.mpf(float(share)) / anywhere
        assert mpmath.mpf(epsilon) - lost <= loss <= mpmath.mpf(epsilon)


def test_draws_look_at_no_record(monkeypatch):
    """From the same draws, any records get the same offset, or the same cell."""
    mixture = WindowMixture(WindowCells(2, 64, 9, "l2_ball", False), 2.0, True)
    drawn = near, far = mixture.draw(1000)
    monkeypatch.setattr(
        WindowMixture, "draw", lambda self, count: (drawn[0].copy(), drawn[1].copy())
    )
    present = np.zeros(1000, bool)
    for place in ([32, 32], [0, 32], [60, 40]):
        record = mixture.cells.number(np.array(place))
        reports = mixture.report(np.full(1000, record), present)
        assert ((reports == record + near) | (reports == far)).all()
        assert (reports == record + near).mean() > 0.1
    reports = mixture.report(np.full(1000, record), ~present)
    assert ((reports == mixture.symbol) | (reports == far)).all()


def test_words_beyond_the_last_full_multiple_are_drawn_again(monkeypatch):
    """Or some cells would be likelier by 1 in 2^64/mK, which no sample of tests can show."""
    mixture = WindowMixture(WindowCells(2, 64, 9, "l2_ball", False), 2.0, False)
    window = mixture.cells.number_offsets
    limit = 2**64 - 2**64 % (len(window) * mixture.total)
    assert limit < 2**64
    drawn = iter([[limit, 7, 2**64 - 1], [limit - 1, limit], [8]])
    monkeypatch.setattr(samplers, "random_words", lambda count: np.array(next(drawn), np.uint64))
    near, far = mixture.draw(3)
    used = [limit - 1, 7, 8]
    assert near.tolist() == [window[word % len(window)] for word in used]
    assert far.tolist() == [mixture.cells.report_numbers[word % mixture.total] for word in used]
    assert [*drawn] == []
