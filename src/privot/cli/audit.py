"""The audit at the prompt: try to break a randomizer before anyone trusts it."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from privot.release.audits.audit import RandomizerAudit


def audit(
    randomizer: Annotated[Path, typer.Argument(help="The randomizer: randomizer.json.")],
    draws: Annotated[
        int | None,
        typer.Option(help="Reports of each made-up record; 200,000 or fewer by default."),
    ] = None,
    confidence: Annotated[
        float, typer.Option(help="Probability that an honest randomizer passes.")
    ] = 0.999,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Test the law of the reports, bound their epsilon from below, and compare with the promise.

    Made-up people report, as on a device. Exit code 0 if nothing contradicts the promise, 1 if it is
    refuted.

    Example: privot audit randomizer.json
    """
    from privot.release import Randomizer
    from privot.release.audits.audit import audit_randomizer, stated_guarantee

    loaded = Randomizer.load(randomizer)
    promised = stated_guarantee(randomizer.read_text(encoding="utf-8"))
    result = audit_randomizer(loaded, promised, num_draws=draws, confidence=confidence)
    if as_json:
        fields = {
            "refuted": result.refuted,
            "confidence": result.confidence,
            "promised": result.promised.to_dict(),
            "implied": result.implied.to_dict(),
            "tests": [asdict(test) | {"refuted": test.refuted} for test in result.tests],
            "columns": [asdict(column) | {"refuted": column.refuted} for column in result.columns],
        }
        print(json.dumps(fields))
        raise typer.Exit(int(result.refuted))
    print(f"{randomizer}: promised {result.promised}")
    verdict = "more than promised: REFUTED" if result.overstated else "as promised"
    print(f"by arithmetic, its noise gives {result.implied}: {verdict}")
    _print_tests(result)
    _print_bounds(result)
    print(
        "What no audit finds: a leak too rare for these draws or for records that were not tried, code "
        "that behaves differently elsewhere, and whoever reads raw values before the noise."
    )
    print(f"{randomizer}: {'REFUTED' if result.refuted else 'no contradiction found'}")
    raise typer.Exit(int(result.refuted))


def _print_tests(result: RandomizerAudit) -> None:
    from privot.privacy.guarantees.figures import at_least, at_most

    print(
        f"by law, {len(result.tests)} questions; an honest randomizer passes this audit with "
        f"probability {at_least(result.confidence, 6)} at least:"
    )
    for test in result.tests:
        if test.refuted:
            answer = f"NO, REFUTED ({test.finding or f'chance at most {at_most(test.p_value, 1)}'})"
        else:
            answer = "no contradiction found"
        print(f"  {test.question}: {answer}")


def _print_bounds(result: RandomizerAudit) -> None:
    from privot.privacy.guarantees.figures import at_least, at_most

    print(
        "by trial, what the reports of two records prove (a bound below the promise proves nothing):"
    )
    for column in result.columns:
        at_delta = f" at delta = {at_most(column.delta)}" if column.delta else ""
        verdict = "no contradiction found"
        if column.refuted:
            verdict = (
                f"REFUTED (by its law, reports tell records apart by e^{at_least(column.ratio)})"
            )
        apart = ""
        if column.mu is not None and column.mu_lower is not None:
            apart = f"mu at least {at_least(column.mu_lower)}, promised {at_most(column.mu)}; "
        print(
            f"  {column.column}: {apart}epsilon at least {at_least(column.epsilon_lower)}, promised "
            f"{at_most(column.epsilon)}{at_delta} ({column.mechanism}, {column.num_tested:,} tested "
            f"draws a record): {verdict}"
        )
