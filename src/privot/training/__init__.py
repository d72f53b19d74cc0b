"""The training loop, its state on disk, and how it is interrupted. Knows no release, no privacy.

The names here need no PyTorch; `privot.training.loop` and `privot.training.parallel` do.
"""

from privot.training.stopping import FitMonitor, Interrupted, Progress

__all__ = ["FitMonitor", "Interrupted", "Progress"]
