r"""Fitting a generator to a release by entropic optimal transport.

Each step draws b reports and b latents, solves one small transport problem at the matched cost, and
follows the gradient of $⟨π, C⟩$ with the plan held fixed (algorithm 1 of Reshetova et al.).

**Mini-batch bias.** The recovery theorem is about distributions; a plan between b points and b points
can match noise that only looks like structure, and shrinks what is learned: in 50 dimensions with
noise of standard deviation 1 the learned spread at b = 400 is half the truth. The *self-corrected*
loss subtracts the gradient that the model would receive from its own privatized samples,

$$ g = g_b(θ; Y) − g_b(θ; Y'), \qquad Y' = M(\text{stopgrad } G_θ(z')) , $$

with the same generated batch in both terms. When $P_G = P_X$, Y′ has the law of Y, so $E\,g = 0$ for
every b, dimension and mechanism; as b → ∞ the second term vanishes. In a few dimensions the bias is
small and the second plan only adds variance, so `loss="auto"` is `"plain"` up to 5 dimensions.

Privacy: a function of the release alone, hence post-processing: the guarantee of the release is the
guarantee of the model, whatever is fitted, however long, however often. The seed is no secret.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from privot.errors import PrivotError
from privot.generators import MLP
from privot.local.cost import LikelihoodCost
from privot.local.heads import Head
from privot.local.model import Model
from privot.release import Release
from privot.training import Progress, TrainingSettings, train
from privot.training.threads import threads_for
from privot.transport import SinkhornSolver, entropic_cost

Loss = Literal["auto", "plain", "self_corrected"]

_PLAIN_UP_TO = 5


@dataclass(frozen=True)
class FitSettings:
    """How a generator is fitted. The defaults are meant to be right for tables of few columns.

    Arguments:
        loss: `"plain"`, `"self_corrected"`, or `"auto"` (plain up to 5 dimensions).
        steps: Number of optimizer steps.
        batch_size: Reports, and generated records, a step.
        learning_rate: Peak learning rate of Adam.
        averaging: Decay of the moving average of the weights.
        latent_dim: Dimension of the latent; as many as the features, between 4 and 16, by default.
        hidden: Widths of the generator's hidden layers.
        tolerance: Marginal error at which a batch's transport problem counts as solved.
        max_iterations: Most Sinkhorn iterations a step.
        seed: Of initial weights, batches, latents.
    """

    loss: Loss = "auto"
    steps: int = 12_000
    batch_size: int = 500
    learning_rate: float = 1e-3
    averaging: float = 0.999
    latent_dim: int | None = None
    hidden: tuple[int, ...] = (256, 256)
    tolerance: float = 1e-2
    max_iterations: int = 200
    seed: int = 0

    def __post_init__(self) -> None:
        if self.loss not in ("auto", "plain", "self_corrected"):
            raise PrivotError(
                f"loss {self.loss!r} is not known: use 'auto', 'plain' or 'self_corrected'"
            )
        if self.batch_size < 2:
            raise PrivotError(f"batch_size {self.batch_size} is too small: give at least 2")


def fit(
    release: Release,
    settings: FitSettings | None = None,
    *,
    seed: int | None = None,
    device: str = "auto",
    checkpoint: str | Path | None = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> Model:
    """Learn the distribution of the clean records from their privatized reports.

    Arguments:
        release: The reports; nothing else is looked at.
        settings: How to fit; the defaults otherwise.
        seed: Shorthand for a seed in the settings. Same seed, same machine, same model.
        device: `"auto"`, `"cpu"`, `"cuda"`.
        checkpoint: File for the state of the run, saved every half minute and on Ctrl-C.
        resume: Whether to continue from the checkpoint, if there is one.
        progress: Told the step and the loss after every step.

    Raises:
        PrivotError: for settings that cannot be used, or a checkpoint of another run.
        Interrupted: on Ctrl-C, after the checkpoint was saved.
    """
    settings = settings or FitSettings()
    if seed is not None:
        settings = FitSettings(**(asdict(settings) | {"seed": seed}))
    where = _device(device)
    head = Head(release.randomizer)
    loss = _choose_loss(settings.loss, head)
    latent_dim = settings.latent_dim or min(16, max(4, head.num_features))
    generator = MLP(latent_dim, head.num_features, settings.hidden, settings.seed).to(where)
    objective = transport_objective(generator, head, release, settings, loss, where)
    made_with = {k: v for k, v in asdict(settings).items() if k != "steps"}
    with threads_for(settings.batch_size**2):
        history = train(
            generator,
            objective,
            TrainingSettings(
                settings.steps, settings.learning_rate, settings.averaging, settings.seed
            ),
            checkpoint=None if checkpoint is None else Path(checkpoint),
            resume=resume,
            identity={
                "hidden": list(settings.hidden),
                "latent_dim": latent_dim,
                "batch_size": settings.batch_size,
                "loss": loss,
                "tolerance": settings.tolerance,
                "max_iterations": settings.max_iterations,
                "release": _fingerprint(release),
            },
            progress=progress,
        )
    described: dict[str, Any] = made_with | {"steps": settings.steps, "loss": loss}
    described |= {"num_reports": len(release), "seconds": float(history["seconds"][-1])}
    return Model(generator.cpu().eval(), release.randomizer, described, history)


def transport_objective(
    generator: MLP,
    head: Head,
    release: Release,
    settings: FitSettings,
    loss: str,
    device: torch.device,
) -> Callable[[torch.Generator], tuple[Tensor, float]]:
    """Loss and marginal error of one step, as a function of the run's random generator."""
    cost = LikelihoodCost(release.randomizer)
    reports = cost.read(release, device)
    solver = SinkhornSolver(settings.tolerance, settings.max_iterations)
    size = settings.batch_size

    def objective(rng: torch.Generator) -> tuple[Tensor, float]:
        index = torch.randint(len(reports), (size,), generator=rng).to(device)
        batch = reports.rows(index)
        outputs = head(generator(generator.draw_latent(size, rng)))
        value, result = entropic_cost(cost(outputs, batch), solver=solver)
        if loss == "plain":
            return value, result.marginal_error
        with torch.no_grad():
            own = head(generator(generator.draw_latent(size, rng)))
            echo = cost.simulate(own, batch, rng)
        correction, second = entropic_cost(cost(outputs, echo), solver=solver)
        return value - correction, max(result.marginal_error, second.marginal_error)

    return objective


def _choose_loss(loss: Loss, head: Head) -> str:
    if loss != "auto":
        return loss
    return "plain" if head.num_features <= _PLAIN_UP_TO else "self_corrected"


def _device(device: str) -> torch.device:
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise PrivotError(f"device {device!r} is not available here: use 'auto' or 'cpu'")
    try:
        return torch.device(device)
    except RuntimeError:
        raise PrivotError(f"device {device!r} is not known: use 'auto', 'cpu' or 'cuda'") from None


def _fingerprint(release: Release) -> str:
    """Which release it was: a hash of public things, the reports and their randomizer."""
    digest = hashlib.sha256(release.randomizer.to_json().encode())
    for name in release.schema.columns:
        values, reported = release.reports(name)
        digest.update(values.tobytes())
        digest.update(reported.tobytes())
    return digest.hexdigest()
