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
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor, nn

from privot.generators import MLP
from privot.local.generators.image_fit import ImageObjective, fits_images, image_generator
from privot.local.generators.labeled_generator import LabeledGenerator
from privot.local.generators.minibatches import minibatches
from privot.local.likelihood.cost import LikelihoodCost, Reports
from privot.local.likelihood.heads import Head, Outputs
from privot.local.model import Model
from privot.local.samplers import GeneratorSampler, LabeledSampler
from privot.local.settings import FitSettings
from privot.release import Release
from privot.training import Progress, TrainingSettings, train
from privot.training.parallel import ALONE, Group
from privot.training.precision import short_products
from privot.training.threads import threads_for
from privot.transport import SinkhornResult, SinkhornSolver, entropic_cost
from privot.transport.entropic import entropic_cost_of_rows

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
    group: Group = ALONE,
) -> Model:
    """A model whose sampler is a network; see `privot.local.fitting.fit`."""
    head = Head(release.randomizer)
    loss = choose_loss(settings.loss, head, release.randomizer.joint is not None)
    images = fits_images(release.randomizer) and loss != "likelihood" and group.size == 1
    steps, batch_size, rate = settings.schedule(loss, images, labels=bool(head.coded))
    generator: MLP | LabeledGenerator
    objective: ImageObjective | TransportObjective
    if images:
        generator = image_generator(release, head, settings).to(device)
        plain = loss == "plain"
        objective = ImageObjective(generator, head, release, settings, batch_size, plain, device)
    else:
        generator = _network(head, settings, loss).to(device)
        objective = TransportObjective(generator, head, release, settings, loss, device, group)
    latent_dim = generator.latent_dim
    with threads_for(batch_size**2), short_products() if images else nullcontext():
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
            seek=objective.seek,
            group=group,
        )
    made_with = asdict(settings) | {"estimator": "generator", "loss": loss}
    made_with |= {"latent_dim": latent_dim, "steps": steps, "batch_size": batch_size}
    made_with |= {"learning_rate": rate}
    made_with |= {"num_reports": len(release), "seconds": float(history["seconds"][-1])}
    kind = LabeledSampler if isinstance(generator, LabeledGenerator) else GeneratorSampler
    sampler = kind(generator.cpu().eval(), head)
    return Model(sampler, release.randomizer, made_with, history)


def _network(head: Head, settings: FitSettings, loss: str) -> MLP:
    latent_dim = settings.latent_dim or min(16, max(4, head.num_features))
    generator = MLP(latent_dim, head.num_features, settings.hidden, settings.seed)
    if loss == "likelihood":
        last = generator.layers[-1]
        assert isinstance(last, nn.Linear)
        with torch.no_grad():
            last.weight.mul_(_OUTPUT_GAIN)
    return generator


class TransportObjective:
    """Loss and marginal error of one step, as a function of the run's random generator.

    In a group of processes, each has the batch's reports and draws all latents, and generates and
    differentiates its share of them; costs and features are gathered (`privot.training.parallel`).
    """

    def __init__(
        self,
        generator: MLP,
        head: Head,
        release: Release,
        settings: FitSettings,
        loss: str,
        device: torch.device,
        group: Group = ALONE,
    ) -> None:
        self.generator, self.head, self.loss, self.group = generator, head, loss, group
        self.cost = LikelihoodCost(release.randomizer)
        self.solver = SinkhornSolver(settings.tolerance, settings.max_iterations)
        self.size = settings.schedule(loss)[1]
        tables = loss == "likelihood" and self.cost.joint is not None and not self.cost.channels
        self.num_reports = self.size
        if tables:
            self.num_reports = min(len(release), _REPORTS_OF_TABLES) // group.size * group.size
        self.batches = minibatches(release, self.cost, self.num_reports, settings.seed, device)
        self.share = group.share(self.size)

    def seek(self, step: int) -> None:
        """Go to the reports of a step."""
        self.batches.seek(step)

    def __call__(self, rng: torch.Generator) -> tuple[Tensor, float]:
        """One step."""
        batch = self.batches.draw(rng)
        features = self._features(rng)
        if self.loss == "likelihood":
            # An exact likelihood of the batch's mixture: no marginal is left to fit.
            outputs = self.head(self.group.gather_with_gradient(features))
            own = torch.arange(self.num_reports)[self.group.share(self.num_reports)]
            costs = self.cost.mixture(outputs, batch.rows(own.to(features.device)))
            return self.group.total(costs.sum() / self.num_reports), 0.0
        outputs = self.head(features)
        value, result = self._entropic_cost(outputs, batch)
        if self.loss == "plain":
            return value, result.marginal_error
        with torch.no_grad():
            own_records = self.head(self.group.gather(self._features(rng)))
            echo = self.cost.simulate(own_records, batch, rng)
        correction, second = self._entropic_cost(outputs, echo)
        return value - correction, max(result.marginal_error, second.marginal_error)

    def _features(self, rng: torch.Generator) -> Tensor:
        """Features of this process's share of fresh latents."""
        features: Tensor = self.generator(self.generator.draw_latent(self.size, rng)[self.share])
        return features

    def _entropic_cost(self, outputs: Outputs, batch: Reports) -> tuple[Tensor, SinkhornResult]:
        costs = self.cost(outputs, batch)
        if self.group.size == 1:
            return entropic_cost(costs, solver=self.solver)
        return entropic_cost_of_rows(costs, self.share.start, self.group.gather, self.solver)


def choose_loss(loss: str, head: Head, joint: bool) -> str:
    """The loss that `"auto"` stands for."""
    if loss != "auto":
        return loss
    if joint and len(head.coded) == len(head.widths):
        return "likelihood"
    return "plain" if head.num_features <= _PLAIN_UP_TO else "self_corrected"


def _fingerprint(release: Release) -> str:
    """Which release it was: a hash of public things, the reports and their randomizer."""
    text = release.randomizer.to_json() + release.rows.digest()
    return hashlib.sha256(text.encode()).hexdigest()
