r"""A step of training: its minibatch of reports, its loss, and generators of images.

**In memory** every step draws reports uniformly, with replacement.

**From disk** an epoch passes over all row groups in a random order, a *window* of them at a time; the
window's reports are shuffled and divided into batches. A release is written in random order
(`privot.randomizer.publishing`), so its row groups are uniform samples of it, and batches are as good as
uniform ones, without replacement; for files in another order, a batch is of the window's row groups
only. Reports of a window beyond full batches are left out of that epoch, another part each time.

The k-th batch is a function of the seed and k: a resumed run reads one window and continues bit for bit.
One window and a few batches are in memory, whatever the release holds; a thread reads ahead.

**A loss** is a function of a `Step` (the generator's outputs, a batch of reports, their cost −log f) and
of nothing else: it has no access to records. `plain` is the transport cost at the matched entropic
weight, whose minimizer is the law of the *clean* records (`privot.local.networks.cost`); its gradient is
that of $⟨π, C⟩$ with the plan held fixed (algorithm 1 of Reshetova et al.).

**Mini-batch bias.** That theorem is about distributions; a plan between b points and b points can match
noise as if it were structure, and shrinks the learned spread: in 50 dimensions with noise of
standard deviation 1 the learned spread at b = 400 is half the truth. `self_corrected` subtracts the
gradient that the model would receive from its own privatized samples,

$$ g = g_b(θ; Y) − g_b(θ; Y'), \qquad Y' = M(\text{stopgrad } G_θ(z')) , $$

with the same generated batch in both terms. When $P_G = P_X$, Y′ has the law of Y, so $E\,g = 0$ for
every b, dimension and mechanism; as b → ∞ the second term vanishes. In a few dimensions the bias is
small and the second plan only adds variance. (z′ must be fresh: privatizing the batch's own points
again would bring the bias back.)

**Likelihood.** For columns that are all reported as codes, outputs are distributions, and a batch's b
latents make a mixture whose exact likelihood can be followed,

$$ −\frac1m \sum_j \log \frac1b \sum_i e^{−C_{ij}} , $$

which is the transport problem with its first marginal left free: no plan need be solved for. The b
latents of a step are then all the classes that it may use: 200 of them keep a network from fitting the
noise, where more do not.

**Any other loss** is a function of the same kind, given to `privot.fit(release, loss=…)`.

**Labels** of images. The label is drawn first, and the image given it, $c ∼ p$, image = G(z, c): every
image has a label, and any label's images can be drawn. Randomized response reports the true label with
probability s and any given other one with probability t, so the shares of the reported labels satisfy
$r_c = t + (s − t) p_c$, which is solved for p.

**Strata.** A step takes reports of **one** reported label k only. Given k, the true label has $P(c | k)
∝ p_c\, f(k|c)$, and the reports have the law of M(x), x ∼ P(x | k) = Σ_c P(c|k) P(x|c). The generator
draws c from P(·|k) and x = G(z, c); within such a stratum the label's cost depends on c alone, is
constant along each row of the transport problem, and moves no plan. The recovery theorem holds in each
stratum: G given k generates x given k. Where the response is mostly truthful, strata are nearly classes:
a batch of one digit has less spread than a batch of ten, and its plan errs less. Strata are drawn as
often as they are reported.

**Start** of image generators, away from a saddle: a network whose outputs all equal the mean record is a
stationary point of every transport loss, for equal outputs get equal gradients. Small random weights
start next to it, and leave it slowly. But noise is centered and independent of the record, so

$$ E\,X = E\,Y, \qquad \mathrm{Cov}(X) = \mathrm{Cov}(Y) − σ^2 I , $$

and eigenvalues of Cov(Y) above the edge $σ^2 (1 + \sqrt{d/n})^2$ of those of pure noise are signal
(Marchenko and Pastur; Baik, Ben Arous, Péché). The last layer of a network with hidden features h and
outputs $\tanh a$ is set to

$$ a = \mathrm{artanh}(\bar Y) + D^{−1} A\, w(h) , $$

w whitening h on latents drawn, A (d, k) the leading axes, each as long as its deviation, and D the slope
of tanh there: to first order the outputs have the records' mean and leading covariance. On MNIST at σ =
2 it takes the distance in 50 principal components after 40 CPU seconds from 7.2 to 3.1.

**Settings** of images were chosen by Fréchet distance (`docs/results/images.md`). Self-correction has no
bias from small batches, so steps are worth more than reports; a learning rate of 6e-3 breaks it.

Everything is a function of the release, hence post-processing; the seed is no secret.

References:
    Tipping, Bishop, *Probabilistic principal component analysis* (1999).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor, nn

from privot.core.errors import PrivotError
from privot.local.networks.channels import Head, Outputs
from privot.local.networks.cost import LikelihoodCost, Reports
from privot.local.settings import FitSettings
from privot.randomizer import Randomizer, Release
from privot.randomizer.reports.rows import ReportTable
from privot.training.generators import DCGAN, MLP, Conditional, make_network
from privot.training.parallel import ALONE, Group
from privot.transport import SinkhornResult, SinkhornSolver, entropic_cost
from privot.transport.sinkhorn import entropic_cost_of_rows

_MAX_IN_MEMORY = 2**20  # reports in files, beyond which they are not read into memory
_WINDOW_BYTES = 2**25
_BLOCK_BYTES = 2**21

# Generators of images.
_LATENT_DIM = 16
_STARTING_LATENTS = 2000
_LABEL_LOGIT = 40.0  # of the label's unit vector: e^−40 is negligible
_MIN_SHARE = 1e-3
_MAX_COORDINATES = 2048
_MAX_AXES = 50
_MAX_MEAN = 0.995  # of outputs; beyond, tanh has hardly a slope
_MAX_SLOPE_MEAN = 0.9  # at which the slope is taken: dark pixels would get huge weights
_ROWS_AT_ONCE = 8192


class Minibatches(ABC):
    """Source of each step's reports, and of the latents matched with them."""

    @abstractmethod
    def draw(self, rng: torch.Generator) -> Reports:
        """Return the next batch."""

    def latent(self, generator: Generator, num_rows: int, rng: torch.Generator) -> Tensor:
        """Draw latents (num_rows, d) for people like those of the last batch."""
        return generator.draw_latent(num_rows, rng)

    def seek(self, step: int) -> None:  # noqa: B027  # batches that the run's generator draws are there
        """Go to the batch of a step, counted from 0."""


def minibatches(
    release: Release, cost: LikelihoodCost, size: int, seed: int, device: torch.device
) -> Minibatches:
    """Create batches of `size` reports, from memory unless the release is in files and large."""
    if release.rows.in_memory or len(release) <= _MAX_IN_MEMORY:
        return FromMemory(release, cost, size, device)
    return FromDisk(release, cost, size, seed, device)


class FromMemory(Minibatches):
    """Batches drawn uniformly with replacement, by the run's generator."""

    def __init__(
        self, release: Release, cost: LikelihoodCost, size: int, device: torch.device
    ) -> None:
        self._reports, self._size, self._device = cost.read(release, device), size, device

    def draw(self, rng: torch.Generator) -> Reports:
        """See `Minibatches`."""
        index = torch.randint(len(self._reports), (self._size,), generator=rng)
        return self._reports.rows(index.to(self._device))


class FromDisk(Minibatches):
    """Batches from windows of row groups; see the module.

    Arguments:
        release: Reports in files.
        cost: Cost that reads them.
        size: Reports per batch.
        seed: Seed of the order.
        device: Device of the batches.
        window_bytes: Approximate size of a window.

    Raises:
        PrivotError: if there are fewer reports than a batch.
    """

    def __init__(
        self,
        release: Release,
        cost: LikelihoodCost,
        size: int,
        seed: int,
        device: torch.device,
        window_bytes: int = _WINDOW_BYTES,
    ) -> None:
        if len(release) < size:
            raise PrivotError(
                f"batch_size {size} is more than the release's {len(release)} reports: give fewer"
            )
        self._release, self._cost, self._size = release, cost, size
        self._seed, self._device = seed, device
        self._groups = release.rows.row_groups()
        row_bytes = max(1, release.rows.row_bytes())
        self._window_rows = max(4 * size, window_bytes // row_bytes)
        self._block = max(1, _BLOCK_BYTES // row_bytes // size) * size
        self._thread = ThreadPoolExecutor(1)
        self.seek(0)

    def seek(self, step: int) -> None:
        """See `Minibatches`."""
        self._blocks = self._blocks_from(step)
        self._ahead: Future[Reports] = self._thread.submit(next, self._blocks)
        self._block_reports, self._place = self._next_block(), 0

    def draw(self, rng: torch.Generator) -> Reports:
        """See `Minibatches`; the run's generator is not used."""
        if self._place == len(self._block_reports):
            self._block_reports, self._place = self._next_block(), 0
        rows = torch.arange(self._place, self._place + self._size)
        self._place += self._size
        return self._block_reports.rows(rows.to(self._device))

    def _next_block(self) -> Reports:
        block = self._ahead.result()
        self._ahead = self._thread.submit(next, self._blocks)
        return block

    def _blocks_from(self, step: int) -> Iterator[Reports]:
        """Yield blocks of batches from a step's batch on, forever."""
        epoch, left = 0, step
        while True:
            for number, groups in enumerate(self._windows(epoch)):
                batches = sum(self._groups[group].num_rows for group in groups) // self._size
                if left >= batches:
                    left -= batches
                    continue
                yield from self._window(epoch, number, groups, left * self._size)
                left = 0
            epoch += 1

    def _windows(self, epoch: int) -> list[list[int]]:
        """Divide an epoch's row groups into windows; the last is not smaller than a batch."""
        order = np.random.default_rng([self._seed, epoch]).permutation(len(self._groups)).tolist()
        ends = accumulate(self._groups[group].num_rows for group in order)
        windows: dict[int, list[int]] = {}
        for group, end in zip(order, ends, strict=True):
            windows.setdefault((end - 1) // self._window_rows, []).append(group)
        return list(windows.values())

    def _window(self, epoch: int, number: int, groups: list[int], start: int) -> Iterator[Reports]:
        tables = [self._release.rows.read(self._groups[group]) for group in groups]
        table = pa.concat_tables(tables).combine_chunks()
        order = np.random.default_rng([self._seed, epoch, number]).permutation(table.num_rows)
        full = table.num_rows // self._size * self._size
        for first in range(start, full, self._block):
            rows = table.take(pa.array(order[first : min(full, first + self._block)]))
            block = Release(ReportTable.of(rows), self._release.randomizer)
            yield self._cost.read(block, self._device)


@dataclass(frozen=True, eq=False)
class Step:
    """Inputs of a loss.

    Arguments:
        outputs: The head's outputs of b fresh latents by column, differentiable (see `LikelihoodCost`);
            in a group of processes this one's share, but all of them for `likelihood`.
        reports: Reports of m people, drawn from the release.
        cost: −log f of any outputs and reports; `cost.simulate` privatizes outputs.
        fresh: Function that draws b more outputs.
        solver: Solver of transport problems, by the settings.
        rng: Random generator of the run.
        group: Processes that train together.
    """

    outputs: Outputs
    reports: Reports
    cost: LikelihoodCost
    fresh: Callable[[], Outputs]
    solver: SinkhornSolver
    rng: torch.Generator
    group: Group = ALONE

    @torch.no_grad()
    def echo(self) -> Reports:
        """Simulate the model's own reports of fresh outputs, without gradient."""
        return self.cost.simulate(self.fresh(), self.reports, self.rng)

    def entropic_costs(self, *batches: Reports) -> tuple[list[Tensor], float]:
        """Compute the entropic cost to each batch of m reports, and the largest marginal error."""
        # One matrix for all batches, which share the outputs and the product in their gradient.
        costs = self.cost(self.outputs, Reports.joined(batches)).split(len(self.reports), dim=1)
        solved = [self._entropic_cost(part.contiguous()) for part in costs]
        return [value for value, _ in solved], max(result.marginal_error for _, result in solved)

    def _entropic_cost(self, costs: Tensor) -> tuple[Tensor, SinkhornResult]:
        if self.group.size == 1:
            return entropic_cost(costs, solver=self.solver)
        first = self.group.rank * len(costs)
        return entropic_cost_of_rows(costs, first, self.group.gather, self.solver)


# The value to minimize, and the largest marginal error of a plan that was solved for it, or 0.
Loss = Callable[[Step], tuple[Tensor, float]]


def plain(step: Step) -> tuple[Tensor, float]:
    """Compute the entropic cost of outputs and reports."""
    (value,), error = step.entropic_costs(step.reports)
    return value, error


def self_corrected(step: Step) -> tuple[Tensor, float]:
    """Subtract from `plain` the entropic cost of outputs and the model's own reports."""
    (value, correction), error = step.entropic_costs(step.reports, step.echo())
    return value - correction, error


def likelihood(step: Step) -> tuple[Tensor, float]:
    """Compute the exact −log likelihood of the batch's mixture, without a transport plan."""
    own = torch.arange(len(step.reports))[step.group.share(len(step.reports))]
    device = next(iter(step.outputs.values())).device
    costs = step.cost.mixture(step.outputs, step.reports.rows(own.to(device)))
    return step.group.total(costs.sum() / len(step.reports)), 0.0


LOSSES: dict[str, Loss] = {loss.__name__: loss for loss in (plain, self_corrected, likelihood)}


class LabeledGenerator(nn.Module):
    """Features of an image and a label, in the order of the head's columns.

    Arguments:
        head: Head of one image and one coded column.
        network: Network from latents and the labels' unit vectors to images.
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
        image, hot = features.tensor_split([features.shape[1] - self.conditional.num_labels], dim=1)
        parts = (image, _LABEL_LOGIT * hot) if self._image_first else (_LABEL_LOGIT * hot, image)
        return torch.cat(parts, dim=1)

    def draw_latent(
        self, num_rows: int, rng: torch.Generator, labels: Tensor | None = None
    ) -> Tensor:
        """Draw latents (num_rows, latent_dim + K) of given labels (num_rows,), or labels by p."""
        return self.conditional.draw_latent(num_rows, rng, labels)


Generator = MLP | DCGAN | LabeledGenerator


def fits_images(randomizer: Randomizer) -> bool:
    """Say whether records are an image, alone or with one label by randomized response."""
    images, made = randomizer.schema.images, randomizer.mechanisms
    whole = randomizer.num_reported == len(made) == len(randomizer.schema.columns)
    labels = [mechanism.names_code for name, mechanism in made.items() if name not in images]
    return whole and len(images) == 1 and labels in ([], [True])


def image_generator(release: Release, head: Head, settings: FitSettings) -> Generator:
    """Create a generator of images; an MLP starts at the records' mean and leading covariance."""
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
    # Both maps from reports to pixels are linear: the identity, and a transposed cosine transform.
    pixels, directions = (
        torch.from_numpy(domain.decode(part.double().numpy())).float()
        for part in (mean[None], axes)
    )
    latent = generator.draw_latent(_STARTING_LATENTS, torch.Generator().manual_seed(settings.seed))
    start_at_moments(network, latent, pixels[0], directions)
    return generator


class LabelReports:
    """A column's reported labels, and the estimated law of the true ones.

    Attributes:
        codes: Reported labels (n,).
        shares: p, with each label's share at least a thousandth.
        given: P(c | k) in row k.
    """

    def __init__(self, release: Release, name: str) -> None:
        mechanism = release.randomizer.mechanisms[name]
        all_codes = np.arange(release.schema.coded[name].alphabet.size)
        law = torch.from_numpy(np.exp(mechanism.log_likelihood(all_codes[:, None], all_codes)))
        self.codes = torch.as_tensor(release.reports(name)[0][:, 0], dtype=torch.int64)
        reported = torch.bincount(self.codes, minlength=len(law)).double() / len(self.codes)
        shares = torch.linalg.solve(law, reported).clamp_min(_MIN_SHARE)
        self.shares = (shares / shares.sum()).float()
        given = law.float() * self.shares
        self.given = given / given.sum(dim=1, keepdim=True)


class Strata(Minibatches):
    """Batches of reports of one reported label each, drawn with replacement.

    Arguments:
        release: The reports, which are read into memory.
        cost: Cost that reads all columns but the label.
        size: Reports per batch.
        label: Name of the label's column.
        device: Device of the batches.
    """

    def __init__(
        self, release: Release, cost: LikelihoodCost, size: int, label: str, device: torch.device
    ) -> None:
        self._reports, self._size, self._device = cost.read(release, device), size, device
        self._labels = LabelReports(release, label)
        codes = self._labels.codes
        self._rows = [torch.nonzero(codes == k)[:, 0] for k in range(len(self._labels.shares))]
        self._given = self._labels.shares

    def draw(self, rng: torch.Generator) -> Reports:
        """See `Minibatches`."""
        codes = self._labels.codes
        code = int(codes[torch.randint(len(codes), (), generator=rng)])
        rows, self._given = self._rows[code], self._labels.given[code]
        index = rows[torch.randint(len(rows), (self._size,), generator=rng)]
        return self._reports.rows(index.to(self._device))

    def latent(self, generator: Generator, num_rows: int, rng: torch.Generator) -> Tensor:
        """See `Minibatches`; true labels are drawn given the reported one."""
        assert isinstance(generator, LabeledGenerator)
        labels = torch.multinomial(self._given, num_rows, replacement=True, generator=rng)
        return generator.draw_latent(num_rows, rng, labels)


def leading_axes(reports: Tensor, noise_variance: float) -> tuple[Tensor, Tensor]:
    """Estimate the mean (d,) and leading axes (k, d) of the records' covariance, longest first.

    No axes of a single report, and none of more than 2048 coordinates: the eigendecomposition is full.

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
    """Set the last layer so that tanh of the network has this mean and, to first order, these axes.

    Arguments:
        network: Network of features (n, d); outputs are their tanh.
        latent: Latents (n, latent_dim) as training will draw them, a thousand or more.
        mean: Mean of the outputs (d,), in [−1, 1].
        axes: Axes (k, d) of their covariance; fewer are used if the hidden layer is small.

    Returns:
        Number of axes used.
    """
    last = network.layers[-1]
    assert isinstance(last, nn.Linear)
    hidden = network.layers[:-1](latent)
    center = hidden.mean(dim=0)
    _, deviations, directions = torch.linalg.svd(hidden - center, full_matrices=False)
    alive = deviations > 1e-4 * deviations[0]
    count = min(len(axes), int(alive.sum()))
    whiten = directions[:count] / deviations[:count, None] * (len(latent) - 1) ** 0.5
    slope = 1 - mean.clamp(-_MAX_SLOPE_MEAN, _MAX_SLOPE_MEAN) ** 2
    last.weight.copy_((axes[:count] / slope).T @ whiten)
    last.bias.copy_(mean.clamp(-_MAX_MEAN, _MAX_MEAN).atanh() - last.weight @ center)
    return count
