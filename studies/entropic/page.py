"""Tables of the page of the entropic-transport papers' figures, from the rows of their recipes.

    python -m studies entropic.page

Rewrites the tables of `docs/results/entropic.md` (`studies.common.pages`), the papers' claims with their
verdicts included (`studies.entropic.claims`, `studies.entropic.theorem_claims`); pictures are those that
the recipes drew.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path

from privot.core.errors import PrivotError
from studies.common.pages import Tables, folder_of, page_options, provenance, rewrite
from studies.common.rows import Rows, over_seeds, read_rows, select, with_spread
from studies.common.verdicts import (
    Claim,
    claims_table,
    counted,
    of_all_seeds,
    others_table,
    told_by_seeds,
)
from studies.entropic.claims import (
    curve_claims,
    denoising_claims,
    noisy_claims,
    privacy_claims,
    size_claims,
    sweep_claims,
)
from studies.entropic.denoising import with_denoisers
from studies.entropic.higher_privacy import beside_baselines
from studies.entropic.tables import (
    curves_table,
    denoising_tables,
    higher_privacy_tables,
    noise_sweep_table,
    noisy_table,
    size_sweep_table,
)
from studies.entropic.theorem_claims import UNTESTED, support_claims, theorem_claims

# A recipe's rows, what is shown of them, and which claims they judge, in the order of the page.
Show = Callable[[Rows, Path], str]
PARTS: dict[str, tuple[Show, Callable[[Rows], list[Claim]]]] = {
    "manifold_losses": (curves_table, curve_claims),
    "denoising": (denoising_tables, denoising_claims),
    "noise_sweep": (noise_sweep_table, sweep_claims),
    "size_sweep": (size_sweep_table, size_claims),
    "higher_privacy": (higher_privacy_tables, privacy_claims),
    "noisy_wasserstein": (noisy_table, noisy_claims),
}
# Folders of other rows of the same recipes: fits of twice the steps, or of the papers' network.
LONGER, DCGAN = "twice", "dcgan"


def tables_of(folder: Path) -> Tables:
    """The page's tables, of the rows in its folder.

    Raises:
        PrivotError: if a recipe has no rows there.
    """
    rows = {name: read_rows(folder, name) for name in PARTS}
    if missing := [name for name, found in rows.items() if not found]:
        raise PrivotError(f"{folder} has no rows of {', '.join(missing)}: run them first")
    longer, dcgan = (_rows_of(folder, other) for other in (LONGER, DCGAN))
    made = [row for each in (rows, longer, dcgan) for found in each.values() for row in found]
    (theorems,) = read_rows(folder.parent / "theorems", "theorems")
    curves = _curves_of(folder.parent / "half_circle")
    seeds = _joined(rows)
    rows, longer, dcgan = (
        {name: with_spread(found, seeds[name]) for name, found in _joined(each).items()}
        for each in (rows, longer, dcgan)
    )
    # What a generator learns is judged by both networks: from our start, and from random weights.
    judged = _claims(rows | {"denoising": rows["denoising"] + dcgan["denoising"]})
    claims = [*judged, *support_claims(curves), *theorem_claims(theorems), *UNTESTED]
    each_alone = [
        _claims({name: select(found, seed=seed) for name, found in rows.items()})
        for seed in sorted({row["seed"] for found in rows.values() for row in found})
    ]
    shown = {
        name.replace("_", " "): partial(show, over_seeds(seeds[name]), folder)
        for name, (show, _) in PARTS.items()
    }
    return {
        "claims": lambda: claims_table(claims),
        "counts": lambda: counted(claims),
        "seeds": lambda: told_by_seeds(each_alone),
        "longer fits": lambda: others_table(_claims(rows), _claims(longer)),
        "dcgan": lambda: denoising_tables(dcgan["denoising"], folder),
        **shown,
        "made": lambda: provenance(made),
    }


def _rows_of(folder: Path, other: str) -> dict[str, Rows]:
    """Of each recipe, those of another folder, which their stems name."""
    return {
        name: [row | {"stem": f"{other}/{row['stem']}"} for row in read_rows(folder / other, name)]
        for name in PARTS
    }


def _curves_of(folder: Path) -> Rows:
    """Curves at 400 000 people, of every seed."""
    return [
        row
        for each in (folder, *sorted(folder.glob("seed*")))
        for row in read_rows(each, "")
        if "setting" in row
    ]


def _joined(rows: dict[str, Rows]) -> dict[str, Rows]:
    """Rows with those of their denoisers and baselines."""
    return rows | {
        "denoising": with_denoisers(rows["denoising"]),
        "higher_privacy": beside_baselines(rows["higher_privacy"]),
    }


def _claims(rows: dict[str, Rows]) -> list[Claim]:
    judged = [judge(rows[name]) for name, (_, judge) in PARTS.items() if rows[name]]
    return of_all_seeds([claim for found in judged for claim in found])


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    page_options(parser, "entropic")


def run(chosen: argparse.Namespace) -> None:
    """All tables of the page."""
    rewrite(chosen.page, tables_of(folder_of(chosen.page)))
