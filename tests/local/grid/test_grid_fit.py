"""A density on a grid is fitted where it serves, finds what is there, and says how it was made."""

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import wasserstein_distance

import privot
from privot import FitSettings, Randomizer, Schema, fit
from privot.core.errors import PrivotError
from privot.evaluation import sample_distance
from privot.local.deconvolution import MAX_STEPS
from privot.local.grid_channels import allowed_nodes
from privot.mechanisms import Window
from privot.randomizer.reports.counts import grid_form
from privot.schema import L2Ball

SQUARE = Schema.from_toml("""
[columns.place]
kind = "vector"
columns = ["x", "y"]
bounds = [[-1, 1], [-1, 1]]
""")
COARSE = Window(4.0, 2, 64, 6)


def towns(num, seed=0):
    rng = np.random.default_rng(seed)
    middle = np.array([[-0.5, -0.5], [0.6, 0.1], [0.0, 0.7]])[rng.choice(3, num, p=[0.5, 0.3, 0.2])]
    return (middle + 0.05 * rng.standard_normal((num, 2))).clip(-1, 1)


def table_of(points):
    return {"x": points[:, 0], "y": points[:, 1]}


def points_of(table):
    return np.stack([table.column(c).to_numpy() for c in ("x", "y")], axis=1)


@pytest.fixture(scope="module")
def release():
    return Randomizer(SQUARE, {"place": COARSE}).privatize(table_of(towns(20_000)))


@pytest.fixture(scope="module")
def model(release):
    return fit(release)


def test_towns_come_back(model, release):
    truth = towns(20_000)
    learned = points_of(model.sample(5_000, seed=0))
    # Means over nine subsamples: less the floor, the learned are off by -.034 ± .006 and the reports by
    # .224 ± .009, so both limits are eight standard deviations away.
    reports = release.reports("place")[0].clip(-1, 1)
    floor, off, sent = (
        sample_distance(points, truth, 500, repeats=9)
        for points in (towns(5_000, seed=1), learned, reports)
    )
    assert off < floor + 0.02
    assert sent > floor + 0.15


def test_it_says_how_it_was_made_and_is_the_same_again(model, release):
    made = model.made_with
    assert (made["estimator"], made["num_reports"], made["nodes"]) == ("grid", 20_000, [65, 65])
    assert 4 <= made["steps"] <= MAX_STEPS
    assert fit(release, seed=9).sampler.density.weights == pytest.approx(
        model.sampler.density.weights, abs=0
    )


def test_it_is_saved_and_loaded(model, tmp_path):
    model.save(tmp_path / "model")
    again = privot.load(tmp_path / "model")
    assert again.sampler.kind == "grid"
    assert again.sample(500, seed=3).equals(model.sample(500, seed=3))
    assert again.guarantee == model.guarantee


def test_cells_of_a_place_can_be_given(model):
    column = SQUARE.columns["place"]
    drawn = model.sample(2_000, seed=0)
    codes, counts = np.unique(column.encode_codes("place", drawn), return_counts=True)
    code = int(codes[counts.argmax()])
    given = model.sample(50, seed=1, where={"place": column.alphabet.labels[code]})
    assert (column.encode_codes("place", given) == code).all()
    assert len(given) == 50


@pytest.mark.parametrize(
    ("settings", "arguments", "words"),
    [
        (FitSettings(batch_size=9, loss="plain"), {}, "batch_size, loss would be ignored"),
        (FitSettings(estimator="grid"), {"loss": print}, "loss is a setting of generators"),
        (FitSettings(estimator="latent_classes"), {}, "needs every column reported as a code"),
    ],
)
def test_what_would_be_ignored_is_refused(release, settings, arguments, words):
    with pytest.raises(PrivotError, match=words):
        fit(release, settings, **arguments)


def test_a_generators_checkpoint_stays(release, tmp_path):
    checkpoint = tmp_path / "run.checkpoint"
    checkpoint.write_bytes(b"of a generator")
    with pytest.raises(PrivotError, match="is of a generator"):
        fit(release, checkpoint=checkpoint, resume=True)
    assert checkpoint.read_bytes() == b"of a generator"


def test_other_releases_are_not_for_a_grid():
    two = Schema.from_dict(
        SQUARE.to_dict() | {"columns": SQUARE.to_dict()["columns"] | {"sex": {"kind": "boolean"}}}
    )
    randomizer = Randomizer.calibrate(two, 4.0, mechanism="laplace")
    assert grid_form(randomizer) is None
    release = randomizer.privatize(table_of(towns(50)) | {"sex": [True, False] * 25})
    with pytest.raises(PrivotError, match="estimator 'grid' needs reports of one column"):
        fit(release, FitSettings(estimator="grid"))


def test_missing_values_come_back_with_their_share():
    schema = Schema.from_toml('columns.at = {kind = "numeric", bounds = [0, 10], nullable = true}')
    rng = np.random.default_rng(5)
    values = pa.array(rng.normal(3, 0.5, 30_000), mask=rng.random(30_000) < 0.4)
    randomizer = Randomizer(schema, {"at": Window(3.0, 1, 256, 20, nullable=True)})
    model = fit(randomizer.privatize(pa.table({"at": values})))
    assert model.made_with["estimator"] == "grid"
    drawn = model.sample(10_000, seed=0).column("at")
    assert drawn.null_count / 10_000 == pytest.approx(0.4, abs=0.03)
    assert np.median(drawn.drop_null().to_numpy()) == pytest.approx(3.0, abs=0.1)


def clusters(num, dimension, seed=0):
    rng = np.random.default_rng(seed)
    near = rng.random((num, 1)) < 0.4
    return (np.where(near, -0.5, 0.4) + 0.05 * rng.standard_normal((num, dimension))).clip(-1, 1)


def vectors(dimension, **more):
    names = [f"x{i}" for i in range(dimension)]
    fields = {"kind": "vector", "columns": names, "bounds": [[-1, 1]] * dimension}
    return Schema.from_dict({"columns": {"place": fields | more}})


def assert_learned(randomizer, dimension):
    """Less than a fifth of the reports' own error is left."""
    people = clusters(20_000, dimension)
    release = randomizer.privatize({f"x{i}": v for i, v in enumerate(people.T)})
    model = fit(release, FitSettings(estimator="grid"))
    drawn = np.stack([c.to_numpy() for c in model.sample(5_000, seed=0).columns], axis=1)
    floor = sample_distance(clusters(5_000, dimension, 1), people, 500)
    sent = sample_distance(release.reports("place")[0], people, 500)
    assert sample_distance(drawn, people, 500) < floor + 0.2 * (sent - floor)


@pytest.mark.parametrize(
    ("dimension", "mechanism", "epsilon", "delta"),
    [(2, "laplace", 5.0, None), (2, "gaussian", 20.0, 1e-5), (3, "laplace", 7.0, None)],
)
def test_noisy_places_are_learned(dimension, mechanism, epsilon, delta):
    more = {} if delta is None else {"delta": delta}
    randomizer = Randomizer.calibrate(vectors(dimension), epsilon, mechanism=mechanism, **more)
    assert_learned(randomizer, dimension)


@pytest.mark.slow
def test_windows_in_space_are_learned():
    assert_learned(Randomizer(vectors(3), {"place": Window(4.0, 3, 32, 6)}), 3)


def test_missing_places_come_back_with_their_share():
    points = clusters(20_000, 2)
    absent = np.random.default_rng(1).random(20_000) < 0.3
    randomizer = Randomizer(
        vectors(2, nullable=True), {"place": Window(4.0, 2, 64, 6, nullable=True)}
    )
    table = {f"x{i}": pa.array(v, mask=absent) for i, v in enumerate(points.T)}
    drawn = fit(randomizer.privatize(table)).sample(10_000, seed=0)
    assert drawn.column("x0").null_count / 10_000 == pytest.approx(0.3, abs=0.03)
    # W₁ of sums of coordinates, by all points, is .013 ± .003: the limit is nine standard deviations
    # away. Null places that were learned as the middle of the map would make it .27.
    found = sum(c.drop_null().to_numpy() for c in drawn.columns)
    assert wasserstein_distance(found, points.sum(axis=1)) < 0.04


def test_steps_bound_an_ascent(release):
    assert fit(release, FitSettings(steps=3)).made_with["steps"] == 3


def test_a_known_curve_is_learned_along_its_length():
    schema = Schema.from_toml("""
    [columns.place]
    kind = "vector"
    columns = ["x", "y"]
    support = [[0, 0], [3, 0], [3, 1]]
    """)
    x = np.random.default_rng(7).normal(1.0, 0.1, 5_000)
    randomizer = Randomizer.calibrate(schema, 4.0, mechanism="window")
    model = fit(randomizer.privatize({"x": x, "y": 0 * x}))
    assert model.made_with["nodes"] == [257]
    drawn = points_of(model.sample(2_000, seed=0))
    assert np.minimum(np.abs(drawn[:, 1]), np.abs(drawn[:, 0] - 3)).max() < 1e-9
    assert np.median(drawn[:, 0]) == pytest.approx(1.0, abs=0.1)
    assert np.quantile(np.abs(drawn[:, 0] - 1), 0.75) < 0.5


@pytest.mark.slow
def test_a_disk_is_left_by_nobody():
    schema = Schema.from_toml("""
    [columns.place]
    kind = "vector"
    columns = ["x", "y"]
    radius = 2
    """)
    rng = np.random.default_rng(6)
    angle = rng.uniform(0, 2 * np.pi, 5_000)
    ring = {"x": 2 * np.cos(angle), "y": 2 * np.sin(angle)}
    randomizer = Randomizer.calibrate(schema, 6.0, mechanism="window")
    drawn = points_of(fit(randomizer.privatize(ring)).sample(2_000, seed=0))
    length = np.hypot(*drawn.T)
    assert length.max() <= 2 + 1e-9
    assert np.quantile(length, 0.1) > 1.5


def test_nodes_are_those_in_the_domain_or_next_to_it():
    allowed = allowed_nodes(L2Ball(2, 5.0), 16)
    across = np.linspace(-1, 1, 17)
    length = np.hypot(across[:, None], across)
    assert allowed[length <= 1].all()
    assert not allowed[length > 1 + 2 / 16 * 2**0.5].any()
