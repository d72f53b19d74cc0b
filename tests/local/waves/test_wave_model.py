"""A model that moves: it draws each time's people, follows shares, takes another wave, is saved."""

import numpy as np
import pytest

from laws.model import ModelLaws
from moving_people import SCHEMA, USES, people, uses_only, waves
from privot import Randomizer, fit
from privot.core.errors import PrivotError
from privot.local import fit_waves

SHARES = np.linspace(0.1, 0.7, 6)


@pytest.fixture(scope="module")
def fitted():
    times = [f"2026-0{m}-01" for m in range(1, 7)]
    return fit(waves(SHARES, 30_000), times=times, seed=0)


class TestWaveModel(ModelLaws):
    @pytest.fixture(scope="class")
    @classmethod
    def model(cls):
        """A small one: tests of a class may run where `fitted` is not."""
        drawn_waves = waves([0.2, 0.6], 300, drawn=uses_only, schema=USES)
        return fit_waves(drawn_waves, ["2026-01-01", "2026-02-01"], seed=0)


def test_samples_are_of_their_time(fitted):
    shares = [fitted.sample(4000, seed=1, time=t)["uses"].to_numpy(zero_copy_only=False).mean()
              for t in ("2026-01-01", "2026-03-16", "2026-06-01")]  # fmt: skip
    assert np.allclose(shares, [0.1, 0.4, 0.7], atol=0.08)
    assert fitted.sample(50, seed=3).equals(fitted.sample(50, seed=3, time="2026-06-01"))


def test_a_dependent_column_moves_with_it(fitted):
    """Red is liked by .3 + .5 uses: .35 at first, .65 at last; and still by those who use it.

    In ten fits of 30 000 people a wave the last difference was .390 ± .009, ten deviations above .3;
    of a color that does not depend on it, it is 0.
    """
    red = fitted.trend("color", "red")
    assert np.allclose(red.estimate, 0.3 + 0.5 * SHARES, atol=0.07)
    last = fitted.sample(80_000, seed=2)
    uses = last["uses"].to_numpy(zero_copy_only=False)
    liked = last["color"].to_numpy(zero_copy_only=False) == "red"
    assert liked[uses].mean() - liked[~uses].mean() > 0.3


def test_trends_hold_the_truth(fitted):
    trend = fitted.trend("uses", True, level=1 - 1e-7)  # six times
    assert ((trend.low < SHARES) & (trend.high > SHARES)).all()
    assert (trend.high - trend.low).mean() < 0.2
    assert trend.times[0] == "2026-01-01"
    age = fitted.trend("age")
    assert np.abs(age.estimate - 39.5).max() < 4
    young = fitted.trend("age", [10, 20, 30])
    assert (young.estimate > 0).all()


def test_another_wave_is_added(fitted):
    more = Randomizer.calibrate(SCHEMA, 3.0).privatize(people(0.75, 6000, 9))
    longer = fitted.add(more, "2026-07-01")
    with pytest.raises(PrivotError, match="time 2026-08-01 is an earlier wave's: give each once"):
        longer.add(more, "2026-08-01")
    assert len(longer.times) == 7
    assert longer.people[-1] == 6000
    assert longer.wave_guarantee.epsilon == fitted.wave_guarantee.epsilon
    assert abs(longer.trend("uses", True).estimate[-1] - 0.75) < 0.09
    assert len(fitted.times) == 6


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            lambda m: m.sample(1, time="2027-01-01"),
            "outside of the waves: give one from 2026-01-01",
        ),
        (lambda m: m.sample(1, time=3), "of another kind than the waves' times: give dates"),
        (lambda m: m.trend("height"), "'height' is not in the schema"),
        (lambda m: m.trend("color"), "'color' has no mean"),
        (lambda m: m.trend("color", "pink"), "pink"),
        (lambda m: m.trend("age", level=1.0), "level 1.0"),
        (lambda m: m.change_point("height"), "'height' is not in the schema"),
        (
            lambda m: m.add(waves([0.1], 50)[0], "2026-05-01"),
            "not after the last wave's, 2026-06-01",
        ),
    ],
)
def test_what_cannot_be_is_refused(fitted, given, words):
    with pytest.raises(PrivotError, match=words):
        given(fitted)
