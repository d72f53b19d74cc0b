"""Figures, and reports as self-contained HTML files: figures are embedded, nothing is loaded."""

from privot.core.errors import naming_extra

with naming_extra("privot.report", "learn"):
    from privot.report.pages import plot, write_image_fit_report
    from privot.report.panels import LIGHT
    from privot.report.table_pages import write_check_report, write_report

__all__ = ["LIGHT", "plot", "write_check_report", "write_image_fit_report", "write_report"]
