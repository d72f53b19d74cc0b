"""How much noise a randomizer will add, in the columns' own units, before anyone reports."""

from __future__ import annotations

from typing import Any

from privot.privacy.guarantees.figures import percent_at_most
from privot.release.randomizer import Randomizer
from privot.release.reports.joint import JointReport


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
        fields |= mechanism.expected(randomizer.schema.columns[name])
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
