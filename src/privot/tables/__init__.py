"""Tables of records on disk: read in batches, checked, written."""
