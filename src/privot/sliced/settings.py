"""How a run through noisy slices is made, and the plan that follows from it: public numbers only."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, get_args, get_type_hints

from privot.architectures import Architecture
from privot.errors import (
    MOST_BATCH,
    MOST_COORDINATES,
    MOST_PEOPLE,
    MOST_PROJECTIONS,
    MOST_STEPS,
    PrivotError,
    require_choice,
    require_count,
    require_seed,
)
from privot.privacy.slicing import CentralNeighboring, Method, Sampling, SlicedAccounting
from privot.sliced.records import RecordMap
from privot.sliced.releases.plan import SlicePlan
from privot.training.loop import TrainingSettings


@dataclass(frozen=True, kw_only=True)
class ReleaseSettings:
    """What every run through noisy slices decides.

    Arguments:
        steps: Number of releases.
        batch_size: Records a release; on average for padded Poisson batches.
        num_projections: Directions k of a release.
        neighboring: `"replace_one"` with batches of fixed size, or `"zero_out"` with padded Poisson.
        orthonormal: Whether a release's directions are a frame (k ≤ d).
        method: Accounting by `"pld"` (least noise, seconds) or `"rdp"`.
        q: Exponent of the sliced loss, 1 or 2.
        hidden: Widths of a network's hidden layers.
        learning_rate: Peak learning rate of Adam.
        averaging: Decay of the moving average of the weights.
        seed: Of initial weights and latents; never of noise, batches or directions.
    """

    steps: int
    batch_size: int
    num_projections: int
    neighboring: CentralNeighboring = "replace_one"
    orthonormal: bool = False
    method: Method = "pld"
    q: int = 2
    hidden: tuple[int, ...] = (256, 256)
    learning_rate: float = 2e-3
    averaging: float = 0.995
    seed: int = 0

    # Most of each count; the least is 1.
    most: ClassVar[dict[str, int]] = {
        "steps": MOST_STEPS,
        "batch_size": MOST_PEOPLE,
        "num_projections": MOST_PROJECTIONS,
    }

    def __post_init__(self) -> None:
        for name, most in self.most.items():
            object.__setattr__(self, name, require_count(name, getattr(self, name), most))
        widths = tuple(require_count("hidden", width, MOST_COORDINATES) for width in self.hidden)
        object.__setattr__(self, "hidden", widths)
        object.__setattr__(self, "seed", require_seed(self.seed))
        _ = self.training  # refuses what cannot learn, before anything is spent on it
        hints = get_type_hints(type(self))
        for field in fields(self):
            choices, value = get_args(hints[field.name]), getattr(self, field.name)
            if choices and all(isinstance(one, str) for one in choices):
                require_choice(field.name, value, choices)
        if self.q not in (1, 2):
            raise PrivotError(f"q {self.q}: use 1 or 2")

    @property
    def training(self) -> TrainingSettings:
        """How a network is trained."""
        return TrainingSettings(self.steps, self.learning_rate, self.averaging, self.seed)

    @property
    def sampling(self) -> Sampling:
        """The scheme of batches that the adjacency is accounted with."""
        return "padded_poisson" if self.neighboring == "zero_out" else "without_replacement"

    def accounting(self, count: int, records: RecordMap, grid: float = 0.0) -> SlicedAccounting:
        """The setting of a run on that many records, whose privacy is accounted."""
        return SlicedAccounting(
            dim=records.num_labels * records.width,
            num_projections=self.num_projections,
            records=count,
            batch_size=count if self.sampling == "none" else self.batch_size,
            sampling=self.sampling,
            neighboring=self.neighboring,
            non_negative=records.non_negative,
            orthonormal=self.orthonormal,
            grid=grid,
            unit=records.unit,
        )

    def plan(self, epsilon: float, delta: float, count: int, records: RecordMap) -> SlicePlan:
        """The releases that keep (ε, δ) of that many records."""
        steps = 1 if self.sampling == "none" else self.steps
        return SlicePlan.calibrate(
            epsilon, delta, steps, lambda grid: self.accounting(count, records, grid), self.method
        )


@dataclass(frozen=True, kw_only=True)
class SlicedSettings(ReleaseSettings):
    """What is released of a curator's records, and what is made of it; see `ReleaseSettings`, too.

    Arguments:
        release: `"every_step"` draws a fresh batch and fresh directions each time; `"once"` releases
            slices of all records a single time and trains on them for as long as it likes
            (Greenewald et al. 2024).
        degree: Of the features: 1 for means of coordinates, 2 for second moments as well.
        low_pass: Of images: frequencies kept along each axis; None for the pixels themselves.
        anchor: Of images of degree 2: the constant of the lifted vector, in units of an image's norm.
        scale: Of images of degree 1: the norm that becomes 1. Longer ones are clipped.
        loss: Of a network: `"mean_first"` follows the mean pooled over all releases and the spread of
            the last; `"sliced"` only the smoothed distance to the last, as published; `"entropic"`,
            with `release="once"`, entropic transport at the noise's own cost and weight.
        optimizer_steps: Of a network with `release="once"`; else one a release.
        generated: Records that a network makes a step.
        latent_dim: Of a network.
        architecture: Of a network: `"mlp"`, or of images `"dcgan"`, whose channels are `hidden`, or
            that without batch normalization, `"dcgan_unnormalized"`.
    """

    steps: int = 60_000
    batch_size: int = 100
    num_projections: int = 16
    release: Literal["every_step", "once"] = "every_step"
    degree: int = 2
    low_pass: int | None = 7
    anchor: float = 5.0
    scale: float = 12.0
    loss: Literal["mean_first", "sliced", "entropic"] = "mean_first"
    optimizer_steps: int = 3000
    generated: int = 500
    latent_dim: int = 16
    architecture: Architecture = "mlp"

    most: ClassVar[dict[str, int]] = ReleaseSettings.most | {
        "optimizer_steps": MOST_STEPS,
        "generated": MOST_BATCH,
        "latent_dim": MOST_COORDINATES,
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        require_count("generated", self.generated, MOST_BATCH, least=2)
        if self.loss == "entropic" and self.release != "once":
            raise PrivotError(
                "loss 'entropic' needs release='once': its plans are drawn from one release again "
                "and again"
            )

    @property
    def training(self) -> TrainingSettings:
        """How a network is trained."""
        steps = self.optimizer_steps if self.release == "once" else self.steps
        return TrainingSettings(steps, self.learning_rate, self.averaging, self.seed)

    @property
    def sampling(self) -> Sampling:
        """See `ReleaseSettings`: a single release is of all records."""
        return "none" if self.release == "once" else super().sampling

    @property
    def features(self) -> dict[str, Any]:
        """What `records_of` makes a schema's records with."""
        return {name: getattr(self, name) for name in ("degree", "low_pass", "anchor", "scale")}
