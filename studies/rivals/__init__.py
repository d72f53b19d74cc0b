"""What Privot is compared with: oracles that should win, and losses that should fail."""

from studies.rivals.grid_deconvolution import GridDensity, fit_grid

__all__ = ["GridDensity", "fit_grid"]
