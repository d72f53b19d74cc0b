"""Points that move: densities follow them, reach is learned, trends have bands."""

import numpy as np
import pytest

import privot
from moving_people import SQUARE, places
from privot import fit_waves
from privot.errors import PrivotError
from privot.mechanisms import Window
from privot.release import Randomizer

COARSE = Randomizer(SQUARE, {"place": Window(4.0, 2, 32, 4)})
SHARES = np.linspace(0.2, 0.8, 5)


def reported(shares, num):
    return [COARSE.privatize(places(p, num, i)) for i, p in enumerate(shares)]


@pytest.fixture(scope="module")
def fitted():
    return fit_waves(reported(SHARES, 3000), seed=0)


def east(model, time):
    return (model.sample(3000, seed=0, time=time)["x"].to_numpy() > 0).mean()


def test_samples_are_of_their_time(fitted):
    assert east(fitted, 1) < 0.42
    assert east(fitted, 5) > 0.58


def test_a_population_that_stands_is_learned_from_all_waves():
    still = fit_waves(reported([0.5] * 5, 1500), seed=0)
    assert still.drift.reach >= 1


def test_trends_of_coordinates_have_bands(fitted):
    share = fitted.trend("x", "0..1", level=0.999)
    # Bands are of what reports leave open; at the ends, what is learned lags behind by up to .04.
    assert ((share.low < SHARES + 0.06) & (share.high > SHARES - 0.06)).all()
    assert (share.high - share.low < 0.15).all()
    mean = fitted.trend("x")
    assert np.allclose(mean.estimate, SHARES - 0.5, atol=0.4)
    assert mean.estimate[-1] > mean.estimate[0]
    assert (mean.high > mean.low).all()


def test_it_is_saved_and_takes_another_wave(fitted, tmp_path):
    longer = fitted.add(reported([0.9], 3000)[0], 6)
    longer.save(tmp_path / "model")
    loaded = privot.load(tmp_path / "model")
    assert loaded.sample(20, seed=1).equals(longer.sample(20, seed=1))
    assert east(loaded, 6) > 0.65


def test_what_cannot_be_followed_is_refused(fitted):
    with pytest.raises(PrivotError, match="'east' is no range"):
        fitted.trend("x", "east")
