"""Domain adaptation through noisy sums: the classifier and its queries, and its rounds."""
