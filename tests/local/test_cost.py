"""The matched cost is the mechanisms' own log-likelihood, and its simulation has their law."""

import numpy as np
import pytest
import torch
from scipy import stats

from privot.local import LikelihoodCost
from privot.local.cost import Reports
from privot.mechanisms import Gaussian, Laplace, Mechanism, RandomizedResponse
from privot.release import Randomizer
from privot.schema import Schema

SCHEMA = Schema.from_toml("""
[columns.point]
kind = "vector"
columns = ["x", "y", "z"]
bounds = [[-1, 1], [-1, 1], [-1, 1]]
[columns.color]
kind = "categorical"
categories = ["red", "green", "blue"]
""")
RNG = np.random.default_rng(0)
CPU = torch.device("cpu")


def randomizer(noise, columns=None):
    mechanisms = {"point": noise, "color": RandomizedResponse(3, 1.5)}
    return Randomizer(SCHEMA, mechanisms, columns, delta=1e-6 if noise.kind == "gaussian" else 0.0)


@pytest.mark.parametrize(
    "noise", [Laplace(0.7, 2.0**-20), Gaussian(0.7, 2.0**-20)], ids=lambda m: m.kind
)
def test_cost_is_minus_log_likelihood_up_to_a_constant_of_the_report(noise):
    points = RNG.uniform(-1, 1, (20, 3))
    probabilities = RNG.dirichlet(np.ones(3), 20)
    table = {
        "x": points[:, 0], "y": points[:, 1], "z": points[:, 2],
        "color": RNG.choice(["red", "green", "blue"], 20),
    }  # fmt: skip
    release = randomizer(noise).privatize(table)
    reports = Reports.of(release, CPU)
    outputs = {
        "point": torch.as_tensor(points, dtype=torch.float32),
        "color": torch.as_tensor(np.log(probabilities), dtype=torch.float32),
    }
    cost = LikelihoodCost(release.randomizer)(outputs, reports).numpy()
    noisy, codes = release.reports("point")[0], release.reports("color")[0]
    # Reports were stored in the table's units and read back: onto the grid again.
    noisy = np.rint(noisy / noise.grid) * noise.grid
    response = release.randomizer.mechanisms["color"]
    exact = -noise.log_likelihood(noisy[None], points[:, None])
    f = np.exp(response.log_likelihood(codes[None], np.arange(3)[:, None]))  # (category, report)
    exact -= np.log(probabilities @ f)
    centered = [c - c.mean(axis=0) for c in (cost, exact)]
    np.testing.assert_allclose(*centered, atol=2e-4)


def test_a_column_that_was_not_reported_adds_nothing():
    table = {n: RNG.uniform(-1, 1, 200) for n in "xyz"} | {"color": ["red"] * 200}
    release = randomizer(Laplace(0.7, 2.0**-20), columns=1).privatize(table)
    reports = Reports.of(release, CPU)
    outputs = {
        "point": torch.rand(5, 3),
        "color": torch.log_softmax(torch.randn(5, 3), dim=1),
    }
    model = LikelihoodCost(release.randomizer)
    cost = model(outputs, reports)
    changed = model(outputs | {"point": outputs["point"] + 0.1}, reports)
    reported = torch.as_tensor(release.reports("point")[1])
    assert 0 < reported.sum() < 200
    assert (cost != changed)[:, reported].any(dim=0).all()
    assert (cost == changed)[:, ~reported].all()


@pytest.mark.parametrize(
    "noise", [Laplace(0.7, 2.0**-20), Gaussian(0.7, 2.0**-20)], ids=lambda m: m.kind
)
def test_simulated_reports_have_the_mechanisms_law(noise):
    num = 30_000
    outputs = {
        "point": torch.full((num, 3), 0.25),
        "color": torch.log(torch.tensor([[0.6, 0.3, 0.1]])).expand(num, 3),
    }
    table = {n: np.full(num, 0.25) for n in "xyz"}
    table["color"] = RNG.choice(["red", "green", "blue"], num, p=[0.6, 0.3, 0.1])
    release = randomizer(noise).privatize(table)
    true = Reports.of(release, CPU)
    echo = LikelihoodCost(release.randomizer).simulate(
        outputs, true, torch.Generator().manual_seed(0)
    )
    flat = [r.values["point"].numpy().ravel() for r in (true, echo)]
    assert stats.ks_2samp(*flat).pvalue > 1e-6
    assert stats.ks_2samp(flat[0], 0.25 + (flat[1] - 0.25) * 1.1).pvalue < 1e-6
    counts = [np.bincount(r.values["color"].numpy(), minlength=3) for r in (true, echo)]
    assert stats.chi2_contingency(np.stack(counts)).pvalue > 1e-6


def test_a_mechanism_without_a_likelihood_is_refused():
    class Unknown(RandomizedResponse, kind=""):
        pass

    assert issubclass(Unknown, Mechanism)
    broken = randomizer(Laplace(1.0, 2.0**-20))
    object.__setattr__(broken, "mechanisms", broken.mechanisms | {"color": Unknown(3, 1.0)})
    with pytest.raises(ValueError, match="mechanism Unknown has no likelihood here: use one of"):
        LikelihoodCost(broken)
