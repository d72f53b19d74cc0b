import json
import sys

import numpy as np
import pytest

import commands
import privot
from few_settings import few_settings
from plugins.hotel import guests, schema

pd = pytest.importorskip("pandas")
pytest.importorskip("sdmetrics")

from sdmetrics.reports.single_table import QualityReport  # noqa: E402

from privot.evaluation.result import sdmetrics_scores  # noqa: E402
from privot.schema.drafts import write_metadata  # noqa: E402
from privot.tables.files import as_table  # noqa: E402


def rows(num, shuffled):
    """Guests, whose rooms may be shuffled."""
    table = guests(pd, num)
    order = np.random.default_rng(1).permutation(num) if shuffled else np.arange(num)
    return table.assign(room=table.room.to_numpy()[order])


def test_scores_are_those_of_the_package_itself():
    real, synthetic = rows(2000, False), rows(1500, True)
    report = QualityReport()
    report.generate(real, synthetic, json.loads(write_metadata(schema())), verbose=False)
    scores = sdmetrics_scores(schema(), as_table(synthetic), as_table(real))
    shapes, trends = report.get_properties()["Score"]
    assert list(scores) == ["overall", "column shapes", "column pair trends"]
    assert scores["column shapes"] == pytest.approx(shapes, abs=1e-9)
    assert scores["column pair trends"] == pytest.approx(trends, abs=1e-9)
    assert scores["overall"] == pytest.approx(report.get_score(), abs=1e-9)
    same = sdmetrics_scores(schema(), as_table(real), as_table(real))
    assert same["overall"] == 1 > scores["column pair trends"] + 0.1  # room and nights were tied


def test_the_unit_of_dates_does_not_matter():
    real = rows(500, False)
    days = real.assign(came=real.came.astype("datetime64[s]"))
    assert sdmetrics_scores(schema(), as_table(days), as_table(real))["overall"] == 1


def test_the_command_and_the_report_state_them(tmp_path):
    real = guests(pd, 300)
    real.to_csv(tmp_path / "real.csv", index=False)
    with few_settings():
        release = privot.Randomizer.calibrate(schema(), 6.0).privatize(real)
        privot.fit(release, seed=0).save(tmp_path / "model")
    words = ["evaluate", "model", "--against", "real.csv", "-o", "report.html", "-n", "300"]
    done = commands.privot(tmp_path, *words)
    assert "SDMetrics: overall " in done.stdout
    assert "SDMetrics’ quality report" in (tmp_path / "report.html").read_text()
    done = commands.privot(tmp_path, *words, "--json", "--force")
    assert 0.5 < json.loads(done.stdout)["sdmetrics"]["overall"] <= 1


def test_there_are_no_scores_without_the_package(monkeypatch):
    real = as_table(rows(100, False))
    monkeypatch.setitem(sys.modules, "sdmetrics.reports.single_table", None)
    assert sdmetrics_scores(schema(), real, real) == {}
