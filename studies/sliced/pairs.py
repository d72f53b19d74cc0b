r"""Pairs of a public, labeled source and a private target.

- `mnist_usps`, `usps_mnist`: 16 × 16 grey values in [0, 1]; MNIST is resized from 28 × 28 by area-aware
  bilinear interpolation, nothing is cropped or centered.
- `fonts_mnist`: from synthetic to real, as VisDA is: digits in 22 fonts that come with matplotlib, each
  centered in its box, drawn to MNIST's public format, against handwriting. 60 000 private records.
- `mnist_usps_features`: features that somebody brings: 128 of a network trained on MNIST alone, of both
  domains.
- `amazon_dslr`, … (Office-Caltech10 in place of Office-31): 1024 features after a rectifier, every
  record divided by its norm and multiplied by 10 (a function of the record alone). These domains have no
  splits: a public random half (seed 0) of the target is private, the other half tests.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import matplotlib
import numpy as np
import torch
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath

from privot.central.classifiers.adaptation import Adaptation
from privot.central.classifiers.adapted import AdaptationSettings, as_records
from privot.core.errors import PrivotError
from privot.training.loop import train

SIDE = 16
DIGITS = ("mnist", "usps")
OFFICE = ("amazon", "dslr", "webcam")
_OFFICE_NORM = 10.0
_FEATURES = 128
_FONTS = (
    *(f"DejaVu{kind}" for kind in (
        "Sans", "Sans-Bold", "Sans-Oblique", "Sans-BoldOblique", "SansMono", "SansMono-Bold",
        "SansMono-Oblique", "SansMono-BoldOblique", "Serif", "Serif-Bold", "Serif-Italic",
        "Serif-BoldItalic",
    )),
    *(f"STIXGeneral{kind}" for kind in ("", "Bol", "Italic", "BolIta")),
    *("cmr10", "cmb10", "cmss10", "cmtt10", "cmti10", "cmmi10"),
)  # fmt: skip
_FINE, _MARGIN = 112, 16  # pixels of a drawn digit's side, and of its margin: MNIST's, four times
_COPIES = 40  # of each font's digit in the source


@dataclass(frozen=True, eq=False)
class Pair:
    """A public source, a private target and its test split."""

    name: str
    source_x: np.ndarray
    source_y: np.ndarray
    target_x: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray


def load_pair(folder: Path, name: str) -> Pair:
    """A pair of the module, from `mnist.npz`, `usps.npz` and `office_caltech10_features.npz`."""
    source, _, target = name.partition("_")
    if target == "usps_features":
        return features(load_pair(folder, "mnist_usps"), name)
    if target in DIGITS and source in (*DIGITS, "fonts") and source != target:
        public = fonts() if source == "fonts" else _digits(folder, source, "train")
        x, _ = _digits(folder, target, "train")
        return Pair(name, *public, x, *_digits(folder, target, "test"))
    if source == target or source not in OFFICE or target not in OFFICE:
        raise PrivotError(
            f"pair {name!r}: give mnist_usps, usps_mnist, fonts_mnist, mnist_usps_features, or two "
            f"of {OFFICE}"
        )
    with np.load(folder / "office_caltech10_features.npz", allow_pickle=False) as file:
        seen = {domain: file[f"{domain}_googlenet1024"] for domain in (source, target)}
        y = {domain: file[f"{domain}_y"].astype(np.int64) for domain in (source, target)}
    unit = {k: _OFFICE_NORM * v / np.linalg.norm(v, axis=1, keepdims=True) for k, v in seen.items()}
    order = np.random.default_rng(0).permutation(len(unit[target]))
    private, test = np.array_split(order, 2)
    tests = unit[target][test], y[target][test]
    return Pair(name, unit[source], y[source], unit[target][private], *tests)


def _digits(folder: Path, name: str, part: str) -> tuple[np.ndarray, np.ndarray]:
    with np.load(folder / f"{name}.npz", allow_pickle=False) as file:
        return images(file[f"x_{part}"]), file[f"y_{part}"].astype(np.int64)


def images(pixels: np.ndarray) -> np.ndarray:
    """Grey values (n, 16, 16) in [0, 1]."""
    x = torch.from_numpy(pixels).float()[:, None] / 255
    if x.shape[-1] != SIDE:
        x = torch.nn.functional.interpolate(
            x, (SIDE, SIDE), mode="bilinear", antialias=True, align_corners=False
        )
    return np.asarray(x[:, 0].clamp(0, 1).numpy())


def fonts() -> tuple[np.ndarray, np.ndarray]:
    """Digits (8 800, 16, 16) in 22 fonts, and their classes: each forty times, as often as the next."""
    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    drawn = [_drawn(folder / f"{font}.ttf", digit) for font in _FONTS for digit in range(10)]
    x = images(np.stack(drawn))
    return np.repeat(x, _COPIES, axis=0), np.tile(np.arange(10), len(_FONTS)).repeat(_COPIES)


def _drawn(font: Path, digit: int) -> np.ndarray:
    """A digit (112, 112) of 0 and 255: its longer side fills the box, four fifths of the image."""
    path = TextPath((0, 0), str(digit), size=100, prop=FontProperties(fname=str(font)))
    low, high = path.vertices.min(axis=0), path.vertices.max(axis=0)
    scale = (_FINE - 2 * _MARGIN) / (high - low).max()
    places = (np.arange(_FINE) + 0.5 - _FINE / 2) / scale
    right, down = np.meshgrid(places, -places)
    points = np.stack([right.ravel(), down.ravel()], axis=1) + (low + high) / 2
    # Inside a glyph with holes: an odd number of its outlines lies around.
    inside = np.zeros(len(points), dtype=bool)
    for outline in path.to_polygons():
        inside ^= matplotlib.path.Path(outline).contains_points(points)
    return (255 * inside.reshape(_FINE, _FINE)).astype(np.uint8)


def features(pair: Pair, name: str) -> Pair:
    """A pair of images as features of a network that was trained on its source."""
    settings = AdaptationSettings(epsilon=1.0, unit="image", feature_dim=_FEATURES)
    course = Adaptation(pair.source_x, pair.source_y, settings)
    train(course.classifier, course.classify, settings.training(settings.training_steps, 0))

    @torch.no_grad()
    def of(x: np.ndarray) -> np.ndarray:
        parts = [course.classifier.features(part) for part in as_records("x", x).split(2000)]
        return np.asarray(torch.cat(parts).numpy())

    found = {part: of(getattr(pair, part)) for part in ("source_x", "target_x", "test_x")}
    return replace(pair, name=name, **found)
