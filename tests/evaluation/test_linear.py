"""Linear classifiers of a model's rows: their scores are sums over columns, however told."""

import numpy as np
import pytest

import privot
from privot.evaluation import target_check as of
from privot.evaluation.prediction import area_under_curve, with_known_target
from privot.evaluation.target_check import LinearPredictor, model_moments
from privot.randomizer import Randomizer
from privot.schema import Schema

SCHEMA = Schema.from_toml("""
[columns.size]
kind = "numeric"
bounds = [0, 10]
bins = 5
[columns.kind]
kind = "categorical"
categories = ["a", "b", "c"]
[columns.rich]
kind = "boolean"
nullable = true
""")
pytest.importorskip("sklearn")


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    size = rng.uniform(0, 10, 3000)
    kind = np.array(["a", "b", "c"])[
        np.clip(size + rng.normal(0, 1, 3000), 0, 9.9).astype(int) // 4
    ]
    rich = np.where(rng.random(3000) < 0.2, None, size + rng.normal(0, 2, 3000) > 5).tolist()
    people = {"size": size, "kind": kind, "rich": rich}
    return privot.fit(Randomizer.calibrate(SCHEMA, 7.0).privatize(people), seed=0)


@pytest.mark.parametrize(("target", "classes"), [("rich", 1), ("kind", 3), ("size", 0)])
def test_moments_of_its_scores_are_those_of_rows(model, target, classes):
    learned = LinearPredictor.of(model, target, seed=1)
    assert len(learned.classes) == classes
    assert learned.is_number == (classes == 0)
    rows = model.sample(20_000, seed=2)
    codes = {n: c.encode_codes(n, rows) for n, c in SCHEMA.coded.items()}
    codes.pop(target)
    points = learned.linear_scores(codes)
    own = model_moments(model.sampler.atoms, learned.scores())
    assert own[of.SCORE] == pytest.approx(points.mean(axis=0), abs=6 * points.std() / 20_000**0.5)
    spread = (points**2).std() / 20_000**0.5
    assert own[of.SCORE_SQUARE] == pytest.approx((points**2).mean(axis=0), abs=6 * spread)
    known = 1 - rows.column(target).null_count / 20_000
    assert own[of.KNOWN] == pytest.approx(known, abs=0.02)


def test_areas_are_of_the_known(model):
    learned, rows = LinearPredictor.of(model, "rich", seed=1), model.sample(5000, seed=3)
    (area,), (share,) = learned.performance(rows)
    codes, answers = with_known_target(SCHEMA, "rich", rows)
    own = learned.linear_scores(codes)[:, 0]
    assert area == pytest.approx(area_under_curve(answers, np.stack([-own, own], axis=1)))
    assert area > 0.7
    assert share == pytest.approx((answers == learned.classes[0]).mean())
    part = learned.square_where_known(rows)
    assert 0.6 < part[0] < 0.95  # a fifth has no target


def test_a_number_is_explained(model):
    (explained,), _ = LinearPredictor.of(model, "size", seed=1).performance(
        model.sample(5000, seed=3)
    )
    assert 0.4 < explained < 0.95
