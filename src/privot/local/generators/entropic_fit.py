r"""Fitting a generator to a release by steps: each draws reports and latents and follows a loss.

What the losses are, and why, is in `privot.local.generators.steps`. `loss="auto"` is the likelihood for
joint reports of codes alone, `plain` up to 5 features, `self_corrected` beyond.

Joint reports depend on a batch's mixture through its table over few columns, so one step of the
likelihood looks at many of them. The product of the marginals is a saddle of this likelihood, and a
network of small output weights starts on it: the output weights of codes are made larger.
"""

from __future__ import annotations

import hashlib
from contextlib import nullcontext
from dataclasses import asdict, replace

import torch
from torch import Tensor, nn

from privot.errors import PrivotError
from privot.generators import DCGAN, MLP
from privot.local.generators.image_generators import (
    LabeledGenerator,
    Strata,
    fits_images,
    image_generator,
)
from privot.local.generators.sampler import GeneratorSampler, LabeledSampler
from privot.local.generators.steps import LOSSES, Loss, Minibatches, Step, likelihood, minibatches
from privot.local.likelihood.cost import LikelihoodCost
from privot.local.likelihood.heads import Head, Outputs
from privot.local.model import LocalModel
from privot.local.settings import FitSettings, Run
from privot.models import Checkpoint, History
from privot.release import Release
from privot.training.loop import TrainingSettings, train
from privot.training.parallel import (
    ALONE,
    Group,
    join,
    local_device,
    short_products,
    stay,
    threads_for,
)
from privot.training.stopping import learning
from privot.transport import SinkhornSolver

_PLAIN_UP_TO = 5
_REPORTS_OF_TABLES = 2**14
_OUTPUT_GAIN = 10.0


def fit_generator(release: Release, settings: FitSettings, run: Run) -> LocalModel:
    """A model whose sampler is a network; see `privot.local.fitting.fit`."""
    device = local_device(run.device)
    group = join(device)
    head = Head(release.randomizer)
    if run.loss is not None and group.size > 1:
        raise PrivotError("loss is a function, which one process computes: start without torchrun")
    if settings.minutes is not None and group.size > 1:
        raise PrivotError(
            "minutes are counted by one process: give steps, or start without torchrun"
        )
    loss = run.loss or choose_loss(settings.loss, head, release.randomizer.joint is not None)
    name = getattr(loss, "__name__", type(loss).__name__)
    images = fits_images(release.randomizer) and loss is not likelihood and group.size == 1
    steps, size, rate = settings.schedule(name, images, labels=bool(head.coded))
    settings = replace(settings, steps=steps, batch_size=size, learning_rate=rate)
    generator: MLP | DCGAN | LabeledGenerator
    if images:
        generator = image_generator(release, head, settings).to(device)
    elif settings.architecture != "mlp":
        raise PrivotError(
            f"architecture {settings.architecture!r} is for a column of images, alone or with a label, "
            "in one process: leave it out"
        )
    else:
        generator = _network(head, settings, loss).to(device)
    objective = TransportObjective(generator, head, release, settings, loss, device, group)
    made_with = asdict(settings) | {"estimator": "generator", "loss": name}
    made_with |= {"latent_dim": generator.latent_dim, "num_reports": len(release)}
    told = (
        "architecture",
        "hidden",
        "latent_dim",
        "batch_size",
        "loss",
        "tolerance",
        "max_iterations",
    )
    text = release.randomizer.to_json() + release.rows.digest()
    # Which release it is: a hash of public things, the reports and their randomizer.
    identity = {"release": hashlib.sha256(text.encode()).hexdigest()}
    identity |= {key: made_with[key] for key in told}

    def learned(history: History) -> LocalModel:
        kind = LabeledSampler if isinstance(generator, LabeledGenerator) else GeneratorSampler
        sampler = kind(generator.cpu().eval(), head)
        return LocalModel(sampler, release.randomizer, made_with | history.done(), history)

    with threads_for(size**2), short_products() if images else nullcontext(), learning(learned):
        history = train(
            generator,
            objective,
            TrainingSettings(steps, rate, settings.averaging, settings.seed, settings.minutes),
            checkpoint=Checkpoint(run.checkpoint, identity, run.resume),
            progress=run.progress,
            seek=objective.batches.seek,
            group=group,
        )
    stay(group)
    return learned(history)


def _network(head: Head, settings: FitSettings, loss: Loss) -> MLP:
    latent_dim = settings.latent_dim or min(16, max(4, head.num_features))
    generator = MLP(latent_dim, head.num_features, settings.hidden, settings.seed)
    if loss is likelihood:
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
        generator: MLP | DCGAN | LabeledGenerator,
        head: Head,
        release: Release,
        settings: FitSettings,
        loss: Loss,
        device: torch.device,
        group: Group = ALONE,
    ) -> None:
        assert settings.batch_size is not None
        self.generator, self.head, self.loss, self.group = generator, head, loss, group
        self.size = num_reports = settings.batch_size
        self.share = group.share(self.size)
        self.solver = SinkhornSolver(settings.tolerance, settings.max_iterations)
        self.batches: Minibatches
        if isinstance(generator, LabeledGenerator):
            # A label's cost is the same for all reports of a stratum, and moves no plan.
            self.cost = LikelihoodCost(release.randomizer, head.images)
            self.batches = Strata(release, self.cost, self.size, generator.label, device)
            return
        self.cost = LikelihoodCost(release.randomizer)
        if loss is likelihood and self.cost.joint is not None and not self.cost.channels:
            num_reports = min(len(release), _REPORTS_OF_TABLES) // group.size * group.size
        self.batches = minibatches(release, self.cost, num_reports, settings.seed, device)

    def __call__(self, rng: torch.Generator) -> tuple[Tensor, float]:
        """One step."""
        reports, features = self.batches.draw(rng), self._features(rng)
        if self.loss is likelihood:
            features = self.group.gather_with_gradient(features)

        def fresh() -> Outputs:
            return self.head(self.group.gather(self._features(rng)))

        outputs = self.head(features)
        step = Step(outputs, reports, self.cost, fresh, self.solver, rng, self.group)
        return self.loss(step)

    def _features(self, rng: torch.Generator) -> Tensor:
        """Features of this process's share of fresh latents."""
        latent = self.batches.latent(self.generator, self.size, rng)
        features: Tensor = self.generator(latent[self.share])
        return features


def choose_loss(loss: str, head: Head, joint: bool) -> Loss:
    """The loss of this name, or the one that `"auto"` stands for."""
    if loss == "auto":
        few = "plain" if head.num_features <= _PLAIN_UP_TO else "self_corrected"
        loss = "likelihood" if joint and len(head.coded) == len(head.widths) else few
    return LOSSES[loss]
