r"""Populations that are known, so that what is learned from their reports can be measured.

**Linear Gaussian records.** $X = A_0 z$ with $z ∼ N(0, I_r)$ and $A_0^⊤ A_0 = (d/r) I$: coordinates of
unit variance on average, in a subspace of r dimensions. The generator is $G(z) = A z + c$ with all of
A to be learned; the noise is Gaussian or Laplace, of standard deviation σ in each coordinate. A closed
form to compare with is probabilistic principal components on the reports: the first r eigenvalues of
their covariance, less σ² (maximum likelihood for Gaussian noise, a moment estimate for Laplace noise).

**Categories.** m columns of k categories, $p(·|z) = \operatorname{softmax}(A_0 z + c_0)$, each reported
by randomized response; the generator is of the same form.

References:
    Tipping, Bishop, *Probabilistic principal component analysis* (1999).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from privot.local.networks.heads import Head
from privot.mechanisms import Gaussian, Laplace, RandomizedResponse
from privot.randomizer import Randomizer, Release
from privot.schema import Schema
from privot.training.generators import MLP

# A public radius that holds every record; generators work in the table's units.
_RADIUS = 100.0
_GRID = 2.0**-30


class Records(Protocol):
    """A population that is known, how it is reported, and the generator that could be it."""

    @property
    def rank(self) -> int:
        """Dimension of the latent."""

    def release(self, num_people: int, seed: int) -> Release:
        """Reports of people drawn from it. Privacy's noise has no seed."""

    def generator(self, seed: int) -> MLP:
        """A generator with initial weights."""

    def covariances(self, generator: MLP, seed: int) -> tuple[Tensor, Tensor]:
        """Of the learned distribution, and of the true one."""


class _Linear(MLP):
    """$(A z + c)/R$: unit coordinates of points in the table's units."""

    def forward(self, latent: Tensor) -> Tensor:
        """See the class."""
        return super().forward(latent) / _RADIUS


@dataclass(frozen=True)
class LinearGaussian:
    """$A_0 z$ of dimension d and rank r, with noise of standard deviation σ."""

    noise: str
    dimension: int
    rank: int
    stddev: float

    def __str__(self) -> str:
        rank = f" of rank {self.rank}" if self.rank < self.dimension else ""
        return f"{self.noise.capitalize()}, d = {self.dimension}{rank}, σ = {self.stddev:g}"

    def truth(self, seed: int) -> Tensor:
        """$A_0$ (d, r), its columns orthogonal."""
        rng = torch.Generator().manual_seed(seed)
        frame, _ = torch.linalg.qr(torch.randn(self.dimension, self.rank, generator=rng))
        return frame * math.sqrt(self.dimension / self.rank)

    def release(self, num_people: int, seed: int) -> Release:
        """See `Records`."""
        names = [f"x{j}" for j in range(self.dimension)]
        vector = {"kind": "vector", "columns": names, "radius": _RADIUS}
        schema = Schema.from_dict({"columns": {"x": vector}})
        stddev = self.stddev / _RADIUS
        randomizer = (
            Randomizer(schema, {"x": Gaussian(stddev, _GRID)}, delta=1e-6)
            if self.noise == "gaussian"
            else Randomizer(schema, {"x": Laplace(stddev / math.sqrt(2), _GRID)})
        )
        rng = torch.Generator().manual_seed(seed + 1)
        people = torch.randn(num_people, self.rank, generator=rng) @ self.truth(seed).T
        columns = zip(names, people.double().T.numpy(), strict=True)
        return randomizer.privatize(dict(columns))

    def generator(self, seed: int) -> MLP:
        """See `Records`: PyTorch's initial weights have a spread of $1/\\sqrt3$."""
        return _Linear(self.rank, self.dimension, hidden=(), seed=seed)

    def covariances(self, generator: MLP, seed: int) -> tuple[Tensor, Tensor]:
        """See `Records`."""
        learned, true = _matrix(generator), self.truth(seed)
        return learned @ learned.T, true @ true.T

    def closed_form(self, release: Release) -> Tensor:
        """Covariance by principal components above the noise, without a generator."""
        reports = torch.as_tensor(release.reports("x")[0]) * _RADIUS
        values, vectors = torch.linalg.eigh(torch.cov(reports.T))
        kept = (values[-self.rank :] - self.stddev**2).clamp_min(0)
        components = vectors[:, -self.rank :]
        return ((components * kept) @ components.T).float()


@dataclass(frozen=True)
class LatentCategories:
    """m columns of k categories whose probabilities follow r latents, each at ε of its own."""

    num_columns: int
    num_categories: int
    rank: int
    epsilon: float

    def __str__(self) -> str:
        return (
            f"{self.num_columns} columns of {self.num_categories} categories, "
            f"{self.rank} latents, ε = {self.epsilon:g} each"
        )

    def truth(self, seed: int) -> MLP:
        """The generator that the records come from; its weights are 3.5 times the initial ones."""
        truth = MLP(self.rank, self.num_columns * self.num_categories, hidden=(), seed=seed)
        for weights in truth.parameters():
            weights.data.mul_(3.5)
        return truth

    def release(self, num_people: int, seed: int) -> Release:
        """See `Records`."""
        names = [f"x{j}" for j in range(self.num_columns)]
        column = {"kind": "categorical", "categories": [*"abcdefghij"][: self.num_categories]}
        schema = Schema.from_dict({"columns": dict.fromkeys(names, column)})
        mechanism = RandomizedResponse(self.num_categories, self.epsilon)
        randomizer = Randomizer(schema, dict.fromkeys(names, mechanism))
        rng, truth = torch.Generator().manual_seed(seed + 1), self.truth(seed)
        head = Head(randomizer)
        with torch.no_grad():
            outputs = head(truth(truth.draw_latent(num_people, rng)))
        return randomizer.privatize(head.records(outputs, rng))

    def generator(self, seed: int) -> MLP:
        """See `Records`."""
        return MLP(self.rank, self.num_columns * self.num_categories, (), seed + 1)

    @torch.no_grad()
    def covariances(self, generator: MLP, seed: int) -> tuple[Tensor, Tensor]:
        """See `Records`: of the probabilities over the latents, from the same 20 000 of them."""
        shape = (-1, self.num_columns, self.num_categories)
        latent = generator.draw_latent(20_000, torch.Generator().manual_seed(0))
        learned, true = (
            torch.cov(torch.softmax(each(latent).view(shape), 2).flatten(1).T)
            for each in (generator, self.truth(seed))
        )
        return learned, true


def _matrix(generator: MLP) -> Tensor:
    return generator.state_dict()["layers.0.weight"]
