"""Fit of a generator to a release by steps on minibatches of reports, and its sampler.

The losses are defined in `privot.local.networks.steps`. `loss="auto"` is `likelihood` if all columns are
in joint reports, otherwise `plain` for at most 5 features and `self_corrected` for more.

The likelihood of joint reports depends on a batch of latents only through the joint tables of a few
columns, so a step can use many reports. The product of the marginals is a saddle point of this
likelihood, near which a network with small output weights starts; so the output weights are enlarged.
"""

import hashlib
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from privot.core.errors import PrivotError
from privot.local.model import Condition, LocalModel, Sampler
from privot.local.networks.cost import LikelihoodCost
from privot.local.networks.heads import Head, Outputs
from privot.local.networks.image_generators import (
    Generator,
    LabeledGenerator,
    Strata,
    fits_images,
    image_generator,
)
from privot.local.networks.steps import LOSSES, Loss, Minibatches, Step, likelihood, minibatches
from privot.local.settings import FitSettings, Run
from privot.models import Checkpoint, History
from privot.randomizer import Randomizer, Release
from privot.training import attach_model, parallel
from privot.training.generators import MLP, make_network, torch_generator
from privot.training.loop import TrainingSettings, train
from privot.training.parallel import ALONE, Group
from privot.transport import SinkhornSolver

_LATENTS_PER_RECORD = 16  # in the pool from which records are drawn under a condition
_MAX_PLAIN_FEATURES = 5  # most features for which `plain` is the default loss
_TABLE_BATCH_SIZE = 2**14  # reports per step, for the likelihood of joint reports
_OUTPUT_GAIN = 10.0  # factor of the initial output weights, for the likelihood
# Settings that a resumed run must share with its checkpoint.
_IDENTITY = (
    "architecture", "hidden", "latent_dim", "batch_size", "loss", "tolerance", "max_iterations",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class GeneratorSampler(Sampler):
    """Sampler of records from a generator network and its head."""

    generator: Generator  # network from latents to features
    head: Head  # head from features to records
    kind: ClassVar[str] = "generator"

    def outputs(self, num_rows: int, rng: torch.Generator) -> Outputs:
        """Compute the head's outputs for `num_rows` new latents."""
        return self.head(self.generator(self.generator.draw_latent(num_rows, rng)))

    @torch.no_grad()
    def records(self, num_rows: int, rng: np.random.Generator, where: Condition) -> pa.Table:
        for name in where:
            if name not in self.head.coded:
                raise PrivotError(
                    f"where names column {name!r}, which was reported with noise added: "
                    "only columns that were reported as codes can be given"
                )
        pool = num_rows * (_LATENTS_PER_RECORD if where else 1)
        rng_torch = torch_generator(rng)
        outputs = dict(self.outputs(pool, rng_torch))
        if where and num_rows:
            # Draw latents in proportion to the probability of the condition given the latent; restrict
            # their outputs to the condition.
            weight = torch.ones(pool, dtype=torch.float64)
            for name, codes in where.items():
                weight *= outputs[name].double().exp()[:, codes].sum(dim=1)
                restricted = torch.full_like(outputs[name], -torch.inf)
                restricted[:, codes] = outputs[name][:, codes]
                outputs[name] = torch.log_softmax(restricted, dim=1)
            if not float(weight.sum()) > 0:
                raise PrivotError(f"where {dict(where)} has probability 0: relax it")
            chosen = torch.multinomial(weight, num_rows, replacement=True, generator=rng_torch)
            outputs = {name: output[chosen] for name, output in outputs.items()}
        return self.head.records(outputs, rng_torch)

    def fields(self) -> dict[str, Any]:
        network = self.generator
        sizes = {"latent_dim": network.latent_dim, "hidden": list(network.hidden)}
        return sizes | {"architecture": network.architecture}

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {name: tensor.cpu().numpy() for name, tensor in self.generator.state_dict().items()}

    @classmethod
    def build(
        cls, randomizer: Randomizer, fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> Self:
        head, shares = Head(randomizer), arrays.get("conditional.shares")
        num_labels = 0 if shares is None else len(shares)
        images = [column.image_shape for column in head.images.values()]
        # The network of an image, alone or with a label, has outputs of the image's shape.
        num_coded = len(head.coded)
        one_image = len(images) == 1 and num_coded <= 1 and len(head.widths) == 1 + num_coded
        network = make_network(
            fields["architecture"],
            fields["latent_dim"] + num_labels,
            images[0] if one_image else (head.num_features,),
            tuple(fields["hidden"]),
        )
        generator: Generator = network
        if shares is not None:
            generator = LabeledGenerator(head, network, torch.from_numpy(shares))
        state = {name: torch.from_numpy(array) for name, array in arrays.items()}
        generator.load_state_dict(state)
        return cls(generator.eval(), head)


class LabeledSampler(GeneratorSampler):
    """Sampler of labeled images, which can be conditioned on the label."""

    kind: ClassVar[str] = "labeled_generator"

    @torch.no_grad()
    def records(self, num_rows: int, rng: np.random.Generator, where: Condition) -> pa.Table:
        generator, rng_torch = self.generator, torch_generator(rng)
        assert isinstance(generator, LabeledGenerator)
        shares, codes = generator.conditional.shares, where.get(generator.label)
        if codes is not None:
            shares = torch.zeros_like(shares).index_put((torch.tensor(codes),), shares[codes])
        labels = torch.multinomial(shares, max(num_rows, 1), replacement=True, generator=rng_torch)
        latent = generator.draw_latent(num_rows, rng_torch, labels[:num_rows])
        return self.head.records(self.head(generator(latent)), rng_torch)


def fit_generator(release: Release, settings: FitSettings, run: Run) -> LocalModel:
    """Fit a model whose sampler is a network: see `privot.local.fitting.fit`.

    Raises:
        PrivotError: for settings that the release, or several processes, cannot use.
    """
    device = parallel.local_device(run.device)
    group = parallel.join(device)
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
    generator: Generator
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
    text = release.randomizer.to_json() + release.rows.digest()
    identity = {"release": hashlib.sha256(text.encode()).hexdigest()}
    identity |= {key: made_with[key] for key in _IDENTITY}

    def learned(history: History) -> LocalModel:
        kind = LabeledSampler if isinstance(generator, LabeledGenerator) else GeneratorSampler
        sampler = kind(generator.cpu().eval(), head)
        return LocalModel(sampler, release.randomizer, made_with | history.totals(), history)

    # A batch's cost matrix has size² entries; images tolerate products in bfloat16.
    products = parallel.short_products() if images else nullcontext()
    with parallel.threads_for(size**2), products, attach_model(learned):
        history = train(
            generator,
            objective,
            TrainingSettings(steps, rate, settings.averaging, settings.seed, settings.minutes),
            checkpoint=Checkpoint(run.checkpoint, identity, run.resume),
            progress=run.progress,
            seek=objective.batches.seek,
            group=group,
        )
    parallel.wait_at_exit(group)
    return learned(history)


def _network(head: Head, settings: FitSettings, loss: Loss) -> MLP:
    """Create an MLP for the features of a head."""
    latent_dim = settings.latent_dim or min(16, max(4, head.num_features))
    generator = MLP(latent_dim, head.num_features, settings.hidden, settings.seed)
    if loss is likelihood:
        last = generator.layers[-1]
        assert isinstance(last, nn.Linear)
        with torch.no_grad():
            last.weight.mul_(_OUTPUT_GAIN)
    return generator


class TransportObjective:
    """Function from the source of randomness to the loss and the marginal error of one step.

    In a group, every process has all reports and latents of the batch, and computes the outputs and
    gradients of its share of the latents; costs and features are gathered (`privot.training.parallel`).
    """

    def __init__(
        self,
        generator: Generator,
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
            # The cost of the label is constant within a stratum and does not change the plan.
            self.cost = LikelihoodCost(release.randomizer, head.images)
            self.batches = Strata(release, self.cost, self.size, generator.label, device)
            return
        self.cost = LikelihoodCost(release.randomizer)  # its channels are of split columns
        if loss is likelihood and self.cost.joint is not None and not self.cost.channels:
            num_reports = min(len(release), _TABLE_BATCH_SIZE) // group.size * group.size
        self.batches = minibatches(release, self.cost, num_reports, settings.seed, device)

    def __call__(self, rng: torch.Generator) -> tuple[Tensor, float]:
        """Compute the loss of one step."""
        reports, features = self.batches.draw(rng), self._features(rng)
        if self.loss is likelihood:
            features = self.group.gather_with_gradient(features)

        def fresh() -> Outputs:
            return self.head(self.group.gather(self._features(rng)))

        outputs = self.head(features)
        return self.loss(Step(outputs, reports, self.cost, fresh, self.solver, rng, self.group))

    def _features(self, rng: torch.Generator) -> Tensor:
        """Compute the features of this process's share of new latents."""
        latent = self.batches.latent(self.generator, self.size, rng)
        features: Tensor = self.generator(latent[self.share])
        return features


def choose_loss(loss: str, head: Head, joint: bool) -> Loss:
    """Return the loss of this name; `"auto"` depends on the head and on whether reports are joint."""
    if loss == "auto":
        if joint and len(head.coded) == len(head.widths):
            loss = "likelihood"
        else:
            loss = "plain" if head.num_features <= _MAX_PLAIN_FEATURES else "self_corrected"
    return LOSSES[loss]
