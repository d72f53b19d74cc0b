"""The matched cost is the mechanisms' own log-likelihood, and its simulation has their law."""

import numpy as np
import pytest
import torch
from scipy import stats

from privot.local.networks.cost import LikelihoodCost
from privot.mechanisms import (
    Gaussian,
    Laplace,
    RandomizedResponse,
    SubsetSelection,
    Window,
)
from privot.randomizer import Randomizer
from privot.randomizer.reports.joint import FormDesign, JointReport
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
    reports = LikelihoodCost(release.randomizer).read(release, CPU)
    outputs = {
        "point": torch.as_tensor(points, dtype=torch.float32),
        "color": torch.as_tensor(np.log(probabilities), dtype=torch.float32),
    }
    cost = LikelihoodCost(release.randomizer)(outputs, reports).numpy()
    noisy, codes = release.reports("point")[0], release.reports("color")[0][:, 0]
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
    reports = LikelihoodCost(release.randomizer).read(release, CPU)
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
    """False-alarm rate 1e-6 each; noise that is 10 % off has p-values below that."""
    num = 30_000
    outputs = {
        "point": torch.full((num, 3), 0.25),
        "color": torch.log(torch.tensor([[0.6, 0.3, 0.1]])).expand(num, 3),
    }
    table = {n: np.full(num, 0.25) for n in "xyz"}
    table["color"] = RNG.choice(["red", "green", "blue"], num, p=[0.6, 0.3, 0.1])
    release = randomizer(noise).privatize(table)
    true = LikelihoodCost(release.randomizer).read(release, CPU)
    echo = LikelihoodCost(release.randomizer).simulate(
        outputs, true, torch.Generator().manual_seed(0)
    )
    flat = [r.values["point"].numpy().ravel() for r in (true, echo)]
    assert stats.ks_2samp(*flat).pvalue > 1e-6
    assert stats.ks_2samp(flat[0], 0.25 + (flat[1] - 0.25) * 1.1).pvalue < 1e-6
    counts = [np.bincount(r.values["color"][:, 0].numpy(), minlength=3) for r in (true, echo)]
    assert stats.chi2_contingency(np.stack(counts)).pvalue > 1e-6


CODED = Schema.from_toml("""
[columns.age]
kind = "numeric"
bounds = [0, 299]
integer = true
bins = [0, 30, 100, 160, 220, 299]
""")
CODED_MECHANISMS = [
    RandomizedResponse(5, 1.5),
    SubsetSelection(5, 0.5),
    Window.for_column(CODED.columns["age"], 1.5),
]


@pytest.mark.parametrize("mechanism", CODED_MECHANISMS, ids=lambda m: m.kind)
def test_cost_of_a_distribution_is_its_mixture_likelihood(mechanism):
    release = Randomizer(CODED, {"age": mechanism}).privatize({"age": RNG.integers(0, 300, 40)})
    p = RNG.dirichlet(np.ones(5), 30)
    model = LikelihoodCost(release.randomizer)
    outputs = {"age": torch.as_tensor(np.log(p), dtype=torch.float32)}
    cost = model(outputs, model.read(release, CPU)).numpy()
    if isinstance(mechanism, Window):
        # An oracle by enumeration: every integer, in unit coordinates, of every bin.
        x = (np.arange(300) - 149.5) / 149.5
        by_value = np.exp(
            mechanism.log_likelihood(release.reports("age")[0][None], x[:, None, None])
        )
        bins = np.searchsorted([30, 100, 160, 220], np.arange(300), side="right")
        f = np.stack([by_value[bins == v].mean(axis=0) for v in range(5)])
        tolerance = 1e-5
    else:
        reports = mechanism_reports(release, mechanism)
        f = np.exp(mechanism.log_likelihood(reports[None], np.arange(5)[:, None]))
        tolerance = 1e-5
    exact = -np.log(p @ f)
    centered = [c - c.mean(axis=0) for c in (cost, exact)]
    np.testing.assert_allclose(*centered, atol=tolerance)


def mechanism_reports(release, mechanism):
    """Reports as the mechanism made them, from the release's supports."""
    support = release.reports("age")[0]
    if isinstance(mechanism, RandomizedResponse):
        return support[:, 0]
    if isinstance(mechanism, SubsetSelection):
        return support
    return (support[:, :, None] == np.arange(5)).any(axis=1)


@pytest.mark.parametrize("mechanism", CODED_MECHANISMS, ids=lambda m: m.kind)
def test_simulated_reports_of_codes_have_the_mechanisms_law(mechanism):
    """The false-alarm rate is 1e-6."""
    num = 40_000
    p = np.array([0.4, 0.1, 0.2, 0.25, 0.05])
    clean = RNG.choice(5, num, p=p)
    # Ages spread over their bins, as a decoded code is.
    low, high = np.array([0, 30, 100, 160, 220]), np.array([30, 100, 160, 220, 300])
    ages = RNG.integers(low[clean], high[clean])
    release = Randomizer(CODED, {"age": mechanism}).privatize({"age": ages})
    model = LikelihoodCost(release.randomizer)
    true = model.read(release, CPU)
    output = {"age": torch.log(torch.tensor(p, dtype=torch.float32)).expand(num, 5)}
    echo = model.simulate(output, true, torch.Generator().manual_seed(0))
    first, second = (r.values["age"].numpy() for r in (true, echo))
    if isinstance(mechanism, Window):
        assert stats.ks_2samp(first, second).pvalue > 1e-6
        assert stats.ks_2samp(first, 1.1 * second).pvalue < 1e-6
        return
    patterns = [
        ((v[:, :, None] == np.arange(5)).any(axis=1) @ (1 << np.arange(5))) for v in (first, second)
    ]
    counts = np.stack([np.bincount(pattern, minlength=32) for pattern in patterns])
    counts = counts[:, counts.sum(axis=0) > 20]
    assert stats.chi2_contingency(counts).pvalue > 1e-6
    assert (
        stats.chi2_contingency(counts * [[1], [1]] + np.eye(*counts.shape, dtype=int) * 1500).pvalue
        < 1e-6
    )


TABLE = Schema.from_toml("""
[columns.a]
kind = "categorical"
categories = ["0", "1", "2"]
[columns.b]
kind = "boolean"
[columns.c]
kind = "numeric"
bounds = [0, 7]
integer = true
""")


def test_cost_of_a_joint_report_is_its_mixture_likelihood_over_cells():
    table = {
        "a": RNG.choice(list("012"), 50),
        "b": RNG.random(50) < 0.5,
        "c": RNG.integers(0, 8, 50),
    }
    release = Randomizer.calibrate(TABLE, 1.0, report_columns=2).privatize(table)
    model = LikelihoodCost(release.randomizer)
    p = {
        "a": RNG.dirichlet(np.ones(3), 9),
        "b": RNG.dirichlet(np.ones(2), 9),
        "c": RNG.dirichlet(np.ones(8), 9),
    }
    outputs = {n: torch.as_tensor(np.log(v), dtype=torch.float32) for n, v in p.items()}
    cost = model(outputs, model.read(release, CPU)).numpy()
    joint, answers = release.randomizer.joint, release.joint_answers
    assert (
        len(set(np.diff(answers.offsets))) > 1
    )  # sets of several sizes, so that padding is tested
    for row in range(50):
        first, second = ("abc"[c] for c, _ in joint.design.questions(answers.sheets[row]))
        cells = (p[first][:, :, None] * p[second][:, None, :]).reshape(9, -1)
        mechanism = joint.mechanism(cells.shape[1])
        chosen = answers.cells[answers.offsets[row] : answers.offsets[row + 1]]
        f = np.exp(mechanism.log_likelihood(chosen[None], np.arange(cells.shape[1])))
        exact = -np.log(cells @ f)
        np.testing.assert_allclose(
            cost[:, row] - cost[:, row].mean(), exact - exact.mean(), atol=1e-5
        )


def test_cost_of_a_question_sums_the_atoms_of_each_code():
    """Forms of one and of two columns, one of them in eight codings."""
    schema = Schema.from_toml("""
[columns.n]
kind = "numeric"
bounds = [0, 100]
nullable = true
[columns.b]
kind = "boolean"
""")
    codings = {n: tuple(a.size for a in c.codings) for n, c in schema.coded.items()}
    joint = JointReport(FormDesign(codings, ((0,), (0, 1)), (1, 2)), 1.0)
    randomizer = Randomizer(schema, {}, joint=joint)
    release = randomizer.privatize({"n": [*RNG.random(59) * 100, None], "b": RNG.random(60) < 0.5})
    model, atoms = LikelihoodCost(randomizer), [c.atoms[1] for c in schema.coded.values()]
    p = [RNG.dirichlet(np.ones(own.shape[1]), 9) for own in atoms]
    outputs = {n: torch.as_tensor(np.log(v), dtype=torch.float32) for n, v in zip("nb", p)}
    cost = model(outputs, model.read(release, CPU)).numpy()
    answers = release.joint_answers
    assert {len(joint.design.questions(sheet)) for sheet in answers.sheets} == {1, 2}
    for row, sheet in enumerate(answers.sheets):
        cells = np.ones((9, 1))
        for (column, coding), size in zip(joint.design.questions(sheet), joint.design.shape(sheet)):
            law = p[column] @ np.eye(size)[atoms[column][coding]]
            cells = (cells[:, :, None] * law[:, None, :]).reshape(9, -1)
        mechanism = joint.mechanism(cells.shape[1])
        chosen = answers.cells[answers.offsets[row] : answers.offsets[row + 1]]
        f = np.exp(mechanism.log_likelihood(chosen[None], np.arange(cells.shape[1])))
        exact = -np.log(cells @ f)
        np.testing.assert_allclose(
            cost[:, row] - cost[:, row].mean(), exact - exact.mean(), atol=1e-5
        )


def test_simulated_joint_reports_have_the_mechanisms_law():
    num = 40_000
    table = {
        "a": RNG.choice(list("012"), num, p=[0.7, 0.2, 0.1]),
        "b": np.ones(num, bool),
        "c": np.full(num, 5),
    }
    release = Randomizer.calibrate(TABLE, 2.0, report_columns=2).privatize(table)
    model = LikelihoodCost(release.randomizer)
    true = model.read(release, CPU)
    outputs = {
        "a": torch.log(torch.tensor([[0.7, 0.2, 0.1]])).expand(num, 3),
        "b": torch.log(torch.tensor([[0.0, 1.0]])).expand(num, 2),
        "c": torch.log(torch.eye(8)[5:6]).expand(num, 8),
    }
    echo = model.simulate(outputs, true, torch.Generator().manual_seed(0))
    (sheets, cells), (echo_sheets, echo_cells) = true.joint, echo.joint
    assert (echo_sheets == sheets).all()
    numbers = [(c < model.joint.total).sum(dim=(1, 2)) for c in (cells, echo_cells)]
    assert (numbers[0] == numbers[1]).all()
    for sheet in range(3):  # false-alarm rate 1e-6 each
        rows = sheets == sheet
        counts = np.stack(
            [
                np.bincount(
                    (c[rows] * torch.tensor([14, 1])).sum(dim=2).ravel().numpy(),
                    minlength=200,
                )
                for c in (cells, echo_cells)
            ]
        )
        counts = counts[:, counts.sum(axis=0) > 20]
        assert stats.chi2_contingency(counts).pvalue > 1e-6


def test_simulated_laplace_noise_is_finite_whatever_is_drawn(monkeypatch):
    """A uniform number of exactly 0 comes up once in 10⁷ draws, and ended whole fits."""
    model = LikelihoodCost(randomizer(Laplace(1.0, 2.0**-20)))
    for value in (0.0, 1 - 2.0**-24):
        monkeypatch.setattr(
            torch, "rand", lambda *shape, value=value, **_: torch.full(*shape, value)
        )
        report = model.channels["point"].simulate(torch.zeros(4, 3), torch.Generator())
        assert torch.isfinite(report).all()


def test_a_mixture_s_likelihood_is_the_mean_of_its_parts():
    table = {
        "a": RNG.choice(list("012"), 50),
        "b": RNG.random(50) < 0.5,
        "c": RNG.integers(0, 8, 50),
    }
    outputs = {
        name: torch.log_softmax(torch.randn(9, size, dtype=torch.float64), dim=1)
        for name, size in (("a", 3), ("b", 2), ("c", 8))
    }
    for columns in (1, 2, 3):
        release = Randomizer.calibrate(TABLE, 1.0, report_columns=columns).privatize(table)
        model = LikelihoodCost(release.randomizer)
        reports = model.read(release, CPU)
        direct = np.log(9) - torch.logsumexp(-model(outputs, reports), dim=0).numpy()
        np.testing.assert_allclose(model.mixture(outputs, reports).numpy(), direct, atol=1e-6)
