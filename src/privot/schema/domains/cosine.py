r"""The orthonormal cosine transform of images, of which a public corner of low frequencies is kept.

With $C_h$ the orthonormal DCT-II matrix of size h, an image X of h × w pixels has coefficients
$C_h X C_w^⊤$. Keeping the m × m of lowest frequency is the linear map

$$ T X = A X B^⊤, \qquad A = C_h[:m],\; B = C_w[:m] , $$

whose rows are orthonormal: $T T^⊤ = I$, so $‖T X‖_2 ≤ ‖X‖_2$, with equality without a mask, and
$T^⊤ T$ is the orthogonal projection onto smooth images. Channels are transformed one by one. m is
declared in public; which coefficients of private images are large is not, and is never asked.

Noise of one scale hides a coefficient of low frequency, where images differ, no better than one of
high frequency, where they do not: cutting the latter loses little of the images, and in ℓ1 most of
the noise.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.fft import dct

from privot.schema.domains.domain import Array


@lru_cache(maxsize=64)
def cosine_rows(size: int, kept: int) -> Array:
    """The first `kept` rows of the orthonormal DCT-II matrix of a size, shape (kept, size).

    >>> rows = cosine_rows(8, 3)
    >>> bool(np.allclose(rows @ rows.T, np.eye(3)))
    True
    """
    rows = np.asarray(dct(np.eye(size), axis=0, norm="ortho")[:kept], np.float64)
    rows.setflags(write=False)
    return rows


def to_coefficients(images: Array, shape: tuple[int, ...], kept: tuple[int, int]) -> Array:
    """The kept coefficients (n, m·m·channels) of images (n, h·w·channels) of a shape."""
    height, width = shape[:2]
    cube = images.reshape(len(images), height, width, -1)
    along = np.tensordot(cube, cosine_rows(height, kept[0]), axes=(1, 1))  # n, w, c, m
    both = np.tensordot(along, cosine_rows(width, kept[1]), axes=(1, 1))  # n, c, m, m'
    return np.ascontiguousarray(both.transpose(0, 2, 3, 1)).reshape(len(images), -1)


def to_pixels(coefficients: Array, shape: tuple[int, ...], kept: tuple[int, int]) -> Array:
    """Images (n, h·w·channels) of kept coefficients, all others being 0: the transpose."""
    height, width = shape[:2]
    cube = coefficients.reshape(len(coefficients), *kept, -1)
    along = np.tensordot(cube, cosine_rows(height, kept[0]), axes=(1, 0))  # n, m', c, h
    both = np.tensordot(along, cosine_rows(width, kept[1]), axes=(1, 0))  # n, c, h, w
    return np.ascontiguousarray(both.transpose(0, 2, 3, 1)).reshape(len(coefficients), -1)
