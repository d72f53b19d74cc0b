"""Demo of images: labeled digits, learned from one report of each person at pure local ε = 10.

Each of 60 000 simulated devices reports image and label together, with the whole ε, as one of thousands
of public directions: a seed and an index, 12 bytes. Gaussian classes are fitted to the reports, and a
classifier that is trained only on their samples recognizes held-out digits. `mechanism="gaussian"` runs
the papers' version (Reshetova, Chen, Özgür 2024): Gaussian noise on each image, reduced by a norm bound
and a low-pass filter, a randomized label, and a generator trained by entropic optimal transport.

The digits are simulated handwriting, or MNIST if a folder of data sets is given.

**Handwriting** (`draw_digits`). The shapes are 1 797 digits that scikit-learn contains: 8 × 8 counts,
from 0 to 16, of the ink in blocks of bitmaps by 43 people (Alpaydin and Kaynak, *Optical recognition of
handwritten digits*, 1998, UCI repository, CC BY 4.0). A fifth of the shapes is held out, and not
transformed. Each simulated person copies a random one of the others, rotated, slanted, stretched and
shifted by random amounts, to an image of 20 × 20 pixels.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from matplotlib.figure import Figure
from scipy import ndimage

from privot.core.errors import PrivotError, require_choice, require_count
from privot.demo.datasets import LabeledImages, load_images
from privot.evaluation.distances import unit_pixels
from privot.evaluation.prediction import directions, infer_labels, learn_labels
from privot.local import FitSettings, fit
from privot.privacy.rounding import at_most, require_epsilon
from privot.randomizer import Randomizer, Release
from privot.report.pages import write_results
from privot.report.panels import ImagePanel, draw_image_panels, reported_images, unit_images
from privot.schema import Schema
from privot.schema.columns.array import interpolate, tensor_array
from privot.training import Progress

DELTA = 1e-5  # of the papers' version
PAPERS = "gaussian"  # mechanism of the papers' version
_MECHANISMS = ("auto", "candidates", PAPERS)
_MAX_LABEL_EPSILON = 4.0  # of the papers' version
_RADIUS = 25 / 28  # norm bound of an image, relative to its side length
_SAMPLES, _ACROSS = 10_000, 10  # training images of a classifier, images in a row
_LIMIT = 2.5  # standard deviations of a candidate's pixels that are shown as black and white
# Handwriting.
SIDE = 20  # pixels along a side of an image
MOST_PEOPLE = 10**7
_FINE = 40  # pixels along a side of an interpolated shape
_HELD_OUT = 0.2  # share of the shapes that is held out
_MARGIN = 1.15  # side of an image relative to that of a shape
# Values up to the first become 0 and from the second on 1, because counting had blurred the strokes.
_PAPER, _INK = 0.25, 0.85
# Standard deviations: rotation in radians, slant, logarithm of stretches, shift relative to the image.
_TURN, _SLANT, _STRETCH, _MOVE = 0.12, 0.15, 0.08, 0.03
_AT_ONCE = 4096  # digits that are transformed at once
COMMANDS = """\
privot schema check schema.toml
privot calibrate schema.toml --epsilon 10 -o randomizer.json
privot privatize pictures/ --randomizer randomizer.json -o release.parquet
privot fit release.parquet -o model/
privot sample model/ --num-rows 1000 -o synthetic/
privot evaluate model/ --against holdout/ -o report.html"""


@dataclass(frozen=True)
class ImageDemoMetrics:
    """Contents of `metrics.json`; accuracies are shares from 0 to 1."""

    epsilon: float
    delta: float
    mechanism: str
    estimator: str
    num_people: int
    accuracy_synthetic: float  # on held-out images, of a classifier trained on samples of the model
    accuracy_real: float  # on held-out images, of a classifier trained on people's images
    accuracy_attack: float  # share of people whose label an attacker infers from their one report
    privatize_seconds: float
    train_seconds: float
    seed: int
    steps: int


def run_image_demo(
    folder: Path,
    *,
    num_people: int = 60_000,
    epsilon: float = 10.0,
    mechanism: str = "auto",
    data: Path | None = None,
    settings: FitSettings | None = None,
    say: Callable[[str], None] = print,
    progress: Progress | None = None,
) -> ImageDemoMetrics:
    """Privatize digits, fit, sample, measure, and write the report to `folder`.

    Arguments:
        folder: Folder of the results.
        num_people: Number of people, at most the number of images in `data`.
        epsilon: Privacy loss of each person's report, image and label together.
        mechanism: `"candidates"` (or `"auto"`, which means the same), or `"gaussian"`, the papers'.
        data: Folder of data sets with MNIST; simulated handwriting by default.
        settings: Settings of the fit.
        say: Callback for messages.
        progress: Callback after the steps of the fit.
    """
    require_choice("mechanism", mechanism, _MECHANISMS)
    require_count("people", num_people, MOST_PEOPLE)
    require_epsilon(epsilon)
    settings = settings or FitSettings()
    images = draw_digits(num_people, settings.seed) if data is None else load_images("mnist", data)
    people, held_out = _tables(images, num_people)
    randomizer = _randomizer(images.x_train.shape[1], epsilon, mechanism)
    say(f"1  {len(people):,} people each hold one handwritten digit, and its label")
    started = time.perf_counter()
    # In the people's order, because the attacker below knows the sender of each report.
    release = randomizer.privatize(people, keep_order=True)
    privatized = time.perf_counter()
    say(f"2  each randomized both on their device: {randomizer.guarantee}")
    say("3  the curator, who sees only reports, learns what digits look like")
    model = fit(release, settings, progress=progress)
    learned = time.perf_counter()
    say("4  a classifier learns from samples of the model, and reads digits that nobody reported")
    synthetic = model.sample(_SAMPLES, seed=settings.seed)
    metrics = ImageDemoMetrics(
        epsilon=release.guarantee.epsilon,
        delta=randomizer.delta,
        mechanism=PAPERS if randomizer.candidates is None else "candidates",
        estimator=model.made_with["estimator"],
        num_people=len(people),
        accuracy_synthetic=accuracy(randomizer.schema, synthetic, held_out),
        accuracy_real=accuracy(randomizer.schema, people, held_out),
        accuracy_attack=round(infer_labels(release, people), 4),
        privatize_seconds=round(privatized - started, 2),
        train_seconds=round(learned - privatized, 2),
        seed=settings.seed,
        steps=model.made_with["steps"],
    )
    picture = ("digits.png", _draw(people, release, synthetic, metrics))
    noise = [column["in_words"] for column in randomizer.expected_noise()]
    fields = {"noise": noise, "commands": COMMANDS, "mnist": data is not None}
    write_results(folder, "image_demo.html", picture, model, metrics, fields)
    return metrics


def accuracy(schema: Schema, training: pa.Table, held_out: pa.Table) -> float:
    """Return the held-out accuracy of logistic regression on at most 10 000 images of `training`."""
    training = training.take(np.random.default_rng(0).permutation(len(training))[:_SAMPLES])
    x, held_out_x = (unit_pixels(schema, "image", table) for table in (training, held_out))
    labels, truth = (np.array(table["label"].to_pylist()) for table in (training, held_out))
    return round(float((learn_labels(x, labels, held_out_x) == truth).mean()), 4)


def _tables(images: LabeledImages, num_people: int) -> tuple[pa.Table, pa.Table]:
    """Return the people's table, whose first rows are ten of each digit, and the held-out one."""
    x, y = images.x_train[:num_people], images.y_train[:num_people]
    shown = np.concatenate([np.flatnonzero(y == label)[:_ACROSS] for label in range(10)])
    order = np.concatenate([shown, np.setdiff1d(np.arange(len(y)), shown)])

    def table(x: np.ndarray, y: np.ndarray) -> pa.Table:
        return pa.table({"image": tensor_array(x), "label": [str(label) for label in y]})

    return table(x[order], y[order]), table(images.x_test, images.y_test)


def _randomizer(side: int, epsilon: float, mechanism: str) -> Randomizer:
    """Calibrate the randomizer of digits of `side` × `side` pixels and their labels."""
    image: dict[str, Any] = {"kind": "array", "shape": [side, side], "bounds": [0, 255]}
    label = {"kind": "categorical", "categories": [str(label) for label in range(10)]}
    options: dict[str, Any] = {"mechanism": mechanism}
    if mechanism == PAPERS:
        image |= {"radius": _RADIUS * side, "center": "lower"}
        image |= {"transform": "dct", "low_pass": side // 2}
        shares = {"label": min(_MAX_LABEL_EPSILON, epsilon / 2)}
        options |= {"delta": DELTA, "shares": shares}
    schema = Schema.from_dict({"unit": "person", "columns": {"image": image, "label": label}})
    return Randomizer.calibrate(schema, epsilon, **options)


def _draw(
    people: pa.Table, release: Release, synthetic: pa.Table, metrics: ImageDemoMetrics
) -> Figure:
    """Draw images of people, of their reports and of the model: a row of ten for each digit."""
    column, most = release.schema.images["image"], _ACROSS**2
    received, limit = _report_images(release, most)
    real = unit_images(column, "image", people, most)
    learned = unit_images(column, "image", synthetic, len(synthetic))
    codes = release.schema.coded["label"].encode_codes("label", synthetic)
    sheet = np.concatenate([_row(learned[codes == code]) for code in range(10)])
    named = f"an attacker names {metrics.accuracy_attack:.0%} of the labels"
    caption = f"mean and samples; a classifier of them: {metrics.accuracy_synthetic:.0%}"
    group = f"{metrics.mechanism.capitalize()}, ε = {at_most(metrics.epsilon)}"
    panels = [
        ImagePanel("What people hold", "a digit and its label", real),
        ImagePanel("What one report says", named, received, limit, group=group),
        ImagePanel("What all reports teach", caption, sheet, group=group),
    ]
    return draw_image_panels(panels, across=_ACROSS)


def _row(images: np.ndarray) -> np.ndarray:
    """Return the mean of images, then nine of them (10, h, w); black if there are fewer."""
    row = np.full((_ACROSS, *images.shape[1:]), -1.0)
    if len(images):
        shown = images[: _ACROSS - 1]
        row[0], row[1 : 1 + len(shown)] = images.mean(axis=0), shown
    return row


def _report_images(release: Release, most: int) -> tuple[np.ndarray, float]:
    """Return images (n, h, w) of the first reports in unit pixels, and a limit for showing them.

    A candidate is shown as the image in the reported direction, for the label with the largest
    component, scaled to a common contrast.
    """
    report = release.randomizer.candidates
    if report is None:
        return reported_images(release, "image", most)
    labels, points = directions(release, report, slice(0, most))
    chosen = points[np.arange(len(points)), labels.argmax(axis=1)]
    coordinates = report.coordinates
    x, _ = coordinates.decode(chosen)
    pixels = coordinates.cosines.to_pixels(x, np.zeros((len(x), coordinates.channels)))
    pixels /= pixels.std(axis=1, keepdims=True)
    return pixels.reshape(-1, *release.schema.images["image"].shape), _LIMIT


def draw_digits(num_people: int, seed: int = 0) -> LabeledImages:
    """Draw digits of simulated people, and held-out digits, which are the same for all seeds.

    Raises:
        PrivotError: if scikit-learn is missing, or the number of people is out of range.

    Examples:
        >>> images = draw_digits(100)
        >>> images.x_train.shape, images.x_test.shape
        ((100, 20, 20), (359, 20, 20))
    """
    num_people = require_count("people", num_people, MOST_PEOPLE)
    shapes, labels = _shapes()
    order = np.random.default_rng(0).permutation(len(shapes))
    held_out, copied = np.split(order, [int(_HELD_OUT * len(shapes))])
    rng = np.random.default_rng(seed)
    chosen = rng.choice(copied, num_people)
    written = np.empty((num_people, SIDE, SIDE), np.uint8)
    for start in range(0, num_people, _AT_ONCE):
        chunk = chosen[start : start + _AT_ONCE]
        maps = _draw_maps(len(chunk), rng)
        written[start : start + _AT_ONCE] = _transform(shapes[chunk], maps)
    only_margin = np.broadcast_to(_MARGIN * np.eye(2, 3), (len(held_out), 2, 3))
    test = _transform(shapes[held_out], only_margin)
    return LabeledImages("digits", written, labels[chosen], test, labels[held_out])


def _shapes() -> tuple[np.ndarray, np.ndarray]:
    """Return the shapes of all digits (n, 40, 40), interpolated, in [0, 1], and their labels (n,)."""
    try:
        loaded = import_module("sklearn.datasets").load_digits()
    except ModuleNotFoundError:
        raise PrivotError(
            "the digits come with scikit-learn, which is not installed: pip install 'privot[evaluate]'"
        ) from None
    coarse = np.asarray(loaded.images, np.float32) / 16
    factor = _FINE / coarse.shape[1]
    # Cubic splines are linear and separable, so the interpolation is two matrix products.
    units = np.eye(coarse.shape[1], dtype=np.float32)
    along = ndimage.zoom(units, (1, factor), order=3, mode="grid-constant", grid_mode=True)
    fine = along.T @ coarse @ along
    return ((fine - _PAPER) / (_INK - _PAPER)).clip(0, 1), loaded.target.astype(np.uint8)


def _draw_maps(count: int, rng: np.random.Generator) -> np.ndarray:
    """Draw affine maps (n, 2, 3) from positions (row, column) in an image to a shape, both [−1, 1]².

    Each is the matrix, rotation times slant times stretches, and the shift as the last column.
    """
    turn, slant, tall, wide, down, right = rng.standard_normal((6, count))
    cosine, sine = np.cos(_TURN * turn), np.sin(_TURN * turn)
    turned = np.moveaxis(np.array([[cosine, -sine], [sine, cosine]]), 2, 0)
    one, zero = np.ones(count), np.zeros(count)
    slanted = np.moveaxis(np.array([[one, zero], [_SLANT * slant, one]]), 2, 0)
    stretches = _MARGIN * np.exp(_STRETCH * np.stack([tall, wide], axis=1))
    moves = 2 * _MOVE * np.stack([down, right], axis=1)
    return np.concatenate([turned @ slanted * stretches[:, None], moves[:, :, None]], axis=2)


def _transform(shapes: np.ndarray, maps: np.ndarray) -> np.ndarray:
    """Transform each shape (n, 40, 40) by its map (n, 2, 3) to gray bytes (n, side, side)."""
    centers = (np.arange(SIDE) + 0.5) * 2 / SIDE - 1  # of the image's pixels, in [−1, 1]
    image = np.stack([*np.meshgrid(centers, centers, indexing="ij"), np.ones((SIDE, SIDE))])
    # Fractional indices (n, 2, side²), row and column, of the image's pixels in the shape.
    indices = (maps @ image.reshape(3, -1) + 1) * _FINE / 2 - 0.5
    # Zeros surround the shape; this padding moves pixel i to i + 1.
    padded = np.pad(shapes, ((0, 0), (1, 1), (1, 1)))
    gray = interpolate(padded, indices[:, 0] + 1, indices[:, 1] + 1)
    return np.rint(255 * gray).astype(np.uint8).reshape(len(shapes), SIDE, SIDE)
