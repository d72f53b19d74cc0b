"""Classifiers by noisy gradients: how far one record moves a round, what is learned, what is refused."""

import itertools
import warnings

import numpy as np
import pytest
from scipy.stats import norm

from central.declared_images import image_schema, image_table
from laws.model import LearnedLaws
from privot.central import SumSettings, fit, fit_classifier
from privot.central.classifiers import linear
from privot.central.classifiers.linear import Features, Gradients, Products
from privot.central.sums import contributions, sensitivity, zero_sums
from privot.core.errors import PrivotError
from privot.models import Checkpoint
from privot.privacy.ledger import RepeatedRecords
from privot.schema import Schema

TABLE = Schema.from_dict({
    "columns": {
        "town": {"kind": "categorical", "categories": ["a", "b", "c"]},
        "age": {"kind": "numeric", "bounds": [0, 100]},
        "sick": {"kind": "boolean"},
    }
})  # fmt: skip
PLACES = Schema.from_dict({
    "columns": {
        "where": {"kind": "vector", "columns": list("wxyz"), "bounds": [[-2, 2]] * 4},
        "sick": {"kind": "boolean"},
    }
})  # fmt: skip


def people(count=4000, seed=0):
    """Old people of town a, and young ones of the others, are sick, but for one in ten."""
    rng = np.random.default_rng(seed)
    town, age = rng.choice(list("abc"), count), rng.uniform(0, 100, count)
    sick = (age + 30 * (town == "a") > 65) ^ (rng.random(count) < 0.1)
    return {"town": town, "age": age, "sick": sick}


def scores(model, table, label="sick"):
    return (model.predict(table) == table[label]).mean()


def factors(count, width, num_labels, seed=0):
    """Features of norm 1 in integer steps, and labels; every feature vector also with its opposite."""
    rng = np.random.default_rng(seed)
    z = linear.to_steps(linear._unit(rng.standard_normal((count, width))))
    return np.concatenate([z, -z]), rng.integers(num_labels, size=2 * count)


@pytest.mark.parametrize("strength", [0.0, 3.0, 1e6])
def test_no_record_moves_a_gradient_farther_than_its_sensitivity(strength):
    """Every record beside every other, under small and certain scores; the farthest are opposite."""
    records = factors(60, 5, 3)
    query = Gradients(strength * np.random.default_rng(1).standard_normal((3, 5)))
    added = contributions(query, records).astype(float)
    lengths = np.linalg.norm(added, axis=1)
    farthest = np.linalg.norm(added[:, None] - added, axis=2).max()
    assert lengths.max() <= sensitivity(query, "zero_out") == pytest.approx(linear.LENGTH**2)
    assert farthest <= sensitivity(query) == pytest.approx(2 * linear.LENGTH**2)
    if strength == 1e6:  # scores are certain, and many of them wrong
        assert farthest > 0.9 * sensitivity(query)


def test_no_record_moves_products_farther_than_their_sensitivity():
    records = factors(60, 5, 3)
    added = contributions(Products(5), records).astype(float)
    farthest = np.linalg.norm(added[:, None] - added, axis=2).max()
    assert 0.9 * sensitivity(Products(5)) < farthest <= sensitivity(Products(5))
    assert np.linalg.norm(added, axis=1).max() <= sensitivity(Products(5), "zero_out")


def test_a_gradient_sums_what_each_record_adds_and_no_longer_record():
    x, labels = factors(300, 4, 3)
    x[7] = 32_000  # longer than any feature vector
    query = Gradients(np.random.default_rng(1).standard_normal((3, 4)))
    total = zero_sums(query)
    query.add(total, (x, labels))
    slots, vectors = query.answer((x, labels))
    assert (total[0] == vectors.sum(axis=0)).all()
    assert not vectors[7].any()
    assert not slots.any()
    assert vectors[8].any()


@pytest.mark.parametrize("neighboring", ["replace_one", "zero_out"])
def test_all_rounds_together_have_the_promised_delta(tmp_path, monkeypatch, neighboring):
    """δ(ε) of noise as large as each release states, with Δ of longest and opposite records."""
    monkeypatch.setattr(Checkpoint, "save", lambda self, state: stored.update(state))
    stored = {}
    model = fit_classifier(people(), TABLE, label="sick", epsilon=2.0, neighboring=neighboring)
    noise = [float(stored[f"stddev_{t}"]) for t in range(len(stored) // 2)]
    length, factor = linear.LENGTH**2, {"replace_one": (2**0.5, 2), "zero_out": (1, 1)}[neighboring]
    mu = np.sqrt(sum((f * length / s) ** 2 for f, s in zip((factor[0], *[factor[1]] * 99), noise)))
    epsilon = model.guarantee.epsilon
    delta = norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
    assert len(noise) == model.plan.uses
    assert 0.99e-5 < delta <= 1e-5
    assert 1.99 < epsilon <= 2
    assert model.guarantee.neighboring == neighboring


def test_a_table_is_learned_and_shuffled_labels_are_not():
    """Nine of ten labels follow from the rest; two of five people are sick in the mean."""
    table = people()
    shuffled = table | {"sick": np.random.default_rng(1).permutation(table["sick"])}
    learned, nothing = (
        fit_classifier(t, TABLE, label="sick", epsilon=3.0) for t in (table, shuffled)
    )
    fresh = people(seed=1)
    assert scores(learned, fresh) > 0.85
    assert scores(nothing, fresh) < 0.7
    assert learned.predict_proba(fresh).sum(axis=1) == pytest.approx(1)
    assert (
        learned.classes[learned.predict_proba(fresh).argmax(axis=1)] == learned.predict(fresh)
    ).all()


def test_vectors_are_learned_by_their_products():
    """Records outside a ball are of the other label, which no linear rule of coordinates knows."""
    rng = np.random.default_rng(0)
    points = rng.normal(0, 0.7, (6000, 4))
    table = {**dict(zip("wxyz", points.T)), "sick": np.linalg.norm(points, axis=1) > 1.2}
    assert scores(fit_classifier(table, PLACES, epsilon=5.0), table) > 0.9


def bars(count=3000, seed=0):
    """Images of one bar at a random place, upright or level, and which of both."""
    rng = np.random.default_rng(seed)
    images, level = np.zeros((count, 12, 12)), rng.random(count) < 0.5
    for image, place, row in zip(images, rng.integers(1, 11, count), level, strict=True):
        (image if row else image.T)[place] = 1
    return image_table(images + rng.uniform(0, 0.3, images.shape), level)


def test_images_are_learned_by_their_edges():
    images = bars(seed=1)
    model = fit_classifier(bars(), image_schema((12, 12), 2), epsilon=5.0)
    assert (model.predict(images) == images["label"].to_numpy()).mean() > 0.95
    assert (model.predict(images.drop_columns(["label"])) == model.predict(images)).all()


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 9, 40), (1, 2, 2), (1, 1, 1)])
def test_features_have_norm_1_and_depend_on_one_record(shape):
    images = np.random.default_rng(0).random((6, *shape)).astype(np.float32)
    images[0] = 0
    features = Features(image_schema((*shape[1:], shape[0]), 2), "label")
    x = features.features(images)
    assert np.linalg.norm(x, axis=1) == pytest.approx(1)
    assert features.features(images[3:4]) == pytest.approx(x[3:4])
    images[2, :, 0, 0] = 1
    clipped = features.features(images[2:3])
    images[2, :, 0, 0] = 1e38  # beyond the bounds, as a far pixel may be
    assert features.features(images[2:3]) == pytest.approx(clipped)
    assert x.shape[1] > 1


def test_gradients_fall_into_the_cells_of_their_orientation():
    """An edge from dark to bright, from left to right: orientation 0 of 8, in the cells it crosses."""
    image = np.zeros((1, 1, 8, 8), np.float32)
    image[..., 2:] = 1
    cells = linear._oriented(image[:, 0], 4)
    assert cells.shape == (1, 8, 2, 2)
    assert cells[0, 0] == pytest.approx(np.array([[0.5, 0], [0.5, 0]]))
    assert not cells[0, 1:].any()
    turned = linear._oriented(image[:, 0].swapaxes(1, 2), 4)
    assert turned[0, 2] == pytest.approx(cells[0, 0].T)


def stop_after(monkeypatch, rounds):
    count = itertools.count(1)

    class Stopping(Gradients):
        def add(self, total, records):
            if next(count) > rounds:
                raise KeyboardInterrupt
            super().add(total, records)

    monkeypatch.setattr(linear, "Gradients", Stopping)


def test_a_stopped_run_goes_on_with_its_records_and_labels_alone(tmp_path, monkeypatch):
    table, path = people(), tmp_path / "run"
    given = {"schema": TABLE, "label": "sick", "epsilon": 3.0, "checkpoint": path}
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        stop_after(patch, 3)
        fit_classifier(table, **given)
    for other in (table | {"sick": ~table["sick"]}, table | {"age": 99 - table["age"]}):
        with pytest.raises(PrivotError, match="other records"):
            fit_classifier(other, **given, resume=True)
    with pytest.raises(PrivotError, match="label"):
        fit_classifier(table, **given | {"label": "town"}, resume=True)
    first = Checkpoint(path, {}, True)
    model = fit_classifier(table, **given, resume=True)
    assert scores(model, table) > 0.85
    assert first.path.exists()
    path.unlink()
    with pytest.raises(PrivotError, match="this run is finished"):
        fit_classifier(table, **given, resume=True)


def test_synthetic_records_and_a_classifier_have_one_account():
    table = people(seed=5)
    fit(table, TABLE, epsilon=1.0, method=SumSettings(classes=2))
    with pytest.warns(RepeatedRecords, match="used before"):
        fit_classifier(table, TABLE, label="sick", epsilon=3.0)


@pytest.mark.parametrize(
    ("schema", "label", "message"),
    [
        (TABLE, None, "label is None: name the column of categories to predict, one of town, sick"),
        (TABLE, "age", "label is 'age'"),
        (TABLE, "height", "label is 'height'"),
        (image_schema((4, 4)), None, "are no labeled images"),
    ],
)
def test_labels_that_cannot_be_are_named(schema, label, message):
    with pytest.raises(PrivotError, match=message) as refused:
        fit_classifier(people(10), schema, label=label, epsilon=1.0)
    assert "\n" not in str(refused.value)


def test_a_value_that_is_not_declared_is_refused_in_one_line():
    table = people(2000)
    table["town"][700] = "z"
    with warnings.catch_warnings(), pytest.raises(PrivotError, match="town") as refused:
        warnings.simplefilter("error")
        fit_classifier(table, TABLE, label="town", epsilon=3.0)
    assert "\n" not in str(refused.value)


def test_noise_that_would_hide_all_labels_is_refused():
    with pytest.raises(PrivotError, match=r"would hide the labels; give [\d,]+ records"):
        fit_classifier(people(200), TABLE, label="sick", epsilon=0.1)


def test_who_may_differ_is_one_of_two():
    with pytest.raises(PrivotError, match="neighboring"):
        fit_classifier(people(2000), TABLE, label="sick", epsilon=3.0, neighboring="local")


class TestLinearClassifier(LearnedLaws):
    @pytest.fixture(scope="class")
    def model(self):
        return fit_classifier(people(2000), TABLE, label="sick", epsilon=3.0)

    def test_what_is_loaded_predicts_the_same(self, model, tmp_path):
        again = self.again(model, tmp_path)
        assert (again.predict_proba(people(50)) == model.predict_proba(people(50))).all()

    def test_a_missing_column_is_named(self, model):
        with pytest.raises(PrivotError, match=r"columns \['age'\] are missing"):
            model.predict({"town": ["a"]})
