"""Forecasts of a fit: made-up people are as declared, a pilot's are its own, and errors are foretold."""

from itertools import combinations

import numpy as np
import pytest

from privot.errors import PrivotError
from privot.evaluation import total_variation
from privot.evaluation.distances import independent
from privot.evaluation.forecast import forecast_fit, made_up, stands_for
from privot.local import fit
from privot.release import Randomizer
from privot.schema import Schema


def declared(*sizes):
    columns = {
        f"c{i}": {"kind": "categorical", "categories": [f"v{code}" for code in range(size)]}
        for i, size in enumerate(sizes)
    }
    return Schema.from_dict({"columns": columns})


SCHEMA = declared(2, 3, 4)


def learned(epsilon, people, seed=0):
    """A model of made-up people, and these."""
    population = made_up(SCHEMA, seed=9)
    release = Randomizer.calibrate(SCHEMA, epsilon).privatize(population.draw(people, seed))
    return fit(release, seed=seed), population


@pytest.fixture(scope="module")
def pilot():
    return learned(6.0, 1_000)


def test_made_up_people_depend_as_they_should_and_are_drawn_from_their_law():
    first, second = made_up(SCHEMA, 0), made_up(SCHEMA, 1)
    pairs = [first.law.marginal(pair) for pair in combinations(range(3), 2)]
    gaps = [total_variation(joint, independent(joint)) for joint in pairs]
    assert np.mean(gaps) == pytest.approx(0.1, abs=0.01)
    assert total_variation(first.law.marginal((0, 1)), second.law.marginal((0, 1))) > 0.02
    drawn = first.draw(40_000, 3)
    codes = [c.encode_codes(n, drawn) for n, c in SCHEMA.coded.items()]
    shares = np.bincount(codes[0] * 3 + codes[1], minlength=6).reshape(2, 3) / 40_000
    assert total_variation(shares, first.law.marginal((0, 1))) < 0.02


def test_a_forecast_by_a_pilot_is_near_what_a_fit_errs_by(pilot):
    model, population = pilot
    told = []
    forecast = forecast_fit(
        SCHEMA, 6.0, 4_000, like=model, rehearsals=1, progress=lambda *done: told.append(done)
    )
    assert forecast.rehearsals == 4
    assert told[0] == (0, 4)
    assert told[-1] == (4, 4)
    assert not forecast.made_up
    made = np.mean([population.errors(learned(6.0, 4_000, seed)[0]) for seed in (1, 2)], axis=0)
    assert forecast.one_way == pytest.approx(made[0], rel=0.8)
    assert forecast.two_way == pytest.approx(made[1], rel=0.8)


@pytest.mark.parametrize("power", [False, True])
def test_a_pilot_that_found_nothing_is_believed_where_it_could_have_found_more(
    pilot, monkeypatch, power
):
    model, _ = pilot
    monkeypatch.setattr(
        "privot.evaluation.forecast.found_dependence", lambda own: power and own is not model
    )
    forecast = forecast_fit(SCHEMA, 6.0, 500, like=model, rehearsals=1)
    assert forecast.made_up == (not power)
    assert forecast.rehearsals == 2


def test_more_people_than_rehearse_err_less_by_the_root(monkeypatch):
    monkeypatch.setattr("privot.evaluation.forecast.MOST_REHEARSED", 400)
    few, many = (forecast_fit(SCHEMA, 4.0, n, rehearsals=2) for n in (400, 40_000))
    assert many.one_way < few.one_way / 3


def test_a_single_column_has_no_pairs():
    forecast = forecast_fit(declared(5), 2.0, 500, rehearsals=1)
    assert forecast.two_way is None
    assert 0 < forecast.one_way < 0.5


def test_what_cannot_be_rehearsed_is_refused(pilot):
    model, _ = pilot
    with pytest.raises(PrivotError, match="like has column 'c2' not at all"):
        stands_for(model, declared(2, 3, 5))
    with pytest.raises(PrivotError, match="like is of the columns c0, c1, c2"):
        stands_for(model, declared(2, 3))
    points = Schema.from_dict(
        {"columns": {"v": {"kind": "vector", "columns": ["x", "y"], "radius": 1.0}}}
    )
    with pytest.raises(PrivotError, match="all reported as codes"):
        forecast_fit(points, 2.0, 100)
    with pytest.raises(PrivotError, match="rehearsals 0"):
        forecast_fit(SCHEMA, 2.0, 100, rehearsals=0)
