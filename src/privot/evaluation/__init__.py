"""What a model may be used for: by reports alone, as private as they are, or against real records.

Whatever looks at real records is **not private**, and says so.
"""

from privot.core.errors import naming_extra

with naming_extra("privot.evaluation", "learn"):
    from privot.evaluation.checking import Check, ColumnCheck, PairCheck, check
    from privot.evaluation.distances import (
        ColumnScore,
        PairScore,
        PointScore,
        Score,
        TableComparison,
        compare_tables,
        sample_distance,
        total_variation,
    )
    from privot.evaluation.moments import NumberCheck, Told
    from privot.evaluation.prediction import ClassifierScore, Prediction
    from privot.evaluation.result import Comparison, Evaluation, compare, evaluate
    from privot.evaluation.verdicts import CorrelationScore, Finding, NumberScore

__all__ = [
    "Check",
    "ClassifierScore",
    "ColumnCheck",
    "ColumnScore",
    "Comparison",
    "CorrelationScore",
    "Evaluation",
    "Finding",
    "NumberCheck",
    "NumberScore",
    "PairCheck",
    "PairScore",
    "PointScore",
    "Prediction",
    "Score",
    "TableComparison",
    "Told",
    "check",
    "compare",
    "compare_tables",
    "evaluate",
    "sample_distance",
    "total_variation",
]
