"""A model of records that move in time, learned from waves of reports.

It keeps what all waves together teach (a `LocalModel`), and what each wave said beside it: of a table's
columns slopes and precisions (`table_drift`), of points how often each report came (`grid_drift`). So a
wave is added in seconds: it is counted once, and corrects the waves before it, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import pyarrow as pa
import scipy

from privot.core.errors import PrivotError
from privot.local.fitting import fit
from privot.local.model import LocalModel, Sampler
from privot.local.releases import Releases
from privot.local.settings import FitSettings
from privot.local.waves.paths import Course, Followed, Paths
from privot.local.waves.places import GridDrift
from privot.local.waves.tables import TableDrift
from privot.models import History, Model, ModelKind, Stored
from privot.privacy import ApproximateDP, PureDP, weakest
from privot.randomizer import Randomizer, Release
from privot.randomizer.reports.rows import ReportTable
from privot.schema import Schema
from privot.schema.domains import Array
from privot.training import Progress

# Times of waves: numbers, or dates, which are counted in days.


Time = float | int | str | date
_FIRST = date(1970, 1, 1)


def read_time(time: Time) -> tuple[float, bool]:
    """A time as a number, and whether it is a date.

    Raises:
        PrivotError: for anything else than a finite number, a date, or the text of one.

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
    """Times of so many waves, and whether they are dates.

    Raises:
        PrivotError: if there are more or fewer, numbers and dates, or some that do not increase.
    """
    found = [read_time(each) for each in times]
    if len(found) != count:
        raise PrivotError(f"times has {len(found)} for {count} waves: give one for each wave")
    if len({dated for _, dated in found}) > 1:
        raise PrivotError("times are numbers and dates: give one or the other")
    numbers = np.array([number for number, _ in found])
    if (wrong := np.flatnonzero(np.diff(numbers) <= 0)).size:
        later = times[int(wrong[0]) + 1]
        raise PrivotError(f"time {later} is not after the one before it: give waves in their order")
    return numbers, found[0][1]


def in_words(time: float, dated: bool) -> str:
    """A time as it was given.

    Examples:
        >>> in_words(7.0, True), in_words(7.0, False)
        ('1970-01-08', '7')
    """
    return (_FIRST + timedelta(days=math.floor(time))).isoformat() if dated else f"{time:g}"


# What moved, and when: shares and means over the waves with bands, and sudden changes.
#
# Both are ratios of sums over a column's shares θ, to first order linear in the coordinates u of
# paths, whose posterior is Gaussian and independent from one to the next,
#
# $$ \mathrm{Var}(a^⊤ θ) = \sum_k (B^⊤ a)_k^2\, \mathrm{Var}(u_k) . $$
#
# A mean is of those who have a number. The band holds what reports leave open of the column, the drift
# included; not how people lie within a bump, which is taken as known.


_SIMULATIONS = 199
_CREDIBLE = 0.9
_FEWEST = 3  # waves, in which a change can be seen


@dataclass(frozen=True, eq=False)
class Trend:
    """A share or a mean over the waves.

    Arguments:
        name: What it is of.
        times: Of the waves, as they were given.
        estimate: At each (T,).
        low: Lower end of the band (T,).
        high: Upper end (T,).
        level: Of the band, at each time on its own.
    """

    name: str
    times: tuple[str, ...]
    estimate: Array
    low: Array
    high: Array
    level: float

    def within(self, low: float, high: float) -> Trend:
        """With ends that no share is beyond."""
        return replace(self, low=np.clip(self.low, low, high), high=np.clip(self.high, low, high))


@dataclass(frozen=True)
class ChangePoint:
    """A sudden change of a column's law, if there was one.

    Arguments:
        column: Which.
        time: Of the first wave after it, most probably.
        low: The first of the waves among which it is with probability .9, if there was one.
        high: The last of them.
        p_value: How often a population that only drifts shows as much, at most.
        log_odds: Log evidence of one change, at a wave unknown, against none.
    """

    column: str
    time: str
    low: str
    high: str
    p_value: float
    log_odds: float


def trend_of(name: str, followed: Followed, times: tuple[str, ...], level: float) -> Trend:
    """Of a ratio that is followed over the waves."""
    course, part, whole = followed
    shares = np.array([course.moving.at(path) for path in course.paths.mean])
    base = (shares * whole).sum(axis=1)
    estimate = (shares * part).sum(axis=1) / base
    turned = (part - whole * estimate[:, None]) @ course.moving.basis / base[:, None]
    spread = np.diagonal(course.paths.covariance, axis1=1, axis2=2).T
    error = scipy.special.ndtri((1 + level) / 2) * np.sqrt((turned**2 * spread).sum(axis=1))
    return Trend(name, times, estimate, estimate - error, estimate + error, level)


def change_point_of(name: str, paths: Paths, times: tuple[str, ...], seed: int) -> ChangePoint:
    """Of a column's paths.

    Raises:
        PrivotError: for fewer than three waves.
    """
    if len(times) < _FEWEST:
        raise PrivotError(f"{len(times)} waves show no change: give three or more")
    logs = paths.steps()
    shares = np.exp(logs - logs.max())
    below = np.cumsum(shares / shares.sum())
    tail = (1 - _CREDIBLE) / 2
    first, last = (
        min(int(np.searchsorted(below, each)), len(logs) - 1) for each in (tail, 1 - tail)
    )
    when, low, high = (times[1 + i] for i in (int(logs.argmax()), first, last))
    odds = float(logs.max() + np.log(shares.mean()))
    return ChangePoint(name, when, low, high, paths.p_value(_SIMULATIONS, seed), odds)


_BASE = "base."


class Drift(Protocol):
    """How a model of all waves together moves."""

    @property
    def times(self) -> Array:
        """Of the waves (T,)."""

    def at(self, time: float) -> Sampler:
        """What records of a time are drawn from."""

    def with_wave(self, release: Release, time: float) -> Drift:
        """One wave later."""

    def follow(self, column: str, value: Any) -> Followed:
        """A share, or a mean, over the waves."""

    def law_of(self, column: str, value: Any) -> Course:
        """All that is followed of a column, in which a change is looked for."""

    def fields(self) -> dict[str, Any]:
        """Plain values that it is built from."""

    def arrays(self) -> dict[str, Array]:
        """Its numbers, by name."""


DRIFTS: dict[str, Any] = {each.kind: each for each in (TableDrift, GridDrift)}


@dataclass(frozen=True, repr=False, eq=False)
class WaveModel(Model):
    """A distribution of records at every time from the first wave to the last.

    Arguments:
        base: What all waves together teach.
        drift: How it moves.
        dated: Whether times are days.
        people: How many reported in each wave.
        added: Randomizers of waves that were added after the fit.
        history: None: it is not trained by steps.
    """

    kind: ClassVar[ModelKind] = ModelKind("local.waves", 3, "privot fit --waves")

    base: LocalModel
    drift: Drift
    dated: bool
    people: tuple[int, ...]
    added: tuple[Randomizer, ...] = ()
    history: History | None = None

    @property
    def schema(self) -> Schema:
        """What one record may be."""
        return self.base.schema

    @property
    def guarantee(self) -> PureDP | ApproximateDP:
        """Of one report; whoever reports in several waves spends it in each."""
        return weakest(self.base.guarantee, *(each.guarantee for each in self.added))

    @property
    def made_with(self) -> dict[str, Any]:
        """Settings and facts of the fit of all waves together."""
        return self.base.made_with

    @property
    def times(self) -> tuple[str, ...]:
        """Of the waves, as they were given."""
        return tuple(in_words(each, self.dated) for each in self.drift.times)

    def summary(self) -> dict[str, object]:
        """See `Summarized`."""
        ends = f"{self.times[0]} to {self.times[-1]}"
        return super().summary() | {"waves": len(self.times), "times": ends}

    def at(self, time: Time | None = None) -> LocalModel:
        """The model of one time, the last wave's by default; between waves, what lies between them.

        Raises:
            PrivotError: for a time before the first wave or after the last.
        """
        return replace(self.base, sampler=self.drift.at(self._number_of(time)))

    def _number_of(self, time: Time | None) -> float:
        if time is None:
            return float(self.drift.times[-1])
        number, dated = read_time(time)
        if dated != self.dated:
            kind = "dates, as 2026-01-31" if self.dated else "numbers"
            raise PrivotError(f"time {time} is not as the waves' times are: give {kind}")
        if not self.drift.times[0] <= number <= self.drift.times[-1]:
            raise PrivotError(
                f"time {time} is outside of the waves: give one from {self.times[0]} to {self.times[-1]}"
            )
        return number

    def draw(
        self, num_rows: int, rng: np.random.Generator, where: Mapping[str, Any]
    ) -> Iterator[pa.Table]:
        """See `Model`: of the last wave's time."""
        return self.at().draw(num_rows, rng, where)

    def sample(
        self,
        num_rows: int,
        seed: int | None = None,
        where: Mapping[str, Any] | None = None,
        time: Time | None = None,
    ) -> pa.Table:
        """See [`Model.sample`][privot.models.Model.sample]; of one time, the last by default."""
        return self.at(time).sample(num_rows, seed, where)

    def trend(self, column: str, value: Any = None, *, level: float = 0.95) -> Trend:
        """A share, or a mean, at every wave, and its band.

        Arguments:
            column: Of the table.
            value: What share of people have this value there: as `where` in `sample`, or a list; of a
                coordinate a range, `"30..40"`. By default the mean of a number, of those who have one.
            level: Of the band at each time, from 0 to 1.

        Raises:
            PrivotError: for a column or value that there is not, or a level that is none.
        """
        if not 0 < level < 1:
            raise PrivotError(f"level {level} is not between 0 and 1: give .95, say")
        self._require_column(column)
        name = f"mean of {column}" if value is None else f"{column} = {value}"
        found = trend_of(name, self.drift.follow(column, value), self.times, level)
        return found if value is None else found.within(0.0, 1.0)

    def change_point(self, column: str, value: Any = None, *, seed: int = 0) -> ChangePoint:
        """When a column's law changed suddenly, if it did, and how sure that is.

        Arguments:
            column: Of the table.
            value: Of one coordinate of places, a range, whose share is looked at alone.
            seed: Of simulated paths, of which a p-value is made.

        Raises:
            PrivotError: for a column that there is not, or fewer than three waves.
        """
        self._require_column(column)
        paths = self.drift.law_of(column, value).paths
        return change_point_of(column, paths, self.times, seed)

    def _require_column(self, column: str) -> None:
        if column not in self.schema.table_columns:
            names = ", ".join(self.schema.table_columns)
            raise PrivotError(f"column {column!r} is not in the schema: name one of {names}")

    def add(self, release: Release, time: Time) -> WaveModel:
        """The model with one wave more, in seconds; what all waves together teach stays as it was.

        Raises:
            PrivotError: for a release of another schema, or a time that is not after the last wave's.
        """
        require_wave(release, self.schema, self.base.randomizer)
        number, dated = read_time(time)
        if dated != self.dated or not number > self.drift.times[-1]:
            raise PrivotError(
                f"time {time} is not after the last wave's, {self.times[-1]}: give a later one"
            )
        people, added = (*self.people, len(release)), distinct([*self.added, release.randomizer])
        drift = self.drift.with_wave(release, number)
        return replace(self, drift=drift, people=people, added=added)

    def fields(self) -> dict[str, Any]:
        """See `Learned`."""
        return {
            "base": self.base.fields(),
            "drift": self.drift.fields(),
            "dated": self.dated,
            "people": list(self.people),
            "added": [each.to_json() for each in self.added],
        }

    def arrays(self) -> dict[str, Array]:
        """See `Learned`."""
        own = {name: np.array(array) for name, array in self.drift.arrays().items()}
        return own | {_BASE + name: array for name, array in self.base.arrays().items()}

    @classmethod
    def build(cls, stored: Stored) -> Self:
        """See `Learned`."""
        own = {k: v for k, v in stored.arrays.items() if not k.startswith(_BASE)}
        theirs = {k.removeprefix(_BASE): v for k, v in stored.arrays.items() if k not in own}
        fields = stored.fields
        base = LocalModel.build(Stored(fields["base"], theirs, None))
        drift = DRIFTS[base.sampler.kind].build(base.sampler, fields["drift"], own)
        added = tuple(map(Randomizer.from_json, fields["added"]))
        return cls(base, drift, fields["dated"], tuple(fields["people"]), added)


def distinct(randomizers: Sequence[Randomizer]) -> tuple[Randomizer, ...]:
    """Each once, in their order."""
    return tuple({each.fingerprint: each for each in randomizers}.values())


def require_wave(release: Release, schema: Schema, like: Randomizer) -> None:
    """Refuse what is no release of the same schema, reported in the same way.

    Raises:
        PrivotError: naming what differs.
    """
    if release.schema != schema:
        raise PrivotError(
            f"a wave has schema {release.schema}, another {schema}: waves share one schema"
        )
    if (release.randomizer.joint is None) != (like.joint is None):
        raise PrivotError("waves are of joint and of split reports: give one or the other")
    if not len(release):
        raise PrivotError("a wave has no reports: leave it out")


# Fitting a model that moves: all waves together first, then what each of them says of the columns.


def fit_waves(
    releases: Sequence[Release],
    times: Sequence[Time] | None = None,
    settings: FitSettings | None = None,
    *,
    progress: Progress | None = None,
    **keywords: Any,
) -> WaveModel:
    """Learn a population that moves from waves of reports.

    Arguments:
        releases: One of each wave, in order: of one schema; ε may differ.
        times: Of the waves: numbers or dates, in increasing order; 1, 2, 3 … by default.
        settings: Of the fit of all waves together.
        progress: Told how the fit of all waves goes.
        **keywords: Fields of the settings: `seed=3`.

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
    base = fit(_together(waves), settings, progress=progress, **keywords)
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
