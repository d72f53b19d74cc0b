"""Training loop with checkpoints and clean interruption; independent of releases and of privacy.

The names exported here need no PyTorch; `privot.training.loop` and `privot.training.parallel` do.
"""

from privot.training.stopping import FitMonitor, Interrupted, Progress

__all__ = ["FitMonitor", "Interrupted", "Progress"]
