"""How far what was learned is from the truth. Needs real records: its outputs are not private."""

from privot.evaluation.distances import PointScore, sample_distance, total_variation
from privot.evaluation.prediction import ClassifierScore, Prediction
from privot.evaluation.result import Comparison, Evaluation, compare, evaluate
from privot.evaluation.tables import (
    ColumnScore,
    PairScore,
    Score,
    TableComparison,
    compare_tables,
)

__all__ = [
    "ClassifierScore",
    "ColumnScore",
    "Comparison",
    "Evaluation",
    "PairScore",
    "PointScore",
    "Prediction",
    "Score",
    "TableComparison",
    "compare",
    "compare_tables",
    "evaluate",
    "sample_distance",
    "total_variation",
]
