r"""A density on $[−1, 1]^d$ that is linear between the nodes of a grid, and records drawn from it.

Nodes stand at $−1 + 2k/K$, $k ∈ 0 … K$ a coordinate. A weight at each is the share of a **hat**: the
product over coordinates of triangles of half-width $2/K$ (half a triangle at the ends). So the density
is continuous, a sample of it shows no grid, and a law of record cells is linear in the weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from privot.errors import PrivotError
from privot.release import Randomizer
from privot.schema import Array, from_unit

# Of a condition: records drawn at once, and before it is given up.
_FEWEST_DRAWS, _MOST_DRAWS, _DRAWS_A_ROW = 2**14, 2**22, 200


@dataclass(frozen=True, eq=False)
class GridDensity:
    """Shares of hats, and of values that are missing.

    Arguments:
        weights: Of the nodes, (K+1, …, K+1), > 0 and up to 1 with `missing` in sum.
        missing: The share of missing values.
    """

    weights: Array
    missing: float = 0.0

    def sample(self, num_rows: int, rng: np.random.Generator) -> Array:
        """Points (num_rows, d) in unit coordinates; rows of NaN are missing.

        Examples:
            >>> one = GridDensity(np.array([0.0, 1.0, 0.0]))
            >>> float(abs(one.sample(1000, np.random.default_rng(0))).max()) < 1
            True
        """
        last = self.weights.shape[0] - 1
        shares = np.append(self.weights.ravel(), self.missing)
        ends = np.cumsum(shares)
        drawn = np.searchsorted(ends, rng.random(num_rows) * ends[-1], side="right")
        drawn = np.minimum(drawn, np.flatnonzero(shares)[-1])
        absent = drawn == self.weights.size
        nodes = np.unravel_index(np.where(absent, 0, drawn), self.weights.shape)
        places = np.stack(nodes, axis=1) + rng.triangular(-1, 0, 1, (num_rows, self.weights.ndim))
        places = last - np.abs(last - np.abs(places))  # half a hat is a whole one, folded
        points: Array = places * (2 / last) - 1
        points[absent] = np.nan
        return points

    def to_dict(self) -> dict[str, Array]:
        """Its numbers, as arrays."""
        return {"weights": self.weights, "missing": np.array([self.missing])}

    @classmethod
    def from_dict(cls, arrays: Mapping[str, Any]) -> GridDensity:
        """What `to_dict` wrote."""
        return cls(np.asarray(arrays["weights"], np.float64), float(arrays["missing"][0]))


@dataclass(frozen=True, eq=False)
class GridSampler:
    """A density of one column of points.

    Arguments:
        density: In unit coordinates.
        name: The column.
        randomizer: How it was reported.
    """

    density: GridDensity
    name: str
    randomizer: Randomizer
    kind: ClassVar[str] = "grid"

    def records(
        self, num_rows: int, rng: np.random.Generator, where: Mapping[str, list[int]]
    ) -> pa.Table:
        """See `privot.local.model.Sampler`: given codes, records are drawn until enough have one."""
        if not where:
            return self._draw(num_rows, rng)
        (codes,), kept, drawn = where.values(), [self._draw(0, rng)], 0
        coded = self.randomizer.schema.coded[self.name]
        while sum(part.num_rows for part in kept) < num_rows:
            if drawn > _MOST_DRAWS + _DRAWS_A_ROW * num_rows:
                raise PrivotError(f"where {dict(where)} has hardly any probability: relax it")
            part = self._draw(max(_FEWEST_DRAWS, num_rows), rng)
            drawn += part.num_rows
            kept.append(part.filter(np.isin(coded.encode_codes(self.name, part), codes)))
        return pa.concat_tables(kept).slice(0, num_rows).combine_chunks()

    def _draw(self, num_rows: int, rng: np.random.Generator) -> pa.Table:
        column = self.randomizer.schema.point_column(self.name)
        drawn = self.density.sample(num_rows, rng)
        absent = np.isnan(drawn).any(axis=1)
        drawn[absent] = 0.0
        units = self.randomizer.mechanisms[self.name].places(drawn, column.domain)
        points = from_unit(column.domain, units)
        points[absent] = np.nan
        return pa.table(column.decode_points(self.name, points))

    def shape(self) -> dict[str, Any]:
        """See `privot.local.model.Sampler`."""
        return {"column": self.name}

    def arrays(self) -> dict[str, Array]:
        """See `privot.local.model.Sampler`."""
        return self.density.to_dict()

    @classmethod
    def build(
        cls, randomizer: Randomizer, shape: Mapping[str, Any], arrays: Mapping[str, Array]
    ) -> GridSampler:
        """The sampler that `shape` and `arrays` describe."""
        density = GridDensity.from_dict(arrays)
        return cls(density, shape["column"], randomizer)


def cell_shares(steps: int, spacings: int) -> Array:
    """Shares (N+1, K+1) of each hat that round to each of the cells −1 + 2j/N, K being divided by N.

    Examples:
        >>> cell_shares(2, 2)
        array([[0.75 , 0.125, 0.   ],
               [0.25 , 0.75 , 0.25 ],
               [0.   , 0.125, 0.75 ]])
    """
    ends = np.concatenate([[0.0], np.arange(steps) + 0.5, [float(steps)]]) * (spacings / steps)
    gap = np.clip(ends[:, None] - np.arange(spacings + 1), -1.0, 1.0)
    below = 0.5 + gap - 0.5 * gap * np.abs(gap)  # the share of a whole hat below an end
    shares = np.diff(below, axis=0)
    return np.asarray(shares / shares.sum(axis=0))
