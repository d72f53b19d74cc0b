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

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Protocol

import numpy as np
import scipy
from numpy.typing import NDArray

from privot.local.grid.channels import GridChannel
from privot.schema.domains import Array
from privot.training import Patience

# Weights of a grid by the logarithms of a density at its nodes, on which priors are.
#
# A density $e^{g}$ at a node gives its hat the weight $v e^{g} / \sum v e^{g}$, $v$ the hat's volume:
# 1, and half of it at every end. Missing values have a logarithm too, as if of all hats together.


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


# A density on the line, averaged over how smooth it may be by the evidence of the reports.
#
# The logarithms g of a density's values at the nodes have a Gaussian prior of precision $λ \int
# (g^{(m)})^2$, which knows nothing of the polynomials below degree m and asks nothing of g at the
# bounds: a density may be highest there. With **m = 1** it is flat where reports say nothing, with
# **m = 2** it falls or rises exponentially. For each m and λ the most likely g is found by Fisher
# scoring, and what the reports then say for that prior is Laplace's approximation of its
# **evidence**,
#
# $$ \ln P(\text{reports} \mid m, λ) ≈ ℓ(\hat g) − \tfrac12 \hat g^⊤ Λ \hat g + \tfrac12 \ln \det Λ
#    − \tfrac12 \ln \det (I(\hat g) + Λ) , $$
#
# Λ the prior's precision, I the Fisher information of g. The densities are averaged by their evidence:
# nothing is left to choose, for any ε and n, but orders: on public synthetic people
# (`python -m studies reports.priors`). Everything is deterministic.
#
# Privacy: a function of the reports' counts, hence post-processing.
#
# References:
#     Silverman, *On the estimation of a probability density function by the maximum penalized likelihood
#     method* (1982). MacKay, *Bayesian interpolation* (1992).


ORDERS = (1, 2)  # m
_STRENGTHS = np.logspace(2, -10, 25)  # λ, until the evidence has fallen
_FALLEN = 8.0  # nats
_RANK = 128  # of g: the smoothest shapes
_VAGUE = 5.0  # standard deviation of what no λ weighs: slope, share of missing values
_MOST_STEPS = 200
_EVIDENCE_TOLERANCE = 1e-3  # nats
_LONGEST = 3.0  # change of g in a step


@dataclass(frozen=True, eq=False)
class Shapes:
    """The prior of one order: g is a sum of shapes, a missing value's logarithm one of its own.

    Arguments:
        basis: Of shapes (weights, shapes), the missing share's last.
        rough: $\\int (g^{(m)})^2$ of each; 0 of those that no strength weighs.
        vague: The precision of those.
    """

    basis: Array
    rough: Array
    vague: Array

    @classmethod
    def of(cls, order: int, axis: Array, weights: int, alone: Sequence[int] = ()) -> Shapes:
        """The smoothest of the order, at places of [−1, 1]; further weights are free.

        Arguments:
            order: m.
            axis: Places of the nodes, increasing.
            weights: Of the nodes, and further ones.
            alone: Nodes that may stand out: each has a logarithm beside that of the curve.
        """
        nodes = len(axis)
        polynomials = np.linalg.qr(np.vander(axis, order, increasing=True))[0][:, 1:]
        rough, shapes = np.linalg.eigh(roughness_of(order, axis))
        rough, shapes = rough[order:_RANK], shapes[:, order:_RANK]
        own = np.eye(weights)[:, [*alone, *range(nodes, weights)]]
        flat = np.zeros((weights, order - 1 + len(rough)))
        flat[:nodes] = np.hstack([polynomials, shapes])
        basis = np.hstack([flat[:, : order - 1], own, flat[:, order - 1 :]])
        vague = np.zeros(basis.shape[1])
        vague[: order - 1], vague[order - 1 : order - 1 + own.shape[1]] = nodes**-1.0, 1.0
        none = np.zeros(order - 1 + own.shape[1])
        return cls(basis, np.append(none, rough), vague / _VAGUE**2)


def roughness_of(order: int, axis: Array) -> Array:
    r"""The matrix of $\int (g^{(m)})^2$ by the values of g at places (n,), for m = 1 or 2.

    Examples:
        >>> axis = np.array([-1.0, 0.0, 0.5, 1.0])
        >>> line, bend = 3 * axis, axis**2
        >>> round(float(line @ roughness_of(1, axis) @ line)), round(bend @ roughness_of(2, axis) @ bend)
        (18, 5)
    """
    gaps = np.diff(axis)
    slopes = np.diff(np.eye(len(axis)), axis=0) / gaps[:, None]
    for _ in range(order - 1):
        gaps = (gaps[1:] + gaps[:-1]) / 2
        slopes = np.diff(slopes, axis=0) / gaps[:, None]
    return np.asarray((slopes.T * gaps) @ slopes)


class Likelihood(Protocol):
    """Of reports, by weights whose logarithms a prior is on."""

    @property
    def hats(self) -> Hats:
        """Of the weights."""

    def value(self, weights: Array) -> float:
        """Up to a constant."""

    def slope(self, weights: Array) -> Array:
        """By each weight."""

    def information(self, weights: Array, change: Array) -> Array:
        """Fisher's, of shapes that change weights by the columns of `change`."""


@dataclass(frozen=True, eq=False)
class CountLikelihood:
    """Of reports that are counted.

    Arguments:
        counts: Of reports.
        law: P(report | weight), (reports, weights).
        hats: Of the weights.
    """

    counts: Array
    law: Array
    hats: Hats

    def value(self, weights: Array) -> float:
        """See `Likelihood`."""
        return float(self.counts @ np.log(self.law @ weights))

    def slope(self, weights: Array) -> Array:
        """See `Likelihood`."""
        return np.asarray(self.law.T @ (self.counts / (self.law @ weights)))

    def information(self, weights: Array, change: Array) -> Array:
        """See `Likelihood`."""
        moved = self.law @ change
        return np.asarray((moved.T * (self.counts.sum() / (self.law @ weights))) @ moved)


def ascend(
    likelihood: Likelihood, shapes: Shapes, strength: float, start: Array, most_steps: int
) -> tuple[Array, float, int]:
    """The most likely coefficients, their evidence, and the steps made."""
    precision = strength * shapes.rough + shapes.vague
    basis, hats = shapes.basis, likelihood.hats

    def value(at: Array) -> float:
        return likelihood.value(hats.weights(basis @ at)) - float(precision @ at**2 / 2)

    at, reached, done, gain = start, value(start), 0, np.inf
    while True:
        weights = hats.weights(basis @ at)
        change = weights[:, None] * (basis - weights @ basis)
        slope = change.T @ likelihood.slope(weights) - precision * at
        factor = scipy.linalg.cho_factor(
            likelihood.information(weights, change) + np.diag(precision)
        )
        step = scipy.linalg.cho_solve(factor, slope)
        gain = float(slope @ step)
        if gain < _EVIDENCE_TOLERANCE or done == most_steps:
            break
        step *= min(1.0, _LONGEST / np.abs(basis @ step).max())
        while (after := value(at + step)) < reached and np.abs(step).max() > 1e-9:
            step = step / 2
        at, reached, done = at + step, after, done + 1
    volume = np.log(np.diag(factor[0])).sum() - np.log(precision).sum() / 2
    return at, reached - float(volume), done


@dataclass(frozen=True, eq=False)
class Averaged:
    """What all strengths and orders say together.

    Arguments:
        fitted: The average.
        evidence: Its logarithm, up to a constant.
    """

    fitted: Fitted
    evidence: float


def average(
    likelihood: Likelihood,
    family: Sequence[Shapes],
    *,
    strengths: Sequence[float] | Array = _STRENGTHS,
    most_steps: int = _MOST_STEPS,
    patience: Patience | None = None,
) -> Averaged:
    """Weights by the evidence of all strengths of every order's shapes.

    Arguments:
        likelihood: Of the weights.
        family: Shapes of one or several orders.
        strengths: λ, falling.
        most_steps: For each strength.
        patience: Asked after every strength whether it is the last.
    """
    found, evidence, steps = list[Array](), list[float](), 0
    for shapes in family:
        at, best = np.zeros(shapes.basis.shape[1]), -np.inf
        for strength in strengths:
            at, told, done = ascend(likelihood, shapes, strength, at, most_steps)
            steps += done
            found.append(likelihood.hats.weights(shapes.basis @ at))
            evidence.append(told)
            best = max(best, told)
            if told < best - _FALLEN or (patience is not None and patience.over()):
                break
    shares = np.exp(np.array(evidence) - max(evidence))
    weights = shares @ np.array(found) / shares.sum()
    return Averaged(Fitted(weights, steps), max(evidence) + float(np.log(shares.sum())))


def average_by_evidence(
    channel: GridChannel,
    *,
    orders: Sequence[int] = ORDERS,
    most_steps: int | None = None,
    patience: Patience | None = None,
) -> Fitted:
    """Weights of the nodes of a line, and of missing values where there are any.

    Arguments:
        channel: The reports.
        orders: m.
        most_steps: For each strength.
        patience: Asked after every strength whether it is the last.
    """
    size, nodes = len(channel.back(channel.counts)), channel.spacings + 1
    law = np.stack([channel.forward(one) for one in np.eye(size)], axis=1)
    likelihood = CountLikelihood(channel.counts, law, Hats.of(np.ones(nodes, bool), size))
    family = [Shapes.of(order, np.linspace(-1, 1, nodes), size) for order in orders]
    most = most_steps or _MOST_STEPS
    return average(likelihood, family, most_steps=most, patience=patience).fitted
