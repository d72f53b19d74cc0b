"""What releases say, by questions: several releases, split reports, reports of one column."""

import numpy as np
import pytest

from privot.evaluation.estimates import CodeReports, estimate
from privot.local.releases import Releases
from privot.randomizer import Randomizer
from privot.schema import Schema

OLD = Schema.from_toml("""
[columns.size]
kind = "numeric"
bounds = [0, 4]
bins = 2
""")
NEW = Schema.from_toml("""
[columns.warm]
kind = "boolean"
[columns.size]
kind = "numeric"
bounds = [0, 4]
bins = 4
""")
SIZE = np.linspace(0, 3.99, 2000) ** 2 / 4


def released(schema, table, **how):
    return Randomizer.calibrate(schema, 6.0, **how).privatize(table)


def test_questions_of_several_releases():
    old = released(OLD, {"size": SIZE}, mechanism="randomized_response")
    new = released(NEW, {"warm": SIZE > 2, "size": SIZE}, report_columns=2)
    reports = CodeReports.of(Releases.of([old, new]))
    told = [(asked.column, asked.release, asked.alphabet.size) for asked in reports.questions]
    assert told == [(1, 0, 2), (0, 1, 2), (1, 1, 4)]
    assert reports.about(1) == [(0,), (2,)]
    assert reports.about(0, 1) == [(1, 2)]
    assert [asked.law.argmax(axis=0).tolist() for asked in reports.questions[::2]] == [
        [0, 0, 1, 1],
        [0, 1, 2, 3],
    ]
    coarse, fine = (estimate(reports, questions).mean for questions in reports.about(1))
    assert fine.reshape(2, 2).sum(axis=1) == pytest.approx(coarse, abs=0.05)
    assert coarse[0] == pytest.approx((SIZE < 2).mean(), abs=0.05)


def test_one_column_a_report():
    release = released(NEW, {"warm": SIZE > 2, "size": SIZE}, report_columns=1)
    reports = CodeReports.of(Releases.of(release))
    assert [*reports.by_columns] == [(0,), (1,)]
    assert estimate(reports, (0,)).mean[1] == pytest.approx((SIZE > 2).mean(), abs=0.05)


def test_split_reports_are_paired_where_somebody_answered_both():
    release = released(NEW, {"warm": SIZE > 2, "size": SIZE}, report="split", report_columns=2)
    reports = CodeReports.of(Releases.of(release))
    assert [*reports.by_columns] == [(0,), (1,), (0, 1)]
    table = estimate(reports, (0, 1)).mean.reshape(2, 4)
    assert table[0, 3] == pytest.approx(0, abs=0.06)
    assert table.sum() == pytest.approx(1, abs=0.05)
