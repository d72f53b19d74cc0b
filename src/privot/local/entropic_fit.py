r"""Fitting a generator to a release by entropic optimal transport.

Each step draws b reports and b latents, solves one small transport problem at the matched cost, and
follows the gradient of $⟨π, C⟩$ with the plan held fixed (algorithm 1 of Reshetova et al.).

**Mini-batch bias.** The recovery theorem is about distributions; a plan between b points and b points
can match noise that only looks like structure, and shrinks what is learned: in 50 dimensions with
noise of standard deviation 1 the learned spread at b = 400 is half the truth. The *self-corrected*
loss subtracts the gradient that the model would receive from its own privatized samples,

$$ g = g_b(θ; Y) − g_b(θ; Y'), \qquad Y' = M(\text{stopgrad } G_θ(z')) , $$

with the same generated batch in both terms. When $P_G = P_X$, Y′ has the law of Y, so $E\,g = 0$ for
every b, dimension and mechanism; as b → ∞ the second term vanishes. In a few dimensions the bias is
small and the second plan only adds variance, so `loss="auto"` is `"plain"` up to 5 features. (z′ must
be fresh: privatizing the batch's own points again would bring the bias back.)

**Likelihood.** For columns that are all reported as codes, the generator's outputs are distributions,
and a batch's b latents make a mixture whose exact likelihood can be followed,

$$ −\frac1m \sum_j \log \frac1b \sum_i e^{−C_{ij}} , $$

which is the transport problem with its first marginal left free: no plan need be solved for. Joint
reports depend on the mixture through its table over few columns, so one step looks at many reports.
The b latents of a step are then all the classes that it may use: 200 of them keep a network from
fitting the noise, where more do not.
The product of the marginals is a saddle of this likelihood, and a network of small output weights
starts on it: the output weights of codes are made larger.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor, nn

from privot.generators import MLP
from privot.local.cost import LikelihoodCost
from privot.local.heads import Head
from privot.local.model import Model
from privot.local.samplers import GeneratorSampler
from privot.local.settings import FitSettings
from privot.release import Release
from privot.training import Progress, TrainingSettings, train
from privot.training.threads import threads_for
from privot.transport import SinkhornSolver, entropic_cost

_PLAIN_UP_TO = 5
_REPORTS_OF_TABLES = 2**14
_OUTPUT_GAIN = 10.0


def fit_generator(
    release: Release,
    settings: FitSettings,
    device: torch.device,
    checkpoint: Path | None = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> Model:
    """A model whose sampler is a network; see `privot.local.fitting.fit`."""
    head = Head(release.randomizer)
    loss = choose_loss(settings.loss, head, release.randomizer.joint is not None)
    latent_dim = settings.latent_dim or min(16, max(4, head.num_features))
    generator = MLP(latent_dim, head.num_features, settings.hidden, settings.seed).to(device)
    if loss == "likelihood":
        last = generator.layers[-1]
        assert isinstance(last, nn.Linear)
        with torch.no_grad():
            last.weight.mul_(_OUTPUT_GAIN)
    objective = transport_objective(generator, head, release, settings, loss, device)
    steps, batch_size, rate = settings.schedule(loss)
    with threads_for(batch_size**2):
        history = train(
            generator,
            objective,
            TrainingSettings(steps, rate, settings.averaging, settings.seed),
            checkpoint=checkpoint,
            resume=resume,
            identity={
                "hidden": list(settings.hidden),
                "latent_dim": latent_dim,
                "batch_size": batch_size,
                "loss": loss,
                "tolerance": settings.tolerance,
                "max_iterations": settings.max_iterations,
                "release": _fingerprint(release),
            },
            progress=progress,
        )
    made_with = asdict(settings) | {"estimator": "generator", "loss": loss}
    made_with |= {"latent_dim": latent_dim, "steps": steps, "batch_size": batch_size}
    made_with |= {"learning_rate": rate}
    made_with |= {"num_reports": len(release), "seconds": float(history["seconds"][-1])}
    sampler = GeneratorSampler(generator.cpu().eval(), head)
    return Model(sampler, release.randomizer, made_with, history)


def transport_objective(
    generator: MLP,
    head: Head,
    release: Release,
    settings: FitSettings,
    loss: str,
    device: torch.device,
) -> Callable[[torch.Generator], tuple[Tensor, float]]:
    """Loss and marginal error of one step, as a function of the run's random generator."""
    cost = LikelihoodCost(release.randomizer)
    reports = cost.read(release, device)
    solver = SinkhornSolver(settings.tolerance, settings.max_iterations)
    size = settings.schedule(loss)[1]

    tables = loss == "likelihood" and cost.joint is not None and not cost.channels
    num_reports = min(len(reports), _REPORTS_OF_TABLES) if tables else size

    def objective(rng: torch.Generator) -> tuple[Tensor, float]:
        index = torch.randint(len(reports), (num_reports,), generator=rng).to(device)
        batch = reports.rows(index)
        outputs = head(generator(generator.draw_latent(size, rng)))
        if loss == "likelihood":
            # An exact likelihood of the batch's mixture: no marginal is left to fit.
            return cost.mixture(outputs, batch).mean(), 0.0
        value, result = entropic_cost(cost(outputs, batch), solver=solver)
        if loss == "plain":
            return value, result.marginal_error
        with torch.no_grad():
            own = head(generator(generator.draw_latent(size, rng)))
            echo = cost.simulate(own, batch, rng)
        correction, second = entropic_cost(cost(outputs, echo), solver=solver)
        return value - correction, max(result.marginal_error, second.marginal_error)

    return objective


def choose_loss(loss: str, head: Head, joint: bool) -> str:
    """The loss that `"auto"` stands for."""
    if loss != "auto":
        return loss
    if joint and len(head.coded) == len(head.widths):
        return "likelihood"
    return "plain" if head.num_features <= _PLAIN_UP_TO else "self_corrected"


def _fingerprint(release: Release) -> str:
    """Which release it was: a hash of public things, the reports and their randomizer."""
    digest = hashlib.sha256(release.randomizer.to_json().encode())
    reports = LikelihoodCost(release.randomizer).read(release, torch.device("cpu"))
    parts = [*reports.values.values(), *reports.reported.values()]
    for part in (*parts, reports.combination, reports.cells):
        if part is not None:
            digest.update(part.contiguous().numpy().tobytes())
    return digest.hexdigest()
