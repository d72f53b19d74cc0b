"""What a model may be used for: by reports alone, as private as they are, or against real records.

Whatever looks at real records is **not private**, and says so.
"""

from privot.errors import naming_extra

with naming_extra("privot.evaluation", "learn"):
    from privot.evaluation.checking import check
    from privot.evaluation.distances import PointScore, sample_distance, total_variation
    from privot.evaluation.moments import NumberCheck, Told
    from privot.evaluation.numbers import CorrelationScore, NumberScore
    from privot.evaluation.outcome import Check, ColumnCheck, PairCheck
    from privot.evaluation.prediction import ClassifierScore, Prediction
    from privot.evaluation.result import Comparison, Evaluation, compare, evaluate
    from privot.evaluation.tables import (
        ColumnScore,
        PairScore,
        Score,
        TableComparison,
        compare_tables,
    )
    from privot.evaluation.verdict import Finding

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
