"""A classifier adapted to a private target: its settings, its network, and what learning it has cost.

The folder that `AdaptedClassifier.save` writes is a function of releases and public settings; how it is
learned stands in `privot.sliced.adaptation`.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

import numpy as np
import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

import privot
from privot.errors import PrivotError
from privot.files import recover_folder, replacing_folder
from privot.generators import MLP
from privot.privacy import ApproximateDP
from privot.privacy.slicing.sensitivity import CentralNeighboring
from privot.sliced.ledger import Method, Plan
from privot.sliced.records import RecordMap
from privot.sliced.settings import SlicedSettings

FORMAT = 1
_SMALLEST_NORM = 1e-6


@dataclass(frozen=True)
class AdaptationSettings:
    """Budget and method of an adaptation; see `SlicedSettings` for what is named alike.

    Arguments:
        weight: Weight w of the sliced loss.
        feature_dim: Dimension d of the features that are aligned.
        hidden: Widths of g.
        source_batch: Source records a step.
        sharpness: Factor on features of norm 1 before the classifier h.
    """

    epsilon: float
    delta: float = 1e-5
    steps: int = 2000
    batch_size: int = 100
    num_projections: int = 16
    neighboring: CentralNeighboring = "replace_one"
    method: Method = "pld"
    weight: float = 1.0
    q: int = 2
    feature_dim: int = 32
    hidden: tuple[int, ...] = (256,)
    source_batch: int = 256
    sharpness: float = 10.0
    learning_rate: float = 1e-3
    averaging: float = 0.99
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "hidden", tuple(self.hidden))
        if not (self.weight >= 0 and self.sharpness > 0) or self.source_batch < 1:
            raise PrivotError(
                f"weight {self.weight}, sharpness {self.sharpness}, source_batch "
                f"{self.source_batch}: give a weight of at least 0 and positive others"
            )

    def plan(self, targets: int, features: RecordMap) -> Plan:
        """The plan that keeps (ε, δ) for that many target records."""
        alike = SlicedSettings(
            epsilon=self.epsilon,
            delta=self.delta,
            steps=self.steps,
            batch_size=self.batch_size,
            num_projections=self.num_projections,
            neighboring=self.neighboring,
            method=self.method,
            q=self.q,
        )
        return alike.plan(targets, features)


class Classifier(nn.Module):
    """h∘g: features on the unit sphere's non-negative part, and a linear layer."""

    def __init__(self, num_inputs: int, num_classes: int, settings: AdaptationSettings) -> None:
        super().__init__()
        self.g = MLP(num_inputs, settings.feature_dim, settings.hidden, settings.seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.seed)
            self.h = nn.Linear(settings.feature_dim, num_classes)
        self.sharpness = settings.sharpness

    def features(self, x: Tensor) -> Tensor:
        """Features (n, d) of records (n, p): rectified, of norm 1 (or 0)."""
        raw = torch.relu(self.g(x))
        return raw / raw.norm(dim=1, keepdim=True).clamp_min(_SMALLEST_NORM)

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
        num_inputs: Dimension of a record.
        num_classes: Number of classes.
    """

    classifier: Classifier
    plan: Plan
    releases: int
    settings: AdaptationSettings
    num_inputs: int
    num_classes: int

    @property
    def guarantee(self) -> ApproximateDP:
        """The guarantee of the target records; the source has none."""
        return self.plan.guarantee(self.releases)

    @torch.no_grad()
    def predict(self, x: np.ndarray) -> np.ndarray:
        """Classes (n,) of records (n, …), flattened."""
        return np.asarray(self.classifier(flat(x)).argmax(dim=1).numpy())

    def save(self, path: str | Path) -> None:
        """Write `model.json` and `weights.safetensors`."""
        fields = {
            "format": FORMAT,
            "kind": "adapted_classifier",
            "publishable": True,
            "privot": privot.__version__,
            "guarantee": self.guarantee.to_dict(),
            "in_words": self.guarantee.describe(),
            "releases": self.releases,
            "plan": self.plan.to_dict(),
            "settings": asdict(self.settings),
            "num_inputs": self.num_inputs,
            "num_classes": self.num_classes,
        }
        with replacing_folder(path) as folder:
            text = json.dumps(fields, indent=2, ensure_ascii=False)
            (folder / "model.json").write_text(text + "\n", encoding="utf-8")
            weights = {k: v.contiguous() for k, v in self.classifier.state_dict().items()}
            safetensors.torch.save_file(weights, folder / "weights.safetensors")

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote.

        Raises:
            PrivotError: if it is missing, damaged, or something else.
        """
        path = Path(path)
        recover_folder(path)
        try:
            fields = json.loads((path / "model.json").read_text(encoding="utf-8"))
            if fields["format"] != FORMAT or fields["kind"] != "adapted_classifier":
                raise PrivotError(f"kind {fields['kind']!r}, format {fields['format']}")
            settings = AdaptationSettings(**fields["settings"])
            sizes = fields["num_inputs"], fields["num_classes"]
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
                f"classifier {path} cannot be read ({reason}): give the folder that "
                "`privot sliced adapt` wrote"
            ) from None
        return cls(classifier.eval(), plan, fields["releases"], settings, *sizes)


def flat(x: np.ndarray) -> Tensor:
    """Records (n, …) as a float32 matrix (n, p)."""
    x = np.asarray(x)
    if x.ndim < 2 or len(x) == 0:
        raise PrivotError(f"records have shape {x.shape}: give (n, …) with at least one record")
    return torch.from_numpy(np.ascontiguousarray(x, np.float32).reshape(len(x), -1))
