"""What was asked of noisy slices, and what papers claim of theirs and of others."""

# (data, ε): logistic regression and MLP in percent, as asked for and as hoped for.
ASKED = {("mnist", 10): (78, 77), ("fashion_mnist", 10): (69, 69), ("mnist", 1): (68, 68)}
AIMS = {("mnist", 10): (84, 86), ("fashion_mnist", 10): (76, 76), ("mnist", 1): (78, 80)}
ASKED_ADAPTATION = {"mnist_usps": (94.0, 96.0), "usps_mnist": (83.4, 90.0)}
ASKED_MILLISECONDS, ASKED_MINUTES = 12.0, 30.0
# Papers' own numbers, logistic regression / MLP on MNIST and Fashion, and the ε they claim.
PUBLISHED = (
    ("SWD", "none", "none", "82 / 87", "76 / 77"),
    ("DP-SWD, normal approximation", "10", "clt", "78 / 77", "66 / 67"),
    ("DP-SWD, Bernstein", "10", "bernstein", "77 / 76", "66 / 67"),
    ("DP-MERF (rerun by Rakotomamonjy, Ralaivola)", "10", "not examined", "75 / 76", "71 / 72"),
    ("GS-WGAN", "10", "≈ 329", "79 / 79", "68 / 65"),
    ("DP-CGAN", "10", "not examined", "60 / 60", "51 / 50"),
    ("DP-Sinkhorn", "10", "not examined", "82.8 / 82.7", "75.1 / 74.6"),
)
# Accuracies of MNIST → USPS and USPS → MNIST as published.
PUBLISHED_ADAPTATION = {
    "dann": ("93.9", "86.2"),
    "swd": ("95.5", "84.8"),
    "dp_dann": ("87.1", "73.5"),
    "dp_swd": ("94.0", "83.4"),
}
