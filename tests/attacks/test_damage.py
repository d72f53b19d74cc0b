"""Models of which a few bytes were damaged: refused, whatever bytes of whatever file."""

import random

import numpy as np
import pytest

from central.declared_images import image_schema
from commands import privot
from privot import Schema, integral, load
from privot.central import CentralModel, adapt
from privot.central.classifiers.adapted import AdaptationSettings
from privot.core.errors import PrivotError
from privot.integral import BoostSettings, ClippedRatioSettings, IntegralModel
from privot.integral.learners import NetworkSettings
from privot.local import LocalModel
from privot.tables.files import read_table

SCHEMA = """
[columns.height]
kind = "numeric"
bounds = [0, 10]
[columns.color]
kind = "categorical"
categories = ["red", "green", "blue"]
"""
SLICED = "--method slices --epsilon 50 --delta 1e-3 --steps 20 --batch-size 30"
FITS = {
    "latent_classes": (LocalModel, "fit release.parquet"),
    "generator": (
        LocalModel,
        "fit release.parquet --estimator generator --steps 20 --batch-size 20",
    ),
    "sliced_images": (
        CentralModel,
        f"central fit digits.npz --schema digits.json --low-pass 3 {SLICED} --epsilon 500",
    ),
    "sliced_table": (
        CentralModel,
        f"central fit people.csv --schema schema.toml {SLICED}",
    ),
    "mixture": (CentralModel, "central fit people.csv --schema schema.toml --epsilon 50"),
    "integral_trees": (
        IntegralModel,
        "integral fit people.csv --schema schema.toml --epsilon 1 --draws 5 --estimator trees",
    ),
}
QUICK = NetworkSettings(hidden=(4,), steps=5, batch_size=64)
# Networks that commands train for long: here for a few steps.
SHORT = {
    "integral_clip": ClippedRatioSettings(estimator="mlp", network=QUICK),
    "integral_boost": BoostSettings(rounds=2, network=QUICK),
    "adapted": AdaptationSettings(
        epsilon=50.0, delta=1e-3, unit="person", rounds=1, training_steps=2, feature_dim=4,
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    rng = np.random.default_rng(0)
    rows = [f"{h:.2f},{c}" for h, c in zip(rng.uniform(0, 10, 80), rng.choice(["red", "blue"], 80))]
    (folder / "people.csv").write_text("height,color\n" + "\n".join(rows) + "\n")
    (folder / "schema.toml").write_text(SCHEMA)
    y = np.arange(80) % 2
    x = (rng.random((80, 6, 6)) * (100 + 100 * y[:, None, None])).astype(np.uint8)
    np.savez(folder / "digits.npz", image=x / 255, label=y)
    image_schema((6, 6), 2).save(folder / "digits.json")
    for line in (
        "calibrate schema.toml --epsilon 4",
        "privatize people.csv -r randomizer.json",
    ):
        assert privot(folder, *line.split()).returncode == 0
    return folder


def write(folder, name):
    """A model of a kind, in a folder of its name; its class."""
    if name in FITS:
        kind, line = FITS[name]
        done = privot(folder, *line.split(), "-o", name)
        assert done.returncode == 0, done.stderr
        return kind
    if name == "adapted":
        digits = np.load(folder / "digits.npz")
        model = adapt(digits["image"], digits["label"], digits["image"], SHORT[name])
    else:
        schema = Schema.load(folder / "schema.toml")
        table = read_table(folder / "people.csv", schema)
        model = integral.fit(table, schema, epsilon=1.0, draws=5, settings=SHORT[name])
    model.save(folder / name)
    return type(model)


@pytest.mark.parametrize("name", [*FITS, *SHORT])
def test_four_damaged_bytes_are_refused(folder, name):
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PRIVOT_STATE_DIR", str(folder / "state"))
        kind = write(folder, name)
        kind.load(folder / name)
        chance = random.Random(name)
        files = [file for file in sorted((folder / name).iterdir()) if file.name != "ledger.json"]
        assert len(files) >= 2
        for file in files:
            whole = file.read_bytes()
            for _ in range(8):
                damaged = bytearray(whole)
                for place in chance.sample(range(len(whole)), 4):
                    damaged[place] ^= chance.randrange(1, 256)
                file.write_bytes(damaged)
                with pytest.raises(PrivotError):
                    kind.load(folder / name)
            file.write_bytes(whole)
        assert type(load(folder / name)) is kind
