"""How a sliced model is fitted, and the plan that follows from it: public numbers only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from privot.errors import PrivotError
from privot.limits import (
    MOST_BATCH,
    MOST_COORDINATES,
    MOST_PEOPLE,
    MOST_PROJECTIONS,
    MOST_STEPS,
    require_count,
    require_seed,
)
from privot.privacy.slicing import SlicedAccounting
from privot.privacy.slicing.sensitivity import CentralNeighboring, Sampling
from privot.sliced.records import RecordMap
from privot.sliced.releases.plan import Method, Plan
from privot.training import TrainingSettings

Estimator = Literal["auto", "factors", "network"]

# Least and most of each.
_COUNTS = {
    "steps": (1, MOST_STEPS),
    "batch_size": (1, MOST_PEOPLE),
    "num_projections": (1, MOST_PROJECTIONS),
    "optimizer_steps": (1, MOST_STEPS),
    "generated": (2, MOST_BATCH),
    "latent_dim": (1, MOST_COORDINATES),
}


@dataclass(frozen=True)
class SlicedSettings:
    """What is released, and what is made of it.

    Arguments:
        epsilon: ε of the whole run.
        delta: δ of the whole run.
        steps: Number of releases (1 with `release="once"`).
        batch_size: Records a release; on average for padded Poisson batches.
        num_projections: Directions k of a release.
        release: `"every_step"` draws a fresh batch and fresh directions each time; `"once"` releases
            slices of all records a single time and trains on them for as long as it likes
            (Greenewald et al. 2024).
        neighboring: `"replace_one"` with batches of fixed size, or `"zero_out"` with padded Poisson.
        orthonormal: Whether a release's directions are a frame (k ≤ d).
        method: Accounting by `"pld"` (least noise, seconds) or `"rdp"`.
        estimator: `"factors"` of squared images, in closed form; a `"network"` for anything.
        loss: Of a network: `"mean_first"` follows the mean pooled over all releases and the spread of
            the last; `"sliced"` only the smoothed distance to the last, as published; `"entropic"`,
            with `release="once"`, entropic transport at the noise's own cost and weight.
        dither: Of factors: standard deviation of independent noise on the pixels of drawn images.
        q: Exponent of the `"sliced"` loss, 1 or 2.
        optimizer_steps: Of a network; with `release="every_step"` the number of releases instead.
        generated: Records that a network makes a step.
        learning_rate: Peak learning rate of Adam.
        averaging: Decay of the moving average of the weights.
        latent_dim: Of a network.
        hidden: Widths of a network.
        seed: Of initial weights and latents; never of noise, batches or directions.
    """

    epsilon: float
    delta: float = 1e-5
    steps: int = 60_000
    batch_size: int = 100
    num_projections: int = 16
    release: Literal["every_step", "once"] = "every_step"
    neighboring: CentralNeighboring = "replace_one"
    orthonormal: bool = False
    method: Method = "pld"
    estimator: Estimator = "auto"
    loss: Literal["mean_first", "sliced", "entropic"] = "mean_first"
    dither: float = 0.2
    q: int = 2
    optimizer_steps: int = 3000
    generated: int = 500
    learning_rate: float = 2e-3
    averaging: float = 0.995
    latent_dim: int = 16
    hidden: tuple[int, ...] = (256, 256)
    seed: int = 0

    def __post_init__(self) -> None:
        for name, (least, most) in _COUNTS.items():
            count = require_count(name, getattr(self, name), most, least=least)
            object.__setattr__(self, name, count)
        widths = tuple(require_count("hidden", width, MOST_COORDINATES) for width in self.hidden)
        object.__setattr__(self, "hidden", widths)
        object.__setattr__(self, "seed", require_seed(self.seed))
        _ = self.training  # refuses what cannot learn, before anything is spent on it
        if self.estimator not in get_args(Estimator):
            raise PrivotError(
                f"estimator {self.estimator!r}: use one of {', '.join(get_args(Estimator))}"
            )
        if not 0 <= self.dither < 10:
            raise PrivotError(f"dither {self.dither}: give a noise on pixels of 0 to 10")
        if self.release not in ("every_step", "once") or self.q not in (1, 2):
            raise PrivotError(
                f"release {self.release!r}, q {self.q}: use 'every_step' or 'once', and 1 or 2"
            )
        if self.loss not in ("mean_first", "sliced", "entropic"):
            raise PrivotError(f"loss {self.loss!r}: use 'mean_first', 'sliced' or 'entropic'")
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
        """The scheme of batches that the adjacency is accounted with."""
        if self.release == "once":
            return "none"
        return "padded_poisson" if self.neighboring == "zero_out" else "without_replacement"

    def accounting(
        self, records: int, record_map: RecordMap, grid: float = 0.0, radius: float = 1.0
    ) -> SlicedAccounting:
        """The setting whose privacy is accounted."""
        return SlicedAccounting(
            dim=record_map.num_labels * record_map.width,
            num_projections=self.num_projections,
            records=records,
            batch_size=records if self.release == "once" else self.batch_size,
            sampling=self.sampling,
            neighboring=self.neighboring,
            radius=radius,
            non_negative=record_map.non_negative,
            orthonormal=self.orthonormal,
            grid=grid,
            unit=record_map.unit,
        )

    def plan(self, records: int, record_map: RecordMap) -> Plan:
        """The plan that keeps (ε, δ) for that many records.

        Raises:
            PrivotError: if no noise does, or the numbers do not fit each other.
        """

        def accounting(grid: float) -> SlicedAccounting:
            return self.accounting(records, record_map, grid)

        steps = 1 if self.release == "once" else self.steps
        return Plan.calibrate(self.epsilon, self.delta, steps, accounting, self.method)

    def chosen_estimator(self, record_map: RecordMap, squared_images: bool) -> str:
        """The estimator that `"auto"` stands for."""
        if self.estimator == "auto":
            return "factors" if squared_images else "network"
        return self.estimator
