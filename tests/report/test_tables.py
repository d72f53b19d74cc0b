"""The pages of tables: bars in a readable order, errors in place, 300 columns on a bounded page."""

import numpy as np
import pyarrow as pa
import pytest

from privot.evaluation import (
    ClassifierScore,
    ColumnScore,
    Comparison,
    Evaluation,
    PairScore,
    Prediction,
    Score,
    TableComparison,
    compare,
    compare_tables,
)
from privot.local import LocalModel
from privot.release import Randomizer
from privot.report import write_report
from privot.report.pages import structure_found
from privot.report.tables import column_bars, draw_pair_errors
from privot.schema import Schema

SCHEMA = Schema.from_toml("""
[columns.town]
kind = "categorical"
categories = ["t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7", "t8", "t9", "t10", "t11", "t12",
              "t13", "t14", "t15", "t16", "t17", "t18", "t19"]
nullable = true
[columns.hours]
kind = "numeric"
bounds = [1, 99]
integer = true
bins = [1, 20, 41, 99]
spikes = [40]
[columns.year]
kind = "numeric"
bounds = [0, 39]
integer = true
bins = "integers"
[columns."<i>born"]
kind = "datetime"
bounds = [1950-01-01, 2009-12-31]
""")


def fitted(schema):
    """A model of which nothing is drawn."""
    randomizer = Randomizer.calibrate(schema, 4.0)
    return LocalModel(None, randomizer, {"num_reports": 12_345})


def people(num, seed):
    rng = np.random.default_rng(seed)
    town = (20 * rng.random(num) ** 2).astype(int)
    return pa.table(
        {
            "town": pa.array([f"t{i}" for i in town], mask=rng.random(num) < 0.2),
            "hours": np.where(rng.random(num) < 0.5, 40, rng.integers(1, 100, num)),
            "year": rng.integers(0, 40, num),
            "<i>born": np.datetime64("1950-01-01") + rng.integers(0, 21_900, num),
        }
    )


def page(schema, ours, truth, path, prediction=None):
    comparison = compare(schema, ours, truth)
    write_report(
        Evaluation(schema, ours, truth, comparison, prediction, model=fitted(schema)), path
    )
    return path.read_text()


def test_bars_stand_in_the_order_people_read():
    ours, truth = people(300, 0), people(400, 1)
    town, hours, year, born = column_bars(SCHEMA, ours, truth, compare_tables(SCHEMA, ours, truth))
    shares = [bar.real for bar in town.bars[:15]]
    assert shares == sorted(shares, reverse=True)
    assert [bar.label for bar in town.bars[15:]] == ["5 others", "(missing)"]
    assert [bar.label for bar in hours.bars] == ["1 to 19", "20 to 39", "40", "41 to 99"]
    assert len(year.bars) == 16
    assert year.bars[0].label == "0 … 2"
    assert born.bars[0].label.startswith("1950-01-01 to 195")
    for column in (town, hours, year, born):
        assert sum(bar.real for bar in column.bars) == pytest.approx(1)
        assert sum(bar.synthetic for bar in column.bars) == pytest.approx(1)
        assert column.scale == max(max(bar.real, bar.synthetic) for bar in column.bars)


def test_errors_stand_where_their_columns_cross():
    columns = tuple(ColumnScore(n, Score(0.01 * (i + 1), 0.001)) for i, n in enumerate("abc"))
    pairs = tuple(
        PairScore(first, second, Score(error, 0.02, 0.5), Score(0, 0, 0), None)
        for first, second, error in (("a", "b", 0.1), ("a", "c", 0.2), ("b", "c", 0.3))
    )
    figure = draw_pair_errors(TableComparison(9, 9, columns, pairs))
    synthetic, floor, independence, _ = figure.axes
    cells = synthetic.collections[0].get_array().reshape(3, 3)
    nothing = np.nan
    expected = [[0.01, nothing, nothing], [0.1, 0.02, nothing], [0.2, 0.3, 0.03]]
    assert np.ma.filled(cells.astype(float), np.nan) == pytest.approx(
        np.array(expected), nan_ok=True
    )
    assert floor.collections[0].get_array()[1, 0] == 0.02
    assert independence.collections[0].get_array()[1, 0] == 0.5
    assert independence.collections[0].get_array()[1, 1] == 0
    norms = {axis.collections[0].norm.vmax for axis in (synthetic, floor, independence)}
    assert len(norms) == 1


def test_a_model_without_history_and_a_prediction(tmp_path):
    scores = (ClassifierScore("logistic regression", 0.8125, 0.9),)
    html = page(
        SCHEMA,
        people(60, 0),
        people(50, 1),
        tmp_path / "r.html",
        Prediction("town", 60, 50, scores),
    )
    assert "Telling town from the other columns" in html
    assert "0.812" in html
    assert "12\u00a0345 privatized reports" in html
    assert "Training" not in html
    assert "This report is not private" in html
    assert "e^4 = 55" in html
    assert "<i>born" not in html
    assert "&lt;i&gt;born" in html


def test_one_column_has_a_page_without_pairs(tmp_path):
    schema = Schema.from_toml('[columns.a]\nkind = "boolean"')
    table = pa.table({"a": [True, False] * 5})
    html = page(schema, table, table, tmp_path / "r.html")
    assert "Column by column" in html
    assert "Pair by pair" not in html


def test_tables_that_agree_wholly(tmp_path):
    """Constant columns: every error is 0, and no gauge divides by it."""
    schema = Schema.from_toml('[columns.a]\nkind = "boolean"\n[columns.b]\nkind = "boolean"')
    table = pa.table({"a": [True] * 5, "b": [False] * 5})
    html = page(schema, table, table, tmp_path / "r.html")
    assert "0.0000" in html
    assert "nan" not in html.split("data:image")[0]


def test_three_hundred_columns_make_a_page_of_bounded_size(tmp_path):
    rng = np.random.default_rng(0)
    names = [f"a column with a long name, number {i}" for i in range(300)]
    schema = Schema.from_dict({"columns": {name: {"kind": "boolean"} for name in names}})
    ours, truth = (pa.table({name: rng.random(40) < 0.5 for name in names}) for _ in range(2))
    score = Score(0.1, 0.1, 0.1)
    columns = tuple(
        ColumnScore(name, Score(0.2 if i % 3 else 0.1, 0.1)) for i, name in enumerate(names)
    )
    pairs = tuple(
        PairScore(names[i], names[j], score, score, None) for j in range(100) for i in range(j)
    )
    comparison = Comparison((), TableComparison(40, 40, columns, pairs))
    path = tmp_path / "r.html"
    write_report(Evaluation(schema, ours, truth, comparison, model=fitted(schema)), path)
    html = path.read_text()
    assert len(html) < 1_500_000
    assert html.count('<div class="column" ') == 60
    assert "number 0 <small>" not in html  # a third of the columns is less wrong
    assert "number 1 <small>" in html
    assert "Of 44\u00a0850 pairs, 4\u00a0950 were compared" in html
    assert "Shown are the 60 of 300 columns" in html
    assert "Shown are the 30 columns" in html


def test_structure_found():
    assert structure_found(Score(0.1, 0.1, 0.3)) == 1
    assert structure_found(Score(0.05, 0.1, 0.3)) == 1
    assert structure_found(Score(0.4, 0.1, 0.3)) == 0
    assert structure_found(Score(0.15, 0.1, 0.3)) == pytest.approx(0.75)
    # Columns that are independent anyway leave nothing to find.
    assert structure_found(Score(0.1, 0.1, 0.105)) is None
