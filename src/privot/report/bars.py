"""Bars of a column that has codes: categories by their share, bins in their own order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from privot.evaluation import Told
from privot.schema import Schema

_MOST_BARS = 16


@dataclass(frozen=True)
class Bar:
    """One value, or several in one: shares of synthetic and of real records.

    Arguments:
        label: What it stands for.
        synthetic: Share.
        real: Share of real records, where there are some.
        told: What reports alone say of it, where it is one code that they were asked for.
    """

    label: str
    synthetic: float
    real: float | None = None
    told: Told | None = None

    @property
    def longest(self) -> float:
        """The largest share that is shown of it."""
        return max(self.synthetic, self.real or 0.0, self.told.reports.high if self.told else 0.0)


def bars_of(
    schema: Schema,
    name: str,
    synthetic: pa.Table,
    real: pa.Table | None = None,
    told: Sequence[Told] = (),
) -> tuple[Bar, ...]:
    """Bars of one column that has codes.

    Categories stand in the order of their real shares (or else the synthetic ones), the rare ones in one
    bar; bins stand in their own order, neighbors in one bar where they are many.
    """
    column = schema.coded[name]
    alphabet = column.alphabet
    ours = _shares(schema, name, synthetic)
    truth = None if real is None else _shares(schema, name, real)
    binned = alphabet.centers is not None
    ranks = -(ours if truth is None else truth) if alphabet.centers is None else alphabet.centers
    order = np.argsort(ranks, kind="stable")
    present = [int(code) for code in order if code != alphabet.missing]
    groups = _neighbors(present) if binned else _frequent(present)
    groups += [[alphabet.missing]] if alphabet.missing is not None else []
    names = _name_range if binned else _name_others
    return tuple(
        Bar(
            names([column.labels[c] for c in g]),
            float(ours[g].sum()),
            None if truth is None else float(truth[g].sum()),
            told[g[0]] if told and len(g) == 1 else None,
        )
        for g in groups
    )


def _shares(schema: Schema, name: str, table: pa.Table) -> np.ndarray:
    column = schema.coded[name]
    codes = column.encode_codes(name, table)
    return np.bincount(codes, minlength=column.alphabet.size) / table.num_rows


def _neighbors(codes: list[int]) -> list[list[int]]:
    parts = min(len(codes), _MOST_BARS)
    return [[int(code) for code in group] for group in np.array_split(codes, parts)]


def _frequent(codes: list[int]) -> list[list[int]]:
    most = _MOST_BARS if len(codes) <= _MOST_BARS else _MOST_BARS - 1
    rest = codes[most:]
    return [[code] for code in codes[:most]] + ([rest] if rest else [])


def _name_range(labels: Sequence[str]) -> str:
    return labels[0] if len(labels) == 1 else f"{labels[0]} … {labels[-1]}"


def _name_others(labels: Sequence[str]) -> str:
    return labels[0] if len(labels) == 1 else f"{len(labels)} others"
