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
to [0, 1]. Low-pass images lack what real ones have in high frequencies, and factors are known up to
noise: a classifier trained on smooth images relies on directions that real ones fill with something
else. Noise on all pixels does for it what a ridge does for a covariance. All of this is
post-processing. A class whose share is within noise of 0 is left out.

References:
    Chen, *Estimation of a covariance matrix under conjugate priors* (1979), for the Wishart shape.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from privot.errors import PrivotError
from privot.privacy.slicing.sensitivity import Floats
from privot.sliced.loss import PooledMean, noise_stddev
from privot.sliced.records import Records, SquaredImages, unsquare
from privot.sliced.releases.plan import SlicePlan

_SIGNIFICANT = 4.0  # standard deviations


@dataclass(frozen=True, eq=False)
class Factors:
    """Images of labels; of class c with mean `means[c]` (p,) and covariance `factors[c] factors[c]ᵀ`.

    Arguments:
        images: Their map.
        shares: Probability of each label.
        means: In units of an image's coordinates.
        factors: Alike.
        dither: Standard deviation of independent Gaussian noise on the pixels.
    """

    kind: ClassVar[str] = "factors"
    images: SquaredImages
    shares: Tensor
    means: Tensor
    factors: Tensor
    dither: float

    def values(self, labels: Tensor, rng: torch.Generator) -> Tensor:
        """See `LabeledLaw`."""
        noise = torch.randn(len(labels), self.means.shape[1], generator=rng)
        drawn = self.means[labels].clone()
        for label in range(len(self.means)):
            own = labels == label
            drawn[own] += noise[own] @ self.factors[label].T
        pixels = self.images.expand(drawn)
        if self.dither:
            pixels = pixels + self.dither * torch.randn(pixels.shape, generator=rng)
        return pixels.clamp(0.0, 1.0)

    def fields(self) -> dict[str, Any]:
        """See `LabeledLaw`."""
        return {"dither": self.dither}

    def tensors(self) -> dict[str, Tensor]:
        """See `LabeledLaw`."""
        return {"shares": self.shares, "means": self.means, "factors": self.factors}

    @classmethod
    def build(
        cls, records: Records, fields: Mapping[str, Any], tensors: Mapping[str, Tensor]
    ) -> Self:
        """See `LabeledLaw`."""
        images = records.squared_images
        assert images is not None
        return cls(
            images, tensors["shares"], tensors["means"], tensors["factors"], fields["dither"]
        )


def require_visible(plan: SlicePlan, images: SquaredImages) -> None:
    """Refuse a plan whose noise drowns even a class that everybody is in: a public computation."""
    least = _least_share(noise_stddev(plan), images.num_coordinates + 1)
    if least >= 1:
        raise PrivotError(
            "noise would drown every class, whatever the records are (the least share that shows is "
            f"{least:.1f}): keep fewer frequencies (low_pass), release more, or spend more epsilon"
        )


def _least_share(stddev: float, size: int) -> float:
    """The share of records from which a class of `size` coordinates rises above the noise."""
    return _SIGNIFICANT * stddev * math.sqrt(size)


def estimate_factors(pooled: PooledMean, images: SquaredImages, dither: float) -> Factors:
    """Factors of all classes from the mean record."""
    flat = pooled.estimate.double().reshape(images.num_labels, -1)
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
    known = shares / shares.sum(), full_means, full_roots
    drawn = [torch.from_numpy(found).float() for found in known]
    return Factors(images, drawn[0], drawn[1], drawn[2], dither)


def shrink(spreads: Floats, errors: Floats, prior: Floats) -> Floats:
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


def _towards_zero(noisy: Floats, errors: Floats, scale: Floats) -> Floats:
    """Posterior means of entries with prior variance κ·scale_i·scale_j; κ by the method of moments."""
    product = np.outer(scale, scale)
    noise = (errors**2)[:, None, None]
    kappa = max(float((product * (noisy**2 - noise)).mean() / (product**2).mean()), 0.0)
    return np.asarray(noisy * (kappa * product / (kappa * product + noise)))
