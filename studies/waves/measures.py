r"""What history is worth: a share that grows, and a wave more.

    python -m studies waves.measures share --seeds 0 1 2 3 4 -o docs/results/waves/share.json
    python -m studies waves.measures wave --seeds 0 1 2 -o docs/results/waves/wave.json

**share**: 50 000 people, 24 waves, a share that grows from .1 to .3, evenly or at once in wave 13; ε = 2
in any six waves. *Panel*: a sixth of the people a wave, with all of ε. *Split*: everybody in every wave
with ε/6. Either is estimated from each wave alone (unbiased), and by `privot.local.fit_waves`. The error
is the root of the mean square over waves; coverage is that of its 95 % bands.

**wave**: ten columns, 24 waves of 8 333 people, and one of 50 000 reports that is added; seconds of a
processor.

Privacy's noise has no seed: numbers repeat up to its randomness.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from privot.local import WaveModel, fit_waves
from privot.local.classes.counts import report_groups
from privot.randomizer import Randomizer, Release, count
from privot.schema import Schema
from privot.schema.domains import Array
from studies.common.rows import gather

WAVES, PERIOD, EPSILON = 24, 6, 2.0
SHARE = Schema.from_dict({"columns": {"uses": {"kind": "boolean"}}})
TRENDS: dict[str, Callable[[], Array]] = {
    "grows": lambda: np.linspace(0.1, 0.3, WAVES),
    "jumps": lambda: np.where(np.arange(WAVES) < WAVES // 2, 0.1, 0.3),
}
_SHARE_PEOPLE, _WAVE_PEOPLE = 50_000, 8_333
_LEVEL = 0.95


def unbiased(release: Release) -> float:
    """The share of a wave alone: that of its reports, less what noise puts there."""
    (group,) = report_groups(count(release))
    (factor,) = group.factors
    supported = (factor.likelihood.toarray() > 0)[group.answers[:, 0]]
    said = float(group.counts @ supported[:, 1] / group.counts.sum())
    flips = 1 / (1 + factor.ratio)
    return (said - flips) / (1 - 2 * flips)


def measure_share(seed: int) -> Iterator[dict[str, Any]]:
    """Both schemes, by either trend."""
    for trend, drawn in TRENDS.items():
        truth = drawn()
        for scheme, epsilon, people in (
            ("panel", EPSILON, _SHARE_PEOPLE // PERIOD),
            ("split", EPSILON / PERIOD, _SHARE_PEOPLE),
        ):
            randomizer, rng = Randomizer.calibrate(SHARE, epsilon), np.random.default_rng(seed)
            waves = [randomizer.privatize({"uses": rng.random(people) < p}) for p in truth]
            model = fit_waves(waves, seed=seed)
            told = model.trend("uses", True, level=_LEVEL)
            alone = np.array([unbiased(wave) for wave in waves])
            change = model.change_point("uses", seed=seed)
            yield {
                "measure": "share",
                "trend": trend,
                "scheme": scheme,
                "epsilon": epsilon,
                "people": people,
                "seed": seed,
                "alone": _root(alone - truth),
                "history": _root(told.estimate - truth),
                "covered": float(np.mean((told.low <= truth) & (truth <= told.high))),
                "p_value": change.p_value,
                "change": int(change.time),
                "ends": [int(change.low), int(change.high)],
                "truth": _rounded(truth),
                "each": _rounded(alone),
                "estimate": _rounded(told.estimate),
                "low": _rounded(told.low),
                "high": _rounded(told.high),
            }


COLUMNS: dict[str, Any] = {
    **{
        f"c{i}": {"kind": "categorical", "categories": list("abcdef"[: 3 + i % 4])}
        for i in range(7)
    },
    "uses": {"kind": "boolean"},
    "age": {"kind": "numeric", "bounds": [0, 100], "integer": True},
    "hours": {"kind": "numeric", "bounds": [0, 80]},
}


def ten_columns(when: float, num: int, seed: int) -> dict[str, np.ndarray]:
    """People of two kinds, at a time from 0 to 1."""
    rng = np.random.default_rng(seed)
    kind = rng.random(num) < 0.4
    people: dict[str, np.ndarray] = {}
    for i in range(7):
        letters = np.array(COLUMNS[f"c{i}"]["categories"])
        flat = np.linspace(1, 2, len(letters))
        steep = flat * np.exp(np.linspace(-1, 1, len(letters)))
        own, other = (rng.choice(letters, num, p=p / p.sum()) for p in (flat, steep))
        people[f"c{i}"] = np.where(kind, other, own)
    people["uses"] = rng.random(num) < np.where(kind, 0.15, 0.05) + 0.2 * when
    age = rng.normal(np.where(kind, 50, 30) + 10 * when, 12).clip(0, 100)
    people["age"] = age.astype(np.int64)
    people["hours"] = rng.normal(np.where(kind, 45, 35), 10).clip(0, 80)
    return people


def measure_wave(seed: int) -> Iterator[dict[str, Any]]:
    """Seconds of a fit, and of a wave more."""
    randomizer = Randomizer.calibrate(Schema.from_dict({"columns": COLUMNS}), EPSILON)
    times, people = np.linspace(0, 1, WAVES), _WAVE_PEOPLE
    waves = [
        randomizer.privatize(ten_columns(float(t), people, 1000 * seed + i))
        for i, t in enumerate(times[:-1])
    ]
    more = randomizer.privatize(ten_columns(1.0, 50_000, 1000 * seed + 999))
    started = time.process_time()
    model: WaveModel = fit_waves(waves, seed=seed)
    fitted = time.process_time()
    longer = model.add(more, WAVES)
    longer.sample(1000, seed=seed)
    added = time.process_time()
    told = longer.trend("uses", True, level=_LEVEL)
    truth = 0.09 + 0.2 * times
    yield {
        "measure": "wave",
        "seed": seed,
        "fit_seconds": round(fitted - started, 1),
        "add_seconds": round(added - fitted, 2),
        "share_error": _root(told.estimate - truth),
        "covered": float(np.mean((told.low <= truth) & (truth <= told.high))),
    }


def _root(gaps: Array) -> float:
    return round(float(np.sqrt(np.mean(gaps**2))), 5)


def _rounded(values: Array) -> list[float]:
    return [round(float(value), 4) for value in values]


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("measure", choices=["share", "wave"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("-o", "--output", type=Path, help="JSON of the rows.")


def run(chosen: argparse.Namespace) -> None:
    """Measure, and write rows."""

    def rows() -> Iterator[dict[str, Any]]:
        for seed in chosen.seeds:
            yield from {"share": measure_share, "wave": measure_wave}[chosen.measure](seed)

    gather(rows(), chosen.output)
