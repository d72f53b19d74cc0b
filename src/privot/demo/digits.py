"""The demo of images: labeled digits of 8 × 8 pixels, learned from reports that nobody can read.

Each of 1 797 people's devices draws every digit with the same amount of ink (it pulls the image to a
ball about the blank sheet), adds Gaussian noise to each pixel, and randomizes the label. So few reports
teach little, and 64 pixels are many numbers to hide: the noise is moderate, and ε is large. It is
printed as it is. What 1 797 noisy images cannot teach, a long fit takes from their noise: 6 000 steps,
the default for images, draw speckles (sliced W₂ to the truth 1.28; its halves .27), 600 digits (.67).

The digits come with scikit-learn, without a download: bitmaps of 32 × 32 by 43 people, of which blocks
of 4 × 4 were counted, so that a pixel is a number from 0 to 16. They are the test set of Alpaydin and
Kaynak's *Optical recognition of handwritten digits* (1998), of the UCI repository, CC BY 4.0.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from matplotlib.figure import Figure

from privot.errors import PrivotError
from privot.evaluation.distances import score_images
from privot.evaluation.prediction import learn_labels, predict_label
from privot.local import FitSettings, fit
from privot.release import Release, state_noise
from privot.report.pages import write_results
from privot.report.panels import ImagePanel, draw_image_panels, reported_images, unit_images
from privot.schema import Schema
from privot.schema.columns.array import tensor_array
from privot.training import Progress

SCHEMA_TOML = """\
unit = "person"

[columns.image]
kind = "array"
shape = [8, 8]
bounds = [0, 16]
radius = 6.5
center = "lower"

[columns.label]
kind = "categorical"
categories = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]
"""
NOISE, DELTA, LABEL_EPSILON = 1.5, 1e-4, 4.0
_STEPS, _LATENT_DIM = 600, 8
_SAMPLES = 10_000
_ACROSS = 10
COMMANDS = """\
privot schema check schema.toml
privot calibrate schema.toml --epsilon 40 --delta 1e-5 --mechanism gaussian --share label=4
privot privatize pictures/ --randomizer randomizer.json
privot fit release.parquet -o model/
privot sample model/ --num-rows 1000 -o synthetic/
privot evaluate model/ --against holdout/ -o report.html"""


@dataclass(frozen=True)
class ImageDemoMetrics:
    """What `metrics.json` holds. Distances are sliced W₂ of pixels in [−1, 1], times √64."""

    epsilon: float
    delta: float
    noise: float
    num_people: int
    accuracy_synthetic: float
    accuracy_real: float
    accuracy_attack: float
    distance: float
    floor: float
    train_seconds: float
    seed: int
    steps: int


def run_image_demo(
    folder: Path,
    *,
    settings: FitSettings | None = None,
    say: Callable[[str], None] = print,
    progress: Progress | None = None,
) -> ImageDemoMetrics:
    """Privatize the digits, fit, sample, measure, and write the report to `folder`."""
    settings = settings or FitSettings()
    settings = replace(
        settings,
        steps=settings.steps or _STEPS,
        latent_dim=settings.latent_dim or _LATENT_DIM,
    )
    schema = Schema.from_toml(SCHEMA_TOML)
    digits = as_devices_draw(schema, load_digit_images())
    say(f"1  {len(digits):,} people each hold one handwritten digit of 8 × 8 pixels, and its label")
    randomizer = state_noise(schema, NOISE, DELTA, shares={"label": LABEL_EPSILON})
    # In order, as the attacker below is told whose each report is.
    release = randomizer.privatize(digits, keep_order=True)
    say(f"2  each noised both on their device: {randomizer.guarantee}")
    steps = settings.schedule(images=True, labels=True)[0]
    say(f"3  the curator, who sees only noise, trains a generator ({steps:,} steps)")
    started = time.perf_counter()
    model = fit(release, settings, progress=progress)
    seconds = time.perf_counter() - started
    synthetic = model.sample(_SAMPLES, seed=settings.seed)
    say("4  samples of the model are compared with the truth, as only a demonstration can")
    distance = score_images(schema, "image", synthetic, digits, len(digits) // 2, settings.seed)
    label = predict_label(schema, synthetic, digits, "label", settings.seed)
    metrics = ImageDemoMetrics(
        epsilon=release.guarantee.epsilon,
        delta=DELTA,
        noise=NOISE,
        num_people=len(digits),
        accuracy_synthetic=round(label.synthetic, 4),
        accuracy_real=round(label.real, 4),
        accuracy_attack=round(attack_reports(release, digits, settings.seed), 4),
        distance=round(distance.distance, 4),
        floor=round(distance.floor, 4),
        train_seconds=round(seconds, 2),
        seed=settings.seed,
        steps=steps,
    )
    diameter = schema.images["image"].domain.diameter(2)
    fields = {"diameter": diameter, "keep": LABEL_EPSILON, "commands": COMMANDS}
    picture = ("digits.png", _draw(digits, release, synthetic))
    write_results(folder, "image_demo.html", picture, model, metrics, fields)
    return metrics


def load_digit_images() -> pa.Table:
    """The digits as a table: `image`, tensors of 8 × 8 numbers from 0 to 16, and `label`."""
    try:
        loaded = importlib.import_module("sklearn.datasets").load_digits()
    except ModuleNotFoundError:
        raise PrivotError(
            "the digits come with scikit-learn, which is not installed: pip install 'privot[evaluate]'"
        ) from None
    labels = pa.array([str(label) for label in loaded.target])
    images = np.asarray(loaded.images, np.float32)
    return pa.table({"image": tensor_array(images), "label": labels})


def attack_reports(release: Release, digits: pa.Table, seed: int, copies: int = 10) -> float:
    """Share of people whose digit an attacker names from their noisy image.

    The attacker knows the clean digits and labels of half of the people and the noise, and trains
    logistic regression on noisy copies of them: what the noise leaves of one picture, not of one label.
    """
    points, _ = release.reports("image")
    clean = release.schema.images["image"].encode_points("image", digits)
    labels = release.schema.coded["label"].encode_codes("label", digits)
    rng = np.random.default_rng(seed)
    known = rng.permutation(len(labels)) < len(labels) // 2
    noise = NOISE * rng.standard_normal((copies, *clean[known].shape))
    x = (clean[known] + noise).reshape(-1, clean.shape[1])
    named = learn_labels(x, np.tile(labels[known], copies), points[~known])
    return float((named == labels[~known]).mean())


def as_devices_draw(schema: Schema, digits: pa.Table) -> pa.Table:
    """The digits pulled into the schema's ball: what is learned is the law of these."""
    column = schema.images["image"]
    pixels = column.domain.decode(column.encode_points("image", digits))
    return digits.set_column(0, "image", column.decode_pixels("image", pixels)["image"])


def _draw(digits: pa.Table, release: Release, synthetic: pa.Table) -> Figure:
    """What people hold, what leaves their devices, what was learned: ten by ten digits each."""
    column, most = release.schema.images["image"], _ACROSS**2
    received, limit = reported_images(release, "image", most)
    held = unit_images(column, "image", digits, most)
    learned = unit_images(column, "image", by_label(synthetic, "label"), most)
    panels = [
        ImagePanel("Private", "what people hold: nobody sees this", held),
        ImagePanel("What leaves the devices", "the same, noised one by one", received, limit),
        ImagePanel("What was learned", "from the reports alone: a row for each label", learned),
    ]
    return draw_image_panels(panels, across=_ACROSS)


def by_label(table: pa.Table, name: str) -> pa.Table:
    """The first ten rows of each label, label by label; fewer where a label has fewer.

    Examples:
        >>> table = pa.table({"label": ["b", "a", "b"], "row": [0, 1, 2]})
        >>> by_label(table, "label").column("row").to_pylist()
        [1, 0, 2]
    """
    labels = np.array(table.column(name).to_pylist())
    rows = [np.flatnonzero(labels == label)[:_ACROSS] for label in np.unique(labels)]
    return table.take(np.concatenate(rows))
