"""The device: encodes one record and draws its report by a randomizer's program.

A program states the **encoding** of each column: the values of a record that it reads (`columns`), its
kind (`take`: category, boolean, bin, cell or point), and the fields of this kind, which
`privot.device.exact` lists and checks. Values become codes or unit coordinates by the same few
operations on 64-bit floats, in the same order, in every implementation: differences, quotients,
products, square roots (which IEEE 754 rounds correctly) and rounding to even. From these codes and
coordinates the joint report (`JointPart`) and the split reports (`SplitPart`) are drawn, whose bytes are
the payload.

**Privacy review.** This code runs on the device. Errors name a column and never a value, and are raised
before anything is drawn or sent, so that only the person learns of them. Values out of bounds are such
errors, unless the program clips them (`privot.schema.columns.column.BoundedColumn` says when it should).
"""

import datetime as dt
import math
import re
import time
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, NoReturn, Self

from privot.core.errors import PrivotError
from privot.device.exact import VERSION, law_of, read_sealed, require_program, stated_epsilon
from privot.wire import draws
from privot.wire.report import ID_BYTES, Report, number_bytes, pack_bits

_INSIDE = 1.0 - 2.0**-40  # points outside a ball are projected to this share of its radius
_SCALE_ERROR, _STEP_ERROR = 1e-9, 1e-6  # rounding errors, in scales of a domain and in steps
_PULL = 1e-5  # points whose cell has no code are moved by this share toward the center
_DATE_TIME = re.compile(
    r"(?P<Y>\d{4})-(?P<m>\d\d)-(?P<d>\d\d)"
    r"(?:[T ](?P<H>\d\d):(?P<M>\d\d)(?::(?P<S>\d\d)(?:\.\d+)?)?)?",
    re.ASCII,
)
_EPOCH, _DAY = dt.datetime(1970, 1, 1, tzinfo=dt.UTC), 86_400
_YEARS = -62_135_596_800, 253_402_300_799  # seconds since 1970, of the years 1 to 9999

Encoding = Mapping[str, Any]  # how a program reads one column
Record = Mapping[str, Any]


def _number(name: str, record: Record, encoding: Encoding) -> float | None:
    """Return a value as a number, in steps of the column if it has any; None if it is missing."""
    seconds, value = encoding.get("seconds"), record.get(name)
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None if encoding["nullable"] else _refuse_missing(name)
    if seconds is not None:
        return float(_seconds(name, value, encoding.get("format")) // seconds)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise PrivotError(f"column {name!r} holds no number")
    if not abs(value) < 2.0**1023:
        raise PrivotError(f"column {name!r} is infinite, or too large for a number")
    return (value - encoding["origin"]) / encoding["step"] if "step" in encoding else float(value)


def _seconds(name: str, value: object, form: str | None) -> int:
    """Return the seconds since 1970 of a date or time, in a format of strftime or in ISO 8601."""
    text = (
        value.isoformat() if isinstance(value, dt.date) else value if isinstance(value, str) else ""
    )
    pattern = re.escape(form or "").replace("%Y", "(?P<Y>[0-9]{4})")
    formatted = re.fullmatch(re.sub("%(.)", r"(?P<\1>[0-9]{2})", pattern), text) if form else None
    match = formatted or _DATE_TIME.fullmatch(text)
    if match is None:
        raise PrivotError(
            f"column {name!r} holds no date: write it as {form or '2024-05-31 or …T12:00:00'}"
        )
    parts = [match.groupdict().get(code) for code in "YmdHMS"]
    year, month, day, hour, minute, second = (int(part or 0) for part in parts)
    try:
        moment = dt.datetime(year, month, day, hour, minute, second, tzinfo=dt.UTC)
    except ValueError:
        raise PrivotError(f"column {name!r} holds a date that no calendar has") from None
    return (moment - _EPOCH) // dt.timedelta(seconds=1)


def units_of(encoding: Encoding, record: Record) -> list[float] | None:
    """Return the unit coordinates (d,) of a record's value, projected to the domain; None if missing.

    Raises:
        PrivotError: for a value that is no number, or out of bounds if the program does not clip.
    """
    point = []
    for name in encoding["columns"]:
        number = _number(name, record, encoding)
        if number is None:
            return None
        point.append(number)
    names, domain = encoding["columns"], encoding["domain"]
    if domain["area"] == "box":
        units = []
        for name, x, low, high in zip(names, point, domain["lower"], domain["upper"], strict=True):
            center, scale = (low + high) / 2, (high - low) / 2
            clipped = _clip(name, encoding, x, low, high)
            units.append(min(max((clipped - center) / scale, -1.0), 1.0))
        return units
    radius, non_negative = domain["radius"], domain["non_negative"]
    projected = _project_ball(point, radius, non_negative)
    for name, x, inside in zip(names, point, projected, strict=True):
        if abs(x - inside) > _SCALE_ERROR * radius:
            _require_clipping(name, encoding, f"radius {radius:.12g}")
    return _project_ball([x / radius for x in projected], 1.0, non_negative)


def _clip(name: str, encoding: Encoding, x: float, low: float, high: float) -> float:
    """Return a number clipped to its bounds; refuse one outside of them unless the program clips."""
    clipped = min(max(x, low), high)
    if abs(x - clipped) > _SCALE_ERROR * ((high - low) / 2) + _STEP_ERROR * ("step" in encoding):
        limits = " to ".join(_format_number(encoding, end) for end in (low, high))
        _require_clipping(name, encoding, limits)
    return clipped


def _require_clipping(name: str, encoding: Encoding, limits: str) -> None:
    """Raise PrivotError, about a value out of its bounds, unless the program clips such values."""
    if encoding.get("out_of_bounds") != "clip":
        raise PrivotError(f"column {name!r} is out of bounds ({limits}): correct it")


def _format_number(encoding: Encoding, number: float) -> str:
    """Return a number, or the date that it stands for, as text."""
    if seconds := encoding.get("seconds"):
        since = min(max(number * seconds, _YEARS[0]), _YEARS[1])
        text = (_EPOCH + dt.timedelta(seconds=since)).isoformat()
        return text[: 10 if seconds == _DAY else 19]
    return f"{encoding.get('origin', 0) + number * encoding.get('step', 1):.12g}"


def _project_ball(point: list[float], radius: float, non_negative: bool) -> list[float]:
    """Return the projection of a point to a ball, or to its non-negative part; see `_INSIDE`."""
    if non_negative:
        point = [max(x, 0.0) for x in point]
    # Coordinates are divided by the largest, since their squares might overflow or underflow.
    # The divisor is at least a tiny share of the radius, so that the point 0 can be divided.
    largest = max(*(abs(x) for x in point), radius * 2.0**-60)
    direction = [x / largest for x in point]
    square = 0.0
    for x in direction:  # not `sum`, which compensates rounding errors from Python 3.12 on
        square += x * x
    length = math.sqrt(square)
    if not length > radius / largest:
        return point
    return [x / length * (radius * _INSIDE) for x in direction]


def _refuse_missing(name: str) -> NoReturn:
    raise PrivotError(f"column {name!r} has no value: give one, or a schema that allows none")


def _missing_code(name: str, encoding: Encoding) -> int:
    """Return the code of a missing value; raise PrivotError if none may be missing."""
    code = encoding["missing"]
    return _refuse_missing(name) if code is None else int(code)


def _encode_category(encoding: Encoding, record: Record) -> list[int]:
    (name,) = encoding["columns"]
    value = record.get(name)
    if value is None or (value == "" and "" not in encoding["values"]):
        return [_missing_code(name, encoding)]
    if not isinstance(value, str):
        raise PrivotError(f"column {name!r} holds no text: give one of its categories")
    if value in encoding["values"]:
        return [int(encoding["values"].index(value))]
    if encoding["other"] is None:
        raise PrivotError(f"column {name!r} is none of its {len(encoding['values'])} categories")
    return [int(encoding["other"])]


def _encode_boolean(encoding: Encoding, record: Record) -> list[int]:
    (name,) = encoding["columns"]
    value = record.get(name)
    if value is None:
        return [_missing_code(name, encoding)]
    if not isinstance(value, bool):
        raise PrivotError(f"column {name!r} is neither true nor false")
    return [int(value)]


def _encode_bins(encoding: Encoding, record: Record) -> list[int]:
    (name,) = encoding["columns"]
    number = _number(name, record, encoding)
    return [_bin_code(encoding, edges, number) for edges in encoding["edges"]]


def _bin_code(encoding: Encoding, edges: list[float], number: float | None) -> int:
    """Return a number's code in the coding with these edges: bins, then spikes, then missing."""
    spikes = encoding["spikes"]
    if number is None:
        return len(edges) - 1 + len(spikes)
    largest = edges[-1] - 1 if encoding["integer"] else edges[-1]
    number = _clip(encoding["columns"][0], encoding, number, edges[0], largest)
    if encoding["integer"]:
        number = float(round(number))
    if number in spikes:
        return len(edges) - 1 + int(spikes.index(number))
    return min(bisect_right(edges, number) - 1, len(edges) - 2)


def _encode_word(encoding: Encoding, record: Record) -> list[int]:
    """Return a word's cell in every coding (`privot.schema.columns.word`)."""
    (name,), letters, most = encoding["columns"], encoding["letters"], encoding["max_length"]
    value = record.get(name)
    if not isinstance(value, str | None):
        raise PrivotError(f"column {name!r} holds no text: give a word")
    plain = unicodedata.normalize("NFC", value or "").lower().strip(" \t\r\n")
    word = [letters.find(letter) + 1 for letter in plain]
    if encoding.get("out_of_bounds") == "clip":
        word = [place for place in word if place][:most]
    if 0 in word or len(word) > most:
        raise PrivotError(
            f"column {name!r} has no word of at most {most} of the letters {letters!r}: correct it"
        )
    if not (word or encoding["nullable"]):
        _refuse_missing(name)
    base, buckets = len(letters) + 1, draws.WORD_BUCKETS
    powers = (pow(draws.WORD_FACTOR, i + 1, buckets) for i in range(most))
    bucket = sum(place * power for place, power in zip(word, powers, strict=False)) % buckets
    word += [0] * (most + 1 - len(word))
    fragments = [base * base - 1] + [word[i] * base + word[i + 1] for i in range(0, most, 2)]
    codes, factor = [], 1
    for level in encoding["levels"]:
        a = factor * draws.WORD_FACTOR % draws.WORD_PRIME
        factor = a * draws.WORD_FACTOR % draws.WORD_PRIME  # b
        key = bucket * base * base + fragments[level]
        codes.append((a * key + factor) % draws.WORD_PRIME % draws.WORD_CELLS)
    return codes


def _encode_cell(encoding: Encoding, record: Record) -> list[int]:
    units = units_of({**encoding, "nullable": encoding["missing"] is not None}, record)
    if units is None:
        return [_missing_code(encoding["columns"][0], encoding)]
    code = _cell_code(encoding, units)
    if code < 0:  # rounding put the point into a cell just outside the domain
        code = _cell_code(encoding, [u * (1 - _PULL) for u in units])
    return [max(code, 0)]  # some code must be drawn, even if the program lists none for the cell


def _cell_code(encoding: Encoding, units: list[float]) -> int:
    """Return the code of the grid cell of unit coordinates; −1 if the program lists none for it."""
    side, codes, index = encoding["side"], encoding["codes"], 0
    for u in units:
        place = math.floor((u + 1) * (side / 2))
        index = index * side + min(max(place, 0), side - 1)
    return index if codes is None else int(codes[index])


# Functions by kind of encoding: each returns a column's codes, one for each coding, or unit coordinates.
ENCODERS: dict[str, Callable[[Encoding, Record], Any]] = {
    "category": _encode_category,
    "boolean": _encode_boolean,
    "bin": _encode_bins,
    "cell": _encode_cell,
    "word": _encode_word,
    "point": units_of,
}


class JointPart:
    """Joint report of a program: a random form (set of columns) and view (codings), and a set of cells.

    Arguments:
        program: Program, whose `joint` may be None.

    Attributes:
        num_bytes: Number of bytes, 0 without a joint report.
        draws: Draws of sets, by the number of cells to choose from.
        num_sheets: Number of sheets, which are pairs of a form and a view.
    """

    def __init__(self, program: draws.Program) -> None:
        self.num_bytes = 0
        if joint := program["joint"]:
            self._joint, self.draws = joint, draws.joint_draws(program)
            self.num_sheets = len(joint["forms"]) * int(joint["views"])
            longest = max(draw.num_bytes for draw in self.draws.values())
            self.num_bytes = number_bytes(self.num_sheets) + longest

    def draw(self, encoded: Mapping[str, Any], word: draws.NextWord) -> bytes:
        """Draw a report of the columns' codes and return its bytes; b"" without a joint report."""
        if not self.num_bytes:
            return b""
        joint, views = self._joint, self._joint["views"]
        form = draws.draw_weighted(joint["weights"], word)
        view = draws.draw_below(views, word) if views > 1 else 0
        cell, num_cells = 0, 1  # of the product of the columns' codes, in C order
        for column in joint["forms"][form]:
            codes, sizes = encoded[joint["columns"][column]], joint["sizes"][column]
            coding = view % len(sizes)
            cell = cell * sizes[coding] + codes[coding]
            num_cells *= sizes[coding]
        draw, sheet = self.draws[num_cells], form * views + view
        packed = sheet.to_bytes(number_bytes(self.num_sheets), "big")
        packed += draw.layout.pack(draw.draw([cell], word))
        return packed.ljust(self.num_bytes, b"\0")


class SplitPart:
    """Split reports of a program: a mark of the reported columns, and a field for each column.

    Arguments:
        program: Program, whose `split` may be None.

    Attributes:
        reports: Columns and draws, in order.
        choose: Number of columns in a report.
        head_bytes: Number of bytes that mark the reported columns, 0 if all are reported.
        num_bytes: Number of bytes of the mark and all fields.
    """

    def __init__(self, program: draws.Program) -> None:
        self.reports = draws.split_draws(program)
        self.choose = program["split"]["choose"] if self.reports else 0
        partial = self.choose < len(self.reports)
        self.head_bytes = (len(self.reports) + 7) // 8 if partial else 0
        self.num_bytes = self.head_bytes + sum(draw.num_bytes for _, draw in self.reports)

    def draw(self, encoded: Mapping[str, Any], word: draws.NextWord) -> bytes:
        """Draw reports of the columns' codes and points and return their bytes; b"" without any."""
        chosen = draws.draw_subset(len(self.reports), self.choose, word)
        packed = [pack_bits(chosen, len(self.reports))] if self.head_bytes else []
        for index, (name, draw) in enumerate(self.reports):
            if index in chosen:
                packed.append(draw.layout.pack(draw.draw(encoded[name], word)))
            else:
                packed.append(bytes(draw.num_bytes))
        return b"".join(packed)


@dataclass(frozen=True)
class Device:
    """A device that draws reports by one randomizer.

    Arguments:
        fingerprint: SHA-256 of the randomizer, 32 bytes.
        program: Field `device` of the randomizer.
        promise: Field `guarantee` of the randomizer: the privacy of one report, in plain values.
        shuffled: Whether the schema promises shuffled reports, of which only sealed ones may be sent.

    >>> from privot import Randomizer, Schema
    >>> schema = Schema.from_dict({"columns": {"age": {"kind": "numeric", "bounds": [0, 100]}}})
    >>> device = Device.from_json(Randomizer.calibrate(schema, epsilon=1.0).to_json())
    >>> len(device.report({"age": 44}).to_bytes())
    64
    """

    fingerprint: bytes
    program: draws.Program
    promise: Mapping[str, Any]
    shuffled: bool = False

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read a randomizer's JSON.

        Raises:
            PrivotError: if the text was altered, has no program, or has one that no proof covers, or
                if the largest likelihood ratio of its draws (`privot.device.exact`) exceeds e^ε.
        """
        fingerprint, fields = read_sealed(text)
        unchecked = fields.get("device")
        if not isinstance(unchecked, dict) or unchecked.get("version") != VERSION:
            raise PrivotError(
                "the randomizer has no program that this device runs: its mechanisms draw with "
                "logarithms, or it is from a newer version"
            )
        program, epsilon = require_program(unchecked), stated_epsilon(fields)
        if not law_of(program, epsilon).holds:
            raise PrivotError(
                f"the randomizer's program exceeds the epsilon {epsilon} that it states, so nothing is "
                "drawn by it: calibrate it again"
            )
        schema = fields.get("schema")
        promise = schema.get("promise") if isinstance(schema, dict) else None
        shuffled = isinstance(promise, dict) and promise.get("where") == "shuffled"
        return cls(fingerprint, program, fields["guarantee"], shuffled)

    def report(
        self, record: Record, *, word: draws.NextWord = draws.system_word, now: float | None = None
    ) -> Report:
        """Draw the report of a record, the only data that leave the device.

        To repeat a transmission, send the same bytes: a second call spends ε a second time.

        Arguments:
            record: Values by the names of the table's columns; None where missing.
            word: Source of uniform 64-bit words.
            now: Time in seconds since 1970; by default, that of the clock.

        Raises:
            PrivotError: naming a column with an invalid value, before anything is drawn.
        """
        unknown = sorted(set(record) - self._known_columns)
        if unknown:
            raise PrivotError(f"columns {unknown} are not in the schema: leave them out")
        encoded = {
            name: ENCODERS[encoding["take"]](encoding, record)
            for name, encoding in self.program["columns"].items()
        }
        payload = b"".join([part.draw(encoded, word) for part in self._parts])
        identity = b"".join(word().to_bytes(8, "little") for _ in range(ID_BYTES // 8))
        seconds = time.time() if now is None else now
        step = max(0, int(seconds // self.program["time_step"]))
        return Report(self.fingerprint, identity, step, payload)

    @cached_property
    def _parts(self) -> tuple[JointPart, SplitPart]:
        return JointPart(self.program), SplitPart(self.program)

    @cached_property
    def _known_columns(self) -> frozenset[str]:
        names = (encoding["columns"] for encoding in self.program["columns"].values())
        return frozenset(chain(self.program.get("unread", ()), *names))
