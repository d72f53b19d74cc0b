"""What learns the ratio of two densities."""
