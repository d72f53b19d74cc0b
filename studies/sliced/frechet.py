"""How far the images of saved slice models are from real ones, on a classifier's features.

    python -m studies sliced.frechet model/ --data mnist.npz --classifier mnist.safetensors

One JSON a model: the numbers of `studies.common.image_judge` for 10 000 draws against the test
images, and those of 10 000 training images as floor. The classifier is trained on the real training
images where its file is not there yet. Nothing here is private but the models.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from privot.central import CentralModel
from privot.schema.columns.array import tensor_values
from studies.common.image_features import load_classifier, save_classifier, train_classifier
from studies.common.image_judge import ImageJudge
from studies.common.rows import write_row
from studies.sliced.images import load_split

NUM_JUDGED = 10_000


def judge_models(models: Sequence[Path], data: Path, classifier: Path) -> list[dict[str, Any]]:
    """A row for each saved model of images like those of `data`."""
    train_x, train_y = load_split(data, "train")
    clean = _signed(train_x)
    if not classifier.exists():
        save_classifier(train_classifier(clean, train_y.numpy()), classifier)
    judge = ImageJudge(load_classifier(classifier), _signed(load_split(data, "test")[0]))
    floor = judge.score(clean[:NUM_JUDGED]).to_dict()
    rows = []
    for path in models:
        model = CentralModel.load(path)
        images = tensor_values(model.sample(NUM_JUDGED, seed=0)["image"])
        rows.append(
            {
                "model": path.name,
                "data": data.stem,
                "epsilon": model.guarantee.epsilon,
                "releases": model.releases,
                "seed": model.made_with["seed"],
                "floor": floor,
                **judge.score(_signed(torch.from_numpy(images))).to_dict(),
            }
        )
    return rows


def _signed(images: torch.Tensor) -> torch.Tensor:
    """Images in [0, 1] as rows in [−1, 1]."""
    return images.reshape(len(images), -1).float() * 2 - 1


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--classifier", type=Path, required=True)
    parser.add_argument("-o", "--output", type=Path, default=Path("."))


def run(chosen: argparse.Namespace) -> None:
    """One row a model."""
    for row in judge_models(chosen.models, chosen.data, chosen.classifier):
        write_row(chosen.output / f"frechet_{row['model']}.json", row)
        print(row)
