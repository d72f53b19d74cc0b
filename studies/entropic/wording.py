"""How losses and both ε are named and colored on pages and pictures."""

from __future__ import annotations

from privot.report.style import LEARNED, PRIVATE, RECEIVED

TITLES = {
    "entropic": "Entropic",
    "self_corrected": "Self-corrected",
    "unregularized": "Unregularized",
    "sinkhorn_divergence": "Sinkhorn divergence",
    "noisy_wasserstein": "Noisy Wasserstein",
}
COLORS = {
    "entropic": LEARNED,
    "self_corrected": "#c0392b",
    "unregularized": RECEIVED,
    "sinkhorn_divergence": PRIVATE,
    "noisy_wasserstein": PRIVATE,
}


def epsilons(guarantee_epsilon: float, claimed: float) -> str:
    """Both ε in a few words.

    Examples:
        >>> epsilons(94.71, 35.0)
        'ε = 94.7, called 35'
    """
    return f"ε = {_short(guarantee_epsilon)}, called {_short(claimed)}"


def _short(epsilon: float) -> str:
    return f"{epsilon:.0f}" if epsilon >= 100 else f"{epsilon:.3g}"
