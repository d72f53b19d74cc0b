"""Made-up handwriting: many people who write real digits, each in a hand of their own.

The shapes are the 1 797 digits that come with scikit-learn, without a download: bitmaps of 32 × 32 by 43
people, of which blocks of 4 × 4 were counted, so that a pixel is a number from 0 to 16 (Alpaydin and
Kaynak, *Optical recognition of handwritten digits*, 1998, of the UCI repository, CC BY 4.0). A fifth is
held out, as it is. A person draws one of the others and writes it turned, slanted, stretched and moved
by amounts of their own, drawn at random, on a sheet of 20 × 20 pixels.
"""

from __future__ import annotations

from importlib import import_module

import numpy as np
from scipy import ndimage

from privot.datasets.images import LabeledImages
from privot.errors import PrivotError, require_count

SIDE = 20
MOST_PEOPLE = 10**7
_FINE, _HELD_OUT, _MARGIN = 40, 0.2, 1.15
# What of a pixel is paper still, and ink already: strokes were blurred by counting.
_PAPER, _INK = 0.25, 0.85
# Standard deviations of a hand: radians, slant, logarithms of both stretches, shares of the sheet.
_TURN, _SLANT, _STRETCH, _MOVE = 0.12, 0.15, 0.08, 0.03
_AT_ONCE = 4096


def draw_digits(num_people: int, seed: int = 0) -> LabeledImages:
    """Digits that people write, and held-out ones that nobody copied.

    Arguments:
        num_people: How many.
        seed: Of shapes and hands; which shapes are held out is always the same.

    Raises:
        PrivotError: without scikit-learn, or anyone.

    Examples:
        >>> images = draw_digits(100)
        >>> images.x_train.shape, images.x_test.shape
        ((100, 20, 20), (359, 20, 20))
    """
    num_people = require_count("people", num_people, MOST_PEOPLE)
    shapes, labels = _shapes()
    order = np.random.default_rng(0).permutation(len(shapes))
    held, copied = np.split(order, [int(_HELD_OUT * len(shapes))])
    rng = np.random.default_rng(seed)
    chosen = rng.choice(copied, num_people)
    written = np.empty((num_people, SIDE, SIDE), np.uint8)
    for start in range(0, num_people, _AT_ONCE):
        rows = slice(start, start + _AT_ONCE)
        hands = _hands(len(chosen[rows]), rng)
        written[rows] = _write(shapes[chosen[rows]], hands)
    plain = np.broadcast_to(_MARGIN * np.eye(2, 3), (len(held), 2, 3))
    return LabeledImages(
        "digits", written, labels[chosen], _write(shapes[held], plain), labels[held]
    )


def _shapes() -> tuple[np.ndarray, np.ndarray]:
    """All digits, finer, from 0 to 1, and their labels."""
    try:
        loaded = import_module("sklearn.datasets").load_digits()
    except ModuleNotFoundError:
        raise PrivotError(
            "the digits come with scikit-learn, which is not installed: pip install 'privot[evaluate]'"
        ) from None
    coarse = np.asarray(loaded.images, np.float32) / 16
    factor = _FINE / coarse.shape[1]
    # A cubic spline is linear in what it interpolates, and one axis after the other: two products.
    units = np.eye(coarse.shape[1], dtype=np.float32)
    along = ndimage.zoom(units, (1, factor), order=3, mode="grid-constant", grid_mode=True)
    fine = along.T @ coarse @ along
    return ((fine - _PAPER) / (_INK - _PAPER)).clip(0, 1), loaded.target.astype(np.uint8)


def _hands(count: int, rng: np.random.Generator) -> np.ndarray:
    """Affine maps (n, 2, 3) from a sheet to a shape, both being [−1, 1]², as (row, column)."""
    turn, slant, tall, wide, down, right = rng.standard_normal((6, count))
    cosine, sine = np.cos(_TURN * turn), np.sin(_TURN * turn)
    turned = np.moveaxis(np.array([[cosine, -sine], [sine, cosine]]), 2, 0)
    one, zero = np.ones(count), np.zeros(count)
    slanted = np.moveaxis(np.array([[one, zero], [_SLANT * slant, one]]), 2, 0)
    stretches = _MARGIN * np.exp(_STRETCH * np.stack([tall, wide], axis=1))
    moves = 2 * _MOVE * np.stack([down, right], axis=1)
    return np.concatenate([turned @ slanted * stretches[:, None], moves[:, :, None]], axis=2)


def _write(shapes: np.ndarray, hands: np.ndarray) -> np.ndarray:
    """Bytes (n, side, side): each shape (n, fine, fine) as its hand writes it, interpolated."""
    ends = (np.arange(SIDE) + 0.5) * 2 / SIDE - 1
    sheet = np.stack([*np.meshgrid(ends, ends, indexing="ij"), np.ones((SIDE, SIDE))])
    places = (hands @ sheet.reshape(3, -1) + 1) * _FINE / 2 - 0.5
    places = places.reshape(len(shapes), 2, SIDE, SIDE)
    padded = np.pad(shapes, ((0, 0), (1, 2), (1, 2)))
    corner = np.floor(places).clip(-1, _FINE).astype(np.int64)
    down, right = (places - corner).clip(0, 1).swapaxes(0, 1)
    rows, columns = (corner + 1).swapaxes(0, 1)
    who = np.arange(len(shapes))[:, None, None]
    above = padded[who, rows, columns] * (1 - right) + padded[who, rows, columns + 1] * right
    below = (
        padded[who, rows + 1, columns] * (1 - right) + padded[who, rows + 1, columns + 1] * right
    )
    return np.asarray(np.rint(255 * (above * (1 - down) + below * down)), np.uint8)
