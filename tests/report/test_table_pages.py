"""The pages of tables: verdicts on top, no real row, 300 columns on a page of bounded size."""

import re

import numpy as np
import pyarrow as pa
import pytest
from markupsafe import escape

from privot.evaluation import check, compare, evaluate
from privot.evaluation.distances import ColumnScore, PairScore, Score, TableComparison
from privot.evaluation.prediction import ClassifierScore, Prediction
from privot.evaluation.result import Comparison, Evaluation
from privot.local import LocalModel, fit
from privot.randomizer import Randomizer
from privot.report import write_check_report, write_report
from privot.schema import Schema
from towns_and_hours import SCHEMA, people


def fitted(schema):
    """A model of which nothing is drawn."""
    randomizer = Randomizer.calibrate(schema, 4.0, report_columns=1)
    return LocalModel(None, randomizer, {"num_reports": 12_345})


def page(schema, ours, truth, path, prediction=None):
    comparison = compare(schema, ours, truth)
    write_report(
        Evaluation(schema, ours, truth, comparison, prediction, model=fitted(schema)), path
    )
    return path.read_text()


def test_a_model_without_history_and_a_prediction(tmp_path):
    scores = (ClassifierScore("logistic regression", 0.8125, 0.9),)
    html = page(
        SCHEMA,
        people(60, 0),
        people(50, 1),
        tmp_path / "r.html",
        Prediction("town", 60, 50, scores),
    )
    assert "Predicting town from the other columns" in html
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
    assert "dependence of pairs" not in html


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
    pairs = tuple(PairScore(names[i], names[j], score, score) for j in range(100) for i in range(j))
    comparison = Comparison((), TableComparison(40, 40, columns, pairs))
    path = tmp_path / "r.html"
    write_report(Evaluation(schema, ours, truth, comparison, model=fitted(schema)), path)
    html = path.read_text()
    assert len(html) < 1_500_000
    assert html.count('<div class="card" ') == 60
    assert "number 0 <small>" not in html  # a third of the columns is less wrong
    assert "number 1 <small>" in html
    assert "Of 44\u00a0850 pairs, 4\u00a0950 were compared" in html
    assert "Shown are the 60 of 300 columns" in html
    assert "Shown are the 30 columns" in html


@pytest.fixture(scope="module")
def checked():
    """A small model, checked by its reports, and the people who reported."""
    table = people(3000, 0)
    release = Randomizer.calibrate(SCHEMA, 6.0).privatize(table)
    model = fit(release, seed=0)
    found = check(model, release)
    return found.recorded(model), found, table


def test_a_page_by_reports_alone(checked, tmp_path):
    model, found, _ = checked
    write_check_report(found, model, tmp_path / "r.html")
    html = (tmp_path / "r.html").read_text()
    for finding in found.verdict:
        assert str(escape(finding.words)).replace(" %", "\xa0%") in html
    assert "Private: ε = 6 (pure), local, per person." in html
    assert "not private" not in html
    assert html.count('<div class="card" ') == 4
    assert html.count('aria-label="Histogram of ') == 3
    assert "reports, 90 %" in html
    assert "prefers-color-scheme: dark" in html
    assert len(html) < 200_000


def test_real_records_are_shown_as_shares_alone(checked, tmp_path):
    """A mark in one real row is nowhere on the page; intervals of the reports are."""
    model, found, table = checked
    marked = table.set_column(2, "year", pa.array([*table["year"].to_pylist()[:-1], 39]))
    evaluation = evaluate(model, marked, num_rows=500)
    write_report(evaluation, tmp_path / "r.html")
    html = (tmp_path / "r.html").read_text()
    assert "This report is not private" in html
    rows = re.findall(r"<tr>((?:<td data-name[^>]*>[^<]*</td>)+)</tr>", html)
    synthetic = [
        [str(escape("–" if v is None else v)) for v in row.values()]
        for row in evaluation.synthetic.slice(0, 6).to_pylist()
    ]
    assert [re.findall(r">([^<]*)</td>", row) for row in rows] == synthetic
    assert "before anyone saw real records" in html
    for finding in (*evaluation.verdict, *found.verdict):
        assert str(escape(finding.topic)) in html
