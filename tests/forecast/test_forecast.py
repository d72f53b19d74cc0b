"""Forecasts of a fit: a pilot's dependence is weighed, its columns are kept, and errors are foretold."""

import numpy as np
import pytest

from few_settings import few_settings
from privot.core.errors import PrivotError
from privot.forecast.fits import (
    forecast_fit,
    likelihood_weights,
    population_of,
    quantiles,
    random_population,
)
from privot.local import fit
from privot.randomizer import Randomizer
from privot.schema import Schema


def declared(*sizes):
    columns = {
        f"c{i}": {"kind": "categorical", "categories": [f"v{code}" for code in range(size)]}
        for i, size in enumerate(sizes)
    }
    return Schema.from_dict({"columns": columns})


SCHEMA = declared(2, 3)


def learned(epsilon, people, seed=0):
    """A model of made-up people, and these."""
    population = random_population(SCHEMA, seed=9)
    release = Randomizer.calibrate(SCHEMA, epsilon).privatize(population.draw(people, seed))
    return fit(release, seed=seed), population


@pytest.fixture(scope="module")
def pilot():
    return learned(6.0, 300)


def test_a_forecast_by_a_pilot_is_near_what_a_fit_errs_by(pilot, monkeypatch):
    monkeypatch.setattr("privot.forecast.fits._STRENGTHS", 3)
    model, population = pilot
    told = []
    forecast = forecast_fit(
        SCHEMA, 6.0, 1_000, like=model, rehearsals=1, progress=lambda *done: told.append(done)
    )
    assert 4 <= forecast.rehearsals <= 8
    assert told[0] == (0, 8)
    assert told[-1] == (forecast.rehearsals, 8)
    assert not forecast.made_up
    made = np.mean([population.errors(learned(6.0, 1_000, seed)[0]) for seed in (1, 2)], axis=0)
    # Of nine runs the logarithms of both ratios are .20 ± .16 and .58 ± .23, of both forecasts
    # −4.39 ± .14 and −3.69 ± .15: all limits are six standard deviations away, or more.
    assert made[0] < 4 * forecast.one_way < 4 * 0.035
    assert made[1] < 7 * forecast.two_way < 7 * 0.07
    assert forecast.low <= forecast.two_way <= forecast.high


def test_populations_count_by_how_near_a_fit_of_them_comes_to_what_was_found():
    seen = np.array([0.0, 0.05, 0.1, 0.104])
    weights = likelihood_weights(seen, 0.1)
    assert weights[2] == 1
    assert weights[3] == pytest.approx(np.exp(-((0.004 / 0.03) ** 2) / 2))
    assert weights[:2].tolist() == [0, pytest.approx(np.exp(-((0.05 / 0.03) ** 2) / 2))]
    assert likelihood_weights(seen, 0.0).tolist()[2:] == [0, 0]
    # Beyond all that was seen, the nearest stands for it.
    assert likelihood_weights(seen, 0.9)[3] == 1


def test_ends_are_where_a_tenth_and_nine_tenths_of_the_weight_lie():
    values, weights = np.arange(100.0)[::-1], np.full(100, 0.01)
    assert quantiles(values, weights) == pytest.approx([9.5, 89.5])
    weights = np.where(values < 50, 0.02, 0.0)
    assert quantiles(values, weights) == pytest.approx([4.5, 44.5], abs=0.6)


def test_more_people_than_rehearse_err_less_by_the_root(monkeypatch):
    monkeypatch.setattr("privot.forecast.fits.MAX_REHEARSED", 400)
    # The logarithm of their ratio is −2.23 ± .28: the limit is passed by chance once in 10⁷.
    few, many = (forecast_fit(SCHEMA, 4.0, n, rehearsals=1) for n in (400, 40_000))
    assert many.one_way < few.one_way / 2


def test_a_single_column_has_no_pairs():
    forecast = forecast_fit(declared(5), 2.0, 500, rehearsals=1)
    assert forecast.two_way is None
    assert forecast.high is None
    assert forecast.ks is forecast.correlation is forecast.rank_correlation is None
    assert 0 < forecast.one_way < 0.5


def test_what_cannot_be_rehearsed_is_refused():
    points = Schema.from_dict(
        {"columns": {"v": {"kind": "vector", "columns": ["x", "y"], "radius": 1.0}}}
    )
    with pytest.raises(PrivotError, match="all reported as codes"):
        forecast_fit(points, 2.0, 100)
    with pytest.raises(PrivotError, match="rehearsals 0"):
        forecast_fit(SCHEMA, 2.0, 100, rehearsals=0)


def test_a_model_errs_about_its_own_numbers_by_what_reports_do_not_show_within_cells():
    numbers = {name: {"kind": "numeric", "bounds": [0, 8], "bins": 4} for name in ("x", "y")}
    schema = Schema.from_dict({"columns": numbers | {"sex": {"kind": "boolean"}}})
    population = random_population(schema, seed=1)
    with few_settings():
        model = fit(Randomizer.calibrate(schema, 8.0).privatize(population.draw(300, 0)), seed=0)
    own = population_of(model, schema).errors(model)
    heaviest = [model.sampler.heaviest_interval(column)[1] for column in (0, 1)]
    assert own.tolist() == pytest.approx([0, 0, 3 / 8 * np.mean(heaviest), 0, 0])
    assert (population.errors(model) > own).all()
