"""What is printed: facts on standard output, complaints and progress on standard error."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TextIO

from privot.errors import printable

if TYPE_CHECKING:
    import pyarrow as pa

    from privot.release import Collection


class _Report(Protocol):
    def __call__(self, step: int, steps: int, loss: float) -> None: ...


class _Rows(Protocol):
    def __call__(self, doing: str, rows: int, expected: int | None) -> None: ...


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


def short_warnings(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """A warning as one line, without the code that raised it."""
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
def training_bar() -> Iterator[_Report]:
    """A progress bar with loss and time left; a line every tenth where there is no terminal."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    if not console.is_terminal:

        def line(step: int, steps: int, loss: float) -> None:
            if step % max(1, steps // 10) == 0:
                note(f"   step {step:,} of {steps:,}   loss {loss:.4f}")

        yield line
        return
    columns = (
        TextColumn("   training"),
        BarColumn(bar_width=32),
        TextColumn("{task.completed:,.0f}/{task.total:,.0f}   loss {task.fields[loss]:.4f}  "),
        TimeElapsedColumn(),
        TextColumn("· left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, refresh_per_second=5) as progress:
        task = progress.add_task("training", total=None, loss=float("nan"))

        def advance(step: int, steps: int, loss: float) -> None:
            if step % 20 == 0 or step == steps:
                progress.update(task, completed=step, total=steps, loss=loss)

        yield advance


@contextmanager
def row_bar() -> Iterator[_Rows]:
    """A progress bar of rows and time left, a phase each; nothing where there is no terminal."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskID,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda doing, rows, expected: None
        return
    columns = (
        TextColumn("   {task.description}"),
        BarColumn(bar_width=32),
        TextColumn("{task.completed:,.0f} rows of {task.fields[of]}  "),
        TimeElapsedColumn(),
        TextColumn("· left"),
        TimeRemainingColumn(),
    )
    tasks: dict[str, TaskID] = {}
    with Progress(*columns, console=console, refresh_per_second=5) as progress:

        def advance(doing: str, rows: int, expected: int | None) -> None:
            if doing not in tasks:
                tasks[doing] = progress.add_task(doing, total=None, of="?")
            of = "?" if expected is None else f"{expected:,}"
            progress.update(tasks[doing], completed=rows, total=expected, of=of)

        yield advance


def counted(pieces: Iterable[pa.Table], expected: int, progress: _Rows) -> Iterator[pa.Table]:
    """The pieces as they pass, their rows told."""
    rows = 0
    for piece in pieces:
        yield piece
        rows += piece.num_rows
        progress("draw", rows, expected)
