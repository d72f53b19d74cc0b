r"""Penalized maximum likelihood on a grid: the density that reports are of.

For the logarithms g of a density at the nodes, weights p of their hats, reports of counts $n_y$ and the
probabilities $(A p)_y$ that a channel gives them, what is maximized is

$$ \sum_y n_y \ln (A p)_y − \frac{λ}{2} \int |∇g|^2 . $$

The likelihood alone is maximal at spikes: deconvolution is ill-posed, and where nobody is, it finds as
many as the noise of the reports allows. The **logarithm** is what tells a curve, whose flanks are steep
once, from a few people far from it, who would be steep everywhere; in the plane the penalty of a bump
is the same whatever its size. The strength **λ = 0.1** is a number of nats, the same for all ε and n: a
prior, chosen on public synthetic people (`python -m studies reports.priors`).

The maximum is found by a quasi-Newton method in coordinates in which the penalty is nearly round: the
cosines of the grid, each divided by the root of its roughness. Everything is deterministic.

Privacy: a function of the reports' counts, hence post-processing.

References:
    Silverman, *On the estimation of a probability density function by the maximum penalized likelihood
    method* (1982). Liu, Nocedal, *On the limited memory BFGS method for large scale optimization*
    (1989).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
from numpy.typing import NDArray
from scipy import fft
from scipy.optimize import minimize

from privot.local.grid.channels import GridChannel
from privot.local.grid.logarithms import Fitted, Hats
from privot.schema import Array
from privot.training import Patience

STRENGTH = 0.1  # λ
MOST_STEPS = 1000
_TOLERANCE = 0.01  # nats that a step gains, over all reports
_MEMORY = 20
_FREE = 3.0  # precision of the coordinates that no penalty weighs


def roughness(logs: Array) -> tuple[float, Array]:
    r"""$\int |∇g|^2 / 2$ of g at all nodes (K+1, …, K+1), and its slope by each.

    Examples:
        >>> axis = np.linspace(-1, 1, 65)
        >>> round(roughness(np.add.outer(3 * axis, 0 * axis))[0])  # 3² / 2, over a square of 4
        18
    """
    volume = (2 / (len(logs) - 1)) ** (logs.ndim - 2)
    total, slope = 0.0, np.zeros_like(logs)
    for axis in range(logs.ndim):
        rise = np.diff(logs, axis=axis)
        total += float((rise**2).sum())
        edge = [(1, 1) if a == axis else (0, 0) for a in range(logs.ndim)]
        slope -= np.diff(np.pad(rise, edge), axis=axis)
    return total * volume / 2, slope * volume


@dataclass(frozen=True, eq=False)
class _Cosines:
    """Coordinates in which the penalty is nearly round.

    Arguments:
        shape: Of the grid.
        strength: λ.
    """

    shape: tuple[int, ...]
    strength: float

    @cached_property
    def _scales(self) -> Array:
        last = self.shape[0] - 1
        bends = 2 - 2 * np.cos(np.pi * np.arange(last + 1) / last)
        rough = reduce(np.add.outer, [bends] * len(self.shape)) * (2 / last) ** (
            len(self.shape) - 2
        )
        return np.asarray((_FREE + self.strength * rough) ** -0.5)

    def __call__(self, flat: Array) -> Array:
        """From coordinates to logarithms; of slopes, the way back. What is not of a node stays."""
        return self._scaled(flat, self._scales)

    def coordinates(self, logs: Array) -> Array:
        """Of logarithms."""
        return self._scaled(logs, 1 / self._scales)

    def _scaled(self, flat: Array, scales: Array) -> Array:
        size = scales.size
        wide = scales * fft.dctn(flat[:size].reshape(self.shape), type=1, norm="ortho")
        return np.append(fft.idctn(wide, type=1, norm="ortho").ravel(), flat[size:])


@dataclass(frozen=True, eq=False)
class _Misfit:
    """What is minimized, of the coordinates of all terms: see `deconvolve_jointly`."""

    channels: Sequence[GridChannel]
    basis: Array
    nodes: NDArray[np.bool_]
    strengths: Sequence[float]

    @cached_property
    def hats(self) -> Hats:
        first = self.channels[0]
        return Hats.of(self.nodes, len(first.back(first.counts)))

    @cached_property
    def _cosines(self) -> list[_Cosines]:
        return [_Cosines(self.nodes.shape, strength) for strength in self.strengths]

    def logs(self, at: Array) -> Array:
        """Logarithms (terms, k)."""
        pieces = at.reshape(len(self.strengths), -1)
        return np.stack([own(piece) for own, piece in zip(self._cosines, pieces, strict=True)])

    def coordinates(self, logs: Array) -> Array:
        """Of logarithms (terms, k)."""
        return np.concatenate(
            [own.coordinates(log) for own, log in zip(self._cosines, logs, strict=True)]
        )

    def __call__(self, at: Array) -> tuple[float, Array]:
        logs, total = self.logs(at), 0.0
        slopes = np.zeros_like(logs)
        for channel, term in zip(self.channels, self.basis, strict=True):
            weights, counts, told = (
                self.hats.weights(term @ logs),
                channel.counts,
                channel.counts > 0,
            )
            law = channel.forward(weights)
            total -= float(counts[told] @ np.log(law[told]))
            slopes += term[:, None] * (weights * (counts.sum() - channel.back(counts / law)))
        for strength, log, slope in zip(self.strengths, logs, slopes, strict=True):
            rough, rise = roughness(log[: self.nodes.size].reshape(self.nodes.shape))
            total += strength * rough
            slope[: self.nodes.size] += strength * rise.ravel()
        own = [cosines(slope) for cosines, slope in zip(self._cosines, slopes, strict=True)]
        return total, np.concatenate(own)


def deconvolve(
    channel: GridChannel,
    nodes: NDArray[np.bool_],
    *,
    strength: float = STRENGTH,
    most_steps: int | None = None,
    tolerance: float = _TOLERANCE,
    patience: Patience | None = None,
) -> Fitted:
    """Weights of the nodes that may hold any, and of missing values where there are any.

    Arguments:
        channel: The reports.
        nodes: Which nodes may hold any (K+1, …, K+1).
        strength: λ.
        most_steps: 1000 by default.
        tolerance: A step that gains fewer nats than this, over all reports, is the last.
        patience: Asked after every step whether it is the last.
    """
    logs, steps = deconvolve_jointly(
        [channel],
        np.ones((1, 1)),
        nodes,
        [strength],
        most_steps=most_steps,
        tolerance=tolerance,
        patience=patience,
    )
    return Fitted(Hats.of(nodes, logs.shape[1]).weights(logs[0]), steps)


def deconvolve_jointly(
    channels: Sequence[GridChannel],
    basis: Array,
    nodes: NDArray[np.bool_],
    strengths: Sequence[float],
    *,
    start: Array | None = None,
    most_steps: int | None = None,
    tolerance: float = _TOLERANCE,
    patience: Patience | None = None,
) -> tuple[Array, int]:
    r"""Logarithms $a_j$ (terms, k) of densities $g_b = \sum_j φ_{bj} a_j$ that share them, and steps.

    Each term has a penalty of its own, $λ_j/2 \int |∇a_j|^2$.

    Arguments:
        channels: The reports of each density.
        basis: φ (densities, terms).
        nodes: Which nodes may hold any (K+1, …, K+1).
        strengths: λ of each term.
        start: Logarithms to start from; 0 by default.
        most_steps: 1000 by default.
        tolerance: A step that gains fewer nats than this, over all reports, is the last.
        patience: Asked after every step whether it is the last.
    """
    misfit = _Misfit(channels, basis, nodes, strengths)
    counts = np.concatenate([channel.counts[channel.counts > 0] for channel in channels])
    least = -float(counts @ np.log(counts / counts.sum()))  # whatever the densities

    def stop_here(at: Array) -> None:
        if patience is not None and patience.over():
            raise StopIteration

    if start is None:
        start = np.zeros((len(strengths), len(misfit.hats.volumes)))
    found = minimize(
        misfit,
        misfit.coordinates(start),
        jac=True,
        method="L-BFGS-B",
        callback=stop_here,
        options={
            "maxiter": MOST_STEPS if most_steps is None else most_steps,
            "maxfun": 10**9,
            "maxcor": _MEMORY,
            "ftol": tolerance / max(least, 1.0),
            "gtol": 0.0,
        },
    )
    return misfit.logs(found.x), int(found.nit)
