"""Privatizing on a cluster: Ray's workers noise, each with entropy of its own. No PyTorch."""

from privot.distributed.ray_data import privatize, privatize_files

__all__ = ["privatize", "privatize_files"]
