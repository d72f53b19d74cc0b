"""Points that move: densities follow them, reach is learned, trends have bands."""

import numpy as np
import pytest

import privot
from moving_people import SQUARE, places
from privot import Schema
from privot.core.errors import PrivotError
from privot.local import fit_waves
from privot.mechanisms import Window
from privot.randomizer import Randomizer

COARSE = Randomizer(SQUARE, {"place": Window(4.0, 2, 32, 4)})
LINE = Schema.from_toml(
    """
[columns.place]
kind = "vector"
columns = ["x"]
bounds = [[-1, 1]]
"""
)
ON_LINE = Randomizer(LINE, {"place": Window(4.0, 1, 32, 2)})
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


def on_line(shares, num, seed):
    drawn = [places(p, num, 100 * seed + i)["x"] for i, p in enumerate(shares)]
    return [ON_LINE.privatize({"x": x}) for x in drawn]


def test_populations_that_stand_are_learned_from_waves_far_away():
    reaches = [fit_waves(on_line([0.5] * 12, 800, i), seed=i).drift.reach for i in range(3)]
    assert sorted(reaches)[1] >= 5


def test_one_that_moves_is_learned_from_its_own_waves():
    """Learned from all waves alike it would have slope 0; 40 fits have .96 ± .04, the least .81."""
    moves = fit_waves(on_line(SHARES, 8000, 0), seed=0)
    assert moves.drift.reach <= 0.7
    assert np.polyfit(SHARES, moves.trend("x").estimate, 1)[0] > 0.5


@pytest.mark.parametrize("randomizer", [COARSE, ON_LINE])
def test_waves_of_a_report_or_two_are_learned_from(randomizer):
    names = next(iter(randomizer.schema.columns.values())).columns
    for seed in range(2):
        rng = np.random.default_rng(seed)
        waves = [randomizer.privatize({x: rng.random(n) for x in names}) for n in (1, 2, 1)]
        drawn = fit_waves(waves, seed=seed).sample(50, seed=seed)
        assert drawn.num_rows == 50
        assert np.isfinite(drawn["x"].to_numpy()).all()


def test_trends_of_coordinates_have_bands(fitted):
    share = fitted.trend("x", "0..1", level=1 - 1e-7)
    # Bands are of what reports leave open; at the ends, what is learned lags behind by up to .04.
    assert ((share.low < SHARES + 0.06) & (share.high > SHARES - 0.06)).all()
    assert (share.high - share.low < 0.25).all()
    mean = fitted.trend("x")
    assert np.sqrt(np.mean((mean.estimate - (SHARES - 0.5)) ** 2)) < 0.2
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
