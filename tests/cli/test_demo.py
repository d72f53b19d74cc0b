"""The demo of places: a page, and numbers that can be."""

import json

from commands import privot


def test_demo_writes_its_report_and_its_metrics(tmp_path):
    done = privot(tmp_path, "demo", "--people", "500", "--steps", "40", "-o", "out")
    assert done.returncode == 0, done.stderr
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    papers, ours = metrics.pop("maps")
    assert (papers["mechanism"], ours["mechanism"]) == ("laplace", "window")
    for each in (papers, ours):
        assert f"{each['mechanism']} " in done.stdout
        assert f"{each['w2_learned']:.3f}" in done.stdout
    for key in ("epsilon", "num_people", "w2_floor", "km_floor", "peak_memory_mb"):
        assert metrics[key] > 0
    assert "e^4" in (tmp_path / "out" / "report.html").read_text()


def test_a_mechanism_that_is_not_for_homes_is_refused(tmp_path):
    done = privot(tmp_path, "demo", "--mechanism", "subset_selection", "-o", "out")
    assert done.returncode == 2
    assert "subset_selection" in done.stderr
    assert not (tmp_path / "out").exists()
