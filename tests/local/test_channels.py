"""Costs are the mechanisms' own likelihoods, of points that may be missing as well; and simulations."""

import numpy as np
import pytest
import torch
from scipy import stats

import privot
from privot.local import FitSettings
from privot.local.networks.cost import PointChannel, channel_of, simulate_sets
from privot.mechanisms import Laplace
from privot.randomizer import Randomizer
from privot.schema import Schema


@pytest.mark.parametrize("own", [0.25, 0.9])
def test_sets_hold_the_truth_with_its_probability_and_others_alike(own):
    num, size = 20_000, 3
    truth = torch.full((num,), 2)
    sets = simulate_sets(truth, torch.full((num,), 6), size, own, torch.Generator().manual_seed(0))
    assert sets.shape == (num, size)
    member = torch.zeros(num, 6).scatter_(1, sets, 1.0)
    assert (member.sum(dim=1) == size).all()
    expected = torch.full((6,), (size - own) / 5)
    expected[2] = own
    torch.testing.assert_close(member.mean(dim=0), expected, atol=0.02, rtol=0)


def test_alphabets_and_sets_of_several_sizes_are_padded():
    truth, values, size = torch.tensor([0, 3]), torch.tensor([2, 5]), torch.tensor([1, 4])
    sets = simulate_sets(truth, values, size, torch.ones(2), torch.Generator())
    assert sets[0].tolist() == [0, -1, -1, -1]
    assert len(set(sets[1].tolist())) == 4
    assert 3 in sets[1]


def test_noise_of_a_point_has_a_channel_of_points():
    schema = Schema.from_toml('[columns.x]\nkind = "numeric"\nbounds = [0, 1]')
    channel = channel_of(Laplace(1.0, 2.0**-19), schema, "x")
    assert isinstance(channel, PointChannel)
    costs = channel.cost(torch.tensor([[0.0], [0.5]]), torch.tensor([[1.0]]))
    assert float(costs[0] - costs[1]) == pytest.approx(0.5)


def schema(**column):
    home = {"kind": "vector", "columns": ["x", "y"], "nullable": True} | column
    return Schema.from_dict({"columns": {"home": home}})


BOX = schema(bounds=[[0, 10], [-4, 4]])
BALL = schema(radius=3.0, non_negative=True)


@pytest.mark.parametrize("mechanism", ["laplace"])
@pytest.mark.parametrize("declared", [BALL, schema(radius=2.0)])
def test_cost_is_the_mixture_s_exact_likelihood(declared, mechanism):
    randomizer = Randomizer.calibrate(declared, 3.0, mechanism=mechanism)
    rng = np.random.default_rng(0)
    x = np.where(rng.random(40) < 0.4, np.nan, rng.uniform(0, 1, 40))
    release = randomizer.privatize({"x": x, "y": rng.uniform(0, 1, 40)})
    noise = randomizer.mechanisms["home"]
    channel = channel_of(noise, declared, "home")
    reports, reported = channel.read(release, "home")
    assert reported.all()
    assert set(reports[:, 2].tolist()) == {0.0, 1.0}
    domain = declared.point_column("home").domain
    points = domain.unit.project(rng.normal(0, 0.5, (7, 2)))
    logits = rng.normal(0, 2, (7, 1))
    output = torch.as_tensor(np.hstack([points, logits]), dtype=torch.float32)
    ours = channel.cost(output, reports).numpy()
    exact, _ = release.reports("home")
    missing = 1 / (1 + np.exp(-logits))
    present = np.exp(noise.log_likelihood(exact, np.hstack([points, 0 * logits])[:, None]))
    absent = np.exp(noise.log_likelihood(exact, np.array([0.0, 0.0, 1.0])))
    truth = -np.log(missing * absent + (1 - missing) * present)
    gap = ours - truth
    np.testing.assert_allclose(gap, np.broadcast_to(gap[0], gap.shape), atol=2e-3)
    # Power: a curator who took the flag for the truth would be far off.
    naive = -np.log(np.where(exact[:, 2] == 1, absent, present))
    off = ours - naive
    assert np.abs(off - off[0]).max() > 0.5


def test_simulated_reports_have_the_mechanism_s_law():
    """False-alarm rates are 1e-6 each of four distributions, and 4e-8 of the share of flags."""
    randomizer = Randomizer.calibrate(BOX, 2.0, mechanism="laplace")
    noise = randomizer.mechanisms["home"]
    channel = channel_of(noise, BOX, "home")
    output = torch.tensor([[0.5, -0.25, -1.0]]).expand(100_000, 3)
    simulated = channel.simulate(output, torch.Generator().manual_seed(0)).numpy()
    missing = np.random.default_rng(1).random(100_000) < 1 / (1 + np.e)
    records = np.where(missing[:, None], [0.0, 0.0, 1.0], [0.5, -0.25, 0.0])
    real = noise.privatize(records)
    for flag in (0, 1):
        for axis in (0, 1):
            one, other = (each[each[:, 2] == flag, axis] for each in (simulated, real))
            assert stats.ks_2samp(one, other).pvalue > 1e-6
    assert abs(simulated[:, 2].mean() - real[:, 2].mean()) < 5.5 * np.sqrt(0.5 / 100_000)
    # Power: reports of people who all have a home would be distinguished.
    present = noise.privatize(np.tile([0.5, -0.25, 0.0], (100_000, 1)))
    assert stats.ks_2samp(simulated[:, 0], present[:, 0]).pvalue < 1e-6


def test_missing_rates_and_places_are_learned_and_nulls_are_restored(tmp_path):
    """Half of the women, a tenth of the men have no home; homes are in two towns."""
    declared = Schema.from_dict(
        {
            "columns": {
                "home": {
                    "kind": "vector", "columns": ["x", "y"], "nullable": True,
                    "bounds": [[0, 10], [0, 10]],
                },
                "sex": {"kind": "categorical", "categories": ["F", "M"]},
            }
        }
    )  # fmt: skip
    rng = np.random.default_rng(0)
    women = rng.random(10_000) < 0.5
    missing = rng.random(10_000) < np.where(women, 0.5, 0.1)
    towns = np.where(rng.random((10_000, 1)) < 0.5, 2.0, 8.0) + rng.normal(0, 0.2, (10_000, 2))
    x = np.where(missing, np.nan, towns[:, 0])
    people = {"x": x, "y": towns[:, 1], "sex": np.where(women, "F", "M")}
    randomizer = Randomizer.calibrate(declared, 24.0, report="joint", mechanism="laplace")
    release = randomizer.privatize(people)
    settings = FitSettings(steps=400, batch_size=256, learning_rate=1e-2)
    model = privot.fit(release, settings, seed=0)
    model.save(tmp_path / "model")
    drawn = privot.load(tmp_path / "model").sample(20_000, seed=1)
    again, sex = drawn["x"].to_numpy(), np.array(drawn["sex"].to_pylist())
    gone = drawn["x"].is_null().to_numpy()
    assert (gone == drawn["y"].is_null().to_numpy()).all()
    assert gone[sex == "F"].mean() == pytest.approx(0.5, abs=0.08)
    assert gone[sex == "M"].mean() == pytest.approx(0.1, abs=0.08)
    # The stand-in is the middle of the map, and nobody lives there. Whoever takes it for a home learns
    # .277 ± .020 of them there and is .86 ± .09 off in W₁; the flag's likelihood gives .075 ± .005,
    # and .31 ± .026: the limits are 15 and seven standard deviations away.
    there = again[~gone]
    assert (np.abs(there - 5) < 1.5).mean() < 0.15
    assert np.mean(there > 5) == pytest.approx(0.5, abs=0.08)
    assert stats.wasserstein_distance(there, towns[:, 0]) < 0.5
