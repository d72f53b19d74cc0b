r"""Deconvolution on a grid: penalized maximum likelihood, and averages over penalties by evidence.

**Weights.** A density proportional to $e^{g}$ at the nodes has the weights $p = v e^{g} / \sum v e^{g}$
of the hats (`privot.local.grid_channels`), where the volume $v$ of a hat is 1, halved for every
coordinate at an end. Missing values also have a value of g, whose volume is the sum of the hats'.

**Fixed penalty** (`deconvolve`). With counts $n_y$ of reports and their probabilities $(A p)_y$ by the
channel, the objective to maximize is

$$ \sum_y n_y \ln (A p)_y − \frac{λ}{2} \int |∇g|^2 . $$

Deconvolution is ill-posed: the likelihood alone is maximal at spikes that fit the noise, above all where
the density is low. The penalty on the **logarithm** admits the steep flanks of a peak, but not many
small spikes; in the plane the penalty of a bump does not depend on its width. The strength λ = 0.1, in
nats, is the same for all ε and n; it was chosen on synthetic data (`python -m studies reports.priors`).

With a reference density, g in the penalty is the logarithm of the **ratio** to the reference, so the
estimate equals the reference unless the reports contradict it.

The maximum is found by a quasi-Newton method in coordinates that make the penalty nearly isotropic:
coefficients of the grid's cosines, each multiplied by the root of the cosine's roughness.

**Average over penalties** in one dimension (`average_by_evidence`). The logarithms g have a Gaussian
prior with log density $−\frac{λ}{2} \int (g^{(m)})^2$, which penalizes neither polynomials of a degree
below m nor large values at the bounds. Where reports have no information, the estimate is flat for
**m = 1**, and falls or rises exponentially for **m = 2**. For each m and λ the mode of g is found by
Fisher scoring, and Laplace's approximation gives the **evidence**,

$$ \ln P(\text{reports} \mid m, λ) ≈ ℓ(\hat g) − \tfrac12 \hat g^⊤ Λ \hat g + \tfrac12 \ln \det Λ
   − \tfrac12 \ln \det (I(\hat g) + Λ) , $$

where Λ is the precision of the prior, ℓ the log-likelihood, and I the Fisher information of g. The
densities are averaged with their evidence as weights. The orders m were chosen by the same study.

**Models** (`fit_density`) are fitted so to windows, whose likelihood is piecewise constant and has no
gradient for a generator, and to noise, where a grid is as accurate and faster. Nodes grow exponentially
with the coordinates: beyond three a generator is fitted.

Both fits are deterministic. Privacy: functions of the reports' counts, hence post-processing.

References:
    Silverman, *On the estimation of a probability density function by the maximum penalized likelihood
    method* (1982). Hjort, Glad, *Nonparametric density estimation with a parametric start* (1995). Liu,
    Nocedal, *On the limited memory BFGS method for large scale optimization* (1989). MacKay, *Bayesian
    interpolation* (1992).
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import NamedTuple, Self

import numpy as np
import scipy
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from privot.core.errors import PrivotError
from privot.local.grid_channels import (
    GridChannel,
    GridDensity,
    GridSampler,
    allowed_nodes,
    grid_channel,
)
from privot.local.model import LocalModel
from privot.local.releases import Releases
from privot.mechanisms.forms import SPACINGS
from privot.randomizer.reports.counts import grid_form
from privot.schema.domains import Array
from privot.training import FitMonitor

# Fixed penalty.
STRENGTH = 0.1  # λ
MAX_STEPS = 1000
_TOLERANCE = 0.01  # the ascent stops after a step that gains fewer nats over all reports
_MEMORY = 20  # pairs of vectors that L-BFGS stores
_FREE_PRECISION = 3.0  # precision added to all coordinates, since the penalty of the constant is 0
_FLOOR = 1e-300  # least density relative to its maximum, so that its logarithm is finite

# Average over penalties.
ORDERS = (1, 2)  # m
_STRENGTHS = np.logspace(2, -10, 25)  # values of λ, tried in decreasing order
_EVIDENCE_DROP = 8.0  # nats below the best evidence at which smaller λ are not tried
_MAX_SHAPES = 128  # number of the smoothest eigenvectors of the roughness, which span g
_FREE_STDDEV = 5.0  # prior deviation of coefficients that λ does not penalize
_MAX_EVIDENCE_STEPS = 200
_EVIDENCE_TOLERANCE = 1e-3  # expected gain of a step, in nats, below which the ascent stops
_MAX_CHANGE = 3.0  # largest change of g in a step
_MIN_CHANGE = 1e-9  # change of coefficients below which a step is not halved again


@dataclass(frozen=True, eq=False)
class Hats:
    """Hat functions of a grid, which convert logarithms of a density to weights and back."""

    volumes: Array  # volumes v (weights,): of nodes, 0 outside the domain, then of missing values

    @classmethod
    def of(cls, nodes: NDArray[np.bool_], num_weights: int) -> Self:
        """Build the hats of a mask (K+1, …, K+1) of allowed nodes, and of missing values in the rest.

        Examples:
            >>> Hats.of(np.ones(3, bool), 4).volumes
            array([0.5, 1. , 0.5, 2. ])
        """
        one = np.ones(len(nodes))
        one[[0, -1]] = 0.5
        volumes = (reduce(np.multiply.outer, [one] * nodes.ndim) * nodes).ravel()
        return cls(np.append(volumes, np.full(num_weights - nodes.size, volumes.sum())))

    def weights(self, logs: Array) -> Array:
        """Convert logarithms g of the density (weights,), up to a constant, to weights with sum 1."""
        unnormalized = self.volumes * np.exp(logs - logs.max())
        return np.asarray(unnormalized / unnormalized.sum())

    def logs(self, weights: Array) -> Array:
        """Convert weights to logarithms of the density (weights,), with maximum 0."""
        densities = weights / np.where(self.volumes > 0, self.volumes, 1.0)
        return np.asarray(np.log(np.maximum(densities / densities.max(), _FLOOR)))


@dataclass(frozen=True, eq=False)
class GridFit:
    """Fitted weights, and facts of the fit."""

    weights: Array  # flat weights with sum 1, in the channel's order
    steps: int  # number of steps of all ascents
    evidence: float = np.nan  # log evidence of an average over priors, up to a constant


def roughness(logs: Array) -> tuple[float, Array]:
    r"""Compute $\int |∇g|^2 / 2$ and its gradient in the values g at all nodes (K+1, …, K+1).

    Examples:
        >>> axis = np.linspace(-1, 1, 65)
        >>> round(roughness(np.add.outer(3 * axis, 0 * axis))[0])  # 3² / 2, over a square of 4
        18
    """
    scale = (2 / (len(logs) - 1)) ** (logs.ndim - 2)  # volume of a cell / squared spacing
    total, slope = 0.0, np.zeros_like(logs)
    for axis in range(logs.ndim):
        rise = np.diff(logs, axis=axis)
        total += float((rise**2).sum())
        padding = [(1, 1) if other == axis else (0, 0) for other in range(logs.ndim)]
        slope -= np.diff(np.pad(rise, padding), axis=axis)
    return total * scale / 2, slope * scale


@dataclass(frozen=True, eq=False)
class _Objective:
    """Negative objective, as a function of the cosine coordinates of the log ratio to a reference."""

    channel: GridChannel  # channel of the reports
    shape: tuple[int, ...]  # shape of the grid, (K+1, …, K+1)
    strength: float  # λ
    hats: Hats
    reference: Array  # logarithms of the reference density (weights,)

    @cached_property
    def _scales(self) -> Array:
        """Inverse roots of the cosines' precisions, in the shape of the grid."""
        last, axes = self.shape[0] - 1, len(self.shape)
        axis_roughness = 2 - 2 * np.cos(np.pi * np.arange(last + 1) / last)
        total = reduce(np.add.outer, [axis_roughness] * axes) * (2 / last) ** (axes - 2)
        return np.asarray((_FREE_PRECISION + self.strength * total) ** -0.5)

    def _transform(self, flat: Array) -> Array:
        """Map coordinates to logarithms at the nodes; the entry of missing values is unchanged.

        The map is symmetric, so it also maps gradients in the logarithms to gradients in coordinates.
        """
        size = self._scales.size
        cosines = scipy.fft.dctn(flat[:size].reshape(self.shape), type=1, norm="ortho")
        nodes = scipy.fft.idctn(self._scales * cosines, type=1, norm="ortho")
        return np.append(nodes.ravel(), flat[size:])

    def weights(self, coordinates: Array) -> Array:
        return self.hats.weights(self.reference + self._transform(coordinates))

    def value_and_gradient(self, coordinates: Array) -> tuple[float, Array]:
        ratio, num_nodes = self._transform(coordinates), self._scales.size
        weights = self.hats.weights(self.reference + ratio)
        counts, probabilities = self.channel.counts, self.channel.forward(weights)
        sent = counts > 0
        rough, rough_slope = roughness(ratio[:num_nodes].reshape(self.shape))
        # Since the weights p are normalized, −Σ n ln A p has the slope p (Σ n − Aᵀ(n / A p)) in g.
        slope = weights * (counts.sum() - self.channel.back(counts / probabilities))
        slope[:num_nodes] += self.strength * rough_slope.ravel()
        value = self.strength * rough - float(counts[sent] @ np.log(probabilities[sent]))
        return value, self._transform(slope)


def deconvolve(
    channel: GridChannel,
    nodes: NDArray[np.bool_],
    *,
    strength: float = STRENGTH,
    reference: Array | None = None,
    max_steps: int | None = None,
    tolerance: float = _TOLERANCE,
    monitor: FitMonitor | None = None,
) -> GridFit:
    """Fit the weights of the allowed nodes, and of missing values, by penalized likelihood.

    Arguments:
        channel: Channel of the reports.
        nodes: Mask of the allowed nodes (K+1, …, K+1).
        strength: λ.
        reference: Flat weights of the reference density; by default a uniform density.
        max_steps: Most steps; 1000 by default.
        tolerance: The ascent stops after a step that gains fewer nats over all reports.
        monitor: Time limit and interruption of the ascent; none by default.
    """
    hats = Hats.of(nodes, len(channel.back(channel.counts)))
    reference_logs = np.zeros(len(hats.volumes)) if reference is None else hats.logs(reference)
    objective = _Objective(channel, nodes.shape, strength, hats, reference_logs)
    counts = channel.counts[channel.counts > 0]
    floor = -float(counts @ np.log(counts / counts.sum()))  # lower bound of the objective

    def stop_if_over(_: Array) -> None:
        if monitor is not None and monitor.over():
            raise StopIteration

    minimum = scipy.optimize.minimize(
        objective.value_and_gradient,
        np.zeros(len(reference_logs)),
        jac=True,
        method="L-BFGS-B",
        callback=stop_if_over,
        options={
            "maxiter": max_steps or MAX_STEPS,
            "maxfun": 10**9,
            "maxcor": _MEMORY,
            "ftol": tolerance / max(floor, 1.0),  # relative to the objective
            "gtol": 0.0,
        },
    )
    return GridFit(objective.weights(minimum.x), int(minimum.nit))


@dataclass(frozen=True, eq=False)
class SmoothPrior:
    """Gaussian prior of one order m: g is a linear combination of basis functions.

    The basis consists of functions that λ does not penalize (polynomials of degrees below m, indicators
    of peaks and of missing values) and of the smoothest eigenvectors of the roughness.
    """

    basis: Array  # basis functions as columns (weights, functions)
    roughness: Array  # $\int (g^{(m)})^2$ of each function, 0 if λ does not penalize it
    free_precision: Array  # precision of the functions that λ does not penalize; 0 for the others

    @classmethod
    def of(cls, order: int, axis: Array, num_weights: int, peaks: Sequence[int] = ()) -> Self:
        """Build the prior of an order.

        Arguments:
            order: m.
            axis: Positions of the nodes in [−1, 1], increasing (nodes,).
            num_weights: Number of weights: of the nodes, then of missing values.
            peaks: Numbers of the nodes at which g may deviate from a smooth curve.
        """
        num_nodes = len(axis)
        # Constants are left out, because adding one to g does not change the weights.
        polynomials = np.linalg.qr(np.vander(axis, order, increasing=True))[0][:, 1:]
        values, vectors = np.linalg.eigh(roughness_of(order, axis))
        values, vectors = values[order:_MAX_SHAPES], vectors[:, order:_MAX_SHAPES]
        indicators = np.eye(num_weights)[:, [*peaks, *range(num_nodes, num_weights)]]
        beyond_nodes = ((0, num_weights - num_nodes), (0, 0))
        polynomials, vectors = np.pad(polynomials, beyond_nodes), np.pad(vectors, beyond_nodes)
        basis = np.hstack([polynomials, indicators, vectors])
        # Columns of polynomials have length 1, so their values are of order nodes^(−1/2).
        free = np.repeat([1 / num_nodes, 1.0, 0.0], [order - 1, indicators.shape[1], len(values)])
        num_free = order - 1 + indicators.shape[1]
        return cls(basis, np.append(np.zeros(num_free), values), free / _FREE_STDDEV**2)


def roughness_of(order: int, axis: Array) -> Array:
    r"""Return the matrix (n, n) of $\int (g^{(m)})^2$ as a quadratic form in values of g.

    The values are at n places, `axis` (n,). The order m is 1 or 2; derivatives are difference quotients.

    Examples:
        >>> axis = np.array([-1.0, 0.0, 0.5, 1.0])
        >>> line, bend = 3 * axis, axis**2
        >>> round(float(line @ roughness_of(1, axis) @ line)), round(bend @ roughness_of(2, axis) @ bend)
        (18, 5)
    """
    gaps = np.diff(axis)
    derivative = np.diff(np.eye(len(axis)), axis=0) / gaps[:, None]
    for _ in range(order - 1):
        gaps = (gaps[1:] + gaps[:-1]) / 2
        derivative = np.diff(derivative, axis=0) / gaps[:, None]
    return np.asarray((derivative.T * gaps) @ derivative)


class Likelihood(ABC):
    """Log-likelihood of reports as a function of k weights."""

    hats: Hats  # hats of the weights

    @abstractmethod
    def value(self, weights: Array) -> float:
        """Compute the log-likelihood in nats, up to a constant, for weights (k,)."""

    @abstractmethod
    def slope(self, weights: Array) -> Array:
        """Compute the gradient (k,) in the weights."""

    @abstractmethod
    def information(self, weights: Array, change: Array) -> Array:
        """Compute the Fisher information (c, c) along c changes of weights, the columns of (k, c)."""


@dataclass(frozen=True, eq=False)
class CountLikelihood(Likelihood):
    """Likelihood of counts of reports."""

    counts: Array  # number of people who sent each report (reports,)
    law: Array  # A, the probability of each report given each hat (reports, weights)
    hats: Hats  # hats of the weights

    def value(self, weights: Array) -> float:
        return float(self.counts @ np.log(self.law @ weights))

    def slope(self, weights: Array) -> Array:
        return np.asarray(self.law.T @ (self.counts / (self.law @ weights)))

    def information(self, weights: Array, change: Array) -> Array:
        moved = self.law @ change
        return np.asarray((moved.T * (self.counts.sum() / (self.law @ weights))) @ moved)


class _Mode(NamedTuple):
    """Mode of the coefficients of a prior's basis functions."""

    coefficients: Array  # (functions,)
    log_evidence: float
    steps: int  # number of steps of the ascent


def _find_mode(
    likelihood: Likelihood, prior: SmoothPrior, strength: float, start: Array, max_steps: int
) -> _Mode:
    """Find the mode by Fisher scoring from the coefficients `start`."""
    precision = strength * prior.roughness + prior.free_precision  # diagonal of Λ
    basis, hats = prior.basis, likelihood.hats

    def log_posterior(coefficients: Array) -> float:
        log_likelihood = likelihood.value(hats.weights(basis @ coefficients))
        return log_likelihood - float(precision @ coefficients**2 / 2)

    coefficients, value, steps = start, log_posterior(start), 0
    while True:
        weights = hats.weights(basis @ coefficients)
        jacobian = weights[:, None] * (basis - weights @ basis)
        slope = jacobian.T @ likelihood.slope(weights) - precision * coefficients
        information = likelihood.information(weights, jacobian) + np.diag(precision)
        factor = scipy.linalg.cho_factor(information)
        step = scipy.linalg.cho_solve(factor, slope)
        expected_gain = float(slope @ step)
        if expected_gain < _EVIDENCE_TOLERANCE or steps == max_steps:
            break
        step *= min(1.0, _MAX_CHANGE / np.abs(basis @ step).max())
        while (new_value := log_posterior(coefficients + step)) < value and (
            np.abs(step).max() > _MIN_CHANGE
        ):
            step = step / 2
        coefficients, value, steps = coefficients + step, new_value, steps + 1
    half_log_determinants = np.log(np.diag(factor[0])).sum() - np.log(precision).sum() / 2
    return _Mode(coefficients, value - float(half_log_determinants), steps)


def average_over_priors(
    likelihood: Likelihood,
    priors: Sequence[SmoothPrior],
    *,
    strengths: Sequence[float] | Array = _STRENGTHS,
    max_steps: int = _MAX_EVIDENCE_STEPS,
    monitor: FitMonitor | None = None,
) -> GridFit:
    """Average the fits for all priors and decreasing strengths λ, with their evidence as weights.

    The ascent for each λ starts at the mode for the λ before, and takes at most `max_steps` steps; after
    each ascent, `monitor` says whether to stop.
    """
    fits, evidence, steps = list[Array](), list[float](), 0
    for prior in priors:
        coefficients, best = np.zeros(prior.basis.shape[1]), -np.inf
        for strength in strengths:
            mode = _find_mode(likelihood, prior, strength, coefficients, max_steps)
            coefficients, steps = mode.coefficients, steps + mode.steps
            fits.append(likelihood.hats.weights(prior.basis @ coefficients))
            evidence.append(mode.log_evidence)
            best = max(best, mode.log_evidence)
            too_low = mode.log_evidence < best - _EVIDENCE_DROP
            if too_low or (monitor is not None and monitor.over()):
                break
    shares = np.exp(np.array(evidence) - max(evidence))
    weights = shares @ np.array(fits) / shares.sum()
    return GridFit(weights, steps, max(evidence) + float(np.log(shares.sum())))


def average_by_evidence(
    channel: GridChannel,
    *,
    orders: Sequence[int] = ORDERS,
    max_steps: int | None = None,
    monitor: FitMonitor | None = None,
) -> GridFit:
    """Fit the weights of a grid in one dimension, averaged over orders m and strengths by evidence.

    `max_steps` (by default 200) and `monitor` are described in `average_over_priors`.
    """
    num_weights, num_nodes = len(channel.back(channel.counts)), channel.spacings + 1
    law = np.stack([channel.forward(weights) for weights in np.eye(num_weights)], axis=1)
    hats = Hats.of(np.ones(num_nodes, bool), num_weights)
    likelihood = CountLikelihood(channel.counts, law, hats)
    axis = np.linspace(-1, 1, num_nodes)
    priors = [SmoothPrior.of(order, axis, num_weights) for order in orders]
    limit = max_steps or _MAX_EVIDENCE_STEPS
    return average_over_priors(likelihood, priors, max_steps=limit, monitor=monitor)


def fit_density(releases: Releases, max_steps: int | None, monitor: FitMonitor) -> LocalModel:
    """Fit a model whose sampler is a density on a grid, with at most `max_steps` steps of each ascent.

    Raises:
        PrivotError: if a release cannot be fitted on a grid, or the domains of releases differ.
    """
    if None in map(grid_form, releases.randomizers):
        raise PrivotError(
            "estimator 'grid' needs reports of one column of points of at most three coordinates, by "
            "windows or noise: use estimator 'auto'"
        )
    randomizer = releases.newest.randomizer
    ((name, mechanism),) = randomizer.mechanisms.items()
    domains = [part.schema.point_column(name).domain for part in releases.parts]
    if any(domain != domains[-1] for domain in domains):
        raise PrivotError(
            f"column {name!r} has other bounds in another release, so that what lies beyond them was "
            "projected there: fit the releases apart"
        )
    domain = mechanism.report_domain(domains[-1])
    channel = grid_channel(releases.counts, SPACINGS[domain.dimension])
    nodes = allowed_nodes(domain, channel.spacings)
    roughness: float | str = STRENGTH
    # BLAS threads synchronize at every small product: one thread is up to four times as fast.
    with threadpool_limits(1, user_api="blas"):
        if domain.dimension == 1:
            fit = average_by_evidence(channel, max_steps=max_steps, monitor=monitor)
            roughness = "averaged by evidence"
        else:
            fit = deconvolve(channel, nodes, max_steps=max_steps, monitor=monitor)
    made_with = {
        "estimator": "grid",
        "loss": "penalized likelihood",
        "reason": "one column of few coordinates: its likelihood on a grid is exact",
        "steps": fit.steps,
        "nodes": list(nodes.shape),
        "roughness": roughness,
        "num_reports": len(releases),
    }
    sampler = GridSampler(GridDensity.of(fit.weights, nodes.shape), name, randomizer)
    return LocalModel.of(releases, sampler, made_with)
