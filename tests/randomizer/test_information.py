"""Expected errors: those of simulated reports, never below them; wrong formulas are rejected.

Simulations are seeded: they hold or not for good.
"""

import math
from itertools import combinations

import numpy as np
import pytest

from privot.core.errors import PrivotError
from privot.randomizer.information import joint_errors, split_errors
from privot.randomizer.reports.joint import FormDesign, JointReport, largest_fitting


class Simulation:
    """Reports drawn by numpy, and the estimate of the whole table by weighted least squares.

    The unknowns are the probabilities of all cells of all columns; every combination's report
    frequencies are a linear function of them, weighted by their inverse covariance at the uniform
    distribution. Nothing of the plan's formulas is used.
    """

    def __init__(self, sizes, report, k, epsilon):
        self.sizes, self.k, self.report = sizes, k, report
        self.combinations = list(combinations(range(len(sizes)), k))
        cells = np.indices(sizes).reshape(len(sizes), -1)
        self.cells = cells
        self.designs, self.offsets, self.weights, self.laws = [], [], [], []
        for form in self.combinations:
            shape = [sizes[column] for column in form]
            total = math.prod(shape)
            member = np.zeros((total, cells.shape[1]))
            member[np.ravel_multi_index(cells[list(form)], shape), range(cells.shape[1])] = 1
            if report == "joint":
                odds = math.exp(epsilon)
                width = max(1, round(total / (1 + odds)))
                own = odds * width / (odds * width + total - width)
                other = (width - own) / (total - 1)
                self.designs.append((own - other) * member)
                self.offsets.append(other)
                self.weights.append(total * (total - 1) / (width * (total - width)))
                self.laws.append((width, own))
            else:
                odds = math.exp(epsilon / k)
                law = np.ones((1, 1))
                for size in shape:
                    law = np.kron(law, (1 + (odds - 1) * np.eye(size)) / (odds + size - 1))
                self.designs.append(law @ member)
                self.offsets.append(0.0)
                self.weights.append(total)
                self.laws.append(law)

    def frequencies(self, index, codes, rng):
        """How often each cell is named, of the reports of one combination."""
        form = list(self.combinations[index])
        shape = [self.sizes[column] for column in form]
        total = math.prod(shape)
        truth = np.ravel_multi_index(codes[form], shape)
        if self.report == "split":
            drawn = np.zeros(total)
            for cell in range(total):
                drawn += rng.multinomial(int((truth == cell).sum()), self.laws[index][:, cell])
            return drawn / len(truth)
        width, own = self.laws[index]
        inside = rng.random(len(truth)) < own
        # The true cell comes first if it is in, last if not; the others in random order.
        priority = rng.random((len(truth), total))
        priority[np.arange(len(truth)), truth] = np.where(inside, -1.0, 2.0)
        chosen = np.argpartition(priority, width - 1, axis=1)[:, :width]
        return np.bincount(chosen.ravel(), minlength=total) / len(truth)

    def estimate(self, table, people, rng):
        """The table of all cells, from the reports of people drawn from `table`."""
        records = self.cells[:, rng.choice(table.size, people, p=table)]
        drawn = rng.integers(len(self.combinations), size=people)
        rows, values = [], []
        for index in range(len(self.combinations)):
            codes = records[:, drawn == index]
            root = math.sqrt(codes.shape[1] * self.weights[index])
            rows.append(root * self.designs[index])
            values.append(root * (self.frequencies(index, codes, rng) - self.offsets[index]))
        # All probabilities add up to one, which no report doubts.
        rows.append(1e6 * np.ones((1, table.size)))
        values.append([1e6])
        return np.linalg.lstsq(np.vstack(rows), np.concatenate(values), rcond=1e-12)[0]

    def errors(self, table, people, repetitions, seed):
        """Mean total variation over columns, and over pairs of columns."""
        rng = np.random.default_rng(seed)
        one, two = [], []
        for _ in range(repetitions):
            wrong = (self.estimate(table, people, rng) - table).reshape(self.sizes)
            axes = range(len(self.sizes))
            one.append([self._distance(wrong, {a}) for a in axes])
            two.append([self._distance(wrong, set(pair)) for pair in combinations(axes, 2)])
        return np.mean(one), np.mean(two)

    def _distance(self, wrong, axes):
        dropped = tuple(axis for axis in range(len(self.sizes)) if axis not in axes)
        return np.abs(wrong.sum(axis=dropped)).sum() / 2


def joint(sizes, k, epsilon, people):
    design = FormDesign.uniform({str(i): (size,) for i, size in enumerate(sizes)}, k)
    return joint_errors(design, epsilon, people)


def planned(sizes, report, k, epsilon, people):
    one, two = (joint if report == "joint" else split_errors)(sizes, k, epsilon, people)
    return one.mean(), two[np.triu_indices(len(sizes), 1)].mean()


SETTINGS = [
    ((3, 4, 5), "joint", 2, 1.0),
    ((3, 4, 5), "joint", 2, 4.0),
    ((3, 4, 5), "joint", 3, 2.0),
    ((2, 2, 3, 4), "joint", 3, 3.0),
    ((3, 4, 5), "split", 2, 3.0),
    ((2, 2, 3, 4), "split", 3, 6.0),
]


@pytest.mark.parametrize(("sizes", "report", "k", "epsilon"), SETTINGS)
def test_the_error_of_uniform_records_is_the_plan(sizes, report, k, epsilon):
    table = np.full(math.prod(sizes), 1 / math.prod(sizes))
    measured = Simulation(sizes, report, k, epsilon).errors(table, 5_000, 100, seed=7)
    expected = planned(sizes, report, k, epsilon, 5_000)
    assert measured[0] == pytest.approx(expected[0], rel=0.08)
    assert measured[1] == pytest.approx(expected[1], rel=0.05)


def test_one_column_a_person():
    sizes = (3, 4, 5)
    table = np.full(60, 1 / 60)
    one, _ = Simulation(sizes, "joint", 1, 1.0).errors(table, 5_000, 80, seed=1)
    expected, pairs = joint(sizes, 1, 1.0, 5_000)
    assert one == pytest.approx(expected.mean(), rel=0.08)
    assert np.isinf(pairs[np.triu_indices(3, 1)]).all()


def test_neither_the_other_columns_nor_the_share_of_pairs_may_be_forgotten():
    """The test above has the power to refuse the two obvious wrong formulas."""
    sizes, epsilon, people = (3, 4, 5), 2.0, 5_000
    table = np.full(60, 1 / 60)
    _, measured = Simulation(sizes, "joint", 3, epsilon).errors(table, people, 30, seed=2)
    pairs = [(3, 4), (3, 5), (4, 5)]
    # As if a report of three columns had the information on a pair of a report of the pair alone.
    forgotten = np.mean([planned(pair, "joint", 2, epsilon, people)[1] for pair in pairs])
    assert forgotten < 0.75 * measured
    _, measured = Simulation(sizes, "joint", 2, epsilon).errors(table, people, 30, seed=2)
    everyone = np.mean([planned(pair, "joint", 2, epsilon, people)[1] for pair in pairs])
    assert everyone < 0.75 * measured


@pytest.mark.parametrize(("report", "k", "epsilon"), [("joint", 2, 4.0), ("split", 3, 9.0)])
def test_no_population_has_a_larger_error_than_planned(report, k, epsilon):
    sizes = (3, 4, 5)
    rng = np.random.default_rng(0)
    simulation = Simulation(sizes, report, k, epsilon)
    limit = planned(sizes, report, k, epsilon, 5_000)
    for concentration in (1.0, 0.1, 0.01):
        table = rng.dirichlet(np.full(60, concentration))
        measured = simulation.errors(table, 5_000, 100, seed=3)
        assert (np.array(measured) <= 1.05 * np.array(limit)).all()
    assert measured[1] < 0.9 * limit[1]  # nearly one cell: far from the worst


def test_maximum_likelihood_without_a_model_is_no_better():
    """EM over all cells, from tables of randomized response over pairs, at the uniform distribution."""
    sizes, epsilon, people, rng = (2, 3, 3), 4.0, 30_000, np.random.default_rng(4)
    simulation = Simulation(sizes, "joint", 2, epsilon)
    assert all(width == 1 for width, _ in simulation.laws)
    table = np.full(18, 1 / 18)
    two = []
    for _ in range(40):
        records = simulation.cells[:, rng.choice(18, people, p=table)]
        drawn = rng.integers(3, size=people)
        laws, counts = [], []
        for index in range(3):
            codes = records[:, drawn == index]
            counts.append(simulation.frequencies(index, codes, rng) * codes.shape[1])
            laws.append(simulation.designs[index] + simulation.offsets[index])
        law, count = np.vstack(laws), np.concatenate(counts)
        p = table.copy()
        for _ in range(400):
            p *= law.T @ (count / (law @ p)) / people
        wrong = (p - table).reshape(sizes)
        two.append([np.abs(wrong.sum(axis=axis)).sum() / 2 for axis in range(3)])
    assert np.mean(two) == pytest.approx(planned(sizes, "joint", 2, epsilon, people)[1], rel=0.08)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "k", "epsilon"), [((6, 7, 8), 2, 1.0), ((6, 7, 8), 3, 5.0), ((4, 5, 3, 6), 2, 2.0)]
)
def test_larger_alphabets(sizes, k, epsilon):
    table = np.full(math.prod(sizes), 1 / math.prod(sizes))
    measured = Simulation(sizes, "joint", k, epsilon).errors(table, 60_000, 30, seed=5)
    assert measured == pytest.approx(planned(sizes, "joint", k, epsilon, 60_000), rel=0.06)


def test_the_mechanism_of_devices_has_the_error_too():
    """One pair's supports alone, without what other combinations tell of the main effects.

    An error varies by .23 of its mean, the mean of 40 by .037, so the false-alarm rate is 7e-8.
    """
    sizes, people = {"a": 3, "b": 4, "c": 5}, 6_000
    design = FormDesign.uniform({name: (size,) for name, size in sizes.items()}, 2)
    report, rng = JointReport(design, 2.0), np.random.default_rng(6)
    errors = []
    for _ in range(40):
        codes = [rng.integers(size, size=people) for size in sizes.values()]
        answers = report.privatize(np.stack(codes, axis=1))
        drew = answers.sheets == 0
        named = np.repeat(drew, np.diff(answers.offsets))
        own, other = report.mechanism(12).probabilities
        often = np.bincount(answers.cells[named], minlength=12) / drew.sum()
        errors.append(np.abs((often - other) / (own - other) - 1 / 12).sum() / 2)
    _, alone = joint((3, 4), 2, 2.0, people // 3)
    assert np.mean(errors) == pytest.approx(alone[0, 1], rel=0.2)


def test_alphabets_too_large_for_a_joint_report_name_the_largest_k_that_fits():
    sizes = {f"c{i}": 200 for i in range(6)}
    with pytest.raises(PrivotError, match="report_columns 3 makes up to 8000000 cells.*at most 2"):
        FormDesign.uniform({name: (size,) for name, size in sizes.items()}, 3)
    assert largest_fitting([300, 300, 2]) == 1


def test_forms_of_several_lengths_have_the_errors_of_their_shares():
    """Half the people report one column of two, half both: information adds up."""
    design = FormDesign({"a": (3,), "b": (4,)}, ((0,), (1,), (0, 1)), (1, 1, 2))
    one, two = joint_errors(design, 2.0, 8000)
    alone, _ = joint((3, 4), 1, 2.0, 4000)
    both, pair = joint((3, 4), 2, 2.0, 4000)
    assert one**-2 == pytest.approx(alone**-2 + both**-2)
    own = pair[0, 1] ** 2 - (both**2).sum()  # of the interaction alone
    assert two[0, 1] ** 2 == pytest.approx((one**2).sum() + own)
