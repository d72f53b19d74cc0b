"""What generated images are worth: one judge, the same numbers for every method.

| number | what it says | equal laws |
|---|---|---|
| `frechet` | distance of means and covariances of features | the floor |
| `frechet_second` | the same by another classifier's features, if there is one | the floor |
| `fid` | the same by Inception features, where the user has their weights | the floor |
| `frechet_pixels` | the same on the first 20 principal components of pixels | the floor |
| `kernel` | squared MMD of features, scaled to mean square 1, times 1000 | 0 |
| `precision`, `density` | do they look like real ones | near 1 |
| `recall`, `coverage` | are all real ones met | near 1 |
| `rarest` | smallest share of a class, by the classifier | about 0.09 for digits |
| `spread` | variance on the first 20 principal components, learned over real | 1 |
| `w2` | exact W₂ in pixels between subsamples | the floor |

Needs clean records: nothing here is private.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from privot.evaluation.distances import sample_distance
from studies.common.coverage import measure_coverage
from studies.common.frechet import frechet_distance, kernel_distance
from studies.common.image_features import ImageClassifier

NUM_NEAR = 1000
_COMPONENTS = 20


@dataclass(frozen=True)
class Judgment:
    """The numbers of the table above."""

    frechet: float
    frechet_second: float | None
    fid: float | None
    frechet_pixels: float
    kernel: float
    precision: float
    recall: float
    density: float
    coverage: float
    rarest: float
    spread: float
    w2: float

    def to_dict(self) -> dict[str, float]:
        """Plain values, rounded to four digits after the point; of judges that are there."""
        return {k: round(value, 4) for k, value in asdict(self).items() if value is not None}


class ImageJudge:
    """Compares images with clean ones that no method has seen.

    Arguments:
        classifier: Trained on clean images; gives confidence and classes.
        clean: Held-out clean images (n, d) in [−1, 1].
        features: From images (n, d) to features (n, k); the classifier's by default.
        num_near: Points of each side for coverage, kernel distance and W₂, whose cost is quadratic or
            worse; the others use all.
        second: Another network's judgment, for verdicts that need two.
        inception: From images (n, d) to the features of the FID (`studies.common.inception`).
    """

    def __init__(
        self,
        classifier: ImageClassifier,
        clean: Tensor,
        features: Callable[[Tensor], np.ndarray] | None = None,
        num_near: int = NUM_NEAR,
        second: ImageClassifier | None = None,
        inception: Callable[[Tensor], np.ndarray] | None = None,
    ) -> None:
        self.classifier, self.clean, self.num_near = classifier, clean, num_near
        self._others = (second.features if second else None, inception)
        self.features = features or classifier.features
        self._own = features is None
        self.clean_features = self.features(clean)
        values, vectors = np.linalg.eigh(np.cov(clean.double().numpy(), rowvar=False))
        self._axes, self._variances = vectors[:, ::-1][:, :_COMPONENTS], values[::-1][:_COMPONENTS]

    def score(self, images: Tensor) -> Judgment:
        """All numbers for images (n, d) in [−1, 1]."""
        features = self.features(images)
        second, fid = (
            frechet_distance(other(images), other(self.clean)) if other else None
            for other in self._others
        )
        near = min(self.num_near, len(images), len(self.clean))
        # Data sets need not be in random order; which images are compared is fixed all the same.
        chosen = np.random.default_rng(0).permutation(len(self.clean))[:near]
        real, learned = self.clean_features[chosen], features[:near]
        unit = np.sqrt((self.clean_features**2).mean())
        coverage = measure_coverage(real, learned)
        seen = features if self._own else self.classifier.features(images)
        probabilities = self.classifier.probabilities(seen)
        shares = np.bincount(probabilities.argmax(axis=1), minlength=probabilities.shape[1])
        along, clean_along = (x.double().numpy() @ self._axes for x in (images, self.clean))
        variances = along.var(axis=0)
        return Judgment(
            frechet=frechet_distance(features, self.clean_features),
            frechet_second=second,
            fid=fid,
            frechet_pixels=frechet_distance(along, clean_along),
            kernel=1000 * kernel_distance(learned / unit, real / unit),
            **asdict(coverage),
            rarest=float(shares.min() / len(images)),
            spread=float(variances.sum() / self._variances.sum()),
            w2=pixel_distance(images, self.clean, near),
        )


def pixel_distance(x: Tensor, y: Tensor, num_points: int = 1000, seed: int = 0) -> float:
    """Exact W₂ of `num_points` images of x against as many of y, pixels in [−1, 1], one draw."""
    first, second = (images.detach().double().numpy() for images in (x, y))
    return sample_distance(first, second, num_points, repeats=1, seed=seed)


def to_unit_interval(images: np.ndarray) -> Tensor:
    """Bytes (n, height, width) as floats (n, height·width) in [−1, 1]."""
    return torch.from_numpy(images.reshape(len(images), -1).astype(np.float32) / 127.5 - 1)


def linear_accuracy(
    images: np.ndarray, labels: np.ndarray, test_images: np.ndarray, test_labels: np.ndarray
) -> float:
    """Accuracy on test images of logistic regression, of at most 200 iterations, on other images.

    Arguments:
        images: Images (n, height, width) to learn from, pixels in 0 to 255.
        labels: Their labels (n,).
        test_images: Images (m, height, width) to judge on.
        test_labels: Their labels (m,).
    """
    learned, tested = (
        np.asarray(x, np.float64).reshape(len(x), -1) / 255 for x in (images, test_images)
    )
    return float(LogisticRegression(max_iter=200).fit(learned, labels).score(tested, test_labels))
