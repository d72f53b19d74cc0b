"""Fitting Gaussian classes to releases of candidates, from device to sample."""

import numpy as np
import pytest

import privot
from privot.core.errors import PrivotError
from privot.local import FitSettings, fit
from privot.local.networks.gaussian_fit import linear_start
from privot.mechanisms.candidates.features import Moments
from privot.randomizer import Randomizer
from privot.schema import Schema

VECTOR = """
[columns.v]
kind = "vector"
columns = ["a", "b", "c", "d", "e", "f"]
radius = 1.0
"""
LABEL = '[columns.shape]\nkind = "categorical"\ncategories = ["bar", "dot", "ring"]\n'
CENTERS = 0.6 * np.eye(3, 6) + 0.1
SHORT = FitSettings(steps=150, batch_size=1000)


def people(count, seed=0):
    """Vectors about the center of their label; of the third, few."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(3, count, p=[0.5, 0.35, 0.15])
    x = CENTERS[labels] + 0.1 * rng.standard_normal((count, 6))
    x /= np.maximum(1, np.linalg.norm(x, axis=1, keepdims=True))
    columns = dict(zip("abcdef", x.T, strict=True))
    return columns | {"shape": np.array(["bar", "dot", "ring"])[labels]}, x, labels


@pytest.fixture(scope="module")
def labeled():
    table, x, labels = people(10_000)
    release = Randomizer.calibrate(Schema.from_toml(VECTOR + LABEL), 6.0).privatize(table)
    return release, fit(release, SHORT), x, labels


def vectors(table):
    return np.stack([table.column(name).to_numpy() for name in "abcdef"], axis=1)


def test_class_means_shares_and_spread_are_learned(labeled):
    _, model, x, labels = labeled
    assert model.made_with["estimator"] == "gaussian_classes"
    assert model.history is not None
    table = model.sample(20_000, seed=1)
    named = np.array(table.column("shape").to_pylist())
    found = vectors(table)
    for label, name in enumerate(["bar", "dot", "ring"]):
        assert (named == name).mean() == pytest.approx((labels == label).mean(), abs=0.06)
        error = found[named == name].mean(axis=0) - x[labels == label].mean(axis=0)
        assert np.linalg.norm(error) < 0.12
        ratio = found[named == name].var(axis=0).sum() / x[labels == label].var(axis=0).sum()
        assert 0.6 < ratio < 2.2


def test_samples_may_be_of_one_label(labeled):
    table = labeled[1].sample(200, seed=1, where={"shape": "ring"})
    assert set(table.column("shape").to_pylist()) == {"ring"}
    away = vectors(table).mean(axis=0)[:, None] - CENTERS.T
    assert np.linalg.norm(away, axis=0).argmin() == 2


def test_a_saved_model_draws_the_same(labeled, tmp_path):
    _, model, *_ = labeled
    model.save(tmp_path / "model")
    again = privot.load(tmp_path / "model")
    assert again.sample(50, seed=3).equals(model.sample(50, seed=3))
    assert again.guarantee == model.guarantee


def test_the_same_seed_makes_the_same_model(labeled):
    release, *_ = labeled
    settings = FitSettings(steps=20)
    one, two = (fit(release, settings).sample(20, seed=0) for _ in range(2))
    assert one.equals(two)
    assert not one.equals(fit(release, settings, seed=1).sample(20, seed=0))


def test_vectors_without_labels_that_may_be_missing():
    table, x, _ = people(10_000)
    table["a"] = np.where(np.arange(10_000) % 4 == 0, np.nan, table["a"])
    del table["shape"]
    schema = Schema.from_toml(VECTOR + "nullable = true\n")
    model = fit(Randomizer.calibrate(schema, 6.0).privatize(table), SHORT)
    found = vectors(model.sample(10_000, seed=0))
    absent = np.isnan(found).any(axis=1)
    assert absent.mean() == pytest.approx(0.25, abs=0.06)
    assert np.linalg.norm(found[~absent].mean(axis=0) - x.mean(axis=0)) < 0.15


def test_images_are_learned_within_their_bounds():
    rng = np.random.default_rng(0)
    labels = rng.choice(2, 4_000)
    ramp = np.linspace(0, 200, 6)
    images = np.where(labels[:, None, None] == 0, ramp[:, None], ramp[None, :])
    images = images + 40 * rng.random((4_000, 6, 6))
    schema = Schema.from_toml(
        '[columns.image]\nkind = "array"\nshape = [6, 6]\nbounds = [0, 255]\n'
        '[columns.label]\nkind = "categorical"\ncategories = ["down", "right"]\n'
    )
    table = {"image": images, "label": np.array(["down", "right"])[labels]}
    model = fit(Randomizer.calibrate(schema, 8.0).privatize(table), SHORT)
    drawn = model.sample(500, seed=0, where={"label": "right"}).column("image").combine_chunks()
    pixels = drawn.to_numpy_ndarray()
    assert pixels.min() >= 0
    assert pixels.max() <= 255
    right = images[labels == 1].mean(axis=0)
    assert np.abs(pixels.mean(axis=0) - right).mean() < 25


def test_too_few_reports_are_refused_with_how_many_would_do():
    table, *_ = people(100)
    release = Randomizer.calibrate(Schema.from_toml(VECTOR + LABEL), 0.1).privatize(table)
    with pytest.raises(PrivotError, match="say nothing about column 'v'.*collect at least"):
        fit(release)


def test_what_would_be_ignored_is_refused(labeled):
    release, *_ = labeled
    with pytest.raises(PrivotError, match="loss would be ignored"):
        fit(release, FitSettings(loss="plain"))
    colors = Randomizer.calibrate(Schema.from_toml(LABEL), 2.0).privatize({"shape": ["bar"] * 50})
    with pytest.raises(PrivotError, match="for candidates"):
        fit(colors, FitSettings(estimator="gaussian_classes"))
    with pytest.raises(PrivotError, match="candidates"):
        fit(release, FitSettings(estimator="generator"))


def test_means_are_shrunk_by_their_known_noise():
    rng, stddev = np.random.default_rng(0), 0.01
    true = rng.standard_normal((5, 40)) * 0.02
    noisy = true / 5 + stddev * rng.standard_normal((5, 40))
    start = linear_start(
        Moments(np.full(5, 0.2), noisy, 0.0), stddev, 1.0, np.ones(40), np.ones(40)
    )
    linear, shrunk = (np.linalg.norm(m - true) for m in (5 * noisy, start.means))
    assert shrunk < 0.6 * linear
    still = linear_start(
        Moments(np.full(5, 0.2), true / 5, 0.0), 1e-9, 1.0, np.ones(40), np.ones(40)
    )
    np.testing.assert_allclose(still.means, true, atol=1e-9)
