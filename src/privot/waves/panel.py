"""Rotating panels, which assign each person to waves by a public hash, and their guarantee over time.

Time is divided into **waves** of equal length, numbered 0, 1, …, T − 1 (or without end). Every person
permanently has a **slot** s of 0 … w − 1: a hash of the panel's public seed and the person's public id,
which does not depend on any value. A person reports once, with the whole ε of a report, in each wave t
with t mod w = s, and in no other wave.

**Theorem.** Let each report be ε-locally private, with independent randomness. Then, between any two
sequences x₀ … x_{T−1}, x′₀ … x′_{T−1} of one person's values, the reports of any w consecutive waves
together are ε-private, and the reports of all T waves are ⌈T/w⌉ ε-private.

*Proof.* Of w consecutive integers exactly one is s modulo w, and of T consecutive ones at most ⌈T/w⌉.
Slot, waves and number of reports are functions of the seed and the id, and are the same for both
sequences. Given them, report t depends on x_t and fresh randomness only, so its probability changes by a
factor of at most e^ε, whatever was reported before; the factors multiply. ∎

**Shuffled waves.** Let the reports of each wave be a batch of n or more accepted reports, shuffled
honestly. Let one such batch be (ε₁, δ)-private and k of them (ε_k, δ)-private
(`privot.privacy.shuffling` composes them numerically). Then, even if all other people's values are
known, the batches of all T waves together are (ε_k, δ)-private with k = ⌈T/w⌉. Given the batches before
them, those of any w consecutive waves are (ε₁, δ)-private. Adjacency is `replace_one`, of the person's
whole sequence.

*Proof.* As above, one of w consecutive batches contains a report of the person, and at most k of T do,
whatever the values are. Other people's values and the number of reports may depend on earlier batches
(so later batches may repeat what earlier ones showed: hence "given the batches before them").
Given earlier batches, a batch is a function of x_t and fresh randomness, and its divergence between x_t
and x′_t is at most that of a batch of n, since more reports only lower it. A batch without the person
has the same distribution for both sequences. Adaptive composition of k dominated batches gives the
claim. ∎

The theorem requires that n and T are fixed before the first batch is opened, that each batch is shuffled
separately, as a whole, and opened once, and that no report is in two batches, where its report id would
identify it. A new key of the analyst for every wave (`privot.collector.analyst`) prevents that.

The slot must not change: if it were drawn again for every w waves, a person could report in the last
wave of one window and in the first of the next. The bound is tight: two sequences that differ in every
wave attain it under randomized response.

**Privacy review.** Adjacency: one person's whole sequence of values is replaced. The panel and the ids
are public and determine who reports when, so an observer who sees that a person reports learns nothing
new. Which batches contain a person's reports is public as well. No report contains the person's id. The
guarantee does not cover that a device is observably absent in its wave (switched off, away).

References:
    Eckler, *Rotation sampling* (1955), describes rotating panels for labor-force surveys. Erlingsson,
    Pihur, Korolova (2014), section 3, show that memoized reports leak when values change.
"""

import hashlib
import hmac
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self

from privot.core.errors import PrivotError, require_count
from privot.core.files import read_text, write_file
from privot.privacy import ApproximateDP, DistributedDP, PureDP
from privot.privacy.guarantees import guarantee_from_dict

WAVE_KEY = b"privot.wave"  # in a shard's metadata: JSON of the panel and the number of its wave
MOST_WAVES = 10**6
_MAX_SECONDS, _MAX_TEXT, _FORMAT = 2**40, 200, 1


@dataclass(frozen=True)
class Panel:
    """Public schedule of a rotating panel: slots of persons and times of waves.

    Arguments:
        name: Name of the campaign.
        window: Number w of consecutive waves in which a person reports once.
        start: Beginning of wave 0, in seconds since 1970.
        length: Duration of a wave, in seconds.
        seed: Public seed of the hash that determines the slots, any text.
        waves: Number T of waves; None for a panel without end.

    >>> panel = Panel("commute", window=4, start=0, length=604_800, seed="2026", waves=12)
    >>> panel.slot("device 7"), panel.waves_of("device 7")
    (1, [1, 5, 9])
    """

    name: str
    window: int
    start: int
    length: int
    seed: str
    waves: int | None = None

    def __post_init__(self) -> None:
        for name in ("name", "seed"):
            text = getattr(self, name)
            one_line = isinstance(text, str) and text.isprintable()
            if not (one_line and 0 < len(text) <= _MAX_TEXT):
                raise PrivotError(
                    f"{name} {text!r:.40} of a panel cannot be: give 1 to {_MAX_TEXT} characters "
                    "of one line"
                )
        require_count("window", self.window, MOST_WAVES, "waves with one report of a person")
        require_count("length", self.length, _MAX_SECONDS, "seconds of a wave")
        require_count("start", self.start, _MAX_SECONDS, "seconds since 1970", least=0)
        if self.waves is not None:
            require_count("waves", self.waves, MOST_WAVES)

    def slot(self, person: str) -> int:
        """Return the slot s, from 0 to w − 1: the first 64 bits of HMAC-SHA-256 (seed, id), modulo w."""
        digest = hmac.digest(self.seed.encode(), person.encode(), hashlib.sha256)
        return int.from_bytes(digest[:8], "big") % self.window

    def wave_at(self, seconds: float) -> int:
        """Return the number of the wave at a time, in seconds since 1970.

        Raises:
            PrivotError: if the time is before the first wave, or after the last.
        """
        wave = int((seconds - self.start) // self.length)
        if wave < 0:
            raise PrivotError(f"panel {self.name!r} has not begun: wave 0 begins at {self.start}")
        if self.waves is not None and wave >= self.waves:
            raise PrivotError(f"panel {self.name!r} has ended: it has {self.waves:,} waves")
        return wave

    def is_due(self, person: str, wave: int) -> bool:
        """Return True if a person reports in a wave."""
        return wave % self.window == self.slot(person)

    def next_wave(self, person: str, wave: int) -> int | None:
        """Return the first wave, not before `wave`, in which a person reports; None if there is none."""
        due = wave + (self.slot(person) - wave) % self.window
        return due if self.waves is None or due < self.waves else None

    def waves_of(self, person: str) -> list[int]:
        """Return all waves in which a person reports; raise PrivotError if the panel has no end."""
        if self.waves is None:
            raise PrivotError(f"panel {self.name!r} has no last wave: use `next_wave`")
        return list(range(self.slot(person), self.waves, self.window))

    def most_reports(self) -> int | None:
        """Return ⌈T/w⌉, the maximum number of a person's reports; None for a panel without end."""
        return None if self.waves is None else -(-self.waves // self.window)

    def most_reports_in(self, waves: Iterable[int]) -> int:
        """Return the maximum number of reports of a person in slot s = 0 … w − 1 in some waves."""
        return max(Counter(wave % self.window for wave in waves).values())

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"format": _FORMAT, **asdict(self)}

    def to_json(self) -> str:
        """Return one line of JSON."""
        return json.dumps(self.to_dict(), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read the JSON of `to_json`; raise PrivotError if it is no panel, or has another format."""
        try:
            values = json.loads(text)
        except ValueError:
            values = None
        names = {field.name for field in fields(cls)}
        is_panel = isinstance(values, dict) and set(values) == names | {"format"}
        if not is_panel or values.pop("format") != _FORMAT:
            raise PrivotError("this is no panel: give the JSON that `privot waves new` wrote")
        return cls(**values)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read `panel.json`."""
        return cls.from_json(read_text(path, "panel"))

    def save(self, path: str | Path) -> None:
        """Write `panel.json`; an existing file survives any failure."""
        write_file(path, self.to_json() + "\n")


@dataclass(frozen=True)
class PanelGuarantee:
    """Guarantee of a rotating panel: of any w consecutive waves, and of all T.

    **Adjacency**: one person's whole sequence of values is replaced; people, and when they report, are
    public. The module's docstring has the proofs. No record is read.

    Arguments:
        report: Guarantee of any w consecutive waves: of one local report, or of the smallest batch.
        window: Number w of consecutive waves in which a person reports once.
        waves: Number T of waves; None for a panel without end.
        composed: Guarantee of all T waves; by default, `report` times ⌈T/w⌉, by adaptive composition
            (Dwork, Kenthapadi, McSherry, Mironov, Naor 2006).

    >>> promise = PanelGuarantee(PureDP(2.0), window=6, waves=52)
    >>> print(promise)
    ε = 2 (pure) in any 6 consecutive waves, ε = 18 (pure) over 52, local, per person, for any values
    """

    report: PureDP | ApproximateDP | DistributedDP
    window: int
    waves: int | None = None
    composed: PureDP | ApproximateDP | DistributedDP | None = None

    def __post_init__(self) -> None:
        if self.report.neighboring != "local" and not isinstance(self.report, DistributedDP):
            raise PrivotError(
                f"neighboring is {self.report.neighboring!r}: a panel's reports are local, or mixed in "
                "batches; give the guarantee of a randomizer"
            )

    @property
    def in_all(self) -> PureDP | ApproximateDP | DistributedDP | None:
        """Guarantee of the reports in all T waves; None if waves have no end, since ε is unbounded."""
        if self.waves is None or self.composed is not None:
            return self.composed
        return self.report.times(-(-self.waves // self.window))

    def __str__(self) -> str:
        in_all = self.in_all
        total = f"{in_all.losses_text()} over {self.waves}" if in_all else "without bound for ever"
        given = ", given those before" if isinstance(self.report, DistributedDP) else ""
        return (
            f"{self.report.losses_text()} in any {self.window} consecutive waves{given}, {total}, "
            f"{self.report.neighboring}, per {self.report.unit}, for any values"
        )

    def describe(self) -> str:
        """Return the guarantee as plain sentences."""
        unit, in_all = self.report.unit, self.in_all
        batch = ""
        if isinstance(self.report, DistributedDP):
            batch = (
                " Each wave is a batch. What its batches add to those before them is stated: who "
                "reports later, and what, may depend on earlier batches and so repeat them."
            )
        total = "The waves have no end, and all of them together have no bound."
        if in_all:
            total = f"All {self.waves} waves together promise {in_all.losses_text()}."
        return (
            f"Each {unit} reports at most once in any {self.window} consecutive waves, in a slot that a "
            f"public hash determines, whatever their values are and however they change.{batch} "
            f"Everything that a {unit} reports in any {self.window} consecutive waves together: "
            f"{self.report.describe()} {total} Two whole sequences of values are compared, so no "
            "assumption is made about how values change over time."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        values = {"report": self.report.to_dict(), "window": self.window, "waves": self.waves}
        return values | {"composed": self.composed and self.composed.to_dict()}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Create a guarantee from the plain values of `to_dict`."""
        report, composed = guarantee_from_dict(values["report"]), values["composed"]
        composed = composed and guarantee_from_dict(composed)
        return cls(report, values["window"], values["waves"], composed)


def most_reports_in_shards(waves: Iterable[str]) -> int:
    """Return the maximum number of a person's reports in shards, by their distinct `WAVE_KEY` texts.

    Different panels may have the same people, and add up.
    """
    by_panel: dict[str, list[int]] = {}
    for text in waves:
        try:
            fields = json.loads(text)
            by_panel.setdefault(json.dumps(fields["panel"]), []).append(int(fields["wave"]))
        except (ValueError, KeyError, TypeError):
            raise PrivotError("a shard's wave cannot be read: copy the release again") from None
    return sum(Panel.from_json(p).most_reports_in(waves) for p, waves in by_panel.items())
