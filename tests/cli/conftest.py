"""A folder with records, and one in which all six commands ran."""

import numpy as np
import pytest

from commands import privot

SCHEMA = """
[columns.height]
kind = "numeric"
bounds = [0, 10]
[columns.color]
kind = "categorical"
categories = ["red", "green", "blue"]
"""


def account(arguments):
    """Run `privot account …`; exit code, standard output, standard error."""
    done = privot(".", "account", *arguments.split())
    return done.returncode, done.stdout, done.stderr


def write_records(folder):
    rng = np.random.default_rng(0)
    rows = [
        f"{h:.3f},{c}" for h, c in zip(rng.uniform(0, 10, 400), rng.choice(["red", "blue"], 400))
    ]
    (folder / "people.csv").write_text("height,color\n" + "\n".join(rows) + "\n")
    (folder / "schema.toml").write_text(SCHEMA)
    return folder


@pytest.fixture
def folder(tmp_path):
    """People and their schema."""
    return write_records(tmp_path)


@pytest.fixture(scope="session")
def whole(tmp_path_factory):
    """A folder in which all six commands ran."""
    folder = write_records(tmp_path_factory.mktemp("whole"))
    for line in (
        "schema check schema.toml",
        "calibrate schema.toml --epsilon 4 --mechanism laplace -o randomizer.json",
        "privatize people.csv --randomizer randomizer.json -o release.parquet",
        "fit release.parquet -o model/ --steps 50 --batch-size 100",
        "sample model/ --num-rows 1000 -o synthetic.parquet",
        "evaluate model/ --against people.csv -o report.html",
    ):
        done = privot(folder, *line.split())
        assert done.returncode == 0, (line, done.stderr)
    return folder
