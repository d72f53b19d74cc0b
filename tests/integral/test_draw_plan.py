"""The price of a draw: all of them together stay within ε, and too little is said in time."""

import warnings
from fractions import Fraction

import pytest

from privot.core.errors import PrivotError
from privot.integral.model import DrawPlan, price_of_draw, warn_of_small_epsilon
from privot.privacy import ApproximateDP, IntegralPrivacy


@pytest.mark.parametrize(("epsilon", "draws"), [(1.0, 3), (0.1, 7), (20.0, 50), (1.0, 1)])
def test_all_draws_together_cost_at_most_epsilon(epsilon, draws):
    price = price_of_draw(epsilon, None, draws)
    assert Fraction(price) * draws <= Fraction(epsilon)
    promise = DrawPlan("model", draws, price, 0.0, "person").guarantee
    assert isinstance(promise, IntegralPrivacy)
    assert promise.epsilon == pytest.approx(epsilon, rel=1e-12)
    assert promise.epsilon <= epsilon


def test_epsilon_per_draw_is_the_price_of_one():
    assert price_of_draw(None, 0.5, 4) == 0.5
    assert DrawPlan("model", 4, 0.5, 0.0, "person").guarantee.epsilon == 2.0


def test_a_delta_is_stated_once_for_all_draws():
    promise = DrawPlan("model", 4, 0.5, 1e-6, "person").guarantee
    assert isinstance(promise, ApproximateDP)
    assert (promise.delta, promise.neighboring) == (1e-6, "any")


@pytest.mark.parametrize("given", [(None, None), (1.0, 1.0)])
def test_one_of_both_prices_is_given(given):
    with pytest.raises(PrivotError, match="give either epsilon"):
        price_of_draw(*given, 4)


def test_a_price_that_buys_nothing_is_said():
    with pytest.warns(UserWarning, match="declare fewer draws"):
        warn_of_small_epsilon(0.1, 1)
    with pytest.warns(UserWarning, match="at most 4.48% of the draws"):
        warn_of_small_epsilon(0.004, 1000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_small_epsilon(0.3, 1)
        warn_of_small_epsilon(0.1, 50)
