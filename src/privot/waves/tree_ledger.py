r"""A device's ledger of a tree's answers: each drawn once, of values that stay as they were told.

A `ChangeTree` promises ε for all its answers together if each is drawn once, and all from one sequence.
The device tells its bit in every wave; the ledger writes down the bit as it is followed and, where
intervals of the person's level have ended, their answers, flushes, and hands them out only then. So for
one ledger, over all T waves:

*One sequence.* The bit of a wave is the one that was told first. In waves in which nothing was told
(switched off, away) it is what it was before, 0 at first. After c changes it stays as it is: change
c + 1 and all later ones are **not reported**; what is learned of such a person is wrong from there on.

*No second draw.* The answers of all intervals that ended are drawn with the first bit that is told from
their end on; asked again, by whatever value, the ledger gives the same bytes. A draw that a kill came
before the flush of was seen by nobody.

*Whatever the clock shows.* In a wave that was told, or before one, nothing is drawn and the value is not
looked at. A clock that was set forward ends intervals early, with the bit of then; there are
$m_h$ in all.

**Theorem.** All that one ledger hands out of a campaign is ε-locally private between any two sequences
of values, at times that do not depend on them. *Proof.* Which intervals were answered when, and which
waves were told, is a function of times. What was followed is a function of the values told with c
changes at most, each answer is drawn from it by coins of its own and once, and the theorem of
`privot.waves.change_tree` is on any such sequences. ∎

*A lost ledger* knows nothing of c changes and of answers that are out; a second sequence is a second ε.
A new one therefore answers only in campaigns that had not begun when it was begun. With `wait=False`
(this person had none before) it answers, and promises (1 + r) ε with r losses. *Limits*: all answers of
a tree are one ε, spent as of the last.

**Privacy review.** Adjacency: one person's whole sequence of values; Δ as in `change_tree`. Answers may
leave; an id is fresh coins, a level public ones. **The journal holds the bit as it is followed, in the
clear**: it is the owner's alone and must not leave the device, as the values themselves. Refusals depend
on times, and never on a value. To tell a value only when it has changed would tell that: tell it in
every wave.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np

from privot.core.errors import PrivotError
from privot.waves.change_tree import ChangeTree, Signs
from privot.waves.ledger import DeviceLedger, NotDue, latest, lines_of
from privot.waves.panel import Panel
from privot.wire.draws import NextWord, system_word


@dataclass(frozen=True)
class Answer:
    """One answer of a tree, as it is sent.

    Arguments:
        campaign: Its name.
        level: Of the person.
        interval: Of the level, from 0.
        sign: 1 or −1.
        id: 32 hexadecimal digits, by which a copy is told.

    Examples:
        >>> answer = Answer("moves", level=1, interval=0, sign=-1, id="0" * 32)
        >>> Answer.from_bytes(answer.to_bytes()) == answer
        True
    """

    campaign: str
    level: int
    interval: int
    sign: int
    id: str

    def to_bytes(self) -> bytes:
        """One line of JSON."""
        return json.dumps(asdict(self), sort_keys=True).encode() + b"\n"

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read what `to_bytes` wrote.

        Raises:
            PrivotError: if it is no answer.
        """
        try:
            found = cls(**json.loads(data))
            numbers = (found.level, found.interval, found.sign)
            sound = all(type(each) is int for each in numbers) and found.sign in (-1, 1)
            sound = sound and len(bytes.fromhex(found.id)) == 16 and found.to_bytes() == data
        except (ValueError, TypeError):
            sound = False
        if not sound:
            raise PrivotError("this is no answer of a tree: give the bytes that a device sent")
        return found


class TreeLedger:
    """One tree's answers in a device's ledger, beside all other campaigns.

    Arguments:
        ledger: Of the device.
        tree: What is asked.
        panel: The campaign's name and waves; its window is all of them, as one ε is for all.

    Raises:
        PrivotError: if the panel's window and waves are not the tree's.
    """

    def __init__(self, ledger: DeviceLedger, tree: ChangeTree, panel: Panel) -> None:
        if (panel.window, panel.waves) != (tree.waves, tree.waves):
            raise PrivotError(
                f"panel {panel.name!r} has window {panel.window} and waves {panel.waves}: a tree of "
                f"{tree.waves} waves needs a panel with both {tree.waves}"
            )
        self.ledger, self.tree, self.panel = ledger, tree, panel
        self.level = tree.level_of(ledger.person)
        self._campaign = panel.to_dict() | {"tree": asdict(tree)}

    def tell(
        self, value: bool, *, now: float | None = None, word: NextWord = system_word
    ) -> list[Answer]:
        """All answers so far, with those of intervals that end now; send what was not acknowledged.

        Arguments:
            value: The bit of today; looked at where this wave was not told yet.
            now: Seconds since 1970; the clock's by default.
            word: Where uniform 64-bit words come from.

        Raises:
            NotDue: where a lost ledger may have answered.
            LimitReached: where the owner's limit would be passed.
            PrivotError: before the first wave and after the last; for a value that is no bit, or a
                campaign that was another.
        """
        seconds = time.time() if now is None else now
        wave = self.panel.wave_at(seconds)
        if not isinstance(value, bool):
            raise PrivotError("value of a tree's wave is no bit: give True or False")
        with self.ledger.holding() as journal:
            lines = lines_of(journal, self._campaign)
            if not lines or wave > lines[-1]["wave"]:
                self._require_first()
                line = self._told(lines, [*_followed(lines, wave), value], word)
                if line["answers"]:
                    self.ledger.require_within(self.panel, self.tree.guarantee, journal, seconds)
                    line["promise"] = self.tree.guarantee.to_dict()
                line["time"] = max(seconds, latest(journal.lines[1:]))
                journal.append(line)
                lines.append(line)
        return _answers(lines)

    def answers(self) -> list[Answer]:
        """All that were drawn, to be sent again as they are."""
        with self.ledger.holding() as journal:
            return _answers(lines_of(journal, self._campaign))

    def _require_first(self) -> None:
        begun = self.ledger.begun_in(self.panel)
        if self.ledger.wait and begun >= 0:
            raise NotDue(
                f"this ledger was begun in wave {begun} of campaign {self.panel.name!r}, and a lost one "
                "may have answered there: it takes no part in that campaign"
            )

    def _told(
        self, lines: list[dict[str, Any]], values: list[bool], word: NextWord
    ) -> dict[str, Any]:
        """The line of a wave, with the answers of intervals that ended since the last."""
        answered, ended = len(_answers(lines)), len(values) >> self.level
        drawn = [
            {
                "campaign": self.panel.name,
                "level": self.level,
                "interval": index,
                "sign": self.tree.answer(values[: (index + 1) << self.level], self.level, word),
                "id": secrets.token_hex(16),
            }
            for index in range(answered, ended)
        ]
        bit = bool(self.tree.followed(np.array([values], bool))[0, -1])
        return {
            "campaign": self._campaign,
            "wave": len(values) - 1,
            "bit": bit,
            "answers": drawn,
        }


def signs_of(tree: ChangeTree, answers: Iterable[Answer]) -> list[Signs]:
    """Answers as `ChangeTree.estimate` takes them, each id once; who gave which is not known.

    Raises:
        PrivotError: for one of no interval of the tree.

    Examples:
        >>> answer = Answer("moves", level=1, interval=0, sign=-1, id="0" * 32)
        >>> signs = signs_of(ChangeTree(waves=4, changes=1, epsilon=1.0), [answer, answer])
        >>> [each.shape for each in signs]
        [(0, 4), (1, 2), (0, 1)]
    """
    sizes = [tree.intervals(level) for level in range(tree.levels)]
    found: list[list[list[int]]] = [[[] for _ in range(size)] for size in sizes]
    for each in {each.id: each for each in answers}.values():
        if not (0 <= each.level < tree.levels and 0 <= each.interval < sizes[each.level]):
            raise PrivotError(
                f"an answer is of interval {each.interval} of level {each.level}, which this tree has "
                "not: give the campaign's tree"
            )
        found[each.level][each.interval].append(each.sign)
    signs = [np.zeros((max(map(len, own)), len(own)), np.int8) for own in found]
    for table, own in zip(signs, found, strict=True):
        for index, column in enumerate(own):
            table[: len(column), index] = column
    return signs


def _answers(lines: list[dict[str, Any]]) -> list[Answer]:
    return [Answer(**each) for line in lines for each in line["answers"]]


def _followed(lines: list[dict[str, Any]], wave: int) -> list[bool]:
    """The bits of all waves before one, as they were followed; where none was told, as before."""
    told, bits, last = {line["wave"]: line["bit"] for line in lines}, [], False
    for number in range(wave):
        last = told.get(number, last)
        bits.append(last)
    return bits
