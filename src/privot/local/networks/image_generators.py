r"""Generators of images, alone or with a label: initial weights, and batches of one reported label.

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

import numpy as np
import torch
from torch import Tensor, nn

from privot.local.networks.cost import LikelihoodCost, ReportBatch
from privot.local.networks.heads import Head
from privot.local.networks.steps import DrawsLatent, Minibatches
from privot.local.settings import FitSettings
from privot.randomizer import Randomizer, Release
from privot.training.generators import DCGAN, MLP, Conditional, make_network

_LATENT_DIM = 16  # by default
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
