r"""Labeled images by a few rounds of noisy sums: class means, their spread, components, what is left.

1. Pixel sums of each label: its mean and its number of images.
2. Products of low frequencies less the mean: each label's covariance, coarsely. Images are drawn of
   these Gaussians, and k-means on the *drawn* ones gives first centers, at no cost.
3. Lloyd's rounds: pixel sums of every component; centers follow, components that few images are in move
   next to the largest one. Each coefficient of a center is drawn to its label's mean as far as noise
   makes it (empirical Bayes).
4. Products of what is left: each label's covariance within components.

The noise of every released number is known in public, and everything here is a function of what was
released (`privot.sliced.sums.rounds`): Gaussian mechanisms of all rounds compose exactly.

References:
    Lloyd, *Least squares quantization in PCM* (1982); Blum, Dwork, McSherry, Nissim, *Practical privacy:
    the SuLQ framework* (2005), for k-means by noisy sums.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from privot.sliced.images import ImageRecords
from privot.sliced.mixtures.image_law import ImageMixture
from privot.sliced.mixtures.image_recipe import ImageRecipe
from privot.sliced.mixtures.questions import LEVELS, Components, PixelSums, ResidualProducts
from privot.sliced.mixtures.shrinkage import shrink_covariances
from privot.sliced.sums.rounds import Rounds

Floats = NDArray[np.float64]
_FEW = 20.0  # images of a component: fewer are taken for as many
_DRAWN = 200  # images a component, of the Gaussians that first centers are found on
_PASSES = 10  # of k-means on them


def fit_images(rounds: Rounds, images: ImageRecords, recipe: ImageRecipe) -> ImageMixture:
    """The mixture that the rounds of `recipe` tell.

    Arguments:
        rounds: Of a plan with the recipe's shares.
        images: Of the schema; their own frequencies play no part.
        recipe: How many components, which frequencies, which lengths.
    """
    fit = _Fit(rounds, images, recipe)
    rng = np.random.default_rng(recipe.seed)
    labels = images.num_labels
    centers, counts = fit.pixel_sums(np.zeros((labels, 1, fit.fine.num_coordinates)))
    if recipe.components > 1:
        roots = fit.products(centers, counts, fit.coarse)
        first = [fit.first_centers(centers[c, 0], roots[c], rng) for c in range(labels)]
        centers = np.array(first)
        for step in range(recipe.lloyd_rounds):
            centers, counts = fit.pixel_sums(centers)
            if step < recipe.lloyd_rounds - 1:
                centers = fit.revived(centers, counts, rng)
    roots = fit.products(centers, counts, fit.residual)
    return ImageMixture.of(images, fit.pixels(centers), counts, fit.residual, roots)


@dataclass(frozen=True, eq=False)
class _Fit:
    """Rounds, and the frequencies in which their answers are read. Centers are (labels, K, p)."""

    rounds: Rounds
    images: ImageRecords
    recipe: ImageRecipe

    @property
    def fine(self) -> ImageRecords:
        """Frequencies of centers."""
        return self._kept(self.recipe.low_pass)

    @property
    def coarse(self) -> ImageRecords:
        """Frequencies of the first covariances."""
        return self._kept(self.recipe.first_low_pass)

    @property
    def residual(self) -> ImageRecords:
        """Frequencies of the last covariances."""
        return self._kept(self.recipe.residual_low_pass)

    def _kept(self, low_pass: int) -> ImageRecords:
        return ImageRecords(self.images.schema, low_pass=low_pass, degree=1)

    def pixels(self, centers: Floats) -> Floats:
        """Centers as images (labels, K, pixels) in [0, 1]."""
        return np.clip(_expand(self.fine, centers), 0.0, 1.0)

    def pixel_sums(self, centers: Floats) -> tuple[Floats, Floats]:
        """New centers (labels, K, p) and counts (labels, K)."""
        question = PixelSums(Components(self.fine, centers), self.recipe.norm)
        released = self.rounds.ask(question)
        sums = released.sums.reshape(*centers.shape[:2], -1)
        counts = np.maximum(sums[..., -1] / question.one, 1.0)
        size = np.maximum(counts, _FEW)[..., None]
        told = _coordinates(self.fine, sums[..., :-1] / LEVELS / size)
        noise = released.stddev / LEVELS / size
        share = (counts / counts.sum(axis=1, keepdims=True))[..., None]
        mean = (share * told).sum(axis=1, keepdims=True)
        signal = np.maximum((share * ((told - mean) ** 2 - noise**2)).sum(1, keepdims=True), 0.0)
        found = mean + signal / (signal + noise**2) * (told - mean)
        return _coordinates(self.fine, self.pixels(found)), counts

    def products(self, centers: Floats, counts: Floats, images: ImageRecords) -> Floats:
        """Roots (labels, p, p) of covariances within components, in the frequencies of `images`."""
        means = _coordinates(images, self.pixels(centers)).reshape(-1, images.num_coordinates)
        components = Components(self.fine, centers)
        question = ResidualProducts(components, means, images, self.recipe.residual_norm)
        released = self.rounds.ask(question)
        size = counts.sum(axis=1)
        scale = question.unit**2 / size
        spreads = released.sums * scale[:, None, None]
        values, vectors = np.linalg.eigh(
            shrink_covariances(spreads, released.stddev * scale, images.frequencies)
        )
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :])

    def first_centers(self, mean: Floats, root: Floats, rng: np.random.Generator) -> Floats:
        """Centers (K, p) of k-means on images drawn of a label's Gaussian."""
        count = self.recipe.components
        noise = rng.standard_normal((_DRAWN * count, len(root))) @ root.T
        drawn = _expand(self.fine, mean[None]) + _expand(self.coarse, noise)
        return k_means(_coordinates(self.fine, np.clip(drawn, 0.0, 1.0)), count, rng)

    def revived(self, centers: Floats, counts: Floats, rng: np.random.Generator) -> Floats:
        """Centers of components that few images are in, moved next to their label's largest."""
        moved = centers.copy()
        for label, count in enumerate(counts):
            few = count < 2 * _FEW
            spread = centers[label].std(axis=0)
            jump = spread * rng.standard_normal((int(few.sum()), centers.shape[2]))
            moved[label][few] = centers[label][count.argmax()] + jump
        return moved


def k_means(points: Floats, count: int, rng: np.random.Generator) -> Floats:
    """Centers (count, p) of points (n, p), by Lloyd's passes from points drawn at random."""
    centers = points[rng.choice(len(points), count, replace=False)]
    for _ in range(_PASSES):
        nearest = ((centers**2).sum(axis=1) / 2 - points @ centers.T).argmin(axis=1)
        number = np.bincount(nearest, minlength=count)
        sums = np.zeros_like(centers)
        np.add.at(sums, nearest, points)
        held = number > 0
        centers[held] = sums[held] / number[held, None]
    return centers


def _expand(images: ImageRecords, coordinates: Floats) -> Floats:
    """Pixels (…, pixels) of coordinates (…, p)."""
    flat = torch.from_numpy(coordinates.reshape(-1, coordinates.shape[-1]))
    return images.expand(flat).flatten(1).numpy().reshape(*coordinates.shape[:-1], -1)


def _coordinates(images: ImageRecords, pixels: Floats) -> Floats:
    """Coordinates (…, p) of pixels (…, pixels), whatever values they have."""
    flat = torch.from_numpy(pixels.reshape(-1, *images.shape))
    return images.transform(flat).numpy().reshape(*pixels.shape[:-1], -1)
