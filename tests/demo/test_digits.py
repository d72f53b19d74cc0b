"""The demo of images: what devices draw, what the attack finds, and the report."""

import dataclasses
import json

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="scikit-learn is not installed")

from privot.demo.digits import (
    DELTA,
    LABEL_EPSILON,
    SCHEMA_TOML,
    as_devices_draw,
    attack_reports,
    load_digit_images,
    run_image_demo,
)
from privot.local import LocalModel
from privot.release import state_noise
from privot.schema import Schema
from privot.schema.columns.array import tensor_values

SCHEMA = Schema.from_toml(SCHEMA_TOML)


def test_devices_draw_in_the_ball_and_change_no_label():
    digits = load_digit_images().slice(0, 200)
    drawn = as_devices_draw(SCHEMA, digits)
    pixels = SCHEMA.images["image"].to_unit_pixels(tensor_values(drawn.column("image")))
    lengths = np.linalg.norm(pixels.reshape(200, -1) + 1, axis=1)
    assert lengths.max() <= 6.5 + 1e-4
    assert drawn.column("label").equals(digits.column("label"))


def test_an_attacker_reads_what_the_noise_leaves():
    """Nearly every digit without noise; under ten times the image's length, few more than a tenth."""
    drawn = as_devices_draw(SCHEMA, load_digit_images())
    read = {}
    for stddev in (0.05, 60.0):
        randomizer = state_noise(SCHEMA, stddev, DELTA, shares={"label": LABEL_EPSILON})
        read[stddev] = attack_reports(
            randomizer.privatize(drawn, keep_order=True), drawn, 0, copies=1
        )
    assert read[0.05] > 0.8
    # 900 guesses at .1 to .11 have a deviation of .01.
    assert read[60.0] < 0.2


@pytest.mark.slow
def test_the_demo_recovers_digits_and_says_its_epsilon(tmp_path):
    """Accuracy .88 and distance .67 and .75 in two runs; the reports' attack .48."""
    metrics = run_image_demo(tmp_path, say=lambda line: None)
    assert metrics.accuracy_synthetic > 0.75
    assert metrics.distance < 1.1
    assert metrics.accuracy_attack < 0.6
    assert json.loads((tmp_path / "metrics.json").read_text()) == dataclasses.asdict(metrics)
    page = (tmp_path / "report.html").read_text()
    assert str(LocalModel.load(tmp_path / "model").guarantee) in page
    assert "http://" not in page
    assert "https://" not in page
    assert (tmp_path / "digits.png").read_bytes().startswith(b"\x89PNG")
