"""Fitting: recovery of clean distributions, repeatability, resuming, saving, and what is refused.

The estimator follows scikit-learn's conventions, and takes releases only.
"""

import json
import os
import signal
import warnings
from dataclasses import fields

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from sklearn.base import clone

import privot
from privot import FitSettings, Randomizer, Schema, fit
from privot.core.errors import PrivotError
from privot.evaluation import compare, total_variation
from privot.local import LocalModel, Synthesizer
from privot.local.fitting import FewReports
from privot.training import Interrupted

MIXED = Schema.from_toml("""
[columns.height]
kind = "numeric"
bounds = [0, 10]
[columns.color]
kind = "categorical"
categories = ["red", "green", "blue"]
""")
# A short run needs larger steps and a shorter memory than the defaults' 12 000.
SHORT = {"steps": 1500, "learning_rate": 5e-3, "averaging": 0.99}
QUICK = FitSettings(steps=30, batch_size=100, hidden=(16,))


def mixed_people(num, seed=0):
    """Two groups: low and red, high and blue."""
    rng = np.random.default_rng(seed)
    group = rng.random(num) < 0.3
    height = np.where(group, rng.normal(2, 0.3, num), rng.normal(7, 0.5, num)).clip(0, 10)
    p_red = np.where(group, 0.9, 0.05)
    color = np.where(rng.random(num) < p_red, "red", "blue")
    return {"height": height, "color": color}


@pytest.fixture(scope="module")
def release():
    return Randomizer.calibrate(MIXED, 4.0, mechanism="laplace").privatize(mixed_people(3000))


def same_weights(a, b):
    ours, theirs = a.sampler.generator.state_dict(), b.sampler.generator.state_dict()
    return all(torch.equal(ours[key], theirs[key]) for key in ours)


def test_settings_are_taken_as_keywords_too(release):
    made = fit(release, QUICK, seed=3)
    given = {each.name: getattr(QUICK, each.name) for each in fields(QUICK)}
    again = fit(release, **given | {"seed": 3})
    assert again.sample(100, seed=1).equals(made.sample(100, seed=1))
    with pytest.raises(
        PrivotError, match="epochs is no setting of a fit: use one of estimator, loss"
    ):
        fit(release, epochs=3)
    with pytest.raises(PrivotError, match="estimator is 'trees'"):
        fit(release, estimator="trees")
    with pytest.raises(PrivotError, match="loss is 'huber'"):
        fit(release, loss="huber")
    with pytest.raises(PrivotError, match="waves are fitted at once"):
        fit([release, release], times=[1, 2], resume=True)


def test_same_seed_same_model_other_seed_another(release):
    first, second, other = (fit(release, QUICK, seed=s) for s in (3, 3, 4))
    assert same_weights(first, second)
    assert not same_weights(first, other)
    assert first.sample(100, seed=1).equals(second.sample(100, seed=1))
    assert not first.sample(100, seed=1).equals(first.sample(100, seed=2))


@pytest.mark.parametrize("loss", ["plain", "self_corrected"])
def test_resuming_continues_bit_for_bit(release, tmp_path, loss):
    """Stopped by Ctrl-C at step 30 and resumed: the very weights of an uninterrupted run."""
    settings = FitSettings(steps=60, batch_size=50, hidden=(16,), loss=loss)
    whole = fit(release, settings)
    checkpoint = tmp_path / "run.checkpoint"

    def press_ctrl_c(step, steps, loss):
        if step == 30:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Interrupted, match="of 60"):
        fit(release, settings, checkpoint=checkpoint, progress=press_ctrl_c)
    seen = []
    resumed = fit(
        release,
        settings,
        checkpoint=checkpoint,
        resume=True,
        progress=lambda step, steps, loss: seen.append(step),
    )
    assert 25 < seen[0] <= 32
    assert same_weights(whole, resumed)
    np.testing.assert_array_equal(whole.history["loss"], resumed.history["loss"])


def test_a_checkpoint_of_another_run_is_refused(release, tmp_path):
    checkpoint = tmp_path / "run.checkpoint"

    def press_ctrl_c(step, steps, loss):
        if step == 5:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Interrupted):
        fit(release, QUICK, checkpoint=checkpoint, progress=press_ctrl_c)
    another = Randomizer.calibrate(MIXED, 4.0, mechanism="laplace").privatize(mixed_people(3000))
    with pytest.raises(PrivotError, match="was made with release"):
        fit(another, QUICK, checkpoint=checkpoint, resume=True)
    with pytest.raises(PrivotError, match="was made with seed 0, this run has 9"):
        fit(release, QUICK, seed=9, checkpoint=checkpoint, resume=True)
    checkpoint.write_bytes(b"half a checkpoint")
    with pytest.raises(PrivotError, match="remove it to start again"):
        fit(release, QUICK, checkpoint=checkpoint, resume=True)


def test_recovers_the_clean_joint_distribution():
    """At ε = 8: both the two bumps and their association with the color; the noise is not learned.

    A short run is near, by ten of them: .125 ± .004 in W₂, shares of .313 ± .007, .809 ± .008 and
    .089 ± .008. Limits are 5.2 standard deviations away or more: a false-alarm rate of 1e-7. What
    was released is .50 off in W₂; without the association both shares of red would be the same.
    """
    truth = mixed_people(20_000, seed=1)
    randomizer = Randomizer.calibrate(MIXED, 8.0, mechanism="laplace")
    release = randomizer.privatize(truth, keep_order=True)
    model = fit(release, FitSettings(batch_size=150, **SHORT | {"steps": 450}))
    drawn = model.sample(10_000, seed=0)
    real = privot.tables.files.as_table(mixed_people(10_000, seed=2))
    scores = {
        score.column: score.total_variation for score in compare(MIXED, drawn, real).table.columns
    }
    released = np.abs(release.table["height"].to_numpy() - truth["height"]).std() / 5
    ours, theirs = (np.sort(table["height"].to_numpy()) / 5 for table in (drawn, real))
    assert np.sqrt(np.mean((ours - theirs) ** 2)) < 0.16 < released / 2
    assert scores["color"].synthetic < 0.04
    low = drawn["height"].to_numpy() < 4.5
    red = np.array(drawn["color"].to_pylist()) == "red"
    assert low.mean() == pytest.approx(0.3, abs=0.05)
    assert red[low].mean() > 0.74
    assert red[~low].mean() < 0.15


def test_one_categorical_column_reaches_closed_form_maximum_likelihood():
    schema = Schema.from_toml('[columns.c]\nkind = "categorical"\ncategories = ["a","b","c","d"]')
    clean = np.random.default_rng(0).choice(list("abcd"), 50_000, p=[0.5, 0.3, 0.15, 0.05])
    release = Randomizer.calibrate(schema, 1.0, report="split").privatize({"c": clean})
    keep, other = release.randomizer.mechanisms["c"].probabilities
    shares = np.bincount(release.reports("c")[0][:, 0], minlength=4) / 50_000
    likeliest = (shares - other) / (keep - other)
    assert likeliest.min() > 0  # inside the simplex, so this is the maximum
    model = fit(release)
    drawn = np.array(model.sample(200_000, seed=0)["c"].to_pylist())
    learned = np.array([(drawn == v).mean() for v in "abcd"])
    assert total_variation(learned, likeliest) < 0.02


def test_partial_reports_still_teach_the_association():
    """With two of three columns a person, every pair is seen, and the joint is learned."""
    schema = Schema.from_toml(
        "\n".join(f'[columns.{c}]\nkind = "categorical"\ncategories = ["0", "1"]' for c in "abc")
    )
    rng = np.random.default_rng(0)
    bit = rng.integers(0, 2, 40_000)
    table = {c: (bit ^ (rng.random(40_000) < 0.1)).astype(str) for c in "abc"}
    release = Randomizer.calibrate(schema, 6.0, report_columns=2, report="split").privatize(table)
    drawn = fit(release).sample(20_000, seed=0)
    bits = np.stack([np.array(drawn[c].to_pylist()) == "1" for c in "abc"])
    agree = [(bits[i] == bits[j]).mean() for i, j in ((0, 1), (0, 2), (1, 2))]
    assert agree == pytest.approx([0.82] * 3, abs=0.06)


def test_model_round_trip_and_guarantee(release, tmp_path):
    model = fit(release, QUICK)
    assert model.guarantee == release.guarantee
    model.save(tmp_path / "model")
    model.save(tmp_path / "model")  # over an older one
    again = LocalModel.load(tmp_path / "model")
    assert again.sample(1000, seed=5).equals(model.sample(1000, seed=5))
    assert again.guarantee == model.guarantee
    assert sorted(p.name for p in (tmp_path / "model").iterdir()) == [
        "history.parquet", "model.json", "weights.safetensors",
    ]  # fmt: skip
    fields = json.loads((tmp_path / "model" / "model.json").read_text())
    assert fields["made_with"]["num_reports"] == 3000
    assert model.sample(0).num_rows == 0
    assert len(model.sample(70_000)) == 70_000


def test_samples_respect_the_schema(release):
    drawn = fit(release, QUICK).sample(5000)
    MIXED.check_table(drawn)
    assert 0 <= drawn["height"].to_numpy().min() <= drawn["height"].to_numpy().max() <= 10
    assert set(drawn["color"].to_pylist()) <= {"red", "green", "blue"}


def test_damaged_models_are_refused(release, tmp_path):
    path = tmp_path / "model"
    fit(release, QUICK).save(path)
    fields = json.loads((path / "model.json").read_text())
    (path / "model.json").write_text(json.dumps(fields | {"format": 7}))
    with pytest.raises(PrivotError, match="format 7, this version of privot reads format 3"):
        LocalModel.load(path)
    (path / "model.json").write_text(json.dumps(fields))
    (path / "weights.safetensors").write_bytes(b"x")
    with pytest.raises(PrivotError, match="is damaged"):
        LocalModel.load(path)
    with pytest.raises(PrivotError, match="cannot be read"):
        LocalModel.load(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda r: fit(r, FitSettings(averaging=1.0)), "averaging 1.0"),
        (lambda r: fit(r, QUICK).sample(-1), "num_rows -1 cannot be"),
    ],
)
def test_refusals(release, make, words):
    with pytest.raises(PrivotError, match=words):
        make(release)


SCHEMA = Schema.from_dict({"columns": {"c": {"kind": "categorical", "categories": list("ab")}}})


@pytest.fixture(scope="module")
def classes_release():
    return Randomizer.calibrate(SCHEMA, 3.0).privatize({"c": ["a", "b", "a", "a"] * 50})


@pytest.mark.parametrize(
    ("settings", "arguments", "words"),
    [
        (FitSettings(steps=9), {}, "steps would be ignored"),
        (FitSettings(batch_size=9, loss="plain"), {}, "batch_size, loss would be ignored"),
        (
            FitSettings(estimator="latent_classes"),
            {"loss": print},
            "loss is a setting of generators",
        ),
    ],
)
def test_what_would_be_ignored_is_refused(classes_release, settings, arguments, words):
    with pytest.raises(PrivotError, match=words):
        fit(classes_release, settings, **arguments)


def test_a_generators_checkpoint_stays(classes_release, tmp_path):
    checkpoint = tmp_path / "run.checkpoint"
    checkpoint.write_bytes(b"of a generator")
    with pytest.raises(PrivotError, match="is of a generator"):
        fit(classes_release, checkpoint=checkpoint, resume=True)
    assert checkpoint.read_bytes() == b"of a generator"


def test_it_says_how_it_was_made(classes_release):
    made = fit(classes_release, seed=5).made_with
    assert (made["estimator"], made["seed"], made["num_reports"]) == ("latent_classes", 5, 200)
    alone = made["averaged"][0]["num_classes"] == 1
    assert made["dependence"].startswith("independence: the reports show" if alone else "classes: ")
    assert np.isfinite(made["seconds"])


SYNTHESIZER_SCHEMA = Schema.from_toml(
    '[columns.color]\nkind = "categorical"\ncategories = ["red", "blue"]'
)
RECORDS = {"color": ["red", "blue"] * 100}


@pytest.fixture(scope="module")
def synthesizer_release():
    return Randomizer.calibrate(SYNTHESIZER_SCHEMA, epsilon=2.0).privatize(RECORDS)


def test_it_fits_what_fit_fits(synthesizer_release):
    synthesizer = Synthesizer(SYNTHESIZER_SCHEMA, 2.0, seed=3)
    assert synthesizer.fit(synthesizer_release) is synthesizer
    drawn = synthesizer.sample(20, seed=1, where={"color": "red"})
    assert drawn.equals(
        privot.fit(synthesizer_release, seed=3).sample(20, seed=1, where={"color": "red"})
    )
    assert synthesizer.model_.guarantee == synthesizer_release.guarantee


@pytest.mark.parametrize(
    "raw", [RECORDS, pd.DataFrame(RECORDS), pl.DataFrame(RECORDS), pa.table(RECORDS), "people.csv"]
)
def test_raw_records_are_refused_in_one_line(raw):
    with pytest.raises(PrivotError, match=r"^release is a \w+: privatize .*`privot privatize .*$"):
        Synthesizer(SYNTHESIZER_SCHEMA, 2.0).fit(raw)


def test_what_does_not_fit_is_named(synthesizer_release):
    with pytest.raises(PrivotError, match="epsilon 1 is less than the release's 2"):
        Synthesizer(SYNTHESIZER_SCHEMA, 1.0).fit(synthesizer_release)
    other = Schema.from_toml('[columns.color]\nkind = "boolean"')
    with pytest.raises(
        PrivotError, match=r"schema Schema\(columns: color.*\) is not the release's"
    ):
        Synthesizer(other).fit(synthesizer_release)
    with pytest.raises(PrivotError, match="not fitted: call fit"):
        Synthesizer(SYNTHESIZER_SCHEMA).sample(3)
    with pytest.raises(PrivotError, match="sed is no parameter: use one of schema, epsilon"):
        Synthesizer(SYNTHESIZER_SCHEMA).set_params(sed=1)


def test_it_is_a_folder_and_comes_back(synthesizer_release, tmp_path):
    synthesizer = Synthesizer(SYNTHESIZER_SCHEMA, seed=3)
    with pytest.raises(PrivotError, match="not fitted: call fit"):
        synthesizer.save(tmp_path / "model")
    synthesizer.fit(synthesizer_release).save(tmp_path / "model")
    again = Synthesizer.load(tmp_path / "model")
    assert again.schema == SYNTHESIZER_SCHEMA
    assert again.sample(20, seed=1).equals(synthesizer.sample(20, seed=1))


def test_a_clone_has_the_parameters_and_nothing_learned(synthesizer_release):
    fitted = Synthesizer(SYNTHESIZER_SCHEMA, 2.0, FitSettings(seed=1), seed=4).fit(
        synthesizer_release
    )
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params()
    assert not hasattr(copy, "model_")
    assert copy.set_params(seed=5).seed == 5
    assert "fitted: False" in repr(copy)


def test_two_reports_say_that_they_tell_nothing_and_many_do_not():
    schema = Schema.from_dict({"columns": {"sick": {"kind": "boolean"}}})
    randomizer = Randomizer.calibrate(schema, 1.0)
    with pytest.warns(FewReports, match=r"2 reports are no more .* about 12 reports"):
        model = fit(randomizer.privatize({"sick": [True, False]}))
    assert "no more informative than none" in model.made_with["few_reports"]
    with warnings.catch_warnings():
        warnings.simplefilter("error", FewReports)
        enough = fit(randomizer.privatize({"sick": [True, False] * 6}))
    assert "few_reports" not in enough.made_with
