"""Commands that declare what a record may be, and hold records against it. No PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from privot.cli.console import note
from privot.cli.options import Force, Ignore, Separator, record_form

if TYPE_CHECKING:
    from privot.schema import Schema


def check(
    schema: Annotated[Path, typer.Argument(help="The schema: schema.toml.")],
    against: Annotated[
        Path | None,
        typer.Option(
            help="Raw records: csv, csv.gz, parquet, npz, a folder, - for CSV on a pipe. Tells all that "
            "is wrong with them at once; what it prints is not private."
        ),
    ] = None,
    separator: Separator = ",",
    ignore: Ignore = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print canonical JSON.")] = False,
) -> None:
    """Check a schema and say what one record may be; or what is wrong with records.

    Exit code 1 if records are wrong.

    Example: privot schema check schema.toml --against people.csv
    """
    from privot.errors import PrivotError
    from privot.privacy.guarantees.figures import at_most
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
    from privot.tables.record_check import check_records
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
        raise typer.Exit(1)
    print(f"{against}: all {found.num_rows:,} records can be reported")


def import_metadata(
    metadata: Annotated[Path, typer.Argument(help="SDV's metadata: metadata.json.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Where to write it.")] = Path(
        "schema.toml"
    ),
    table: Annotated[str | None, typer.Option(help="Which table, of several.")] = None,
    force: Force = False,
) -> None:
    """Draft a schema from SDV's metadata; bounds and categories are left to you.

    Example: privot schema import metadata.json -o schema.toml
    """
    from privot.errors import PrivotError
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
