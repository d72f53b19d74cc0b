r"""Record maps: how raw values become points of a ball, in public.

The mechanism projects *records*: r = e_y ⊗ φ(x), with a public feature map φ and the one-hot label
e_y (nothing to multiply with where there are no labels). It learns the **mean** of records well, and
anything else about them badly: a slice of one record is a little signal in much noise, but the mean of
many slices of many batches is known to a few percent of what a record adds. So what is wanted must be
made a mean. With the label multiplied in, the mean of a record holds every class's mean feature; with
products of coordinates among the features, its second moments.

**The square of a lifted vector.** For x ∈ R^p and an anchor a > 0 let x̃ = (x, a)/‖(x, a)‖ and
φ(x) = x̃ ⊗ x̃, each pair of coordinates once. Then ‖φ(x)‖ = ‖x̃‖² = 1 for every x: nothing is clipped,
no norm needs to be known. φ holds first moments (x_i a/‖·‖²), second moments, and the length. And
⟨φ(x), φ(x′)⟩ = ⟨x̃, x̃′⟩² ≥ 0 whatever the signs, so two records differ by at most √2·R: the
diameter of *non-negative* records, though coordinates have signs. (What the accountant's
`non_negative` rests on is ⟨r, r′⟩ ≥ 0 alone; records of different labels are orthogonal.)

Maps know nothing of privacy. They are functions of one record each and of public numbers.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor


class RecordMap(Protocol):
    """A public map from raw values to features, and how labels enter."""

    @property
    def num_labels(self) -> int:
        """Number of classes; 1 where there are no labels."""

    @property
    def unit(self) -> str:
        """Whom one record belongs to: what is promised is promised per unit."""

    @property
    def width(self) -> int:
        """Number of features w of one record; records have num_labels · w coordinates."""

    @property
    def non_negative(self) -> bool:
        """Whether ⟨r, r′⟩ ≥ 0 for any two records."""

    def prepare(self, values: Tensor) -> Tensor:
        """What is kept of raw values (n, …), row by row: done once for a data set."""

    def features(self, prepared: Tensor) -> Tensor:
        """Features (n, width), in or near the unit ball; differentiable."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values that tell the map from others."""


def lift(x: Tensor, anchor: float) -> Tensor:
    """Unit vectors (x, a)/‖(x, a)‖ of shape (n, p+1)."""
    longer = torch.cat([x, torch.full_like(x[:, :1], anchor)], dim=1)
    return longer / longer.norm(dim=1, keepdim=True)


def square(x: Tensor) -> Tensor:
    """Products x_i x_j for i ≤ j, (n, p(p+1)/2), off-diagonal ones times √2: ‖square(x)‖ = ‖x‖²."""
    i, j = torch.triu_indices(x.shape[1], x.shape[1], device=x.device)
    weight = torch.where(i == j, 1.0, 2**0.5).to(x.dtype)
    # Picking rows is several times faster than picking columns.
    rows = x.T.contiguous()
    return (rows.index_select(0, i) * rows.index_select(0, j) * weight[:, None]).T


def unsquare(flat: Tensor) -> Tensor:
    """Symmetric matrices (…, p, p) of features (…, p(p+1)/2): the inverse of `square`'s layout."""
    size = int(((8 * flat.shape[-1] + 1) ** 0.5 - 1) / 2)
    i, j = torch.triu_indices(size, size)
    weight = torch.where(i == j, 1.0, 0.5**0.5).to(flat.dtype)
    matrix = flat.new_zeros(*flat.shape[:-1], size, size)
    matrix[..., i, j] = matrix[..., j, i] = flat * weight
    return matrix
