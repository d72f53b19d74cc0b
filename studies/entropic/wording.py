"""How losses, both ε and places are named, and colored, on pages and pictures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from matplotlib.artist import Artist
from matplotlib.figure import Figure

from privot.report.panels import INK, LEARNED, PRIVATE, RECEIVED, new_figure, styled
from studies.common.rows import Row, in_order, select
from studies.entropic.image_noise import ImageNoise

TITLES = {
    "start": "Start",
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

# Sections of the page, by their letters.
_SECTIONS = {
    "a": "a-curves-in-the-plane",
    "b": "b-denoising-beside-entropic-transport",
    "c": "c-growing-noise",
    "d": "d-more-people",
    "e": "e-g-higher-privacy",
    "f": "f-entropic-against-noisy-1-wasserstein",
}


@contextmanager
def draw_sweep(
    row: Row, across: str, label: str, quantities: Sequence[tuple[str, str, float]]
) -> Iterator[Figure]:
    """Three quantities (key, title, value of clean images) of a sweep's points, a line a loss.

    The legend is written when the block ends, of whatever it added.
    """
    with styled():
        figure = new_figure(11, 3.4)
        axes = figure.subplots(1, len(quantities))
        for axis, (quantity, title, floor) in zip(axes, quantities, strict=True):
            for loss in in_order(row["points"], "loss"):
                found = select(row["points"], loss=loss)
                axis.plot(
                    [p[across] for p in found], [p[quantity] for p in found], "o-",
                    color=COLORS[loss], markersize=4, label=TITLES[loss],
                )  # fmt: skip
            axis.axhline(floor, color=INK, linewidth=1, linestyle=":", label="Clean images")
            axis.set_title(title, fontsize=10, fontweight="bold")
            axis.set_xlabel(label)
            if quantity == "frechet":
                axis.set_yscale("log")
        yield figure
        named: dict[str, Artist] = {}
        for axis in figure.axes:
            lines, names = axis.get_legend_handles_labels()
            named |= dict(zip(names, lines, strict=True))
        figure.legend(named.values(), named.keys(), loc="outside lower center", ncols=6)


def epsilons(noise: ImageNoise) -> str:
    """Both ε in a few words.

    Examples:
        >>> epsilons(ImageNoise("laplace", 4.0))
        'ε = 392, called 196'
    """
    honest, called = (
        f"{epsilon:.0f}" if epsilon >= 100 else f"{epsilon:.3g}"
        for epsilon in noise.both_epsilons().values()
    )
    return f"ε = {honest}, called {called}"


def place(where: str, section: str) -> str:
    """Where a sentence stands, and the section of the figures that measures it."""
    return f"{where} · [{section}](entropic/figures.md#{_SECTIONS[section]})"
