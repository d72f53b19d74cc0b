r"""What the theorems of the entropic-transport papers promise, beside what happens, without networks.

Reports $y \sim M(\cdot \mid x)$ of people with law $P_X$; $\mathrm{OT}(P, Q)$ has the cost
$-\log M(y \mid x)$ and weight 1, in nats. All laws live on a grid here, and the generator is any law on
the grid, so that its fit to n reports,

$$ P_n = \arg\min_P \mathrm{OT}(P, Q_n) , $$

is the maximum-likelihood deconvolution: a concave problem, solved by expectation and maximization.
Nothing is left of training, batches or architecture.

**Recovery.** $\mathrm{OT}(P, P_Y) \ge H(P_Y)$, with equality for $P = P_X$.

**Excess and smoothed divergence.** With $e(P) = \mathrm{OT}(P, P_Y) - H(P_Y)$,

$$ \mathrm{KL}(P_Y \,\|\, P M) \;\le\; e(P) , \qquad
\min_{P \in \mathcal G} e(P) \;\le\; \frac{1}{p σ^p} \min_{P \in \mathcal G} W_p^p(P, P_X) , $$

the latter for additive noise with density $\propto \exp(-\|n\|_p^p / pσ^p)$, p = 1, 2.

**Rate.** Of a channel $M(y \mid x) = w(y) ⟨φ(x), ψ(y)⟩$ with $\|φ\|, \|ψ\| \le 1$ and
$⟨φ(x), ψ(y)⟩ \ge e^{-ε}$,

$$ \mathbb E\, e(P_n) - \min_{P \in \mathcal G} e(P) \;\le\; 4 e^ε n^{-1/2} , $$

whatever the class $\mathcal G$ and the dimension. Laplace noise of scale $b = Δ_1/ε$ on a box is such a
channel, with $e^{-\|x - y\|_1/b}$ and y moved to the box, beyond which a report tells no more.
*Proof.* By duality the difference is at most the largest of $\mathbb E_{P_Y} g - \mathbb E_{Q_n} g$ over
potentials g of (P, $P_Y$), plus the largest of its negative over those of ($P^*$, $Q_n$). Such a g,
up to a function of y alone that all share, is $-\log ⟨u, ψ(y)⟩$ with
$u = \mathbb E\, e^{f(X)} φ(X)$, where f may be shifted so that $\mathbb E\, e^{f(X)} = 1$: then
$\|u\| \le 1$ and $⟨u, ψ(y)⟩ \ge e^{-ε}$. The logarithm is $e^ε$-Lipschitz there, and linear functions
of the unit ball have Rademacher complexity at most $n^{-1/2}$: each part is at most $2 e^ε n^{-1/2}$.
In units of b the bound is linear in the dimension through $Δ_1$, as in the paper's Corollary 4, whose
own constant our copy of the text has lost.

**What cannot be evaluated.** The bound for Gaussian noise (Theorem III.3) has a constant that depends
on the dimension and is nowhere given: it says the rate in n and the growth with σ², and no number.
Both are measured as exponents, in the paper's units: the *risk* $2σ^2 e(P_n)$. It is said to be about
linear in σ² beyond σ(X)², the least s² with $\mathbb E\, e^{X^2 / 2 s^2} \le 2$ in one dimension.

**Rate and distortion.** Minimizing $\mathbb E\|X - Y\|^2 + λ I(X; Y)$ over the reconstruction X of a
source Y = clean + N(0, σ²) traces the rate–distortion function of Y. Down to distortion σ² it is
Shannon's lower bound $h(Y) - \tfrac12 \log 2πeD$, and the reconstruction at D is the clean law with
noise of variance σ² − D: at λ = 2σ², D = σ², exactly the clean one.

**Two slips of the text of 2023.** Its Corollary 1 takes $ε/Δ_1$ for the scale of Laplace noise and for
the weight. By its own Theorem 1 the weight is the scale $b = Δ_1/ε$ of $f ∝ e^{-|n|/b}$: with p = 1 and
σ = b, $p σ^p = b$. At the printed weight the least cost is that of a few points: of the ends of the box
for $ε < Δ_1$, where noise is left that cannot leave the box, and of points near the median of the
reports for $ε > Δ_1$. *Proof* of the latter for large weights. Over all laws P and couplings
$\mathbb E|X - Y| + λ I(X; Y)$ is least for the P of largest
$\mathbb E_Y \log \mathbb E_P e^{-|X - Y|/λ}$, which is concave in P. So a point m is best if
$\mathbb E_Y e^{(|m - Y| - |x - Y|)/λ} \le 1$ for all x. For λ → ∞ that becomes
$\mathbb E|m - Y| \le \mathbb E|x - Y|$: the median.

Its bound (11), $\mathrm{KL}(P_{G^* + N} \,\|\, P_{X+N}) \le \min W_p^p$, has lost the factor
$1/(p σ^p)$, without which it fails where $p σ^p < 1$. *Proof.* Let X = 0, and let the only generator
be the constant a. For Gaussian noise the divergence is $a^2/2σ^2$, and $W_2^2 = a^2$ is less if σ² < ½.
For Laplace noise of scale b it is $|a|/b + e^{-|a|/b} - 1$, and $W_1 = |a|$ is less for b < 1 and
large |a|. With the factor both hold. (The proof there bounds the divergence in the other order, of
$P_{X+N}$ from $P_{G^*+N}$; between laws that differ by a shift the orders agree.)

References:
    Reshetova, Chen, Özgür, *Training generative models from privatized data via entropic optimal
    transport* (2024), Sections I-A, III; 2023, Theorem 1, Corollary 1. Rigollet, Weed, *Entropic
    optimal transport is maximum-likelihood deconvolution* (2018).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import laplace, norm

from privot.transport import Problem, SinkhornSolver
from studies.common.rows import Row

Array = NDArray[np.float64]

EPSILONS = (1.0, 5.0)
PEOPLE = (100, 1_000, 10_000, 100_000, 1_000_000)
FEWER = PEOPLE[:3]  # beyond, an excess under Gaussian noise is no larger than what fits leave
STDDEV = 0.12
STDDEVS = (0.25, 0.5, 1.0, 2.0)
RESPONSE = 2.0
_NODES, SEEDS = 60, 10
_GAIN = 1e-6  # nats: of the likelihood, in the best direction


@dataclass(frozen=True)
class Fitted:
    """A law on the nodes, and by how many nats the best one can be more likely."""

    law: Array
    gap: float


def clean_law(nodes: Array) -> Array:
    """Two bumps of unequal size, and some mass everywhere: probabilities of nodes in [0, 1]."""
    density = 0.6 * norm.pdf(nodes, 0.28, 0.05) + 0.4 * norm.pdf(nodes, 0.7, 0.09) + 0.05
    return np.asarray(density / density.sum())


def laplace_channel(nodes: Array, epsilon: float) -> Array:
    """P(report's cell | x) (m, m) under Laplace noise of scale 1/ε; the outer cells hold the tails."""
    edges = np.concatenate([[-np.inf], (nodes[1:] + nodes[:-1]) / 2, [np.inf]])
    return np.diff(laplace.cdf(edges - nodes[:, None], scale=1 / epsilon), axis=1)


def gaussian_channel(nodes: Array, reports: Array, stddev: float) -> Array:
    """P(report's cell | x) (m, k) of cells around `reports`, evenly spaced; the outer hold the tails."""
    edges = np.concatenate([[-np.inf], (reports[1:] + reports[:-1]) / 2, [np.inf]])
    return np.diff(norm.cdf(edges - nodes[:, None], scale=stddev), axis=1)


def response_channel(num_values: int, epsilon: float) -> Array:
    """P(report | x) (m, m) of randomized response among `num_values` values: symmetric, and positive."""
    kept = math.exp(epsilon)
    return (np.ones((num_values, num_values)) + (kept - 1) * np.eye(num_values)) / (
        kept + num_values - 1
    )


def deconvolve(channel: Array, shares: Array, most_steps: int = 200_000) -> Fitted:
    """The law whose reports make `shares` (k,) likeliest, by expectation and maximization.

    Of a law p, with $D_i = \\sum_j q_j M_{ij} / (pM)_j$, no law is likelier by more than log max D.
    """
    law, gain = np.full(len(channel), 1 / len(channel)), np.ones(len(channel))
    for step in range(most_steps):
        gain = channel @ (shares / (law @ channel))
        if step % 100 == 0 and math.log(gain.max()) < _GAIN:
            break
        law = law * gain
    return Fitted(law, math.log(gain.max()))


def excess(law: Array, channel: Array, shares: Array) -> float:
    """OT(P, P_Y) − H(P_Y) in nats, at the cost −log M and weight 1; `shares` (k,) is P_Y."""
    rows = law > 1e-12
    cost = -np.log(channel[rows])
    weights = law[rows] / law[rows].sum()
    solver = SinkhornSolver(tolerance=1e-9, max_iterations=100_000)
    problem = Problem(
        torch.from_numpy(cost), 1.0, torch.from_numpy(weights), torch.from_numpy(shares)
    )
    return float(solver.solve(problem).value) + float(shares @ np.log(shares))


def smoothed_divergence(law: Array, channel: Array, shares: Array) -> float:
    """KL(P_Y ‖ P M) in nats."""
    return float(shares @ np.log(shares / (law @ channel)))


def excess_bound(epsilon: float, num_people: int) -> float:
    """The rate above: 4 e^ε n^(−1/2), in nats.

    Examples:
        >>> round(excess_bound(1.0, 1_000_000), 4)
        0.0109
    """
    return 4 * math.exp(epsilon) / math.sqrt(num_people)


def transport_cost(first: Array, second: Array, nodes: Array) -> float:
    """W₁ between laws on evenly spaced nodes: the area between their distribution functions."""
    apart = np.abs(np.cumsum(first - second))[:-1]
    return float(apart.sum() * (nodes[1] - nodes[0]))


def rate_rows(num_seeds: int = SEEDS, people: Sequence[int] = PEOPLE) -> list[Row]:
    """Excess, smoothed divergence and W₁ of fits to n Laplace reports; means over `num_seeds` draws."""
    nodes, _ = _on_unit()
    return [
        {"epsilon": epsilon, "people": count, "bound": excess_bound(epsilon, count)}
        | _fits(laplace_channel(nodes, epsilon), count, num_seeds)
        for epsilon in EPSILONS
        for count in people
    ]


def noise_rows(
    num_seeds: int = SEEDS, people: Sequence[int] = FEWER, stddevs: Sequence[float] = STDDEVS
) -> list[Row]:
    """The same for Gaussian noise, with the risk 2σ²e."""
    nodes, _ = _on_unit()
    rows: list[Row] = []
    for stddev in stddevs:
        reports = np.linspace(-4 * stddev, 1 + 4 * stddev, 2 * _NODES)
        channel = gaussian_channel(nodes, reports, stddev)
        for count in people:
            found = _fits(channel, count, num_seeds)
            units = {f"risk{k}": 2 * stddev**2 * found[f"excess{k}"] for k in ("", "_std")}
            rows.append({"noise": "gaussian", "stddev": stddev, "people": count} | found | units)
    return rows


def response_rows(num_seeds: int = SEEDS, people: Sequence[int] = PEOPLE) -> list[Row]:
    """The same for randomized response among the nodes, whose kernel is Mercer's as well."""
    channel = response_channel(_NODES, RESPONSE)
    return [
        {"noise": "response", "epsilon": RESPONSE, "people": count}
        | _fits(channel, count, num_seeds)
        for count in people
    ]


def _on_unit() -> tuple[Array, Array]:
    nodes = (np.arange(_NODES) + 0.5) / _NODES
    return nodes, clean_law(nodes)


def _fits(channel: Array, count: int, num_seeds: int) -> Row:
    """Means over draws of `count` reports, with the deviations of these means, and the largest gap."""
    nodes, clean = _on_unit()
    shares, found = clean @ channel, []
    for seed in range(num_seeds):
        drawn = np.random.default_rng(seed).multinomial(count, shares / shares.sum()) / count
        fitted = deconvolve(channel, drawn)
        law = fitted.law
        found.append((
            excess(law, channel, shares), smoothed_divergence(law, channel, shares),
            transport_cost(law, clean, nodes), fitted.gap,
        ))  # fmt: skip
    names = ("excess", "divergence", "w1")
    means = dict(zip(names, map(float, np.mean(found, axis=0)), strict=False))
    chance = np.std(found, axis=0, ddof=min(1, num_seeds - 1)) / math.sqrt(num_seeds)
    deviations = dict(zip((f"{name}_std" for name in names), map(float, chance), strict=False))
    return means | deviations | {"gap": float(np.max(found, axis=0)[3])}


def sub_gaussian_variance() -> float:
    """σ(X)² of the clean law: the least s² with E exp(X²/2s²) ≤ 2."""
    nodes, clean = _on_unit()
    return float(brentq(lambda s: clean @ np.exp(nodes**2 / (2 * s)) - 2, 0.02, 2.0))


def weight_rows(epsilons: Sequence[float] = (0.5, 1.0, 2.0, 5.0)) -> list[Row]:
    """What Laplace reports of records in [0, 1] teach at the weight Δ/ε, and at the printed ε/Δ."""
    nodes, clean = _on_unit()
    rows = []
    for epsilon in epsilons:
        shares = clean @ laplace_channel(nodes, epsilon)
        row: Row = {"epsilon": epsilon, "nodes": len(nodes)}
        for name, weight in (("matched", 1 / epsilon), ("printed", epsilon)):
            kernel = np.exp(-np.abs(nodes[:, None] - nodes) / weight)
            law = deconvolve(kernel, shares, 50_000).law
            row |= {f"{name}_w1": transport_cost(law, clean, nodes)}
            row |= {f"{name}_points": int((law > 1e-3).sum())}
        rows.append(row)
    return rows


def printed_bound_rows(shift: float = 1.0) -> list[Row]:
    """Of X = 0 and the constant generator `shift`: KL under noise, W_p^p, and that over pσ^p."""
    rows = []
    kinds = [("gaussian", 2, norm, scale) for scale in (0.5, 1.0)]
    for name, power, family, scale in [*kinds, ("laplace", 1, laplace, 0.25)]:
        first, second = family(shift, scale), family(0, scale)
        gain = quad(
            lambda y, p=first, q=second: p.pdf(y) * (p.logpdf(y) - q.logpdf(y)),
            -40 * scale, shift + 40 * scale, points=(0.0, shift), limit=200,
        )[0]  # fmt: skip
        printed = abs(shift) ** power
        rows.append({
            "noise": name, "scale": scale, "divergence": gain, "printed": printed,
            "bound": printed / (power * scale**power),
        })  # fmt: skip
    return rows


def misfit_rows(epsilon: float = 5.0) -> list[Row]:
    """Of laws on every k-th node alone: the least excess, and W₁/b of the nearest such law."""
    nodes, clean = _on_unit()
    channel, rows = laplace_channel(nodes, epsilon), []
    for step in (2, 4, 8, 15, 30):
        kept = np.arange(step // 2, _NODES, step)
        best = deconvolve(channel[kept], clean @ channel)
        law = np.zeros(_NODES)
        law[kept] = best.law
        nearest = np.abs(nodes[:, None] - nodes[kept]).min(axis=1)
        rows.append({
            "spacing": step / _NODES, "excess": excess(law, channel, clean @ channel),
            "bound": epsilon * float(clean @ nearest),
        })  # fmt: skip
    return rows


def source() -> tuple[Array, Array]:
    """Nodes well beyond [0, 1], for reconstructions of what is noisy, and the clean law on them."""
    nodes = np.linspace(-0.4, 1.4, 181)
    inside = np.where((nodes >= 0) & (nodes <= 1), clean_law(nodes), 0.0)
    return nodes, np.asarray(inside / inside.sum())


def distortion_rows(factors: Sequence[float]) -> list[Row]:
    """Rate, distortion and reconstruction of the noisy source at λ = 2fσ², f of `factors`."""
    nodes, clean = source()
    reports = np.linspace(-0.9, 1.9, 281)
    shares = clean @ gaussian_channel(nodes, reports, STDDEV)
    entropy = -float(shares @ np.log(shares / (reports[1] - reports[0])))
    squared = (nodes[:, None] - reports) ** 2
    rows = []
    for factor in factors:
        kernel = np.exp(-squared / (2 * factor * STDDEV**2))
        fitted = deconvolve(kernel, shares, 20_000)
        law = fitted.law
        joint = law[:, None] * kernel * (shares / (law @ kernel))
        spent = float((joint * squared).sum())
        ratio = joint / (joint.sum(axis=1, keepdims=True) * joint.sum(axis=0)).clip(1e-300)
        rate = float((joint * np.log(ratio.clip(1e-300))).sum())
        rows.append({
            "factor": factor, "distortion": spent, "rate": rate,
            "lower": entropy - 0.5 * math.log(2 * math.pi * math.e * spent),
            "law": [round(float(x), 6) for x in law], "w1": transport_cost(law, clean, nodes),
        })  # fmt: skip
    return rows
