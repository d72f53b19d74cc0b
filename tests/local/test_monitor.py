"""A fit of latent classes reports progress, and stops with the best so far when interrupted."""

import os
import signal

import numpy as np
import pytest

from privot import FitSettings, Randomizer, Schema, fit
from privot.training import Interrupted

FOUR = "\n".join(
    f'[columns.c{j}]\nkind = "categorical"\ncategories = {list("abcd")}' for j in range(4)
)


@pytest.fixture(scope="module")
def release():
    """Four columns that a class of two decides."""
    rng = np.random.default_rng(1)
    second = rng.random(6000) < 0.5
    draws = [
        np.where(rng.random(6000) < 0.8, 2 * second, rng.integers(0, 4, 6000)) for _ in range(4)
    ]
    people = {f"c{j}": np.array(list("abcd"))[codes] for j, codes in enumerate(draws)}
    return Randomizer.calibrate(Schema.from_toml(FOUR), 4.0).privatize(people)


@pytest.fixture(scope="module")
def whole(release):
    """A fit that ends by itself, and the progress that it was seen to make."""
    seen = []
    return fit(release, seed=0, progress=lambda *step: seen.append(step)), seen


def pair_shares(model):
    drawn = [
        model.sample(20_000, seed=0)[name].to_numpy(zero_copy_only=False) for name in ("c0", "c1")
    ]
    return np.mean(drawn[0] == drawn[1])


def test_a_fit_that_is_stopped_keeps_the_best_it_has(release, whole):
    seen = []

    def stop(step, steps, loss):
        seen.append((step, steps, loss))
        if step == 1:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Interrupted, match="stopped by an interruption") as stopped:
        fit(release, progress=stop, seed=0)
    model = stopped.value.model
    assert model.made_with["stopped"] == "stopped by an interruption"
    assert len(model.made_with["averaged"]) == 1
    assert [step for step, _, _ in seen] == [1, 2]
    assert pair_shares(model) == pytest.approx(pair_shares(whole[0]), abs=0.05)
    assert pair_shares(model) > 0.5  # by marginals alone, .3


def test_progress_counts_to_the_end_and_minutes_bound_it(release, whole):
    _, seen = whole
    steps = [step for step, _, _ in seen]
    assert steps == list(range(1, len(seen) + 1))
    assert seen[-1][0] == seen[-1][1]
    assert seen[-1][2] < 0  # a gain over independence
    brief = []
    model = fit(release, FitSettings(minutes=1e-6), progress=lambda *step: brief.append(step))
    assert model.made_with["stopped"] == "stopped after 1e-06 minutes"
    assert len(brief) == 2
