"""Ground costs between points, and their gradients."""
