r"""Weights of a grid by the logarithms of a density at its nodes, on which priors are.

A density $e^{g}$ at a node gives its hat the weight $v e^{g} / \sum v e^{g}$, $v$ the hat's volume: 1,
and half of it at every end. Missing values have a logarithm too, as if of all hats together.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from privot.schema import Array

_LEAST = 1e-300  # of a density, over its largest


@dataclass(frozen=True, eq=False)
class Hats:
    """What the hats of a grid hold.

    Arguments:
        volumes: Flat, of the nodes; then of missing values, if there are any. 0 where nobody may be.
    """

    volumes: Array

    @classmethod
    def of(cls, nodes: NDArray[np.bool_], num_weights: int) -> Hats:
        """Those of the nodes that may hold any (K+1, …, K+1), among so many weights.

        Examples:
            >>> Hats.of(np.ones(3, bool), 4).volumes
            array([0.5, 1. , 0.5, 2. ])
        """
        one = np.ones(len(nodes))
        one[[0, -1]] = 0.5
        volumes = (reduce(np.multiply.outer, [one] * nodes.ndim) * nodes).ravel()
        return cls(np.append(volumes, np.full(num_weights - nodes.size, volumes.sum())))

    def weights(self, logs: Array) -> Array:
        """1 in sum."""
        found = self.volumes * np.exp(logs - logs.max())
        return np.asarray(found / found.sum())

    def logs(self, weights: Array) -> Array:
        """Logarithms that have these weights, their largest 0; no lower than −690.

        Examples:
            >>> hats = Hats.of(np.ones(3, bool), 3)
            >>> hats.weights(hats.logs(np.array([0.2, 0.6, 0.2])))
            array([0.2, 0.6, 0.2])
        """
        densities = weights / np.where(self.volumes > 0, self.volumes, 1.0)
        return np.asarray(np.log(np.maximum(densities / densities.max(), _LEAST)))


@dataclass(frozen=True, eq=False)
class Fitted:
    """What was found.

    Arguments:
        weights: Flat, as a channel takes them, 1 in sum.
        steps: How many were made.
    """

    weights: Array
    steps: int
