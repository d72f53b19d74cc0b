"""Classifiers by noisy sums: of labeled records (`linear`), of unlabeled ones (`adaptation`)."""
