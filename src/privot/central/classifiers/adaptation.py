r"""Domain adaptation to a private, unlabeled target by rounds of noisy sums.

A classifier is trained on a public, labeled source so that it is accurate on the target. Only noisy
sums of the target are released, in rounds:

1. Train the classifier on source records (images are randomly changed).
2. Classify every private record. The class is a function of that record alone, and may be wrong.
3. Release noisy sums and second moments of residuals by class. From these, estimate each class's mean
   and covariance, with shrinkage by the noise.
4. Move the source, class by class, to these moments by the optimal transport of Gaussians, and train the
   classifier on source and moved records.

Moved records retain their source labels. So the second round begins with a better classifier, and its
sums by class are more accurate. The returned classifier is applied to unchanged target records.

**Moments.** For class c, $m_c$ is the mean in $R^p$ and $Σ_c$ the covariance along U, the first k
principal directions of the source's residuals (public). The target's moments are estimated as
*differences* from the source's by empirical Bayes, which shrinks them to 0 where noise dominates.

- **Means.** Along each of the p principal directions i, the difference has the prior $N(0, τ_i^2)$,
  with $τ_i^2$ estimated by moments over the classes. Its released value, with noise of known standard
  deviation $e_c$, is multiplied by $τ_i^2/(τ_i^2 + e_c^2)$.
- **Covariances.** An entry of the difference has the prior $N(0, κ λ_i λ_j)$, with λ the source's
  eigenvalues and κ estimated by moments (`shrink_to_zero` of `privot.central.moments`).

**Transport.** A source record x of class c becomes

$$ T_c(x) = m'_c + A_c (x - m_c), \qquad
   A_c = Σ_c^{-1/2} (Σ_c^{1/2} Σ'_c Σ_c^{1/2})^{1/2} Σ_c^{-1/2} \text{ along } U, $$

and the identity orthogonally to U. Of all maps between Gaussians with these moments, it moves records
the least (Dowson, Landau 1982). The label does not change.

**Privacy review.** Steps 1, 2 and 4 use only the public source and earlier releases. All rounds are
Gaussian mechanisms on one set of records, and compose exactly; Δ and adjacency (`replace_one`) are those
of `privot.central.sums`, the queries are in `privot.central.classifiers.adapted`. Everything returned
is a function of the releases: the classifier may be published. The number of target records is public.
No guarantee covers tuning on target labels, or choosing the best of several runs by them.

**Resuming.** The checkpoint contains the releases and a hash of the source, from which training is
repeated. Another target is refused as in every run by sums.

References:
    Dowson, Landau, *The Fréchet distance between multivariate normal distributions* (1982). Courty,
    Flamary, Tuia, Rakotomamonjy, *Optimal transport for domain adaptation* (2017), for transport of
    the source's classes; Sun, Saenko, *Deep CORAL* (2016), for second moments.
"""

from __future__ import annotations

import copy
import math
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from privot.central.classifiers import adapted
from privot.central.moments import shrink_to_zero
from privot.central.slices import require_labels
from privot.central.sums import Budget, Floats, Integers, Rounds, SumMechanism, SumPlan, open_ledger
from privot.core.errors import MOST_CODES, PrivotError
from privot.models import Checkpoint
from privot.privacy import gaussian_epsilon
from privot.privacy.rounding import at_most
from privot.training import Progress
from privot.training.loop import threads_for, train

# These settings were chosen on labels of the training split of one target, and used for all others.
_FLOOR = 1e-3  # smallest variance of a direction, relative to the mean eigenvalue
_TINY, _MIN_NORM = 1e-12, 1e-6  # smallest divisors, if records do not vary or are zero
_SUMS = 0.4  # share of a round's μ² for sums; the rest is for products
_LAST = 0.6  # share of μ² for the last of several rounds
_MAX_NUMBERS = 4096  # coordinates of a record
# Classes with fewer records stay as in the source: their stated noise is multiplied by this factor.
_MIN_COUNT, _UNKNOWN = 20.0, 1e9
# Clipping norm of residuals: a quantile of the source's norms, times a factor.
_RESIDUAL_QUANTILE, _RESIDUAL_FACTOR = 0.99, 1.25
_SOURCE_SHARE = 0.25  # share of source records in a batch after the first round
_MOVED_JITTER = 0.5  # random changes of moved images, relative to the changes of source images


@dataclass(frozen=True, eq=False)
class ClassMoments:
    """Moments of the classes of a domain."""

    means: Floats  # (classes, p)
    covariances: Floats  # along the first k directions (classes, k, k)
    directions: Floats  # principal directions of the source within classes, as columns (p, p)
    scale: Floats  # variances of the source along the first k directions (k,)

    @classmethod
    def of(cls, x: Floats, y: Integers, num_classes: int, directions: int) -> ClassMoments:
        """Return the moments of records (n, p) with classes y (n,), with k = `directions` at most."""
        counts = np.maximum(np.bincount(y, minlength=num_classes), 1).astype(float)
        means = np.stack([x[y == c].sum(axis=0) / counts[c] for c in range(num_classes)])
        residuals = x - means[y]
        variances, vectors = np.linalg.eigh(residuals.T @ residuals / len(x))
        variances, vectors = variances[::-1], np.ascontiguousarray(vectors[:, ::-1])
        basis, floor = vectors[:, :directions], _FLOOR * variances.mean() + _TINY
        along = residuals @ basis
        products = [along[y == c].T @ along[y == c] / counts[c] for c in range(num_classes)]
        covariances = np.stack(products) + floor * np.eye(basis.shape[1])
        return cls(means, covariances, vectors, np.maximum(variances[:directions], floor))

    @property
    def basis(self) -> Floats:
        """First k principal directions, as columns (p, k)."""
        return self.directions[:, : len(self.scale)]

    @property
    def contrast(self) -> float:
        """Root mean square distance of class means from their center, along the first k directions."""
        along = (self.means - self.means.mean(axis=0)) @ self.basis
        return float(np.sqrt((along**2).sum(axis=1).mean()))

    def with_means(self, released: Floats, errors: Floats) -> ClassMoments:
        """Return moments with means moved towards noisy ones (classes, p) of deviations `errors`."""
        gaps, noise = (released - self.means) @ self.directions, errors[:, None] ** 2
        variance = np.average(gaps**2 - noise, axis=0, weights=errors**-2.0).clip(min=0.0)
        shrunk = gaps * variance / (variance + noise + _TINY) @ self.directions.T
        return replace(self, means=self.means + shrunk)

    def with_covariances(self, released: Floats, errors: Floats) -> ClassMoments:
        """Return moments with covariances moved towards noisy ones of diagonal `errors` (classes,)."""
        shrunk = shrink_to_zero(released - self.covariances, errors, self.scale)
        return replace(self, covariances=self.covariances + shrunk)


def transported(x: Floats, y: Integers, source: ClassMoments, target: ClassMoments) -> Floats:
    """Return source records (n, p), moved class by class to the target's moments."""
    moved = np.empty_like(x)
    for c, (mean, covariance) in enumerate(zip(source.means, source.covariances, strict=True)):
        rows = y == c
        change = gaussian_map(covariance, target.covariances[c]) - np.eye(len(covariance))
        residuals = x[rows] - mean
        # The map changes residuals along the first k directions alone.
        along = residuals @ source.basis @ change @ source.basis.T
        moved[rows] = target.means[c] + residuals + along
    return moved


def gaussian_map(source: Floats, target: Floats) -> Floats:
    """Return the optimal transport from N(0, Σ) to N(0, Σ'), a symmetric matrix A with A Σ A = Σ'.

    Arguments:
        source: Σ, positive definite (k, k).
        target: Σ', symmetric; negative eigenvalues are replaced by 0.

    Examples:
        >>> gaussian_map(np.diag([1.0, 4.0]), np.diag([9.0, 4.0])).round(6).tolist()
        [[3.0, 0.0], [0.0, 1.0]]
    """
    values, vectors = np.linalg.eigh(source)
    root = (vectors * np.sqrt(values)) @ vectors.T
    inverse_root = (vectors / np.sqrt(values)) @ vectors.T
    values, vectors = np.linalg.eigh(target)
    positive = (vectors * np.maximum(values, 0.0)) @ vectors.T
    values, vectors = np.linalg.eigh(root @ positive @ root)
    root_between = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return np.asarray(inverse_root @ root_between @ inverse_root)


def adapt(
    source_x: np.ndarray,
    source_y: np.ndarray,
    target_x: np.ndarray,
    settings: adapted.AdaptationSettings | None = None,
    *,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    progress: Progress | None = None,
    **keywords: Any,
) -> adapted.AdaptedClassifier:
    """Learn to classify a private, unlabeled target from a public, labeled source.

    Arguments:
        source_x: Public records (n, …), scaled by public numbers; images to [0, 1].
        source_y: Classes of the source records (n,), whole numbers from 0.
        target_x: Private records (m, …), scaled like the source.
        settings: Budget and settings; made from the keywords if None.
        checkpoint: File of the run's releases; its ledger is written beside it.
        resume: Whether to continue from checkpoint and ledger.
        progress: Callback after every step of training.
        **keywords: Fields of the settings (`privot.central.classifiers.adapted.AdaptationSettings`), of
            which `epsilon` and `unit` have no default.

    Raises:
        PrivotError: if records cannot be used or have different shapes, noise would exceed `most_noise`,
            the ledger has another plan, or a resumed run had another source or target.
        Interrupted: on SIGINT or SIGTERM, after saving.
    """
    if settings is None:
        settings = adapted.AdaptationSettings(**keywords)
    settings = replace(settings, **keywords)
    adaptation = Adaptation(source_x, source_y, settings)
    target = adapted.as_records("target_x", target_x)
    shape, target_shape = adaptation.shape, tuple(target.shape[1:])
    if shape != target_shape:
        raise PrivotError(
            f"source of {shape} and target of {target_shape} do not fit: give records of one shape"
        )
    path = None if checkpoint is None else Path(checkpoint)
    plan = adaptation.plan(len(target))
    inputs: dict[str, Any] = {"settings": asdict(settings), "source": adaptation.fingerprint}
    # With one thread, results do not depend on the number of cores.
    with closing(open_ledger(plan, path, resume)) as ledger, threads_for(0):
        state = Checkpoint(path, inputs | {"ledger": ledger.id}, resume)
        adaptation.run(Rounds(SumMechanism((target.numpy(),), ledger), state), progress)
    classifier = adaptation.classifier.eval()
    return adapted.AdaptedClassifier(classifier, plan, ledger.spent, settings, shape)


class Adaptation:
    """Training of one adaptation: a public source, and the classifier that learns from it in rounds.

    Arguments:
        source_x: Source records (n, …).
        source_y: Classes of the source records (n,), from 0.
        settings: Budget and settings.
    """

    def __init__(
        self, source_x: np.ndarray, source_y: np.ndarray, settings: adapted.AdaptationSettings
    ) -> None:
        x = adapted.as_records("source_x", source_x)
        if not bool(torch.isfinite(x).all()):
            raise PrivotError("source_x holds NaN or infinity: replace or drop such records first")
        self.y = require_labels(source_y, len(x), MOST_CODES)
        self.settings, self.shape = settings, tuple(x.shape[1:])
        self.classifier = adapted.Classifier(self.shape, int(self.y.max()) + 1, settings)
        self.x = x.reshape(len(x), *self.classifier.shape)
        self.flat = x.flatten(1).double().numpy()
        if self.flat.shape[1] > _MAX_NUMBERS:
            raise PrivotError(
                f"records of {self.flat.shape[1]:,} numbers: give up to {_MAX_NUMBERS:,}, of which "
                "principal directions are found in a minute: smaller images, or features of them"
            )
        self.norm = max(float(np.linalg.norm(self.flat, axis=1).max()), _MIN_NORM)

    @property
    def fingerprint(self) -> str:
        """Hash of the source records in their order; public, as the source is."""
        digest = blake2b(repr(self.shape).encode(), digest_size=16)
        for part in (self.x, self.y):
            digest.update(part.contiguous().numpy().tobytes())
        return digest.hexdigest()

    def batch(self, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw a batch of source records, with augmented images, and their classes."""
        return self._draw_batch(rng, self.x, self.settings.source_batch)

    def _draw_batch(
        self, rng: torch.Generator, x: Tensor, count: int, augmentation: float = 1.0
    ) -> tuple[Tensor, Tensor]:
        """Draw `count` of the source or moved records x, with augmented images, and their classes."""
        rows = torch.randint(len(x), (count,), generator=rng)
        jitter = self.settings.jitter if self.classifier.takes_images else 0.0
        return adapted.augmented(x[rows], augmentation * jitter, rng), self.y[rows]

    def classify(self, rng: torch.Generator) -> tuple[Tensor, float]:
        """Return the cross-entropy on a batch of the source, and 0 for `train`'s marginal error."""
        x, y = self.batch(rng)
        return nn.functional.cross_entropy(self.classifier(x), y), 0.0

    def moments(self) -> ClassMoments:
        """Return the moments of the source's classes."""
        classes = self.classifier.num_classes
        return ClassMoments.of(self.flat, self.y.numpy(), classes, self.settings.directions)

    def plan(self, count: int) -> SumPlan:
        """Return the plan for `count` target records; refuse one with too much noise.

        Raises:
            PrivotError: if the noise on the mean of a class of average size, along the directions of the
                covariances, exceeds `most_noise` times the distance of the source's class means from
                their center.
        """
        settings, moments = self.settings, self.moments()
        budget = Budget(settings.epsilon, settings.delta, count, settings.unit)
        plan = budget.plan(shares(settings.rounds))
        query = self.sums()
        _ = plan.stddev(self.products(query, moments, moments), 1)  # the round of most noise
        # The sums of the last round are the release before the last.
        error = plan.released_stddev(query, -2) * query.unit
        noise = error * math.sqrt(len(moments.scale)) / (count / self.classifier.num_classes)
        ratio = noise / max(moments.contrast, _TINY)
        if ratio > settings.most_noise:
            factor = ratio / settings.most_noise
            mu = math.sqrt(math.fsum(mu_of_round**2 for mu_of_round in plan.ratios))
            needed = gaussian_epsilon(1.0, mu * factor, settings.delta)
            raise PrivotError(
                f"epsilon {at_most(settings.epsilon)} for {count:,} target records: noise on a class's "
                f"mean would be {ratio:.3g} times the distance between the source's classes, so that "
                f"training on the source alone is about as accurate; give {math.ceil(count * factor):,} "
                f"records, or epsilon {at_most(needed)}"
            )
        return plan

    def run(self, rounds: Rounds, progress: Progress | None = None) -> None:
        """Train on the source, and after every round on source and moved source."""
        settings, source = self.settings, self.moments()
        training = settings.training(settings.training_steps, stage=0)
        train(self.classifier, self.classify, training, progress=progress)
        for stage in range(1, settings.rounds + 1):
            target = self.estimated(rounds, source)
            moved = transported(self.flat, self.y.numpy(), source, target)
            x = torch.from_numpy(moved).float().reshape(self.x.shape)
            x = x.clamp(0.0, 1.0) if self.classifier.takes_images else x
            training = settings.training(math.ceil(settings.training_steps / 2), stage)
            classify_both = partial(self._classify_both, moved=x)
            train(self.classifier, classify_both, training, progress=progress)

    def estimated(self, rounds: Rounds, source: ClassMoments) -> ClassMoments:
        """Estimate the moments of the target's classes from two releases: of sums, and of products."""
        sums = self.sums()
        released = rounds.release(sums)
        noisy_counts = released.sums[:, -1] / sums.one  # every vector ends in the constant `one`
        counts = np.maximum(noisy_counts, _MIN_COUNT)
        error_factor = np.where(noisy_counts < _MIN_COUNT, _UNKNOWN, 1.0)
        means = released.sums[:, :-1] * sums.unit / counts[:, None]  # sums are in steps of `unit`
        target = source.with_means(means, error_factor * released.stddev * sums.unit / counts)
        products = self.products(sums, source, target)
        released = rounds.release(products)
        scale = products.unit**2 / counts
        covariances = released.sums * scale[:, None, None]
        return target.with_covariances(covariances, error_factor * released.stddev * scale)

    def sums(self) -> adapted.ClassSums:
        """Return the query of sums by the classes that the current classifier assigns."""
        frozen = copy.deepcopy(self.classifier).requires_grad_(False).eval()
        non_negative = bool((self.flat >= 0).all())
        return adapted.ClassSums(frozen, self.flat.shape[1], self.norm, non_negative)

    def products(
        self, sums: adapted.ClassSums, source: ClassMoments, target: ClassMoments
    ) -> adapted.ClassProducts:
        """Return the query of products of residuals from the target's means."""
        residuals = (self.flat - source.means[self.y.numpy()]) @ source.basis
        quantile = float(np.quantile(np.linalg.norm(residuals, axis=1), _RESIDUAL_QUANTILE))
        norm = max(_RESIDUAL_FACTOR * quantile, _MIN_NORM)
        return adapted.ClassProducts(sums.classifier, target.means, source.basis, norm)

    def _classify_both(self, rng: torch.Generator, moved: Tensor) -> tuple[Tensor, float]:
        """Return the cross-entropy on a batch of source records and moved ones; see `classify`."""
        size = self.settings.source_batch
        num_source = math.ceil(_SOURCE_SHARE * size)
        source_x, source_y = self._draw_batch(rng, self.x, num_source)
        moved_x, moved_y = self._draw_batch(rng, moved, size - num_source, _MOVED_JITTER)
        scores = self.classifier(torch.cat([source_x, moved_x]))
        return nn.functional.cross_entropy(scores, torch.cat([source_y, moved_y])), 0.0


def shares(rounds: int) -> list[float]:
    """Return shares of μ², by release: sums and products of each round in turn."""
    last = _LAST if rounds > 1 else 1.0
    by_round = [(1 - last) / max(rounds - 1, 1)] * (rounds - 1) + [last]
    return [part * share for share in by_round for part in (_SUMS, 1 - _SUMS)]
