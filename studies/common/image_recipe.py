"""What the recipes on images share: arguments, data, the judge, and rows that say how they were made.

Small settings (hundreds or thousands of steps, a few minutes on two cores) are the default; `--paper`
takes the papers' batches, rates and epochs, for a GPU. A row is one JSON file: results, settings, seed,
command, seconds, number of cores, date; the pages are made from the rows alone.
"""

from __future__ import annotations

import argparse
import datetime
import io
import os
import time
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from PIL import Image
from torch import Tensor

from privot.core.files import replacing_file
from privot.demo.datasets import LabeledImages, load_images
from studies.common.image_features import (
    ImageClassifier,
    load_classifier,
    save_classifier,
    train_classifier,
)
from studies.common.image_judge import ImageJudge, to_unit_interval
from studies.common.inception import InceptionFeatures
from studies.common.rows import write_row

NUM_JUDGED = 10_000
_COLORS_KEPT, _WIDEST = 48, 1400


@dataclass
class Recipe:
    """One run of one recipe.

    Arguments:
        name: Of the recipe; its files start with it.
        folder: Of the data sets, or None for PRIVOT_DATA.
        output: Where the row and the picture go.
        dataset: `"mnist"` or `"fashion_mnist"`.
        paper: Whether to use the papers' settings.
        seed: Of all but the noise.
        classifier_file: Weights of the judging classifier, read if there, else trained and written.
        steps: Optimizer steps of a fit, instead of the setting's own.
        command: That repeats the run.
        keep: Where fits are kept, so that an interrupted command goes on where it was.
        inception: TorchScript file of the network whose features the FID takes.
        num_kept: How often that was asked for.
    """

    name: str
    folder: Path | None
    output: Path
    dataset: str = "mnist"
    paper: bool = False
    seed: int = 0
    classifier_file: Path | None = None
    steps: int | None = None
    command: str = ""
    keep: Path | None = None
    inception: Path | None = None
    num_kept: int = 0
    started: float = field(default_factory=time.perf_counter)

    @cached_property
    def images(self) -> LabeledImages:
        """The data set, checked."""
        return load_images(self.dataset, self.folder)

    @cached_property
    def clean(self) -> Tensor:
        """Training images (n, d) in [−1, 1]: the records."""
        return to_unit_interval(self.images.x_train)

    @cached_property
    def held_out(self) -> Tensor:
        """Test images: what results are compared with."""
        return to_unit_interval(self.images.x_test)

    @cached_property
    def classifier(self) -> ImageClassifier:
        """Trained on the clean images; about a minute where no file holds it."""
        path = self.classifier_file
        if path is not None and path.exists():
            return load_classifier(path)
        model = train_classifier(self.clean, self.images.y_train)
        if path is not None:
            save_classifier(model, path)
        return model

    @cached_property
    def second(self) -> ImageClassifier:
        """Another network, another seed: some seconds."""
        return train_classifier(self.clean, self.images.y_train, seed=1, dense=True)

    @cached_property
    def judge(self) -> ImageJudge:
        """Scores against the held-out clean images, by two classifiers, and by Inception if given."""
        file = self.inception
        inception = None if file is None else InceptionFeatures(file, (28, 28))
        return ImageJudge(self.classifier, self.held_out, second=self.second, inception=inception)

    @property
    def device(self) -> str:
        """A GPU for the papers' settings where there is one; small settings stay on the CPU."""
        return "auto" if self.paper else "cpu"

    @cached_property
    def floor(self) -> dict[str, float]:
        """Scores of clean training images: two honest samples of one law."""
        return self.judge.score(self.clean[:NUM_JUDGED]).to_dict()

    def kept(self, *told: object) -> Path | None:
        """Where the next fits of this command are kept, if anywhere; `told` tells them from others."""
        if self.keep is None:
            return None
        self.num_kept += 1
        self.keep.mkdir(parents=True, exist_ok=True)
        words = (self.name, self.dataset, f"seed{self.seed}", f"{self.num_kept:02d}", *told)
        return self.keep / "_".join(map(str, words))

    def write(self, results: dict[str, Any], figure: Figure, label: str = "") -> Path:
        """Write `name[_label][_seedN].json` and `.png`, N above 0; returns the JSON's path."""
        stem = f"{self.name}_{label}" if label else self.name
        stem += f"_seed{self.seed}" if self.seed else ""
        row = {
            "recipe": self.name,
            "label": label,
            "dataset": self.dataset,
            "paper": self.paper,
            "seed": self.seed,
            "command": self.command,
            "seconds": round(time.perf_counter() - self.started, 1),
            "cores": os.cpu_count(),
            "threads": torch.get_num_threads(),
            "date": datetime.date.today().isoformat(),
            **self._judged_by(),
            **results,
        }
        write_row(self.output / f"{stem}.json", row)
        with replacing_file(self.output / f"{stem}.png") as draft:
            _save_small(figure, draft)
        self.started = time.perf_counter()
        return self.output / f"{stem}.json"

    def _judged_by(self) -> dict[str, float]:
        """How good the judging classifier is, where there was one."""
        if "classifier" not in self.__dict__:
            return {}
        accuracy = self.classifier.accuracy(self.held_out, self.images.y_test)
        return {"judge_accuracy": round(accuracy, 4)}


def _save_small(figure: Figure, path: Path) -> None:
    """Write a PNG of few colors and no great width: sheets of grainy samples are large otherwise."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=120, facecolor=figure.get_facecolor())
    picture = Image.open(buffer).convert("RGB")
    picture.thumbnail((_WIDEST, _WIDEST), Image.Resampling.LANCZOS)
    few = picture.quantize(_COLORS_KEPT, kmeans=2, dither=Image.Dither.NONE)
    few.save(path, "PNG", optimize=True)


def image_options(parser: argparse.ArgumentParser, output: str) -> None:
    """The arguments that all recipes on images have."""
    parser.add_argument("--data", type=Path, help="folder of data sets; PRIVOT_DATA by default")
    parser.add_argument("--dataset", choices=("mnist", "fashion_mnist"), default="mnist")
    parser.add_argument("--paper", action="store_true", help="the papers' settings: for a GPU")
    parser.add_argument("--seed", type=int, default=0, help="of all but the noise, which has none")
    parser.add_argument("--steps", type=int, help="of a fit, instead of the setting's own")
    parser.add_argument("--classifier", type=Path, help="weights to read, or to write if missing")
    parser.add_argument("--inception", type=Path, help="TorchScript file of Inception, for the FID")
    parser.add_argument("--keep", type=Path, help="folder of fits, to go on after an interruption")
    parser.add_argument("-o", "--output", type=Path, default=Path(output))


def recipe_of(name: str, chosen: argparse.Namespace) -> Recipe:
    """The run that the arguments ask for."""
    return Recipe(
        name, chosen.data, chosen.output, chosen.dataset, chosen.paper, chosen.seed,
        chosen.classifier, chosen.steps, chosen.command, chosen.keep,
        chosen.inception,
    )  # fmt: skip


def square(images: Tensor) -> np.ndarray:
    """Rows of pixels (n, side²) as images (n, side, side)."""
    side = round(images.shape[1] ** 0.5)
    return images.reshape(-1, side, side).numpy()
