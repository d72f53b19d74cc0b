"""Training loop with checkpoints and clean interruption; independent of releases and of privacy.

The names exported here need no PyTorch; `privot.training.loop` and `privot.training.parallel` do.
"""

from typing import Literal

from privot.training.stopping import FitMonitor, Interrupted, Progress

Architecture = Literal["mlp", "dcgan", "dcgan_unnormalized"]  # of `privot.training.generators`

__all__ = ["Architecture", "FitMonitor", "Interrupted", "Progress"]
