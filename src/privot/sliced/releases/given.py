"""Private records as they are given: arrays of any library, refused before anything is spent on them.

A refusal tells the curator alone, and leaves nothing behind. Numbers are never changed to make them fit:
pixels of 0 to 255 would all be cut to 1, and a label of 0.7 would become another class's.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from privot.errors import PrivotError


def given_values(values: ArrayLike | Tensor) -> Tensor:
    """Raw records (n, …) as numbers with fractions.

    Raises:
        PrivotError: if there are none, or they are no such numbers.
    """
    tensor = _as_tensor("values", values)
    if tensor.ndim == 0 or len(tensor) == 0:
        raise PrivotError("there are no records: give at least one")
    if not tensor.is_floating_point():
        raise PrivotError(
            f"values are {tensor.dtype}: give floats, scaled by public numbers (pixels to [0, 1])"
        )
    return tensor


def given_labels(labels: ArrayLike | Tensor | None, count: int, num_labels: int) -> Tensor:
    """Their labels (n,), int64; zeros where there are none.

    Raises:
        PrivotError: if a label is missing, or is no whole number from 0 to num_labels - 1.
    """
    if labels is None:
        if num_labels > 1:
            raise PrivotError(f"labels are missing: give one in 0 to {num_labels - 1} a record")
        return torch.zeros(count, dtype=torch.int64)
    given = _as_tensor("labels", labels)
    if given.shape != (count,):
        raise PrivotError(
            f"labels of shape {tuple(given.shape)} do not fit {count:,} records: give one a record"
        )
    whole = given.long()
    if bool(((whole != given) | (whole < 0) | (whole >= num_labels)).any()):
        raise PrivotError(
            f"labels hold what is no class of num_labels {num_labels}: give whole numbers from 0 to "
            f"{num_labels - 1}"
        )
    return whole


def _as_tensor(name: str, given: Any) -> Tensor:
    if isinstance(given, Tensor):
        return given
    try:
        return torch.tensor(np.asarray(given))
    except (TypeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise PrivotError(f"{name} are no array of numbers ({reason}): give one") from None
