"""`privot audit --exact`: what the integers of a randomizer prove, in print and as JSON.

Reads the file alone, by the code that devices check programs with, and none that makes them.
"""

from __future__ import annotations

import json
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from privot.device.exact import ExactLaw, Part, Ratio, check_randomizer
from privot.device.exponential import LARGEST, exp_below
from privot.errors import PrivotError

_DIGITS = 15


def audit_exactly(path: Path, as_json: bool) -> int:
    """Print the exact law beside the promise; the exit code, 1 where the promise is exceeded."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PrivotError(f"randomizer {path} cannot be read: {error}") from None
    law = check_randomizer(text)
    if as_json:
        print(json.dumps(_fields(law)))
        return int(not law.holds)
    print(
        f"{path}: promised epsilon {law.epsilon!r}, e^epsilon is {_promised(law.epsilon)} at least"
    )
    print("likelihood ratios of any two records, exactly, from the integers that devices draw by:")
    for part in (*law.always, *law.split):
        print(f"  {part.name} ({_how(part)}): {_in_words(part.ratio)}")
    if law.choose < len(law.split):
        print(
            f"  of {len(law.split)} columns a report holds {law.choose}: those of the largest count"
        )
    print(f"in all, their product: {_in_words(law.total)}")
    print(f"{path}: {'as promised, PROVED' if law.holds else 'more than promised: REFUTED'}")
    return int(not law.holds)


def rounded(number: Fraction, rounding: str) -> str:
    """A decimal of 15 digits on the safe side of a positive number.

    >>> rounded(Fraction(1, 3), ROUND_CEILING), rounded(Fraction(1, 3), ROUND_FLOOR)
    ('0.333333333333334', '0.333333333333333')
    """
    context = Context(prec=_DIGITS, rounding=rounding)
    return str(context.divide(Decimal(number.numerator), Decimal(number.denominator)))


def _promised(epsilon: float) -> str:
    return rounded(exp_below(min(Fraction(epsilon), Fraction(LARGEST))), ROUND_FLOOR)


def _how(part: Part) -> str:
    return part.draw if part.blocks == 1 else f"{part.draw}, {part.blocks} blocks"


def _in_words(ratio: Ratio) -> str:
    above = ratio.above
    decimal = "" if above is None else f", at most {rounded(above, ROUND_CEILING)}"
    return f"{_formula(ratio)}{decimal}"


def _formula(ratio: Ratio) -> str:
    power = f"e^({ratio.exponent})"
    if not ratio.exponent:
        return str(ratio.factor)
    return power if ratio.factor == 1 else f"{ratio.factor} * {power}"


def _ratio(ratio: Ratio) -> dict[str, Any]:
    above = ratio.above
    return {
        "factor": str(ratio.factor),
        "exponent": str(ratio.exponent),
        "at_most": None if above is None else rounded(above, ROUND_CEILING),
    }


def _fields(law: ExactLaw) -> dict[str, Any]:
    parts = [
        {"name": part.name, "draw": part.draw, "blocks": part.blocks} | _ratio(part.ratio)
        for part in (*law.always, *law.split)
    ]
    return {
        "refuted": not law.holds,
        "epsilon": law.epsilon,
        "promised_at_least": _promised(law.epsilon),
        "parts": parts,
        "split": len(law.split),
        "choose": law.choose,
        "total": _ratio(law.total),
    }
