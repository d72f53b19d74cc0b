"""A classifier adapted to a private target: its settings, its network, and what learning it has cost.

The folder that `AdaptedClassifier.save` writes is a function of releases and public settings; how it is
learned stands in `privot.sliced.adaptation.rounds`. g is a multilayer perceptron, after a few
convolutions for images. It has no batch norm: the features of a record are a function of it alone. They
are rectified and divided by their norm, so that every record lies on the unit sphere, with ⟨g, g′⟩ ≥ 0.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal, Self

import numpy as np
import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from privot.errors import PrivotError
from privot.files import recover_folder, replacing_folder
from privot.generators import MLP
from privot.limits import (
    MOST_BATCH,
    MOST_COORDINATES,
    MOST_PEOPLE,
    MOST_PROJECTIONS,
    MOST_STEPS,
    require_count,
    require_seed,
)
from privot.models import ModelKind
from privot.models.model import KINDS
from privot.privacy import ApproximateDP
from privot.privacy.slicing.sensitivity import CentralNeighboring
from privot.sliced.records import RecordMap
from privot.sliced.releases.plan import Method, Plan
from privot.sliced.releases.settings import SlicedSettings
from privot.training import TrainingSettings

KIND = ModelKind("sliced.classifier", 4, "privot sliced adapt")
_SMALLEST_NORM = 1e-6
_CHUNK = 2000
_CHANNELS = (16, 32)
# Most of each; the least is 1.
_COUNTS = {
    "steps": MOST_STEPS,
    "batch_size": MOST_PEOPLE,
    "num_projections": MOST_PROJECTIONS,
    "rounds": MOST_STEPS,
    "training_steps": MOST_STEPS,
    "adapter_steps": MOST_STEPS,
    "feature_dim": MOST_COORDINATES,
    "source_batch": MOST_BATCH,
}


@dataclass(frozen=True)
class AdaptationSettings:
    """Budget and method of an adaptation; see `SlicedSettings` for what is named alike.

    Arguments:
        unit: Whom one target record belongs to, such as `"person"`; public.
        steps: Number of releases.
        alignment: `"adapter"` moves the source by an adapter, in rounds; `"joint"` trains g itself on
            the sliced loss at every step, as published.
        rounds: Of `"adapter"`: how often g is frozen and its share of the releases made.
        training_steps: Of `"adapter"`: optimizer steps on the source before the first round; half as
            many follow each round.
        adapter_steps: Of `"adapter"`: optimizer steps a round.
        jitter: Largest log scale of random affine maps of source images; 0 for none.
        weight: Of `"joint"`: weight w of the sliced loss.
        q: Of `"joint"`: exponent of the sliced loss.
        feature_dim: Dimension d of g.
        channels: Widths of g's convolutions, each followed by halving the image; () for none. None for
            (16, 32) where records are images, and none where they are not.
        hidden: Widths of g's hidden layers.
        source_batch: Source records a step.
        sharpness: Factor on features of norm 1 before the classifier h.
    """

    epsilon: float
    _: KW_ONLY
    unit: str
    delta: float = 1e-5
    steps: int = 3000
    batch_size: int = 128
    num_projections: int = 32
    neighboring: CentralNeighboring = "replace_one"
    orthonormal: bool = True
    method: Method = "pld"
    alignment: Literal["adapter", "joint"] = "adapter"
    rounds: int = 2
    training_steps: int = 800
    adapter_steps: int = 150
    jitter: float = 0.2
    weight: float = 1.0
    q: int = 2
    feature_dim: int = 32
    channels: tuple[int, ...] | None = None
    hidden: tuple[int, ...] = (128,)
    source_batch: int = 128
    sharpness: float = 10.0
    learning_rate: float = 1e-3
    averaging: float = 0.99
    seed: int = 0

    def __post_init__(self) -> None:
        for name, most in _COUNTS.items():
            object.__setattr__(self, name, require_count(name, getattr(self, name), most))
        widths = tuple(require_count("hidden", width, MOST_COORDINATES) for width in self.hidden)
        object.__setattr__(self, "hidden", widths)
        object.__setattr__(self, "seed", require_seed(self.seed))
        if self.channels is not None:
            object.__setattr__(self, "channels", tuple(self.channels))
        if not (self.weight >= 0 and self.sharpness > 0 and self.jitter >= 0):
            raise PrivotError(
                f"weight {self.weight}, sharpness {self.sharpness}, jitter {self.jitter}: give a "
                "weight and jitter of at least 0 and a positive sharpness"
            )
        _ = TrainingSettings(self.steps, self.learning_rate, self.averaging, self.seed)
        if self.alignment not in ("adapter", "joint"):
            raise PrivotError(f"alignment {self.alignment!r}: use 'adapter' or 'joint'")

    def plan(self, targets: int, features: RecordMap) -> Plan:
        """The plan that keeps (ε, δ) for that many target records."""
        alike = SlicedSettings(
            epsilon=self.epsilon,
            delta=self.delta,
            steps=self.steps,
            batch_size=self.batch_size,
            num_projections=self.num_projections,
            neighboring=self.neighboring,
            orthonormal=self.orthonormal,
            method=self.method,
            q=self.q,
        )
        return alike.plan(targets, features)


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


@dataclass(frozen=True)
class AdaptedClassifier:
    """A classifier for the target, and what learning it has cost.

    Arguments:
        classifier: h∘g with averaged weights.
        plan: What could be released of the target.
        releases: How many releases were made.
        settings: How it was trained.
        shape: Of a record.
        num_classes: Number of classes.
    """

    classifier: Classifier
    plan: Plan
    releases: int
    settings: AdaptationSettings
    shape: tuple[int, ...]
    num_classes: int

    @property
    def guarantee(self) -> ApproximateDP:
        """The guarantee of the target records; the source has none."""
        return self.plan.guarantee

    @torch.no_grad()
    def predict(self, x: np.ndarray) -> np.ndarray:
        """Classes (n,) of records (n, *shape)."""
        parts = as_records(x).split(_CHUNK)
        return np.concatenate([self.classifier(part).argmax(dim=1).numpy() for part in parts])

    def save(self, path: str | Path) -> None:
        """Write `model.json` and `weights.safetensors`."""
        fields = {
            "publishable": True,
            "guarantee": self.guarantee.to_dict(),
            "in_words": self.guarantee.describe(),
            "releases": self.releases,
            "plan": self.plan.to_dict(),
            "settings": asdict(self.settings),
            "shape": list(self.shape),
            "num_classes": self.num_classes,
        }
        with replacing_folder(path) as folder:
            weights = {k: v.contiguous() for k, v in self.classifier.state_dict().items()}
            (folder / "weights.safetensors").write_bytes(safetensors.torch.save(weights))
            KIND.seal(folder, fields)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote.

        Raises:
            PrivotError: if it is missing, damaged, or something else.
        """
        path = Path(path)
        recover_folder(path)
        fields = KIND.read(path)
        try:
            settings = AdaptationSettings(**fields["settings"])
            sizes = tuple(fields["shape"]), fields["num_classes"]
            classifier = Classifier(*sizes, settings)
            classifier.load_state_dict(safetensors.torch.load_file(path / "weights.safetensors"))
            plan = Plan.from_dict(fields["plan"])
        except (
            OSError,
            KeyError,
            TypeError,
            ValueError,
            RuntimeError,
            safetensors.SafetensorError,
        ) as error:
            reason = str(error).splitlines()[0]
            raise PrivotError(
                f"model {path} is damaged ({reason}): copy it again, or adapt again"
            ) from None
        return cls(classifier.eval(), plan, fields["releases"], settings, *sizes)


KINDS[KIND.name] = AdaptedClassifier


def as_records(x: np.ndarray) -> Tensor:
    """Records (n, …) as a float32 tensor."""
    x = np.asarray(x)
    if x.ndim < 2 or len(x) == 0:
        raise PrivotError(f"records have shape {x.shape}: give (n, …) with at least one record")
    return torch.from_numpy(np.ascontiguousarray(x, np.float32))


def convolutions(shape: tuple[int, ...], channels: tuple[int, ...] | None) -> tuple[int, ...]:
    """Widths of the convolutions for records of a shape; () where they are not images.

    Raises:
        PrivotError: if convolutions are asked for and do not fit.
    """
    images = len(shape) in (2, 3) and min(shape[-2:]) >= 2 ** len(channels or _CHANNELS)
    if channels is None:
        return _CHANNELS if images else ()
    if channels and not images:
        raise PrivotError(
            f"channels {channels} do not fit records of shape {shape}: give (n, h, w) or "
            f"(n, c, h, w) with sides of at least {2 ** len(channels)}, or channels=()"
        )
    return channels
