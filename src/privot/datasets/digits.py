"""Handwritten digits of 8 × 8 pixels, which come with scikit-learn: no download.

1 797 digits by 43 people, each pixel from 0 to 16: bitmaps of 32 × 32, of which blocks of 4 × 4 were
counted. They are the test set of Alpaydin and Kaynak's *Optical recognition of handwritten digits*
(1998), of the UCI repository, CC BY 4.0.
"""

from __future__ import annotations

import importlib

import numpy as np
import pyarrow as pa

from privot.errors import PrivotError
from privot.schema.columns.array import tensor_array


def load_digit_images() -> pa.Table:
    """The digits as a table: `image`, tensors of 8 × 8 numbers from 0 to 16, and `label`.

    Raises:
        PrivotError: without scikit-learn.
    """
    try:
        loaded = importlib.import_module("sklearn.datasets").load_digits()
    except ModuleNotFoundError:
        raise PrivotError(
            "the digits come with scikit-learn, which is not installed: pip install 'privot[evaluate]'"
        ) from None
    labels = pa.array([str(label) for label in loaded.target])
    images = np.asarray(loaded.images, np.float32)
    return pa.table({"image": tensor_array(images), "label": labels})
