"""Train on synthetic, test on real: near ½ for what cannot be told, near 1 for what can."""

import functools

import numpy as np
import pyarrow as pa
import pytest

from privot.core.errors import PrivotError
from privot.evaluation import prediction
from privot.evaluation.prediction import area_under_curve, predict_label, predict_target
from privot.schema import Schema

SCHEMA = Schema.from_toml("""
[columns.kind]
kind = "categorical"
categories = ["a", "b", "c"]
[columns.size]
kind = "numeric"
bounds = [0, 10]
nullable = true
[columns.color]
kind = "categorical"
categories = ["red", "green"]
[columns.rich]
kind = "boolean"
nullable = true
""")
ensemble = pytest.importorskip("sklearn.ensemble")


@pytest.fixture(scope="module", autouse=True)
def _few_trees():
    """Classifiers of 20 trees instead of 100: enough for targets that are copies, or follow a number."""
    name = "HistGradientBoostingClassifier"
    few = functools.partial(getattr(ensemble, name), max_iter=20)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ensemble, name, few)
        yield


def records(num, seed, copied=True, kinds=3):
    """Kind follows size, up to noise; wealth is color's copy, or an independent coin."""
    rng = np.random.default_rng(seed)
    size = rng.uniform(0, 10, num)
    kind = np.clip(size + rng.normal(0, 1, num), 0, 9.99) // 3.4
    color = rng.random(num) < 0.5
    rich = color if copied else rng.random(num) < 0.5
    kind = np.minimum(kind, kinds - 1).astype(int)
    return pa.table(
        {
            "kind": np.array(["a", "b", "c"])[kind],
            "size": pa.array(size, mask=rng.random(num) < 0.1),
            "color": np.where(color, "red", "green"),
            "rich": pa.array(rich, mask=rng.random(num) < 0.1),
        }
    )


def test_a_copy_is_told_and_a_coin_is_not():
    told = predict_target(SCHEMA, records(400, 0), records(400, 1), "rich")
    for score in told.scores:
        assert score.synthetic == score.real == 1
    assert told.num_real == 400 - records(400, 1).column("rich").null_count
    guessed = predict_target(
        SCHEMA, records(400, 0, copied=False), records(400, 1, copied=False), "rich"
    )
    for score in guessed.scores:
        assert 0.38 < score.synthetic < 0.62
        assert 0.38 < score.real < 0.62


def test_what_the_synthetic_table_does_not_know_is_not_learned_from_it():
    told = predict_target(SCHEMA, records(400, 0, copied=False), records(400, 1), "rich")
    assert [score.classifier for score in told.scores] == [
        "logistic regression", "gradient boosting"
    ]  # fmt: skip
    for score in told.scores:
        assert score.real == 1
        assert score.synthetic < 0.95


def test_more_classes_than_two_and_one_that_synthetic_records_lack():
    whole = predict_target(SCHEMA, records(200, 0), records(200, 1), "kind").scores
    lacking = predict_target(SCHEMA, records(200, 0, kinds=2), records(200, 1), "kind").scores
    for all_three, two in zip(whole, lacking):
        assert all_three.synthetic > 0.85
        assert all_three.real > 0.85
        # A third of the weight falls to guessing.
        assert 0.6 < two.synthetic < all_three.synthetic - 0.05


def test_a_single_class_of_synthetic_records_is_a_guess():
    told = predict_target(SCHEMA, records(100, 0, kinds=1), records(100, 1), "kind")
    assert [score.synthetic for score in told.scores] == [0.5, 0.5]


def test_repeats_by_its_seed():
    told = [records(60, seed, copied=False) for seed in (0, 1)]
    first, second = (predict_target(SCHEMA, *told, "rich", seed=5) for _ in range(2))
    assert first == second


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (
            "size",
            r"target 'size' is numeric: name a categorical or boolean one of \['kind', 'color'",
        ),
        ("town", "target 'town' is not in the schema"),
    ],
)
def test_refused_targets(target, message):
    with pytest.raises(PrivotError, match=message):
        predict_label(SCHEMA, records(20, 0), records(20, 1), target)


def test_refused_tables():
    with pytest.raises(PrivotError, match="'kind' has 1 values in 50 real records"):
        predict_target(SCHEMA, records(50, 0), records(50, 1, kinds=1), "kind")
    with pytest.raises(PrivotError, match="target 'town' is not in the schema"):
        predict_target(SCHEMA, records(20, 0), records(20, 1), "town")
    alone = Schema.from_toml('[columns.rich]\nkind = "boolean"')
    with pytest.raises(PrivotError, match="'rich' is the only column"):
        predict_target(alone, *[pa.table({"rich": [True, False] * 10})] * 2, "rich")


def test_says_what_to_install(monkeypatch):
    monkeypatch.setattr(prediction, "find_spec", lambda name: None)
    with pytest.raises(PrivotError, match=r"pip install 'privot\[evaluate\]'"):
        predict_target(SCHEMA, records(20, 0), records(20, 1), "kind")


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_an_area_weighs_each_class_against_the_rest(classes):
    rng = np.random.default_rng(classes)
    truth = rng.integers(0, classes, 200)
    scores = rng.dirichlet(np.ones(classes), 200).round(1)  # ties
    expected = np.average(
        [_pairs_in_order(scores[truth == k, k], scores[truth != k, k]) for k in range(classes)],
        weights=np.bincount(truth),
    )
    assert area_under_curve(truth, scores) == pytest.approx(expected)


def _pairs_in_order(own, rest):
    """The share of pairs in which the class has the higher score, ties counting half."""
    gap = own[:, None] - rest
    return ((gap > 0) + (gap == 0) / 2).mean()


def test_two_classes_agree_and_constant_scores_know_nothing():
    truth = np.array([0, 1, 1, 0, 1])
    score = np.array([0.1, 0.4, 0.8, 0.5, 0.9])
    both = area_under_curve(truth, np.stack([1 - score, score], axis=1))
    assert both == pytest.approx(5 / 6)
    assert area_under_curve(truth, np.zeros((5, 2))) == 0.5
    assert area_under_curve(np.zeros(5, dtype=int), np.zeros((5, 2))) == 0.5
