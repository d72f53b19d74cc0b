"""Reports of strangers: read, checked row by row, put together."""
