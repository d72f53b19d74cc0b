"""Small stand-ins for public image sets, some in their own file format."""

import hashlib
import struct

import numpy as np

from privot.demo.datasets import IDX_FILES, Source


def idx_bytes(array):
    sizes = struct.pack(f">{array.ndim}I", *array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + array.tobytes()


def made_up(seed=0):
    """Four arrays of the shapes of MNIST, small."""
    rng = np.random.default_rng(seed)
    draw = lambda *shape: rng.integers(0, 256, shape).astype(np.uint8)  # noqa: E731
    return draw(6, 4, 5), draw(6) % 10, draw(3, 4, 5), draw(3) % 10


def source_of(arrays, files=IDX_FILES, addresses=()):
    sums = tuple(hashlib.sha256(array.tobytes()).hexdigest() for array in arrays)
    return Source("made_up", tuple(addresses), files, sums)


def bars(num_images, seed):
    """Bright bars on black, upright (label 1) or lying (label 0), as bytes."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, num_images).astype(np.uint8)
    images = np.zeros((num_images, 28, 28), np.uint8)
    for image, label, place in zip(images, labels, rng.integers(8, 17, num_images), strict=True):
        (image.T if label else image)[place : place + 4, 6:22] = 255
    return images, labels
