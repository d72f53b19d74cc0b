r"""Moments of classes, of the target by noisy sums; and optimal transport of Gaussians between them.

Of class c, $m_c$ is the mean in $R^p$ and $Σ_c$ the covariance along U, the first k of the principal
directions of the source's residuals (public). Those of the target are learned as *differences* from the
source's, by empirical Bayes: what noise drowns stays as it is in the source.

- **Means.** Along principal direction i, of all p, the difference is a priori $N(0, τ_i^2)$, with
  $τ_i^2$ by moments over the classes, and is released with known noise $e_c$: it is shrunk by
  $τ_i^2/(τ_i^2 + e_c^2)$.
- **Covariances.** An entry of the difference is a priori $N(0, κ λ_i λ_j)$, λ the source's eigenvalues,
  κ by moments (`privot.sliced.mixtures.shrinkage`).

**Transport.** A source record x of class c becomes

$$ T_c(x) = m'_c + A_c (x - m_c), \qquad
   A_c = Σ_c^{-1/2} (Σ_c^{1/2} Σ'_c Σ_c^{1/2})^{1/2} Σ_c^{-1/2} \text{ along } U, $$

and the identity across U: of all maps that give a Gaussian with the source's moments those of the target
it moves records least (Dowson, Landau 1982). Its label stays.

References:
    Dowson, Landau, *The Fréchet distance between multivariate normal distributions* (1982).
    Courty, Flamary, Tuia, Rakotomamonjy, *Optimal transport for domain adaptation* (2017), for transport
    of the source's classes; Sun, Saenko, *Deep CORAL* (2016), for second moments.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from privot.sliced.mixtures.shrinkage import shrink_to_zero

Floats = NDArray[np.float64]
_LEAST = 1e-3  # of the mean eigenvalue: variance of any direction
_TINY = 1e-12


@dataclass(frozen=True, eq=False)
class ClassMoments:
    """Moments of the classes of a domain.

    Arguments:
        means: (classes, p).
        covariances: Along the directions (classes, k, k).
        counts: Records of each class (classes,).
        directions: Principal directions of the source within classes, as columns (p, p).
        scale: Variances of the source along the first of them (k,).
    """

    means: Floats
    covariances: Floats
    counts: Floats
    directions: Floats
    scale: Floats

    @classmethod
    def of(cls, x: Floats, y: NDArray[np.int64], num_classes: int, directions: int) -> ClassMoments:
        """Moments of labeled records (n, p) along their first principal directions within classes."""
        counts = np.maximum(np.bincount(y, minlength=num_classes), 1).astype(float)
        means = np.stack([x[y == c].sum(axis=0) / counts[c] for c in range(num_classes)])
        residuals = x - means[y]
        values, vectors = np.linalg.eigh(residuals.T @ residuals / len(x))
        values, vectors = values[::-1], np.ascontiguousarray(vectors[:, ::-1])
        basis, least = vectors[:, :directions], _LEAST * values.mean() + _TINY
        within = residuals @ basis
        covariances = np.stack(
            [within[y == c].T @ within[y == c] / counts[c] for c in range(num_classes)]
        )
        covariances += least * np.eye(basis.shape[1])
        return cls(means, covariances, counts, vectors, np.maximum(values[:directions], least))

    @property
    def basis(self) -> Floats:
        """Directions along which covariances are told, as columns (p, k)."""
        return self.directions[:, : len(self.scale)]

    @property
    def contrast(self) -> float:
        """Root mean square length of class means less their mean, along the directions."""
        along = (self.means - self.means.mean(axis=0)) @ self.basis
        return float(np.sqrt((along**2).sum(axis=1).mean()))

    def with_means(self, told: Floats, errors: Floats) -> ClassMoments:
        """Means moved towards noisy ones (classes, p), as far as their noise (classes,) lets."""
        gaps, noise = (told - self.means) @ self.directions, errors[:, None] ** 2
        variance = np.average(gaps**2 - noise, axis=0, weights=errors**-2.0).clip(min=0.0)
        kept = gaps * variance / (variance + noise + _TINY) @ self.directions.T
        return replace(self, means=self.means + kept)

    def with_covariances(self, told: Floats, errors: Floats) -> ClassMoments:
        """Covariances moved likewise; of the noisy ones, diagonals have these errors (classes,)."""
        moved = shrink_to_zero(told - self.covariances, errors, self.scale)
        return replace(self, covariances=self.covariances + moved)


def transported(
    x: Floats, y: NDArray[np.int64], source: ClassMoments, target: ClassMoments
) -> Floats:
    """Source records (n, p) moved, class by class, to the target's moments."""
    moved = np.empty_like(x)
    for c, (mean, covariance) in enumerate(zip(source.means, source.covariances, strict=True)):
        own = y == c
        change = gaussian_map(covariance, target.covariances[c]) - np.eye(len(covariance))
        residuals = x[own] - mean
        moved[own] = (
            target.means[c] + residuals + residuals @ source.basis @ change @ source.basis.T
        )
    return moved


def gaussian_map(source: Floats, target: Floats) -> Floats:
    """The symmetric matrix A with A Σ A = Σ' that moves N(0, Σ) least.

    Arguments:
        source: Σ, positive definite (k, k).
        target: Σ', symmetric; what is negative counts as 0.

    Examples:
        >>> gaussian_map(np.diag([1.0, 4.0]), np.diag([9.0, 4.0])).round(6).tolist()
        [[3.0, 0.0], [0.0, 1.0]]
    """
    values, vectors = np.linalg.eigh(source)
    root = (vectors * np.sqrt(values)) @ vectors.T
    inverse = (vectors / np.sqrt(values)) @ vectors.T
    values, vectors = np.linalg.eigh(target)
    positive = (vectors * np.maximum(values, 0.0)) @ vectors.T
    values, vectors = np.linalg.eigh(root @ positive @ root)
    between = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return np.asarray(inverse @ between @ inverse)
