"""Figures of models, and self-contained HTML pages about models, checks and evaluations."""

from privot.core.errors import naming_extra

with naming_extra("privot.report", "learn"):
    from privot.report.pages import plot, write_image_fit_report
    from privot.report.panels import LIGHT
    from privot.report.table_pages import write_check_report, write_report

__all__ = ["LIGHT", "plot", "write_check_report", "write_image_fit_report", "write_report"]
