r"""DPGAN: a generator against a critic with noised gradients; one person's privacy, not everybody's.

A Wasserstein GAN: a critic $f_w$ is raised on records and lowered on draws $g_θ(z)$, $z ∼ N(0, I)$,
its weights cut to $[−c, c]$ after every step; $g_θ$ follows it. Only the critic's steps see records.
In each:

1. every record is taken with probability $q$ by a coin of its own (Poisson sampling);
2. each one's gradient of $f_w(g_θ(z_i)) − f_w(x_i)$, record and draw as one pair, is shortened to
   norm $C$ at most, all layers as one vector;
3. $N(0, σ² C² I)$ is added to their sum, which is divided by $q n$, the batch size *expected*.

Xie et al. have no step 2 and bound the gradient by the cut weights, a bound that ours does not need.
Cutting weights and training $g_θ$ are post-processing of noised gradients, as is every draw: any
number of draws costs nothing more.

**What is promised**: (ε, δ)-differential privacy of the generator's weights, and so of all its draws,
with a trusted curator. Adjacency is Opacus': one record is there or not (add/remove), which moves the
sum of step 2 by $C$ at most. $q$ and $σ$ are computed from $n$, so that $n$ has to be public; said
with $n$ held fixed, the record is present or a blank with gradient zero, and that is the `zero_out`
written into `guarantee`: the same two mixtures of Gaussians, hence the same ε. It is **not integral
privacy**: between data sets without a record in common nothing is left (n ε, with a δ that is no
longer below one).

**The noise** $σ$ is the smallest that Opacus' Rényi accountant finds for the number of steps (to 0.01
in ε, from below): its bound for the sampled Gaussian is proven in both directions of the adjacency.
The steps counted as they are made have to stay below ε, or nothing is returned.

**What voids it**: knowing `seed`, which coins and noise come from, and a generator that is no
cryptographic one; noise in floating point, whose gaps may tell sums apart (Mironov 2012); learning
rates or stopping chosen by looking at the records, which nobody has paid for; publishing losses, or
the critic's gradients before noise; a person with two records. For comparisons, nobody's data.

References:
    Xie, Lin, Wang, Wang, Zhou, *Differentially private generative adversarial network* (2018);
    Abadi et al., *Deep learning with differential privacy* (2016);
    Mironov, Talwar, Zhang, *Rényi differential privacy of the sampled Gaussian mechanism* (2019);
    Yousefpour et al., *Opacus: user-friendly differential privacy library in PyTorch* (2021).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from privot.core.errors import PrivotError
from privot.privacy.guarantees import ApproximateDP

PACKAGE = "opacus"


@dataclass(frozen=True)
class DPGANSettings:
    """Public numbers; `steps` are the critic's, one in `critic_steps` is followed by the generator's."""

    steps: int = 2500
    critic_steps: int = 5
    batch_size: int = 500
    learning_rate: float = 5e-3
    gradient_norm: float = 1.0
    weight_bound: float = 0.7
    hidden: int = 64
    latent_dim: int = 8


@dataclass(frozen=True, eq=False)
class DPGAN:
    """A trained generator and what it promises; `spent_epsilon` is the accountant's, at most ε."""

    generator: nn.Sequential
    latent_dim: int
    guarantee: ApproximateDP
    noise_multiplier: float
    spent_epsilon: float

    @torch.no_grad()
    def sample(self, num_draws: int, generator: torch.Generator) -> NDArray[np.float64]:
        """Draws (num_draws, d): post-processing, they spend nothing."""
        latent = torch.randn(num_draws, self.latent_dim, generator=generator)
        return self.generator(latent).double().numpy()


def fit_dpgan(
    records: NDArray[np.float64],
    epsilon: float,
    delta: float,
    settings: DPGANSettings | None = None,
    *,
    seed: int,
) -> DPGAN:
    """Train a generator on one record a person.

    Args:
        records: (n, d), n public, of a size near one: nothing is scaled by what is in them.
        epsilon: privacy of one person over the whole training.
        delta: its slack, far below 1/n.
        settings: `DPGANSettings()` by default.
        seed: of weights, coins and noise: fit for experiments, not for privacy.

    Raises:
        PrivotError: if Opacus is not installed, ε or δ are out of range, records are no finite table or
            fewer than a batch, or the steps made cost more than ε.
    """
    settings = settings or DPGANSettings()
    _check(records, epsilon, delta, settings)
    opacus = _opacus()
    num_records, dim = records.shape
    rate = settings.batch_size / num_records
    noise = opacus.accountants.utils.get_noise_multiplier(
        target_epsilon=epsilon,
        target_delta=delta,
        sample_rate=rate,
        steps=settings.steps,
        accountant="rdp",
    )
    # Weights from a generator of their own: the global one stays as the caller left it.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        generator = _network(settings.latent_dim, settings.hidden, dim, nn.ReLU())
        critic = _network(dim, settings.hidden, 1, nn.LeakyReLU(0.2))
    random = torch.Generator().manual_seed(seed)
    private, optimizer = private_critic(critic, float(noise), settings, random)
    accountant = opacus.accountants.RDPAccountant()
    optimizer.attach_step_hook(accountant.get_optimizer_hook_fn(sample_rate=rate))
    table = torch.as_tensor(records, dtype=torch.float32)
    _train(table, rate, generator, private, optimizer, settings, random)
    spent = float(accountant.get_epsilon(delta))
    if not spent <= epsilon:
        raise PrivotError(
            f"the steps made cost ε = {spent}, above epsilon = {epsilon}: lower steps"
        )
    promise = ApproximateDP(epsilon, delta, "zero_out")
    return DPGAN(generator, settings.latent_dim, promise, float(noise), spent)


def private_critic(
    critic: nn.Sequential, noise_multiplier: float, settings: DPGANSettings, random: torch.Generator
) -> tuple[Any, Any]:
    """The critic with Opacus' hooks, and its noising optimizer.

    Norms of gradients come of layers' inputs and errors, so that no pair's gradient is ever formed
    (ghost clipping): the same sums in a twentieth of the time.
    """
    opacus = _opacus()
    # Losses are sums, and the optimizer divides by the expected size: the true one is private.
    private = opacus.grad_sample.GradSampleModuleFastGradientClipping(
        critic, loss_reduction="sum", max_grad_norm=settings.gradient_norm
    )
    optimizer = opacus.optimizers.DPOptimizerFastGradientClipping(
        torch.optim.RMSprop(private.parameters(), lr=settings.learning_rate),
        noise_multiplier=noise_multiplier,
        max_grad_norm=settings.gradient_norm,
        expected_batch_size=settings.batch_size,
        generator=random,
    )
    return private, optimizer


def raise_critic(pairs: Tensor, critic: Any, optimizer: Any) -> None:
    """A private step: up on records pairs[:, 0], down on draws pairs[:, 1]."""
    # Backward hooks, by which Opacus finds each pair's norm, want an input to fire on.
    levels = critic(pairs.requires_grad_())[..., 0]
    opacus = import_module(f"{PACKAGE}.utils.fast_gradient_clipping_utils")
    loss = opacus.DPTensorFastGradientClipping(
        critic, optimizer, levels[:, 1] - levels[:, 0], loss_reduction="sum"
    )
    loss.backward()
    optimizer.step()
    critic.enable_hooks()  # which `backward` leaves disabled


def _train(
    records: Tensor,
    rate: float,
    generator: nn.Sequential,
    critic: Any,
    critic_optimizer: Any,
    settings: DPGANSettings,
    random: torch.Generator,
) -> None:
    """The critic's private steps, and the generator's, which see only the critic."""
    weights = list(generator.parameters())
    optimizer = torch.optim.RMSprop(weights, lr=settings.learning_rate)
    for step in range(1, settings.steps + 1):
        coins = torch.rand(len(records), generator=random, dtype=torch.float64)
        batch = records[coins < rate]
        with torch.no_grad():
            latent = torch.randn(len(batch), settings.latent_dim, generator=random)
            pairs = torch.stack([batch, generator(latent)], dim=1)
        raise_critic(pairs, critic, critic_optimizer)
        with torch.no_grad():
            for weight in critic.parameters():
                weight.clamp_(-settings.weight_bound, settings.weight_bound)
        if step % settings.critic_steps == 0:
            critic.disable_hooks()
            latent = torch.randn(settings.batch_size, settings.latent_dim, generator=random)
            gradients = torch.autograd.grad(-critic(generator(latent)).mean(), weights)
            for weight, gradient in zip(weights, gradients, strict=True):
                weight.grad = gradient
            optimizer.step()
            critic.enable_hooks()


def _network(inputs: int, hidden: int, outputs: int, activation: nn.Module) -> nn.Sequential:
    """Two hidden layers; nothing in it looks at a batch as a whole."""
    return nn.Sequential(
        nn.Linear(inputs, hidden),
        activation,
        nn.Linear(hidden, hidden),
        activation,
        nn.Linear(hidden, outputs),
    )


def _opacus() -> Any:
    """The package, asked for only here."""
    if find_spec(PACKAGE) is None:
        raise PrivotError(
            f"{PACKAGE} is not installed: pip install opacus, or leave this comparison out"
        )
    import_module(f"{PACKAGE}.accountants.utils")
    return import_module(PACKAGE)


def _check(
    records: NDArray[np.float64], epsilon: float, delta: float, settings: DPGANSettings
) -> None:
    if not (epsilon > 0 and math.isfinite(epsilon)):
        raise PrivotError(f"epsilon is {epsilon}: it has to be positive and finite")
    if not 0 < delta < 1:
        raise PrivotError(f"delta is {delta}: it has to be between 0 and 1, far below 1/n")
    if records.ndim != 2 or not np.isfinite(records).all():
        raise PrivotError(
            f"records have shape {records.shape}: give a table (n, d) of finite numbers"
        )
    if not 0 < settings.batch_size <= len(records):
        raise PrivotError(
            f"batch_size is {settings.batch_size} of {len(records)} records: "
            "expect between one record a step and all of them"
        )
