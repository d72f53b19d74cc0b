"""A pilot's model says where bins should be; all reports are learned from together."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import privot
from commands import privot as run
from commands import typed
from given_classes import fit_four
from privot.core.errors import PrivotError
from privot.forecast.fits import with_dependence
from privot.local import pair_weights, refine
from privot.randomizer import weight_pairs
from privot.schema.schema import Promise

SCHEMA = privot.Schema.from_toml("""
    [columns.paid]
    kind = "numeric"
    bounds = [0, 100000]
    [columns.member]
    kind = "boolean"
""")


def people(n, seed):
    rng = np.random.default_rng(seed)
    member = rng.random(n) < 0.5
    return {"paid": np.exp(rng.normal(np.where(member, 6.0, 7.5), 0.6)), "member": member}


@pytest.fixture(scope="module")
def pilot():
    """Reports of the first 4 000 of 20 000, and their model."""
    first = {name: values[:4_000] for name, values in people(20_000, 0).items()}
    release = privot.Randomizer.calibrate(SCHEMA, 4.0).privatize(first)
    return release, privot.fit(release)


def distance(first, second):
    """Kolmogorov and Smirnov's."""
    grid = np.union1d(first, second)
    shares = [np.searchsorted(np.sort(x), grid, side="right") / len(x) for x in (first, second)]
    return np.abs(shares[0] - shares[1]).max()


def test_two_phases_find_the_shape_and_what_goes_with_it(pilot):
    truth = people(20_000, 0)
    others = {name: values[4_000:] for name, values in truth.items()}
    release, first = pilot
    rest = privot.Randomizer.calibrate(refine(first), 4.0).privatize(others)
    model = privot.fit([release, rest])
    assert model.guarantee.epsilon == release.guarantee.epsilon
    drawn = model.sample(20_000, seed=0)
    paid, member = (drawn[name].to_numpy(zero_copy_only=False) for name in ("paid", "member"))
    assert distance(paid, truth["paid"]) < 0.08
    for value in (False, True):
        assert distance(paid[member == value], truth["paid"][truth["member"] == value]) < 0.1


WARDS = privot.Schema.from_toml("""
    rules = ["if ward = b then smoker = true"]
    [columns.ward]
    kind = "categorical"
    categories = ["a", "b", "c", "d", "none of these"]
    other = "none of these"
    [columns.color]
    kind = "categorical"
    categories = ["red", "green"]
    [columns.smoker]
    kind = "boolean"
""")


def patients(n, seed):
    rng = np.random.default_rng(seed)
    ward = rng.choice(["a", "b", "c", "d", "elsewhere"], n, p=[0.6, 0.3, 0.04, 0.04, 0.02])
    return {
        "ward": ward,
        "color": rng.choice(["red", "green"], n, p=[0.98, 0.02]),
        "smoker": (ward == "b") | (rng.random(n) < 0.5),
    }


@pytest.fixture(scope="module")
def pilot_of_wards():
    """Reports of the first 2 000 of 6 000, and their model."""
    first = {name: values[:2_000] for name, values in patients(6_000, 0).items()}
    release = privot.Randomizer.calibrate(WARDS, 6.0).privatize(first)
    return release, fit_four(release)


def test_rare_categories_join_other_and_both_phases_count_for_it(pilot_of_wards):
    others = {name: values[2_000:] for name, values in patients(6_000, 0).items()}
    release, model = pilot_of_wards
    refined = refine(model, rarest=0.15)
    assert refined.columns["ward"].labels == ("a", "b", "none of these")
    assert refined.columns["color"] == WARDS.columns["color"]  # which has no `other`
    assert refine(model).columns["ward"] == WARDS.columns["ward"]
    rest = privot.Randomizer.calibrate(refined, 6.0).privatize(others)
    both = fit_four(release, rest)
    drawn = both.sample(20_000, seed=0).column("ward").to_numpy(zero_copy_only=False)
    assert np.mean(drawn == "none of these") == pytest.approx(0.1, abs=0.04)
    assert np.mean(drawn == "a") == pytest.approx(0.6, abs=0.06)


def test_a_category_always_stays_and_no_rule_names_one_that_joined_other(pilot_of_wards):
    _, model = pilot_of_wards
    with pytest.raises(PrivotError, match="none of the categories of 'ward': use one of a"):
        refine(model, rarest=0.5)
    column = WARDS.columns["ward"]
    assert column.refined("ward", pa.table(patients(500, 1)), 12, 0.9).labels == (
        "a",
        "none of these",
    )
    with pytest.raises(PrivotError, match="rarest is 1.5"):
        refine(model, rarest=1.5)


def test_the_command_writes_the_same_schema(pilot, tmp_path):
    _, model = pilot
    model.save(tmp_path / "pilot")
    done = run(tmp_path, "schema", "new", "--pilot", "pilot", "-o", "refined.json", "--codes", "8")
    assert done.returncode == 0, done.stderr
    assert "paid: one of 8: [0, " in done.stdout
    assert privot.Schema.load(tmp_path / "refined.json") == refine(model, num_codes=8)
    assert run(tmp_path, "calibrate", "refined.json", "--epsilon", "4").returncode == 0


def test_a_refined_schema_keeps_the_promise(pilot):
    promise = Promise(0.5, "shuffled", 1e-6, 1000)
    declared = SCHEMA.model_copy(update={"promise": promise})
    model = pilot[1]
    model = replace(model, randomizer=replace(model.randomizer, schema=declared))
    assert refine(model).promise == promise


def test_what_is_no_model_of_a_release_is_refused():
    with pytest.raises(PrivotError, match="model is a dict"):
        refine({"paid": [1.0]})


THREE = privot.Schema.from_dict({"columns": {name: {"kind": "boolean"} for name in "abc"}})


def of_three(n, seed):
    rng = np.random.default_rng(seed)
    a = rng.random(n) < 0.5
    return {"a": a, "b": a ^ (rng.random(n) < 0.1), "c": rng.random(n) < 0.5}


@pytest.fixture(scope="module")
def of_pairs():
    """A model of three columns, of which two depend."""
    return privot.fit(privot.Randomizer.calibrate(THREE, 6.0).privatize(of_three(20_000, 0)))


def test_weights_of_pairs_are_squares_of_what_the_model_has_of_dependence(of_pairs):
    weights = pair_weights(of_pairs)
    assert [*weights] == [("a", "b"), ("a", "c"), ("b", "c")]
    assert np.mean([*weights.values()]) == pytest.approx(1.0)
    assert min(weights.values()) >= 0.1
    # The distances are .4, 0 and 0, so the mean of the squares is a third of the first.
    assert weights["a", "b"] == pytest.approx(0.1 + 0.9 * 3, abs=0.02)


def test_a_model_without_dependence_weighs_all_pairs_alike(of_pairs):
    assert {*pair_weights(with_dependence(of_pairs, 0.0, 0)).values()} == {1.0}
    with pytest.raises(PrivotError, match="give what privot.fit made of a pilot's joint reports"):
        pair_weights(THREE)


def test_calibrate_takes_a_pilot(of_pairs, tmp_path):
    of_pairs.save(tmp_path / "pilot")
    THREE.save(tmp_path / "schema.json")
    calibrate = typed(tmp_path, "calibrate", "schema.json", "--epsilon", "1", "--pilot")
    code, _, err = calibrate("pilot -o r.json")
    assert code == 0, err
    made = privot.Randomizer.load(tmp_path / "r.json").joint.design
    plain = privot.Randomizer.calibrate(THREE, 1.0)
    assert made == weight_pairs(plain, pair_weights(of_pairs)).joint.design
    assert made != plain.joint.design
    code, _, err = calibrate("nowhere -o r2.json")
    assert (code, len(err.splitlines())) == (2, 1)
    assert not (tmp_path / "r2.json").exists()
