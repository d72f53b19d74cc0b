r"""What a rotating panel promises: ε in any w consecutive waves, ⌈k/w⌉ ε in any k.

The proof is in `privot.waves.panel`. **Adjacency**: one person's whole sequence of values is replaced
by any other; people, and when they report, are public.
For reports that are (ε, δ)-private both numbers are multiplied, as sequences of reports compose
adaptively (Dwork, Kenthapadi, McSherry, Mironov, Naor 2006).

**Privacy review.** Arithmetic of public numbers; nothing here sees a record.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

from privot.errors import PrivotError
from privot.privacy import ApproximateDP, PureDP
from privot.privacy.guarantees.composition import guarantee_from_dict
from privot.privacy.rounding import multiply_up
from privot.waves.panel import Panel


@dataclass(frozen=True)
class PanelGuarantee:
    """The promise to a person who reports in their slot of a panel, in all its waves together.

    Arguments:
        report: What one report promises, under local privacy.
        window: w.
        waves: T; None without end.

    >>> promise = PanelGuarantee(PureDP(2.0), window=6, waves=52)
    >>> print(promise)
    ε = 2 (pure) in any 6 consecutive waves, ε = 18 (pure) over 52, local, per person, for any values
    """

    report: PureDP | ApproximateDP
    window: int
    waves: int | None = None

    def __post_init__(self) -> None:
        if self.report.neighboring != "local":
            raise PrivotError(
                f"neighboring is {self.report.neighboring!r}: a panel's reports are local; give the "
                "guarantee of a randomizer"
            )

    @classmethod
    def of(cls, panel: Panel, report: PureDP | ApproximateDP) -> Self:
        """The promise of a panel whose reports each promise `report`."""
        return cls(report, panel.window, panel.waves)

    def over(self, waves: int) -> PureDP | ApproximateDP:
        """What all reports of one person in so many consecutive waves promise together."""
        if waves < 1:
            raise PrivotError(f"waves {waves!r} cannot be: give a number of waves, at least 1")
        count, report = -(-waves // self.window), self.report
        losses: dict[str, Any] = {
            name: multiply_up(getattr(report, name), count) for name in report.losses
        }
        return replace(report, **losses)

    @property
    def in_window(self) -> PureDP | ApproximateDP:
        """In any w consecutive waves."""
        return self.over(self.window)

    @property
    def in_all(self) -> PureDP | ApproximateDP | None:
        """Over all T waves; None, and without bound, where they have no end."""
        return None if self.waves is None else self.over(self.waves)

    def __str__(self) -> str:
        everything = self.in_all
        total = (
            "without bound for ever"
            if everything is None
            else f"{_figures(everything)} over {self.waves}"
        )
        return (
            f"{_figures(self.in_window)} in any {self.window} consecutive waves, {total}, local, per "
            f"{self.report.unit}, for any values"
        )

    def describe(self) -> str:
        """Return the promise in plain words."""
        unit, everything = self.report.unit, self.in_all
        total = (
            "The waves have no end, and what all of them together tell has no bound."
            if everything is None
            else f"All {self.waves} waves together promise {_figures(everything)}."
        )
        return (
            f"Each {unit} reports at most once in any {self.window} consecutive waves, in a slot that "
            f"public coins chose, whatever their values are and however those change. Everything that a "
            f"{unit} reports in any {self.window} consecutive waves together: {self.report.describe()} "
            f"{total} Two sequences of values are compared as wholes: nothing is assumed of how values "
            "of one week tell those of another."
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"report": self.report.to_dict(), "window": self.window, "waves": self.waves}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Read what `to_dict` wrote."""
        return cls(guarantee_from_dict(values["report"]), values["window"], values["waves"])


def _figures(guarantee: PureDP | ApproximateDP) -> str:
    return str(guarantee).partition(", local")[0]
