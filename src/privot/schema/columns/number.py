"""What numbers and dates have in common: they lie in an interval, or in public bins of it."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar, Self, cast

import numpy as np
import pyarrow as pa

from privot.errors import PrivotError
from privot.schema.columns.alphabet import Bins, Codes
from privot.schema.columns.codings import decode_far, later_bins, refine, spread
from privot.schema.columns.column import CodedColumn, PointColumn
from privot.schema.domains.domain import Array, Box, from_unit


class NumberColumn(PointColumn, CodedColumn):
    """A column whose values are numbers between two bounds, whatever they are in a table: dates, too."""

    is_number: ClassVar[bool] = True
    bounds: tuple[float | str, float | str]
    bins: object

    @property
    @abstractmethod
    def domain(self) -> Box:
        """The interval of the bounds."""

    @property
    @abstractmethod
    def alphabet(self) -> Bins:
        """Bins, spikes, and the missing value."""

    @cached_property
    def codings(self) -> tuple[Bins, ...]:
        """See `CodedColumn`; several where no bins are declared, and not every integer has its own."""
        alphabet, log = self.alphabet, self.on_log_scale
        values = alphabet.edges[-1] - alphabet.edges[0] if alphabet.integer else math.inf
        if self.bins is not None or alphabet.num_bins == values:
            return (alphabet,)
        fine = self.equal_bins(int(min(values, later_bins(log))))
        return spread(alphabet, fine, log, zero=self.step_seconds is None)

    @property
    def on_log_scale(self) -> bool:
        """Whether its equal bins are equal in ln x."""
        return False

    @cached_property
    def atoms(self) -> tuple[Bins, Codes]:
        """See `CodedColumn`."""
        return refine(self.codings)

    @property
    def declares_codes(self) -> bool:
        """Whether bins or spikes are declared."""
        return self.bins is not None or bool(self.alphabet.spikes)

    @property
    @abstractmethod
    def counted_in(self) -> object:
        """What its numbers count: those of two columns mean the same if they count the same."""

    @abstractmethod
    def equal_bins(self, bins: int | None) -> tuple[float, ...]:
        """Edges, in its numbers, of so many equal bins over the bounds; as many as it likes if None."""

    @property
    def step_seconds(self) -> int | None:
        """Seconds in one of its numbers, which count from 1970; None of numbers that are no time."""
        return None

    @property
    def value_step(self) -> float:
        """How far apart its values are, as `in_values` has them; 0 where any number occurs."""
        return float(self.alphabet.integer)

    @property
    def step_program(self) -> dict[str, Any]:
        """How a device counts its numbers."""
        return {"seconds": self.step_seconds}

    def code_program(self, name: str, codings: Sequence[Any]) -> dict[str, Any]:
        """See `Column`."""
        edges = [list(bins.edges) for bins in codings]
        how: dict[str, Any] = {"take": "bin", "columns": [name], "edges": edges}
        how |= {"spikes": list(self.alphabet.spikes), "integer": self.alphabet.integer}
        return how | {"nullable": self.nullable} | self.step_program

    def point_program(self, name: str) -> dict[str, Any] | None:
        """See `Column`."""
        how = super().point_program(name)
        return how and how | self.step_program

    def common_values(self, name: str, others: Sequence[CodedColumn]) -> dict[str, pa.Array]:
        """See `CodedColumn`: all edges and spikes of all, and what lies between them."""
        columns = [self, *(cast("NumberColumn", other) for other in others)]
        bins = [column.atoms[0] for column in columns]
        if len({(column.counted_in, column.alphabet.integer) for column in columns}) > 1:
            raise PrivotError(
                f"column {name!r} holds integers in one release and numbers in another, or counts them "
                "in other steps: fit the releases apart"
            )
        cuts = np.unique([value for each in bins for value in (*each.edges, *each.spikes)])
        numbers = np.unique([*cuts, *(cuts[1:] + cuts[:-1]) / 2])
        if self.alphabet.integer:
            near = np.concatenate([cuts - 1, cuts, cuts + 1])
            numbers = np.unique(near[(near >= cuts[0]) & (near < cuts[-1])])
        return {name: self._make_up(np.append(numbers, [np.nan] * self.nullable))}

    def find_code(self, name: str, value: object) -> int:
        """See `CodedColumn`; a number or a date is in the bin, or the spike, that holds it."""
        if value is None or value in self.labels:
            return super().find_code(name, value)
        number = self._number_of(value)
        if number is None:
            return super().find_code(name, value)
        low, high = self.bounds
        if not self.domain.lower[0] <= number <= self.domain.upper[0]:
            raise PrivotError(
                f"where gives column {name!r} the value {value!r}: its bounds are {low} and {high}"
            )
        return int(self.alphabet.encode(np.array([number]))[0])

    def find_codes(self, name: str, value: object) -> list[int]:
        """See `CodedColumn`; a range `"30..40"` has the bins and spikes that it meets."""
        if not isinstance(value, str) or ".." not in value or value in self.labels:
            return super().find_codes(name, value)
        low, high = (self._number_of(end) for end in value.split("..", 1))
        bins = self.alphabet
        if (
            low is None
            or high is None
            or low > min(high, self.domain.upper[0])
            or high < bins.edges[0]
        ):
            raise PrivotError(
                f"where gives column {name!r} the range {value!r}: write LOW..HIGH, within the bounds "
                f"{self.bounds[0]} and {self.bounds[1]}"
            )
        below, above = np.array(bins.edges[:-1]), np.array(bins.edges[1:])
        met = np.flatnonzero((below <= high) & (above - bins.integer >= low)).tolist()
        return met + [bins.num_bins + i for i, s in enumerate(bins.spikes) if low <= s <= high]

    @abstractmethod
    def _number_of(self, value: object) -> float | None:
        """The number that a value, perhaps in words, says; None if it says none."""

    @abstractmethod
    def round_between(self, low: float, high: float) -> float:
        """Of its numbers from `low` to `high`, both included, the roundest to a reader."""

    @abstractmethod
    def _write(self, numbers: Array) -> pa.Array:
        """Numbers as the table would hold them, NaN as null."""

    @abstractmethod
    def _make_up(self, numbers: Array) -> pa.Array:
        """Numbers, however large and whether rounded or not, as a table could hold them."""

    def encode_points(self, name: str, table: pa.Table) -> Array:
        """See `PointColumn`."""
        return self.accept(name, table)[:, None]

    def _write_points(self, name: str, points: Array) -> dict[str, pa.Array]:
        numbers = points[:, 0]
        return {name: self._write(np.rint(numbers) if self.alphabet.integer else numbers)}

    def make_up_points(self, name: str, units: Array) -> dict[str, pa.Array]:
        """See `PointColumn`."""
        return {name: self._make_up(from_unit(self.domain, units)[:, 0])}

    def refined(self, name: str, drawn: pa.Table, num_codes: int, rarest: float = 0.0) -> Self:
        """See `CodedColumn`; whole numbers that are no more than codes have a code each."""
        bins, numbers = self.alphabet, self.read(name, drawn)[0]
        numbers = numbers[~np.isnan(numbers)]
        if not len(numbers):
            return self
        fields, values = self.model_dump(), bins.edges[-1] - bins.edges[0]
        if not bins.integer or values > num_codes:
            return self.model_validate(fields | self._bins_of(numbers, num_codes))
        if bins.num_bins == values:
            return self
        none = {"spikes": ()} if "spikes" in fields else {}  # dates have none
        return self.model_validate(fields | {"bins": int(values)} | none)

    @abstractmethod
    def _bins_of(self, numbers: Array, num_codes: int) -> dict[str, object]:
        """Fields that declare bins of equal mass, of numbers drawn from a model."""

    def encode_codes(self, name: str, table: pa.Table) -> Codes:
        """See `CodedColumn`; what lies beyond the bounds is in an outer bin."""
        return self.alphabet.encode(self.accept(name, table))

    def encode_codings(self, name: str, table: pa.Table) -> Codes:
        """See `CodedColumn`; by the atoms, however many codings there are."""
        atoms, codes = self.atoms
        return codes[:, atoms.encode(self.accept(name, table))]

    def decode_codes(
        self, name: str, codes: Codes, rng: np.random.Generator
    ) -> dict[str, pa.Array]:
        """See `CodedColumn`."""
        return {name: self._write(self.alphabet.decode(codes, rng))}

    def decode_atoms(
        self, name: str, atoms: Codes, rng: np.random.Generator
    ) -> dict[str, pa.Array]:
        """See `CodedColumn`."""
        return {name: self._write(self.atoms[0].decode(atoms, rng))}

    def make_up_codes(
        self, name: str, coding: Any, codes: Codes, rng: np.random.Generator
    ) -> dict[str, pa.Array]:
        """See `CodedColumn`: half of an outer bin's lie far beyond the bounds."""
        return {name: self._make_up(decode_far(coding, codes, rng))}
