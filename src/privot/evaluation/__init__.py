"""How far what was learned is from the truth. Needs real records: its outputs are not private."""

from privot.evaluation.compare import Comparison, compare
from privot.evaluation.distances import sample_distance, total_variation

__all__ = ["Comparison", "compare", "sample_distance", "total_variation"]
