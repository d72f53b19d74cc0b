r"""A rehearsal of a whole campaign: simulated people report, what is learned is shown, all stamped.

**Simulated people** stand for those who will be asked: rows of a public or older table, drawn again with
replacement; records that a model draws; or, where there is neither, made-up people (`populations`). As
many as will report are privatized at the planned ε and learned from as `fit` does, several times with
fresh people and fresh noise. Each model's error is its distance from the law that people were drawn
from; the error **without noise** is that of the people's own records, which no method can beat by much.

Nothing of it may be taken for an answer. So the schema says one record per *SIMULATED person*: a
randomizer, a release and a model say it too, and no report of a rehearsal can be collected with a real
one, whose schema is another.

Privacy review: a function of public numbers, of coins, and of the prior: what is shown is as private as
that is. A table of real private people is no prior: their rows are drawn, and shown.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa

from privot.errors import MOST_PEOPLE, PrivotError, require_count
from privot.evaluation.distances import joint_shares, sample_distance, total_variation
from privot.evaluation.populations import made_up
from privot.evaluation.rehearsal import MOST_REHEARSED
from privot.local import LocalModel, fit
from privot.models import Model
from privot.release import Randomizer, as_table
from privot.schema import Schema, to_unit

STAMP = "SIMULATED"
_REFERENCE, _POINTS = 200_000, 20_000
Progress = Callable[[int, int], None]
Errors = dict[str, float]


@dataclass(frozen=True, eq=False)
class Rehearsed:
    """What a campaign would show.

    Arguments:
        predicted: Mean errors of fits: `one_way` and `two_way` total variation, or `W2` of places, where
            the bounds are −1 and 1.
        low: The least of them.
        high: The largest.
        without_noise: Errors of the people's own records.
        model: The first fit's; its schema says that it is simulated.
        people: Whom the first fit's reports are of.
        rehearsals: How many fits.
        rehearsed: How many people each is of; errors are scaled where more will report.
    """

    predicted: Errors
    low: Errors
    high: Errors
    without_noise: Errors
    model: LocalModel
    people: pa.Table
    rehearsals: int
    rehearsed: int


def simulated(schema: Schema) -> Schema:
    """The schema of a rehearsal: of simulated units."""
    return schema.model_copy(update={"unit": f"{STAMP} {schema.unit}"})


def rehearse(
    schema: Schema,
    epsilon: float,
    people: int,
    *,
    prior: Any = None,
    rehearsals: int = 3,
    seed: int = 0,
    progress: Progress | None = None,
) -> Rehearsed:
    """Simulated people through the whole pipeline, with noise and without.

    Arguments:
        schema: What a record may be: a table of codes, or places.
        epsilon: Privacy loss of one person's report.
        people: How many will report; of more than 200 000 so many rehearse.
        prior: A table that is like people and not private, or a model; made-up people otherwise.
        rehearsals: Fits.
        seed: Of people and fits; not of the reports' noise.
        progress: Told how many fits are done, of how many.

    Raises:
        PrivotError: for a prior of another schema, columns that are neither codes nor places of few
            coordinates, or numbers out of range.
    """
    people = require_count("people", people, MOST_PEOPLE, "more than ever lived")
    rehearsals = require_count("rehearsals", rehearsals, 100, "enough")
    stamped = simulated(schema)
    randomizer = Randomizer.calibrate(stamped, epsilon)
    coded = randomizer.joint is not None and set(schema.coded) == set(schema.columns)
    if prior is None and not coded:
        raise PrivotError(
            "prior is missing: places cannot be made up, give a table or a model of the columns"
        )
    errors = _of_shares if coded else _of_places
    draw, law = _drawn_from(schema, prior, seed)
    rehearsed = min(people, MOST_REHEARSED)
    found, own, models, tables = [], [], [], []
    for number in range(rehearsals):
        if progress is not None:
            progress(number, rehearsals)
        tables.append(draw(rehearsed, seed + 1 + number))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of simulated people there is nothing to be warned of
            models.append(fit(randomizer.privatize(tables[-1]), seed=seed + number))
        learned = models[-1].sample(_REFERENCE if coded else _POINTS, seed=seed)
        found.append(errors(stamped, learned, law))
        own.append(errors(stamped, tables[-1], law))
    shrunk = (rehearsed / people) ** 0.5
    mean, low, high = (_over(found, how, shrunk) for how in (np.mean, min, max))
    clean = _over(own, np.mean, shrunk)
    return Rehearsed(mean, low, high, clean, models[0], tables[0], rehearsals, rehearsed)


def _over(errors: list[Errors], how: Callable[[list[float]], Any], shrunk: float) -> Errors:
    return {name: float(how([each[name] for each in errors])) * shrunk for name in errors[0]}


def _drawn_from(
    schema: Schema, prior: Any, seed: int
) -> tuple[Callable[[int, int], pa.Table], pa.Table]:
    """People of a prior by number and seed, and a table that is their law."""
    names = list(schema.table_columns)
    if prior is None:
        invented = made_up(schema, seed)
        return invented.draw, invented.draw(_REFERENCE, seed + 10**6)
    if isinstance(prior, Model):
        if list(prior.schema.table_columns) != names:
            raise PrivotError(
                f"prior is a model of the columns {', '.join(prior.schema.table_columns)}: give one of "
                f"{', '.join(names)}"
            )
        return (
            lambda num, own: prior.sample(num, seed=own),
            prior.sample(_REFERENCE, seed=seed + 10**6),
        )
    table = as_table(prior)
    schema.check_table(table)
    table = table.select(names)

    def again(num: int, own: int) -> pa.Table:
        return table.take(np.random.default_rng(own).integers(table.num_rows, size=num))

    return again, table


def _of_shares(schema: Schema, table: pa.Table, law: pa.Table) -> Errors:
    """Total variation of a table's shares from a law's."""
    codes = {n: [c.encode_codes(n, t) for t in (table, law)] for n, c in schema.coded.items()}
    sizes = {n: c.alphabet.size for n, c in schema.coded.items()}
    ones = [
        total_variation(*(np.bincount(c, minlength=sizes[n]) / len(c) for c in codes[n]))
        for n in codes
    ]
    twos = []
    for a, b in combinations(codes, 2):
        pairs = zip(codes[a], codes[b], strict=True)
        twos.append(total_variation(*(joint_shares(x, y, (sizes[a], sizes[b])) for x, y in pairs)))
    told = {"one_way": float(np.mean(ones))}
    return told | ({"two_way": float(np.mean(twos))} if twos else {})


def _of_places(schema: Schema, table: pa.Table, law: pa.Table) -> Errors:
    """Exact W₂ of 3000 points of each, means of three subsamples."""
    if len(schema.columns) > 1 or schema.images:
        raise PrivotError(
            f"columns {', '.join(schema.columns)} are not all codes, nor one place: rehearse them apart"
        )
    (name,) = schema.columns
    column = schema.point_column(name)
    ours, truth = (to_unit(column.domain, column.encode_points(name, t)) for t in (table, law))
    return {"W2": sample_distance(ours, truth)}
