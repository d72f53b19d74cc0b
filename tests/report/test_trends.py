"""Small multiples of a model that moves: a panel a column, bands around estimates, one page."""

import numpy as np
import pytest

from moving_people import waves
from privot.local import fit_waves
from privot.report.pages import draw_trends, write_wave_report


@pytest.fixture(scope="module")
def model():
    return fit_waves(waves(np.linspace(0.2, 0.6, 4), 1500), seed=0)


def test_every_column_has_a_panel_and_every_trend_a_band(model):
    figure = draw_trends(model)
    labels = [[line.get_label() for line in axis.lines] for axis in figure.axes]
    assert [len(each) for each in labels] == [2, 3, 1]  # both values; colors; a mean
    assert labels[2] == ["mean of age"]
    for axis, count in zip(figure.axes, (2, 3, 1), strict=True):
        assert len(axis.collections) == count
    drawn = next(a for a in figure.axes[2].lines).get_ydata()
    assert np.allclose(drawn, model.trend("age").estimate)


def test_the_page_is_one_file_with_all_columns(model, tmp_path):
    write_wave_report(tmp_path / "report.html", model)
    page = (tmp_path / "report.html").read_text()
    assert page.count("data:image/png;base64,") == 1
    assert "6 000 reports in 4 waves, 1 to 4" in page
    for name in ("uses", "color", "age"):
        assert f"<td>{name}</td>" in page
