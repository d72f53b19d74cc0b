"""A classifier adapted to a private target."""
