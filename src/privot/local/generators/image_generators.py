r"""Generators of images, alone or with a label, and of labeled ones the reports that a step looks at.

**Labels.** The label is drawn first, and the image given it, $c ∼ p$, image = G(z, c): every image knows
its label, and any label's images can be drawn. Randomized response keeps a label with probability s and
reports any given other one with probability t, so the shares of the reported labels satisfy
$r_c = t + (s − t) p_c$, which is solved for p.

**Strata.** A step takes reports of **one** reported label k only. Given k, the true label has
$P(c | k) ∝ p_c\, f(k|c)$, and the reports have the law of M(x), x ∼ P(x | k) = Σ_c P(c|k) P(x|c). The
generator draws c from P(·|k) and x = G(z, c); within such a stratum the label's cost depends on c
alone, is constant along each row of the transport problem, and moves no plan. The recovery theorem
holds in each stratum: G given k generates x given k. Where the response is truthful often, strata are
nearly classes: a batch of one digit is spread less than a batch of ten, and its plan errs less. Strata
are drawn as often as they are reported.

**Start**, where no saddle is: a network whose outputs all equal the mean record is a stationary point of
every transport loss, for equal outputs get equal gradients. Small random weights start next to it, and
leave it slowly. But noise is centered and independent of the record, so

$$ E\,X = E\,Y, \qquad \mathrm{Cov}(X) = \mathrm{Cov}(Y) − σ^2 I , $$

and eigenvalues of Cov(Y) above the edge $σ^2 (1 + \sqrt{d/n})^2$ of those of pure noise are signal
(Marchenko and Pastur; Baik, Ben Arous, Péché). The last layer of a network with hidden features h and
outputs $\tanh a$ is set to

$$ a = \mathrm{artanh}(\bar Y) + D^{−1} A\, w(h) , $$

w whitening h on latents drawn, A (d, k) the leading axes, each as long as its deviation, and D the slope
of tanh there: to first order the outputs have the records' mean and leading covariance. On MNIST at
σ = 2 it takes the distance in 50 principal components after 40 CPU seconds from 7.2 to 3.1.

**Settings**, by Fréchet distance on a classifier's features (floor 1.2) on MNIST at σ = 2, 40 CPU
seconds each: without labels, batches of 250, 3.9; with labels and 1 250 steps at batches of 250, 6.3
drawn together, 5.9 in strata; in strata, 5 600 steps at batches of 128, 1.9; with this start, 1.6.
Self-correction has no bias to fear from small batches, so steps are worth more than reports. A learning
rate of 6e-3 breaks it.

Privacy: functions of the release, as all of training is.

References:
    Tipping, Bishop, *Probabilistic principal component analysis* (1999).
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from privot.generators import DCGAN, MLP, Conditional, Network, make_network
from privot.local.generators.steps import Minibatches
from privot.local.likelihood.cost import LikelihoodCost, Reports
from privot.local.likelihood.heads import Head
from privot.local.settings import FitSettings
from privot.release import Randomizer, Release

_LATENT_DIM = 16
_STARTING_LATENTS = 2000
# Logits of the label's unit vector: e^−40 is no probability.
_CERTAIN = 40.0
_LEAST_SHARE = 1e-3
_MOST_COORDINATES = 2048
_MOST_AXES = 50
_NEAREST = 0.995  # of a mean to the bounds; beyond, tanh has hardly a slope
_SATURATED = 0.9  # of the slope's argument: dark pixels would get huge weights
_ROWS_AT_ONCE = 8192


class LabeledGenerator(nn.Module):
    """Features of an image and a label, in the order of the head's columns.

    Arguments:
        head: Of one image and one coded column.
        network: From latents and the labels' unit vectors to images.
        shares: Probability p of each label.
    """

    def __init__(self, head: Head, network: Network, shares: Tensor) -> None:
        super().__init__()
        (image,), (self.label,) = head.images, head.coded
        self._image_first = next(iter(head.widths)) == image
        self.hidden, self.latent_dim = network.hidden, network.latent_dim - len(shares)
        self.architecture = network.architecture
        self.conditional = Conditional(network, shares)
        self.num_features = self.conditional.num_features

    def forward(self, latent: Tensor) -> Tensor:
        """Features (n, num_features) of latents that end with the label's unit vector."""
        features = self.conditional(latent)
        image, hot = features.tensor_split([features.shape[1] - self.conditional.num_labels], dim=1)
        parts = (image, _CERTAIN * hot) if self._image_first else (_CERTAIN * hot, image)
        return torch.cat(parts, dim=1)

    def draw_latent(
        self, num_rows: int, rng: torch.Generator, labels: Tensor | None = None
    ) -> Tensor:
        """Latents (num_rows, latent_dim + K), of given labels (num_rows,) or such as p draws."""
        return self.conditional.draw_latent(num_rows, rng, labels)


def fits_images(randomizer: Randomizer) -> bool:
    """Whether records are an image, alone or with one label by randomized response, all reported."""
    images, made = randomizer.schema.images, randomizer.mechanisms
    whole = randomizer.num_reported == len(made) == len(randomizer.schema.columns)
    labels = [mechanism.names_code for name, mechanism in made.items() if name not in images]
    return whole and len(images) == 1 and labels in ([], [True])


def image_generator(
    release: Release, head: Head, settings: FitSettings
) -> MLP | DCGAN | LabeledGenerator:
    """A generator of the release's records; an MLP starts at their mean and leading covariance."""
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
    # Both maps from reports to pixels are linear: nothing, and a transposed cosine transform.
    pixels, directions = (
        torch.from_numpy(domain.decode(part.double().numpy())).float()
        for part in (mean[None], axes)
    )
    latent = generator.draw_latent(_STARTING_LATENTS, torch.Generator().manual_seed(settings.seed))
    start_at_moments(network, latent, pixels[0], directions)
    return generator


class LabelReports:
    """A column's reported labels, and what the module's equations make of them.

    Attributes:
        codes: Reported labels (n,).
        shares: p, each label's share held above a thousandth.
        given: P(c | k) in row k.
    """

    def __init__(self, release: Release, name: str) -> None:
        mechanism = release.randomizer.mechanisms[name]
        all_codes = np.arange(release.schema.coded[name].alphabet.size)
        law = torch.from_numpy(np.exp(mechanism.log_likelihood(all_codes[:, None], all_codes)))
        self.codes = torch.as_tensor(release.reports(name)[0][:, 0], dtype=torch.int64)
        reported = torch.bincount(self.codes, minlength=len(law)).double() / len(self.codes)
        shares = torch.linalg.solve(law, reported).clamp_min(_LEAST_SHARE)
        self.shares = (shares / shares.sum()).float()
        given = law.float() * self.shares
        self.given = given / given.sum(dim=1, keepdim=True)


class Strata(Minibatches):
    """Batches of reports of one reported label each, drawn with replacement.

    Arguments:
        release: The reports, which are held in memory.
        cost: Reads them; of all columns but the label.
        size: Reports a batch.
        label: Name of the label's column.
        device: Where batches go.
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

    def latent(self, generator: Network, num_rows: int, rng: torch.Generator) -> Tensor:
        """See `Minibatches`; of true labels as the reported one says."""
        assert isinstance(generator, LabeledGenerator)
        labels = torch.multinomial(self._given, num_rows, replacement=True, generator=rng)
        return generator.draw_latent(num_rows, rng, labels)


def leading_axes(reports: Tensor, noise_variance: float) -> tuple[Tensor, Tensor]:
    """Mean (d,) and leading axes (k, d) of the records' covariance, longest first.

    No axes of a single report, and none of more than 2048 coordinates: the eigendecomposition is full.

    Arguments:
        reports: Reports (n, d).
        noise_variance: Of each coordinate's noise, σ².

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
    if count < 2 or width > _MOST_COORDINATES:
        return mean.float(), reports[:0]
    total = torch.zeros(width, width, dtype=torch.float64)
    for part in reports.split(_ROWS_AT_ONCE):
        centered = part - mean.to(part)
        total += centered.T @ centered
    values, vectors = torch.linalg.eigh(total / count)
    above = values > noise_variance * (1 + (width / count) ** 0.5) ** 2
    lengths = (values[above] - noise_variance).sqrt()
    axes = (vectors[:, above] * lengths).flip(1).T[:_MOST_AXES]
    return mean.float(), axes.float()


@torch.no_grad()
def start_at_moments(network: MLP, latent: Tensor, mean: Tensor, axes: Tensor) -> int:
    """Set the last layer so that tanh of the network has this mean and, to first order, these axes.

    Arguments:
        network: Features (n, d) of which outputs are the tanh.
        latent: Latents (n, latent_dim) as training will draw them, a thousand or more.
        mean: Where outputs lie on average (d,), in [−1, 1].
        axes: Axes (k, d) of their covariance; fewer are used if the hidden layer is small.

    Returns:
        How many axes were used.
    """
    last = network.layers[-1]
    assert isinstance(last, nn.Linear)
    hidden = network.layers[:-1](latent)
    center = hidden.mean(dim=0)
    _, deviations, directions = torch.linalg.svd(hidden - center, full_matrices=False)
    alive = deviations > 1e-4 * deviations[0]
    count = min(len(axes), int(alive.sum()))
    whiten = directions[:count] / deviations[:count, None] * (len(latent) - 1) ** 0.5
    slope = 1 - mean.clamp(-_SATURATED, _SATURATED) ** 2
    last.weight.copy_((axes[:count] / slope).T @ whiten)
    last.bias.copy_(mean.clamp(-_NEAREST, _NEAREST).atanh() - last.weight @ center)
    return count
