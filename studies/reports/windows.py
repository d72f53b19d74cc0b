"""Which window is best: radii and shapes compared on public synthetic people, not on any data.

    python -m studies reports.windows --epsilon 4 --radii .1 .15 .225 .35 .5 --people 200000
    python -m studies reports.windows --dimension 3 --epsilon 2 --radii .4 .8 1.2 --people 100000
    python -m studies reports.windows --epsilon 2 --radii .3 .45 --shape product
    python -m studies reports.windows --epsilon .5 --radii 1 1.3 1.8 --countries FR ES IT JP

People are clusters and filaments, and inhabitants of countries (`studies.reports.populations`).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from privot.local.deconvolution import average_by_evidence, deconvolve
from privot.mechanisms import Window
from privot.schema.domains import Array
from studies.common.rows import gather
from studies.reports.populations import SPACINGS, draw_clusters, draw_country, error, report


def compare(chosen: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A row for each radius: the error of each population's fit, and their mean."""
    d = chosen.dimension
    for radius in chosen.radii:
        steps = max(SPACINGS[d], 2 ** int(np.ceil(np.log2(8 / radius))))
        window = Window(chosen.epsilon, d, steps, round(radius * steps / 2), chosen.shape)
        errors = []
        drawn = [draw_clusters(seed, chosen.people, d) for seed in range(chosen.populations)]
        for people in drawn + [draw_country(code, chosen.people) for code in chosen.countries]:
            errors.append(error(_fit(people, window), people))
        yield {
            "dimension": d,
            "epsilon": chosen.epsilon,
            "shape": chosen.shape,
            "radius": radius,
            "people": chosen.people,
            "error": round(float(np.mean(errors)), 4),
            "each": np.round(errors, 4).tolist(),
        }


def _fit(people: Array, window: Window) -> Array:
    channel, d = report(people, window), people.shape[1]
    if d == 1:
        return average_by_evidence(channel).weights
    return deconvolve(channel, np.ones((channel.spacings + 1,) * d, bool)).weights


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("--dimension", type=int, choices=[1, 2, 3], default=2)
    parser.add_argument("--epsilon", type=float, required=True)
    parser.add_argument("--radii", type=float, nargs="+", required=True)
    parser.add_argument("--shape", choices=["ball", "product"], default="ball")
    parser.add_argument("--people", type=int, default=200_000)
    parser.add_argument("--populations", type=int, default=4)
    parser.add_argument("--countries", nargs="*", default=[], help="such as FR ES, in the plane")
    parser.add_argument("-o", "--output", type=Path)


def run(chosen: argparse.Namespace) -> None:
    """Command line."""
    gather(compare(chosen), chosen.output)
