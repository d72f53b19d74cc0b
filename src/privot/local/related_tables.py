r"""Two tables: people, and rows that belong to a person, such as visits.

The unit is the person. Somebody's record has the person's own values, the number of the person's visits,
at most a declared number, and the values of **one** of these visits, drawn uniformly. It is reported and
learned like any record. A model with latent class z, person's values x, number k of visits and values v
of a visit,

$$ p(x, k, v) = \sum_z π_z \, p(x | z) \, p(k | z) \, p(v | z) , $$

then gives people with z, x and k, and for each of them k visits, drawn independently from p(v | z) given
that there is a visit. So visits of one person are alike as far as classes tell people apart. Visits
beyond the declared number are left out, so that a person with more counts with this number.

**Privacy review.** Adjacency: a person is replaced by another one, with any number of visits. The record
is drawn from one person's rows alone, by a number of its own, also with a public seed: a visit more or
less changes nobody else's record. If a report of any record is ε-private, then so is its mixture over
the drawn visit, whoever knows the draw. The server never sees a visit or their number. `join` holds raw
rows: it runs where they are, on a device or at a trusted curator.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from privot.core.errors import MOST_ROWS, PrivotError, require_count, require_seed
from privot.local.classes.mixture import LatentClassSampler, draw_categories
from privot.local.model import LocalModel
from privot.schema import Schema
from privot.schema.columns.alphabet import Bins
from privot.tables.files import as_table


@dataclass(frozen=True)
class RelatedTable:
    """Second table, whose rows belong to people.

    Arguments:
        key: Column of both tables that names the person.
        count: Column of whole numbers in the schema: how many rows the person has, from 0 to the most.
        columns: Columns of the second table, but for the key; the schema declares them as nullable,
            since people without rows have no values.

    Examples:
        >>> stays = RelatedTable(key="guest", count="stays", columns=("room",))
        >>> guests = {"guest": ["a", "b"], "city": ["Rome", "Oslo"]}
        >>> rooms = {"guest": ["b", "b"], "room": ["suite", "suite"]}
        >>> stays.join(guests, rooms, most=1).to_pylist()
        [{'guest': 'a', 'city': 'Rome', 'stays': 0, 'room': None},
         {'guest': 'b', 'city': 'Oslo', 'stays': 1, 'room': 'suite'}]
    """

    key: str
    count: str
    columns: tuple[str, ...]

    def join(self, people: Any, rows: Any, most: int, seed: int | None = None) -> pa.Table:
        """Return one record a person, with the number of the person's rows, and one of them.

        Arguments:
            people: Table with the key, each once.
            rows: Table with the key and `columns`.
            most: The largest number that is reported: the upper bound of `count` in the schema.
            seed: Seed of the draws of rows; by default, every call draws anew. A trusted curator joins
                once and uses that table: another seed or order draws other rows, which an account does
                not know again (`privot.privacy.ledger`). Draws depend on places in the tables alone; an
                order by values would depend on types, which one person's value can change for all.

        Raises:
            PrivotError: if a column is missing or stands in both tables, a key of `people` is missing or
                not unique, or a row belongs to nobody.
        """
        people, rows = as_table(people), as_table(rows)
        self._require_columns("people", people, (self.key,))
        self._require_columns("rows", rows, (self.key, *self.columns))
        if taken := sorted({self.count, *self.columns} & {*people.column_names}):
            raise PrivotError(f"people have a column {taken[0]!r} already: rename it")
        keys = people[self.key].combine_chunks()
        if keys.null_count or len(keys.unique()) < len(keys):
            raise PrivotError(
                f"people have missing or equal values of {self.key!r}: give one row each"
            )
        owners = pc.index_in(rows[self.key].combine_chunks().cast(keys.type), keys)
        if owners.null_count:
            raise PrivotError(
                f"{owners.null_count:,} rows have a {self.key!r} of nobody in people: leave them out"
            )
        rng = np.random.default_rng(None if seed is None else require_seed(seed))
        owner = owners.to_numpy()
        counts = np.bincount(owner, minlength=len(keys))
        # One number a person: with a seed, too, a person's draw depends on nobody else's rows.
        place = np.cumsum(counts) - counts + (rng.random(len(keys)) * counts).astype(np.int64)
        drawn = np.append(np.argsort(owner, kind="stable"), 0)[np.where(counts, place, -1)]
        chosen = rows.select(self.columns).take(pa.array(drawn, mask=counts == 0))
        number = pa.array(np.minimum(counts, require_count("most", most, MOST_ROWS)))
        columns = {self.count: number} | {name: chosen[name] for name in self.columns}
        return pa.table({name: people[name] for name in people.column_names} | columns)

    def sample(
        self, model: LocalModel, num_people: int, seed: int | None = None
    ) -> tuple[pa.Table, pa.Table]:
        """Draw synthetic people, and rows whose keys match them.

        Arguments:
            model: Model of records of `join`, by latent classes.
            num_people: Number of people.
            seed: Seed of the draw; by default, every call draws new people.

        Returns:
            The people, with the key first, and their rows, likewise. Keys follow the schema's pattern
            of the identifier, or else are numbers from 0.

        Raises:
            PrivotError: if the model is not of a table of codes, its schema has rules, or its columns
                are not as this class says.
        """
        sampler, schema = getattr(model, "sampler", None), model.schema
        if not isinstance(sampler, LatentClassSampler) or schema.rules:
            raise PrivotError(
                "related tables need a model of a table of codes, without rules: fit one"
            )
        self._require_declared(schema)
        entropy = np.random.SeedSequence(None if seed is None else require_seed(seed))
        rng, key_rng = map(np.random.default_rng, entropy.spawn(2))
        num_people = require_count("num_people", num_people, MOST_ROWS, least=0)
        classes, codes = sampler.atoms.sample_classes(num_people, rng)
        people = sampler.decoded(classes, codes, rng)
        owners = np.repeat(np.arange(num_people), people[self.count].to_numpy())
        rows = self._rows(sampler, classes[owners], rng)
        declared = schema.identifiers.get(self.key)
        keys = (
            declared.generator(num_people, key_rng)(num_people) if declared else range(num_people)
        )
        names = [n for n in schema.coded if n not in (self.count, *self.columns)]
        keys, people = pa.chunked_array([pa.array(keys)]), people.select(names)
        tables = (
            people.add_column(0, self.key, keys),
            rows.add_column(0, self.key, keys.take(owners)),
        )
        for name, column in schema.coded.items():
            tables = tuple(
                column.in_format(name, t) if name in t.column_names else t for t in tables
            )
        return tables

    def _rows(
        self, sampler: LatentClassSampler, classes: NDArray[np.int64], rng: np.random.Generator
    ) -> pa.Table:
        """Draw one row of the second table for each of the given classes."""
        atoms, coded = sampler.atoms, sampler.schema.coded
        codes = np.zeros((len(classes), len(coded)), np.int64)
        for index, (name, column) in enumerate(coded.items()):
            if name in self.columns:
                present = sampler.places[index].codes != column.alphabet.missing
                law = atoms.probabilities[index] * present[:, None]
                # People of a class that has no rows may be drawn with one: theirs is anybody's.
                law[:, law.sum(axis=0) == 0] = (law @ atoms.weights)[:, None]
                codes[:, index] = draw_categories(law / law.sum(axis=0), classes, rng)
        return sampler.decoded(classes, codes, rng).select(self.columns)

    def _require_columns(self, what: str, table: pa.Table, names: tuple[str, ...]) -> None:
        if lacking := sorted({*names} - {*table.column_names}):
            raise PrivotError(f"{what} lack column {lacking[0]!r}: give the table that has it")

    def _require_declared(self, schema: Schema) -> None:
        """Raise PrivotError if the schema declares the count or the columns in another way."""
        declared = schema.coded.get(self.count)
        bins = None if declared is None else declared.alphabet
        if not isinstance(bins, Bins) or not bins.integer or bins.nullable or bins.edges[0] != 0:
            raise PrivotError(f"count {self.count!r} is to be a column of whole numbers from 0")
        for name in self.columns:
            if name not in schema.coded or not schema.coded[name].nullable:
                raise PrivotError(f"column {name!r} is to be declared with nullable = true")
