r"""Classes as Gaussian factors, read off the pooled mean record by empirical Bayes.

Where features are the square of the lifted image x̃ = (x, a)/‖(x, a)‖, the mean record of class c is
π_c E x̃ x̃ᵀ: its trace is the class's share π_c (as ‖x̃‖ = 1), its last column the mean times the last
coordinate, and what is left after the mean's own square the covariance. Pooled over all releases, every
entry carries Gaussian noise of a **public** standard deviation e (`PooledMean.stddev`), so it can be
shrunk as it should be:

1. The covariances' average C̄ over classes has entries C̄_ij = Λ_ij + N(0, e²/2): shrink towards a
   diagonal prior Λ_ii ∝ 1/(1 + f_i²/4), the fall-off of natural images with frequency f (public),
   with prior variances κ Λ_ii Λ_jj as under a Wishart law; κ by moments.
2. Each class deviates from C̄ by a matrix whose entries, in the eigenbasis of C̄ with eigenvalues
   λ, have prior variances κ′ λ_i λ_j: shrink by κ′λ_iλ_j/(κ′λ_iλ_j + e_c²), and drop negative
   eigenvalues.

Drawing: c, then x̃ ∼ N(m_c, C_c), x = a·x̃/(last coordinate), and pixels with noise of their own, clipped
to [0, 1] (`privot.sliced.samplers`). All of this is post-processing. A class whose
share is within noise of 0 is left out.

References:
    Chen, *Estimation of a covariance matrix under conjugate priors* (1979), for the Wishart shape.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from privot.errors import PrivotError
from privot.sliced.images import LabeledImages
from privot.sliced.records import unsquare
from privot.sliced.releases.plan import Plan
from privot.sliced.releases.pooled import PooledMean, noise_stddev

Array = NDArray[np.float64]
_SIGNIFICANT = 4.0  # standard deviations


@dataclass(frozen=True, eq=False)
class Factors:
    """Class c has share `shares[c]`, mean `means[c]` (p,) and covariance `factors[c] factors[c]ᵀ`.

    In units of an image's coordinates.
    """

    shares: Tensor
    means: Tensor
    factors: Tensor

    def coordinates(self, labels: Tensor, rng: torch.Generator) -> Tensor:
        """One image's coordinates (n, p) for each label."""
        noise = torch.randn(len(labels), self.means.shape[1], generator=rng)
        drawn = self.means[labels].clone()
        for label in range(len(self.means)):
            own = labels == label
            drawn[own] += noise[own] @ self.factors[label].T
        return drawn


def require_visible(plan: Plan, images: LabeledImages) -> None:
    """Refuse a plan whose noise drowns even a class that everybody is in: a public computation.

    Raises:
        PrivotError: if images are not squared, or no class could rise above the noise.
    """
    if images.degree != 2:
        raise PrivotError(
            f"degree is {images.degree}: factors need second moments; use degree 2, or a network"
        )
    least = _least_share(noise_stddev(plan), images.num_coordinates + 1)
    if least >= 1:
        raise PrivotError(
            "noise would drown every class, whatever the records are (the least share that shows is "
            f"{least:.1f}): keep fewer frequencies (low_pass), release more, or spend more epsilon"
        )


def _least_share(stddev: float, size: int) -> float:
    """The share of records from which a class of `size` coordinates rises above the noise."""
    return _SIGNIFICANT * stddev * math.sqrt(size)


def estimate_factors(pooled: PooledMean, images: LabeledImages) -> Factors:
    """Factors of all classes from the mean record.

    Raises:
        PrivotError: if noise drowns every class.
    """
    flat = pooled.estimate.double().reshape(images.num_labels, images.width)
    moments = unsquare(flat).numpy()
    size = moments.shape[1]
    shares = np.trace(moments, axis1=1, axis2=2)
    present = shares > _least_share(pooled.stddev, size)
    if not present.any():
        raise PrivotError(
            "noise drowns every class: keep fewer frequencies (low_pass), release more steps, or spend "
            "more epsilon. What was released is spent: another run on these records adds to it"
        )
    shares = np.where(present, shares, 0.0)
    moments = moments[present] / shares[present, None, None]
    error = pooled.stddev / shares[present]  # of a diagonal entry; others have it over √2
    last = np.sqrt(np.clip(moments[:, -1, -1], 1e-3, 1.0))
    means = moments[:, -1, :-1] / last[:, None]
    spreads = moments[:, :-1, :-1] - means[:, :, None] * means[:, None, :]
    left = np.clip(1.0 - last**2 - (means**2).sum(axis=1), 0.02, None)
    shape = 1.0 / (1.0 + images.frequencies / 4.0)
    covariances = shrink(spreads, error / np.sqrt(2.0), shape * left.mean() / shape.sum())
    values, vectors = np.linalg.eigh(covariances)
    roots = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    unit = images.anchor / last
    full_means = np.zeros((len(shares), size - 1))
    full_roots = np.zeros((len(shares), size - 1, size - 1))
    full_means[present] = means * unit[:, None]
    full_roots[present] = roots * unit[:, None, None]
    return Factors(
        torch.from_numpy(shares / shares.sum()).float(),
        torch.from_numpy(full_means).float(),
        torch.from_numpy(full_roots).float(),
    )


def shrink(spreads: Array, errors: Array, prior: Array) -> Array:
    """Covariances (K, p, p) from noisy ones: towards their average, and that towards diag(prior).

    Arguments:
        spreads: Symmetric matrices with Gaussian noise.
        errors: Standard deviations (K,) of the noise of an off-diagonal entry.
        prior: Positive diagonal (p,).
    """
    count = len(spreads)
    average = spreads.mean(axis=0)
    error = float(np.sqrt((errors**2).mean() / count))
    base = np.diag(prior)
    center = base + _towards_zero((average - base)[None], np.array([error]), prior)[0]
    values, basis = np.linalg.eigh(center)
    values = np.maximum(values, 0.1 * prior.min())
    deviations = basis.T @ (spreads - average) @ basis
    shrunk = _towards_zero(deviations, errors, values)
    return np.asarray(basis @ (np.diag(values) + shrunk) @ basis.T)


def _towards_zero(noisy: Array, errors: Array, scale: Array) -> Array:
    """Posterior means of entries with prior variance κ·scale_i·scale_j; κ by the method of moments."""
    product = np.outer(scale, scale)
    noise = (errors**2)[:, None, None]
    kappa = max(float((product * (noisy**2 - noise)).mean() / (product**2).mean()), 0.0)
    return np.asarray(noisy * (kappa * product / (kappa * product + noise)))
