"""The audit of a randomizer: honest ones pass with a bound close by, dishonest ones are refuted.

Bounds are computed with confidence 1 − 1e-6: at most so often is an honest randomizer refuted. What a
bound has to reach lies six of its standard deviations (of 25 audits) below its mean, or more: a tight
mechanism fails by chance once in 1e8 runs.
Dependence between reports of several calls is tested in `test_streams` and `test_trials`.
"""

from dataclasses import replace

import numpy as np
import pytest

from privot.audit import audit_randomizer, law, stated_guarantee
from privot.core.errors import PrivotError
from privot.mechanisms import Window
from privot.privacy import PureDP
from privot.randomizer import Randomizer
from privot.schema import Schema

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


@pytest.mark.parametrize("columns", [None, 2])
def test_honest_laplace_is_not_refuted_and_nearly_attained(columns, no_streams):
    randomizer = Randomizer.calibrate(SCHEMA, 3.0, report_columns=columns, report="split")
    result = audit_randomizer(randomizer, num_draws=20_000, confidence=SURE)
    assert not result.refuted
    assert [column.column for column in result.columns] == ["home", "age", "size"]
    # Shares of ε are .77, .86 and .90 on average, with standard deviations of .023, .017, .014.
    for column, least in zip(result.columns, (0.6, 0.74, 0.8)):
        share = 3.0 / randomizer.num_reported
        assert column.epsilon == pytest.approx(share)
        assert least * share <= column.epsilon_lower <= column.epsilon
        assert column.num_tested >= 10_000


def test_honest_gaussian_is_not_refuted(no_streams):
    randomizer = Randomizer.calibrate(SCHEMA, 5.0, 1e-3, mechanism="gaussian")
    result = audit_randomizer(randomizer, num_draws=10_000, confidence=SURE)
    assert not result.refuted
    assert [column.delta for column in result.columns] == [1e-3, 1e-3, 0.0]
    for column in result.columns:
        assert column.epsilon < 5.0
        # .39 of ε on average, with a standard deviation of .031.
        assert 0.2 * column.epsilon <= column.epsilon_lower <= column.epsilon


def test_bounded_reports_are_audited_too(no_streams):
    randomizer = Randomizer(AGE, {"age": Window.for_domain(AGE.columns["age"].domain, 1.0)})
    column = audit_randomizer(randomizer, num_draws=10_000, confidence=SURE).columns[0]
    # .82 on average, with a standard deviation of .023.
    assert 0.65 <= column.epsilon_lower <= column.epsilon == 1.0


def test_half_the_noise_of_the_only_column_is_refuted_by_trial_and_by_arithmetic(no_streams):
    honest = Randomizer.calibrate(AGE, 1.0, mechanism="laplace")
    result = audit_randomizer(
        halved(honest, "age"), honest.guarantee, num_draws=8_000, confidence=SURE
    )
    assert result.overstated
    assert result.implied.epsilon == pytest.approx(2.0)
    assert result.columns[0].refuted
    # 1.69 on average, with a standard deviation of .043.
    assert 1.4 <= result.columns[0].epsilon_lower <= 2.0


def test_half_the_noise_of_one_of_several_columns_is_refuted_by_arithmetic(no_streams):
    honest = Randomizer.calibrate(SCHEMA, 3.0, mechanism="laplace")
    result = audit_randomizer(halved(honest, "age"), honest.guarantee, num_draws=1000)
    assert result.overstated
    assert result.refuted
    assert result.implied.epsilon == pytest.approx(4.0)


@pytest.fixture(scope="module")
def audited():
    """One honest audit: what is promised is compared with what the noise implies, without draws."""
    randomizer = Randomizer.calibrate(SIZE, 1.0, report="split")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(law, "_NUM_SINGLES", 2)
        return audit_randomizer(randomizer, num_draws=100, confidence=SURE)


@pytest.mark.parametrize(
    "promised",
    [PureDP(1.0, unit="household"), PureDP(1.0, neighboring="replace_one"), PureDP(0.99)],
    ids=str,
)
def test_another_promise_than_the_noise_gives_is_refuted(audited, promised):
    assert not audited.refuted
    assert replace(audited, promised=promised).overstated
    assert replace(audited, promised=promised).refuted


def test_a_pure_promise_for_gaussian_noise_is_refuted(no_streams):
    randomizer = Randomizer.calibrate(AGE, 1.0, 1e-3, mechanism="gaussian")
    result = audit_randomizer(randomizer, PureDP(1.0), num_draws=100)
    assert result.overstated
    assert not replace(result, promised=randomizer.guarantee).overstated


def test_rounding_is_no_overstatement_and_more_is(audited):
    epsilon = audited.implied.epsilon
    for share, overstated in ((1.0, False), (1 - 1e-9, False), (1 - 4e-9, True)):
        promised = PureDP(min(epsilon * share, np.nextafter(epsilon, 0)))
        assert replace(audited, promised=promised).overstated == overstated


def test_a_law_that_is_likelier_than_promised_is_refuted_without_counting(no_streams):
    """Of few draws no bound refutes anything; their likelihood ratios do, at no risk of chance."""
    honest = Randomizer.calibrate(AGE, 1.0, mechanism="laplace")
    result = audit_randomizer(honest, PureDP(0.99), num_draws=100)
    assert result.columns[0].epsilon_lower < 0.999 < result.columns[0].ratio
    assert result.columns[0].refuted


def test_gaussian_noise_is_judged_by_mu(no_streams):
    """At δ = 1e-6, 10⁴ draws prove little about ε, but half of how far the laws lie apart."""
    column = audit_randomizer(
        Randomizer.calibrate(AGE, 1.0, 1e-6, mechanism="gaussian"),
        num_draws=15_000,
        confidence=SURE,
    ).columns[0]
    assert column.mu == pytest.approx(2 / 8.449, rel=1e-3)
    # .57 of μ on average, with a standard deviation of .037.
    assert 0.3 * column.mu < column.mu_lower <= column.mu
    assert column.epsilon_lower < 0.6
    assert not column.refuted


def test_a_value_that_no_limit_allows_is_tried(monkeypatch):
    seen = []
    honest = Randomizer.reports_in_order

    def spy(self, table):
        seen.append(table)
        return honest(self, table)

    monkeypatch.setattr(Randomizer, "reports_in_order", spy)
    monkeypatch.setattr(law, "_NUM_SINGLES", 2)
    audit_randomizer(Randomizer.calibrate(AGE, 1.0, report="split"), num_draws=100)
    values = np.concatenate([table["age"].to_numpy() for table in seen])
    assert values.min() < -10_000
    assert values.max() > 10_000
    assert {1, 600} <= {len(table) for table in seen}


def test_a_device_that_refuses_a_record_is_refuted(monkeypatch):
    def refuse(self, table):
        raise PrivotError("age is 36000")

    randomizer = Randomizer.calibrate(AGE, 1.0, report="split")
    monkeypatch.setattr(Randomizer, "reports_in_order", refuse)
    result = audit_randomizer(randomizer)
    assert result.refuted
    assert result.tests[0].finding == "age is 36000"


def test_stated_guarantee_is_what_was_written():
    randomizer = Randomizer.calibrate(SCHEMA, 2.0, 1e-5, mechanism="gaussian")
    assert stated_guarantee(randomizer.to_json()) == randomizer.guarantee


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"guarantee": 3}', '{"guarantee": {"kind": "IntegralPrivacy"}}']
)
def test_no_stated_guarantee_is_refused(text):
    with pytest.raises(PrivotError, match="states no guarantee"):
        stated_guarantee(text)
