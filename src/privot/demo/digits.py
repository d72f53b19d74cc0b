"""The demo of images: labeled digits of 8 × 8 pixels, learned from reports that nobody can read.

Each of 1 797 people's devices draws every digit with the same amount of ink (it pulls the image to a
ball about the blank sheet), adds Gaussian noise to each pixel, and randomizes the label. So few reports
teach little, and 64 pixels are many numbers to hide: the noise is moderate, and ε is large. It is
printed as it is. What 1 797 noisy images cannot teach, a long fit takes from their noise: 6 000 steps,
the default for images, draw speckles (sliced W₂ to the truth 1.28; its halves .27), 600 digits (.67).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from privot.datasets.digits import load_digit_images
from privot.demo.digits_page import ImageDemoMetrics, write_image_demo_report
from privot.evaluation.image_scores import learn_labels, predict_label, score_images
from privot.files import replacing_folder
from privot.local import FitSettings, LocalModel, fit
from privot.release import Release, state_noise
from privot.schema import Schema
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


@dataclass(frozen=True)
class ImageDemo:
    """What the demo made on its way; `digits` are as devices draw them, before the noise."""

    digits: pa.Table
    release: Release
    model: LocalModel
    metrics: ImageDemoMetrics


def run_image_demo(
    folder: Path | None,
    *,
    settings: FitSettings | None = None,
    say: Callable[[str], None] = print,
    progress: Progress | None = None,
) -> ImageDemo:
    """Privatize the digits, fit, sample, measure, and write the report to `folder` if given."""
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
    attacked = attack_reports(release, digits, settings.seed)
    metrics = ImageDemoMetrics(
        epsilon=release.guarantee.epsilon,
        delta=DELTA,
        noise=NOISE,
        num_people=len(digits),
        accuracy_synthetic=round(label.synthetic, 4),
        accuracy_real=round(label.real, 4),
        accuracy_attack=round(attacked, 4),
        distance=round(distance.distance, 4),
        floor=round(distance.floor, 4),
        train_seconds=round(seconds, 2),
        seed=settings.seed,
        steps=steps,
    )
    if folder is not None:
        with replacing_folder(folder) as draft:
            write_image_demo_report(draft, model, metrics, digits, release, synthetic)
            numbers = json.dumps(asdict(metrics), indent=2)
            (draft / "metrics.json").write_text(numbers + "\n", encoding="utf-8")
            model.save(draft / "model")
    return ImageDemo(digits, release, model, metrics)


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
