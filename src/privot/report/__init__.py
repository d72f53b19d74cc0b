"""Reports that people look at: one HTML file each, no network, figures inside."""

from privot.report.evaluation import write_evaluation_report
from privot.report.fits import write_image_fit_report

__all__ = ["write_evaluation_report", "write_image_fit_report"]
