"""Floors of error: never above what is possible, and not far below it."""

import math
import re
from itertools import combinations

import numpy as np
import pytest
import scipy

from privot import Randomizer, Schema
from privot.evaluation import floors
from privot.evaluation.floors import floor_of_codes, floor_of_points
from privot.mechanisms import SubsetSelection, Window
from privot.randomizer import plan_reports

HOME = Schema.from_toml(
    'columns.home = {kind = "vector", columns = ["x", "y"], bounds = [[-1, 1], [-1, 1]]}'
).columns["home"]
AGE = Schema.from_toml('columns.age = {kind = "numeric", bounds = [0, 100]}').columns["age"]


def boolean(epsilon: float) -> Randomizer:
    return Randomizer.calibrate(Schema.from_toml('columns.sick = {kind = "boolean"}'), epsilon)


def test_a_boolean_cannot_err_by_less_and_nearly_so_much():
    """The exact risk of the clipped estimate, at its worst share, is between the floor and twice it."""
    people, epsilon = 400, 1.0
    floor = floor_of_codes(boolean(epsilon), people)
    keep = math.exp(epsilon) / (1 + math.exp(epsilon))
    counts, risks = np.arange(people + 1), []
    for share in np.linspace(0, 1, 101):
        law = scipy.stats.binom.pmf(counts, people, share * keep + (1 - share) * (1 - keep))
        estimate = ((counts / people - (1 - keep)) / (2 * keep - 1)).clip(0, 1)
        risks.append(law @ np.abs(estimate - share))
    assert floor < max(risks) < 2 * floor


def test_all_private_mechanisms_include_the_best_one():
    """No random extreme mechanism tells bits apart better than the bound, and a known one as well."""
    rng, bits, share = np.random.default_rng(0), 8, 0.3
    for epsilon in (0.5, 1.0, 3.0):
        most = float(floors._private_hellinger(epsilon, np.array(bits), np.array(share)))
        size = SubsetSelection(2 * bits, epsilon).subset_size
        sets = [np.eye(2 * bits)[list(s)].sum(axis=0) for s in combinations(range(2 * bits), size)][
            :: 1 if size < 4 else 37
        ]
        random = (rng.random((40, 2 * bits)) < rng.uniform(0.05, 0.6, (40, 1))).astype(float)
        uniform = np.full(2 * bits, 1 / (2 * bits))
        best = 0.0
        for inside in (*sets, *random):
            g = 1 + math.expm1(epsilon) * inside
            g = g / (g @ uniform)
            moved = np.array([g[2 * j] - g[2 * j + 1] for j in range(bits)]) * share / bits
            best = max(best, float((moved**2).mean() / 4 / (1 - share)))
        assert best <= most * (1 + 1e-9)
        assert best > 0.75 * most


def test_two_groups_are_told_apart_no_better_than_the_bound_says(monkeypatch):
    """Against the probabilities of all reports, and the exact Hellinger distance of both laws."""
    window, people = Window.for_domain(HOME.domain, 2.0), 20_000
    form = window.point_form(HOME)
    rng, used = np.random.default_rng(3), []
    confusion = floors._confusion
    monkeypatch.setattr(
        floors, "_confusion", lambda h, *rest: used.append(float(h)) or confusion(h, *rest)
    )
    cells = rng.integers(0, [[[100, form.steps + 1]], [[200, form.steps + 1]]], (2, 40, 2))
    cells[1, :, 0] += 56  # the groups are at least 156 − 99 cells apart
    weights = rng.dirichlet(np.ones(80)).reshape(2, 40)
    found, _ = floors._floor_of_groups(form, people, cells, weights, 57 * 2 / form.steps)
    axis = np.arange(-form.radius, form.steps + form.radius + 1)
    laws, parts = [], weights.sum(axis=1)
    for place, weight in zip(cells, weights / parts[:, None], strict=True):
        first, second = ((axis - place[:, None, i]) ** 2 for i in (0, 1))
        near = first[:, :, None] + second[:, None, :] <= form.radius**2
        laws.append(np.tensordot(weight, np.where(near, form.inside, form.outside), 1))
    shares = []
    for goal, bound in zip(floors._GOALS, used, strict=True):
        low, high = 0.0, 1.0
        for _ in range(40):  # the δ whose exact H² is the goal's
            share = (low + high) / 2
            plus, minus = (
                (parts[0] - s * share / 2) * laws[0] + (parts[1] + s * share / 2) * laws[1]
                for s in (1, -1)
            )
            exact = ((np.sqrt(plus) - np.sqrt(minus)) ** 2).sum()
            low, high = (share, high) if exact * people < goal else (low, share)
        assert plus.sum() == pytest.approx(1)
        assert bound * people == pytest.approx(goal, rel=0.05)
        shares.append(share)
    # With exact distances the floor would be larger, but by little.
    best = max(
        (57 * 2 / form.steps) ** 2
        * share
        / 4
        * max(map(float, confusion(np.array(goal / people), people, 2)))
        for share, goal in zip(shares, floors._GOALS, strict=True)
    )
    assert 0.9 * math.sqrt(best) < found < 1.01 * math.sqrt(best)


@pytest.mark.parametrize("column", [AGE, HOME], ids=["numbers", "places"])
def test_floors_fall_with_people_and_epsilon_and_rise_to_all_laws(column):
    found = {
        (epsilon, people): floor_of_points(
            Window.for_domain(column.domain, epsilon), column, people
        )
        for epsilon, people in ((1.0, 10_000), (1.0, 90_000), (4.0, 10_000))
    }
    for floor in found.values():
        assert 0 < floor.error <= floor.worst
        assert floor.private > 0
    for name in ("error", "worst", "private"):
        values = {key: getattr(floor, name) for key, floor in found.items()}
        assert values[1.0, 90_000] < values[1.0, 10_000]
        assert values[4.0, 10_000] < values[1.0, 10_000]


def test_who_knows_all_but_one_share_errs_by_the_floor_and_not_by_much_more():
    """Numbers at the two ends, in shares that are uniform on an interval, which is known.

    Limits stand five deviations from the mean error of 4 000 repetitions. The floor is at least half.
    """
    people, ends = 2_000, (np.array([[-1.0], [1.0]]), np.full(2, 0.5))
    form = Window.for_domain(AGE.domain, 1.0).point_form(AGE)
    floor, share = floors._floor_of_numbers(form, people, *ends)
    cells = np.arange(-form.radius, form.steps + form.radius + 1)
    groups = [np.abs(cells - c) <= form.radius for c in (0, form.steps)]
    laws = [np.where(group, form.inside, form.outside) for group in groups]
    slope = laws[1][groups[1]].sum() - laws[0][groups[1]].sum()
    rng = np.random.default_rng(5)
    truth = rng.uniform(-share, share, 4_000)
    chances = [
        [((1 + s) / 2 * laws[1] + (1 - s) / 2 * laws[0])[g].sum() for g in groups] for s in truth
    ]
    chances = np.column_stack([chances, 1 - np.sum(chances, axis=1)])
    counts = rng.multinomial(people, chances)
    estimate = ((counts[:, 1] - counts[:, 0]) / people / slope).clip(-share, share)
    errors = np.abs(estimate - truth)  # W₁ of two laws is the difference of θ δ
    limit = 5 * errors.std() / math.sqrt(len(errors))
    assert floor < errors.mean() + limit
    assert floor > 0.5 * errors.mean()


def test_laws_near_a_reference_are_as_far_from_it_as_the_floor_says(monkeypatch):
    """A band is emptied by moves within the stated W₂, and as many people as stated change sides."""
    rng = np.random.default_rng(1)
    towns = (
        rng.normal(0, 0.02, (5_000, 2))
        + rng.uniform(-0.8, 0.8, (5, 2))[rng.integers(5, size=5_000)]
    )
    window, families = Window.for_domain(HOME.domain, 4.0), []
    steps, of_groups = window.point_form(HOME).steps, floors._floor_of_groups

    def observed(form, people, cells, weights, distance):
        families.append((cells, weights, *of_groups(form, people, cells, weights, distance)))
        return families[-1][2:]

    monkeypatch.setattr(floors, "_floor_of_groups", observed)
    near = floor_of_points(window, HOME, 100_000, (towns, np.full(5_000, 2e-4)))
    (moved_cells, _), sides, error, share = families[0]
    moved, crossing = map(float, re.findall(r"W2 = (\S+) at most.*up to (\S+)%", near.near)[0])
    exact = math.sqrt((((moved_cells * 2 / steps - 1 - towns) ** 2).sum(axis=1)).mean())
    assert 0.5 * moved < exact <= moved <= 0.15
    assert share / 2 <= crossing / 100 < 0.6 * share
    assert crossing / 100 <= sides.sum(axis=1).min() * 1.1  # nobody crosses who is not there
    uniform = floor_of_points(window, HOME, 100_000)
    assert near.error == error < near.worst == uniform.worst


def test_floors_of_tables_are_below_what_a_plan_expects():
    schema = Schema.from_toml("""
    columns.a = {kind = "categorical", categories = ["x", "y", "z", "u", "v"]}
    columns.b = {kind = "boolean"}
    columns.c = {kind = "categorical", categories = ["x", "y", "z", "u"]}
    """)
    randomizer = Randomizer.calibrate(schema, 2.0)
    one_way = floor_of_codes(randomizer, 50_000)
    best = plan_reports(schema, 2.0, 50_000).table.recommended
    assert best.one_way / 3 < one_way < best.one_way
    assert floor_of_codes(Randomizer.calibrate(schema, 2.0, report="split"), 50_000) is None


def test_near_a_law_of_one_place_there_is_no_floor():
    schema = Schema.from_toml(
        'columns.home = {kind = "vector", columns = ["x", "y"], bounds = [[0, 1], [0, 1]]}'
    )
    mechanism = Randomizer.calibrate(schema, epsilon=4.0).mechanisms["home"]
    law = np.zeros((1, 2)), np.ones(1)
    assert floor_of_points(mechanism, schema.columns["home"], 1000, law) is None
