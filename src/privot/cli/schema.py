"""Commands that declare what a record may be, and plan reports before there are any. No PyTorch."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Exit, Option

from privot.cli.console import Force, Ignore, SchemaFile, Separator, note, record_form
from privot.errors import PrivotError
from privot.privacy.rounding import at_most, exactly

if TYPE_CHECKING:
    from privot.release.planning import ExpectedError, Plan
    from privot.schema import Schema

_HEADER = ("report", "columns", "cells", "pair seen by", "one-way", "two-way")


def check(
    schema: SchemaFile,
    against: Annotated[
        Path | None,
        Option(
            help="Raw records: csv, csv.gz, parquet, npz, a folder, - for CSV on a pipe. Tells all that "
            "is wrong with them at once; what it prints is not private."
        ),
    ] = None,
    separator: Separator = ",",
    ignore: Ignore = None,
    as_json: Annotated[bool, Option("--json", help="Print canonical JSON.")] = False,
) -> None:
    """Check a schema and say what one record may be; or what is wrong with records.

    Exit code 1 if records are wrong.

    Example: privot schema check schema.toml --against people.csv
    """
    from privot.schema import Schema

    checked = Schema.load(schema)
    if against is not None:
        if as_json:
            raise PrivotError("--json prints the schema, --against reads records: give one of them")
        _check_records(checked, against, separator, ignore)
        return
    if ignore or separator != ",":
        raise PrivotError("--ignore and --separator are for records: name them by --against")
    if as_json:
        print(checked.to_json())
        return
    print(f"one record belongs to one {checked.unit} and has {len(checked.columns)} columns")
    for name, column in checked.columns.items():
        if name in checked.coded:
            labels = checked.coded[name].labels
            shown = ", ".join(labels[:4]) + (", …" if len(labels) > 4 else "")
            print(f"  {name}: {column.kind}, reported as one of {len(labels)}: {shown}")
        else:
            domain = checked.point_column(name).domain
            print(
                f"  {name}: {column.kind}, {domain.dimension} "
                f"coordinate{'s' if domain.dimension > 1 else ''}, "
                f"diameter {at_most(domain.diameter(1), 6)} (l1), {at_most(domain.diameter(2), 6)} (l2)"
            )


def _check_records(schema: Schema, against: Path, separator: str, ignore: list[str] | None) -> None:
    from privot.tables.batches import check_records
    from privot.tables.record_files import open_records

    found = check_records(open_records(against, schema, record_form(separator, ignore)), schema)
    note("what follows shows records: it is not private, keep it where they are")
    for one in found.findings:
        more = ", …" if one.count > len(one.places) else ""
        print(
            f"{one.column}: {one.count:,} of {found.num_rows:,} {one.what}: {one.remedy} "
            f"({', '.join(one.places)}{more}; the first is {one.example})"
        )
    for name, moved in found.outside.items():
        print(f"{name}: {moved:,} of {found.num_rows:,} lie outside the bounds, and would be moved")
    if found.findings:
        raise Exit(1)
    print(f"{against}: all {found.num_rows:,} records can be reported")


def import_metadata(
    metadata: Annotated[Path, Argument(help="SDV's metadata: metadata.json.")],
    output: Annotated[Path, Option("-o", "--output", help="Where to write it.")] = Path(
        "schema.toml"
    ),
    table: Annotated[str | None, Option(help="Which table, of several.")] = None,
    force: Force = False,
) -> None:
    """Draft a schema from SDV's metadata; bounds and categories are left to you.

    Example: privot schema import metadata.json -o schema.toml
    """
    from privot.files import claim_file, replacing_file
    from privot.schema.sdv import draft_schema

    claim_file(output, inputs=[metadata], suffixes=(".toml",), force=force)
    try:
        text = metadata.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PrivotError(f"metadata {metadata} cannot be read: {error}") from None
    draft = draft_schema(text, table)
    with replacing_file(output) as file:
        file.write_text(draft, encoding="utf-8")
    print(f"{output}: a draft; declare what is commented out, then: privot schema check {output}")


def plan(
    schema: SchemaFile,
    epsilon: Annotated[float, Option(help="Privacy loss of one whole report.")],
    people: Annotated[int, Option(help="How many people (or units of the schema) will report.")],
    target_error: Annotated[float, Option(help="Two-way error to count the people for.")] = 0.05,
    as_json: Annotated[bool, Option("--json", help="Print the plan as JSON.")] = False,
) -> None:
    """Expected error for each number of columns a report, and the choice to make.

    Reads the schema only, so it costs no privacy.

    Example: privot plan schema.toml --epsilon 4 --people 50000
    """
    from privot.release.planning import plan_reports
    from privot.schema import Schema

    loaded = Schema.load(schema)
    if loaded.images:
        raise PrivotError(
            f"{schema} has images, and a plan is for columns of categories or bins: `privot calibrate` "
            "tells what noise images get"
        )
    made = plan_reports(loaded, epsilon, people, target_error=target_error)
    command = _command(schema, epsilon, made)
    if as_json:
        print(json.dumps(asdict(made) | {"command": command}))
        return
    sizes = sorted(column.alphabet.size for column in loaded.coded.values())
    columns = f"{len(sizes)} column{'s' if len(sizes) > 1 else ''}"
    values = f"{columns} of {_range(sizes[0], sizes[-1])} values"
    print(f"{values}, {people:,} reports, ε = {exactly(epsilon)} per {made.unit}")
    if len(loaded.columns) > len(sizes):
        print(f"{at_most(made.epsilon)} of ε for these columns, an equal share for each vector")
    print()
    header = (*_HEADER, f"people for {exactly(target_error)}")
    _print_table([header, *(_row(option, made) for option in made.options)])
    print()
    best = made.recommended
    k = f"{best.report_columns} column{'s' if best.report_columns > 1 else ''}"
    print(f"recommended: a {best.report} report of {k} per {made.unit}: {made.reason}.")
    shown = best.two_way if best.two_way is not None else best.one_way
    if shown > made.guess:
        print(
            f"That error is larger than of a guess without any reports ({made.guess:.2f}): "
            "joint structure will be as good as the model's assumptions. More people, a larger ε, or "
            "fewer bins and categories would help."
        )
    print(
        "Errors are expected total variation, averaged over columns and pairs, at most, of an "
        "estimate without a model. Latent classes, which `privot fit` uses for tables, do better: "
        "two to six times on a census, the more so the smaller ε."
    )
    print(f"next: {command}")


def _command(schema: Path, epsilon: float, made: Plan) -> str:
    """The command that calibrates what is recommended."""
    best = made.recommended
    words = ["privot calibrate", str(schema), f"--epsilon {exactly(epsilon)}"]
    words += [] if best.report == "joint" else [f"--report {best.report}"]
    return " ".join([*words, f"--report-columns {best.report_columns}", "-o randomizer.json"])


def _row(option: ExpectedError, made: Plan) -> tuple[str, ...]:
    needed = "–" if option.people_needed is None else _rounded(option.people_needed)
    note = "   marginals only" if option.marginals_only else ""
    note = "   <- recommended" if option == made.recommended else note
    return (
        option.report,
        str(option.report_columns),
        _range(*option.cells),
        f"{option.pair_share:.2%}" if option.pair_share else "nobody",
        _error(option.one_way),
        _error(option.two_way),
        needed + note,
    )


def _error(error: float | None) -> str:
    """Distributions differ by 1 at most; estimates without a model can miss by more."""
    if error is None:
        return "–"
    return f"{error:.4f}" if error < 1 else "over 1"


def _range(low: int, high: int) -> str:
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _rounded(number: int) -> str:
    """Two digits are known at best."""
    digits = max(0, len(str(number)) - 2)
    return f"{-(-number // 10**digits) * 10**digits:,}"


def _print_table(rows: list[tuple[str, ...]]) -> None:
    """Names to the left, numbers to the right; what follows the last number is not aligned."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(_HEADER))]
    last = max(len(row[-1].partition("   ")[0]) for row in rows)
    for row in rows:
        cells = [
            text.ljust(width) if i == 0 else text.rjust(width)
            for i, (text, width) in enumerate(zip(row, widths, strict=False))
        ]
        number, gap, note = row[-1].partition("   ")
        print("  ".join([*cells, number.rjust(last)]) + gap + note)
