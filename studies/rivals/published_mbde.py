r"""Boosted density estimation as published (MBDE): what its ε claims, and what it spends.

From a public $q_0$, for $t = 1 … T$: a network $c_t$ is trained to tell records from draws of
$q_{t−1}$ by cross-entropy, and $q_t ∝ q_{t−1} e^{θ_t c_t}$ with $θ_t = (ε/(ε + 4 \ln 2))^t$. Draws of
$q_{t-1}$ come from random-walk Metropolis–Hastings. The proof wants $|c_t| ≤ \ln 2$.

**What is missing**, here on purpose, since this is the rival:

- The published code trains the network's last layer as a logit and puts it, without any bound, in the
  exponent. Nothing limits $q_T/q_0$, so **no ε holds**; `clip=True` gives the classifiers the paper's
  proof is about.
- A Markov chain only approaches its density. What it misses after a finite burn-in is not in ε.
- With classifiers clipped and finite T the coefficients spend less than they may: the ratio of two
  members is at most $e^{4 \ln 2 · \sum_t θ_t}$, with $\sum_{t ≤ T} θ_t < ε/(4 \ln 2)$. `spent_epsilon`
  is $4 \ln 2 \sum_t θ_t$.

**Settings** are the paper's: layers of 25, 25, 25 tanh; Nesterov's method at 0.01 (momentum 0.9), 750
epochs over a fixed order of three quarters of the sample, in batches of 5 000; T = 3; as many draws as
records, from 20 chains with 1 000 steps of burn-in and steps of q₀'s standard deviation.

**Many fits at once.** Fits are stacked on a first axis and share no weights; records may be counted:
`points` with `counts` (one column a batch) stand for that many equal records, which makes a hundred
one-dimensional fits, their records rounded to a grid (`on_grid`), as cheap as a few.

References:
    Husain, Cranko, Nock, *Integral privacy for density estimation with approximation guarantees*
    (2018); its code (PrivatedBoostedDensities), for what the text leaves open.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import torch
from torch import Tensor

from privot.core.errors import PrivotError

LOG_2 = math.log(2.0)
_MOMENTUM = 0.9


@dataclass(frozen=True)
class PublishedSettings:
    """The paper's settings; `clip` bounds the classifiers as its proof demands and its code does not."""

    rounds: int = 3
    hidden: int = 25
    learning_rate: float = 0.01
    epochs: int = 750
    batch_size: int = 5000
    chains: int = 20
    burn_in: int = 1000
    clip: bool = False


@dataclass(frozen=True, eq=False)
class Layers:
    """Weights and biases of a stack of equal networks, the stack on the first axis."""

    weights: list[Tensor]
    biases: list[Tensor]

    @classmethod
    def fresh(cls, num_fits: int, sizes: list[int], generator: torch.Generator) -> Layers:
        """Glorot's uniform weights and zero biases, as the published code's library has them."""
        weights, biases = [], []
        for inputs, outputs in pairwise(sizes):
            limit = math.sqrt(6 / (inputs + outputs))
            uniform = torch.rand(num_fits, inputs, outputs, generator=generator)
            weights.append(((2 * uniform - 1) * limit).requires_grad_())
            biases.append(torch.zeros(num_fits, 1, outputs).requires_grad_())
        return cls(weights, biases)

    def __call__(self, x: Tensor) -> Tensor:
        """Logits (S, n) of points (S, n, d)."""
        last = len(self.weights) - 1
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = torch.baddbmm(bias, x, weight)
            if i < last:
                x = torch.tanh(x)
        return x[..., 0]


@dataclass(frozen=True, eq=False)
class PublishedDensity:
    """A stack of densities $q_0 e^{\\sum_t θ_t c_t}$, not normalized, q₀ a standard Gaussian."""

    dim: int
    epsilon: float
    settings: PublishedSettings
    classifiers: list[Layers] = field(default_factory=list)

    @property
    def coefficients(self) -> list[float]:
        """$θ_t$ of the classifiers learned so far."""
        base = self.epsilon / (self.epsilon + 4 * LOG_2)
        return [base**t for t in range(1, len(self.classifiers) + 1)]

    @property
    def spent_epsilon(self) -> float:
        """What one exact draw spends: infinite unless the classifiers are clipped."""
        return 4 * LOG_2 * sum(self.coefficients) if self.settings.clip else math.inf

    @torch.no_grad()
    def log_tilt(self, x: Tensor) -> Tensor:
        """$\\sum_t θ_t c_t(x)$, shape (S, n), for points (S, n, d)."""
        total = torch.zeros(x.shape[:2])
        for theta, classifier in zip(self.coefficients, self.classifiers, strict=True):
            logits = classifier(x)
            total += theta * (logits.clamp(-LOG_2, LOG_2) if self.settings.clip else logits)
        return total

    @torch.no_grad()
    def draw(self, num_draws: int, num_fits: int, generator: torch.Generator) -> Tensor:
        """Draws (S, num_draws, d) by random-walk Metropolis–Hastings, as published: approximate."""
        chains = min(self.settings.chains, num_draws)
        steps = -(-num_draws // chains)
        shape = (num_fits, chains, self.dim)
        x = torch.randn(shape, generator=generator)
        if not self.classifiers:
            return torch.randn((num_fits, num_draws, self.dim), generator=generator)
        level = self._log_unnormalized(x)
        kept = []
        for step in range(self.settings.burn_in + steps):
            proposal = x + torch.randn(shape, generator=generator)
            proposed = self._log_unnormalized(proposal)
            accept = torch.rand(shape[:2], generator=generator).log() < proposed - level
            x = torch.where(accept[..., None], proposal, x)
            level = torch.where(accept, proposed, level)
            if step >= self.settings.burn_in:
                kept.append(x)
        return torch.stack(kept, dim=2).reshape(num_fits, -1, self.dim)[:, :num_draws]

    def _log_unnormalized(self, x: Tensor) -> Tensor:
        return self.log_tilt(x) - x.square().sum(dim=-1) / 2


Batches = Callable[[Tensor], tuple[Tensor, Tensor]]
"""Draws (S, n, d) as points (S, m, d) and counts (S, m, batches)."""


def in_order(batch_size: int) -> Batches:
    """Every record a point of its own, batches in the order of the records."""

    def batches(records: Tensor) -> tuple[Tensor, Tensor]:
        batch = torch.arange(records.shape[1]) // batch_size
        counts = torch.nn.functional.one_hot(batch).float()
        return records, counts.expand(len(records), -1, -1)

    return batches


def on_grid(
    lower: Sequence[float], upper: Sequence[float], num_cells: int, batch_size: int
) -> Batches:
    """Records rounded to the centers of a box's cells, `num_cells` an axis, and counted."""
    low, size = torch.tensor(lower), torch.tensor(upper) - torch.tensor(lower)
    strides = num_cells ** torch.arange(len(lower) - 1, -1, -1)
    axis = (torch.arange(num_cells) + 0.5) / num_cells
    mesh = torch.meshgrid(*[axis] * len(lower), indexing="ij")
    centers = low + size * torch.stack([part.ravel() for part in mesh], dim=1)

    def batches(records: Tensor) -> tuple[Tensor, Tensor]:
        num_fits, num_records, _ = records.shape
        places = ((records - low) / size * num_cells).floor().long().clamp(0, num_cells - 1)
        cells = (places * strides).sum(dim=2)
        num_batches = -(-num_records // batch_size)
        batch = torch.arange(num_records) // batch_size
        counts = torch.zeros(num_fits, len(centers) * num_batches)
        counts.scatter_add_(1, cells * num_batches + batch, torch.ones(num_fits, num_records))
        points = centers.expand(num_fits, -1, -1)
        return points, counts.reshape(num_fits, len(centers), num_batches)

    return batches


def fit_published(
    records: Tensor,
    epsilon: float,
    settings: PublishedSettings | None = None,
    batches: Batches | None = None,
    *,
    seed: int,
) -> PublishedDensity:
    """Boost a stack of densities from a standard Gaussian.

    Args:
        records: (S, n, d), one data set a row of the stack.
        epsilon: what the paper would call the privacy of one draw.
        settings: the paper's by default.
        batches: how records are batched; every record a point of its own by default.
        seed: of weights, chains and draws: fit for experiments, not for privacy.

    Raises:
        PrivotError: if epsilon is not positive or records are not a stack of tables.
    """
    settings = settings or PublishedSettings()
    if not (epsilon > 0 and math.isfinite(epsilon)):
        raise PrivotError(f"epsilon is {epsilon}: it has to be positive and finite")
    if records.ndim != 3 or records.shape[1] < 4:
        raise PrivotError(
            f"records have shape {tuple(records.shape)}: give (fits, records, dimensions), "
            "with four records or more"
        )
    batches = batches or in_order(settings.batch_size)
    generator = torch.Generator().manual_seed(seed)
    num_fits, num_records, dim = records.shape
    training = num_records * 3 // 4
    density = PublishedDensity(dim, epsilon, settings)
    real = batches(records[:, :training].float())
    for _ in range(settings.rounds):
        draws = density.draw(num_records, num_fits, generator)[:, :training]
        sizes = [dim, settings.hidden, settings.hidden, settings.hidden, 1]
        classifier = Layers.fresh(num_fits, sizes, generator)
        _train(classifier, real, batches(draws), settings)
        density.classifiers.append(classifier)
    return density


def _train(
    classifier: Layers,
    real: tuple[Tensor, Tensor],
    drawn: tuple[Tensor, Tensor],
    settings: PublishedSettings,
) -> None:
    """Cross-entropy of records against draws, each as its batch's mean; fits do not interact."""
    parameters = [*classifier.weights, *classifier.biases]
    optimizer = torch.optim.SGD(
        parameters, settings.learning_rate, momentum=_MOMENTUM, nesterov=True
    )
    shares = [counts / counts.sum(dim=1, keepdim=True) for _, counts in (real, drawn)]
    batch_points = [
        _batch_points(*side, share) for side, share in zip((real, drawn), shares, strict=True)
    ]
    num_batches = len(batch_points[0])
    for step in range(settings.epochs * num_batches):
        batch = step % num_batches
        (x, share_x), (y, share_y) = batch_points[0][batch], batch_points[1][batch]
        points = torch.cat([x, y], dim=1)
        logits = classifier(points)
        signed = torch.cat([-logits[:, : x.shape[1]], logits[:, x.shape[1] :]], dim=1)
        weights = torch.cat([share_x, share_y], dim=1)
        loss = (torch.nn.functional.softplus(signed) * weights).sum()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()


def _batch_points(points: Tensor, counts: Tensor, shares: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Points and shares of each batch, without the points that no fit has in it."""
    found = []
    for batch in range(counts.shape[2]):
        used = counts[:, :, batch].sum(dim=0) > 0
        found.append((points[:, used], shares[:, used, batch]))
    return found
