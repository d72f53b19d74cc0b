"""Rehearsals: errors of a known population, and a test that keeps quiet unless there is something."""

import numpy as np
import pytest

import privot
from privot.evaluation.estimates import (
    CodeReports,
    Question,
    Rehearsed,
    Residual,
    cell_shares,
    expected_fits,
    rehearse,
    residuals,
    sampler_of,
)
from privot.local.classes.mixture import LatentClasses
from privot.local.releases import Releases
from privot.randomizer import Randomizer
from privot.schema import Schema

SCHEMA = Schema.from_toml("""
[columns.a]
kind = "categorical"
categories = ["x", "y", "z"]
[columns.b]
kind = "categorical"
categories = ["x", "y", "z"]
[columns.c]
kind = "boolean"
""")
ASKED = [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)]


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    a = rng.choice(3, 4000, p=[0.5, 0.3, 0.2])
    b = np.where(rng.random(4000) < 0.7, a, rng.integers(0, 3, 4000))
    table = {"a": np.array([*"xyz"])[a], "b": np.array([*"xyz"])[b], "c": rng.random(4000) < 0.3}
    release = Randomizer.calibrate(SCHEMA, 3.0, report_columns=2).privatize(table)
    truth = np.zeros((3, 3, 2))
    np.add.at(truth, (a, b, table["c"] * 1), 1 / 4000)
    return privot.fit(release, seed=0), release, truth


def gap(law, truth, columns):
    """Total variation of a law's marginal from that of a table (3, 3, 2)."""
    others = tuple(axis for axis in range(truth.ndim) if axis not in columns)
    return np.abs(law.marginal(columns) - truth.sum(axis=others)).sum() / 2


def test_errors_are_those_of_a_fit(fitted):
    """Errors of all columns and pairs, added up.

    Of 81 fits the logarithm of the ratio is .24 ± .35, and that of the sum −1.88 ± .28: limits are five
    and a half and five standard deviations away, and fail once in 10⁷ and in 10⁶.
    """
    model, release, truth = fitted
    rehearsed = rehearse(model, Releases.of(release), ASKED, 0)
    found = sum(rehearsed.errors[columns] for columns in ASKED)
    real = sum(gap(sampler_of(model).classes, truth, columns) for columns in ASKED)
    assert real / 6 < found < 9 * real
    assert found < 0.65
    assert set(rehearsed.residuals) == set(ASKED)
    own = residuals(CodeReports.of(Releases.of(release)), sampler_of(model).atoms)
    fits = expected_fits([rehearsed], own, held_out=True)
    assert all(0.7 <= fit.growth < 5 for fit in fits.values())


def test_a_wrong_model_is_told_from_a_right_one(fitted):
    model, release, _ = fitted
    reports = CodeReports.of(Releases.of(release))
    right = residuals(reports, sampler_of(model).atoms)
    assert set(right) == set(ASKED)
    assert all(each.p_value > 1e-8 for each in right.values())
    singles = [
        table @ sampler_of(model).classes.weights
        for table in sampler_of(model).classes.probabilities
    ]
    apart = LatentClasses(np.ones(1), tuple(table[:, None] for table in singles))
    wrong = residuals(reports, apart)
    assert wrong[0, 1].p_value < 1e-6
    assert wrong[0, 2].p_value > 1e-8


def test_tails_of_uneven_noise():
    """One large eigenvalue and many small ones: two moments would call 1 in 1000 one in 2500."""
    noise = np.append(1.0, np.full(9, 0.1))
    drawn = np.random.default_rng(0).chisquare(1, (200_000, noise.size)) @ noise
    powers = [float((noise**power).sum()) for power in (1, 2, 3)]
    for share in (0.05, 0.01, 0.001):
        above = Residual(float(np.quantile(drawn, 1 - share)), *powers).p_value
        assert above == pytest.approx(share, rel=0.25)


def test_codes_are_sums_of_atoms():
    rng = np.random.default_rng(0)
    law = LatentClasses(np.array([0.3, 0.7]), tuple(rng.dirichlet(np.ones(k), 2).T for k in (3, 4)))
    column = SCHEMA.coded["c"]
    coarse = Question(1, 0, np.eye(2).repeat(2, axis=1), column.alphabet, column)
    column = SCHEMA.coded["a"]
    fine = Question(0, 0, np.eye(3), column.alphabet, column)
    expected = law.marginal((0, 1)).reshape(3, 2, 2).sum(axis=2)
    assert np.allclose(cell_shares(law, fine, coarse), expected.ravel())
    assert np.allclose(cell_shares(law, coarse, fine), expected.T.ravel())


USUAL = 1.2 * 1000**0.15  # ratio of a pair whose squared error is a thousandth of the reports'


def rehearsal(square, excess, noise):
    """A rehearsal of one pair, with a given squared error, Q and standard deviation of Q."""
    residual = Residual(1 + excess, 1.0, noise**2 / 2, noise**3)
    return Rehearsed({(0, 1): 0.1}, {(0, 1): square}, {(0, 1): residual}, None, None)


@pytest.mark.parametrize(
    ("noise", "excess", "held_out", "ratio"),
    [
        (1e-9, 0.0, False, 1.0),  # reports agree as well as in the rehearsal
        (1e-9, 0.003, False, 4.0),
        (1e-9, 0.003, True, 3.0),  # Q itself is the squared error
        (1e-9, -0.003, False, 0.5),  # less than nothing
        (1e4, 0.003, False, USUAL),  # reports say nothing
        (0.001 * USUAL, 0.003, True, (3 + USUAL) / 2),  # as much as what is usual
    ],
)
def test_errors_grow_by_what_reports_say_against_the_model(noise, excess, held_out, ratio):
    quiet, real = rehearsal(0.001, 0.0, noise), rehearsal(0.001, excess, noise).residuals
    fits = expected_fits([quiet, quiet], real, held_out=held_out)
    assert fits[0, 1].growth == pytest.approx(ratio**0.5)
    assert fits[0, 1].error == pytest.approx(0.1 * ratio**0.5)


@pytest.mark.parametrize(("square", "ratio"), [(1.0, 1.2), (0.01, 1.2 * 100**0.15)])
def test_the_more_noise_a_fit_removes_the_more_it_is_usual_to_miss(square, ratio):
    """If reports say nothing about a pair, what is usual counts; their noise has the mean 1."""
    quiet = rehearsal(square, 0.0, 1e6)
    fits = expected_fits([quiet], quiet.residuals, held_out=True)
    assert fits[0, 1].growth == pytest.approx(ratio**0.5)
    # A pair that no report is about has a ratio of its own.
    assert expected_fits([quiet], {}, held_out=True)[0, 1].growth == pytest.approx(2**0.5)
