"""Shared parts of commands: options, inputs, messages and progress bars (on standard error), verdicts.

Options of several commands are annotated types here; the others are in the commands' parameters.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from inspect import Parameter, Signature, getdoc
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin, get_type_hints

from typer import Argument, Context, Exit, Option, Typer
from typer.core import TyperCommand
from typer.main import get_command

import privot
from privot.core.errors import PrivotError, load_object, printable
from privot.core.files import claim_file
from privot.core.processes import is_first

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

    from privot.collector import Collection
    from privot.evaluation.verdicts import Finding
    from privot.local import LocalModel
    from privot.randomizer.publishing import Progress as RowProgress
    from privot.tables.csv_records import RecordForm
    from privot.training import Progress

SchemaFile = Annotated[Path, Argument(help="The schema: schema.toml.")]
Force = Annotated[bool, Option("--force", help="Replace an output that exists.")]
Separator = Annotated[str, Option(help="Separator of a CSV's fields: one character, or tab.")]
Ignore = Annotated[
    list[str] | None,
    Option(help="Column of the records to ignore, which the schema lacks. May be repeated."),
]
Target = Annotated[
    str | None,
    Option(help="Column of a table that classifiers (of numbers: regressions) are to predict."),
]
FailOn = Annotated[
    str | None,
    Option(help="Exit with code 3 if a finding is poor (--fail-on poor), or fair or poor (fair)."),
]
People = Annotated[int | None, Option(help="Minimum number of reports in a shuffled batch.")]
Floor = Annotated[float | None, Option(help="Bound on a report's epsilon if the shuffler lies.")]
Proofs = Annotated[bool, Option(help="Aggregated: shares prove that they are those of a record.")]
ReportColumns = Annotated[int | None, Option(help="Number of randomly drawn columns in a report.")]


def with_settings(place: str, *names: str, panel: str = "Settings of a fit") -> type[TyperCommand]:
    """Return a command class with options for named fields of a dataclass at `place`, `module:Class`.

    The dataclass is imported when the command's options are needed, so that other commands and
    `privot --help` do not import it. The command's function gets the values as `context.obj`. In the
    command's help, the options stand in a panel of their own.
    """

    class Command(TyperCommand):
        _signature_params: list[Any]  # of the function's parameters, which Typer sets
        _all_params: list[Any] | None = None

        @property
        def params(self) -> list[Any]:
            if self._all_params is None:
                options = settings_options(load_object(place, "this command"), names, panel)
                self._all_params = [*self._signature_params, *options]
            return self._all_params

        @params.setter
        def params(self, params: list[Any]) -> None:
            self._signature_params = params

        def invoke(self, ctx: Any) -> Any:
            ctx.obj = {name: ctx.params.pop(name) for name in names}
            return super().invoke(ctx)

    return Command


def settings_options(settings: type, names: Sequence[str], panel: str) -> list[Any]:
    """Return the options of `with_settings`, given the dataclass.

    Types and defaults are those of the fields. The help of an option is the field's text in the section
    `Arguments:` of the class's docstring; choices of a `Literal` field are added if it omits them.
    """
    types, texts = get_type_hints(settings), _field_help(settings)
    defaults = {field.name: field.default for field in fields(settings)}
    parameters = []
    for name in names:
        option_type: Any = types[name]
        text = texts[name]
        if get_origin(option_type) is Literal:
            choices = [str(choice) for choice in get_args(option_type)]
            if not all(choice in text for choice in choices):
                text += f" One of: {', '.join(choices)}."
            option_type = str  # the settings check the value, with a better message than Typer's
        annotation = Annotated[option_type, Option(help=text, rich_help_panel=panel)]
        parameters.append(
            Parameter(name, Parameter.KEYWORD_ONLY, default=defaults[name], annotation=annotation)
        )

    # Typer makes options only of the signature of a command, which is read by `inspect.signature`.
    def command() -> None: ...

    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]  # of no function's type
    command.__annotations__ = {option.name: option.annotation for option in parameters}
    app = Typer(add_completion=False)
    app.command()(command)
    return [option for option in get_command(app).params if option.name in names]


_LONG_HELP = 200  # characters: two lines of a terminal


def _field_help(settings: type) -> dict[str, str]:
    """Return each field's text in a docstring's section `Arguments:`; the first sentence if long."""
    docstring = (getdoc(settings) or "") + "\n"
    section = re.search(r"^Arguments:\n((?:    .*\n|\n)*)", docstring, re.MULTILINE)
    entries = re.split(r"\n    (?=\w+: )", "\n" + (section[1] if section else ""))[1:]
    texts = {}
    for entry in entries:
        name, _, text = entry.partition(": ")
        text = re.sub(r"`\"?|\"?`", "", " ".join(text.split()))  # without quotes and line ends
        if len(text) > _LONG_HELP:
            text = re.split(r"(?<=[a-z0-9)])\.\s+(?=[A-Z])", text)[0].rstrip(".") + "."
        texts[name] = text
    return texts


def record_form(separator: str, ignore: list[str] | None) -> RecordForm:
    """Return the form of CSV records by the options `--separator` and `--ignore`."""
    from privot.tables.csv_records import RecordForm

    return RecordForm(separator, tuple(ignore or ()))


def with_promise(
    declared: privot.Schema,
    epsilon: float | None,
    delta: float,
    where: str | None,
    people: int | None,
    floor: float | None,
) -> tuple[privot.Schema, float | None, float]:
    """Return the schema, ε and δ to calibrate with, given the options of a promise.

    If `--epsilon` and any of `--where`, `--people` and `--floor` are given, a promise of ε and δ is
    added to the schema, and the returned ε and δ are None and 0. Otherwise nothing changes. Options of a
    promise are refused if the schema has one.
    """
    from privot.schema.schema import Promise

    has_options = where is not None or people is not None or floor is not None
    if has_options and declared.promise is not None:
        raise PrivotError(
            f"the schema promises {declared.promise}: leave out --where, --people and --floor"
        )
    if not has_options or epsilon is None:
        return declared, epsilon, delta
    promise = Promise(epsilon, where or "local", delta, people, floor)
    return declared.model_copy(update={"promise": promise}), None, 0.0


def load_local(path: Path, remedy: str) -> LocalModel:
    """Load a model that was learned from reports; refuse any other."""
    from privot.local import LocalModel

    if not isinstance(model := privot.load(path), LocalModel):
        raise PrivotError(f"{path} was not learned from reports: {remedy}")
    return model


def load_generative(path: Path, remedy: str) -> privot.Model:
    """Load a model that can be sampled without cost; refuse others."""
    from privot.models import kind_of

    if kind_of(path) == "integral":
        raise PrivotError(f"{path} is an integral model, whose draws cost budget: {remedy}")
    if not isinstance(model := privot.load(path), privot.Model):
        raise PrivotError(f"{path} learned no distribution of records: there is nothing to draw")
    return model


def open_releases(
    context: Context,
    paths: Sequence[Path],
    outputs: Sequence[Path],
    *,
    strict: bool,
    replace: bool,
    inputs: Sequence[Path] | None = None,
    one_by_one: bool = False,
) -> list[privot.Release | privot.Counts]:
    """Open releases and counts; releases of maps and tables are counted, unless `one_by_one`.

    Impossible reports are left out, and listed in files beside the outputs.

    Arguments:
        context: Context of the command, at whose end temporary copies are removed.
        paths: The releases.
        outputs: For each release, the path beside which its quarantine is written.
        strict: Whether to refuse a release with impossible reports.
        replace: Whether to replace quarantines that exist.
        inputs: Files that no quarantine may overwrite; the releases by default.
        one_by_one: Whether single reports are needed, so that no release is counted.

    Raises:
        PrivotError: as `collect_files`, or if a quarantine exists and may not be replaced.
    """
    from privot.collector.collecting import quarantine_of, without_impossible

    releases = []
    for path, output in zip(paths, outputs, strict=True):
        quarantine = quarantine_of(output)
        claim_file(quarantine, inputs=paths if inputs is None else inputs, force=replace)
        release, collection = context.with_resource(
            without_impossible(path, quarantine, strict, one_by_one)
        )
        releases.append(release)
        if collection is not None and is_first():
            print_quarantined(collection)
    return releases


def complain(message: str) -> None:
    """Print one line on standard error."""
    print(f"privot: {printable(' '.join(message.split()))}", file=sys.stderr)


def note(message: str) -> None:
    """Print a message on standard error; standard output is for results."""
    print(message, file=sys.stderr)


def log(message: str, level: str = "info", **fields: object) -> None:
    """Print a line of a server's log on standard error: words on a terminal, otherwise a JSON object.

    **Privacy review.** A line is an event of the server (start, sealing, failure, end), never one of a
    sender: it has neither reports nor ids nor addresses. Its time and counts reveal how many reports
    came between two events.
    """
    text = printable(" ".join(message.split()))
    if not sys.stderr.isatty():
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        line = {"time": now, "level": level, "message": text, **fields}
        text = json.dumps(line, ensure_ascii=False)
    print(text, file=sys.stderr)


def log_error(message: str) -> None:
    """Print an error in a server's log."""
    log(message, "error")


def note_unit(unit: str) -> None:
    """Print the assumption that no program can check: each unit has only one record."""
    check = f"make sure that no {unit} has two records: no program can check this"
    note(f"per {unit}: one record is covered, so {check}")


def short_warnings(message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a warning as one line without its source code; replaces `warnings.showwarning`."""
    complain(f"warning: {message}")


def print_quarantined(collection: Collection) -> None:
    """Print how many reports were not counted, and how many copies were left out."""
    if collection.quarantined:
        complain(
            f"{collection.quarantined:,} reports cannot be counted and are in "
            f"{collection.quarantine}, the first: {collection.first}"
        )
    if collection.copies:
        note(f"{collection.copies:,} copies of reports were left out: each counts once")


_COLORS = {"good": "green", "fair": "yellow", "poor": "red", "unknown": "magenta"}


def print_verdict(findings: Sequence[Finding], by: str) -> None:
    """Print a verdict: a line for each finding, with its grade first; `by` names its evidence."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    width = max(len(finding.topic) for finding in findings)
    console.print(f"\nverdict, {by}:", soft_wrap=True)
    for finding in findings:
        grade = (f"  {finding.grade:8}", _COLORS[finding.grade])
        line = Text.assemble(grade, (f"{finding.topic:{width}}  ", "bold"), finding.words)
        console.print(line, soft_wrap=True)


def fail_by_verdict(findings: Sequence[Finding], fail_on: str | None) -> None:
    """Exit with code 3 and one line if a finding has the grade of `--fail-on` or a worse one."""
    from privot.evaluation.verdicts import failing

    if fail_on is None:
        return
    if bad := failing(findings, "fair" if fail_on == "fair" else "poor"):
        complain("verdict: " + ", ".join(f"{finding.topic} {finding.grade}" for finding in bad))
        raise Exit(3)


_STEPS_UNTIL_ESTIMATE = 20  # steps after which the duration of a fit is estimated
_STEPS_PER_UPDATE = 20  # steps of a fit between two updates of its bar
_MIN_SECONDS = 2.0  # shorter durations are not printed


@contextmanager
def training_bar(then: str = "; run again with --resume to continue") -> Iterator[Progress]:
    """Show a bar with loss, rate and time left, or print lines; provide the function that advances it.

    After twenty steps a line estimates the duration, and another follows after each tenth of the steps;
    with at most twenty steps, lines are at least two seconds apart. If Ctrl-C interrupts the fit, the
    command ends with one line, to which `then` is appended.
    """
    from privot.training import Interrupted

    counts = "{task.completed:,.0f}/{task.total:,.0f}   loss {task.fields[loss]:.4f}  "
    with _bar("   training", counts) as bar:
        task = None if bar is None else bar.add_task("", total=None, loss=float("nan"), rate="")
        pace = _Pace("steps")

        def advance(step: int, steps: int, loss: float) -> None:
            rate = pace.rate(step)
            if bar is not None and task is not None:
                if step % _STEPS_PER_UPDATE == 0 or step == steps:
                    bar.update(task, completed=step, total=steps, loss=loss, rate=rate)
                return
            left = pace.left(step, steps)
            if step == _STEPS_UNTIL_ESTIMATE and left > _MIN_SECONDS:
                note(f"   {steps:,} steps will take about {_duration(left)} ({rate})")
            few = steps <= _STEPS_UNTIL_ESTIMATE
            if step % max(1, steps // 10) == 0 and (not few or pace.passed(_MIN_SECONDS)):
                note(f"   step {step:,} of {steps:,}   loss {loss:.4f}")

        try:
            yield advance
        except Interrupted as interruption:
            complain(f"{interruption}{then}")
            raise Exit(1) from None


@contextmanager
def row_bar() -> Iterator[RowProgress]:
    """Show a bar of rows for each phase, but only on a terminal; provide the function to advance it."""
    phases: dict[str, tuple[TaskID, _Pace]] = {}
    with _bar("   {task.description}", "{task.completed:,.0f} rows of {task.fields[of]}  ") as bar:

        def advance(phase: str, rows: int, expected: int | None) -> None:
            if bar is None:
                return
            if phase not in phases:
                phases[phase] = bar.add_task(phase, total=None, of="?", rate=""), _Pace("rows")
            task, pace = phases[phase]
            total = "?" if expected is None else f"{expected:,}"
            bar.update(task, completed=rows, total=expected, of=total, rate=pace.rate(rows))

        yield advance


def counted(pieces: Iterable[pa.Table], expected: int, progress: RowProgress) -> Iterator[pa.Table]:
    """Yield pieces of a table, and report the number of rows so far to `progress` after each."""
    rows = 0
    for piece in pieces:
        yield piece
        rows += piece.num_rows
        progress("draw", rows, expected)


@contextmanager
def step_bar(phase: str) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar of long steps; without a terminal, print one line after two seconds."""
    with _bar(f"   {phase}", "{task.completed:.0f} of {task.total:.0f}  ") as bar:
        task = None if bar is None else bar.add_task(phase, total=1, rate="")
        line = Timer(_MIN_SECONDS, note, [f"   {phase} …"])
        line.daemon = True
        if bar is None:
            line.start()

        def advance(done: int, total: int) -> None:
            if bar is not None and task is not None:
                bar.update(task, completed=done, total=total)

        try:
            yield advance
        finally:
            line.cancel()


@contextmanager
def _bar(name: str, counts: str) -> Iterator[Bar | None]:
    """Show a bar with a name, counts (formats of Rich) and times; provide None without a terminal."""
    from rich import progress
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    columns = (
        progress.TextColumn(name),
        progress.BarColumn(bar_width=32),
        progress.TextColumn(counts),
        progress.TextColumn("{task.fields[rate]}"),
        progress.TimeElapsedColumn(),
        progress.TextColumn("· left"),
        progress.TimeRemainingColumn(),
    )
    with progress.Progress(*columns, console=console, refresh_per_second=5) as bar:
        yield bar


class _Pace:
    """Rate of a task, measured from the first call of `rate` on, and its remaining time."""

    def __init__(self, units: str) -> None:
        self._units = units  # in the plural, such as "steps"
        self._done_at_start, self._start, self._last_passed = 0, 0.0, 0.0

    def rate(self, done: int) -> str:
        """Return the number of units a second as text; empty at first."""
        if not self._start:
            self._done_at_start, self._start = done, time.perf_counter()
        elapsed = time.perf_counter() - self._start
        if done <= self._done_at_start or elapsed <= 0:
            return ""
        return f"{(done - self._done_at_start) / elapsed:,.3g} {self._units} a second"

    def passed(self, seconds: float) -> bool:
        """Return whether so many seconds have passed since the start and since the last True."""
        now = time.perf_counter()
        if now - max(self._last_passed, self._start) < seconds:
            return False
        self._last_passed = now
        return True

    def left(self, done: int, total: int) -> float:
        """Return the estimated number of seconds until all units are done."""
        elapsed = time.perf_counter() - self._start
        return elapsed / max(1, done - self._done_at_start) * (total - done)


def _duration(seconds: float) -> str:
    """Format a duration: whole seconds; minutes and hours below 10 with at most one decimal.

    Examples:
        >>> [_duration(seconds) for seconds in (0.3, 47.2, 60.0, 200.0, 3599.0, 4e5)]
        ['1 second', '47 seconds', '1 minute', '3.3 minutes', '1 hour', '111 hours']
    """
    units = (("hour", 3600.0), ("minute", 60.0), ("second", 1.0))
    # From 59.5 of one unit on, which would be rounded to 60 of it, the next one is used.
    unit, length = next((pair for pair in units if seconds >= pair[1] * 59.5 / 60), units[-1])
    value = max(seconds / length, 1.0)
    number = f"{value:.0f}" if unit == "second" or value >= 10 else f"{value:.2g}"
    return f"{number} {unit}" + ("" if number == "1" else "s")
