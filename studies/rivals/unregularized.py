r"""The unregularized Wasserstein loss: a baseline that must fail, because it learns the noise.

The same generator, latents and optimizer as `privot.local.fit`, but the loss of a batch of b
generated points against b reports is

$$ W_p^p(G_θ(z), y) = \min_{s ∈ S_b} \frac1b \sum_i ‖G_θ(z_i) − y_{s(i)}‖_p^p , $$

p = 1 for Laplace noise and p = 2 for Gaussian noise, by exact assignment. $W_p(P_G, P_Y)$ is zero
only where $P_G = P_Y$: a generator that is rich enough is drawn to the distribution of the *noisy*
reports, and the more faithfully it is trained, the more noise it learns. One entropic term of the
right weight is all that separates it from the recovery theorem in `privot.local.likelihood.cost`.

Privacy: computed from a release, hence post-processing; the guarantee of the release is kept.

References:
    Reshetova, Chen, Özgür, *Training generative models from privatized data via entropic optimal
    transport* (2024), section IV, "without regularization".
"""

from __future__ import annotations

from dataclasses import asdict

import torch
from torch import Tensor

from privot.errors import PrivotError
from privot.generators import MLP
from privot.local import FitSettings, LocalModel
from privot.local.likelihood.cost import LikelihoodCost
from privot.local.likelihood.heads import Head
from privot.local.samplers import GeneratorSampler
from privot.mechanisms import Gaussian, Laplace, Mechanism
from privot.release import Release
from privot.training import Progress, TrainingSettings, train
from privot.transport import wasserstein

_POWERS: dict[type[Mechanism], int] = {Laplace: 1, Gaussian: 2}


def fit_unregularized(
    release: Release, settings: FitSettings | None = None, *, progress: Progress | None = None
) -> LocalModel:
    """Fit a generator to one column's reports by W_p^p between batches, the noise unaccounted for.

    Arguments:
        release: Reports of one numeric or vector column.
        settings: As for `fit`; `loss`, `tolerance` and `max_iterations` have no meaning here.
        progress: Told the step and the loss after every step.

    Raises:
        PrivotError: if there is another column, or its mechanism is not Laplace or Gaussian.
    """
    settings = settings or FitSettings()
    power = _power(release)
    head = Head(release.randomizer)
    name = next(iter(release.schema.columns))
    # As `fit` chooses it.
    latent_dim = settings.latent_dim or min(16, max(2, head.num_features))
    generator = MLP(latent_dim, head.num_features, settings.hidden, settings.seed)
    reports = LikelihoodCost(release.randomizer).read(release, torch.device("cpu"))
    steps, size, rate = settings.schedule()

    def objective(rng: torch.Generator) -> tuple[Tensor, float]:
        index = torch.randint(len(reports), (size,), generator=rng)
        generated = head(generator(generator.draw_latent(size, rng)))[name]
        # An assignment's marginals are exact: nothing is left to converge.
        return wasserstein(generated, reports.values[name][index], power) ** power, 0.0

    history = train(
        generator,
        objective,
        TrainingSettings(steps, rate, settings.averaging, settings.seed),
        progress=progress,
    )
    made_with = asdict(settings) | {"loss": f"unregularized W{power}", "num_reports": len(release)}
    sampler = GeneratorSampler(generator.eval(), head)
    return LocalModel(sampler, release.randomizer, made_with, history)


def _power(release: Release) -> int:
    """The p of the loss."""
    mechanisms = list(release.randomizer.mechanisms.values())
    if (
        len(mechanisms) != 1
        or len(release.schema.columns) != 1
        or type(mechanisms[0]) not in _POWERS
    ):
        raise PrivotError(
            f"columns {list(release.schema.columns)} are randomized by "
            f"{[type(mechanism).__name__ for mechanism in mechanisms]}: the unregularized baseline "
            "takes a release of one column with Laplace or Gaussian noise"
        )
    return _POWERS[type(mechanisms[0])]
