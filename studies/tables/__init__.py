"""Tables from locally private reports: Adult, networks with many columns, spread."""
