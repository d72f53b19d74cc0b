"""How much noise a randomizer will add, in the columns' own units, before anyone reports."""

from __future__ import annotations

from typing import Any

import numpy as np

from privot.mechanisms import (
    FrequencyOracle,
    Mechanism,
    NullableNoise,
    RandomizedResponse,
    SquareWave,
)
from privot.privacy.guarantees.figures import at_least, at_most, percent_at_least, percent_at_most
from privot.release.randomizer import Randomizer
from privot.release.reports.joint import JointReport
from privot.schema import ArrayColumn, PointColumn


def expected_noise(randomizer: Randomizer) -> list[dict[str, Any]]:
    """One row a split column and one for the joint report: mechanism, noise in numbers, in words.

    With additive noise, `stddev` is that of each coordinate's noise, in the column's units, and
    `relative` the same as a share of the coordinate's range; otherwise `keep` is the probability that
    the report names the truth. Of an image, `stddev` is one number, in units in which pixels go from
    −1 to 1.
    """
    rows = []
    if randomizer.joint is not None:
        rows.append(_joint(randomizer.joint))
    for name, mechanism in randomizer.mechanisms.items():
        fields: dict[str, Any] = {"column": name, "mechanism": mechanism.kind}
        if isinstance(mechanism, FrequencyOracle):
            fields |= _oracle(mechanism)
        else:
            fields |= _number(randomizer.schema.point_column(name), mechanism)
        if isinstance(mechanism, NullableNoise):
            fields |= _flagged(mechanism, fields["in_words"])
        rows.append(fields)
    return rows


def _joint(report: JointReport) -> dict[str, Any]:
    cells = sorted(set(report.num_cells.tolist()))
    keep = [report.mechanism(size).probabilities[0] for size in (cells[0], cells[-1])]
    sizes = [report.mechanism(size).subset_size for size in (cells[0], cells[-1])]
    named, out_of = (
        _span(*(f"{size:,}" for size in sizes)),
        _span(f"{cells[0]:,}", f"{cells[-1]:,}"),
    )
    truth = _span(percent_at_most(min(keep)), percent_at_most(max(keep)))
    return {
        "column": f"{report.report_columns} of {len(report.sizes)} columns, jointly",
        "mechanism": "subset_selection",
        "columns": list(report.sizes),
        "report_columns": report.report_columns,
        "cells": [cells[0], cells[-1]],
        "keep": [min(keep), max(keep)],
        "in_words": f"{named} of {out_of} cells, the true one among them with probability {truth}",
    }


def _span(least: str, most: str) -> str:
    return least if least == most else f"{least} to {most}"


def _number(column: PointColumn, mechanism: Mechanism) -> dict[str, Any]:
    if isinstance(column, ArrayColumn):
        return _image(column, mechanism)
    stddev = np.sqrt(mechanism.variance) * column.domain.scale
    relative = float(np.sqrt(mechanism.variance)) / 2
    each = ", ".join(at_least(value) for value in stddev[:4]) + (", …" if len(stddev) > 4 else "")
    share = percent_at_least(relative, 2)
    kind = "an estimate" if isinstance(mechanism, SquareWave) else "noise"
    return {
        "stddev": [float(value) for value in stddev],
        "relative": relative,
        "in_words": f"{kind} of standard deviation {each} ({share} of the range)",
    }


def _image(column: ArrayColumn, mechanism: Mechanism) -> dict[str, Any]:
    """One number, as all pixels or coefficients have the same noise, in unit coordinates."""
    stddev, domain = float(np.sqrt(mechanism.variance)), column.domain
    each = "pixel" if domain.kept is None else "cosine coefficient"
    words = (
        f"noise of standard deviation {at_least(stddev)} on each of {domain.dimension:,} {each}s "
        f"(pixels from -1 to 1; images are at most {at_most(domain.diameter(2))} apart)"
    )
    return {"stddev": stddev, "relative": stddev / 2, "in_words": words}


def _flagged(mechanism: NullableNoise, words: str) -> dict[str, Any]:
    keep = mechanism.flag.probabilities[0]
    said = f"{words}, and whether it is missing, the truth with probability {percent_at_most(keep)}"
    return {"keep": keep, "in_words": said}


def _oracle(mechanism: FrequencyOracle) -> dict[str, Any]:
    keep, other = mechanism.probabilities
    truth, others = f"the truth with probability {percent_at_most(keep)}", mechanism.num_values - 1
    if isinstance(mechanism, RandomizedResponse):
        return {"keep": keep, "in_words": f"{truth}, else one of the other {others} at random"}
    words = f"{truth}, each of {others} others with probability {percent_at_least(other)}"
    return {"keep": keep, "in_words": words}
