r"""A generator of images fitted to their reports, by one of five losses of a batch.

| loss | of generated x, reports y (b of each) | learns |
|---|---|---|
| `entropic` | $\mathrm{OT}_{−\log f, 1}(x, y)$, the papers' | the clean images, shrunk |
| `self_corrected` | the same, less that of the model's own reports: ours | the clean images |
| `unregularized` | $W_p^p(x, y)$ | the noise as well |
| `sinkhorn_divergence` | $S_λ(x, y)$ | the noise as well |
| `noisy_wasserstein` | $W_p^p(x + n', y)$ | the clean images, slowly |

All see the same generator, optimizer and reports; small settings give each loss its batch size and about
the same time. Everything here is post-processing of a release.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from privot.errors import PrivotError
from privot.generators import DCGAN, MLP, Bounded
from privot.local.generators.covariance_start import leading_axes, start_at_moments
from privot.models import History
from privot.training import TrainingSettings, train
from privot.transport import SinkhornSolver, entropic_cost
from studies.entropic.image_noise import SIDE, ImageNoise
from studies.rivals.batch_losses import debiased, noisy_wasserstein, unregularized

LOSSES = (
    "entropic", "self_corrected", "unregularized", "sinkhorn_divergence", "noisy_wasserstein",
)  # fmt: skip
_SAMPLED = 2000


@dataclass(frozen=True)
class FitPlan:
    """What decides a fit, apart from the reports and the loss.

    Arguments:
        steps: Optimizer steps.
        batch_size: Reports, and generated images, a step.
        learning_rate: Peak rate of Adam, decayed to 0.
        averaging: Decay of the moving average of the weights.
        network: `"mlp"` behind tanh, `"dcgan"`, or `"dcgan_no_norm"`.
        hidden: Widths of the MLP's hidden layers.
        latent_dim: Dimension of the latent.
        latent: `"normal"` or `"uniform"`.
        tolerance: Marginal error of a batch's plan.
        max_iterations: Most Sinkhorn iterations a plan.
        seed: Of initial weights, batches, latents and simulated noise.
    """

    steps: int = 8000
    batch_size: int = 128
    learning_rate: float = 2.5e-3
    averaging: float = 0.996
    network: str = "mlp"
    hidden: tuple[int, ...] = (256, 256)
    latent_dim: int = 16
    latent: str = "normal"
    tolerance: float = 1e-2
    max_iterations: int = 200
    seed: int = 0


@dataclass(frozen=True)
class Fitted:
    """A generator, how it was trained, and how long that took."""

    generator: Bounded | DCGAN
    history: History
    seconds: float

    def sample(self, num_images: int, seed: int) -> Tensor:
        """Images (num_images, SIDE²) in [−1, 1]."""
        return draw_images(self.generator, num_images, seed)


@torch.no_grad()
def draw_images(generator: Bounded | DCGAN, num_images: int, seed: int) -> Tensor:
    """Images (num_images, SIDE²) in [−1, 1]."""
    rng = torch.Generator().manual_seed(seed)
    parts = []
    for start in range(0, num_images, _SAMPLED):
        latent = generator.draw_latent(min(_SAMPLED, num_images - start), rng)
        parts.append(generator(latent).cpu())
    return torch.cat(parts)


def fit_images(
    reports: Tensor,
    noise: ImageNoise,
    loss: str,
    plan: FitPlan,
    device: torch.device | None = None,
) -> Fitted:
    """Fit a generator of images to `reports` (n, SIDE²), in the space of the noise.

    Raises:
        PrivotError: if the loss or the network is not known.
    """
    device = device or torch.device("cpu")
    generator = build_generator(reports, noise, plan).to(device)
    objective = batch_objective(generator, reports.to(device), noise, loss, plan)
    settings = TrainingSettings(plan.steps, plan.learning_rate, plan.averaging, plan.seed)
    start = time.perf_counter()
    with _short_products():
        history = train(generator, objective, settings)
    return Fitted(generator.cpu().eval(), history, time.perf_counter() - start)


def planned(plan: FitPlan, chosen: argparse.Namespace) -> FitPlan:
    """The plan with the seed, and the steps if any, of the command line."""
    return replace(plan, seed=chosen.seed, steps=chosen.steps or plan.steps)


def suited(plan: FitPlan, loss: str) -> FitPlan:
    """The small plan at the batch size that suits a loss, for about the same time on one core.

    Self-correction removes the batch's bias, so it takes small batches and many steps; the entropic loss
    alone gets the papers' 400; those that need an exact assignment or three plans get 250 and 200.
    """
    size = {"self_corrected": plan.batch_size, "entropic": 400, "sinkhorn_divergence": 200}
    batch_size = size.get(loss, 250)
    steps = plan.steps if batch_size == plan.batch_size else plan.steps // 4
    return replace(plan, batch_size=batch_size, steps=steps, averaging=max(0.0, 1 - 8 / steps))


@contextmanager
def _short_products() -> Iterator[None]:
    """Matrix products in bfloat16 where the processor has them: their errors are far below the noise."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def build_generator(reports: Tensor, noise: ImageNoise, plan: FitPlan) -> Bounded | DCGAN:
    """The network of the plan; an MLP starts at the reports' mean and denoised covariance."""
    if plan.network == "mlp":
        network = MLP(plan.latent_dim, SIDE**2, plan.hidden, plan.seed)
        still = torch.zeros(SIDE**2)
        generator = Bounded(network, still, plan.latent)  # type: ignore[arg-type]  # checked there
        latent = generator.draw_latent(_SAMPLED, torch.Generator().manual_seed(plan.seed))
        start_at_moments(network, latent, *leading_axes(noise.back(reports), noise.stddev**2))
        return generator
    if plan.network not in ("dcgan", "dcgan_no_norm"):
        raise PrivotError(f"network {plan.network!r} is not known: use 'mlp' or 'dcgan'")
    return DCGAN(
        SIDE,
        latent_dim=plan.latent_dim,
        batch_norm=plan.network == "dcgan",
        latent=plan.latent,  # type: ignore[arg-type]  # checked there
        seed=plan.seed,
    )


def batch_objective(
    generator: Bounded | DCGAN, reports: Tensor, noise: ImageNoise, loss: str, plan: FitPlan
) -> Callable[[torch.Generator], tuple[Tensor, float]]:
    """Loss and marginal error of one step."""
    solver = SinkhornSolver(plan.tolerance, plan.max_iterations)
    size, p, device = plan.batch_size, noise.p, reports.device
    last_outputs: list[Tensor] = []

    def generate(rng: torch.Generator) -> Tensor:
        return noise.into(generator(generator.draw_latent(size, rng)))

    def entropic(x: Tensor, y: Tensor, rng: torch.Generator) -> tuple[Tensor, float]:
        value, result = entropic_cost(noise.cost(x, y), solver=solver)
        return value, result.marginal_error

    def self_corrected(x: Tensor, y: Tensor, rng: torch.Generator) -> tuple[Tensor, float]:
        # The batch of the step before: other latents, weights one step old, and no second pass.
        own = last_outputs[0] if last_outputs else generate(rng).detach()
        last_outputs[:] = [x.detach()]
        echo = noise.simulate(own, rng)
        (value, error), (mirror, mirror_error) = entropic(x, y, rng), entropic(x, echo, rng)
        return value - mirror, max(error, mirror_error)

    def learn_noise(x: Tensor, y: Tensor, rng: torch.Generator) -> tuple[Tensor, float]:
        return unregularized(x, y, p) / noise.reg, 0.0

    def diverge(x: Tensor, y: Tensor, rng: torch.Generator) -> tuple[Tensor, float]:
        return debiased(x, y, p, noise.reg, solver) / noise.reg, 0.0

    def noise_again(x: Tensor, y: Tensor, rng: torch.Generator) -> tuple[Tensor, float]:
        fresh = noise.simulate(torch.zeros_like(x), rng)
        return noisy_wasserstein(x, fresh, y, p) / noise.reg, 0.0

    rules = dict(
        zip(LOSSES, (entropic, self_corrected, learn_noise, diverge, noise_again), strict=True)
    )
    if loss not in rules:
        raise PrivotError(f"loss {loss!r} is not known: use one of {', '.join(LOSSES)}")
    rule = rules[loss]

    def objective(rng: torch.Generator) -> tuple[Tensor, float]:
        index = torch.randint(len(reports), (size,), generator=rng).to(device)
        return rule(generate(rng), reports[index], rng)

    return objective


# The papers' settings for images, meant for a GPU: 150 epochs of batches of 400.
PAPERS_PLAN = FitPlan(
    steps=22_500, batch_size=400, learning_rate=1e-4, network="dcgan", latent_dim=100,
    latent="uniform", max_iterations=400,
)  # fmt: skip
