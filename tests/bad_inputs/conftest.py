"""A folder with one of everything that commands read, made once."""

import numpy as np
import pytest

import commands

SCHEMA = """
[columns.height]
kind = "numeric"
bounds = [0, 3]
[columns.color]
kind = "categorical"
categories = ["red", "green", "blue"]
[columns.born]
kind = "datetime"
bounds = [1900-01-01, 2020-12-31]
[columns.kids]
kind = "numeric"
bounds = [0, 12]
integer = true
nullable = true
"""
ONE = '[columns.age]\nkind = "numeric"\nbounds = [0, 100]\n'
HOME = '[columns.home]\nkind = "vector"\ncolumns = ["x", "y"]\nbounds = [[0, 1], [0, 1]]\n'
IMAGES = (
    '[columns.image]\nkind = "array"\nshape = [4, 4]\nbounds = [0, 255]\n'
    '[columns.label]\nkind = "categorical"\ncategories = ["0", "1"]\n'
)
MIXED = (
    HOME
    + '[columns.age]\nkind = "numeric"\nbounds = [0, 100]\n'
    + '[columns.sex]\nkind = "boolean"\n'
)


def people(rows=60):
    """Records of SCHEMA, as CSV."""
    colors = ("red", "green", "blue")
    lines = [
        f"{1 + row % 20 / 20},{colors[row % 3]},19{50 + row % 40}-0{1 + row % 9}-11,{row % 4 or ''}"
        for row in range(rows)
    ]
    return "\n".join(["height,color,born,kids", *lines]) + "\n"


@pytest.fixture(scope="session")
def workshop(tmp_path_factory):
    """Schemas, records, a randomizer, a release, a model of each kind that is quick to make."""
    folder = tmp_path_factory.mktemp("workshop")
    texts = {"schema": SCHEMA, "one": ONE, "home": HOME, "images": IMAGES, "mixed": MIXED}
    for name, text in texts.items():
        (folder / f"{name}.toml").write_text(text)
    (folder / "people.csv").write_text(people())
    rng = np.random.default_rng(0)
    ages = "\n".join(f"{age:.2f}" for age in rng.normal(50, 9, 300).clip(0, 100))
    (folder / "ages.csv").write_text(f"age\n{ages}\n")
    np.savez(
        folder / "images.npz",
        image=rng.integers(0, 255, (40, 4, 4)).astype(np.uint8),
        label=np.array(["0", "1"] * 20),
    )
    np.savez(
        folder / "digits.npz",
        x=rng.integers(0, 255, (40, 4, 4)).astype(np.uint8),
        y=np.arange(40) % 2,
    )
    for line in (
        "calibrate schema.toml --epsilon 4 -o randomizer.json",
        "calibrate home.toml --epsilon 4 -o home.json",
        "privatize people.csv -r randomizer.json -o release.parquet",
        "fit release.parquet -o model",
        "integral fit ages.csv --schema one.toml --epsilon 1 --draws 5 --estimator spline -o secret",
    ):
        done = commands.privot(folder, *line.split())
        assert done.returncode == 0, done.stderr
    return folder
