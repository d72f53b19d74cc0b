"""What to expect of a release, from public inputs alone."""
