"""The Sinkhorn solver: a problem, settings, a result; one loop compiled for the CPU, one of tensors."""
