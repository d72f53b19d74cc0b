"""Evaluation of synthetic records, from reports alone or against real records.

`check` reads only reports, so its result retains their guarantee; `floors` reads public numbers. The
results of all other functions depend on real records: they are **not private**.
"""

from privot.core.errors import naming_extra

with naming_extra("privot.evaluation", "learn"):
    from privot.evaluation.checking import check
    from privot.evaluation.distances import compare_tables, sample_distance, total_variation
    from privot.evaluation.result import compare, evaluate

__all__ = ["check", "compare", "compare_tables", "evaluate", "sample_distance", "total_variation"]
