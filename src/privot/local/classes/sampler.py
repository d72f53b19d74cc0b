"""What latent classes draw records from: atoms of columns, and values within them.

A class is drawn, then an atom of every column (`privot.local.atoms`) by the class's probabilities, then
a value of the atom: of a number or date by a density that goes on from atom to atom in this class
(`privot.schema.columns.within_cells`), of anything else by its code. Conditions and comparisons are in
the schema's codes, which are sums of atoms.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from privot.local.atoms import Atoms
from privot.local.classes.product_mixture import LatentClasses
from privot.models.files import Array
from privot.release import Randomizer
from privot.schema import Schema
from privot.schema.columns.alphabet import Codes
from privot.schema.columns.within_cells import LineCells


@dataclass(frozen=True, eq=False)
class Places:
    """Where the atoms of a column are.

    Arguments:
        codes: The schema's code of each (a,).
        cells: Of numbers and dates, their intervals and points.
    """

    codes: Codes
    cells: LineCells | None = None

    @classmethod
    def of(cls, atoms: Atoms) -> Self:
        """Those of atoms, of which no more is needed to draw."""
        return cls(atoms.codes, atoms.cells)


@dataclass(frozen=True, eq=False)
class LatentClassSampler:
    """A mixture of product distributions over the columns' atoms.

    Arguments:
        atoms: The mixture.
        places: Of each column's atoms.
        schema: Whose coded columns it is about.
    """

    atoms: LatentClasses
    places: tuple[Places, ...]
    schema: Schema
    kind: ClassVar[str] = "latent_classes"

    @cached_property
    def classes(self) -> LatentClasses:
        """The law of the schema's codes."""
        return self.atoms.gathered([each.codes for each in self.places])

    def records(
        self, num_rows: int, rng: np.random.Generator, where: Mapping[str, Any]
    ) -> pa.Table:
        """See `privot.local.model.Sampler`."""
        names = list(self.schema.coded)
        condition = {
            index: np.flatnonzero(np.isin(self.places[index].codes, where[name])).tolist()
            for index, name in enumerate(names)
            if name in where
        }
        classes, atoms = self.atoms.sample_classes(num_rows, rng, condition)
        columns: dict[str, pa.Array] = {}
        for index, (name, column) in enumerate(self.schema.coded.items()):
            place, drawn = self.places[index], atoms[:, index]
            if place.cells is None:
                columns |= column.decode_codes(name, place.codes[drawn], rng)
            else:
                masses = self.atoms.probabilities[index]
                numbers = place.cells.draw(drawn, classes, masses, rng)
                columns |= self.schema.point_column(name).decode_points(name, numbers[:, None])
        return pa.table(columns)

    def shape(self) -> dict[str, Any]:
        """See `privot.local.model.Sampler`."""
        integer = [place.cells and place.cells.integer for place in self.places]
        return {"num_classes": self.atoms.num_classes, "integer": integer}

    def arrays(self) -> dict[str, Array]:
        """See `privot.local.model.Sampler`."""
        arrays: dict[str, Array] = dict(self.atoms.to_dict())
        for index, place in enumerate(self.places):
            arrays[f"codes_{index}"] = place.codes
            if place.cells is not None:
                arrays[f"cells_{index}"] = np.stack([place.cells.low, place.cells.high])
        return arrays

    @classmethod
    def build(
        cls, randomizer: Randomizer, shape: Mapping[str, Any], arrays: Mapping[str, Array]
    ) -> LatentClassSampler:
        """The sampler that `shape` and `arrays` describe."""
        return cls.stored(randomizer.schema, shape, arrays)

    @classmethod
    def stored(
        cls, schema: Schema, shape: Mapping[str, Any], arrays: Mapping[str, Array]
    ) -> LatentClassSampler:
        """The same, of a schema's records."""
        arrays = dict(arrays)
        places = []
        for index, integer in enumerate(shape["integer"]):
            ends = arrays.pop(f"cells_{index}", None)
            cells = None if ends is None else LineCells(ends[0], ends[1], integer)
            places.append(Places(arrays.pop(f"codes_{index}"), cells))
        return cls(LatentClasses.from_dict(arrays), tuple(places), schema)
