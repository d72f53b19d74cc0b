"""How much noise a randomizer will add, in the columns' own units, before anyone reports."""

from __future__ import annotations

from typing import Any

import numpy as np

from privot.mechanisms import Mechanism
from privot.release.randomizer import Randomizer
from privot.schema import CategoricalColumn, ContinuousColumn


def expected_noise(randomizer: Randomizer) -> list[dict[str, Any]]:
    """One row a column: its mechanism, the noise in numbers, and in words.

    A continuous column's `stddev` is that of each coordinate's noise, in the column's units, and
    `relative` the same as a share of the coordinate's range; a categorical column's `keep` is the
    probability of reporting the truth.
    """
    rows = []
    for name, mechanism in randomizer.mechanisms.items():
        fields: dict[str, Any] = {"column": name, "mechanism": mechanism.to_dict()["kind"]}
        if name in randomizer.schema.categorical:
            fields |= _categorical(randomizer.schema.categorical[name], mechanism)
        else:
            fields |= _continuous(randomizer.schema.continuous[name], mechanism)
        rows.append(fields)
    return rows


def _continuous(column: ContinuousColumn, mechanism: Mechanism) -> dict[str, Any]:
    stddev = np.sqrt(mechanism.variance) * column.domain.scale
    relative = float(np.sqrt(mechanism.variance)) / 2
    each = ", ".join(f"{value:.4g}" for value in stddev[:4]) + (", …" if len(stddev) > 4 else "")
    return {
        "stddev": [float(value) for value in stddev],
        "relative": relative,
        "in_words": f"noise of standard deviation {each} ({relative:.0%} of the range)",
    }


def _categorical(column: CategoricalColumn, mechanism: Mechanism) -> dict[str, Any]:
    keep = float(np.exp(mechanism.log_likelihood(np.array([0]), np.array([0]))[0]))
    return {
        "keep": keep,
        "in_words": f"the truth with probability {keep:.1%}, else one of the other "
        f"{len(column.categories) - 1} at random",
    }
