"""The audit of a randomizer: honest ones pass with a bound close by, dishonest ones are refuted.

Bounds are asked for with confidence 1 − 1e-6, so that tight mechanisms do not fail by chance.
"""

from dataclasses import replace

import numpy as np
import pytest

from privot.errors import PrivotError
from privot.mechanisms import SquareWave
from privot.privacy import PureDP
from privot.release import Randomizer
from privot.release.audit import (
    audit_randomizer,
    default_draws,
    farthest_pairs,
    stated_guarantee,
)
from privot.schema import Box, L1Ball, L2Ball, Polyline, Schema

SURE = 1 - 1e-6
SCHEMA = Schema.from_toml("""
[columns.home]
kind = "vector"
columns = ["longitude", "latitude"]
bounds = [[-8.7, 1.8], [49.8, 60.9]]
[columns.age]
kind = "numeric"
bounds = [17, 90]
[columns.size]
kind = "categorical"
categories = ["S", "M", "L"]
""")
AGE = Schema.from_toml('[columns.age]\nkind = "numeric"\nbounds = [17, 90]')
SIZE = Schema.from_toml('[columns.size]\nkind = "categorical"\ncategories = ["S", "M", "L"]')


def halved(randomizer, name):
    """The same randomizer with half of the Laplace noise in one column."""
    mechanism = randomizer.mechanisms[name]
    weak = replace(mechanism, scale=mechanism.scale / 2)
    return replace(randomizer, mechanisms={**randomizer.mechanisms, name: weak})


@pytest.mark.parametrize(
    "domain",
    [
        Box((0.0,), (100.0,)),
        Box((0.0, -1.0, 2.0), (1.0, 5.0, 2.5)),
        *(ball(d, 3.0, sign) for ball in (L1Ball, L2Ball) for d in (1, 2, 5) for sign in (0, 1)),
        Polyline(((0.0, 0.0), (1.0, 0.0), (1.0, 2.0), (-3.0, 1.0))),
        Polyline(((0.0, 0.0), (1.4, 0.0), (0.9, 0.9))),  # ℓ1- and ℓ2-farthest pairs differ
    ],
    ids=repr,
)
def test_pairs_lie_in_the_domain_and_attain_both_diameters(domain):
    pairs = farthest_pairs(domain)
    for pair in pairs:
        for point in pair:
            assert np.allclose(domain.unit.project(point[None])[0], point, atol=1e-9)
    for norm in (1, 2):
        reached = max(np.linalg.norm(first - second, ord=norm) for first, second in pairs)
        assert reached == pytest.approx(domain.unit.diameter(norm), rel=1e-9)


def test_an_unknown_domain_is_refused():
    with pytest.raises(PrivotError, match="no known farthest points"):
        farthest_pairs(object())


@pytest.mark.parametrize("columns", [None, 2])
def test_honest_laplace_is_not_refuted_and_nearly_attained(columns):
    randomizer = Randomizer.calibrate(SCHEMA, 3.0, report_columns=columns, report="split")
    result = audit_randomizer(randomizer, num_draws=300_000, confidence=SURE)
    assert not result.refuted
    assert [column.column for column in result.columns] == ["home", "age", "size"]
    for column in result.columns:
        share = 3.0 / randomizer.num_reported
        assert column.epsilon == pytest.approx(share)
        assert 0.85 * share <= column.epsilon_lower <= column.epsilon
        assert column.num_tested == 150_000


def test_honest_gaussian_is_not_refuted():
    randomizer = Randomizer.calibrate(SCHEMA, 5.0, 1e-3, mechanism="gaussian")
    result = audit_randomizer(randomizer, num_draws=400_000, confidence=SURE)
    assert not result.refuted
    assert [column.delta for column in result.columns] == [1e-3, 1e-3, 0.0]
    for column in result.columns:
        assert column.epsilon < 5.0
        assert 0.4 * column.epsilon <= column.epsilon_lower <= column.epsilon


def test_bounded_reports_are_audited_too():
    randomizer = Randomizer(AGE, {"age": SquareWave(1.0)})
    column = audit_randomizer(randomizer, num_draws=200_000, confidence=SURE).columns[0]
    assert 0.85 <= column.epsilon_lower <= column.epsilon == 1.0


def test_half_the_noise_of_the_only_column_is_refuted_by_trial_and_by_arithmetic():
    honest = Randomizer.calibrate(AGE, 1.0, report="split")
    result = audit_randomizer(
        halved(honest, "age"), honest.guarantee, num_draws=200_000, confidence=SURE
    )
    assert result.overstated
    assert result.implied.epsilon == pytest.approx(2.0)
    assert result.columns[0].refuted
    assert 1.8 <= result.columns[0].epsilon_lower <= 2.0


def test_half_the_noise_of_one_of_several_columns_is_refuted_by_arithmetic():
    honest = Randomizer.calibrate(SCHEMA, 3.0, report="split")
    result = audit_randomizer(halved(honest, "age"), honest.guarantee, num_draws=1000)
    assert result.overstated
    assert result.refuted
    assert result.implied.epsilon == pytest.approx(4.0)


@pytest.mark.parametrize(
    "promised",
    [PureDP(1.0, unit="household"), PureDP(1.0, neighboring="replace_one"), PureDP(0.999)],
    ids=str,
)
def test_another_promise_than_the_noise_gives_is_refuted(promised):
    result = audit_randomizer(
        Randomizer.calibrate(SIZE, 1.0, report="split"), promised, num_draws=1000
    )
    assert result.overstated


def test_a_pure_promise_for_gaussian_noise_is_refuted():
    randomizer = Randomizer.calibrate(AGE, 1.0, 1e-3, mechanism="gaussian")
    assert audit_randomizer(randomizer, PureDP(1.0), num_draws=1000).overstated
    assert not audit_randomizer(randomizer, num_draws=1000).overstated


class LeakyRandomizer:
    """A randomizer whose one mechanism does not do what it says."""

    def __init__(self, honest, mechanism):
        self.schema, self.delta = honest.schema, honest.delta
        self.guarantee, self.mechanisms = honest.guarantee, {"age": mechanism}
        self.joint = None


class FloatNoise:
    """Laplace of the right scale, added as floats: its low bits show the record."""

    kind = "laplace"

    def __init__(self, honest):
        self.honest, self.rng = honest, np.random.default_rng(0)
        self.guarantee, self.log_likelihood = honest.guarantee, self._log_likelihood

    def privatize(self, x):
        return 0.3 * x + 0.3 + self.rng.laplace(0.0, self.honest.scale, x.shape)

    def _log_likelihood(self, y, x):
        return -np.abs(y - 0.3 * x - 0.3).sum(axis=-1) / self.honest.scale


def test_noise_drawn_as_floats_is_refuted_by_its_granularity():
    """The reduction to likelihood ratios must not hide the low bits of the reports."""
    honest = Randomizer.calibrate(AGE, 1.0, report="split")
    leaky = LeakyRandomizer(honest, FloatNoise(honest.mechanisms["age"]))
    result = audit_randomizer(leaky, num_draws=200_000, confidence=SURE)
    assert not result.overstated
    assert result.refuted
    assert result.columns[0].event == "granularity"


def test_default_draws_shrink_with_columns_and_dimensions():
    assert default_draws(1, 1) == 1_000_000
    assert default_draws(1, 80) == 100_000
    assert default_draws(784, 1) < 100_000
    assert default_draws(10**6, 50) == 20_000


def test_stated_guarantee_is_what_was_written():
    randomizer = Randomizer.calibrate(SCHEMA, 2.0, 1e-5, mechanism="gaussian")
    assert stated_guarantee(randomizer.to_json()) == randomizer.guarantee


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"guarantee": 3}', '{"guarantee": {"kind": "IntegralPrivacy"}}']
)
def test_no_stated_guarantee_is_refused(text):
    with pytest.raises(PrivotError, match="states no guarantee"):
        stated_guarantee(text)
