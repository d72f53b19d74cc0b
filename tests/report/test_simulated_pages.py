"""Every file of a rehearsal is stamped: its name, its text, its rows, its picture."""

import json
from dataclasses import replace

from moving_people import USES, uses_only
from privot.forecast.simulation import TrustForecast, TrustPlan, simulate_campaign
from privot.report.pages import (
    SIMULATED_FILES,
    TRUST_FILES,
    draw_trust,
    stamped,
    write_simulated_campaign,
    write_trust,
)
from privot.report.panels import new_figure


def test_every_file_is_stamped(tmp_path):
    told = simulate_campaign(USES, 2.0, 200, prior=uses_only(0.4, 300, 0), rehearsals=1)
    paths = write_simulated_campaign(tmp_path, told, 2.0, 200)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(SIMULATED_FILES)
    assert all(path.name.startswith("SIMULATED-") for path in paths)
    assert paths[0].read_text().count("SIMULATED") >= 5
    assert json.loads(paths[2].read_text())["stamp"] == "SIMULATED"
    for path in paths[3:]:
        lines = path.read_text().splitlines()
        assert len(lines) == 201
        assert all("SIMULATED" in line for line in lines)


def test_a_picture_has_the_stamp_across():
    figure = stamped(new_figure(3, 2))
    assert [text.get_text() for text in figure.texts] == ["SIMULATED"]


def test_a_refused_place_of_trust_is_on_the_page_and_not_in_the_picture(tmp_path):
    row = TrustForecast("local", 1.0, 0.0, 1.0, 64, {"one_way": 0.1})
    others = [
        replace(row, epsilon=2.0, predicted={"one_way": 0.05}),
        TrustForecast("central", 1.0, 1e-6, refused="too few"),
    ]
    plan = TrustPlan(300, False, 1, {"one_way": 0.01}, (row, *others))
    lines = draw_trust(plan).axes[0].get_lines()
    assert lines[0].get_xydata().tolist() == [[1.0, 0.1], [2.0, 0.05]]
    assert [len(line.get_xdata()) for line in lines[1:4]] == [0, 0, 0]
    paths = write_trust(tmp_path, plan)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(TRUST_FILES)
    page = paths[0].read_text()
    assert "central at ε = 1: too few" in page
    assert page.count("SIMULATED") >= 4
    assert json.loads(paths[2].read_text())["rows"][2]["refused"] == "too few"
