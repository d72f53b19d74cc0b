"""Evaluation of synthetic records: by reports alone, as private as they are, or against real records.

`check` reads reports only. Results of all others depend on real records: they are **not private**.
"""

from privot.core.errors import naming_extra

with naming_extra("privot.evaluation", "learn"):
    from privot.evaluation.checking import check
    from privot.evaluation.distances import compare_tables, sample_distance, total_variation
    from privot.evaluation.result import compare, evaluate

__all__ = ["check", "compare", "compare_tables", "evaluate", "sample_distance", "total_variation"]
