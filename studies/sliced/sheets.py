"""Sheets of images side by side: real ones, and those that methods draw at one ε.

    python -m studies sliced.sheets --data mnist.npz --epsilon 10 --others kept -o sheets.png

A column a label, six draws of each, chosen by nobody: the first of seed 0. Other methods' draws are
those that `studies.sliced.rivals --keep FOLDER` kept, at its ε; `--others FOLDER` reads them.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from PIL import Image

from privot.central import fit
from privot.privacy.rounding import exactly
from studies.sliced.images import DELTA, SCHEMA, as_table, drawn, load_split

ROWS, LABELS = 6, 10
ACROSS = 5  # sheets in a row
_GRAYS = 24
# By method; what is kept of it is a file of that name.
OTHERS = {
    "dp_ntk": "DP-NTK",
    "dp_merf_cosines": "DP-MERF on low frequencies",
    "dp_merf": "DP-MERF",
    "dpgan": "DPGAN",
    "published": "DP-SWD, accounted honestly",
    "swd": "SWD without privacy",
}


def tiled(images: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """One picture of the first images of every label, a column each; white where there are fewer."""
    chosen = np.zeros((LABELS, ROWS, *images.shape[1:]))
    for label in range(LABELS):
        first = images[labels == label][:ROWS]
        chosen[label, : len(first)] = first
    return np.block([[column[row] for column in chosen] for row in range(ROWS)])


def keep(images: np.ndarray, labels: np.ndarray, folder: Path, data: str, method: str) -> None:
    """Write the sheet of a method's draws (n, pixels), for a picture to come."""
    side = int(images.shape[1] ** 0.5)
    folder.mkdir(parents=True, exist_ok=True)
    sheet = tiled(images.reshape(-1, side, side), labels)
    np.save(folder / f"{data}_{method}.npy", sheet.astype(np.float32))


def sheets(path: Path, epsilons: list[float], others: Path | None) -> dict[str, np.ndarray]:
    """Pictures by title."""
    x, y = load_split(path, "train")
    found = {"real images": tiled(x.numpy(), y.numpy())}
    for epsilon in epsilons:
        model = fit(as_table(x, y), SCHEMA, epsilon=epsilon, delta=DELTA)
        images, labels = drawn(model, ROWS * LABELS, seed=0)
        title = f"mixture by noisy sums, ε = {exactly(epsilon)}"
        found[title] = tiled(images.numpy(), labels.numpy())
    if others is None:
        return found
    for method, title in OTHERS.items():
        file = others / f"{path.stem}_{method}.npy"
        if file.exists():
            found[title] = np.load(file)
    return found


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("--data", type=Path, nargs="+", required=True, help="npz of x_train, …")
    parser.add_argument("--epsilon", type=float, nargs="+", default=[10.0, 1.0])
    parser.add_argument("--others", type=Path, help="folder of other methods' kept draws")
    parser.add_argument("-o", "--output", type=Path, default=Path("sheets.png"))


def run(chosen: argparse.Namespace) -> None:
    """All sheets of a data set, then those of the next, row by row."""
    torch.manual_seed(0)
    found = [sheets(path, chosen.epsilon, chosen.others) for path in chosen.data]
    pictures = [panel for own in found for panel in own.items()]
    down = -(-len(pictures) // ACROSS)
    figure, axes = plt.subplots(down, ACROSS, figsize=(3.4 * ACROSS, 2.3 * down), squeeze=False)
    for axis in axes.flat:
        axis.axis("off")
    for axis, (title, picture) in zip(axes.flat, pictures, strict=False):
        axis.imshow(picture, cmap="gray_r", vmin=0, vmax=1, interpolation="nearest")
        axis.set_title(title, fontsize=10)
    figure.tight_layout()
    chosen.output.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(chosen.output, dpi=110)
    plt.close(figure)
    with Image.open(chosen.output) as picture:  # a quarter of the bytes
        few = picture.convert("L").quantize(_GRAYS)
    few.save(chosen.output, optimize=True)
