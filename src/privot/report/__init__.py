"""Reports that people look at: one HTML file each, no network, figures inside."""

from privot.report.demo import write_demo_report
from privot.report.evaluation import write_evaluation_report

__all__ = ["write_demo_report", "write_evaluation_report"]
