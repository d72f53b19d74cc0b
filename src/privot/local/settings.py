"""Settings of a fit: the estimator, its parameters, and options of the run."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from privot.core.errors import (
    MOST_BATCH,
    MOST_STEPS,
    PrivotError,
    require_choice,
    require_count,
    require_learning_rate,
    require_minutes,
    require_seed,
)
from privot.training import Architecture, Progress

if TYPE_CHECKING:
    from privot.local.networks.steps import Loss as StepLoss

Estimator = Literal["auto", "latent_classes", "grid", "gaussian_classes", "generator"]
Loss = Literal["auto", "plain", "self_corrected", "likelihood"]


class Schedule(NamedTuple):
    """Optimizer steps of a generator's training, with their batches and learning rate."""

    steps: int
    batch_size: int
    learning_rate: float


@dataclass(frozen=True)
class FitSettings:
    """Settings of a fit; the defaults suit most releases.

    Arguments:
        estimator: `"latent_classes"` (a mixture of product distributions, for tables whose columns
            are all reported as codes), `"grid"` (a density, for one column of points of at most three
            coordinates), `"gaussian_classes"` (a Gaussian per label, for mechanism `candidates`),
            `"generator"` (a network, for any other release), or `"auto"`, which chooses one of these.
        loss: Loss of a generator: `"plain"`, `"self_corrected"`, `"likelihood"`, or `"auto"` (see
            `privot.local.networks.generator_fit`).
        steps: Number of optimizer steps; by default 12 000, for the likelihood 2 000, for images 6 000,
            for Gaussian classes ten passes over the reports, but 300 … 3000. For a grid, the maximum
            number of ascent steps: by default 1 000; in one dimension, 200 for each penalty strength.
        batch_size: Number of reports, and of generated records, in a step; by default 500, for the
            likelihood 200, for images 250, for labeled images 128, for Gaussian classes 2 000.
        learning_rate: Peak learning rate of Adam; by default 1e-3, for the likelihood and images 3e-3,
            for labeled images 2.5e-3, for Gaussian classes 1e-2.
        averaging: Decay, in [0, 1), of the moving average of a generator's weights.
        latent_dim: Dimension of the latent; by default the number of features, clipped to 4 … 16.
        hidden: Widths of the generator's hidden layers, or a DCGAN's channels.
        architecture: Network of a generator of images: `"mlp"`, `"dcgan"`, or the latter without batch
            normalization, `"dcgan_unnormalized"`.
        tolerance: Marginal error at which a batch's transport problem counts as solved.
        max_iterations: Maximum number of Sinkhorn iterations per step.
        seed: Seed of initial weights, batches, latents and held-out reports, 0 or more.
        minutes: Time limit in minutes. Training then plans as many steps as fit, so its result depends
            on the machine; other estimators stop with the best result so far.

    Raises:
        PrivotError: for an unknown estimator, loss or architecture, or for steps, a batch size, learning
            rate, seed or time limit out of range.
    """

    estimator: Estimator = "auto"
    loss: Loss = "auto"
    steps: int | None = None
    batch_size: int | None = None
    learning_rate: float | None = None
    averaging: float = 0.999
    latent_dim: int | None = None
    hidden: tuple[int, ...] = (256, 256)
    architecture: Architecture = "mlp"
    tolerance: float = 1e-2
    max_iterations: int = 200
    seed: int = 0
    minutes: float | None = None

    def __post_init__(self) -> None:
        require_minutes(self.minutes)
        require_choice("estimator", self.estimator, get_args(Estimator))
        require_choice("loss", self.loss, get_args(Loss))
        require_choice("architecture", self.architecture, get_args(Architecture))
        if self.steps is not None:
            object.__setattr__(self, "steps", require_count("steps", self.steps, MOST_STEPS))
        if self.batch_size is not None:
            size = require_count("batch_size", self.batch_size, MOST_BATCH, least=2)
            object.__setattr__(self, "batch_size", size)
        if self.learning_rate is not None:
            require_learning_rate(self.learning_rate)
        object.__setattr__(self, "seed", require_seed(self.seed))

    def schedule(self, loss: str = "plain", images: bool = False, labels: bool = False) -> Schedule:
        """Return the schedule; what is not set has defaults for the loss and for (labeled) images."""
        if images:
            default = Schedule(6_000, 128, 2.5e-3) if labels else Schedule(6_000, 250, 3e-3)
        elif loss == "likelihood":
            default = Schedule(2_000, 200, 3e-3)
        else:
            default = Schedule(12_000, 500, 1e-3)
        given = [name for name in Schedule._fields if getattr(self, name) is not None]
        return default._replace(**{name: getattr(self, name) for name in given})


def settings_with(settings: FitSettings | None, keywords: Mapping[str, Any]) -> FitSettings:
    """Return the settings (by default `FitSettings()`) with fields replaced by keywords.

    Raises:
        PrivotError: for a keyword that is no setting, or a value that cannot be used.
    """
    known = [field.name for field in fields(FitSettings)]
    for name in keywords:
        if name not in known:
            raise PrivotError(f"{name} is no setting of a fit: use one of {', '.join(known)}")
    return replace(settings or FitSettings(), **keywords)


@dataclass(frozen=True)
class Run:
    """How a fit is executed, and its custom loss: see `privot.local.fitting.fit`."""

    device: str = "cpu"  # "auto", "cpu", "cuda", or "cuda:1" and so on
    checkpoint: Path | None = None  # file for the state of the run
    resume: bool = False  # whether to continue from the checkpoint
    progress: Progress | None = None  # callback after every step
    loss: "StepLoss | None" = None  # custom loss, which replaces the loss of the settings

    def __post_init__(self) -> None:
        if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", self.device):
            raise PrivotError(f"device {self.device!r} is not known: use 'auto', 'cpu' or 'cuda'")
