"""Classifiers adapted to a private target: settings, network, augmentation, saved model, and queries.

`privot.central.classifiers.adaptation` describes the training. A classifier is h∘g: g computes features
by a multilayer perceptron, after a few convolutions for images, and h is linear. g has no batch norm, so
the features of a record depend on this record alone. They are rectified and normalized to norm 1.

**Queries about unlabeled records** (`ClassSums`, `ClassProducts`) add a record to the *slot*
(`privot.central.sums`) of the class that is predicted by a classifier trained on the public source and
earlier releases. So the slot is a function of the record, even if the prediction is wrong.

**Privacy review.** Both queries are functions of one record, of public numbers, and of earlier
releases. Clipping norms come from the source alone. Adjacency and Δ: `privot.central.sums`. The folder
that `AdaptedClassifier.save` writes is a function of releases and public settings.
"""

import math
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from privot.central.fitting import NetworkSettings
from privot.central.mixtures import tensors_of
from privot.central.moments import COUNT, PRODUCT_RADIUS, to_integers, with_constant
from privot.central.sums import Floats, Integers, Query, Records, SumPlan
from privot.core.errors import MOST_BATCH, MOST_COORDINATES, MOST_STEPS, PrivotError
from privot.models import Learned, ModelKind, Stored
from privot.privacy import ApproximateDP
from privot.training.generators import MLP
from privot.training.loop import TrainingSettings

_MIN_NORM = 1e-6  # features of smaller norm are divided by this
_CHUNK = 1024  # records classified at once
_CHANNELS = (16, 32)  # default widths of the convolutions of images
LENGTH = 16384  # norm of the longest record, in integer steps
# Augmentation of source images; lengths are in half sides of an image.
_MAX_ANGLE, _MAX_SHIFT = 0.2, 0.12  # largest rotation in radians, largest shift of an image
_LOCAL_STDDEV = 0.2  # standard deviation of local shifts, for amount 1
_CELLS = 4  # cells of the field of local shifts, along a side
_WIDTH = 2.0  # weight of the neighbors' maximum or minimum per unit of amount, at most 1


@dataclass(frozen=True, kw_only=True)
class AdaptationSettings(NetworkSettings):
    """Budget and settings of an adaptation, in addition to those of `NetworkSettings`.

    Arguments:
        epsilon: ε > 0 of the target records.
        unit: Owner of one target record, such as `"person"`; public.
        delta: δ of the target records, in (0, 1).
        rounds: Number of rounds, each of which classifies the target by the current classifier.
        directions: Maximum number of principal directions of the source for covariances.
        training_steps: Optimizer steps on the source before the first round; half as many follow each
            round, on source and moved source.
        most_noise: Maximum noise on a class's mean, relative to the distance of the source's class means
            from their center; a run with more noise is refused.
        jitter: Maximum log scale of random changes of source images; 0 for no changes.
        feature_dim: Dimension d of the features.
        channels: Widths of g's convolutions, each followed by halving the image; () for none; None for
            (16, 32) if records are images, otherwise ().
        source_batch: Number of records in a batch.
        sharpness: Positive factor by which features of norm 1 are multiplied before h.
        seed: Seed of weights and of source batches; never of noise.

    Raises:
        PrivotError: for settings out of range.
    """

    epsilon: float
    unit: str
    delta: float = 1e-5
    rounds: int = 2
    directions: int = 144
    training_steps: int = 1000
    most_noise: float = 1.0
    jitter: float = 0.3
    feature_dim: int = 32
    channels: tuple[int, ...] | None = None
    hidden: tuple[int, ...] = (128,)
    source_batch: int = 128
    sharpness: float = 10.0
    learning_rate: float = 1e-3
    averaging: float = 0.99

    maxima: ClassVar[dict[str, int]] = {
        "rounds": MOST_STEPS,
        "directions": MOST_COORDINATES,
        "training_steps": MOST_STEPS,
        "feature_dim": MOST_COORDINATES,
        "source_batch": MOST_BATCH,
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.channels is not None:
            object.__setattr__(self, "channels", tuple(self.channels))
        _ = self.training(1, 0)  # refuses invalid settings before any budget is spent
        if not (self.sharpness > 0 and self.most_noise > 0 and self.jitter >= 0):
            raise PrivotError(
                f"sharpness {self.sharpness}, most_noise {self.most_noise}, jitter {self.jitter}: give "
                "a positive sharpness and most_noise, and a jitter of at least 0"
            )

    def training(self, steps: int, stage: int) -> TrainingSettings:
        """Return the training settings of a stage, counted from 0."""
        seed = self.seed * 1009 + stage  # so that runs of near seeds share no stage's seed
        return TrainingSettings(steps, self.learning_rate, self.averaging, seed)


class Classifier(nn.Module):
    """Classifier h∘g: non-negative features of norm 1, and a linear layer.

    Arguments:
        shape: Shape of a record: (p,), (height, width) or (channels, height, width).
        num_classes: Number of classes.
        settings: Architecture and seed.
    """

    def __init__(
        self, shape: tuple[int, ...], num_classes: int, settings: AdaptationSettings
    ) -> None:
        super().__init__()
        self.sharpness, self.num_classes = settings.sharpness, num_classes
        channels = convolution_widths(shape, settings.channels)
        self.takes_images = bool(channels)
        # Images have three axes, of channels, rows and columns; other records are flat.
        self.shape = (*(1,) * (3 - len(shape)), *shape) if channels else (math.prod(shape),)
        layers: list[nn.Module] = []
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.seed)
            for inputs, outputs in pairwise([self.shape[0], *channels]):
                layers += [nn.Conv2d(inputs, outputs, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)]
            self.h = nn.Linear(settings.feature_dim, num_classes)
        inputs = self.shape[0]
        if channels:
            inputs = channels[-1] * math.prod(side // 2 ** len(channels) for side in self.shape[1:])
        dense = MLP(inputs, settings.feature_dim, settings.hidden, settings.seed)
        self.g = nn.Sequential(*layers, nn.Flatten(), dense)

    def features(self, x: Tensor) -> Tensor:
        """Return features (n, d) of records (n, *shape): rectified, of norm 1 (less if nearly 0)."""
        raw = torch.relu(self.g(x.reshape(len(x), *self.shape)))
        return raw / raw.norm(dim=1, keepdim=True).clamp_min(_MIN_NORM)

    def scores(self, features: Tensor) -> Tensor:
        """Return scores (n, classes) of features."""
        scores: Tensor = self.h(self.sharpness * features)
        return scores

    def forward(self, x: Tensor) -> Tensor:
        """Return scores (n, classes) of records."""
        return self.scores(self.features(x))

    @torch.no_grad()
    def classes(self, x: Tensor) -> Tensor:
        """Return the classes (n,) of records with the largest scores."""
        return torch.cat([self(part).argmax(dim=1) for part in x.float().split(_CHUNK)])


@dataclass(frozen=True, eq=False, repr=False)
class AdaptedClassifier(Learned):
    """Classifier for the target, with the guarantee of the releases that it was learned from."""

    kind: ClassVar[ModelKind] = ModelKind("central.classifier", 5, "privot central adapt")

    classifier: Classifier  # h∘g with averaged weights
    plan: SumPlan  # plan of the target's releases
    releases: int  # number of releases made
    settings: AdaptationSettings
    shape: tuple[int, ...]  # shape of a record

    @property
    def guarantee(self) -> ApproximateDP:
        """Guarantee of the target records; source records are public."""
        return self.plan.guarantee

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Return the classes (n,) of records (n, *shape), counted from 0."""
        return np.asarray(self.classifier.classes(as_records("x", x)).numpy())

    def fields(self) -> dict[str, Any]:
        return {
            "releases": self.releases,
            "plan": self.plan.to_dict(),
            "settings": asdict(self.settings),
            "shape": list(self.shape),
            "num_classes": self.classifier.num_classes,
        }

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {name: x.cpu().numpy() for name, x in self.classifier.state_dict().items()}

    @classmethod
    def build(cls, stored: Stored) -> Self:
        fields = stored.fields
        settings, shape = AdaptationSettings(**fields["settings"]), tuple(fields["shape"])
        classifier = Classifier(shape, fields["num_classes"], settings)
        classifier.load_state_dict(tensors_of(stored.arrays))
        plan = SumPlan.from_dict(fields["plan"])
        return cls(classifier.eval(), plan, fields["releases"], settings, shape)


def augmented(x: Tensor, amount: float, rng: torch.Generator) -> Tensor:
    """Change images (n, c, h, w) in [0, 1] at random, so that classifiers depend less on their style.

    An image is rotated, scaled along both axes, sheared and shifted, and deformed by a smooth random
    field of shifts. Then its strokes are made wider or narrower: each pixel is mixed with the maximum or
    minimum of its neighbors.

    Arguments:
        x: Images, which are public.
        amount: Maximum log scale of an axis; the other changes grow with it, and 0 changes nothing.
        rng: Generator of the changes.

    References:
        Simard, Steinkraus, Platt, *Best practices for convolutional neural networks applied to visual
        document analysis* (2003), for smooth fields of shifts.
    """
    if not amount:
        return x
    count, sides = len(x), x.shape[2:]
    maps = random_affine(count, amount, rng)
    grid = nn.functional.affine_grid(maps, list(x.shape), align_corners=False)
    shifts = torch.randn(count, 2, _CELLS, _CELLS, generator=rng)
    field = nn.functional.interpolate(shifts, sides, mode="bicubic", align_corners=True)
    grid = grid + _LOCAL_STDDEV * amount * field.permute(0, 2, 3, 1)
    moved = nn.functional.grid_sample(x, grid, align_corners=False)
    maximum = nn.functional.max_pool2d(moved, 3, 1, 1)
    minimum = -nn.functional.max_pool2d(-moved, 3, 1, 1)
    width = min(_WIDTH * amount, 1.0) * (2 * torch.rand(count, 1, 1, 1, generator=rng) - 1)
    wider, narrower = moved + width * (maximum - moved), moved + width * (moved - minimum)
    return torch.where(width > 0, wider, narrower).clamp(0.0, 1.0)


def random_affine(count: int, amount: float, rng: torch.Generator) -> Tensor:
    """Draw affine maps (count, 2, 3) near the identity: rotation, shear, scaling and a shift.

    Log scales are uniform in ±amount, angle and shear in ±min(amount, 0.2), shifts in ±min(amount, 0.12)
    of half a side.
    """

    def uniform(largest: float) -> Tensor:
        return (2 * torch.rand(count, generator=rng) - 1) * largest

    angle = uniform(min(amount, _MAX_ANGLE))
    shear = uniform(min(amount, _MAX_ANGLE))
    scale_x, scale_y = uniform(amount).exp(), uniform(amount).exp()
    shift = min(amount, _MAX_SHIFT)
    row_x = [scale_x * angle.cos(), scale_x * (shear - angle.sin()), uniform(shift)]
    row_y = [scale_y * angle.sin(), scale_y * angle.cos(), uniform(shift)]
    return torch.stack([torch.stack(row, dim=1) for row in (row_x, row_y)], dim=1)


def as_records(name: str, x: np.ndarray) -> Tensor:
    """Return records (n, …) as a float32 tensor; raise PrivotError for anything else."""
    x = np.asarray(x)
    if x.ndim < 2 or len(x) == 0 or x.dtype.kind not in "biuf":
        raise PrivotError(
            f"{name} has shape {x.shape} of {x.dtype}: give numbers (n, …), at least one record"
        )
    return torch.from_numpy(np.ascontiguousarray(x, np.float32))


def convolution_widths(shape: tuple[int, ...], channels: tuple[int, ...] | None) -> tuple[int, ...]:
    """Return the widths of convolutions, (16, 32) by default for images and () for other records.

    Raises:
        PrivotError: if there are `channels`, and records of `shape` are no images large enough for them.
    """
    are_images = len(shape) in (2, 3) and min(shape[-2:]) >= 2 ** len(channels or _CHANNELS)
    if channels is None:
        return _CHANNELS if are_images else ()
    if channels and not are_images:
        raise PrivotError(
            f"channels {channels} do not fit records of shape {shape}: give (n, h, w) or "
            f"(n, c, h, w) with sides of at least {2 ** len(channels)}, or channels=()"
        )
    return channels


class ClassSums(Query):
    """Query: sums of records by class, and counts of records.

    The vector of a record x consists of x, clipped to a public norm ρ and rounded **towards zero** to
    multiples of ρ/`LENGTH`, and of a constant, whose sum counts records. If the public source has no
    negative number, negative numbers of x are replaced by 0, so that no two vectors have a negative
    inner product.

    Arguments:
        classifier: Frozen classifier that assigns the class.
        dim: Number p of coordinates of a record.
        norm: Norm ρ to which a record is clipped.
        non_negative: Whether negative numbers are replaced by 0.

    Attributes:
        unit: Length of one integer step.
        one: The constant of each vector, in integer steps.
    """

    moment = 1
    one = int(COUNT * LENGTH)
    radius = int(np.ceil(np.hypot(LENGTH, one)))

    def __init__(self, classifier: Classifier, dim: int, norm: float, non_negative: bool) -> None:
        self.classifier, self.norm, self.non_negative = classifier, norm, non_negative
        self.slots, self.width, self.unit = classifier.num_classes, dim + 1, norm / LENGTH

    def answer(self, records: Records) -> tuple[Integers, Integers]:
        x = torch.from_numpy(records[0])
        flat = x.flatten(1).double()
        if self.non_negative:
            flat = flat.clamp_min(0.0)
        vectors = with_constant(to_integers(flat, self.norm, self.unit), self.one)
        return self.classifier.classes(x).numpy(), vectors


class ClassProducts(Query):
    """Query: sums of r rᵀ by class, for residuals r of records from their class's mean.

    A residual is x minus the released mean of its class, along public directions, clipped to a public
    norm and rounded towards zero.

    Arguments:
        classifier: Frozen classifier that assigns the class.
        means: Means of the classes (classes, p).
        basis: Public orthonormal directions, as columns (p, k).
        norm: Norm to which a residual is clipped.

    Attributes:
        unit: Length of one integer step.
    """

    moment, non_negative, radius = 2, True, PRODUCT_RADIUS  # ⟨r rᵀ, s sᵀ⟩ = ⟨r, s⟩² ≥ 0

    def __init__(self, classifier: Classifier, means: Floats, basis: Floats, norm: float) -> None:
        self.classifier, self.means, self.basis, self.norm = classifier, means, basis, norm
        self.slots, self.width = classifier.num_classes, basis.shape[1]
        self.unit = norm / PRODUCT_RADIUS

    def answer(self, records: Records) -> tuple[Integers, Integers]:
        x = torch.from_numpy(records[0])
        classes = self.classifier.classes(x).numpy()
        residuals = x.flatten(1).double() - torch.from_numpy(self.means[classes])
        return classes, to_integers(residuals @ torch.from_numpy(self.basis), self.norm, self.unit)
