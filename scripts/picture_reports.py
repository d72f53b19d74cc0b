"""Write the pictures of the report and the check in the docs, at 1200 and 400 pixels.

    python scripts/picture_reports.py -o docs/results/tables

A hotel's guests are made up, report at ε = 6, and a model is learned, checked and compared with other
guests. Chromium draws both pages. Pictures end after the cards, or after three screens of a phone.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from pathlib import Path

import numpy as np

import privot
from privot.report import write_check_report

SCHEMA = """
unit = "guest"
[columns.room]
kind = "categorical"
categories = ["basic", "sea view", "suite"]
[columns.pets]
kind = "boolean"
[columns.age]
kind = "numeric"
integer = true
bounds = [18, 100]
[columns.nights]
kind = "numeric"
integer = true
bounds = [1, 30]
[columns.cost]
kind = "numeric"
bounds = [0, 20000]
typical = [120, 900, 5000]
"""
# Heights in pixels, by page and width.
_SIZES = {"check": {1200: 1660, 400: 1900}, "report": {1200: 1850, 400: 1900}}


def guests(num: int, seed: int) -> dict[str, np.ndarray]:
    """Draw guests: the old stay longer, and suites cost more."""
    rng = np.random.default_rng(seed)
    age = np.clip(rng.normal(46, 15, num), 18, 99).astype(int)
    nights = np.clip(rng.gamma(2, 0.04 * age), 1, 30).astype(int)
    room = np.digitize(rng.normal(0, 1, num) + nights / 8 - 1, [0, 1.2])
    cost = nights * np.array([90, 140, 310])[room] * np.exp(0.2 * rng.standard_normal(num))
    return {
        "room": np.array(["basic", "sea view", "suite"])[room],
        "pets": rng.random(num) < 0.1 + 0.1 * (room == 0),
        "age": age,
        "nights": nights,
        "cost": np.minimum(cost, 20_000),
    }


def main() -> None:
    """Make both pages and draw each at both widths."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--browser", default="chromium")
    chosen = parser.parse_args()
    schema = privot.Schema.from_toml(SCHEMA)
    release = privot.Randomizer.calibrate(schema, 6.0).privatize(guests(50_000, 0))
    model = privot.fit(release, seed=0)
    checked = privot.check(model, release)
    evaluation = privot.evaluate(checked.recorded(model), guests(20_000, 1), num_rows=20_000)
    with tempfile.TemporaryDirectory() as folder:
        pages = {name: Path(folder) / f"{name}.html" for name in ("check", "report")}
        write_check_report(checked, model, pages["check"])
        privot.write_report(evaluation, pages["report"])
        for name, page in pages.items():
            for width, height in _SIZES[name].items():
                # Headless windows are at least 500 wide, so a narrow page is a frame of a wider one.
                frame = Path(folder) / f"{name}_{width}.html"
                style = f"border: 0; width: {width}px; height: {height}px"
                frame.write_text(
                    f'<body style="margin: 0"><iframe src="{page.name}" style="{style}"></iframe>'
                )
                picture = chosen.output / f"{name}_{width}.png"
                words = [chosen.browser, "--headless", "--no-sandbox", "--hide-scrollbars"]
                words += [
                    f"--screenshot={picture.resolve()}",
                    f"--window-size={max(width, 500)},{height}",
                ]
                subprocess.run(
                    [*words, frame.as_uri()], check=True, capture_output=True, timeout=120
                )
                _crop(picture, width, height)


def _crop(picture: Path, width: int, height: int) -> None:
    """Cut a picture to its page, and store it in few colors."""
    from PIL import Image

    with Image.open(picture) as image:
        page = image.convert("RGB").crop((0, 0, width, height)).quantize(128)
    page.save(picture, optimize=True)


if __name__ == "__main__":
    main()
