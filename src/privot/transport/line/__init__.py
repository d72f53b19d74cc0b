"""Transport on the line, exact by sorting, and along directions."""
