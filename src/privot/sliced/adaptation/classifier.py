"""A classifier adapted to a private target: its settings, its network, and what learning it has cost.

The folder that `AdaptedClassifier.save` writes is a function of releases and public settings; how it is
learned stands in `privot.sliced.adaptation.rounds`. g is a multilayer perceptron, after a few
convolutions for images. It has no batch norm: the features of a record are a function of it alone. They
are rectified and divided by their norm, so that every record lies on the unit sphere, with ⟨g, g′⟩ ≥ 0.
"""

from __future__ import annotations

import copy
import math
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from torch import Tensor, nn

from privot.errors import MOST_BATCH, MOST_COORDINATES, MOST_STEPS, PrivotError
from privot.generators import MLP
from privot.models import History, Learned, ModelKind, Stored
from privot.privacy import ApproximateDP
from privot.sliced.releases.plan import SlicePlan
from privot.sliced.settings import ReleaseSettings

_SMALLEST_NORM = 1e-6
_CHUNK = 2000
_CHANNELS = (16, 32)


@dataclass(frozen=True, kw_only=True)
class AdaptationSettings(ReleaseSettings):
    """Budget and method of an adaptation; see `ReleaseSettings`, too.

    Arguments:
        epsilon: ε of the target records.
        unit: Whom one target record belongs to, such as `"person"`; public.
        delta: δ of the target records.
        alignment: `"adapter"` moves the source by an adapter, in rounds; `"joint"` trains g itself on
            the sliced loss at every step, as published.
        rounds: Of `"adapter"`: how often g is frozen and its share of the releases made.
        training_steps: Of `"adapter"`: optimizer steps on the source before the first round; half as
            many follow each round.
        adapter_steps: Of `"adapter"`: optimizer steps a round.
        jitter: Largest log scale of random affine maps of source images; 0 for none.
        weight: Of `"joint"` alone: weight w of the sliced loss, whose exponent is q.
        feature_dim: Dimension d of g.
        channels: Widths of g's convolutions, each followed by halving the image; () for none. None for
            (16, 32) where records are images, and none where they are not.
        source_batch: Source records a step.
        sharpness: Factor on features of norm 1 before the classifier h.
    """

    epsilon: float
    unit: str
    delta: float = 1e-5
    steps: int = 3000
    batch_size: int = 128
    num_projections: int = 32
    orthonormal: bool = True
    alignment: Literal["adapter", "joint"] = "adapter"
    rounds: int = 2
    training_steps: int = 800
    adapter_steps: int = 150
    jitter: float = 0.2
    weight: float = 1.0
    feature_dim: int = 32
    channels: tuple[int, ...] | None = None
    hidden: tuple[int, ...] = (128,)
    source_batch: int = 128
    sharpness: float = 10.0
    learning_rate: float = 1e-3
    averaging: float = 0.99

    most: ClassVar[dict[str, int]] = ReleaseSettings.most | {
        "rounds": MOST_STEPS,
        "training_steps": MOST_STEPS,
        "adapter_steps": MOST_STEPS,
        "feature_dim": MOST_COORDINATES,
        "source_batch": MOST_BATCH,
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.channels is not None:
            object.__setattr__(self, "channels", tuple(self.channels))
        if not (self.weight >= 0 and self.sharpness > 0 and self.jitter >= 0):
            raise PrivotError(
                f"weight {self.weight}, sharpness {self.sharpness}, jitter {self.jitter}: give a "
                "weight and jitter of at least 0 and a positive sharpness"
            )


class Classifier(nn.Module):
    """h∘g: features on the unit sphere's non-negative part, and a linear layer.

    Arguments:
        shape: Of a record: (p,), (h, w) or (c, h, w).
        num_classes: Number of classes.
        settings: Architecture and seed.
    """

    def __init__(
        self, shape: tuple[int, ...], num_classes: int, settings: AdaptationSettings
    ) -> None:
        super().__init__()
        self.sharpness, self.num_classes = settings.sharpness, num_classes
        channels = convolutions(shape, settings.channels)
        self.images = bool(channels)
        self.shape = (*(1,) * (3 - len(shape)), *shape) if channels else (math.prod(shape),)
        layers: list[nn.Module] = []
        sizes = [self.shape[0], *channels]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.seed)
            for inputs, outputs in pairwise(sizes):
                convolution = nn.Conv2d(inputs, outputs, 5, padding=2)
                layers += [convolution, nn.ReLU(), nn.MaxPool2d(2)]
            self.h = nn.Linear(settings.feature_dim, num_classes)
        halvings = 2 ** len(channels)
        inputs = channels[-1] * math.prod(n // halvings for n in self.shape[1:]) if channels else 0
        dense = MLP(inputs or self.shape[0], settings.feature_dim, settings.hidden, settings.seed)
        self.g = nn.Sequential(*layers, nn.Flatten(), dense)

    def features(self, x: Tensor) -> Tensor:
        """Features (n, d) of records (n, *shape): rectified, of norm 1 (or 0)."""
        raw = torch.relu(self.g(x.reshape(len(x), *self.shape)))
        return raw / raw.norm(dim=1, keepdim=True).clamp_min(_SMALLEST_NORM)

    def joint_records(self, x: Tensor) -> Tensor:
        """Class probabilities ⊗ features (n, classes · d): norm at most 1, nothing negative."""
        features = self.features(x)
        probabilities = self.scores(features).softmax(dim=1)
        return (probabilities[:, :, None] * features[:, None, :]).flatten(1)

    def scores(self, features: Tensor) -> Tensor:
        """Scores (n, classes) of features."""
        scores: Tensor = self.h(self.sharpness * features)
        return scores

    def forward(self, x: Tensor) -> Tensor:
        """Scores (n, classes) of records."""
        return self.scores(self.features(x))


class ClassifierRecords:
    """What a classifier, as it stands, makes of target records: no gradient ever reaches them.

    ρ = p ⊗ g in rounds, frozen whatever becomes of the classifier, and so the same for a round; g alone
    for joint training, which moves it at every step.
    """

    num_labels = 1
    non_negative = True

    def __init__(self, classifier: Classifier, unit: str, frozen: bool) -> None:
        self.unit, self._frozen = unit, frozen
        self.width = classifier.h.in_features
        if frozen:
            classifier = copy.deepcopy(classifier).requires_grad_(False).eval()
            self.width *= classifier.num_classes
        self.classifier = classifier

    @torch.no_grad()
    def prepare(self, values: Tensor) -> Tensor:
        """See `RecordMap`."""
        return self.classifier.joint_records(values.float()) if self._frozen else values

    @torch.no_grad()
    def features(self, prepared: Tensor) -> Tensor:
        """See `RecordMap`."""
        return prepared if self._frozen else self.classifier.features(prepared.float())


@dataclass(frozen=True, eq=False, repr=False)
class AdaptedClassifier(Learned):
    """A classifier for the target, and what learning it has cost.

    Arguments:
        classifier: h∘g with averaged weights.
        plan: What could be released of the target.
        releases: How many releases were made.
        settings: How it was trained.
        shape: Of a record.
        history: None: its losses are of several stages.
    """

    kind: ClassVar[ModelKind] = ModelKind("sliced.classifier", 4, "privot sliced adapt")

    classifier: Classifier
    plan: SlicePlan
    releases: int
    settings: AdaptationSettings
    shape: tuple[int, ...]
    history: History | None = None

    @property
    def guarantee(self) -> ApproximateDP:
        """The guarantee of the target records; the source has none."""
        return self.plan.guarantee

    @torch.no_grad()
    def predict(self, x: np.ndarray) -> np.ndarray:
        """Classes (n,) of records (n, *shape)."""
        parts = as_records("x", x).split(_CHUNK)
        return np.concatenate([self.classifier(part).argmax(dim=1).numpy() for part in parts])

    def fields(self) -> dict[str, Any]:
        """See `Learned`."""
        return {
            "releases": self.releases,
            "plan": self.plan.to_dict(),
            "settings": asdict(self.settings),
            "shape": list(self.shape),
            "num_classes": self.classifier.num_classes,
        }

    def tensors(self) -> dict[str, Tensor]:
        """See `Learned`."""
        return self.classifier.state_dict()

    @classmethod
    def build(cls, stored: Stored) -> Self:
        """See `Learned`."""
        fields = stored.fields
        settings, shape = AdaptationSettings(**fields["settings"]), tuple(fields["shape"])
        classifier = Classifier(shape, fields["num_classes"], settings)
        classifier.load_state_dict(stored.tensors)
        plan = SlicePlan.from_dict(fields["plan"])
        return cls(classifier.eval(), plan, fields["releases"], settings, shape)


def as_records(name: str, x: np.ndarray) -> Tensor:
    """Records (n, …) as a float32 tensor."""
    x = np.asarray(x)
    if x.ndim < 2 or len(x) == 0 or x.dtype.kind not in "biuf":
        raise PrivotError(
            f"{name} has shape {x.shape} of {x.dtype}: give numbers (n, …), at least one record"
        )
    return torch.from_numpy(np.ascontiguousarray(x, np.float32))


def convolutions(shape: tuple[int, ...], channels: tuple[int, ...] | None) -> tuple[int, ...]:
    """Widths of the convolutions for records of a shape; () where they are not images."""
    images = len(shape) in (2, 3) and min(shape[-2:]) >= 2 ** len(channels or _CHANNELS)
    if channels is None:
        return _CHANNELS if images else ()
    if channels and not images:
        raise PrivotError(
            f"channels {channels} do not fit records of shape {shape}: give (n, h, w) or "
            f"(n, c, h, w) with sides of at least {2 ** len(channels)}, or channels=()"
        )
    return channels
