"""What Prometheus reads: each family once, buckets that only grow, and labels as they are."""

from privot.collector.app import Metrics, exposition


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
