"""The choice: information against brute force, who wins where, and what it says."""

import numpy as np
import pytest

from mechanisms.test_subset_selection import SETS
from mechanisms.test_unary_encoding import BITS
from privot.errors import PrivotError
from privot.mechanisms import (
    Laplace,
    RandomizedResponse,
    SquareWave,
    SubsetSelection,
    UnaryEncoding,
    choose_mechanism,
)
from privot.mechanisms.square_wave import GRID, STEPS
from privot.schema import BooleanColumn, NumericColumn, VectorColumn

UNIT = NumericColumn(kind="numeric", bounds=(0.0, 3.0))
BALL = VectorColumn(kind="vector", columns=("x", "y"), radius=1.0)


def choices(size):
    """Two are answers and none, any number more are integers, and one for a missing one."""
    if size == 2:
        return BooleanColumn(kind="boolean")
    return NumericColumn(
        kind="numeric", bounds=(0, size - 2), integer=True, bins="integers", nullable=True
    )


def mutual_information(likelihood):
    """Bits of I(V; Y) for P(y | v) in rows v, V uniform: by definition."""
    ratio = likelihood / likelihood.mean(axis=0)
    return (likelihood * np.log2(np.where(likelihood > 0, ratio, 1.0))).sum(axis=1).mean()


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_information_of_categories_is_its_definition(epsilon):
    five = choose_mechanism(choices(5), epsilon).information
    codes = np.arange(5)[:, None]
    response = np.exp(RandomizedResponse(5, epsilon).log_likelihood(np.arange(5), codes))
    unary = np.exp(UnaryEncoding(5, epsilon).log_likelihood(BITS, codes))
    assert five["randomized_response"] == pytest.approx(mutual_information(response), rel=1e-9)
    assert five["unary_encoding"] == pytest.approx(mutual_information(unary), rel=1e-9)
    subset = SubsetSelection(6, 1.0)
    likelihood = np.exp(subset.log_likelihood(SETS, np.arange(6)[:, None]))
    six = choose_mechanism(choices(6), 1.0).information["subset_selection"]
    assert six == pytest.approx(mutual_information(likelihood), rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 6.0])
def test_information_of_the_square_wave_is_its_definition(epsilon):
    mechanism = SquareWave(epsilon)
    half = round(mechanism.half_width / GRID)
    reports = (np.arange(-half, STEPS + half + 1) * GRID - 1.0)[:, None]
    points = (np.arange(STEPS + 1) * GRID - 1.0)[:, None, None]
    expected = mutual_information(np.exp(mechanism.log_likelihood(reports, points)))
    information = choose_mechanism(UNIT, epsilon).information["square_wave"]
    assert information == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 6.0, 30.0])
def test_information_of_laplace_is_its_definition(epsilon):
    """A fine grid's discrete channel, summed by definition."""
    scale = 2 / epsilon
    grid = scale / 40
    points = np.linspace(-1.0, 1.0, 801)[:, None]
    reach = int((1 + 30 * scale) / grid)
    reports = np.arange(-reach, reach + 1) * grid
    likelihood = np.exp(-np.abs(reports - points) / scale)
    likelihood /= likelihood.sum(axis=1, keepdims=True)
    information = choose_mechanism(UNIT, epsilon).information["laplace"]
    assert information == pytest.approx(mutual_information(likelihood), rel=5e-3)


@pytest.mark.parametrize(
    ("values", "epsilon", "kind"),
    [
        (2, 0.5, RandomizedResponse),
        (4, 4.0, RandomizedResponse),
        (30, 6.0, RandomizedResponse),
        (10, 0.5, SubsetSelection),
        (100, 3.0, SubsetSelection),
        (1000, 4.0, SubsetSelection),
        (1000, 1.0, UnaryEncoding),
        (10_000, 0.5, UnaryEncoding),
        (30, 3.0, UnaryEncoding),  # subset selection would report one cell only
        (UNIT, 0.5, SquareWave),
        (UNIT, 2.0, SquareWave),
        (UNIT, 30.0, SquareWave),
        (UNIT, 50.0, Laplace),  # more than a square wave is made for,
    ],
)
def test_who_wins_where(values, epsilon, kind):
    column = values if values is UNIT else choices(values)
    choice = choose_mechanism(column, epsilon)
    assert type(choice.mechanism) is kind
    assert choice.mechanism.guarantee(column.domain).epsilon <= epsilon


def test_the_reason_says_what_and_why():
    most = choose_mechanism(choices(4), 2.0)
    assert most.reason.startswith("randomized_response: of 4 categories at ε = 2, its report tells")
    assert "unary_encoding" in most.reason
    assert set(most.information) == {"randomized_response", "subset_selection", "unary_encoding"}
    assert "shortest report" in choose_mechanism(choices(1000), 1.0).reason
    alone = choose_mechanism(UNIT, 1.0, among=("laplace",))
    assert alone.reason.endswith("no other kind fits")
    assert set(alone.information) == {"laplace"}
    assert set(choose_mechanism(UNIT, 1.0).information) == {"laplace", "square_wave"}


def test_a_column_that_one_kind_is_for_needs_no_comparison():
    assert type(choose_mechanism(BALL, 1.0).mechanism) is Laplace
    maybe = BALL.model_copy(update={"nullable": True})
    assert choose_mechanism(maybe, 1.0).mechanism.kind == "nullable"
    spiked = NumericColumn(kind="numeric", bounds=(0.0, 3.0), spikes=(1.0,))
    assert type(choose_mechanism(spiked, 1.0).mechanism) is Laplace


@pytest.mark.parametrize("epsilon", [2.0**-9, 0.01, 1.0, 10.0, 39.0])
def test_information_is_bounded(epsilon):
    """No report of ε tells more than ε nats, nor more than there is to know."""
    for values, entropy in (
        (UNIT, np.inf),
        (choices(2), 1.0),
        (choices(1000), np.log2(1000)),
    ):
        for information in choose_mechanism(values, epsilon).information.values():
            assert 0 <= information <= min(epsilon / np.log(2), entropy) + 1e-9


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: choose_mechanism(choices(5), 0.0), "epsilon is 0.0"),
        (
            lambda: choose_mechanism(choices(5), 1.0, among=("laplace",)),
            "choose one or more of randomized",
        ),
        (lambda: choose_mechanism(UNIT, 1.0, among=()), "choose one or more of gaussian"),
        (
            lambda: choose_mechanism(BALL, 1.0, among=("square_wave",)),
            "choose one or more of gaussian",
        ),
    ],
)
def test_refusals(call, message):
    with pytest.raises(PrivotError, match=message):
        call()
