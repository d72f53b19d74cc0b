"""Waves of shuffled reports: each a batch, which the model's guarantees are of."""

from dataclasses import replace

import numpy as np
import pytest

import privot
from few_settings import few_settings
from moving_people import USES, uses_only
from privot import PrivotError, Randomizer
from privot.local import fit_waves
from privot.schema.schema import Promise
from privot.waves import Panel

PEOPLE = 1500
SHARES, SIZES = (0.3, 0.4, 0.5), (2500, 1600, 2000)
DAYS = ("2026-01-05", "2026-01-12", "2026-01-19")
PANEL = Panel("uses", window=2, start=1_767_571_200, length=604_800, seed="2026", waves=52)


def shuffled(epsilon=1.0, people=PEOPLE):
    promise = Promise(epsilon, "shuffled", delta=1e-6, people=people)
    return Randomizer.calibrate(USES.model_copy(update={"promise": promise}))


RANDOMIZER = shuffled()


def drawn(share, count, seed=0, randomizer=RANDOMIZER):
    return randomizer.privatize(uses_only(share, count, seed))


def three_waves():
    return [drawn(*each) for each in zip(SHARES, SIZES, range(3), strict=True)]


@pytest.fixture(scope="module")
def fitted():
    with few_settings():
        return privot.fit(three_waves(), times=DAYS, seed=0)


def test_a_share_that_drifts_is_found_within_its_band(fitted):
    trend = fitted.trend("uses", True, level=1 - 1e-7)
    assert ((trend.low < SHARES) & (trend.high > SHARES)).all()
    assert (trend.high - trend.low).max() < 0.3
    assert trend.estimate[2] - trend.estimate[0] > 0.1


def test_one_wave_has_the_guarantee_of_the_smallest_batch_and_all_their_composition(fitted):
    """Never that of all reports as one batch, nor of sizes that may depend on earlier waves."""
    assert fitted.wave_guarantee == RANDOMIZER.batch_guarantee(1600)
    # The model of one day is learned from all waves, and so is the base: a person may be in all.
    assert fitted.guarantee == fitted.at(DAYS[0]).guarantee == RANDOMIZER.batch_guarantee(PEOPLE, 3)
    assert fitted.base.guarantee == fitted.guarantee
    in_slots = replace(fitted, panel=PANEL)
    assert in_slots.guarantee == RANDOMIZER.batch_guarantee(PEOPLE, 2)
    assert replace(fitted, panel=replace(PANEL, window=3)).guarantee == fitted.wave_guarantee


def test_waves_of_a_panel_are_counted_by_their_numbers():
    """The second and third of these waves are of one slot of three."""
    panel = replace(PANEL, window=3)
    with few_settings():
        model = fit_waves(three_waves(), [1, 2, 5], panel=panel, seed=0)
    assert model.guarantee.batches == 2
    # Waves that are not fitted count too: sizes and answers of later ones may repeat them.
    with few_settings():
        assert fit_waves(three_waves(), [5, 6, 7], panel=panel, seed=0).guarantee.batches == 3


def test_the_model_is_saved_with_its_panel(fitted, tmp_path):
    held = replace(fitted, panel=PANEL)
    held.save(tmp_path / "model")
    read = privot.load(tmp_path / "model")
    assert (read.panel, read.wave_guarantee) == (PANEL, held.wave_guarantee)
    assert read.guarantee == held.guarantee
    held.at(DAYS[1]).save(tmp_path / "day")
    assert privot.load(tmp_path / "day").guarantee == held.guarantee


def test_a_wave_is_added_and_counts_as_all_others(fitted):
    longer = replace(fitted, panel=PANEL).add(drawn(0.55, 1550, 7), "2026-01-26")
    assert longer.wave_guarantee == RANDOMIZER.batch_guarantee(1550)
    assert longer.guarantee == longer.at().guarantee == RANDOMIZER.batch_guarantee(PEOPLE, 2)
    assert longer.base.guarantee == longer.guarantee
    assert abs(longer.trend("uses", True).estimate[-1] - 0.55) < 0.12
    other = shuffled(epsilon=0.8, people=1200)
    mixed = longer.add(drawn(0.6, 1300, 8, other), "2026-02-02")
    weakest = RANDOMIZER.batch_guarantee(1550).weaker(other.batch_guarantee(1300))
    assert mixed.wave_guarantee == weakest
    # Of the promises' people, as for one randomizer: the sizes may depend on earlier waves.
    weakest = RANDOMIZER.batch_guarantee(PEOPLE).weaker(other.batch_guarantee(1200))
    assert mixed.guarantee == mixed.at().guarantee == weakest.times(3)
    assert mixed.guarantee.epsilon > mixed.wave_guarantee.times(3).epsilon


def test_what_is_no_batch_is_refused_before_anything_is_fitted(fitted):
    few = drawn(0.4, PEOPLE - 1)
    words = "1,499 reports were accepted, and the promise is of a batch of 1,500"
    with pytest.raises(PrivotError, match=words):
        fit_waves([*three_waves(), few])
    with pytest.raises(PrivotError, match=words):
        fitted.add(few, "2026-01-26")
    local = Randomizer.calibrate(USES, 1.0).privatize(uses_only(0.4, 2000, 3))
    for refused in (
        lambda: fit_waves([local, *three_waves()]),
        lambda: fit_waves([*three_waves(), local]),
        lambda: fitted.add(local, "2026-01-26"),
    ):
        with pytest.raises(PrivotError, match="fit releases of one place of trust together"):
            refused()


@pytest.mark.parametrize(
    ("times", "panel", "words"),
    [
        (DAYS, replace(PANEL, length=2 * 604_800), "not of different waves of panel 'uses'"),
        (DAYS, replace(PANEL, start=PANEL.start - 3600), "if all begin with days"),
        (DAYS, replace(PANEL, start=PANEL.start + 86_400), "has not begun"),
        (DAYS, replace(PANEL, waves=2), "has ended"),
        ((0.5, 1.0, 2.0), PANEL, "give each wave's number"),
    ],
)
def test_times_are_of_waves_of_the_panel(fitted, times, panel, words):
    with pytest.raises(PrivotError, match=words):
        fit_waves(three_waves(), times, panel=panel)
    if times == DAYS:
        with pytest.raises(PrivotError, match=words):
            _ = replace(fitted, panel=panel).guarantee


def test_local_waves_add_up():
    randomizers = [Randomizer.calibrate(USES, epsilon) for epsilon in (2.0, 1.0, 2.0)]
    given = [each.privatize(uses_only(0.4, 300, i)) for i, each in enumerate(randomizers)]
    with few_settings():
        model = fit_waves(given, seed=0)
    assert model.wave_guarantee == randomizers[0].guarantee
    assert np.isclose(model.guarantee.epsilon, 6.0)
    assert len(model.base.earlier) == 1
    panel = replace(PANEL, window=3)
    with few_settings():  # waves 2 and 5 are of one slot
        in_slots = fit_waves(given, [1, 2, 5], panel=panel, seed=0)
    assert np.isclose(in_slots.guarantee.epsilon, 4.0)
