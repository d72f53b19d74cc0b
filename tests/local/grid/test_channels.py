"""What a grid's channel says of reports is what the mechanism says of them, report by report."""

import numpy as np
import pytest

from privot import Randomizer, Schema
from privot.local.grid_channels import (
    BallChannel,
    GridDensity,
    cell_shares,
    noise_channel,
    window_channel,
)
from privot.mechanisms import Laplace, Window
from privot.randomizer import Release, count

SQUARE = """
[columns.place]
kind = "vector"
columns = ["x", "y"]
bounds = [[0, 1], [0, 1]]
"""


def release_of(toml, mechanism, data):
    schema = Schema.from_toml(toml)
    name = next(iter(schema.columns))
    return Randomizer(schema, {name: mechanism}).privatize(data), name


def places(num, seed=0):
    rng = np.random.default_rng(seed)
    return {"x": rng.beta(2, 5, num), "y": rng.random(num)}


@pytest.mark.parametrize("shape", ["ball", "product"])
def test_windows_have_the_probabilities_that_the_mechanism_states(shape):
    mechanism = Window(2.0, 2, 8, 3, shape)
    release, name = release_of(SQUARE, mechanism, places(50))
    form = mechanism.point_form(release.schema.columns[name])
    channel = window_channel(count(release), form, 4)
    weights = np.random.default_rng(1).dirichlet(np.ones(25))
    shares = cell_shares(8, 4)
    cells = np.einsum("ak,bl,kl->ab", shares, shares, weights.reshape(5, 5)).ravel()
    units = np.arange(-3, 12) / 4 - 1
    reports, records = (
        np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
        for axis in (units, np.arange(9) / 4 - 1)
    )
    law = np.exp(mechanism.log_likelihood(reports[:, None], records[None])) @ cells
    assert channel.forward(weights) == pytest.approx(law, rel=1e-9)
    assert channel.counts.sum() == 50
    values, _ = release.reports(name)
    own = (np.rint((values + 1) * 4).astype(int) + 3) @ [15, 1]
    assert (np.flatnonzero(channel.counts) == np.unique(own)).all()


def test_missing_values_have_a_symbol():
    form = Window(1.0, 1, 16, 5, nullable=True).point_form(None)
    channel = BallChannel(np.zeros(28), form, 16)
    law = channel.forward(np.append(np.full(17, 0.5 / 17), 0.5))
    assert law.sum() == pytest.approx(1)
    missing, present = (channel.forward(weights) for weights in np.eye(18)[[17, 3]])
    assert missing[-1] / present[-1] == pytest.approx(np.exp(1.0), rel=1e-6)
    assert law[-1] == pytest.approx((missing[-1] + present[-1]) / 2)
    assert missing[:-1] == pytest.approx(np.full(27, form.outside))
    ratios = np.random.default_rng(0).random(28)
    assert channel.back(ratios)[-1] == pytest.approx(missing @ ratios)


def channels():
    ball, product = Window(2.0, 2, 16, 3), Window(2.0, 2, 16, 3, "product")
    for mechanism in (ball, product):
        release, name = release_of(SQUARE, mechanism, places(30))
        form = mechanism.point_form(release.schema.columns[name])
        yield window_channel(count(release), form, 8), 81
    laplace = Laplace(0.5, 2.0**-19)
    release, name = release_of(SQUARE, laplace, places(30))
    yield noise_channel(count(release), laplace.form(release.schema.columns[name]), 8), 81


def test_back_is_the_transpose_and_probabilities_add_up():
    rng = np.random.default_rng(2)
    for channel, size in channels():
        weights, ratios = rng.dirichlet(np.ones(size)), rng.random(channel.counts.size)
        law = channel.forward(weights)
        assert law @ ratios == pytest.approx(weights @ channel.back(ratios))
        assert law.sum() == pytest.approx(1)
        assert law.min() > 0


def test_noisy_points_fall_into_bins_as_often_as_it_says():
    laplace = Laplace(0.7, 2.0**-19)
    density = GridDensity(np.random.default_rng(3).dirichlet(np.ones(9)))
    people = density.sample(100_000, np.random.default_rng(4))[:, 0]
    toml = '[columns.at]\nkind = "vector"\ncolumns = ["at"]\nbounds = [[-1, 1]]'
    release, name = release_of(toml, laplace, {"at": people})
    assert isinstance(release, Release)
    channel = noise_channel(count(release), laplace.form(release.schema.columns[name]), 8)
    expected = 100_000 * channel.forward(density.weights)
    # Bins are as wide as the finest grid's spacings: 32 of them and a tail are one cell here.
    ends = [0, 1, *range(33, 258, 32), 257]
    counted, expected = (np.add.reduceat(each, ends) for each in (channel.counts, expected))
    assert ((counted - expected) ** 2 / expected).sum() < 35  # χ² of 9 degrees
