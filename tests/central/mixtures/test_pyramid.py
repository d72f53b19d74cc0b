"""A curator's places: cells of all levels, the masses nearest to them, maps that are learned."""

import numpy as np
import pyarrow as pa
import pytest
from scipy.optimize import minimize

import privot
from privot.central import CentralModel, SumSettings, fit
from privot.central.fitting import kind_of_records
from privot.central.pyramid import PlaceDensity, PlaceFit, Pyramid
from privot.central.sums import Budget, NoisySums, sensitivity
from privot.core.errors import PrivotError
from privot.schema import Schema

NAMES = ["x", "y", "z"]


def schema(dimension=2, nullable=False):
    bounds = [[0, 10 * (axis + 1)] for axis in range(dimension)]
    place = {"kind": "vector", "columns": NAMES[:dimension], "bounds": bounds}
    return Schema.from_dict({"columns": {"home": place | {"nullable": nullable}}})


def people(count=20_000, dimension=2, seed=0):
    """Seven in ten near (2, 4, …), the others near (8, 16, …)."""
    rng = np.random.default_rng(seed)
    near = np.where(rng.random(count) < 0.7, 0.2, 0.8)[:, None]
    shares = near + 0.03 * rng.standard_normal((count, dimension))
    return {name: shares[:, axis] * 10 * (axis + 1) for axis, name in enumerate(NAMES[:dimension])}


def by_cell(pyramid, points):
    """Exact sums of points in [−1, 1]^d."""
    starts = np.cumsum(pyramid.sizes) - pyramid.sizes
    positions = pyramid.positions((points, np.zeros(len(points), int)))
    return np.bincount((positions + starts).ravel(), minlength=pyramid.width)[None].astype(float)


@pytest.mark.parametrize(("dimension", "depth"), [(1, 4), (2, 3), (3, 2)])
def test_cells_are_dyadic_boxes_within_their_parents(dimension, depth):
    pyramid, rng = Pyramid(dimension, depth), np.random.default_rng(0)
    points = np.vstack([rng.uniform(-1, 1, (500, dimension)), np.full((1, dimension), 1.0)])
    positions = pyramid.positions((points, np.zeros(len(points), int)))
    for level, column in zip(pyramid.levels, positions.T, strict=True):
        corner = np.minimum(np.floor((points + 1) / 2 * 2**level), 2**level - 1)
        same = (corner[:, None] == corner).all(axis=2)
        assert ((column[:, None] == column) == same).all()
    children = np.array(pyramid.sizes[1:]) // np.array(pyramid.sizes[:-1])
    assert (positions[:, 1:] // children == positions[:, :-1]).all()


def test_masses_without_noise_are_the_counts():
    rng = np.random.default_rng(0)
    pyramid, points = Pyramid(2, 4), rng.uniform(-1, 0.3, (700, 2))
    exact = by_cell(pyramid, points)
    mass, missing = pyramid.masses(NoisySums(exact, 1.0), 700)
    assert mass == pytest.approx(exact[0, -256:])
    assert missing == 0


def test_upward_estimates_are_the_least_squares_of_the_whole_tree():
    """Masses far from 0: nothing is cut, and top and children are the constrained optimum."""
    rng = np.random.default_rng(1)
    pyramid = Pyramid(2, 3)
    answer = by_cell(pyramid, rng.uniform(-1, 1, (64_000, 2)))
    answer += 20 * rng.standard_normal(answer.shape)
    rows = [np.kron(np.eye(4**level), np.ones(4 ** (3 - level))) for level in (1, 2, 3)]
    design, ones = np.vstack(rows), np.ones((1, 64))
    # Least squares with the sum known, by its normal equations.
    system = np.block([[design.T @ design, ones.T], [ones, np.zeros((1, 1))]])
    wanted = np.linalg.solve(system, np.append(design.T @ answer[0], 64_000.0))[:64]
    assert wanted.min() > 0
    assert pyramid.masses(NoisySums(answer, 20.0), 64_000)[0] == pytest.approx(wanted)


def test_children_are_the_nearest_that_sum_to_their_parent():
    rng = np.random.default_rng(2)
    answer = 3 * rng.standard_normal((1, 4)) + 1
    mass, _ = Pyramid(2, 1).masses(NoisySums(answer, 1.0), 5)
    equal = {"type": "eq", "fun": lambda x: x.sum() - 5}
    found = minimize(
        lambda x: ((x - answer[0]) ** 2).sum(), np.full(4, 1.25), bounds=[(0, None)] * 4,
        constraints=equal, tol=1e-12,
    )  # fmt: skip
    assert mass == pytest.approx(found.x, abs=1e-4)


def test_levels_together_err_less_than_the_finest_alone():
    """Of a concentrated law, in the mass of quarters and of cells; the same noise on every count."""
    rng = np.random.default_rng(3)
    pyramid = Pyramid(2, 5)
    exact = by_cell(pyramid, np.clip(0.1 * rng.standard_normal((5000, 2)) - 0.5, -1, 1))
    noisy = exact + 30 * rng.standard_normal(exact.shape)
    mass, _ = pyramid.masses(NoisySums(noisy, 30.0), 5000)
    assert mass.min() >= 0
    assert mass.sum() == pytest.approx(5000)
    cells, truth = noisy[0, -1024:], exact[0, -1024:]
    for size in (1, 256):
        errors = [
            np.abs((each - truth).reshape(-1, size).sum(axis=1)).sum() for each in (mass, cells)
        ]
        assert errors[0] < 0.2 * errors[1]


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_maps_are_learned(dimension):
    table = people(dimension=dimension)
    model = fit(table, schema(dimension), epsilon=1.0)
    assert model.law.kind == "pyramid"
    assert model.guarantee.epsilon <= 1
    assert model.releases == 1
    drawn = model.sample(20_000, seed=0)
    for axis, name in enumerate(NAMES[:dimension]):
        apart = np.abs(np.sort(drawn[name].to_numpy()) - np.sort(table[name]))
        assert apart.mean() < 0.015 * 10 * (axis + 1)


def test_missing_places_are_a_cell_of_their_own():
    table = people()
    for name in ("x", "y"):
        table[name][:5000] = np.nan
    table = {name: pa.array(values, from_pandas=True) for name, values in table.items()}
    model = fit(table, schema(nullable=True), epsilon=1.0)
    drawn = model.sample(20_000, seed=0)
    assert drawn["x"].null_count / 20_000 == pytest.approx(0.25, abs=0.02)
    assert (drawn["x"].is_null().to_numpy() == drawn["y"].is_null().to_numpy()).all()
    absent = model.sample(50, seed=0, where={"home": None})
    assert absent["x"].null_count == 50


def test_models_come_back_and_draw_under_conditions(tmp_path):
    model = fit(people(), schema(), epsilon=1.0)
    model.save(tmp_path / "model")
    back = privot.load(tmp_path / "model")
    assert isinstance(back, CentralModel)
    assert back.guarantee == model.guarantee
    assert back.sample(100, seed=1).equals(model.sample(100, seed=1))
    cell = model.schema.coded["home"].labels[0]
    corner = model.sample(30, seed=0, where={"home": list(model.schema.coded["home"].labels[:64])})
    assert corner.num_rows == 30
    assert corner["x"].to_numpy().max() <= 2.5
    with pytest.raises(PrivotError, match="probability"):
        PlaceDensity(np.eye(4)[3:] * np.eye(4)[:, 3:], 0.0).pieces(
            model.records, 1, np.random.default_rng(0), {"home": cell}
        ).__next__()


def test_depth_follows_public_numbers():
    fits = [
        PlaceFit(schema(), SumSettings(), Budget(epsilon, 1e-6, 200_000))
        for epsilon in (0.01, 0.1, 1)
    ]
    assert [each.query.depth for each in fits] == [5, 6, 7]
    budget = Budget(1.0, 1e-6, 200_000)
    line, space = (PlaceFit(schema(d), SumSettings(), budget).query for d in (1, 3))
    assert (line.levels, space.levels) == (range(2, 11, 2), range(1, 6))


def test_what_noise_would_drown_is_refused_and_costs_nothing():
    with pytest.raises(PrivotError, match=r"quarters of the map; give [\d,]+ rows") as refused:
        fit(people(60), schema(), epsilon=0.1)
    enough = int(str(refused.value).split("give ")[1].split(" rows")[0].replace(",", ""))
    assert PlaceFit(schema(), SumSettings(), Budget(0.1, 1e-5, enough)).plan().uses == 1
    with pytest.raises(PrivotError, match="would move"):
        PlaceFit(schema(), SumSettings(), Budget(0.1, 1e-5, int(0.95 * enough))).plan()


def test_sums_of_others_are_read_by_their_own_noise():
    """Two servers, say: the same query, more noise, and the estimate of whoever adds it."""
    fitted = PlaceFit(schema(), SumSettings(), Budget(1.0, 1e-6, 20_000))
    points, _ = fitted.records.encode(pa.table(people()))
    stddev = np.sqrt(2) * sensitivity(fitted.query) / fitted.plan().ratios[0]
    exact = by_cell(fitted.query, points)
    noisy = exact + stddev * np.random.default_rng(0).standard_normal(exact.shape)
    law = fitted.law(NoisySums(noisy, stddev))
    half = law.shares.shape[0] // 2
    assert law.shares[:half, :half].sum() == pytest.approx(0.7, abs=0.03)


def test_one_place_in_a_box_is_such_a_record():
    place = schema().to_dict()["columns"]["home"]
    for columns, wanted in (
        ({"home": place}, "places"),
        ({"home": place | {"nullable": True}}, "places"),
        ({"home": place | {"bins": 4}}, "tables"),
        ({"home": place, "sick": {"kind": "boolean"}}, "tables"),
        ({"home": {"kind": "vector", "columns": ["x", "y"], "radius": 1.0}}, "tables"),
        ({"age": {"kind": "numeric", "bounds": [0, 1]}}, "tables"),
    ):
        assert kind_of_records(Schema.from_dict({"columns": columns})) == wanted
