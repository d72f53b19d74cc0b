r"""Domain-adversarial networks, without privacy and with clipped, noised target gradients.

A discriminator D tells source features from target features; g is trained against it:

$$ \min_{g,h} \max_D\; \mathrm{CE}(h(g(x_s)), y_s) − λ \big[\mathrm{BCE}(D(g(x_s)), 0)
   + \mathrm{BCE}(D(g(x_t)), 1)\big], $$

with λ rising from 0 to `weight` as 2/(1 + e^{−10 p}) − 1 over the run.

**With privacy** (DP-DANN) the target enters through the gradient of its own term alone. In each step,
every target record is taken with probability q by a secret coin; each one's gradient by g and D, as one
vector, is shortened to norm C at most; N(0, σ²C² I) is added to the sum, which is divided by the
*expected* batch. Reversing the sign for g is post-processing, and so is everything else.

**What is promised**: (ε, δ) under `zero_out`: a record, or a blank without gradient, moves the sum by C
at most, so Δ = C. The T sums are a Poisson-subsampled Gaussian mechanism of sensitivity 1 and noise σ.
That is what padded Poisson slicing along a full orthonormal frame is, where the projected length of
every record is its own, so the same accountant calibrates σ; there is one published row, whoever is
drawn, so that the δ it keeps for overflow is not even needed. Coins and noise are the operating
system's; sums are in floating point: for comparisons, nobody's data.

References:
    Ganin et al., *Domain-adversarial training of neural networks* (2016); Wang, Zhou et al.,
    *Deep domain adaptation with differential privacy* (2020); Abadi et al., *Deep learning with
    differential privacy* (2016).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from privot.central.classifiers.adaptation import Adaptation
from privot.central.classifiers.adapted import AdaptationSettings, Classifier, as_records
from privot.central.slices import poisson_sample
from privot.core.errors import PrivotError
from privot.mechanisms.gaussian import sample_rounded_gaussian
from privot.privacy.slice_accounting import SlicedAccounting
from privot.training.loop import threads_for, train

_NOISE_STEPS = 2.0**20  # grid steps in a standard deviation of noise


@dataclass(frozen=True)
class DANNSettings:
    """Public numbers; with an ε, the target's gradients are clipped and noised.

    `network` gives architecture, jitter, learning rate and seed, as for the methods it is compared with.
    """

    network: AdaptationSettings
    epsilon: float | None = None
    delta: float = 1e-5
    steps: int = 1500
    batch_size: int = 64
    gradient_norm: float = 1.0
    weight: float = 0.3
    hidden: int = 64

    def stddev(self, records: int) -> float:
        """Noise multiplier σ for as many target records; 0 without privacy."""
        if self.epsilon is None:
            return 0.0
        accounting = SlicedAccounting(
            unit=self.network.unit,
            dim=2,
            num_projections=2,
            records=records,
            batch_size=self.batch_size,
            sampling="padded_poisson",
            neighboring="zero_out",
            radius=1.0,
            orthonormal=True,
        )
        return accounting.calibrate(self.epsilon, self.delta, self.steps, "pld")


class _Adversaries(nn.Module):
    """g, h and the discriminator."""

    def __init__(self, classifier: Classifier, hidden: int, seed: int) -> None:
        super().__init__()
        self.classifier = classifier
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            width = classifier.h.in_features
            self.discriminator = nn.Sequential(
                nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, 1)
            )

    def forward(self, x: Tensor) -> Tensor:
        """Log odds (n,) that records are the target's."""
        odds: Tensor = self.discriminator(self.classifier.features(x))[:, 0]
        return odds


def fit_dann(
    source_x: np.ndarray, source_y: np.ndarray, target_x: np.ndarray, settings: DANNSettings
) -> tuple[Classifier, float]:
    """Train against a discriminator; the classifier, and the noise multiplier σ that was used.

    Raises:
        PrivotError: if the expected batch is larger than the target, or no noise keeps ε.
    """
    target = as_records("target_x", target_x)
    if not 1 <= settings.batch_size <= len(target):
        raise PrivotError(
            f"batch_size {settings.batch_size} of {len(target)} target records: give 1 to all"
        )
    network = settings.network
    # The course makes source batches with the very jitter that other methods get.
    course = Adaptation(source_x, source_y, network)
    model = _Adversaries(course.classifier, settings.hidden, network.seed)
    stddev = settings.stddev(len(target))
    taken = 0

    def objective(rng: torch.Generator) -> tuple[Tensor, float]:
        nonlocal taken
        taken += 1
        level = settings.weight * (2 / (1 + math.exp(-10 * taken / settings.steps)) - 1)
        moved, y = course.batch(rng)
        features = model.classifier.features(moved)
        loss = nn.functional.cross_entropy(model.classifier.scores(features), y)
        odds = model.discriminator(_Reverse.apply(features, level))[:, 0]
        loss = loss + nn.functional.softplus(odds).mean()
        if settings.epsilon is not None:
            drawn = poisson_sample(len(target), settings.batch_size / len(target))
            return loss + _private_term(model, target[drawn], settings, stddev, level), 0.0
        chosen = torch.randint(len(target), (settings.batch_size,), generator=rng)
        features = model.classifier.features(target[chosen])
        odds = model.discriminator(_Reverse.apply(features, level))[:, 0]
        return loss + nn.functional.softplus(-odds).mean(), 0.0

    with threads_for(0):
        train(model, objective, network.training(settings.steps, 0))
    return model.classifier.eval(), stddev


def _private_term(
    model: _Adversaries, batch: Tensor, settings: DANNSettings, stddev: float, level: float
) -> Tensor:
    """A linear function of the weights whose gradient is the noised one."""
    trained: dict[str, Tensor] = {
        k: v for k, v in model.named_parameters() if not k.startswith("classifier.h.")
    }
    sums = clipped_sum(_target_term(model), trained, batch, settings.gradient_norm)
    total = torch.zeros(())
    for name, weight in trained.items():
        noise = sample_rounded_gaussian(tuple(weight.shape), _NOISE_STEPS) / _NOISE_STEPS
        noised = sums[name] + stddev * settings.gradient_norm * torch.from_numpy(noise).float()
        sign = -level if name.startswith("classifier.") else 1.0
        total = total + (weight * (sign / settings.batch_size) * noised).sum()
    return total


def _target_term(model: _Adversaries) -> Callable[[dict[str, Tensor], Tensor], Tensor]:
    def term(weights: dict[str, Tensor], record: Tensor) -> Tensor:
        odds = functional_call(model, weights, (record[None],))
        return nn.functional.softplus(-odds)[0]

    return term


def clipped_sum(
    term: Callable[[dict[str, Tensor], Tensor], Tensor],
    weights: dict[str, Tensor],
    batch: Tensor,
    bound: float,
) -> dict[str, Tensor]:
    """Sum over records of the gradient of `term`, each shortened to norm `bound` at most."""
    copies = {k: v.detach().requires_grad_() for k, v in weights.items()}
    total = {k: torch.zeros_like(v) for k, v in weights.items()}
    # One at a time: faster for small convolutions than a vectorized map.
    for record in batch:
        gradients = torch.autograd.grad(term(copies, record), list(copies.values()))
        norm = torch.stack([g.norm() for g in gradients]).norm()
        if not bool(torch.isfinite(norm)):
            continue  # no factor shortens it: it counts as a blank
        factor = (bound / norm.clamp_min(1e-12)).clamp(max=1.0)
        for summed, gradient in zip(total.values(), gradients, strict=True):
            summed += factor * gradient
    return total


class _Reverse(torch.autograd.Function):
    """The identity whose gradient is multiplied by −level."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, x: Tensor, level: float) -> Tensor:
        """See the class."""
        ctx.level = level  # type: ignore[attr-defined]  # how autograd carries constants
        return x.view_as(x)

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, gradient: Tensor) -> tuple[Tensor, None]:
        """See the class."""
        return -ctx.level * gradient, None  # type: ignore[attr-defined]  # as above
