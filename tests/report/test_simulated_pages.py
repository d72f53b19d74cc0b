"""Every file of a rehearsal is stamped: its name, its text, its rows, its picture."""

import json

from moving_people import USES, uses_only
from privot.evaluation.simulation import simulate_campaign
from privot.report.pages import WRITTEN, stamped, write_rehearsal
from privot.report.panels import new_figure


def test_every_file_is_stamped(tmp_path):
    told = simulate_campaign(USES, 2.0, 200, prior=uses_only(0.4, 300, 0), rehearsals=1)
    paths = write_rehearsal(tmp_path, told, 2.0, 200)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(WRITTEN)
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
