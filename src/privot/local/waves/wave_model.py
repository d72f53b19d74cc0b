"""A model of records that move in time, learned from waves of reports.

It keeps what all waves together teach (a `LocalModel`), and what each wave said beside it: of a table's
columns slopes and precisions (`table_drift`), of points how often each report came (`grid_drift`). So a
wave is added in seconds: it is counted once, and corrects the waves before it, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import pyarrow as pa

from privot.errors import PrivotError
from privot.local.model import LocalModel, Sampler
from privot.local.waves.grid_drift import GridDrift
from privot.local.waves.shares import Course, Followed
from privot.local.waves.table_drift import TableDrift
from privot.local.waves.times import Time, in_words, read_time
from privot.local.waves.trends import ChangePoint, Trend, change_point_of, trend_of
from privot.models import History, Model, ModelKind, Stored
from privot.privacy import ApproximateDP, PureDP, weakest
from privot.release import Randomizer, Release
from privot.schema import Array, Schema

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

    kind: ClassVar[ModelKind] = ModelKind("local.waves", 3, "privot fit-waves")

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
        """See [`Model.sample`][privot.models.model.Model.sample]; of one time, the last by default."""
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
