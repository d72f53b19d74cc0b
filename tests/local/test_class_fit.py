"""Latent classes refuse what only a generator takes, and say how they were made."""

import numpy as np
import pytest

from privot import FitSettings, Randomizer, Schema, fit
from privot.errors import PrivotError

SCHEMA = Schema.from_dict({"columns": {"c": {"kind": "categorical", "categories": list("ab")}}})


@pytest.fixture(scope="module")
def release():
    return Randomizer.calibrate(SCHEMA, 3.0).privatize({"c": ["a", "b", "a", "a"] * 50})


@pytest.mark.parametrize(
    ("settings", "arguments", "words"),
    [
        (FitSettings(steps=9), {}, "steps would be ignored"),
        (FitSettings(batch_size=9, loss="plain"), {}, "batch_size, loss would be ignored"),
        (FitSettings(estimator="latent_classes"), {"loss": print}, "loss is a generator's"),
    ],
)
def test_what_would_be_ignored_is_refused(release, settings, arguments, words):
    with pytest.raises(PrivotError, match=words):
        fit(release, settings, **arguments)


def test_a_generators_checkpoint_is_kept(release, tmp_path):
    checkpoint = tmp_path / "run.checkpoint"
    checkpoint.write_bytes(b"of a generator")
    with pytest.raises(PrivotError, match="is of a generator"):
        fit(release, checkpoint=checkpoint, resume=True)
    assert checkpoint.read_bytes() == b"of a generator"


def test_it_says_how_it_was_made(release):
    made = fit(release, seed=5).made_with
    assert (made["estimator"], made["seed"], made["num_reports"]) == ("latent_classes", 5, 200)
    assert made["classes"] >= 1
    assert np.isfinite(made["seconds"])
