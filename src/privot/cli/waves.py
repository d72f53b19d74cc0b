"""Commands of who asks people again and again: a panel, its promise, a device's report. No PyTorch."""

from __future__ import annotations

import json
import secrets
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from privot.cli.console import Force, note
from privot.errors import PrivotError, printable

if TYPE_CHECKING:
    from privot.device.values import Record
    from privot.waves import Panel

PublicKey = Annotated[
    str | None,
    Option(help="Key of who asks, in base64, as they published it: nobody else's files are taken."),
]

_DAY = 86_400
PanelFile = Annotated[Path, Argument(help="The panel: panel.json.")]


def new(
    name: Annotated[str, Argument(help="Of the campaign; another panel needs another name.")],
    window: Annotated[int, Option(help="A person reports once in so many consecutive waves.")],
    start: Annotated[str, Option(help="When wave 0 begins, in UTC: 2026-01-05.")],
    waves: Annotated[int | None, Option(help="How many; without end by default.")] = None,
    days: Annotated[float, Option(help="Length of a wave.")] = 7.0,
    seed: Annotated[str | None, Option(help="Of the public coins; drawn if none is given.")] = None,
    output: Annotated[Path, Option("-o", "--output", help="Where to write it.")] = Path(
        "panel.json"
    ),
    force: Force = False,
) -> None:
    """Make a rotating panel: public coins put each person into one slot of so many waves.

    Example: privot waves new commute --window 6 --waves 52 --start 2026-01-05 -o panel.json
    """
    from privot.files import claim_file
    from privot.waves import Panel

    try:
        begin = datetime.fromisoformat(start)
        begin = begin if begin.tzinfo else begin.replace(tzinfo=UTC)
    except ValueError:
        raise PrivotError(f"--start {start!r} is no date: write it as 2026-01-05") from None
    length = round(days * _DAY) if 0 < days < 2**20 else 0
    if length < 1:
        raise PrivotError(f"--days {days!r} cannot be: give the length of a wave, such as 7")
    coins = secrets.token_hex(16) if seed is None else seed
    panel = Panel(name, window, int(begin.timestamp()), length, coins, waves)
    claim_file(output, suffixes=(".json",), force=force)
    panel.save(output)
    print(f"{output}: {_span(panel)}, one report of a person in any {window} consecutive waves")


def show(
    panel: PanelFile,
    randomizer: Annotated[
        Path | None, Option("-r", "--randomizer", help="For what it promises: randomizer.json.")
    ] = None,
    person: Annotated[str | None, Option(help="A person's public id: when they report.")] = None,
) -> None:
    """What a panel promises with a randomizer, and when a person reports.

    Example: privot waves show panel.json --randomizer randomizer.json --person "device 7"
    """
    from privot.release import Randomizer
    from privot.waves import Panel, PanelGuarantee

    held = Panel.load(panel)
    promise = randomizer and PanelGuarantee.of(held, Randomizer.load(randomizer).guarantee)
    print(f"{held.name}: {_span(held)}, one report in any {held.window} consecutive waves")
    if promise:
        print(promise)
        print(promise.describe())
    if person is not None:
        due = held.next_wave(person, max(0, int((time.time() - held.start) // held.length)))
        when = "no more" if due is None else f"next in wave {due}, from {_date(held, due)} (UTC) on"
        print(f"{person!r} is in slot {held.slot(person)}: {when}")


def report(
    record: Annotated[Path, Argument(help="The person's values of today: JSON, one object.")],
    randomizer: Annotated[Path, Option("-r", "--randomizer", help="randomizer.json.")],
    panel: Annotated[Path, Option(help="The campaign's panel.json.")],
    ledger: Annotated[Path, Option(help="The device's ledger: begun if it is not there.")],
    person: Annotated[
        str | None, Option(help="The person's public id; the ledger draws one if none is given.")
    ] = None,
    limit: Annotated[
        float | None, Option(help="Most ε that all campaigns of this ledger may spend together.")
    ] = None,
    limit_days: Annotated[
        float | None, Option(help="In any so many days; ever by default.")
    ] = None,
    first: Annotated[
        bool,
        Option("--first", help="This person had no ledger before: a new one need not wait."),
    ] = False,
    public_key: PublicKey = None,
) -> None:
    """The report of this wave, once: drawn, kept in the ledger, and printed as what a collector takes.

    Asked again in the same wave, it prints the same report; in waves that are not the person's, near one
    that is spent, or beyond the limit, it refuses. With --public-key, the key's holder must have signed
    both randomizer and panel; where one of them is signed, the key must be given.

    Example: privot waves report today.json -r randomizer.json --panel panel.json --ledger my.ledger
    """
    from privot.device import Device
    from privot.release.reports.genuine import read_text
    from privot.waves import DeviceLedger, Limit, Panel

    if limit is None and limit_days is not None:
        raise PrivotError("--limit-days limits nothing without --limit: give both")
    _require_signed(public_key, randomizer, panel)
    device, held = Device.from_json(read_text(randomizer)), Panel.load(panel)
    values = _record(record)
    held.wave_at(time.time())  # what has not begun or has ended begins no ledger
    most = None if limit is None else Limit(limit, limit_days)
    book = DeviceLedger(ledger, person, limit=most, wait=not first)
    made = book.report(device, values, held)
    print(json.dumps({"version": 1, "reports": [made.to_json()]}))
    note(f"{printable(str(ledger))}: {book.spent()} so far, in all campaigns")


def tell(
    value: Annotated[str, Argument(help="The person's bit of today: yes or no.")],
    panel: Annotated[Path, Option(help="The campaign's panel.json; its window is all its waves.")],
    changes: Annotated[int, Option(help="How often a bit is followed when it changes.")],
    epsilon: Annotated[float, Option(help="Of all answers of a person, over all waves.")],
    ledger: Annotated[Path, Option(help="The device's ledger: begun if it is not there.")],
    person: Annotated[
        str | None, Option(help="The person's public id; the ledger draws one if none is given.")
    ] = None,
    first: Annotated[
        bool,
        Option("--first", help="This person had no ledger before: a new one need not stand aside."),
    ] = False,
    public_key: PublicKey = None,
) -> None:
    """Tell a bit that seldom changes, in every wave; print all answers so far, one a line of JSON.

    Each answer is drawn once, kept in the ledger, and printed again as the same bytes. After --changes
    changes the bit is followed as it was. Where the panel is signed, --public-key must say by whom.

    Example: privot waves tell yes --panel panel.json --changes 2 --epsilon 2 --ledger my.ledger
    """
    from privot.waves import ChangeTree, DeviceLedger, Panel, TreeLedger

    if value not in ("yes", "no"):
        raise PrivotError("the bit of today is yes or no: write one of them")
    _require_signed(public_key, panel)
    held = Panel.load(panel)
    if held.waves is None:
        raise PrivotError(
            f"panel {held.name!r} has no last wave, and a tree needs one: give --waves"
        )
    held.wave_at(time.time())  # what has not begun or has ended begins no ledger
    tree = ChangeTree(held.waves, changes, epsilon, held.seed)
    book = TreeLedger(DeviceLedger(ledger, person, wait=not first), tree, held)
    for answer in book.tell(value == "yes"):
        print(answer.to_bytes().decode(), end="")


def _require_signed(key: str | None, *files: Path) -> None:
    """Refuse files that the holder of `key` did not sign; without a key, those that somebody signed."""
    from privot.release.signing import require_signature, signature_path

    for file in files:
        if key is not None:
            require_signature(file, key)
        elif signature_path(file).exists():
            raise PrivotError(
                f"{printable(str(file))} is signed: give --public-key, as its holder published it"
            )


def _record(path: Path) -> Record:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        raise PrivotError(f"{printable(str(path))} cannot be read: check the path") from None
    except ValueError:
        values = None
    if not isinstance(values, dict):
        raise PrivotError(
            f'{printable(str(path))} is no record: write one JSON object, {{"age": 40}}'
        )
    return values


def _span(panel: Panel) -> str:
    waves = "waves without end" if panel.waves is None else f"{panel.waves:,} waves"
    return f"{waves} of {panel.length / _DAY:g} days from {_date(panel, 0)} (UTC) on"


def _date(panel: Panel, wave: int) -> str:
    seconds = panel.start + wave * panel.length
    try:
        begin = datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):  # beyond the year 9999
        return f"second {seconds:,}"
    return begin.strftime("%Y-%m-%d" if begin.timestamp() % _DAY == 0 else "%Y-%m-%d %H:%M")
