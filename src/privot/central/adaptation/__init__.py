"""Domain adaptation by noisy sums: classifier and queries (`classifier`), training (`rounds`)."""
