"""How far what was learned is from the truth. Needs real records: its outputs are not private.

`privot.evaluation.prediction` stands apart, for it alone needs scikit-learn.
"""

from privot.evaluation.auc import ClassifierScore, Prediction
from privot.evaluation.compare import Comparison, VectorScore, compare
from privot.evaluation.distances import sample_distance, total_variation
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
    "PairScore",
    "Prediction",
    "Score",
    "TableComparison",
    "VectorScore",
    "compare",
    "compare_tables",
    "sample_distance",
    "total_variation",
]
