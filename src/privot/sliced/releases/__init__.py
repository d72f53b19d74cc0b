"""What is released: the plan, the mechanism, its batches and directions."""
