r"""Images of a model against real ones, without a judge: sliced distance, and what a classifier learns.

**Distance.** Sliced W₂ between samples of pixels in [−1, 1], times $\sqrt N$, so that two images alone
are as far apart as they are in ℓ2; its floor is the distance of two halves of the real images. Exact
W₂ in hundreds of dimensions has a floor that hides all else.

**Train on synthetic, test on real.** Multinomial logistic regression on pixels learns a label from
synthetic records, and for comparison from half of the real ones, tested on the other half, both ways
round. Needs scikit-learn.

Every result depends on real records: **not private**.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import torch

from privot.errors import PrivotError
from privot.schema import Schema
from privot.transport import sliced_wasserstein
from privot.transport.line.sliced import random_directions

try:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
except ModuleNotFoundError:  # an optional extra; asking for an accuracy says so
    ConvergenceWarning = LogisticRegression = None

_PROJECTIONS = 500
_FOLDS = 2
_MOST_TRAINED = 10_000
_ITERATIONS = 100


@dataclass(frozen=True)
class ImageScore:
    """One column of images: sliced W₂ to real ones, and between halves of these.

    Arguments:
        column: Name in the schema.
        distance: Synthetic against real.
        floor: Real against real, of as many images.
    """

    column: str
    distance: float
    floor: float


@dataclass(frozen=True)
class LabelScore:
    """Accuracy of logistic regression on real images, learned from synthetic and from real ones."""

    target: str
    synthetic: float
    real: float
    num_synthetic: int
    num_real: int


def score_images(
    schema: Schema, name: str, synthetic: pa.Table, real: pa.Table, num_images: int, seed: int = 0
) -> ImageScore:
    """Sliced distance of images drawn from two tables, at most `num_images` of each; **not private**."""
    rng = np.random.default_rng(seed)
    size = min(num_images, synthetic.num_rows, real.num_rows // 2)
    chosen = rng.permutation(real.num_rows)[: 2 * size]
    learned = rng.permutation(synthetic.num_rows)[:size]
    truth = _pixels(schema, name, real.take(chosen))
    drawn = _pixels(schema, name, synthetic.take(learned))
    directions = random_directions(
        truth.shape[1], _PROJECTIONS, torch.Generator().manual_seed(seed)
    )
    first, second, drawn_points = (
        torch.as_tensor(points) for points in (truth[:size], truth[size:], drawn)
    )
    root = math.sqrt(truth.shape[1])
    return ImageScore(
        name,
        root * float(sliced_wasserstein(drawn_points, first, directions)),
        root * float(sliced_wasserstein(second, first, directions)),
    )


def label_column(schema: Schema) -> str | None:
    """The one category that images have, if there is exactly one and scikit-learn is installed."""
    named = [n for n, c in schema.coded.items() if c.alphabet.centers is None]
    return named[0] if LogisticRegression and schema.images and len(named) == 1 else None


def predict_label(
    schema: Schema, synthetic: pa.Table, real: pa.Table, target: str, seed: int = 0
) -> LabelScore:
    """Accuracy of a classifier of images, trained on either table, tested on real ones; **not private**.

    Arguments:
        schema: With one column of images or more.
        synthetic: Records of a model; at most 10 000 are learned from.
        real: Real records.
        target: A categorical column.
        seed: Of the folds.

    Raises:
        PrivotError: without scikit-learn, or if the target is no category.
    """
    if LogisticRegression is None:
        raise PrivotError(
            "training classifiers needs scikit-learn: pip install 'privot[evaluate]', or name no target"
        )
    column = schema.coded.get(target)
    if column is None or column.alphabet.centers is not None:
        raise PrivotError(f"target {target!r} is no categorical column: name one")
    if real.num_rows < 2 * _FOLDS:
        raise PrivotError(f"{real.num_rows} real records are too few: give at least {2 * _FOLDS}")
    synthetic = synthetic.slice(0, _MOST_TRAINED)
    x, y = (
        np.concatenate([_pixels(schema, name, table) for name in schema.images], axis=1)
        for table in (synthetic, real)
    )
    labels, truth = (column.encode_codes(target, table) for table in (synthetic, real))
    fold = np.random.default_rng(seed).permutation(len(y)) % _FOLDS
    right = np.zeros(len(y), bool)
    for held_out in range(_FOLDS):
        test = fold == held_out
        right[test] = learn_labels(y[~test], truth[~test], y[test]) == truth[test]
    told = float((learn_labels(x, labels, y) == truth).mean())
    return LabelScore(target, told, float(right.mean()), len(x), len(y))


def learn_labels(x: np.ndarray, labels: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Labels that logistic regression, learned from points x (n, d), gives to other points."""
    if len(np.unique(labels)) < 2:
        return np.full(len(at), labels[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LogisticRegression(max_iter=_ITERATIONS).fit(x, labels)
    predicted: np.ndarray = model.predict(at)
    return predicted


def _pixels(schema: Schema, name: str, table: pa.Table) -> np.ndarray:
    column = schema.images[name]
    return column.to_unit_pixels(column.read_images(name, table)).clip(-1, 1)
