"""Sheets of images side by side: real ones, and those that methods draw at one ε.

    python -m studies sliced.sheets --data mnist.npz --epsilon 10 1 -o sheets.png

A column a label, six draws of each, chosen by nobody: the first of seed 0. DP-MERF is fitted as in
`studies.sliced.rivals`, at the first ε.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from PIL import Image

from privot.privacy.rounding import exactly
from privot.sliced import fit
from studies.sliced import rivals
from studies.sliced.images import DELTA, SCHEMA, as_table, drawn, load_split

ROWS, LABELS = 6, 10
_GRAYS = 24


def tiled(images: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """One picture of the first images of every label, a column each."""
    chosen = [images[labels == label][:ROWS] for label in range(LABELS)]
    return np.block([[column[row] for column in chosen] for row in range(ROWS)])


def sheets(path: Path, epsilons: list[float], with_rival: bool = True) -> dict[str, np.ndarray]:
    """Pictures by title."""
    x, y = load_split(path, "train")
    found = {"real images": tiled(x.numpy(), y.numpy())}
    for epsilon in epsilons:
        model = fit(as_table(x, y), SCHEMA, epsilon=epsilon, delta=DELTA)
        images, labels = drawn(model, ROWS * LABELS, seed=0)
        title = f"mixture by noisy sums, ε = {exactly(epsilon)}"
        found[title] = tiled(images.numpy(), labels.numpy())
    if with_rival:
        held = rivals.load(path)
        fitted = rivals.fit("dp_merf", held["x_train"], held["y_train"], epsilons[0], seed=0)
        flat, labels_ = fitted.draw(ROWS * LABELS, 0)
        title = f"DP-MERF, ε = {exactly(epsilons[0])}"
        found[title] = tiled(flat.reshape(-1, *x.shape[1:]), labels_)
    return found


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("--data", type=Path, nargs="+", required=True, help="npz of x_train, …")
    parser.add_argument("--epsilon", type=float, nargs="+", default=[10.0, 1.0])
    parser.add_argument("--no-rival", action="store_true", help="ours and real ones alone")
    parser.add_argument("-o", "--output", type=Path, default=Path("sheets.png"))


def run(chosen: argparse.Namespace) -> None:
    """One row of sheets a data set."""
    torch.manual_seed(0)
    found = [sheets(path, chosen.epsilon, not chosen.no_rival) for path in chosen.data]
    across = len(found[0])
    figure, axes = plt.subplots(
        len(found), across, figsize=(3.4 * across, 2.3 * len(found)), squeeze=False
    )
    for row, own in zip(axes, found, strict=True):
        for axis, (title, picture) in zip(row, own.items(), strict=True):
            axis.imshow(picture, cmap="gray_r", vmin=0, vmax=1, interpolation="nearest")
            axis.set_title(title, fontsize=10)
            axis.axis("off")
    figure.tight_layout()
    chosen.output.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(chosen.output, dpi=110)
    plt.close(figure)
    with Image.open(chosen.output) as picture:  # a quarter of the bytes
        few = picture.convert("L").quantize(_GRAYS)
    few.save(chosen.output, optimize=True)
