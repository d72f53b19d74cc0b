"""What decides the quality of images learned from their reports."""
