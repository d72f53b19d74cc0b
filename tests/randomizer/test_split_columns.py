"""One budget for many columns: what is asked for is reached, in every mixture, and not wasted."""

import math
from fractions import Fraction

import numpy as np
import pytest

from homes_and_ages import SCHEMA
from labeled_images import SCHEMAS, schema_of
from privot.core.errors import PrivotError
from privot.mechanisms import Gaussian, Laplace, RandomizedResponse
from privot.mechanisms.additive_noise import rounded_sensitivity
from privot.privacy import ApproximateDP, gaussian_delta, gaussian_epsilon
from privot.privacy.rounding import sum_up
from privot.randomizer import Randomizer, state_noise
from privot.randomizer.budget import calibrate_columns, split_guarantee
from privot.schema import Schema


@pytest.mark.parametrize("more", SCHEMAS.values(), ids=SCHEMAS.keys())
def test_shares_are_given_and_the_image_gets_the_rest(more):
    schema = schema_of(more)
    made = Randomizer.calibrate(schema, 10.0, 1e-5, mechanism="gaussian", shares={"label": 4.0})
    assert made.mechanisms["label"] == RandomizedResponse(3, 4.0)
    alone = made.mechanisms["image"].guarantee(schema.images["image"].domain, 1e-5)
    assert alone.epsilon <= 6.0
    assert alone.epsilon == pytest.approx(6.0, rel=1e-6)
    assert 10 * (1 - 1e-6) <= made.guarantee.epsilon <= 10
    pure = Randomizer.calibrate(schema, 10.0, shares={"label": 4.0})
    assert pure.mechanisms["image"].kind == "laplace"
    assert 10 * (1 - 1e-3) <= pure.guarantee.epsilon <= 10
    half = Randomizer.calibrate(schema, 10.0, mechanism="laplace")
    assert half.joint is None
    assert half.mechanisms["label"].epsilon == pytest.approx(5.0)


def test_many_shares_add_up_below_epsilon():
    text = "".join(
        f'[columns.c{i}]\nkind = "categorical"\ncategories = ["a", "b"]\n' for i in range(5)
    )
    schema = Schema.from_toml(text)
    shares = {f"c{i}": 0.1 + i / 7 for i in range(3)}
    made = Randomizer.calibrate(schema, 3.3, shares=shares)
    assert made.guarantee.epsilon <= 3.3
    rest = (3.3 - sum(shares.values())) / 2
    assert made.mechanisms["c4"].epsilon == pytest.approx(rest, rel=1e-9)
    for name, share in shares.items():
        assert made.mechanisms[name].epsilon == share


def test_the_roundings_of_large_shares_are_left_room():
    columns = {name: {"kind": "categorical", "categories": ["x", "y", "z"]} for name in "abc"}
    schema = Schema.from_dict({"columns": columns})
    for epsilon, first, second in (
        (8.267367586850611, 3.0243429491838474, 5.188953658099612),
        (1.835626685309833, 0.9205311299511891, 0.8290082927624928),
    ):
        shares = {"a": first, "b": second}
        made = Randomizer.calibrate(schema, epsilon, report="split", shares=shares)
        assert made.guarantee.epsilon <= epsilon


SHARES_REFUSED = {
    "gaussian": ({"image": 4.0}, "gets what is left"),
    "unknown": ({"race": 4.0}, "unknown"),
    "too much": ({"label": 10.0}, "not between 0 and"),
    "nothing": ({"label": 0.0}, "not between 0 and"),
}


@pytest.mark.parametrize(("shares", "match"), SHARES_REFUSED.values(), ids=SHARES_REFUSED.keys())
def test_shares_are_refused(shares, match):
    with pytest.raises(PrivotError, match=match):
        Randomizer.calibrate(schema_of(), 10.0, 1e-5, mechanism="gaussian", shares=shares)


def test_shares_leave_something_to_somebody():
    with pytest.raises(PrivotError, match="leave nothing"):
        Randomizer.calibrate(schema_of(), 10.0, shares={"label": 4.0, "image": 3.0})
    with pytest.raises(PrivotError, match="use report 'split'"):
        Randomizer.calibrate(schema_of(), 10.0, shares={"label": 4.0}, report="joint")
    with pytest.raises(PrivotError, match="report_columns is 1"):
        Randomizer.calibrate(schema_of(), 10.0, shares={"label": 4.0}, report_columns=1)
    with pytest.raises(PrivotError, match="give the ε of"):
        state_noise(schema_of(), 2.0, 1e-5)
    with pytest.raises(PrivotError, match="'window' is not for column 'image'"):
        Randomizer.calibrate(schema_of(), 10.0, mechanism="window")


def mixture(num_numeric, num_categorical):
    numbers = {f"n{i}": {"kind": "numeric", "bounds": [0, i + 1]} for i in range(num_numeric)}
    codes = {
        f"c{i}": {"kind": "categorical", "categories": [str(j) for j in range(2 + i % 4)]}
        for i in range(num_categorical)
    }
    return Schema.from_dict({"columns": numbers | codes})


def every_mixture(schema, mechanisms, num_reported, delta):
    """ε of each number j of Gaussian columns that a report may hold, without any shortcut."""
    ratios, losses = [], []
    for name, mechanism in mechanisms.items():
        if isinstance(mechanism, Gaussian):
            domain = schema.point_column(name).domain
            ratios.append(rounded_sensitivity(domain, 2, mechanism.grid) / mechanism.stddev)
        else:
            losses.append(mechanism.guarantee().epsilon)
    ratios.sort(reverse=True)
    losses.sort(reverse=True)
    for j in range(max(0, num_reported - len(losses)), min(num_reported, len(ratios)) + 1):
        gaussian = gaussian_epsilon(1.0, math.hypot(*ratios[:j]), delta) if j else 0.0
        yield sum_up([gaussian, *losses[: num_reported - j]])


@pytest.mark.parametrize("num_columns", [(100, 0), (50, 50), (3, 7), (1, 1)])
@pytest.mark.parametrize("epsilon", [0.5, 4.0, 30.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-3])
def test_gaussian_columns_reach_epsilon_in_every_mixture(num_columns, epsilon, delta):
    """50 numbers and 50 categories at ε = 4 once ended an ulp above it, and were refused."""
    schema = mixture(*num_columns)
    for num_reported in {1, 2, sum(num_columns) // 2, sum(num_columns)}:
        mechanisms = calibrate_columns(
            schema, list(schema.columns), epsilon, delta, "gaussian", num_reported
        )
        guarantee = split_guarantee(schema, mechanisms, num_reported, delta)
        worst = max(every_mixture(schema, mechanisms, num_reported, delta))
        assert worst * (1 - 1e-12) <= guarantee.epsilon <= epsilon
        assert guarantee.epsilon >= epsilon * (1 - 1e-9)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0, 1 / 3])
@pytest.mark.parametrize("columns", [None, 1, 2])
def test_pure_budgets_add_up_to_at_most_epsilon(epsilon, columns):
    randomizer = Randomizer.calibrate(SCHEMA, epsilon, report_columns=columns, report="split")
    assert randomizer.guarantee.neighboring == "local"
    assert randomizer.guarantee.unit == "person"
    assert epsilon * (1 - 1e-6) <= randomizer.guarantee.epsilon <= epsilon
    losses = [
        m.guarantee(SCHEMA.point_column(n).domain if n != "sex" else None).epsilon
        for n, m in randomizer.mechanisms.items()
    ]
    reported = sorted(losses)[-randomizer.num_reported :]
    assert sum(Fraction(loss) for loss in reported) <= Fraction(epsilon)


@pytest.mark.parametrize("columns", [None, 1, 2])
def test_joint_gaussian_spends_delta_once(columns):
    """Any subset that a person can report is (ε, δ)-private by the exact Gaussian formula."""
    epsilon, delta = 2.0, 1e-5
    randomizer = Randomizer.calibrate(
        SCHEMA, epsilon, delta, mechanism="gaussian", report_columns=columns
    )
    k = randomizer.num_reported
    ratios = {
        n: SCHEMA.point_column(n).domain.unit.diameter(2) / m.stddev
        for n, m in randomizer.mechanisms.items()
        if isinstance(m, Gaussian)
    }
    share = randomizer.mechanisms["sex"].guarantee().epsilon
    worst = 0.0
    for gaussians in range(k - 1, min(k, 2) + 1):
        joint = np.hypot(*[*sorted(ratios.values())[-gaussians:], 0][:2]) if gaussians else 0
        left = epsilon - (k - gaussians) * share
        if joint:
            worst = max(worst, gaussian_delta(1.0, joint, left))
    assert worst <= delta
    assert worst >= delta * 0.999  # and no more noise than needed
    assert randomizer.guarantee.epsilon <= epsilon


@pytest.mark.parametrize("order", [1, -1])
def test_of_columns_that_differ_those_that_lose_most_are_promised(order):
    """Who reports one of three columns may report the one with the least noise."""
    text = '[columns.{}]\nkind = "numeric"\nbounds = [0, 1]\n'
    schema = Schema.from_toml("".join(map(text.format, "abc")))
    names = [*"abc"][::order]
    pure = {n: Laplace(2 / loss, 2.0**-20) for n, loss in zip(names, (1.0, 4.0, 2.0))}
    assert split_guarantee(schema, pure, 1, 0.0).epsilon == 4.0
    assert split_guarantee(schema, pure, 2, 0.0).epsilon == 6.0
    noisy = {n: Gaussian(2 / ratio, 2.0**-20) for n, ratio in zip(names, (0.1, 0.4, 0.2))}
    for count, ratio in ((1, 0.4), (2, math.hypot(0.4, 0.2))):
        expected = gaussian_epsilon(1.0, ratio, 1e-5)
        assert split_guarantee(schema, noisy, count, 1e-5).epsilon == pytest.approx(expected)


class Leaky(RandomizedResponse):
    """Somebody's own mechanism, which now and then sends the truth."""

    def guarantee(self, domain=None, delta=0.0):
        return ApproximateDP(self.epsilon, 1e-3)


def test_a_delta_of_somebodys_own_mechanism_is_not_lost():
    schema = Schema.from_toml('[columns.sex]\nkind = "categorical"\ncategories = ["F", "M"]')
    with pytest.raises(PrivotError, match="'sex' spends δ"):
        Randomizer(schema, {"sex": Leaky(2, 1.0)})


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("bins", ["", ", bins = 4"])
def test_noise_is_refused_for_a_number_that_may_be_missing(mechanism, bins):
    """It was randomized response of bins, in silence."""
    number = f'columns.n = {{kind = "numeric", bounds = [0, 1], nullable = true{bins}}}'
    for more in ("", '\ncolumns.b = {kind = "boolean"}'):
        schema = Schema.from_toml(number + more)
        delta = 1e-6 if mechanism == "gaussian" else 0.0
        with pytest.raises(PrivotError, match=f"{mechanism}' is not for column 'n'.*'window'"):
            Randomizer.calibrate(schema, 2.0, delta, mechanism=mechanism, report="split")
        made = Randomizer.calibrate(schema, 2.0, mechanism="window", report="split").mechanisms
        assert made["n"].kind == "window"
        assert made.keys() == set(schema.columns)


def test_a_long_vector_beside_a_table_says_why_it_has_no_candidates():
    long = 'columns.v = {kind = "vector", columns = ["a", "b", "c", "d"], radius = 1.0}'
    beside = Schema.from_toml(
        long + '\ncolumns.p = {kind = "boolean"}\ncolumns.q = {kind = "boolean"}'
    )
    reasons = {
        row["column"]: row.get("reason", "")
        for row in Randomizer.calibrate(beside, 2.0).expected_noise()
    }
    assert "not combined with more columns" in reasons["v"]
    alone = Randomizer.calibrate(Schema.from_toml(long), 2.0, mechanism="laplace").expected_noise()
    assert "more columns" not in alone[0]["reason"]
