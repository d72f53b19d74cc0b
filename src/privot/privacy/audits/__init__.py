"""Lower bounds on ε from draws, and tests of a law with finite-sample errors."""
