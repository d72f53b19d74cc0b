"""A folder of PNGs through all commands, as the guide on images has them."""

import csv
import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from commands import privot

pillow = pytest.importorskip("PIL.Image", reason="Pillow is not installed")

SCHEMA = """
[columns.image]
kind = "array"
shape = [8, 8]
bounds = [0, 255]
radius = 14
center = "lower"
transform = "dct"
low_pass = 6
[columns.side]
kind = "categorical"
categories = ["left", "right"]
"""


def draw(folder, count):
    """Pictures of which the left, or the right, half is bright."""
    folder.mkdir()
    rng = np.random.default_rng(count)
    rows = [("file", "side")]
    for i in range(count):
        side = "left" if rng.random() < 0.7 else "right"
        pixels = np.zeros((8, 8), np.uint8)
        pixels[:, slice(0, 4) if side == "left" else slice(4, 8)] = rng.integers(180, 256)
        pillow.fromarray(pixels).save(folder / f"{i}.png")
        rows.append((f"{i}.png", side))
    with open(folder / "labels.csv", "w", newline="") as file:
        csv.writer(file).writerows(rows)


def brightness(folder, side):
    """Mean of the left less that of the right half, of all pictures labeled so."""
    with open(folder / "labels.csv", newline="") as file:
        names = [row["file"] for row in csv.DictReader(file) if row["side"] == side]
    assert names
    images = np.stack([np.asarray(pillow.open(folder / name), float) for name in names])
    return images[:, :, :4].mean() - images[:, :, 4:].mean()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    draw(folder / "pictures", 400)
    draw(folder / "holdout", 120)
    (folder / "schema.toml").write_text(SCHEMA)
    for line in (
        "schema check schema.toml",
        "calibrate schema.toml --noise 0.25 --delta 1e-5 --mechanism gaussian --share side=6",
        "privatize pictures/ --randomizer randomizer.json -o release.parquet",
        "fit release.parquet -o model/ --steps 200",
        "sample model/ --num-rows 60 -o synthetic/",
        "sample model/ --num-rows 20 --where side=right -o right/",
    ):
        done = privot(folder, *line.split())
        assert done.returncode == 0, (line, done.stderr)
    return folder


def test_reports_are_as_wide_as_the_mask_and_noised(whole):
    release = pq.read_table(whole / "release.parquet")
    assert release.num_rows == 400
    values = np.stack(release.column("image").to_pylist())
    assert values.shape == (400, 36)
    # The corner cosine of all pictures is 0 up to noise of deviation .25; 9 deviations of 400 of them.
    assert 0.17 < values[:, 35].std() < 0.33


def test_what_was_learned_is_pictures_of_their_labels(whole):
    """The halves differ by 218; in 12 fits by 212 ± 2 of the left label, 217 ± 10 of the right."""
    assert len(list((whole / "synthetic").glob("*.png"))) == 60
    assert brightness(whole / "synthetic", "left") > 120
    assert brightness(whole / "right", "right") < -100
    with open(whole / "right" / "labels.csv", newline="") as file:
        assert {row["side"] for row in csv.DictReader(file)} == {"right"}


def test_pages_show_pictures(whole):
    page = (whole / "model" / "report.html").read_text()
    assert "Images, learned from noise" in page
    assert "data:image/png" in page


def test_evaluation_takes_a_folder_and_the_one_label(whole):
    done = privot(whole, "evaluate", "model", "--against", "holdout", "-n", "200", "--json")
    assert done.returncode == 0, done.stderr
    assert "not private" in done.stderr
    told = json.loads(done.stdout)
    assert "one_way" in told["summary"]


def test_a_picture_of_another_size_is_refused_and_nothing_is_written(whole, tmp_path):
    draw(tmp_path / "pictures", 3)
    pillow.new("L", (9, 8)).save(tmp_path / "pictures" / "1.png")
    done = privot(
        tmp_path, "privatize", "pictures", "-r", whole / "randomizer.json", "-o", "release.parquet"
    )
    assert done.returncode == 2
    assert "1.png" in done.stderr
    assert not (tmp_path / "release.parquet").exists()
