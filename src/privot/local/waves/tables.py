r"""Tables that move: the classes of all waves, raked to each wave's columns.

Columns move, odds ratios stay. A report of several columns has the likelihood $L = 1 + g \sum_v A_{yv}
p(v)$; by the share of code k of one of them its slope is $g b_k / L$,

$$ b_k = \sum_{v : v_c = k} A_{yv}\, p(v | v_c = k) , $$

the other columns having the law that they have given k, at this wave. So a column's slopes are of mean 0
where the wave's law is right, however columns depend.

Privacy: functions of reports, hence post-processing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import scipy

from privot.core.errors import PrivotError
from privot.local.classes.class_fit import groups_of_questions
from privot.local.classes.counts import Factor, Ints, Question
from privot.local.classes.curves import Curve
from privot.local.classes.curves import Pieces as Bumps
from privot.local.classes.marginals import rake
from privot.local.classes.mixture import LatentClasses, LatentClassSampler, Places
from privot.local.releases import Atoms, Releases
from privot.local.waves.paths import Course, Followed, Moving, Pieces, Told, basis_of
from privot.randomizer import Release
from privot.schema.domains import Array
from privot.schema.sampling import values_of

_RAKED = 1e-7
_ROUNDS, _STILL = 8, 0.1  # in standard errors
_FEW = 12  # atoms of a number, each of which is a piece


@dataclass(frozen=True, eq=False)
class TableDrift:
    """The classes of all waves, and the courses of their columns.

    Arguments:
        sampler: Of all waves together.
        courses: Of the columns; none before the first wave.
    """

    sampler: LatentClassSampler
    courses: tuple[Course, ...] = ()
    kind: ClassVar[str] = LatentClassSampler.kind

    @classmethod
    def of(
        cls, sampler: LatentClassSampler, waves: Sequence[Release], times: Array, seed: int
    ) -> Self:
        """What waves say of the columns; nothing is drawn, whatever the seed."""
        empty = cls(sampler)
        pooled = [each.shares for each in empty.pieces]
        told = [empty.told(wave, pooled) for wave in waves]
        columns = range(len(pooled))
        moving = [basis_of(pooled[i], [each[i] for each in told]) for i in columns]
        around = [np.zeros((len(waves), each.basis.shape[1])) for each in moving]
        for number in range(_ROUNDS):
            if number:  # around the paths that the round before led to
                ways = [[one.at(u) for u in path] for one, path in zip(moving, around, strict=True)]
                told = [empty.told(wave, [way[t] for way in ways]) for t, wave in enumerate(waves)]
            courses = tuple(
                Course.of(moving[i], times, [each[i] for each in told], around[i]) for i in columns
            )
            before, around = around, [each.paths.mean for each in courses]
            if all(map(_settled, before, courses)):
                break
        return cls(sampler, courses)

    @property
    def times(self) -> Array:
        """Of the waves (T,)."""
        return self.courses[0].times

    @cached_property
    def pieces(self) -> list[Pieces]:
        """Of each column: values, or bumps of a number of many."""
        atoms = self.sampler.atoms
        owns = [table @ atoms.weights for table in atoms.probabilities]
        return [_pieces(*each) for each in zip(owns, self.sampler.places, strict=True)]

    def at(self, time: float) -> LatentClassSampler:
        """The classes of a time."""
        return self._moved([each.moving.at(each.paths.at(time)[0]) for each in self.courses])

    def with_wave(self, release: Release, time: float) -> Self:
        """One wave later, asked around the last one's shares, then around those that it led to."""
        courses, lasts = self.courses, [each.paths.mean[-1] for each in self.courses]
        for _ in range(_ROUNDS):
            pairs = zip(self.courses, lasts, strict=True)
            told = self.told(release, [each.moving.at(u) for each, u in pairs])
            courses = tuple(
                each.with_wave(time, own, u)
                for each, own, u in zip(self.courses, told, lasts, strict=True)
            )
            before, lasts = lasts, [each.paths.mean[-1] for each in courses]
            if all(map(_settled, before, courses)):
                break
        return type(self)(self.sampler, courses)

    def follow(self, column: str, value: Any) -> Followed:
        """The share of people with a value, or the mean of a number: see `WaveModel.trend`."""
        place = list(self.sampler.schema.coded).index(column)
        own, course = self.sampler.places[place], self.courses[place]
        named = self.sampler.schema.coded[column]
        if value is None:
            cells = own.cells
            if cells is None or named.in_rules != "number":
                raise PrivotError(
                    f"column {column!r} has no mean: give a value, whose share is told"
                )
            middles = (cells.low + cells.high - cells.integer * (cells.high > cells.low)) / 2
            there = ~np.isnan(middles)
            part, whole = np.where(there, middles, 0.0), there.astype(np.float64)
        else:
            wanted = {code for each in values_of(value) for code in named.find_codes(column, each)}
            part = np.isin(own.codes, sorted(wanted)).astype(np.float64)
            whole = np.ones(len(part))
        law, ones = self.pieces[place].law, np.ones((len(course.times), 1))
        return Followed(course, ones * (part @ law), ones * (whole @ law))

    def law_of(self, column: str, value: Any) -> Course:
        """The column's course, whatever the value."""
        return self.courses[list(self.sampler.schema.coded).index(column)]

    def _moved(self, shares: Sequence[Array]) -> LatentClassSampler:
        pairs = zip(self.pieces, shares, strict=True)
        atoms = rake(self.sampler.atoms, [p.law @ own for p, own in pairs], tolerance=_RAKED)
        return LatentClassSampler(atoms, self.sampler.places, self.sampler.schema)

    def told(self, release: Release, shares: Sequence[Array]) -> list[Told]:
        """What a wave says of every column, where they have these shares.

        Raises:
            PrivotError: for a wave that asks columns in other alphabets than those before.
        """
        atoms, releases = self._moved(shares).atoms, Releases((release,))
        asked, groups = groups_of_questions(releases)
        owners = [
            _owners(place, releases.atoms[name], name)
            for place, name in zip(self.sampler.places, self.sampler.schema.coded, strict=True)
        ]
        asked = [Question(each.column, each.law[:, owners[each.column]]) for each in asked]
        sizes = [len(each.shares) for each in self.pieces]
        found = [Told(np.zeros(size), np.zeros((size, size))) for size in sizes]
        for group in groups:
            for place, factor in enumerate(group.factors):
                rows = factor.likelihood.shape[0]
                counts = np.asarray(
                    np.bincount(group.answers[:, place], group.counts, rows), np.float64
                )
                for question, slope, information in _told(factor, counts, asked, atoms):
                    law = question.law @ self.pieces[question.column].law
                    found[question.column].slope[:] += law.T @ slope
                    found[question.column].information[:] += law.T @ information @ law
        return found

    def fields(self) -> dict[str, Any]:
        """Plain values that it is built from."""
        return {}

    def arrays(self) -> dict[str, Array]:
        """Its numbers, by name."""
        found: dict[str, Array] = {"times": self.times}
        for number, course in enumerate(self.courses):
            found |= {
                f"shares_{number}": course.moving.shares,
                f"basis_{number}": course.moving.basis,
                f"slopes_{number}": course.slopes,
                f"precisions_{number}": course.precisions,
            }
        return found

    @classmethod
    def build(
        cls, sampler: LatentClassSampler, fields: Mapping[str, Any], arrays: Mapping[str, Array]
    ) -> Self:
        """What `fields` and `arrays` took apart."""
        courses = (
            Course(
                Moving(arrays[f"shares_{i}"], arrays[f"basis_{i}"]),
                arrays["times"],
                arrays[f"slopes_{i}"],
                arrays[f"precisions_{i}"],
            )
            for i in range(len(sampler.places))
        )
        return cls(sampler, tuple(courses))


def _settled(before: Array, course: Course) -> bool:
    """Whether paths, or their last points, are where they were before."""
    spread = np.sqrt(np.diagonal(course.paths.covariance, axis1=1, axis2=2)).T
    last = slice(-1, None) if before.ndim == 1 else slice(None)
    return bool((np.abs(course.paths.mean[last] - before) <= _STILL * spread[last]).all())


def _told(
    factor: Factor, counts: Array, asked: Sequence[Question], atoms: LatentClasses
) -> Iterator[tuple[Question, Array, Array]]:
    """Of each question of a factor, slope and information by its codes' shares."""
    questions = [asked[number] for number in factor.questions]
    tables = [each.law @ atoms.probabilities[each.column] for each in questions]
    joint = atoms.weights[None]
    for table in tables:
        joint = (joint[:, None] * table[None]).reshape(-1, atoms.num_classes)
    cells, gain = joint.sum(axis=1), factor.ratio - 1
    sent = counts > 0
    likelihood = scipy.sparse.csr_array(factor.likelihood)[sent]
    people, total = counts[sent], 1 + gain * (likelihood @ cells)
    places = np.unravel_index(np.arange(len(cells)), factor.shape)
    for question, table, codes in zip(questions, tables, places, strict=True):
        own = table @ atoms.weights
        given = cells / np.maximum(own, 1e-300)[codes]
        turn = scipy.sparse.csr_array(
            (given, (np.arange(len(cells)), codes)), shape=(len(cells), len(own))
        )
        told = gain * (likelihood @ turn).toarray() / total[:, None]
        yield question, people @ told, (told * people[:, None]).T @ told


def _pieces(own: Array, places: Places) -> Pieces:
    """Values of a column, or bumps of a number of many."""
    if places.cells is None or len(places.cells.in_order) <= _FEW:
        return Pieces(np.eye(len(own)), own)
    none = np.zeros(0)
    bumps = Bumps.bumps(Curve(own, none.astype(np.int64), none), places.cells)
    return Pieces(bumps.law, bumps.shares)


def _owners(places: Places, atoms: Atoms, name: str) -> Ints:
    """The atom that each value of a model is of: its own, or of a mass point the one around it."""
    count = atoms.size
    if len(places.codes) < count or not np.array_equal(places.codes[:count], atoms.codes):
        raise PrivotError(
            f"column {name!r} is asked in other alphabets in this wave: give waves of randomizers that "
            "differ in nothing but epsilon, or fit them apart"
        )
    more = len(places.codes) - count
    if not more or places.cells is None or atoms.cells is None:
        return np.arange(count)
    points = places.cells.low[count:, None]
    around = (atoms.cells.low <= points) & (points < atoms.cells.high)
    return np.concatenate([np.arange(count), around.argmax(axis=1)])
