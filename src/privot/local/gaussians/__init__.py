"""Records that candidates were reported of: a Gaussian of each label on the unit sphere."""
