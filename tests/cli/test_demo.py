"""The demo of places: a page, and numbers that can be."""

import json

from commands import privot


def test_demo_writes_its_report_and_its_metrics(tmp_path):
    done = privot(tmp_path, "demo", "--people", "1000", "--steps", "40", "-o", "out")
    assert done.returncode == 0, done.stderr
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    for key in (
        "epsilon", "num_people", "w2_learned", "w2_released", "w2_released_raw", "w2_floor",
        "train_seconds", "peak_memory_mb",
    ):  # fmt: skip
        assert metrics[key] > 0
    assert metrics["w2_floor"] < metrics["w2_released"] < metrics["w2_released_raw"]
    assert "e^4" in (tmp_path / "out" / "report.html").read_text()
