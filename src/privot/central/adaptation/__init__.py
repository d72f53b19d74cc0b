"""Domain adaptation through noisy sums of features: the classifier and its rounds."""
