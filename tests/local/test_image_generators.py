"""Images with labels, learned from noise: strata, the cosine map, classes, files, resuming."""

import os
import signal
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
import torch

from privot.core.errors import PrivotError
from privot.local import FitSettings, LocalModel, fit
from privot.local.networks.cost import LikelihoodCost, PointChannel, channel_of
from privot.local.networks.generator_fit import (
    LabeledGenerator,
    LabelReports,
    Strata,
    fits_images,
    image_generator,
    leading_axes,
    start_at_moments,
)
from privot.local.networks.heads import CosineMap, Head
from privot.mechanisms import Laplace, RandomizedResponse
from privot.randomizer import Randomizer, Release, randomizer_from_noise
from privot.schema import ImageDomain, Schema
from privot.schema.columns.array import tensor_values
from privot.tables.files import read_table, write_table
from privot.training import Interrupted
from privot.training.generators import MLP, Architecture
from privot.transport import manhattan, squared_euclidean

NAMES = ["bar", "beam", "ring"]
BAR, BEAM = np.full((2, 6, 6), 30.0)
BAR[:, 2:4], BEAM[2:4, :] = 220.0, 220.0
RING = np.full((6, 6), 220.0)
RING[2:4, 2:4] = 30.0
SHAPES = np.stack([BAR, BEAM, RING])
SHARES = np.array([0.5, 0.3, 0.2])
LABEL = '[columns.label]\nkind = "categorical"\ncategories = ["bar", "beam", "ring"]\n'
IMAGE = '[columns.image]\nkind = "array"\nshape = [6, 6]\nbounds = [0, 255]\n'
LOW_PASS = 'transform = "dct"\nlow_pass = 4\n'
TRAINED = FitSettings(steps=300, batch_size=64, hidden=(32,), latent_dim=4, learning_rate=1e-2)
QUICK = FitSettings(steps=16, batch_size=32, hidden=(16,), latent_dim=3)


def people(num, seed=0):
    rng = np.random.default_rng(seed)
    code = rng.choice(3, num, p=SHARES)
    images = SHAPES[code] + rng.normal(0, 8, (num, 6, 6))
    return {"image": images.clip(0, 255), "label": np.array(NAMES)[code]}


def released(toml, num=3000, noise=0.5, epsilon=2.0):
    schema = Schema.from_toml(toml)
    shares = {"label": epsilon} if "label" in schema.columns else {}
    data = {name: values for name, values in people(num).items() if name in schema.columns}
    return randomizer_from_noise(schema, noise, 1e-6, shares=shares).privatize(data)


ORDERS = {
    "image first": IMAGE + LABEL,
    "label first": LABEL + IMAGE,
    "coefficients": IMAGE + LOW_PASS + LABEL,
}


@pytest.mark.parametrize("toml", ORDERS.values(), ids=ORDERS.keys())
def test_each_label_has_its_images_although_one_report_in_five_names_another(toml):
    """Means are off by .03 ± .01 of 2 (by .045 ± .026, with a long tail, from half as many reports).

    Had each report's label been taken for true, means of beams and rings would be off by .22 and .41:
    a quarter and a third of the reports that name them are of other shapes.
    """
    model = fit(released(toml, num=6000), TRAINED)
    column = model.schema.images["image"]
    for name, shape in zip(NAMES, SHAPES):
        drawn = model.sample(200, seed=0, where={"label": name})
        assert set(drawn.column("label").to_pylist()) == {name}
        mean = tensor_values(drawn.column("image")).mean(axis=0)
        # A mask of 4 × 4 cannot tell these shapes to the pixel, but to the coefficient.
        units = column.to_unit_pixels(np.stack([mean, shape]).reshape(2, -1))
        drawn_mean, true_mean = column.domain.encode(units)
        assert np.abs(drawn_mean - true_mean).mean() < 0.15
    labels = np.array(model.sample(5000, seed=1).column("label").to_pylist())
    assert [np.mean(labels == name) for name in NAMES] == pytest.approx(SHARES, abs=0.1)


def test_images_alone_are_learned():
    release = released(IMAGE)
    # A second hidden layer: one alone is too smooth to jump from shape to shape.
    model = fit(release, replace(TRAINED, steps=600, hidden=(64, 64)))
    assert model.made_with["loss"] == "self_corrected"
    drawn = tensor_values(model.sample(500, seed=0).column("image"))
    gaps = np.abs(drawn[:, None] - SHAPES).mean(axis=(2, 3))
    nearest = gaps.argmin(axis=1)
    assert np.bincount(nearest, minlength=3) / 500 == pytest.approx(SHARES, abs=0.1)
    reports = (release.reports("image")[0].reshape(-1, 6, 6) + 1) * 127.5
    noisy = np.abs(reports[:, None] - SHAPES).mean(axis=(2, 3)).min(axis=1).mean()
    assert gaps.min(axis=1).mean() < noisy / 2


def test_shares_and_posterior_are_those_of_the_records():
    """100 000 reports: deviations of the shares are below 0.003."""
    schema = Schema.from_toml(LABEL)
    randomizer = Randomizer.calibrate(schema, 1.5, report="split")
    labels = people(100_000)["label"]
    release = randomizer.privatize({"label": labels}, keep_order=True)
    found = LabelReports(release, "label")
    truth = np.array([np.mean(labels == name) for name in NAMES])
    assert found.shares.numpy() == pytest.approx(truth, abs=0.02)
    reported = release.reports("label")[0][:, 0]
    for code in range(3):
        counts = np.array([np.mean(labels[reported == code] == name) for name in NAMES])
        assert found.given[code].numpy() == pytest.approx(counts, abs=0.03)
    sizes = torch.bincount(found.codes) / len(reported)
    assert torch.allclose(sizes @ found.given, found.shares, atol=1e-5)


def test_a_stratum_is_one_reported_label_and_latents_are_of_its_true_ones():
    release = released(IMAGE + LABEL, num=1000)
    head, cost = Head(release.randomizer), LikelihoodCost(release.randomizer)
    found = LabelReports(release, "label")
    generator = LabeledGenerator(head, MLP(5, 36, (8,)), found.shares)
    strata = Strata(release, cost, 50, "label", torch.device("cpu"))
    rng = torch.Generator().manual_seed(0)
    for _ in range(20):
        (code,) = set(strata.draw(rng).values["label"][:, 0].tolist())
        latent = strata.latent(generator, 20_000, rng)
        drawn = latent[:, -3:].mean(dim=0)
        assert drawn.numpy() == pytest.approx(found.given[code].numpy(), abs=0.02)


@pytest.mark.parametrize("shape", [(6, 6), (4, 6, 3)])
def test_the_map_is_that_of_the_device(shape):
    domain = ImageDomain(shape, low_pass=(3, 3))
    pixels = np.random.default_rng(0).uniform(-1, 1, (5, domain.num_pixels))
    the_map = CosineMap(domain)
    tensor = torch.tensor(pixels, dtype=torch.float32)
    np.testing.assert_allclose(the_map(tensor).numpy(), domain.encode(pixels), atol=1e-5)
    smooth = domain.decode(domain.encode(pixels))
    np.testing.assert_allclose(the_map.smooth(tensor).numpy(), smooth, atol=1e-5)


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_the_cost_is_in_the_space_of_the_noise(mechanism):
    schema = Schema.from_toml(IMAGE + LOW_PASS)
    delta = 1e-6 if mechanism == "gaussian" else 0.0
    randomizer = randomizer_from_noise(schema, 0.7, delta, mechanism=mechanism)
    channel = channel_of(randomizer.mechanisms["image"], schema, "image")
    assert isinstance(channel, PointChannel)
    rng = torch.Generator().manual_seed(0)
    pixels = (2 * torch.rand(4, 36, generator=rng) - 1).requires_grad_()
    reports = torch.randn(5, 16, generator=rng)
    cost = channel.cost(pixels, reports)
    points = channel.map(pixels)
    if mechanism == "gaussian":
        expected = squared_euclidean(points, reports) / (2 * 0.7**2)
    else:
        expected = manhattan(points, reports) / 0.7
    assert torch.allclose(cost, expected, rtol=1e-4)
    cost.sum().backward()
    assert pixels.grad.abs().sum() > 0
    drawn = channel.simulate(pixels.detach().repeat(2000, 1), rng).reshape(2000, 4, 16)
    noise = drawn - points.detach()
    stddev = 0.7 if mechanism == "gaussian" else 0.7 * 2**0.5
    assert float(noise.std()) == pytest.approx(stddev, rel=0.02)


def test_training_starts_at_the_moments_of_the_records():
    """Their mean and, as far as tanh lets it, their covariance, with nothing of the noise's."""
    release = released(IMAGE + LABEL)
    generator = image_generator(release, Head(release.randomizer), QUICK)
    assert isinstance(generator, LabeledGenerator)
    latent = generator.draw_latent(20_000, torch.Generator().manual_seed(1))
    drawn = generator.conditional.network(latent).detach().tanh().numpy()
    clean = people(3000)["image"].reshape(-1, 36) / 127.5 - 1
    assert np.abs(drawn.mean(axis=0) - clean.mean(axis=0)).mean() < 0.1
    axes = np.linalg.svd(clean - clean.mean(axis=0), full_matrices=False)[2][:2]
    spread, true_spread = (part @ axes.T for part in (drawn, clean))
    assert (spread.var(axis=0) > 0.5 * true_spread.var(axis=0)).all()
    assert drawn.var(axis=0).sum() < 1.1 * clean.var(axis=0).sum()


ARCHITECTURES = pytest.mark.parametrize("architecture", get_args(Architecture))


@ARCHITECTURES
def test_a_model_survives_its_folder(tmp_path, architecture):
    for toml in (IMAGE, IMAGE + LABEL):
        model = fit(released(toml, num=200), replace(QUICK, architecture=architecture))
        model.save(tmp_path / "model")
        loaded = LocalModel.load(tmp_path / "model")
        assert loaded.sample(30, seed=3).equals(model.sample(30, seed=3))
        assert loaded.sampler.kind == model.sampler.kind
        assert loaded.sample(0).num_rows == 0


def test_samples_survive_files(tmp_path):
    model = fit(released(IMAGE + LABEL, num=200), QUICK)
    drawn = model.sample(9, seed=0)
    for name in ("drawn.npz", "drawn.parquet"):
        write_table(drawn, tmp_path / name, model.schema)
        back = read_table(tmp_path / name, model.schema)
        assert back.column("label").to_pylist() == drawn.column("label").to_pylist()
        np.testing.assert_array_equal(
            tensor_values(back.column("image")), tensor_values(drawn.column("image"))
        )


@ARCHITECTURES
def test_resuming_continues_bit_for_bit(tmp_path, architecture):
    release, chosen = released(IMAGE + LABEL, num=300), replace(QUICK, architecture=architecture)
    whole = fit(release, chosen)

    def press_ctrl_c(step, steps, loss):
        if step == 8:
            os.kill(os.getpid(), signal.SIGINT)

    checkpoint = tmp_path / "run.checkpoint"
    with pytest.raises(Interrupted):
        fit(release, chosen, checkpoint=checkpoint, progress=press_ctrl_c)
    resumed = fit(release, chosen, checkpoint=checkpoint, resume=True)
    assert resumed.sample(20, seed=0).equals(whole.sample(20, seed=0))
    release.save(tmp_path / "release.parquet")
    again = fit(Release.load(tmp_path / "release.parquet"), chosen)
    assert again.sample(20, seed=0).equals(whole.sample(20, seed=0))


def test_large_samples_are_drawn_in_parts(monkeypatch):
    model = fit(released(IMAGE + LABEL, num=200), QUICK)
    monkeypatch.setattr("privot.local.model._SAMPLE_NUMBERS", 36 * 64)
    assert model.sample(150, seed=0).num_rows == 150


def test_other_records_with_images_are_learned_by_the_general_loss():
    two = IMAGE + LABEL + '[columns.left_handed]\nkind = "boolean"\n'
    schema = Schema.from_toml(two)
    data = people(300) | {"left_handed": [True, False] * 150}
    randomizer = Randomizer.calibrate(schema, 40.0, mechanism="laplace", report="joint")
    assert not fits_images(randomizer)
    model = fit(randomizer.privatize(data), QUICK)
    assert model.sample(10, seed=0).column_names == ["image", "label", "left_handed"]


def test_which_records_are_learned_in_strata():
    schema = Schema.from_toml(IMAGE + LABEL)
    alone, split = Schema.from_toml(IMAGE), {"mechanism": "laplace"}
    assert fits_images(Randomizer.calibrate(schema, 4.0, **split))
    assert fits_images(Randomizer.calibrate(alone, 4.0, **split))
    assert not fits_images(Randomizer.calibrate(schema, 4.0, **split, report="joint"))
    assert not fits_images(Randomizer.calibrate(schema, 4.0))
    assert not fits_images(Randomizer.calibrate(alone, 4.0))
    assert not fits_images(Randomizer.calibrate(schema, 4.0, report_columns=1))
    noise = Laplace(1.0, 2.0**-19)
    wide = Randomizer(schema, {"image": noise, "label": RandomizedResponse(3, 1.0)})
    assert fits_images(wide)
    assert not fits_images(Randomizer.calibrate(Schema.from_toml(LABEL), 4.0))


def test_a_label_that_is_not_declared_is_refused():
    model = fit(released(IMAGE + LABEL, num=200), QUICK)
    with pytest.raises(PrivotError, match="where gives column 'label' the value 'dot'"):
        model.sample(5, where={"label": "dot"})


def made_reports(num_reports=20_000, seed=0):
    """Records of two factors around a mean, in ten coordinates, with noise of variance 4."""
    rng = torch.Generator().manual_seed(seed)
    factors = torch.linalg.qr(torch.randn(10, 2, generator=rng)).Q * torch.tensor([1.5, 1.0])
    clean = 0.3 + torch.randn(num_reports, 2, generator=rng) @ factors.T
    return clean + 2 * torch.randn(num_reports, 10, generator=rng), factors


def test_axes_are_those_of_the_clean_records():
    reports, factors = made_reports()
    mean, axes = leading_axes(reports, 4.0)
    assert axes.shape == (2, 10)
    assert float((mean - 0.3).abs().max()) < 0.08
    truth = factors @ factors.T
    assert float((axes.T @ axes - truth).norm() / truth.norm()) < 0.15
    # The reports' own covariance is far from it.
    assert float((torch.cov(reports.T) - truth).norm() / truth.norm()) > 3


def test_pure_noise_has_no_axes():
    noise = 2 * torch.randn(5000, 40, generator=torch.Generator().manual_seed(1))
    assert len(leading_axes(noise, 4.0 * 1.05)[1]) == 0


def test_outputs_start_with_the_moments():
    axes = torch.zeros(2, 6)
    axes[0, 0], axes[1, 1] = 0.1, 0.05
    mean = torch.tensor([0.2, -0.5, 0.0, 0.8, -0.8, 0.4])
    network = MLP(latent_dim=4, num_features=6, hidden=(64, 64), seed=0)
    latent = network.draw_latent(4000, torch.Generator().manual_seed(0))
    assert start_at_moments(network, latent, mean, axes) == 2
    fresh = network.draw_latent(4000, torch.Generator().manual_seed(1))
    with torch.no_grad():
        outputs = torch.tanh(network(fresh))
    assert float((outputs.mean(dim=0) - mean).abs().max()) < 0.01
    deviations = outputs.std(dim=0)
    assert deviations[:2].tolist() == pytest.approx([0.1, 0.05], rel=0.15)
    assert float(deviations[2:].max()) < 1e-4


def test_a_mean_at_the_bounds_and_more_axes_than_hidden_features():
    network = MLP(latent_dim=2, num_features=8, hidden=(4,), seed=0)
    latent = network.draw_latent(1000, torch.Generator().manual_seed(0))
    mean = torch.full((8,), -1.0)
    count = start_at_moments(network, latent, mean, 0.01 * torch.eye(8))
    assert count <= 4
    with torch.no_grad():
        assert bool(torch.isfinite(network(latent)).all())


@pytest.mark.parametrize("shape", [(1, 3), (4, 2049)])
def test_too_few_or_too_wide_reports_have_a_mean_alone(shape):
    mean, axes = leading_axes(torch.full(shape, 2.0), 1e-9)
    assert mean.tolist() == [2.0] * shape[1]
    assert axes.shape == (0, shape[1])


def test_convolutions_learn_the_images_and_their_labels():
    """A class's mean image is nearest to its own shape, by twice as much as to another's.

    The distances' ratios are .06, .13 and .09 (± .02): limits are more than ten deviations away.
    """
    chosen = replace(TRAINED, steps=150, architecture="dcgan", hidden=(32,), learning_rate=5e-3)
    model = fit(released(IMAGE + LABEL), chosen)
    for name, shape in zip(NAMES, SHAPES):
        drawn = model.sample(200, seed=0, where={"label": name})
        mean = tensor_values(drawn.column("image")).mean(axis=0)
        own, *others = sorted(np.abs(mean - each).mean() for each in SHAPES)
        assert own == np.abs(mean - shape).mean()
        assert 2 * own < others[0]


def test_convolutions_are_refused_where_there_are_no_images():
    table = Schema.from_toml('[columns.x]\nkind = "numeric"\nbounds = [0, 1]\n')
    release = Randomizer.calibrate(table, 4.0, mechanism="laplace").privatize(
        {"x": np.linspace(0, 1, 200)}
    )
    with pytest.raises(PrivotError, match="is for a column of images"):
        fit(release, replace(QUICK, estimator="generator", architecture="dcgan"))
    with pytest.raises(PrivotError, match="hidden .16, 8.: each layer doubles the sides"):
        fit(released(IMAGE), replace(QUICK, hidden=(16, 8), architecture="dcgan"))
