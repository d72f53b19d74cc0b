"""Windows: bounded reports of places of few coordinates, likelier near the record."""
