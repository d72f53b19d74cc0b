"""What Prometheus reads: each family once, buckets that only grow, and labels as they are."""

import json
import re
from pathlib import Path

from collector.test_app import calls, memory  # noqa: F401 (a fixture)
from privot.collector.app import Collector, Metrics, exposition


def test_counts_are_told_in_prometheus_text():
    metrics = Metrics()
    metrics.received, metrics.accepted = 7, 5
    metrics.refused.update(["checksum", "checksum", "busy"])
    for seconds in (0.0, 0.003, 0.003, 100.0):
        metrics.answered(seconds)
    text = exposition(metrics.lines('campaign="ab"') + Metrics().lines('campaign="cd"'))
    lines = text.splitlines()
    assert 'privot_reports_accepted_total{campaign="ab"} 5' in lines
    assert 'privot_refused_total{campaign="ab",reason="checksum"} 2' in lines
    assert sum(line.startswith("# TYPE privot_request_seconds ") for line in lines) == 1
    assert 'privot_request_seconds_bucket{campaign="ab",le="0.005"} 3' in lines
    assert 'privot_request_seconds_bucket{campaign="ab",le="+Inf"} 4' in lines
    assert 'privot_request_seconds_count{campaign="ab"} 4' in lines
    assert text.endswith("\n")


def test_the_dashboard_shows_what_is_exported_and_nothing_else(memory):  # noqa: F811
    path = Path(__file__).parents[2] / "src" / "privot" / "campaign" / "containers" / "grafana.json"
    dashboard = json.loads(path.read_text(encoding="utf-8"))
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    collector = Collector([memory])
    metrics = calls(collector, ("GET", "/nothing", {}), ("GET", "/metrics", {}))[1].text
    exported = set(re.findall(r"^(privot_\w+)", metrics, re.M))
    assert set(re.findall(r"privot_\w+", " ".join(queries))) == exported
    reasons = set(re.findall(r"by \((\w+)\)", " ".join(queries)))
    assert reasons == {"reason", "le", "campaign"} <= set(re.findall(r'(\w+)="', metrics))
    places = [tuple(panel["gridPos"][name] for name in "xy") for panel in dashboard["panels"]]
    assert len(set(places)) == len(places) == len({panel["id"] for panel in dashboard["panels"]})
