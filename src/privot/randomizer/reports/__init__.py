"""Reports as arrays: rows, joint and split reports, candidates, their validation."""
