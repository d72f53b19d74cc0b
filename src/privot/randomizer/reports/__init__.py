"""Reports as arrays: rows, joint and split reports, candidates, and their validation."""
