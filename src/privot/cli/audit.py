"""The audit at the prompt: try to break a randomizer before anyone trusts it."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer


def audit(
    randomizer: Annotated[Path, typer.Argument(help="The randomizer: randomizer.json.")],
    draws: Annotated[
        int | None, typer.Option(help="Draws of each record; a million or fewer by default.")
    ] = None,
    confidence: Annotated[
        float, typer.Option(help="Probability that all lower bounds are true.")
    ] = 0.999,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Bound each column's epsilon from below, by trial, and compare with what is promised.

    Exit code 0 if nothing contradicts the promise, 1 if it is refuted.

    Example: privot audit randomizer.json
    """
    from privot.privacy.figures import at_least, at_most
    from privot.release import Randomizer
    from privot.release.audit import audit_randomizer, stated_guarantee

    loaded = Randomizer.load(randomizer)
    promised = stated_guarantee(randomizer.read_text(encoding="utf-8"))
    result = audit_randomizer(loaded, promised, num_draws=draws, confidence=confidence)
    if as_json:
        fields = {
            "refuted": result.refuted,
            "confidence": result.confidence,
            "promised": result.promised.to_dict(),
            "implied": result.implied.to_dict(),
            "columns": [asdict(column) | {"refuted": column.refuted} for column in result.columns],
        }
        print(json.dumps(fields))
        raise typer.Exit(int(result.refuted))
    print(f"{randomizer}: promised {result.promised}")
    verdict = "more than promised: REFUTED" if result.overstated else "as promised"
    print(f"by arithmetic, its noise gives {result.implied}: {verdict}")
    print(
        f"by trial, each column alone, all bounds together {at_least(result.confidence, 6)} certain:"
    )
    for column in result.columns:
        at_delta = f" at delta = {at_most(column.delta)}" if column.delta else ""
        verdict = "REFUTED" if column.refuted else "no contradiction found"
        print(
            f"  {column.column}: epsilon at least {at_least(column.epsilon_lower)}, promised "
            f"{at_most(column.epsilon)}{at_delta} ({column.mechanism}, {column.num_tested:,} tested "
            f"draws a record): {verdict}"
        )
    print("A bound below the promise proves nothing. Columns were not tried together.")
    print(f"{randomizer}: {'REFUTED' if result.refuted else 'no contradiction found'}")
    raise typer.Exit(int(result.refuted))
