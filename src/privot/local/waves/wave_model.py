r"""Model of a population that drifts over time, learned from waves of reports.

It stores a model of all waves together (a `LocalModel`) and statistics of each wave: for a table, slopes
and precisions of its columns (`table_drift`); for points, counts of reports (`grid_drift`). So a wave
can be added in seconds, and improves the estimates for earlier waves.

**Trends.** Shares and means are ratios of weighted sums of a column's shares θ. To first order a ratio
is linear in θ = θ̄ + B u (`paths`), with a gradient a. The coordinates u have independent Gaussian
posteriors, so

$$ \mathrm{Var}(a^⊤ θ) = \sum_k (B^⊤ a)_k^2\, \mathrm{Var}(u_k) . $$

Means are over people whose number is not missing. The band includes the uncertainty about the shares and
the drift, but not about the distribution within a bump.

**Privacy review.** Post-processing of public releases, their sizes and times. `guarantee` is that of
all waves together, because the model of any time is learned from all. Adjacency (`privot.waves.panel`):
one person's whole sequence of values. Every wave of shuffled reports must be a batch that is opened only
once, which cannot be detected from files.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
import scipy

from privot.core.errors import PrivotError
from privot.local.fitting import fit
from privot.local.model import LocalModel
from privot.local.releases import Releases, Reports
from privot.local.settings import FitSettings
from privot.local.waves.grid_drift import GridDrift
from privot.local.waves.paths import Paths, ShareRatio
from privot.local.waves.table_drift import TableDrift
from privot.models import Model, ModelKind, Stored
from privot.privacy import ApproximateDP, DistributedDP, PureDP, weakest
from privot.randomizer import Counts, Randomizer
from privot.randomizer.reports.counts import sum_counts
from privot.schema import Schema
from privot.schema.domains import Array
from privot.training import Progress
from privot.waves import Panel

# A number, a date, or the text of either; dates are converted to days.
Time = float | int | str | date
_FIRST = date(1970, 1, 1)  # day 0
_NUM_SIMULATIONS = 199  # simulations for a p-value, which is a multiple of 1/200
_CREDIBILITY = 0.9  # probability of the interval of a change
_MIN_WAVES = 3  # fewest waves in which a change can be detected
_DAY = 86_400  # seconds
_BASE_PREFIX = "base."  # prefix of the names of the base's arrays


def read_time(time: Time) -> tuple[float, bool]:
    """Return a time as a number, and whether it is a date, whose number is the days since 1970.

    Raises:
        PrivotError: for anything but a finite number, a date, or the text of either.

    Examples:
        >>> read_time("1970-01-08"), read_time("2.5"), read_time(3)
        ((7.0, True), (2.5, False), (3.0, False))
    """
    if isinstance(time, date):
        return float(date(time.year, time.month, time.day).toordinal() - _FIRST.toordinal()), True
    try:
        number = float(time)
    except (TypeError, ValueError):
        try:
            return read_time(date.fromisoformat(str(time)))
        except ValueError:
            number = math.nan
    if not math.isfinite(number):
        raise PrivotError(f"time {time!r} is no time: give a number, or a date as 2026-01-31")
    return number, False


def read_times(times: Sequence[Time], count: int) -> tuple[Array, bool]:
    """Return the times of `count` waves as numbers (count,), and whether they are dates.

    Raises:
        PrivotError: for another number of times, a mixture of numbers and dates, or times that do not
            increase.
    """
    pairs = [read_time(time) for time in times]
    if len(pairs) != count:
        raise PrivotError(f"times has {len(pairs)} for {count} waves: give one for each wave")
    if len({dated for _, dated in pairs}) > 1:
        raise PrivotError("times are numbers and dates: give one or the other")
    numbers = np.array([number for number, _ in pairs])
    if (wrong := np.flatnonzero(np.diff(numbers) <= 0)).size:
        later = times[int(wrong[0]) + 1]
        raise PrivotError(f"time {later} is not after the one before it: give waves in their order")
    return numbers, pairs[0][1]


def format_time(time: float, dated: bool) -> str:
    """Format a time as a date if `dated`, else as a number.

    Examples:
        >>> format_time(7.0, True), format_time(7.0, False)
        ('1970-01-08', '7')
    """
    return (_FIRST + timedelta(days=math.floor(time))).isoformat() if dated else f"{time:g}"


@dataclass(frozen=True, eq=False)
class Trend:
    """Estimate of a share or a mean at every wave, with a credible band."""

    name: str  # name of the share or mean
    times: tuple[str, ...]  # times of the waves, as numbers or dates
    estimate: Array  # estimate at each time (T,)
    low: Array  # lower end of the band (T,)
    high: Array  # upper end of the band (T,)
    level: float  # probability of the band at each time

    def within(self, low: float, high: float) -> Self:
        """Clip the band to a range."""
        return replace(self, low=np.clip(self.low, low, high), high=np.clip(self.high, low, high))


@dataclass(frozen=True)
class ChangePoint:
    """Most probable time of a sudden change of a column's distribution, and the evidence for it."""

    column: str  # name of the column
    time: str  # most probable time of the first wave after the change
    low: str  # first time of the interval that contains a change, if any, with probability 0.9
    high: str  # last time of that interval
    p_value: float  # p-value of the hypothesis that the population only drifts
    log_odds: float  # log evidence of one change, at an unknown wave, against no change, in nats


def trend_of(name: str, ratio: ShareRatio, times: tuple[str, ...], level: float) -> Trend:
    """Estimate a ratio at every wave, with a band of probability `level` in (0, 1)."""
    series, numerator, denominator = ratio
    shares = np.array([series.coordinates.at(path) for path in series.paths.mean])
    total = (shares * denominator).sum(axis=1)
    estimate = (shares * numerator).sum(axis=1) / total
    share_gradient = numerator - denominator * estimate[:, None]  # times the total
    gradient = share_gradient @ series.coordinates.basis / total[:, None]  # in u (T, K)
    variance = np.diagonal(series.paths.covariance, axis1=1, axis2=2).T
    stddev = np.sqrt((gradient**2 * variance).sum(axis=1))
    half_width = scipy.special.ndtri((1 + level) / 2) * stddev
    return Trend(name, times, estimate, estimate - half_width, estimate + half_width, level)


def change_point_of(name: str, paths: Paths, times: tuple[str, ...], seed: int) -> ChangePoint:
    """Find the change point of a column's paths; the seed is for the simulation of the p-value.

    Raises:
        PrivotError: for fewer than three waves.
    """
    if len(times) < _MIN_WAVES:
        raise PrivotError(f"{len(times)} waves show no change: give three or more")
    logs = paths.step_evidence()  # of a change at each wave but the first
    odds = np.exp(logs - logs.max())
    below = np.cumsum(odds / odds.sum())
    tail = (1 - _CREDIBILITY) / 2
    ends = np.minimum(np.searchsorted(below, [tail, 1 - tail]), len(logs) - 1)
    time, low, high = (times[1 + i] for i in (int(logs.argmax()), *ends))
    log_odds = float(logs.max() + np.log(odds.mean()))
    return ChangePoint(name, time, low, high, paths.p_value(_NUM_SIMULATIONS, seed), log_odds)


# Classes of drifts by the kind of sampler of all waves together.
DRIFTS: dict[str, Any] = {drift.kind: drift for drift in (TableDrift, GridDrift)}


@dataclass(frozen=True, repr=False, eq=False)
class WaveModel(Model):
    """Distribution of records at every time from the first wave to the last.

    Arguments:
        base: Model of all waves together, with the guarantee of all.
        drift: Change of that model over time.
        dated: Whether times are dates.
        people: Number of people who reported in each wave.
        hashes: SHA-256 of a sample of each wave's report ids, by which `add` recognizes an earlier wave.
        panel: Panel in whose slots people reported, if there is one.
    """

    kind: ClassVar[ModelKind] = ModelKind("local.waves", 5, "privot fit --waves")

    base: LocalModel
    drift: TableDrift | GridDrift
    dated: bool
    people: tuple[int, ...]
    hashes: tuple[str, ...]
    panel: Panel | None = None

    def __post_init__(self) -> None:
        # Later shuffled batches may repeat earlier ones, whether these are fitted or not.
        since_start = self.schema.shuffled_promise is not None
        count = most_reports(self.drift.times, self.dated, self.panel, since_start)
        object.__setattr__(self, "base", self.base.with_reports_of_a_person(count))

    @property
    def schema(self) -> Schema:
        """Schema of the records."""
        return self.base.schema

    @property
    def guarantee(self) -> PureDP | ApproximateDP | DistributedDP:
        """Guarantee of all waves together, to a person in any slot of the panel.

        Without a panel, a person may report in every wave. The number of waves must be fixed before the
        first is opened.
        """
        return self.base.guarantee

    @property
    def wave_guarantee(self) -> PureDP | ApproximateDP | DistributedDP:
        """Weakest guarantee of one wave; a person who reports in several waves spends it in each."""
        return self.base.with_reports_of_a_person(1).guarantee

    @property
    def made_with(self) -> dict[str, Any]:
        """Settings and facts of the fit of all waves together."""
        return self.base.made_with

    @property
    def times(self) -> tuple[str, ...]:
        """Times of the waves, as numbers or dates."""
        return tuple(format_time(time, self.dated) for time in self.drift.times)

    def summary(self) -> dict[str, object]:
        ends = f"{self.times[0]} to {self.times[-1]}"
        return super().summary() | {"waves": len(self.times), "times": ends}

    def at(self, time: Time | None = None) -> LocalModel:
        """Return the model at a time from the first wave to the last, by default the last.

        Raises:
            PrivotError: for a time before the first wave or after the last.
        """
        return replace(self.base, sampler=self.drift.at(self._number_of(time)))

    def _number_of(self, time: Time | None) -> float:
        """Return a time within the waves as a number; None is the last wave's time."""
        if time is None:
            return float(self.drift.times[-1])
        number, dated = read_time(time)
        if dated != self.dated:
            kind = "dates, as 2026-01-31" if self.dated else "numbers"
            raise PrivotError(f"time {time} is of another kind than the waves' times: give {kind}")
        if not self.drift.times[0] <= number <= self.drift.times[-1]:
            raise PrivotError(
                f"time {time} is outside of the waves: give one from {self.times[0]} to {self.times[-1]}"
            )
        return number

    def draw(
        self, num_rows: int, rng: np.random.Generator, where: Mapping[str, Any]
    ) -> Iterator[pa.Table]:
        """Draw records at the time of the last wave: see `Model.draw`."""
        return self.at().draw(num_rows, rng, where)

    def sample(
        self,
        num_rows: int,
        seed: int | None = None,
        where: Mapping[str, Any] | None = None,
        time: Time | None = None,
    ) -> pa.Table:
        """See [`Model.sample`][privot.models.Model.sample]; `time` is by default the last wave's."""
        return self.at(time).sample(num_rows, seed, where)

    def trend(self, column: str, value: Any = None, *, level: float = 0.95) -> Trend:
        """Estimate a share, or a mean, at every wave, with a band.

        Arguments:
            column: Column of the table.
            value: Value or list of values (see `where` in `sample`) whose share is estimated; for a
                coordinate a range, `"30..40"`. By default, the mean of a number is estimated.
            level: Probability of the band at each time, between 0 and 1.

        Raises:
            PrivotError: for an unknown column or value, or a level out of range.
        """
        if not 0 < level < 1:
            raise PrivotError(f"level {level} is not between 0 and 1: give .95, say")
        self._require_column(column)
        name = f"mean of {column}" if value is None else f"{column} = {value}"
        trend = trend_of(name, self.drift.ratio(column, value), self.times, level)
        return trend if value is None else trend.within(0.0, 1.0)

    def change_point(self, column: str, value: Any = None, *, seed: int = 0) -> ChangePoint:
        """Find the most probable sudden change of a column's distribution, with a p-value.

        Arguments:
            column: Column of the table.
            value: Range of a coordinate, `"30..40"`, to test its share only.
            seed: Seed of the simulation of the p-value.

        Raises:
            PrivotError: for an unknown column, or fewer than three waves.
        """
        self._require_column(column)
        return change_point_of(column, self.drift.series_of(column, value).paths, self.times, seed)

    def _require_column(self, column: str) -> None:
        if column not in self.schema.table_columns:
            names = ", ".join(self.schema.table_columns)
            raise PrivotError(f"column {column!r} is not in the schema: name one of {names}")

    def add(self, release: Reports, time: Time) -> Self:
        """Return the model with one more wave, without fitting the base again.

        Raises:
            PrivotError: for a release of another schema or of an earlier wave, a batch of fewer reports
                than promised, or a time that is not after the last wave's.
        """
        number, dated = read_time(time)
        require_wave(release, self.base.randomizer, self.panel, number, dated)
        (wave,) = Releases.of(release).counts
        if dated != self.dated or not number > self.drift.times[-1]:
            raise PrivotError(
                f"time {time} is not after the last wave's, {self.times[-1]}: give a later one"
            )
        if (digest := _hash_of(wave)) in self.hashes:
            raise PrivotError(f"the release of time {time} is an earlier wave's: give each once")
        most_reports([*self.drift.times, number], dated, self.panel)  # refuses a time of no wave
        weakest(self.wave_guarantee, release.guarantee)  # refuses small batches, another party
        randomizers = (*self.base.earlier, self.base.randomizer, release.randomizer)
        counts = [*(promise["reports"] for promise in self.made_with["promises"]), len(release)]
        base = _stating_smallest(self.base, zip(randomizers, counts, strict=True))
        drift = self.drift.with_wave(wave, number)
        people, hashes = (*self.people, len(release)), (*self.hashes, digest)
        return replace(self, base=base, drift=drift, people=people, hashes=hashes)

    def fields(self) -> dict[str, Any]:
        return {
            "base": self.base.fields(),
            "drift": self.drift.fields(),
            "dated": self.dated,
            "people": list(self.people),
            "hashes": list(self.hashes),
            "panel": None if self.panel is None else self.panel.to_json(),
        }

    def arrays(self) -> dict[str, Array]:
        arrays = {name: np.array(array) for name, array in self.drift.arrays().items()}
        return arrays | {_BASE_PREFIX + name: array for name, array in self.base.arrays().items()}

    @classmethod
    def build(cls, stored: Stored) -> Self:
        fields = stored.fields
        drift_arrays, base_arrays = dict[str, Array](), dict[str, Array]()
        for name, array in stored.arrays.items():
            target = base_arrays if name.startswith(_BASE_PREFIX) else drift_arrays
            target[name.removeprefix(_BASE_PREFIX)] = array
        base = LocalModel.build(Stored(fields["base"], base_arrays, None))
        drift = DRIFTS[base.sampler.kind].build(base.sampler, fields["drift"], drift_arrays)
        panel = None if fields["panel"] is None else Panel.from_json(fields["panel"])
        people, hashes = tuple(fields["people"]), tuple(fields["hashes"])
        return cls(base, drift, fields["dated"], people, hashes, panel)


def most_reports(
    times: Sequence[float] | Array, dated: bool, panel: Panel | None, since_start: bool = False
) -> int:
    """Return the maximum number of waves at `times` in which a person in a slot of the panel reports.

    If `since_start`, all waves of the panel up to the last of `times` are counted.

    Raises:
        PrivotError: if times are not the days, or the numbers, of different waves of the panel.
    """
    if panel is None:
        return len(times)
    numbers = _wave_numbers(times, dated, panel)
    return panel.most_reports_in(range(max(numbers) + 1) if since_start else numbers)


def _wave_numbers(times: Sequence[float] | Array, dated: bool, panel: Panel) -> list[int]:
    """Return the number of the panel's wave at each time; raise as `most_reports` does."""
    numbers = [panel.wave_at(time * _DAY) if dated else round(time) for time in times]
    whole_days = panel.start % _DAY == panel.length % _DAY == 0
    known = whole_days if dated else np.array_equal(numbers, times)
    if not known or len({*numbers}) < len(numbers):
        raise PrivotError(
            f"times are not of different waves of panel {panel.name!r}: give each wave's number, or the "
            "day on which it begins, if all begin with days"
        )
    return numbers


def _stating_smallest(base: LocalModel, waves: Iterable[tuple[Randomizer, int]]) -> LocalModel:
    """Return the base with every randomizer once, each with the guarantee of its smallest wave."""
    smallest: dict[str, tuple[Randomizer, int]] = {}
    for made_by, people in waves:
        _, least = smallest.get(made_by.fingerprint, (made_by, people))
        smallest[made_by.fingerprint] = made_by, min(people, least)
    newest = smallest.pop(base.randomizer.fingerprint)
    promises = [
        {"guarantee": str(made_by.batch_guarantee(least)), "reports": least}
        for made_by, least in (*smallest.values(), newest)
    ]
    earlier = tuple(made_by for made_by, _ in smallest.values())
    return replace(base, earlier=earlier, made_with=base.made_with | {"promises": promises})


def require_wave(
    release: Reports, like: Randomizer, panel: Panel | None, time: float, dated: bool
) -> None:
    """Raise PrivotError for a release that has another schema or kind of report, or no reports.

    A release of several waves, or that names another panel or wave than the given ones, is refused.
    """
    if len(release.waves) > 1:
        raise PrivotError("a wave has the reports of several: fit the collector's release alone")
    if panel:
        named = {"panel": panel.to_dict(), "wave": _wave_numbers([time], dated, panel)[0]}
        if any(json.loads(text) != named for text in release.waves):
            raise PrivotError(
                f"a release is not of panel {panel.name!r}, or not of the wave of its time: give the "
                "people's panel, and each wave's number or first day"
            )
    schema, other = release.schema, like.schema
    if schema != other.model_copy(update={"promise": schema.promise}):
        raise PrivotError(f"a wave has schema {schema}, another {other}: waves share one schema")
    if (release.randomizer.joint is None) != (like.joint is None):
        raise PrivotError("waves are of joint and of split reports: give one or the other")
    if not len(release):
        raise PrivotError("a wave has no reports: leave it out")


def fit_waves(
    releases: Sequence[Reports],
    times: Sequence[Time] | None = None,
    settings: FitSettings | None = None,
    *,
    panel: Panel | None = None,
    progress: Progress | None = None,
    **keywords: Any,
) -> WaveModel:
    """Learn a drifting population from waves of reports: first all waves together, then the drift.

    Arguments:
        releases: One release per wave, or its counts, in order of time, with one schema; ε may differ.
            A release of shuffled reports is one batch.
        times: Times of the waves, increasing numbers or dates; without a panel, by default 1, 2, 3 …
        settings: Settings of the fit of all waves together.
        panel: Panel in whose slots people reported, for the guarantee of all waves together. Times are
            then the days on which its waves begin, or their numbers.
        progress: Callback of the fit of all waves.
        **keywords: Fields of the settings: `seed=3`.

    Raises:
        PrivotError: for fewer than two waves, different schemas, batches of fewer reports than promised,
            times that do not increase or are of no wave of the panel, or reports whose estimator cannot
            drift (vectors of many numbers, images, words).
    """
    waves = list(releases)
    if len(waves) < 2:
        raise PrivotError(f"releases has {len(waves)}: give two waves or more, or use fit")
    if panel and times is None:
        raise PrivotError("times are missing: give a panel's waves their numbers, or first days")
    numbers, dated = read_times(range(1, len(waves) + 1) if times is None else times, len(waves))
    most_reports(numbers, dated, panel)  # refuses times of no waves of the panel
    all_waves = Releases.of(waves)
    waves[0].schema.require_listed()
    for wave, number in zip(waves, numbers, strict=True):
        require_wave(wave, waves[-1].randomizer, panel, number, dated)
    weakest(*(wave.guarantee for wave in waves))  # refuses small batches, several trusted parties
    counts = all_waves.counts
    base = fit(_merge_waves(counts), settings, progress=progress, **keywords)
    drift = DRIFTS[base.sampler.kind].of(
        base.sampler, counts, numbers, base.made_with.get("seed", 0)
    )
    base = _stating_smallest(base, ((wave.randomizer, len(wave)) for wave in waves))
    people, hashes = tuple(map(len, waves)), tuple(map(_hash_of, counts))
    return WaveModel(base, drift, dated, people, hashes, panel)


def _hash_of(wave: Counts) -> str:
    return hashlib.sha256(wave.ids.words.astype("<u8").tobytes()).hexdigest()


def _merge_waves(waves: Sequence[Counts]) -> list[Counts]:
    """Merge waves of one randomizer, so that equal reports are counted together."""
    by_randomizer: dict[str, list[Counts]] = {}
    for wave in waves:
        by_randomizer.setdefault(wave.randomizer.fingerprint, []).append(wave)
    return [*map(sum_counts, by_randomizer.values())]
