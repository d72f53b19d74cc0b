r"""Small networks as plain arrays, evaluated by NumPy.

A network is trained by PyTorch (`privot.integral.learners.classifiers`) and kept as its weights.
Drawing needs no PyTorch, and a saved model is arrays and nothing else.

$$ f(x) = W_L φ(… φ(W_1 u + b_1) …) + b_L , \qquad u = \text{features of } x , $$

and, where a bound $β$ is set, $c(x) = β \tanh(f(x)/β) ∈ [−β, β]$: bounded by construction, whatever the
weights are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np

from privot.errors import PrivotError
from privot.integral.densities.secure import Array

Activation = Literal["tanh", "silu"]
_BLOCK = 2**15


@dataclass(frozen=True, repr=False)
class Network:
    """Weights and biases of the layers, first to last; `bound` limits the output.

    Examples:
        >>> net = Network((np.eye(2), np.ones((1, 2))), (np.zeros(2), np.zeros(1)), bound=0.5)
        >>> bool((np.abs(net(np.array([[9.0, 9.0], [-9.0, 0.0]]))) <= 0.5).all())
        True
    """

    weights: tuple[Array, ...]
    biases: tuple[Array, ...]
    activation: Activation = "tanh"
    bound: float | None = None

    def __call__(self, features: Array) -> Array:
        """Outputs (n,) for features (n, k)."""
        parts = [self._forward(features[i : i + _BLOCK]) for i in range(0, len(features), _BLOCK)]
        return np.concatenate(parts) if parts else np.empty(0)

    def _forward(self, u: Array) -> Array:
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            u = u @ weight.T + bias
            u = np.tanh(u) if self.activation == "tanh" else _silu(u)
        f: Array = (u @ self.weights[-1].T + self.biases[-1])[:, 0]
        return f if self.bound is None else self.bound * np.tanh(f / self.bound)

    def spec(self) -> dict[str, Any]:
        """What the arrays do not say."""
        return {"kind": "mlp", "activation": self.activation, "bound": self.bound}

    def arrays(self, prefix: str) -> dict[str, Array]:
        """Named arrays to be written."""
        named = {f"{prefix}weight{i}": weight for i, weight in enumerate(self.weights)}
        return named | {f"{prefix}bias{i}": bias for i, bias in enumerate(self.biases)}

    @classmethod
    def from_arrays(
        cls,
        arrays: Mapping[str, Array],
        prefix: str,
        activation: Activation,
        bound: float | None,
    ) -> Self:
        """The network whose arrays were written under this prefix."""
        if activation not in ("tanh", "silu"):
            raise PrivotError(f"activation is {activation!r}: only 'tanh' and 'silu' are known")
        depth = sum(name.startswith(f"{prefix}weight") for name in arrays)
        weights = tuple(arrays[f"{prefix}weight{i}"] for i in range(depth))
        biases = tuple(arrays[f"{prefix}bias{i}"] for i in range(depth))
        return cls(weights, biases, activation, bound)


def _silu(u: Array) -> Array:
    return np.asarray(u * (0.5 + 0.5 * np.tanh(0.5 * u)), np.float64)
