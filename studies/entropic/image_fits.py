r"""Generators of images fitted to their reports by `privot.fit`, with one of five losses.

| loss | of generated x, reports y (b of each) | learns |
|---|---|---|
| `entropic` | $\mathrm{OT}_{−\log f, 1}(x, y)$, the papers' | the clean images, shrunk |
| `self_corrected` | the same, less that of the model's own reports: ours | the clean images |
| `unregularized` | $W_p^p(x, y)$ | the noise as well |
| `sinkhorn_divergence` | $S_λ(x, y)$ | the noise as well |
| `noisy_wasserstein` | $W_p^p(x + n', y)$ | the clean images, slowly |

All see the same generator, start, optimizer, steps and reports; small settings give each loss the batch
size that suits it.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from privot.core.files import replacing_file
from privot.local import FitSettings, LocalModel, fit
from privot.local.networks.generator_fit import GeneratorSampler, image_generator
from privot.local.networks.heads import Head
from privot.local.networks.steps import LOSSES as OURS
from privot.randomizer import Release
from privot.schema.columns.array import tensor_values
from studies.common.image_recipe import NUM_JUDGED, Recipe, image_options
from studies.entropic.image_noise import IMAGE, ImageNoise
from studies.rivals.batch_losses import noisy_wasserstein, sinkhorn_divergence, unregularized

LOSSES = {
    "entropic": OURS["plain"],
    "self_corrected": OURS["self_corrected"],
    "unregularized": unregularized,
    "sinkhorn_divergence": sinkhorn_divergence,
    "noisy_wasserstein": noisy_wasserstein,
}
SMALL = FitSettings(steps=8000, batch_size=128, learning_rate=2.5e-3, averaging=0.996)
# The papers' network, steps, batches and rate for images, meant for a GPU: 150 epochs of batches of 400.
PAPER = FitSettings(
    steps=22_500, batch_size=400, learning_rate=1e-4, averaging=0.996, architecture="dcgan",
    hidden=(128, 64), latent_dim=100, max_iterations=400,
)  # fmt: skip
# Of the papers' network, a core makes ten steps of 128 images a second at half its width.
HALF: dict[str, Any] = {"architecture": "dcgan", "hidden": (64, 32)}


def fit_options(parser: argparse.ArgumentParser) -> None:
    """The arguments of a recipe whose fits are of `settings_of`."""
    image_options(parser, "docs/results/entropic")
    parser.add_argument(
        "--dcgan", action="store_true", help="the papers' network at half its width"
    )


def settings_of(chosen: argparse.Namespace, small: FitSettings, paper: FitSettings) -> FitSettings:
    """The settings with the network, the seed, and the steps if any, of the command line."""
    settings = paper if chosen.paper else small
    settings = replace(settings, seed=chosen.seed, steps=chosen.steps or settings.steps)
    return replace(settings, **HALF) if chosen.dcgan else settings


def suited(settings: FitSettings, loss: str) -> FitSettings:
    """Small settings at the batch size that suits a loss; all take the same steps.

    Self-correction removes the batch's bias, so it takes small batches; the entropic loss alone gets the
    papers' 400; those that need an exact assignment or three plans get 250 and 200.
    """
    assert settings.steps is not None
    sizes = {"entropic": 400, "sinkhorn_divergence": 200, "self_corrected": settings.batch_size}
    averaging = max(0.0, 1 - 8 / settings.steps)
    return replace(settings, batch_size=sizes.get(loss, 250), averaging=averaging)


def fit_losses(
    recipe: Recipe, release: Release, losses: Sequence[str], settings: FitSettings
) -> Iterator[tuple[str, Tensor, dict[str, Any]]]:
    """Each loss fitted to one release: its name, images that its model drew, and their scores.

    With `--keep`, an interrupted command goes on where it was: the reports of the fits under way, each
    fit's checkpoint, and what each fit made are kept there. Runs of ten minutes thus make a long one.
    """
    kept = recipe.kept(len(release), release.randomizer.fingerprint[:12])
    if kept is not None:
        reports = kept.with_suffix(".parquet")
        if reports.exists():
            release = Release.load(reports)
        else:
            release.save(reports)
    for name in losses:
        chosen = settings if recipe.paper else suited(settings, name)
        file = kept and kept.with_name(f"{kept.name}_{name}_{chosen.steps}_{chosen.batch_size}.pt")
        if file is not None and file.exists():
            images, told = torch.load(file)
        else:
            images, told = _fitted(recipe, release, name, chosen, file)
        print(name, json.dumps(told), flush=True)
        yield name, images, told
    if kept is not None:
        kept.with_suffix(".parquet").unlink()


def _fitted(
    recipe: Recipe, release: Release, loss: str, settings: FitSettings, file: Path | None
) -> tuple[Tensor, dict[str, Any]]:
    """Images that one fit draws, and their scores."""
    state = file and file.with_suffix(".checkpoint")
    model = fit(
        release, settings, loss=LOSSES[loss], device=recipe.device, checkpoint=state, resume=True
    )
    assert model.history is not None
    seconds = round(float(model.history["seconds"][-1]), 1)
    images = drawn(model, NUM_JUDGED, recipe.seed + 1)
    made = {"steps": settings.steps, "batch_size": settings.batch_size, "fit_seconds": seconds}
    told = recipe.judge.score(images).to_dict() | made
    if file is not None and state is not None:
        with replacing_file(file) as draft:
            torch.save((images, told), draft)
        state.unlink(missing_ok=True)
    return images, told


def drawn(model: LocalModel, num_images: int, seed: int) -> Tensor:
    """Images (num_images, SIDE²) in [−1, 1] of a model."""
    images = tensor_values(model.sample(num_images, seed).column(IMAGE))
    return torch.from_numpy(images.reshape(num_images, -1).astype(np.float32))


def unfitted(release: Release, settings: FitSettings) -> LocalModel:
    """Where all losses start: a generator at the moments that the reports show."""
    head = Head(release.randomizer)
    generator = image_generator(release, head, settings).eval()
    return LocalModel(GeneratorSampler(generator, head), release.randomizer, {})


def facts(recipe: Recipe, noise: ImageNoise, settings: FitSettings) -> dict[str, Any]:
    """What every row says of its reports and fits."""
    return {
        "delta": noise.delta,
        **noise.both_epsilons(),
        "plan": {k: v for k, v in asdict(settings).items() if v is not None},
        "floor": recipe.floor,
    }
