r"""What records are to the mechanism: points of a ball, by public maps, and back.

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

from abc import abstractmethod
from collections.abc import Mapping
from math import prod
from typing import Any, Protocol

import pyarrow as pa
import torch
from torch import Tensor

from privot.errors import PrivotError
from privot.schema import Schema


class RecordMap(Protocol):
    """A public map from raw values to features, and how labels enter."""

    @property
    @abstractmethod
    def num_labels(self) -> int:
        """Number of classes; 1 where there are no labels."""

    @property
    @abstractmethod
    def unit(self) -> str:
        """Whom one record belongs to: what is promised is promised per unit."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Number of features w of one record; records have num_labels · w coordinates."""

    @property
    @abstractmethod
    def non_negative(self) -> bool:
        """Whether ⟨r, r′⟩ ≥ 0 for any two records."""

    @abstractmethod
    def prepare(self, values: Tensor) -> Tensor:
        """What is kept of raw values (n, …), row by row: done once for a data set."""

    @abstractmethod
    def features(self, prepared: Tensor) -> Tensor:
        """Features (n, width), in or near the unit ball; differentiable."""


class Records(RecordMap):
    """The records of a schema: a map that begins at a table, and leads back to one.

    A network gives `outputs` numbers for a label, which `activate` makes raw values of.
    """

    schema: Schema

    @property
    def num_labels(self) -> int:
        """See `RecordMap`."""
        return 1

    @property
    def unit(self) -> str:
        """See `RecordMap`: the schema says it."""
        return self.schema.unit

    @property
    @abstractmethod
    def array_shape(self) -> tuple[int, ...]:
        """Shape of a raw value's numbers: an image's height, width and channels, or just how many."""

    @property
    def outputs(self) -> int:
        """How many numbers a raw value is."""
        return prod(self.array_shape)

    @abstractmethod
    def encode(self, table: pa.Table) -> tuple[Tensor, Tensor | None]:
        """Raw values (n, …) and labels (n,) of rows; None where there are no labels."""

    @abstractmethod
    def activate(self, outputs: Tensor) -> Tensor:
        """Raw values (n, …) of a network's outputs (n, outputs)."""

    @abstractmethod
    def decode(self, values: Tensor, labels: Tensor, rng: torch.Generator) -> pa.Table:
        """A table of raw values and labels; codes are drawn from their probabilities."""

    def wanted(self, where: Mapping[str, Any]) -> Tensor:
        """Which labels (num_labels,) meet a condition."""
        if where:
            raise PrivotError(
                f"where names {', '.join(where)}: only labels of images can be asked for; draw more, "
                "and keep what fits"
            )
        return torch.ones(self.num_labels)

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Plain values that `records_of` makes it of again."""


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


def width_of(coordinates: int, degree: int) -> int:
    """Number of features of p coordinates: p themselves, or those of the lifted vector's square."""
    if degree not in (1, 2):
        raise PrivotError(f"degree {degree}: give 1 or 2")
    return coordinates if degree == 1 else (coordinates + 1) * (coordinates + 2) // 2
