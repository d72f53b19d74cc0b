"""What all declarations of columns share: they are frozen, and an unknown field is an error."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

Bounds = tuple[float, float]


class Declaration(BaseModel):
    """Public fields of one column, written by hand."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
