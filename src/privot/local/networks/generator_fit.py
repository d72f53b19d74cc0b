r"""Fit of a generator to a release by steps on minibatches of reports, and its sampler.

The losses are defined in `privot.local.networks.steps`, and the *head*, which maps a network's features
to records, in `privot.local.networks.heads`. `loss="auto"` is `likelihood` if all columns are in joint
reports, otherwise `plain` for at most 5 features and `self_corrected` for more.

The likelihood of joint reports depends on a batch of latents only through the joint tables of a few
columns, so a step can use many reports. The product of the marginals is a saddle point of this
likelihood, near which a network with small output weights starts; so the output weights are enlarged.

Generators of **images**, alone or with a label, have initial weights and minibatches of their own:

**Labels.** A label $c ∼ p$ is drawn first, and then the image G(z, c), so images of any label can be
drawn. Randomized response reports the true label with probability s and each other label with
probability t, so the shares of reported labels are $r_c = t + (s − t) p_c$, which is solved for p.

**Strata.** All reports of a step have the **same** reported label k. Given k, the true label has the
probability $P(c | k) ∝ p_c\, f(k|c)$, and reports have the distribution of M(x) with x ∼ P(x | k) =
Σ_c P(c|k) P(x|c). The generator draws c from P(·|k) and x = G(z, c). Within a stratum the cost of the
label depends only on c, so it is constant in each row of the transport problem and does not change the
plan. The recovery theorem (`privot.local.networks.cost`) holds in each stratum: given k, G generates x
given k. If most reported labels are true, strata are nearly classes, which have less spread than all
records, so plans are more accurate. A stratum is drawn as often as its label is reported.

**Initial weights** of image generators. A network whose outputs all equal the mean record is a
stationary point of every transport loss, since equal outputs get equal gradients. Networks with small
random weights start near this saddle point and leave it slowly. Since the noise is centered and
independent of the record,

$$ E\,X = E\,Y, \qquad \mathrm{Cov}(X) = \mathrm{Cov}(Y) − σ^2 I , $$

and eigenvalues of Cov(Y) above the edge $σ^2 (1 + \sqrt{d/n})^2$ of those of pure noise are signal
(Marchenko and Pastur; Baik, Ben Arous, Péché). The last layer of a network with hidden features h and
outputs $\tanh a$ is set to

$$ a = \mathrm{artanh}(\bar Y) + D^{−1} A\, w(h) , $$

where w whitens h on a sample of latents, the columns of A (d, k) are the leading principal axes, with
their standard deviations as lengths, and D is the slope of tanh. To first order the outputs then have
the records' mean and leading covariance.

**Settings** for images were chosen by Fréchet distance (`docs/results/images.md`). Self-correction has
no bias at small batches, so more steps are better than larger batches.

Privacy: everything is a function of the release, hence post-processing.

References:
    Tipping, Bishop, *Probabilistic principal component analysis* (1999).
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
from privot.local.networks.cost import LikelihoodCost, ReportBatch
from privot.local.networks.heads import Head, Outputs
from privot.local.networks.steps import (
    LOSSES,
    DrawsLatent,
    Loss,
    Minibatches,
    Step,
    likelihood,
    minibatches,
)
from privot.local.releases import Releases
from privot.local.settings import FitSettings, Run
from privot.models import Checkpoint, History
from privot.randomizer import Randomizer, Release
from privot.training import attach_model, loop
from privot.training.generators import DCGAN, MLP, Conditional, make_network, torch_generator
from privot.training.loop import ALONE, Group, TrainingSettings, train
from privot.transport import SinkhornSolver
from privot.transport.ground import product_precision

_LATENTS_PER_RECORD = 16  # in the pool from which records are drawn under a condition
_MAX_PLAIN_FEATURES = 5  # most features for which `plain` is the default loss
_TABLE_BATCH_SIZE = 2**14  # reports per step, for the likelihood of joint reports
_OUTPUT_GAIN = 10.0  # factor of the initial output weights, for the likelihood
# Settings that a resumed run must share with its checkpoint.
_IDENTITY = (
    "architecture", "hidden", "latent_dim", "batch_size", "loss", "tolerance", "max_iterations",
)  # fmt: skip

_LATENT_DIM, _MIN_LATENT_DIM = 16, 4  # default, and its least for fewer features
_STARTING_LATENTS = 2000  # number of latents on which hidden features are whitened
_LABEL_LOGIT = 40.0  # logit of the drawn label, so that others have probability e^−40
_MIN_SHARE = 1e-3  # least estimated share of a label
_MAX_COORDINATES = 2048  # size of the largest covariance that is decomposed
_MAX_AXES = 50  # most axes of the covariance that initial outputs have
_MAX_MEAN = 0.995  # limit of initial means, beyond which the slope of tanh is nearly 0
_MAX_SLOPE_MEAN = 0.9  # limit of means for the slope of tanh, so that weights stay small
_ROWS_AT_ONCE = 8192  # rows whose products are added to a covariance at once
_MIN_DEVIATION = 1e-4  # least deviation of hidden features in a direction, relative to the largest


def fits_images(randomizer: Randomizer) -> bool:
    """Return True if records are an image, alone or with one label by randomized response."""
    images, mechanisms = randomizer.schema.images, randomizer.mechanisms
    all_reported = randomizer.num_reported == len(mechanisms) == len(randomizer.schema.columns)
    labels = [mechanism for name, mechanism in mechanisms.items() if name not in images]
    one_image = len(images) == 1 and len(labels) <= 1
    return all_reported and one_image and all(mechanism.names_code for mechanism in labels)


class LabeledGenerator(nn.Module):
    """Generator of the features of an image and a label, in the order of the head's columns.

    Arguments:
        head: Head of one image and one coded column.
        network: Network from latents that end with the label's unit vector to images.
        shares: Probability p of each label.
    """

    def __init__(self, head: Head, network: MLP | DCGAN, shares: Tensor) -> None:
        super().__init__()
        (image,), (self.label,) = head.images, head.coded
        self._image_first = next(iter(head.widths)) == image
        self.hidden, self.latent_dim = network.hidden, network.latent_dim - len(shares)
        self.architecture = network.architecture
        self.conditional = Conditional(network, shares)
        self.num_features = self.conditional.num_features

    def forward(self, latent: Tensor) -> Tensor:
        """Compute features (n, num_features) of latents that end with the label's unit vector."""
        features = self.conditional(latent)
        num_pixels = features.shape[1] - self.conditional.num_labels
        image, one_hot = features.tensor_split([num_pixels], dim=1)
        logits = _LABEL_LOGIT * one_hot
        return torch.cat((image, logits) if self._image_first else (logits, image), dim=1)

    def draw_latent(
        self, num_rows: int, rng: torch.Generator, labels: Tensor | None = None
    ) -> Tensor:
        """Draw latents (num_rows, latent_dim + labels) for labels (num_rows,), by default ∼ p."""
        return self.conditional.draw_latent(num_rows, rng, labels)


Generator = MLP | DCGAN | LabeledGenerator


def image_generator(release: Release, head: Head, settings: FitSettings) -> Generator:
    """Create a generator of images; an MLP starts at the records' leading moments."""
    latent_dim = settings.latent_dim or _LATENT_DIM
    (name,) = head.images
    shares = LabelReports(release, *head.coded).shares if head.coded else torch.zeros(0)
    network = make_network(
        settings.architecture,
        latent_dim + len(shares),
        head.images[name].image_shape,
        settings.hidden,
        settings.seed,
    )
    generator = LabeledGenerator(head, network, shares) if head.coded else network
    if not isinstance(network, MLP):
        return generator
    domain, mechanism = head.images[name].domain, release.randomizer.mechanisms[name]
    reports = torch.as_tensor(release.reports(name)[0])
    mean, axes = leading_axes(reports, mechanism.variance)
    # The map from reports to pixels is linear: the identity, or a transposed cosine transform.
    pixels, directions = (
        torch.from_numpy(domain.decode(part.double().numpy())).float()
        for part in (mean[None], axes)
    )
    latent = generator.draw_latent(_STARTING_LATENTS, torch.Generator().manual_seed(settings.seed))
    start_at_moments(network, latent, pixels[0], directions)
    return generator


def leading_axes(reports: Tensor, noise_variance: float) -> tuple[Tensor, Tensor]:
    """Estimate the mean (d,) and the leading axes (k, d) of the records' covariance, longest first.

    For a single report, or more than 2048 coordinates, there are no axes (k = 0), because all
    eigenvectors would have to be computed.

    Arguments:
        reports: Reports (n, d).
        noise_variance: Variance σ² of each coordinate's noise.

    Examples:
        >>> rng = torch.Generator().manual_seed(0)
        >>> clean = torch.randn(20_000, 1, generator=rng) * torch.tensor([3.0, 4.0, 0.0])
        >>> noise = torch.randn(20_000, 3, generator=rng)
        >>> axes = leading_axes(clean + noise, 1.0)[1]
        >>> axes.shape, round(float(axes.norm()), 1)
        (torch.Size([1, 3]), 5.0)
    """
    count, width = reports.shape
    mean = reports.mean(dim=0, dtype=torch.float64)
    if count < 2 or width > _MAX_COORDINATES:
        return mean.float(), reports[:0]
    total = torch.zeros(width, width, dtype=torch.float64)
    for part in reports.split(_ROWS_AT_ONCE):
        centered = part - mean.to(part)
        total += centered.T @ centered
    values, vectors = torch.linalg.eigh(total / count)
    above = values > noise_variance * (1 + (width / count) ** 0.5) ** 2
    lengths = (values[above] - noise_variance).sqrt()
    axes = (vectors[:, above] * lengths).flip(1).T[:_MAX_AXES]
    return mean.float(), axes.float()


@torch.no_grad()
def start_at_moments(network: MLP, latent: Tensor, mean: Tensor, axes: Tensor) -> int:
    """Set the last layer so that, to first order, the network's outputs have a given mean and axes.

    Arguments:
        network: Network of features (n, d), whose tanh are the outputs.
        latent: A thousand or more latents (n, latent_dim), distributed as in training.
        mean: Mean of the outputs (d,), in [−1, 1].
        axes: Axes (k, d) of the outputs' covariance; fewer are used if the hidden layer is small.

    Returns:
        Number of axes used.
    """
    last = network.layers[-1]
    assert isinstance(last, nn.Linear)
    hidden = network.layers[:-1](latent)
    center = hidden.mean(dim=0)
    _, deviations, directions = torch.linalg.svd(hidden - center, full_matrices=False)
    varies = deviations > _MIN_DEVIATION * deviations[0]
    count = min(len(axes), int(varies.sum()))
    whiten = directions[:count] / deviations[:count, None] * (len(latent) - 1) ** 0.5
    slope = 1 - mean.clamp(-_MAX_SLOPE_MEAN, _MAX_SLOPE_MEAN) ** 2
    last.weight.copy_((axes[:count] / slope).T @ whiten)
    last.bias.copy_(mean.clamp(-_MAX_MEAN, _MAX_MEAN).atanh() - last.weight @ center)
    return count


class LabelReports:
    """Reported labels `codes` (n,), estimated shares p of true labels, and `given`, P(c | k).

    Rows of `given` are reported labels k, columns are true labels c.
    """

    def __init__(self, release: Release, name: str) -> None:
        mechanism = release.randomizer.mechanisms[name]
        all_codes = np.arange(release.schema.coded[name].alphabet.size)
        # f(k | c), with the reported label k as row and the true label c as column.
        law = torch.from_numpy(np.exp(mechanism.log_likelihood(all_codes[:, None], all_codes)))
        self.codes = torch.as_tensor(release.reports(name)[0][:, 0], dtype=torch.int64)
        reported = torch.bincount(self.codes, minlength=len(law)).double() / len(self.codes)
        shares = torch.linalg.solve(law, reported).clamp_min(_MIN_SHARE)
        self.shares = (shares / shares.sum()).float()
        given = law.float() * self.shares
        self.given = given / given.sum(dim=1, keepdim=True)


class Strata(Minibatches):
    """Batches of `size` reports with the same reported label, drawn with replacement from memory.

    `cost` reads all columns but `label`, which has the labels.
    """

    def __init__(
        self, release: Release, cost: LikelihoodCost, size: int, label: str, device: torch.device
    ) -> None:
        self._reports, self._size, self._device = cost.read(release, device), size, device
        self._labels = LabelReports(release, label)
        codes = self._labels.codes
        self._rows = [torch.nonzero(codes == k)[:, 0] for k in range(len(self._labels.shares))]
        self._given = self._labels.shares

    def draw(self, rng: torch.Generator) -> ReportBatch:
        codes = self._labels.codes
        code = int(codes[torch.randint(len(codes), (), generator=rng)])
        rows, self._given = self._rows[code], self._labels.given[code]
        index = rows[torch.randint(len(rows), (self._size,), generator=rng)]
        return self._reports.rows(index.to(self._device))

    def latent(self, generator: DrawsLatent, num_rows: int, rng: torch.Generator) -> Tensor:
        # True labels are drawn given the reported label of the last batch.
        assert isinstance(generator, LabeledGenerator)
        labels = torch.multinomial(self._given, num_rows, replacement=True, generator=rng)
        return generator.draw_latent(num_rows, rng, labels)


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
    device = loop.local_device(run.device)
    group = loop.join(device)
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
    if settings.architecture != "mlp" and not images:
        raise PrivotError(
            f"architecture {settings.architecture!r} is for a column of images, alone or with a label, "
            "in one process: leave it out"
        )
    steps, size, rate = settings.schedule(name, images, labels=bool(head.coded))
    settings = replace(settings, steps=steps, batch_size=size, learning_rate=rate)
    generator: Generator = (
        image_generator(release, head, settings) if images else _network(head, settings, loss)
    ).to(device)
    objective = TransportObjective(generator, head, release, settings, loss, device, group)
    made_with = asdict(settings) | {"estimator": "generator", "loss": name}
    made_with |= {"latent_dim": generator.latent_dim, "num_reports": len(release)}
    text = release.randomizer.to_json() + release.rows.digest()
    identity = {"release": hashlib.sha256(text.encode()).hexdigest()}
    identity |= {key: made_with[key] for key in _IDENTITY}

    def learned(history: History) -> LocalModel:
        kind = LabeledSampler if isinstance(generator, LabeledGenerator) else GeneratorSampler
        sampler = kind(generator.cpu().eval(), head)
        return LocalModel.of(Releases.of(release), sampler, made_with | history.totals(), history)

    # A batch's cost matrix has size² entries; images tolerate products in bfloat16.
    products = product_precision("medium") if images else nullcontext()
    with loop.threads_for(size**2), products, attach_model(learned):
        history = train(
            generator,
            objective,
            TrainingSettings(steps, rate, settings.averaging, settings.seed, settings.minutes),
            checkpoint=Checkpoint(run.checkpoint, identity, run.resume),
            progress=run.progress,
            seek=objective.batches.seek,
            group=group,
        )
    loop.wait_at_exit(group)
    return learned(history)


def _network(head: Head, settings: FitSettings, loss: Loss) -> MLP:
    """Create an MLP for the features of a head."""
    default_dim = min(_LATENT_DIM, max(_MIN_LATENT_DIM, head.num_features))
    latent_dim = settings.latent_dim or default_dim
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
    gradients of its share of the latents; costs and features are gathered (`privot.training.loop`).
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
