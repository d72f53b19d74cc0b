r"""Penalized maximum likelihood on a grid: the density that reports are of.

For the logarithms g of a density at the nodes, weights p of their hats, reports of counts $n_y$ and the
probabilities $(A p)_y$ that a channel gives them, what is maximized is

$$ \sum_y n_y \ln (A p)_y − \frac{λ}{2} \int |∇g|^2 . $$

The likelihood alone is maximal at spikes: deconvolution is ill-posed, and where nobody is, it finds as
many as the noise of the reports allows. The **logarithm** is what tells a curve, whose flanks are steep
once, from a few people far from it, who would be steep everywhere; in the plane the penalty of a bump
is the same whatever its size. The strength **λ = 0.1** is a number of nats, the same for all ε and n: a
prior, chosen on public synthetic people (`python -m studies reports.priors`).

Where another density is likely, which earlier people taught, g in the penalty is the logarithm of the
**ratio** to this reference: reports say what differs, and where they say nothing, people are as there.

The maximum is found by a quasi-Newton method in coordinates in which the penalty is nearly round: the
cosines of the grid, each divided by the root of its roughness. Everything is deterministic.

Privacy: a function of the reports' counts, hence post-processing.

References:
    Silverman, *On the estimation of a probability density function by the maximum penalized likelihood
    method* (1982). Hjort, Glad, *Nonparametric density estimation with a parametric start* (1995). Liu,
    Nocedal, *On the limited memory BFGS method for large scale optimization* (1989).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
import scipy
from numpy.typing import NDArray

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
        size = self._scales.size
        wide = self._scales * scipy.fft.dctn(flat[:size].reshape(self.shape), type=1, norm="ortho")
        return np.append(scipy.fft.idctn(wide, type=1, norm="ortho").ravel(), flat[size:])


@dataclass(frozen=True, eq=False)
class _Misfit:
    """What is minimized, of coordinates of the logarithm of the ratio to a reference.

    Arguments:
        channel: The reports.
        nodes: Which nodes may hold any (K+1, …, K+1).
        strength: λ.
        reference: Logarithms.
    """

    channel: GridChannel
    nodes: NDArray[np.bool_]
    strength: float
    reference: Array

    @cached_property
    def hats(self) -> Hats:
        return Hats.of(self.nodes, len(self.reference))

    @cached_property
    def cosines(self) -> _Cosines:
        return _Cosines(self.nodes.shape, self.strength)

    def weights(self, at: Array) -> Array:
        return self.hats.weights(self.reference + self.cosines(at))

    def __call__(self, at: Array) -> tuple[float, Array]:
        ratio = self.cosines(at)
        weights = self.hats.weights(self.reference + ratio)
        counts, law = self.channel.counts, self.channel.forward(weights)
        told = counts > 0
        rough, rise = roughness(ratio[: self.nodes.size].reshape(self.nodes.shape))
        slope = weights * (counts.sum() - self.channel.back(counts / law))
        slope[: self.nodes.size] += self.strength * rise.ravel()
        misfit = self.strength * rough - float(counts[told] @ np.log(law[told]))
        return misfit, self.cosines(slope)


def deconvolve(
    channel: GridChannel,
    nodes: NDArray[np.bool_],
    *,
    strength: float = STRENGTH,
    reference: Array | None = None,
    most_steps: int | None = None,
    tolerance: float = _TOLERANCE,
    patience: Patience | None = None,
) -> Fitted:
    """Weights of the nodes that may hold any, and of missing values where there are any.

    Arguments:
        channel: The reports.
        nodes: Which nodes may hold any (K+1, …, K+1).
        strength: λ.
        reference: Weights that are likely: the penalty is that of the ratio to them. Flat by default.
        most_steps: 1000 by default.
        tolerance: A step that gains fewer nats than this, over all reports, is the last.
        patience: Asked after every step whether it is the last.
    """
    hats = Hats.of(nodes, len(channel.back(channel.counts)))
    around = np.zeros(len(hats.volumes)) if reference is None else hats.logs(reference)
    misfit = _Misfit(channel, nodes, strength, around)
    counts = channel.counts[channel.counts > 0]
    least = -float(counts @ np.log(counts / counts.sum()))  # whatever the density

    def stop_here(at: Array) -> None:
        if patience is not None and patience.over():
            raise StopIteration

    found = scipy.optimize.minimize(
        misfit,
        np.zeros(len(around)),
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
    return Fitted(misfit.weights(found.x), int(found.nit))
