"""The choice: information against brute force, who wins where, and what it says."""

import numpy as np
import pytest

from mechanisms.test_subset_selection import SETS
from privot.core.errors import PrivotError
from privot.mechanisms import (
    Laplace,
    RandomizedResponse,
    SubsetSelection,
    Window,
    choose_mechanism,
    compare_mechanisms,
)
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
    five = choose_mechanism(choices(5), epsilon).compared
    codes = np.arange(5)[:, None]
    response = np.exp(RandomizedResponse(5, epsilon).log_likelihood(np.arange(5), codes))
    assert five["randomized_response"] == pytest.approx(mutual_information(response), rel=1e-9)
    subset = SubsetSelection(6, 1.0)
    likelihood = np.exp(subset.log_likelihood(SETS, np.arange(6)[:, None]))
    six = choose_mechanism(choices(6), 1.0).compared["subset_selection"]
    assert six == pytest.approx(mutual_information(likelihood), rel=1e-9)


@pytest.mark.parametrize(
    ("values", "epsilon", "kind"),
    [
        (2, 0.5, RandomizedResponse),
        (4, 4.0, RandomizedResponse),
        (30, 6.0, RandomizedResponse),
        (10, 0.5, SubsetSelection),
        (100, 3.0, SubsetSelection),
        (1000, 4.0, SubsetSelection),
        (1000, 1.0, SubsetSelection),
        (10_000, 0.5, SubsetSelection),
        (30, 3.0, RandomizedResponse),  # subset selection would report one cell as well
        (UNIT, 0.5, Window),
        (UNIT, 2.0, Window),
        (UNIT, 30.0, Window),
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
    assert "subset_selection" in most.reason
    assert set(most.compared) == {"randomized_response", "subset_selection"}
    assert "shortest report" in choose_mechanism(choices(30), 3.0).reason
    alone = choose_mechanism(UNIT, 1.0, among=("laplace",))
    assert alone.reason.endswith("no other kind is for it")
    assert set(alone.compared) == {"laplace"}
    assert set(choose_mechanism(UNIT, 1.0).compared) == {"laplace", "window"}


def test_places_get_windows_where_nothing_else_is_reported():
    """A window gives a point no slope: beside other columns it would be learned by nothing."""
    maybe = BALL.model_copy(update={"nullable": True})
    for column, noise in ((BALL, "laplace"), (maybe, "nullable")):
        choice = choose_mechanism(column, 1.0)
        assert type(choice.mechanism) is Window
        assert choice.compared["window"] < 0.6 * choice.compared["laplace"]
        assert choose_mechanism(column, 1.0, alone=False).mechanism.kind == noise
    age = NumericColumn(kind="numeric", bounds=(0.0, 3.0), nullable=True)
    assert choose_mechanism(age, 1.0, alone=False).mechanism.kind == "window"
    spiked = NumericColumn(kind="numeric", bounds=(0.0, 3.0), spikes=(1.0,))
    assert type(choose_mechanism(spiked, 1.0).mechanism) is Laplace


def test_a_named_mechanism_is_compared_with_what_else_there_is():
    for made in (Laplace.calibrate(BALL.domain, 4.0), Window.for_column(BALL, 4.0)):
        said = compare_mechanisms(BALL, made, 4.0, alone=True)
        assert said.startswith(f"{made.kind}: at ε = 4 its planned error is ")
        assert ("the least" in said) == (made.kind == "window")
        assert {"laplace", "window"} <= set(said.replace(":", "").split())
    maybe = BALL.model_copy(update={"nullable": True})
    said = compare_mechanisms(maybe, Laplace.for_column(maybe, 4.0), 4.0, alone=True)
    assert said.startswith("laplace: ")
    assert said.count("laplace") == 1


@pytest.mark.parametrize("epsilon", [2.0**-9, 0.01, 1.0, 10.0, 39.0])
def test_information_is_bounded(epsilon):
    """No report of ε tells more than ε nats, nor more than there is to know."""
    for values, entropy in (
        (choices(2), 1.0),
        (choices(1000), np.log2(1000)),
    ):
        for information in choose_mechanism(values, epsilon).compared.values():
            assert 0 <= information <= min(epsilon / np.log(2), entropy) + 1e-9


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: choose_mechanism(choices(5), 0.0), "epsilon is 0.0"),
        (
            lambda: choose_mechanism(choices(5), 1.0, among=("laplace",)),
            "choose one or more of .*randomized",
        ),
        (lambda: choose_mechanism(UNIT, 1.0, among=()), "choose one or more of .*gaussian"),
        (
            lambda: choose_mechanism(BooleanColumn(kind="boolean"), 1.0, among=("window",)),
            "choose one or more of .*randomized",
        ),
    ],
)
def test_refusals(call, message):
    with pytest.raises(PrivotError, match=message):
        call()
