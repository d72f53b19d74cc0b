"""Entropic transport between whole clouds of one or two dimensions.

No fit uses it: mini-batches learn as well. `docs/results/solver.md` measures it.
"""
