"""Fitting a model that moves: all waves together first, then what each of them says of the columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from privot.errors import PrivotError
from privot.local.fitting import fit
from privot.local.releases import Releases
from privot.local.settings import FitSettings
from privot.local.waves.times import Time, read_times
from privot.local.waves.wave_model import DRIFTS, WaveModel, distinct, require_wave
from privot.release import Release
from privot.release.reports.rows import ReportTable
from privot.training import Progress


def fit_waves(
    releases: Sequence[Release],
    times: Sequence[Time] | None = None,
    settings: FitSettings | None = None,
    *,
    seed: int | None = None,
    progress: Progress | None = None,
) -> WaveModel:
    """Learn a population that moves from waves of reports.

    Arguments:
        releases: One of each wave, in order: of one schema; ε may differ.
        times: Of the waves: numbers or dates, in increasing order; 1, 2, 3 … by default.
        settings: Of the fit of all waves together.
        seed: Shorthand for a seed in the settings.
        progress: Told how the fit of all waves goes.

    Raises:
        PrivotError: for fewer than two waves, waves of other schemas, times that do not increase, or
            reports whose estimator does not move (vectors of many numbers, images).
    """
    waves = list(releases)
    if len(waves) < 2:
        raise PrivotError(f"releases has {len(waves)}: give two waves or more, or use fit")
    numbers, dated = read_times(range(1, len(waves) + 1) if times is None else times, len(waves))
    for wave in Releases.of(waves).parts:
        require_wave(wave, waves[-1].schema, waves[-1].randomizer)
    base = fit(_together(waves), settings, seed=seed, progress=progress)
    base = replace(base, earlier=distinct(base.earlier))
    if base.sampler.kind not in DRIFTS:
        raise PrivotError(
            f"these reports are learned by estimator {base.made_with['estimator']!r}, which knows one "
            "time only: give waves of tables of codes, or of one column of at most three coordinates"
        )
    drift = DRIFTS[base.sampler.kind].of(
        base.sampler, waves, numbers, base.made_with.get("seed", 0)
    )
    return WaveModel(base, drift, dated, tuple(map(len, waves)))


def _together(waves: Sequence[Release]) -> list[Release]:
    """Waves of one randomizer as one release: what is counted once is fitted once."""
    alike: dict[str, list[Release]] = {}
    for wave in waves:
        alike.setdefault(wave.randomizer.fingerprint, []).append(wave)
    return [
        same[0]
        if len(same) == 1
        else Release(ReportTable.of(*(each.table for each in same)), same[0].randomizer)
        for same in alike.values()
    ]
