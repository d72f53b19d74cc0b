"""Rehearsals: simulated people of a prior, stamped, whose errors are those of a campaign like it."""

import numpy as np
import pyarrow as pa
import pytest

from moving_people import SQUARE, USES, places, uses_only
from privot import Randomizer, fit
from privot.collector import collect
from privot.core.errors import PrivotError
from privot.forecast.simulation import simulate_campaign, simulated


def test_the_error_of_a_share_is_that_of_randomized_response():
    """One bit: error |N(0, s)|, s² = e^ε / (e^ε − 1)² / n; its mean is s times √(2/π).

    The mean of 60 has a standard deviation of a tenth of it. By its saddlepoint approximation it is
    below .48 in 3e-10 of runs and above 1.6 in 1e-8. Without the noise of reports it would be .45.
    """
    prior = uses_only(0.4, 2000, 0)
    told = simulate_campaign(USES, 1.0, 4000, prior=prior, rehearsals=60, seed=0)
    noise = np.e / (np.e - 1) ** 2
    expected = np.sqrt((noise + 0.24) / 4000) * np.sqrt(2 / np.pi)
    assert 0.48 * expected < told.predicted["one_way"] < 1.6 * expected
    assert told.without_noise["one_way"] < 0.6 * expected
    assert told.low["one_way"] <= told.predicted["one_way"] <= told.high["one_way"]


def test_everything_says_that_it_is_simulated_and_nothing_is_collected_with_real_reports():
    told = simulate_campaign(USES, 2.0, 300, prior=uses_only(0.4, 300, 0), rehearsals=1)
    assert told.model.schema.unit == "SIMULATED person"
    assert "SIMULATED person" in str(told.model.guarantee)
    real = Randomizer.calibrate(USES, 2.0).privatize(uses_only(0.4, 30, 1))
    made = Randomizer.calibrate(simulated(USES), 2.0).privatize(uses_only(0.4, 30, 1))
    with pytest.raises(PrivotError):
        collect([real, made])
    with pytest.raises(PrivotError, match="SIMULATED person"):
        fit([real, made])


def test_places_are_told_by_their_distance(monkeypatch):
    """The people's own records are .14 away, what is learned .45 ± .05 (the mean of four): six standard
    deviations, and eleven to the other limit."""
    monkeypatch.setattr("privot.forecast.simulation._POINTS", 600)
    monkeypatch.setattr("privot.forecast.simulation._SUBSAMPLES", 1)
    told = simulate_campaign(SQUARE, 1.0, 300, prior=places(0.3, 300, 0), rehearsals=4)
    assert set(told.predicted) == {"W2"}
    assert told.without_noise["W2"] < told.predicted["W2"] < 1


def test_a_model_or_nobody_is_a_prior_too():
    model = fit(Randomizer.calibrate(USES, 4.0).privatize(uses_only(0.3, 2000, 0)), seed=0)
    told = simulate_campaign(USES, 4.0, 500, prior=model, rehearsals=1)
    assert abs(np.mean(told.people["uses"].to_numpy(zero_copy_only=False)) - 0.3) < 0.15
    assert simulate_campaign(USES, 4.0, 500, rehearsals=1).people.num_rows == 500


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"prior": {"other": [1, 2]}}, "other"),
        ({"prior": pa.table({"uses": pa.array([], pa.bool_())})}, "the table has no rows"),
        ({"rehearsals": 0}, "rehearsals"),
    ],
)
def test_what_cannot_be_is_refused(given, words):
    with pytest.raises(PrivotError, match=words):
        simulate_campaign(USES, 1.0, 100, **given)


def test_places_need_a_prior():
    with pytest.raises(PrivotError, match="only tables of codes have a default"):
        simulate_campaign(SQUARE, 1.0, 100)
