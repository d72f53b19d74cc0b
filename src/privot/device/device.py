"""A device: runs a randomizer's program on one record, and makes the report that is sent."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

from privot.device.checks import VERSION, require_program
from privot.device.draws import choose, laplace, response, subset, weighted, window
from privot.device.exact import law_of, stated_epsilon
from privot.device.payload import (
    Program,
    field_bytes,
    pack_bits,
    pack_field,
    pack_joint,
    window_geometry,
)
from privot.device.report import ID_BYTES, Report
from privot.device.sealed import read_sealed
from privot.device.values import Record, codes_of, round_even, units_of
from privot.device.words import NextWord, below, system_word
from privot.errors import PrivotError


@dataclass(frozen=True)
class Device:
    """Reports records by the program of a randomizer, with the standard library alone.

    Arguments:
        fingerprint: Of the randomizer, 32 bytes.
        program: Its field `device`.
        promise: Its field `guarantee`: what one report promises, in plain values.

    Examples:
        >>> from privot import Randomizer, Schema
        >>> schema = Schema.from_dict({"columns": {"age": {"kind": "numeric", "bounds": [0, 100]}}})
        >>> device = Device.from_json(Randomizer.calibrate(schema, epsilon=1.0).to_json())
        >>> len(device.report({"age": 44}).to_bytes())
        64
    """

    fingerprint: bytes
    program: Program
    promise: Mapping[str, Any]

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read a randomizer's JSON; refused if it was altered, or promises what it does not keep.

        Raises:
            PrivotError: if so; if it has no program, or one that no proof is for; if the exact law of
                its draws (`privot.device.exact`) exceeds the ε that the randomizer states.
        """
        fingerprint, fields = read_sealed(text)
        held = fields.get("device")
        if not isinstance(held, dict) or held.get("version") != VERSION:
            raise PrivotError(
                "the randomizer has no program that this device runs: its mechanisms draw with "
                "logarithms, or it is from a newer version"
            )
        program, epsilon = require_program(held), stated_epsilon(fields)
        if not law_of(program, epsilon).holds:
            raise PrivotError(
                f"the randomizer's program tells more than the epsilon {epsilon} that it states, so "
                "nothing is drawn by it: calibrate it again"
            )
        return cls(fingerprint, program, fields["guarantee"])

    def report(
        self, record: Record, *, word: NextWord = system_word, now: float | None = None
    ) -> Report:
        """One report of a record: what leaves the device, once.

        Whoever sends it again sends these bytes; a second call spends the budget a second time.

        Arguments:
            record: Values by the names of the table's columns; None where missing.
            word: Where uniform 64-bit words come from.
            now: Seconds since 1970; the clock's by default.

        Raises:
            PrivotError: naming a column, if its value cannot be used; nothing is drawn before.
        """
        self._refuse_unknown(record)
        taken = {name: self._take(name, record) for name in self.program["columns"]}
        payload = self._joint(taken, word) + self._split(taken, word)
        identity = b"".join(word().to_bytes(8, "little") for _ in range(ID_BYTES // 8))
        seconds = time.time() if now is None else now
        step = max(0, int(seconds // self.program["time_step"]))
        return Report(self.fingerprint, identity, step, payload)

    @cached_property
    def _draws(self) -> Mapping[str, Program]:
        split = self.program["split"]
        return {each["column"]: each["draw"] for each in split["reports"]} if split else {}

    def _refuse_unknown(self, record: Record) -> None:
        known = {part for take in self.program["columns"].values() for part in take["columns"]}
        known.update(self.program.get("unread", ()))
        if unknown := sorted(set(record) - known):
            raise PrivotError(f"columns {unknown} are not in the schema: leave them out")

    def _take(self, name: str, record: Record) -> Any:
        take = self.program["columns"][name]
        return units_of(take, record) if take["take"] == "point" else codes_of(take, record)

    def _joint(self, taken: Mapping[str, Any], word: NextWord) -> bytes:
        joint = self.program["joint"]
        if not joint:
            return b""
        views = joint["views"]
        form = weighted(joint["weights"], word)
        view = below(views, word) if views > 1 else 0
        cell, cells = 0, 1
        for column in joint["forms"][form]:
            codes, sizes = taken[joint["columns"][column]], joint["sizes"][column]
            coding = view % len(sizes)
            cell = cell * sizes[coding] + codes[coding]
            cells *= sizes[coding]
        law = joint["sets"][str(cells)]
        drawn = subset(cells, law["size"], int(law["out"], 16), cell, word)
        return pack_joint(joint, form * views + view, cells, drawn)

    def _split(self, taken: Mapping[str, Any], word: NextWord) -> bytes:
        split = self.program["split"]
        if not split:
            return b""
        reports = split["reports"]
        chosen = choose(len(reports), split["choose"], word)
        held = pack_bits(chosen, len(reports)) if len(chosen) < len(reports) else b""
        for index, each in enumerate(reports):
            if index in chosen:
                held += pack_field(each["draw"], answer(each["draw"], taken[each["column"]], word))
            else:
                held += bytes(field_bytes(each["draw"]))
        return held


def answer(draw: Program, value: Any, word: NextWord) -> Any:
    """What one split column's mechanism draws of its one code, or of unit coordinates."""
    kind = draw["draw"]
    if kind == "response":
        return response(draw["values"], int(draw["slot"], 16), value[0], word)
    if kind == "subset":
        return subset(draw["cells"], draw["size"], int(draw["out"], 16), value[0], word)
    if kind == "window":
        return _windows(draw, value, word)
    a, b = (int(part, 16) for part in draw["ratio"])
    return [round_even(u * 2.0 ** draw["grid_bits"]) + laplace(a, b, word) for u in value]


def _windows(draw: Program, units: list[float] | None, word: NextWord) -> list[int]:
    cells, each, anywhere = window_geometry(draw), draw["dimension"], int(draw["anywhere"], 16)
    blocks: list[list[int] | None] = [None]
    if units is not None:
        own = [round_even((u + 1) * (draw["steps"] / 2)) for u in units]
        blocks = [own[start : start + each] for start in range(0, len(own), each)]
    return [window(cells, draw["nullable"], anywhere, block, word) for block in blocks]
