"""What commands share: options; facts on standard output, complaints and progress on standard error."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Exit, Option

from privot.errors import printable

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

    from privot.release import Collection
    from privot.release.streaming.publishing import Progress as RowProgress
    from privot.tables.csv_records import RecordForm
    from privot.training import Progress

SchemaFile = Annotated[Path, Argument(help="The schema: schema.toml.")]
Force = Annotated[bool, Option("--force", help="Replace an output that exists.")]
Separator = Annotated[
    str, Option(help="What stands between a CSV's fields: one character, or tab.")
]
Ignore = Annotated[
    list[str] | None,
    Option(help="A column of the records that the schema does not know. May be repeated."),
]


def record_form(separator: str, ignore: list[str] | None) -> RecordForm:
    """What `--separator` and `--ignore` say."""
    from privot.tables.csv_records import RecordForm

    return RecordForm(separator, tuple(ignore or ()))


def complain(message: str) -> None:
    """One line on standard error."""
    print(f"privot: {printable(' '.join(message.split()))}", file=sys.stderr)


def note(message: str) -> None:
    """A line for people on standard error, so that standard output stays for machines."""
    print(message, file=sys.stderr)


def note_unit(unit: str) -> None:
    """What no program can check: the promise covers one record, and so a unit that has one."""
    note(
        f"per {unit}: one record is covered, so make sure that no {unit} has two; nothing here can"
    )


def short_warnings(message: Warning | str, *_: Any, **__: Any) -> None:
    """A warning as one line, without the code that raised it: for `warnings.showwarning`."""
    complain(f"warning: {message}")


def tell_quarantined(done: Collection) -> None:
    """What was not counted of the reports received, and what was counted once."""
    if done.quarantined:
        complain(
            f"{done.quarantined:,} reports cannot be counted and are in {done.quarantine}, the first: "
            f"{done.first}"
        )
    if done.copies:
        note(f"{done.copies:,} copies of reports were left out: each counts once")


@contextmanager
def training_bar() -> Iterator[Progress]:
    """A progress bar with loss and time left; a line every tenth where there is no terminal.

    A fit that Ctrl-C interrupts, and that has saved its state, ends the command with one line.
    """
    from privot.training import Interrupted

    counts = "{task.completed:,.0f}/{task.total:,.0f}   loss {task.fields[loss]:.4f}  "
    with _bar("   training", counts) as bar:
        task = None if bar is None else bar.add_task("training", total=None, loss=float("nan"))

        def advance(step: int, steps: int, loss: float) -> None:
            if bar is None or task is None:
                if step % max(1, steps // 10) == 0:
                    note(f"   step {step:,} of {steps:,}   loss {loss:.4f}")
            elif step % 20 == 0 or step == steps:
                bar.update(task, completed=step, total=steps, loss=loss)

        try:
            yield advance
        except Interrupted as interruption:
            complain(f"{interruption}; run again with --resume to continue")
            raise Exit(1) from None


@contextmanager
def row_bar() -> Iterator[RowProgress]:
    """A progress bar of rows and time left, a phase each; nothing where there is no terminal."""
    tasks: dict[str, TaskID] = {}
    with _bar("   {task.description}", "{task.completed:,.0f} rows of {task.fields[of]}  ") as bar:

        def advance(doing: str, rows: int, expected: int | None) -> None:
            if bar is None:
                return
            if doing not in tasks:
                tasks[doing] = bar.add_task(doing, total=None, of="?")
            of = "?" if expected is None else f"{expected:,}"
            bar.update(tasks[doing], completed=rows, total=expected, of=of)

        yield advance


@contextmanager
def _bar(name: str, counts: str) -> Iterator[Bar | None]:
    """A bar with its name before it, counts and times behind; None where there is no terminal."""
    from rich import progress as parts
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    columns = (
        parts.TextColumn(name),
        parts.BarColumn(bar_width=32),
        parts.TextColumn(counts),
        parts.TimeElapsedColumn(),
        parts.TextColumn("· left"),
        parts.TimeRemainingColumn(),
    )
    with parts.Progress(*columns, console=console, refresh_per_second=5) as bar:
        yield bar


def counted(pieces: Iterable[pa.Table], expected: int, progress: RowProgress) -> Iterator[pa.Table]:
    """The pieces as they pass, their rows told."""
    rows = 0
    for piece in pieces:
        yield piece
        rows += piece.num_rows
        progress("draw", rows, expected)
