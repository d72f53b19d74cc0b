"""What commands share: options; facts on standard output, complaints and progress on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Exit, Option

from privot.core.errors import printable, require_choice

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

    from privot.collector import Collection
    from privot.evaluation.verdicts import Finding
    from privot.randomizer.publishing import Progress as RowProgress
    from privot.tables.csv_records import RecordForm
    from privot.training import Progress

SchemaFile = Annotated[Path, Argument(help="The schema: schema.toml.")]
Force = Annotated[bool, Option("--force", help="Replace an output that exists.")]
Separator = Annotated[
    str, Option(help="What stands between a CSV's fields: one character, or tab.")
]
# Steps after which a fit tells how long it will take.
_STEPS_UNTIL_TOLD = 20
_TOO_SHORT_TO_TELL = 2.0  # seconds
Ignore = Annotated[
    list[str] | None,
    Option(help="A column of the records that the schema does not know. May be repeated."),
]
Target = Annotated[
    str | None,
    Option(help="Column of a table that classifiers, or of numbers regressions, are to tell."),
]

FailOn = Annotated[
    str | None,
    Option(
        help="Exit with code 3 if a finding of the verdict is that bad: poor, or fair (or poor)."
    ),
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
def training_bar(then: str = "; run again with --resume to continue") -> Iterator[Progress]:
    """A progress bar with loss, rate and time left; where there is no terminal, lines.

    These tell after twenty steps how long all of them will take, and then every tenth of them; where
    there are fewer than twenty, those after which two seconds have passed.

    A fit that Ctrl-C interrupts ends the command with one line, and with what can be done `then`.
    """
    from privot.training import Interrupted

    counts = "{task.completed:,.0f}/{task.total:,.0f}   loss {task.fields[loss]:.4f}  "
    with _bar("   training", counts) as bar:
        task = None if bar is None else bar.add_task("", total=None, loss=float("nan"), rate="")
        pace = _Pace("steps")

        def advance(step: int, steps: int, loss: float) -> None:
            rate = pace.rate(step)
            if bar is None or task is None:
                left = pace.left(step, steps)
                if step == _STEPS_UNTIL_TOLD and left > _TOO_SHORT_TO_TELL:
                    note(f"   {steps:,} steps will take about {_duration(left)} ({rate})")
                few = steps <= _STEPS_UNTIL_TOLD
                if step % max(1, steps // 10) == 0 and (not few or pace.passed(_TOO_SHORT_TO_TELL)):
                    note(f"   step {step:,} of {steps:,}   loss {loss:.4f}")
            elif step % 20 == 0 or step == steps:
                bar.update(task, completed=step, total=steps, loss=loss, rate=rate)

        try:
            yield advance
        except Interrupted as interruption:
            complain(f"{interruption}{then}")
            raise Exit(1) from None


@contextmanager
def row_bar() -> Iterator[RowProgress]:
    """A progress bar of rows, rate and time left, a phase each; nothing where there is no terminal."""
    tasks: dict[str, tuple[TaskID, _Pace]] = {}
    with _bar("   {task.description}", "{task.completed:,.0f} rows of {task.fields[of]}  ") as bar:

        def advance(doing: str, rows: int, expected: int | None) -> None:
            if bar is None:
                return
            if doing not in tasks:
                tasks[doing] = bar.add_task(doing, total=None, of="?", rate=""), _Pace("rows")
            task, pace = tasks[doing]
            of = "?" if expected is None else f"{expected:,}"
            bar.update(task, completed=rows, total=expected, of=of, rate=pace.rate(rows))

        yield advance


class _Pace:
    """How fast something goes on, from when it first told."""

    def __init__(self, units: str) -> None:
        self._units, self._first, self._began, self._told = units, 0, 0.0, 0.0

    def rate(self, done: int) -> str:
        """Units a second, in words; empty until there are some."""
        if not self._began:
            self._first, self._began = done, time.perf_counter()
        elapsed = time.perf_counter() - self._began
        if done <= self._first or elapsed <= 0:
            return ""
        return f"{(done - self._first) / elapsed:,.3g} {self._units} a second"

    def passed(self, seconds: float) -> bool:
        """Whether so much time is over since it began, or since the last time that it was."""
        now = time.perf_counter()
        over = now - max(self._told, self._began) >= seconds
        self._told = now if over else self._told
        return over

    def left(self, done: int, total: int) -> float:
        """Seconds until all is done."""
        elapsed = time.perf_counter() - self._began
        return elapsed / max(1, done - self._first) * (total - done)


def _duration(seconds: float) -> str:
    """A time in words, to one or two digits.

    Examples:
        >>> [_duration(each) for each in (0.3, 47.2, 200.0, 7300.0)]
        ['1 second', '47 seconds', '3.3 minutes', '2 hours']
    """
    for length, unit in ((3600.0, "hours"), (60.0, "minutes")):
        if seconds >= length:
            return f"{seconds / length:.2g} {unit}"
    whole = max(1, round(seconds))
    return f"{whole} second{'s' * (whole > 1)}"


@contextmanager
def step_bar(doing: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar of a few long steps; where there is no terminal, a line if it takes two seconds."""
    with _bar(f"   {doing}", "{task.completed:.0f} of {task.total:.0f}  ") as bar:
        task = None if bar is None else bar.add_task(doing, total=1, rate="")
        late = Timer(_TOO_SHORT_TO_TELL, note, [f"   {doing} …"])
        late.daemon = True
        if bar is None:
            late.start()

        def advance(done: int, of: int) -> None:
            if bar is not None and task is not None:
                bar.update(task, completed=done, total=of)

        try:
            yield advance
        finally:
            late.cancel()


_COLORS = {"good": "green", "fair": "yellow", "poor": "red", "unknown": "magenta"}


def tell_verdict(findings: Sequence[Finding], by: str) -> None:
    """What a model may be used for, a line each, its grade before it."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    width = max(len(finding.topic) for finding in findings)
    console.print(f"\nverdict, {by}:", soft_wrap=True)
    for finding in findings:
        line = Text.assemble(
            "  ", (f"{finding.grade:8}", _COLORS[finding.grade]),
            (f"{finding.topic:{width}}  ", "bold"), finding.words,
        )  # fmt: skip
        console.print(line, soft_wrap=True)


def require_fail_on(fail_on: str | None) -> None:
    """Refuse what is no grade to fail on."""
    if fail_on is not None:
        require_choice("--fail-on", fail_on, ("poor", "fair"))


def fail_by_verdict(findings: Sequence[Finding], fail_on: str | None) -> None:
    """End the command with code 3 and one line if the verdict is as bad as `--fail-on` names."""
    from privot.evaluation.verdicts import failing

    if fail_on is None:
        return
    if bad := failing(findings, "fair" if fail_on == "fair" else "poor"):
        complain("verdict: " + ", ".join(f"{finding.topic} {finding.grade}" for finding in bad))
        raise Exit(3)


@contextmanager
def _bar(name: str, counts: str) -> Iterator[Bar | None]:
    """A bar with its name before it, counts, rate and times behind; None where there is no terminal."""
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
        parts.TextColumn("{task.fields[rate]}"),
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
