"""Draws have the laws of the mechanisms that they are of, and the geometry that those count."""

import json
import random
from fractions import Fraction
from functools import partial
from itertools import combinations, product
from math import comb, exp

import numpy as np
import pytest
from scipy.stats import binomtest

from conformance.vectors import FOLDER
from every_word import law_of
from laws.mechanism import chi_square
from privot.core.errors import PrivotError
from privot.mechanisms import RandomizedResponse, SubsetSelection
from privot.mechanisms.window_cells import WindowCells, WindowMixture
from privot.wire.draws import (
    WORDS,
    Draw,
    Laplace,
    Response,
    Subset,
    Window,
    draw_subset,
    draw_weighted,
    split_draws,
    system_word,
)
from privot.wire.windows import WindowGeometry

GEOMETRIES = [
    (1, 64, 9, "box", False),
    (1, 64, 9, "box", True),
    (2, 16, 3, "box", False),
    (2, 32, 5, "l2_ball", False),
    (2, 32, 5, "l2_ball", True),
    (3, 8, 2, "box", False),
    (3, 16, 4, "l2_ball", False),
    (3, 16, 3, "l2_ball", True),
    (2, 4, 0, "l2_ball", False),
]


def both(dimension, steps, radius, area, non_negative):
    low = steps // 2 if non_negative else 0
    own = WindowGeometry(dimension, steps, radius, area, low)
    return own, WindowCells(dimension, steps, radius, area, non_negative)


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_windows_and_reports_have_the_cells_of_the_mechanism(geometry):
    own, cells = both(*geometry)
    assert [own.offset(i) for i in range(own.window_size)] == cells.number_offsets.tolist()
    reached = (
        range(cells.number_limit) if cells.report_numbers is None else cells.report_numbers.tolist()
    )
    assert own.num_report_cells == cells.num_report_cells
    assert [own.report_cell(i) for i in range(own.num_report_cells)] == list(reached)


@pytest.mark.parametrize("nullable", [False, True])
@pytest.mark.parametrize(
    "geometry", [(1, 16, 2, "box", False), GEOMETRIES[8], (2, 4, 1, "l2_ball", True)]
)
def test_window_reports_have_the_law_of_the_mechanism(geometry, nullable):
    """Whatever the record is, to the last of its corners."""
    own, cells = both(*geometry)
    mixture = WindowMixture(cells, 2.0, nullable)
    draw = Window(*geometry, nullable, mixture.words[1], blocks=1)
    assert draw.geometry == own
    inside, outside = mixture.probabilities
    reached = [own.report_cell(index) for index in range(own.num_report_cells)]
    places = product(range(own.low, own.steps + 1), repeat=own.dimension)
    records = [list(place) for place in places if own.number(list(place)) in reached]
    for cell in [*records, None] if nullable else records:
        near = cells.number_offsets + own.number(cell) if cell else []
        expected = {number: inside if number in near else outside for number in reached}
        if nullable:
            expected[own.number_limit] = own.window_size * (outside if cell else inside)
        found = law_of(partial(draw.draw_cell, cell))
        assert found == pytest.approx(expected, rel=1e-9)


def test_responses_have_the_law_of_the_mechanism():
    mechanism = RandomizedResponse(5, 1.5)
    keep, other = mechanism.words
    for code in range(5):
        found = law_of(partial(Response(5, other).draw, [code]))
        assert found == {(c,): Fraction(keep if c == code else other, WORDS) for c in range(5)}


def test_subsets_have_the_law_of_the_mechanism():
    mechanism = SubsetSelection(7, 0.5)
    size, words = mechanism.subset_size, mechanism.words
    inside, outside = (Fraction(count, WORDS) for count in words)
    for cell in range(7):
        found = law_of(partial(Subset(7, size, words[1]).draw, [cell]))
        for chosen in combinations(range(7), size):
            ways = (inside, comb(6, size - 1)) if cell in chosen else (outside, comb(6, size))
            assert found[chosen] == pytest.approx(ways[0] / ways[1], rel=1e-12)
        assert len(found) == comb(7, size)


@pytest.mark.parametrize("ratio", [(1, 3), (3, 2), (41, 4), (2**52 + 1, 2**50)])
def test_noise_is_discrete_laplace(ratio):
    t = ratio[0] / ratio[1]
    draw = Laplace(1, ratio, 0)
    # As many draws as a scale that is 4 % wrong needs to stand ten standard deviations away.
    drawn = np.array([draw.noise(system_word) for _ in range(70_000)])
    k = np.arange(-200, 201)

    def law(scale):
        return np.tanh(0.5 / scale) * np.exp(-np.abs(k) / scale)

    counts = np.bincount(drawn.clip(-200, 200) + 200, minlength=401)
    assert chi_square(counts, law(t)) > 1e-6
    for scale, wrong in ((t, False), *[(1.04 * t, True)] * (t > 1)):
        chances = law(scale)
        mean = (chances * np.abs(k)).sum()
        error = (((chances * k**2).sum() - mean**2) / len(drawn)) ** 0.5
        assert (abs(np.abs(drawn).mean() - mean) > 5 * error) == wrong


def test_a_noise_of_zero_is_not_drawn_twice():
    zero = sum(Laplace(1, (1, 1), 0).noise(system_word) == 0 for _ in range(20_000))
    assert binomtest(zero, 20_000, (1 - exp(-1)) / (1 + exp(-1))).pvalue > 1e-6


def test_forms_are_drawn_in_exact_proportion_to_their_weights():
    """Every number below the sum of the weights leads to the form whose share holds it."""
    weights = [3, 1, 5]
    drawn = [draw_weighted(weights, iter([word]).__next__) for word in range(9)]
    assert drawn == [0, 0, 0, 1, 2, 2, 2, 2, 2]
    # Beyond the last full multiple of their sum, a word is drawn again.
    assert draw_weighted(weights, iter([WORDS - 1, 3]).__next__) == 1


def test_columns_of_the_smallest_words_are_chosen():
    rng = random.Random(0)
    for _ in range(100):
        words = [rng.choice((3, 7, 2**63)) for _ in range(6)]
        found = draw_subset(6, 2, iter(words).__next__)
        assert found == sorted(int(i) for i in np.argsort(words, kind="stable")[:2])
    assert draw_subset(3, 3, None) == [0, 1, 2]


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_draws_write_the_fields_that_mechanisms_do(path):
    program = json.loads(json.loads(path.read_text(encoding="utf-8"))["randomizer"])["device"]
    draws = [draw for _, draw in split_draws(program)]
    written = [report["draw"] for report in (program["split"] or {"reports": []})["reports"]]
    assert [json.dumps(draw.to_dict()) for draw in draws] == [json.dumps(each) for each in written]


@pytest.mark.parametrize("kind", [None, [], "", "windows"])
def test_an_unknown_kind_is_refused_with_those_that_are_known(kind):
    with pytest.raises(PrivotError, match="must be one of response, subset, window, laplace"):
        Draw.checked("column 'a'", {"draw": kind}, {}, [2])


def test_no_kind_is_named_twice():
    with pytest.raises(PrivotError, match=r"kind 'window' is privot.wire.draws.Window: give yours"):

        class Other(Draw, kind="window"):
            pass
