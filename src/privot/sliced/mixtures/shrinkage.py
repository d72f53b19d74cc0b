r"""Covariances of classes from noisy ones, by empirical Bayes.

A released covariance has Gaussian noise of a public standard deviation e, so it can be shrunk as it
should be:

1. The average C̄ over classes has entries $C̄_{ij} = Λ_{ij} + N(0, e^2/2)$: shrink towards a diagonal
   prior $Λ_{ii} ∝ 1/(1 + f_i^2/4)$, the fall-off of natural images with frequency f (public), with prior
   variances $κ Λ_{ii} Λ_{jj}$ as under a Wishart law; κ by moments.
2. Each class deviates from C̄ by a matrix whose entries, in the eigenbasis of C̄ with eigenvalues λ, have
   prior variances $κ′ λ_i λ_j$: shrink by $κ′λ_iλ_j/(κ′λ_iλ_j + e_c^2/2)$.

References:
    Chen, *Estimation of a covariance matrix under conjugate priors* (1979), for the Wishart shape.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_LEAST = 0.02  # of the smallest prior variance: eigenvalues of the average


def shrink_covariances(noisy: Floats, errors: Floats, frequencies: Floats) -> Floats:
    """Covariances (classes, p, p) from symmetric matrices with noise; not all need be positive.

    Arguments:
        noisy: What was released.
        errors: Standard deviation (classes,) of the noise of a diagonal entry; others have it over √2.
        frequencies: Squared frequency of each coordinate (p,).
    """
    weights = errors**-2.0 / (errors**-2.0).sum()
    average = (weights[:, None, None] * noisy).sum(axis=0)
    shape = 1.0 / (1.0 + frequencies / 4.0)
    prior = shape * max(float(np.trace(average)), 1e-12) / shape.sum()
    pooled = np.array([(errors**-2.0).sum() ** -0.5])
    center = np.diag(prior) + shrink_to_zero((average - np.diag(prior))[None], pooled, prior)[0]
    values, basis = np.linalg.eigh(center)
    values = np.maximum(values, _LEAST * prior.min())
    deviations = basis.T @ (noisy - average) @ basis
    shrunk = shrink_to_zero(deviations, errors, values)
    return np.asarray(basis @ (np.diag(values) + shrunk) @ basis.T)


def shrink_to_zero(noisy: Floats, errors: Floats, scale: Floats) -> Floats:
    """Posterior means of entries with prior variance κ·scale_i·scale_j; κ by the method of moments.

    Classes enter κ with the precision of their squares: one that is all noise says nothing of it.
    """
    product = np.outer(scale, scale)
    noise = (errors**2)[:, None, None] * (0.5 + 0.5 * np.eye(len(scale)))
    told = (product * (noisy**2 - noise)).mean(axis=(1, 2)) / (product**2).mean()
    kappa = max(float(np.average(told, weights=errors**-4.0)), 0.0)
    return np.asarray(noisy * (kappa * product / (kappa * product + noise)))
