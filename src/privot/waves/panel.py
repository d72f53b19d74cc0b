r"""A rotating panel: who reports in which wave, by public coins.

Time is cut into **waves** of one length, numbered 0, 1, …, T − 1 (or without end). Public coins put
every person into one **slot** s of 0 … w − 1, for good: a keyed hash of the panel's public seed and the
person's public id, which knows nothing of any value. A person reports in the waves t with
t mod w = s, once in each, with the whole ε of a report, and in no other wave.

**Theorem.** Let each report be ε-locally private, with fresh coins. Then, between any two sequences
x₀ … x_{T−1}, x′₀ … x′_{T−1} of one person's values, all that is reported in any w consecutive waves is
ε-private, and all that is reported in T waves is ⌈T/w⌉ ε-private.

*Proof.* Of w consecutive integers exactly one is s modulo w, and of T consecutive ones at most ⌈T/w⌉.
Slot, waves and number of reports are functions of the seed and the id, and have one law under both
sequences. Given them, report t is drawn from x_t alone with coins of its own, so its probability
changes by a factor of e^ε at most whatever was reported before; the factors multiply. ∎

The slot must stay: were it drawn anew for every w waves, a person could report in the last wave of one
window and in the first of the next, twice in two consecutive waves. The bound is reached: two sequences
that differ in every wave, under randomized response.

**Privacy review.** Adjacency: one person's whole sequence of values is replaced. What is public: the
panel, ids, and with them who reports when; that tells no value, and it tells whoever sees that a person
sent something nothing that they could not compute. No report holds the id. A device that does not
report in its wave (switched off, away) is seen not to; that is not covered, as with any report.

References:
    Rotating panels are as old as labor-force surveys: Eckler, *Rotation sampling* (1955). That changing
    values break what is memoized: Erlingsson, Pihur, Korolova (2014), section 3.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self

from privot.errors import PrivotError, printable, require_count
from privot.files import replacing_file

MOST_WAVES = 10**6
_MOST_SECONDS, _MOST_TEXT, _FORMAT = 2**40, 200, 1


@dataclass(frozen=True)
class Panel:
    """Which slot each person is in, and when waves begin. Public; the same for everybody.

    Arguments:
        name: Of the campaign.
        window: w, so many consecutive waves hold one report of a person.
        start: Of wave 0, in seconds since 1970.
        length: Of a wave, in seconds.
        seed: Of the public coins, any text.
        waves: T; without end if None.

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
            if (
                not isinstance(text, str)
                or not 0 < len(text) <= _MOST_TEXT
                or not text.isprintable()
            ):
                raise PrivotError(
                    f"{name} {text!r:.40} of a panel cannot be: give 1 to {_MOST_TEXT} characters "
                    "of one line"
                )
        require_count("window", self.window, MOST_WAVES, "waves with one report of a person")
        require_count("length", self.length, _MOST_SECONDS, "seconds of a wave")
        require_count("start", self.start, _MOST_SECONDS, "seconds since 1970", least=0)
        if self.waves is not None:
            require_count("waves", self.waves, MOST_WAVES)

    def slot(self, person: str) -> int:
        """s, of 0 … w − 1: the first 64 bits of HMAC-SHA-256 (seed, id), modulo w."""
        digest = hmac.digest(self.seed.encode(), person.encode(), hashlib.sha256)
        return int.from_bytes(digest[:8], "big") % self.window

    def wave_at(self, seconds: float) -> int:
        """The number of the wave at a time, in seconds since 1970.

        Raises:
            PrivotError: before the first wave, and after the last.
        """
        wave = int((seconds - self.start) // self.length)
        if wave < 0:
            raise PrivotError(f"panel {self.name!r} has not begun: wave 0 begins at {self.start}")
        if self.waves is not None and wave >= self.waves:
            raise PrivotError(f"panel {self.name!r} has ended: it has {self.waves:,} waves")
        return wave

    def is_due(self, person: str, wave: int) -> bool:
        """Whether a person reports in a wave."""
        return wave % self.window == self.slot(person)

    def next_wave(self, person: str, wave: int) -> int | None:
        """The first wave from this one on in which a person reports; None if there is none."""
        due = wave + (self.slot(person) - wave) % self.window
        return due if self.waves is None or due < self.waves else None

    def waves_of(self, person: str, waves: int | None = None) -> list[int]:
        """All waves in which a person reports, of the first `waves`, or of all."""
        last = self.waves if waves is None else waves
        if last is None:
            raise PrivotError(f"panel {self.name!r} has no last wave: say how many to list")
        return list(range(self.slot(person), last, self.window))

    def most_reports(self, waves: int | None = None) -> int | None:
        """⌈k/w⌉, the most reports of a person in k consecutive waves; None for waves without end."""
        count = self.waves if waves is None else waves
        return None if count is None else -(-count // self.window)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"format": _FORMAT, **asdict(self)}

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(self.to_dict(), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote.

        Raises:
            PrivotError: if it is no panel, or a newer one.
        """
        try:
            held = json.loads(text)
        except ValueError:
            held = None
        names = {field.name for field in fields(cls)}
        if (
            not isinstance(held, dict)
            or set(held) != names | {"format"}
            or held["format"] != _FORMAT
        ):
            raise PrivotError("this is no panel: give the JSON that `privot waves new` wrote")
        del held["format"]
        return cls(**held)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read `panel.json`."""
        try:
            return cls.from_json(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError):
            raise PrivotError(
                f"panel {printable(str(path))} cannot be read: check the path"
            ) from None

    def save(self, path: str | Path) -> None:
        """Write `panel.json`; an existing file survives any failure."""
        with replacing_file(path) as draft:
            draft.write_text(self.to_json() + "\n", encoding="utf-8")
