"""Tables against tables: closed forms, floors that a perfect model meets, ceilings, awkward columns."""

from dataclasses import asdict

import numpy as np
import pyarrow as pa
import pytest

from privot.core.errors import PrivotError
from privot.evaluation import compare_tables, distances
from privot.schema import Schema

SCHEMA = Schema.from_toml("""
[columns.color]
kind = "categorical"
categories = ["red", "green", "blue"]
[columns.warm]
kind = "boolean"
nullable = true
[columns.age]
kind = "numeric"
bounds = [0, 99]
integer = true
[columns.income]
kind = "numeric"
bounds = [0, 1]
nullable = true
""")


def people(num, seed, dependent=True):
    """Color decides warmth, age decides income; some of both are missing."""
    rng = np.random.default_rng(seed)
    color = rng.choice(3, num, p=[0.5, 0.3, 0.2])
    age = rng.integers(0, 100, num)
    income = np.clip(age / 100 + rng.normal(0, 0.1, num), 0, 1)
    warm = (color == 0) ^ (rng.random(num) < 0.1)
    if not dependent:
        income, warm = rng.permutation(income), rng.permutation(warm)
    gaps = rng.random((2, num)) < 0.1
    return pa.table(
        {
            "color": np.array(["red", "green", "blue"])[color],
            "warm": pa.array(warm, mask=gaps[0]),
            "age": age,
            "income": pa.array(income, mask=gaps[1]),
        }
    )


def by_name(comparison):
    return {(pair.first, pair.second): pair for pair in comparison.pairs}


def test_two_given_tables():
    """Shares .75/.25 against .5/.5, and of pairs ¾ on the diagonal against all on it."""
    schema = Schema.from_toml("""
    [columns.a]
    kind = "boolean"
    [columns.b]
    kind = "boolean"
    """)
    half = [True, True, False, False] * 2500
    ours = pa.table({"a": [True, True, True, False] * 2500, "b": half})
    truth = pa.table({"a": half, "b": half})
    comparison = compare_tables(schema, ours, truth)
    first, second = (row.total_variation for row in comparison.columns)
    assert (first.synthetic, second.synthetic) == (0.25, 0.0)
    (pair,) = comparison.pairs
    assert pair.total_variation.synthetic == pytest.approx(0.25)
    assert pair.total_variation.independence == pytest.approx(0.5, abs=0.02)
    # A fourfold table's V is |φ|: (2·1 − 0·1)/√(3·1·2·2) here.
    assert pair.cramers_v.synthetic == pytest.approx(1 - 1 / 3**0.5)
    assert pair.cramers_v.independence == pytest.approx(1, abs=0.03)


def test_a_perfect_model_scores_the_floor():
    """Fresh samples of one population, of unequal sizes, score what their floor says."""
    summaries = [
        compare_tables(SCHEMA, people(3000, 2 * i), people(1000, 2 * i + 1)).summary
        for i in range(30)
    ]
    for measure in ("one_way", "two_way"):
        scores = [summary[measure].synthetic for summary in summaries]
        floors = [summary[measure].floor for summary in summaries]
        error = np.std(scores) / 30**0.5
        assert np.mean(floors) == pytest.approx(np.mean(scores), abs=3 * error)
        assert 3 * error < 0.1 * np.mean(floors)  # a floor of two halves would be 1.5 to 2 times it


def test_independent_columns_score_the_ceiling():
    real = people(20_000, 0)
    dependent = compare_tables(SCHEMA, people(20_000, 1), real).summary
    apart = compare_tables(SCHEMA, people(20_000, 1, dependent=False), real).summary
    for measure in ("two_way", "cramers_v"):
        score = apart[measure]
        assert dependent[measure].synthetic < 0.5 * score.independence
        assert score.synthetic == pytest.approx(score.independence, rel=0.1)
        assert score.floor < 0.4 * score.independence
    assert apart["one_way"].independence is None
    assert apart["one_way"].synthetic < 2 * apart["one_way"].floor


def test_floors_stay_below_ceilings_where_cells_are_many():
    """40 records in 100 cells and more: a perfect model still beats an independent one."""
    summary = compare_tables(SCHEMA, people(40, 0), people(40, 1)).summary
    assert summary["two_way"].floor < summary["two_way"].independence


def test_missing_values_are_a_value_of_their_own():
    real = people(1000, 0)
    filled = real.set_column(1, "warm", pa.array(np.ones(1000, bool)))
    (_, warm, _, _) = compare_tables(SCHEMA, filled, real).columns
    away = real.column("warm").null_count + real.column("warm").to_pylist().count(False)
    assert warm.total_variation.synthetic == pytest.approx(away / 1000)


@pytest.mark.parametrize("which", ["both", "synthetic", "real"])
def test_constant_and_all_null_columns(which):
    """A column that says nothing is compared like any other, and makes no NaN."""
    whole = people(300, 0)
    dull = whole.set_column(2, "age", pa.array([40] * 300)).set_column(
        3, "income", pa.nulls(300, pa.float64())
    )
    ours, truth = (dull if which in ("both", part) else whole for part in ("synthetic", "real"))
    comparison = compare_tables(SCHEMA, ours, truth)
    pair = by_name(comparison)["age", "income"]
    assert np.isfinite([*asdict(pair.cramers_v).values()]).all()
    if which == "both":
        assert asdict(pair.total_variation) == pytest.approx(
            {"synthetic": 0, "floor": 0, "independence": 0}
        )


def test_rare_values_of_large_alphabets_count_as_one(monkeypatch):
    """Pairs of long lists stay small tables; columns are compared in full."""
    monkeypatch.setattr(distances, "_MAX_LEVELS", 3)
    schema = Schema.from_dict(
        {
            "columns": {
                "town": {"kind": "categorical", "categories": [f"t{i}" for i in range(40)]},
                "year": {
                    "kind": "numeric", "bounds": [0, 39], "integer": True, "bins": "integers"
                },
                "size": {"kind": "numeric", "bounds": [0, 39], "integer": True},
            }
        }
    )  # fmt: skip
    number = np.r_[np.repeat([0, 1], 100), np.arange(40)]
    real = pa.table({"town": [f"t{i}" for i in number], "year": number, "size": number})
    moved = np.r_[np.repeat([0, 1], 100), np.repeat(39, 40)]
    ours = pa.table({"town": [f"t{i}" for i in moved], "year": moved, "size": moved})
    comparison = compare_tables(schema, ours, real)
    assert comparison.columns[0].total_variation.synthetic == pytest.approx(39 / 240)
    pair = by_name(comparison)["town", "year"]
    assert pair.total_variation.synthetic == pytest.approx(2 / 240)  # 38 rare towns are one


def test_many_columns_are_paired_in_part(monkeypatch):
    monkeypatch.setattr(distances, "_MAX_PAIRED", 5)
    names = [f"c{i}" for i in range(9)]
    schema = Schema.from_dict({"columns": {name: {"kind": "boolean"} for name in names}})
    rng = np.random.default_rng(0)
    ours, truth = (pa.table({name: rng.random(50) < 0.5 for name in names}) for _ in range(2))
    comparison = compare_tables(schema, ours, truth)
    assert len(comparison.columns) == 9
    assert (len(comparison.pairs), comparison.all_pairs) == (10, 36)


def test_the_same_seed_gives_the_same_numbers():
    drawn = [compare_tables(SCHEMA, people(50, 0), people(60, 1), seed=s) for s in (3, 3, 4)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_one_column_has_no_pairs():
    schema = Schema.from_toml('[columns.a]\nkind = "boolean"')
    comparison = compare_tables(schema, pa.table({"a": [True] * 4}), pa.table({"a": [False] * 4}))
    assert list(comparison.summary) == ["one_way"]
    assert comparison.summary["one_way"].synthetic == 1


def test_refusals():
    with pytest.raises(PrivotError, match="2 records are too few to compare: give at least 4"):
        compare_tables(SCHEMA, people(10, 0), people(2, 1))
    vectors = Schema.from_toml("""
    [columns.place]
    kind = "vector"
    columns = ["x"]
    bounds = [[0, 1]]
    """)
    place = pa.table({"x": [0.0] * 5})
    with pytest.raises(PrivotError, match=r"columns \['place'\] are all vectors"):
        compare_tables(vectors, place, place)
