"""Commands of `privot schema`: check one, or write one by prompts, from declarations or a pilot."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer import Argument, Exit, Option

import privot
from privot.cli.console import Force, Ignore, SchemaFile, Separator, load_local, note, record_form
from privot.core.errors import PrivotError
from privot.core.files import claim_file, read_text, write_file
from privot.privacy.rounding import at_most

if TYPE_CHECKING:
    from privot.schema.columns.column import CodedColumn
    from privot.schema.drafts import DraftColumn


def check(
    schema: SchemaFile,
    against: Path | None = Option(
        None,
        help="Raw records to check: csv, csv.gz, parquet, npz, a folder, - for CSV on a pipe. All "
        "errors are listed at once; the output is not private.",
    ),
    separator: Separator = ",",
    ignore: Ignore = None,
    as_json: bool = Option(False, "--json", help="Print canonical JSON."),
    metadata: Path | None = Option(None, help="File to write with the schema as SDV's metadata."),
    force: Force = False,
) -> None:
    """Check a schema, and print what one record may be; or print the errors of records.

    The exit code is 1 if records have errors.

    Example: privot schema check schema.toml --against people.csv
    """
    if metadata is not None:
        if as_json or against is not None:
            raise PrivotError("--metadata writes a file: leave out --json and --against")
        from privot.schema.drafts import write_metadata

        claim_file(metadata, inputs=[schema], suffixes=(".json",), force=force)
        write_file(metadata, write_metadata(privot.Schema.load(schema)))
        print(f"{metadata}: SDV's metadata of {schema}")
        return
    declared = privot.Schema.load(schema)
    if against is not None:
        if as_json:
            raise PrivotError("--json prints the schema, --against reads records: give one of them")
        _check_records(declared, against, separator, ignore)
        return
    if ignore or separator != ",":
        raise PrivotError("--ignore and --separator apply to records: name their file by --against")
    if as_json:
        print(declared.to_json())
        return
    _print_schema(declared)


_MOST_EXAMPLES = 4  # values of a column that are shown


def _alphabet(column: CodedColumn) -> str:
    """Return the number of values that a report of a column can have, and the first ones, in words."""
    examples = ", ".join(column.labels[:_MOST_EXAMPLES])
    more = ", …" if len(column.labels) > _MOST_EXAMPLES else ""
    return f"reported as one of {len(column.labels)}: {examples}{more}"


def _print_schema(schema: privot.Schema) -> None:
    print(f"one record belongs to one {schema.unit} and has {len(schema.columns)} columns")
    for name, column in schema.columns.items():
        if name in schema.coded:
            print(f"  {column.title(name)}: {column.kind}, {_alphabet(schema.coded[name])}")
        else:
            domain = schema.point_column(name).domain
            print(
                f"  {name}: {column.kind}, {domain.dimension} "
                f"coordinate{'s' if domain.dimension > 1 else ''}, "
                f"diameter {at_most(domain.diameter(1), 6)} (l1), {at_most(domain.diameter(2), 6)} (l2)"
            )
    for name in schema.identifiers:
        print(f"  {name}: identifier, never reported: made up for samples")
    for name in schema.read_rules.defined:
        print(f"  {name}: {schema.declared[name].kind}, never reported: computed by a rule")


def _check_records(
    schema: privot.Schema, against: Path, separator: str, ignore: list[str] | None
) -> None:
    """Print all errors of records; exit with code 1 if there are any."""
    from privot.tables.record_files import check_records, open_records

    result = check_records(open_records(against, schema, record_form(separator, ignore)), schema)
    note("what follows shows records: it is not private, keep it where they are")
    for finding in result.findings:
        more = ", …" if finding.count > len(finding.places) else ""
        print(
            f"{finding.column}: {finding.count:,} of {result.num_rows:,} {finding.fault}: "
            f"{finding.remedy} ({', '.join(finding.places)}{more}; the first is {finding.example})"
        )
    for name, moved in result.outside.items():
        print(
            f"{name}: {moved:,} of {result.num_rows:,} lie outside the bounds, and would be moved"
        )
    if result.findings:
        raise Exit(1)
    print(f"{against}: all {result.num_rows:,} records can be reported")


def new(
    more: list[str] | None = Argument(None, help="More columns.", show_default=False),
    output: Path | None = Option(
        None, "-o", "--output", help="File to write: schema.toml, or with --pilot refined.json."
    ),
    columns: list[str] | None = Option(
        None,
        help="A column in a line: age:int[17,90], paid:money[1,20000]:log, "
        "came:date[2020-01-01,2024-12-31], sex:F|M, north|south|other*, owner:bool? (may be "
        "missing), patient:id(P-\\d{6}). Others may follow; without any, a prompt asks for them.",
    ),
    rule: list[str] | None = Option(None, help="Rule of samples: 'left >= came'. May be repeated."),
    like: Path | None = Option(
        None, help="Table (csv, csv.gz, parquet) of whose header alone to make a draft."
    ),
    separator: Separator = ",",
    source: str | None = Option(None, "--from", help="SDV's metadata.json, to make a draft from."),
    table: str | None = Option(None, help="With --from: name of the table, if there are several."),
    pilot: Path | None = Option(
        None,
        help="Folder of a pilot's model, by which to refine its schema for later people; its "
        "release, to find words that nobody listed.",
    ),
    words: Path | None = Option(
        None, help="With the release of a pilot: public words to try, one a line."
    ),
    rarest: float = Option(0.0, help="With --pilot: share below which a category joins `other`."),
    force: Force = False,
) -> None:
    """Write a schema: column by column, from another library's declaration, or refined by a pilot.

    Columns come from prompts or from lines, never from data. In a draft from another library, you
    declare what it lacks. After a pilot, later reports do not depend on the pilot's people, so that
    both releases can be fitted together: privot fit pilot.parquet release.parquet.

    Example: privot schema new --columns "age:int[17,90]" "sex:F|M" -o schema.toml

    From SDV's metadata: privot schema new --from metadata.json -o schema.toml

    From the header of a table, of which no row is read: privot schema new --like people.csv

    Refined by a pilot: privot schema new --pilot pilot/ -o refined.json
    """
    lines = [*(columns or ()), *(more or ())]
    if sum([bool(lines or rule), *(way is not None for way in (like, source, pilot))]) > 1:
        raise PrivotError("columns, --like, --from and --pilot are ways to a schema: give one")
    if words is not None and (pilot is None or not pilot.is_file()):
        raise PrivotError("--words are tried on the release of a pilot: give its file as --pilot")
    if table is not None and source is None:
        raise PrivotError("--table names a table of another library's metadata: give --from")
    if pilot is not None:
        _refine(pilot, output or Path("refined.json"), rarest, words, force)
    elif like is not None:
        from privot.schema.drafts import draft_header
        from privot.tables.record_files import read_header

        form = record_form(separator, None)
        _write_incomplete(
            lambda: draft_header(read_header(like, form), like.name), output, [like], force
        )
    elif source is not None:
        from privot.schema.drafts import draft_schema

        inputs = [Path(source)] if Path(source).exists() else []
        _write_incomplete(
            lambda: draft_schema(read_text(source, "metadata"), table), output, inputs, force
        )
    else:
        _declare(lines, rule or [], output or Path("schema.toml"), force)


def _declare(lines: list[str], rules: list[str], output: Path, force: bool) -> None:
    from privot.schema.drafts import read_declaration, write_draft

    claim_file(output, suffixes=(".toml",), force=force)
    declared = [*map(read_declaration, lines)] if lines else _ask_columns()
    if not declared:
        note("nothing was declared, and nothing written")
        raise Exit(1)
    text = write_draft(declared, rules=rules)
    num_columns = len(privot.Schema.from_toml(text).declared)
    write_file(output, text)
    print(f"{output}: {num_columns} columns; for what is reported: privot schema check {output}")


def _write_incomplete(
    make: Callable[[], str], output: Path | None, inputs: list[Path], force: bool
) -> None:
    """Write a draft, which a person completes."""
    output = output or Path("schema.toml")
    claim_file(output, inputs=inputs, suffixes=(".toml",), force=force)
    write_file(output, make())
    print(f"{output}: a draft; declare what is commented out, then: privot schema check {output}")


def _refine(model: Path, output: Path, rarest: float, words: Path | None, force: bool) -> None:
    from privot.local import refine

    claim_file(output, inputs=[model], suffixes=(".json",), force=force)
    if model.is_file():
        _find_words(model, output, rarest, words)
        return
    loaded = load_local(model, "give the folder that `privot fit` wrote of a pilot's release")
    refined = refine(loaded, rarest=rarest)
    refined.save(output)
    for name, column in refined.coded.items():
        if column != loaded.schema.coded[name]:
            print(f"  {name}: one of {len(column.labels)}: {', '.join(column.labels)}")
    print(f"{output}: for people who have not reported yet; then: privot calibrate {output} …")


def _find_words(release: Path, output: Path, rarest: float, words: Path | None) -> None:
    from privot.local.model import refine_words

    public = read_text(words, "words").splitlines() if words else []
    reports = privot.Release.open(release)
    refined, found = refine_words(reports, privot.fit, public, rarest=rarest)
    refined.save(output)
    for name, listed in found.items():
        shares = ", ".join(f"{word.word} {word.people / len(reports):.1%}" for word in listed)
        print(
            f"  {name}: {len(listed)} words (± {2 * listed[0].stderr / len(reports):.1%}): {shares}"
        )
    print(f"{output}: for people who have not reported yet; then: privot calibrate {output} …")


# The prompts of `privot schema new` ask for one column after another, and show how each is reported.
# They accept public knowledge only, and never read records. They work in a terminal and on a pipe. After
# Ctrl-C, or at the end of the pipe, the last prompt asks whether to keep the columns declared so far.


def _ask_columns() -> list[DraftColumn]:
    """Prompt for columns; return the declared ones, or none if the user discards them."""
    note("Declare what one record may be. It is public: from a questionnaire, a law, published")
    note("statistics, never from the records; nothing here looks at any. An empty name ends.")
    declared: list[DraftColumn] = []
    try:
        while name := _ask_optional("\nColumn"):
            if any(name == column.name for column in declared):
                note(f"{name!r} is declared already: give another name")
                continue
            column = _ask_column(name)
            if column is not None:
                declared.append(column)
    except (typer.Abort, KeyboardInterrupt):
        if not declared or not _confirm_keeping(len(declared)):
            return []
    return declared


def _confirm_keeping(number: int) -> bool:
    """Ask whether to keep the columns of an interrupted session; a second interruption says no."""
    note("")
    try:
        return typer.confirm(f"Keep the {number} columns declared so far?", default=True)
    except (typer.Abort, KeyboardInterrupt):
        return False


def _ask_column(name: str) -> DraftColumn | None:
    """Prompt for one column until it is valid; return None to leave it out."""
    from pydantic import ValidationError

    from privot.schema.drafts import DraftColumn

    while True:
        kind = typer.prompt(f"  Kind ({', '.join(_PROMPTS)})").strip().lower()
        matching = [ask for known, ask in _PROMPTS.items() if kind and known.startswith(kind)]
        if not matching:
            note(f"  {kind!r} is none of them")
            continue
        fields = matching[0]()
        if fields["kind"] != "identifier" and typer.confirm("  May it be missing?", default=False):
            fields["nullable"] = True
        try:
            schema = privot.Schema.from_dict({"columns": {name: fields} | _REPORTED_COLUMN})
        except (PrivotError, ValidationError) as error:
            note(f"  {error}")
            continue
        _show_column(name, schema)
        if typer.confirm("  Keep it?", default=True):
            return DraftColumn(name, fields)
        if not typer.confirm("  Declare it again?", default=True):
            return None


# A schema needs a column that is reported, and an identifier is not reported.
_REPORTED_COLUMN = {"(another)": {"kind": "boolean"}}


def _show_column(name: str, schema: privot.Schema) -> None:
    """Print how a declared column is reported, and values that samples may have."""
    import numpy as np

    rng = np.random.default_rng()
    if name in schema.identifiers:
        draw = schema.identifiers[name].generator(_MOST_EXAMPLES, rng)
        note(f"  made up, never reported: {', '.join(draw(_MOST_EXAMPLES).to_pylist())}, …")
        return
    column = schema.coded[name]
    note(f"  {_alphabet(column)}")
    codes = rng.integers(0, len(column.labels), _MOST_EXAMPLES)
    (values,) = column.decode_codes(name, codes, rng).values()
    examples = ["missing" if value is None else str(value) for value in values.to_pylist()]
    note(f"  samples may have: {', '.join(examples)}")


def _ask_optional(text: str) -> str:
    return typer.prompt(text, default="", show_default=False).strip()


def _ask_number() -> dict[str, Any]:
    fields: dict[str, Any] = {"kind": "numeric"}
    fields["bounds"] = [typer.prompt("  Lowest", type=float), typer.prompt("  Highest", type=float)]
    decimals = _ask_optional("  Decimals (0: integers; empty: any)")
    if decimals == "0":
        fields["integer"] = True
    elif decimals.isdigit():
        fields["decimals"] = int(decimals)
    if fields["bounds"][0] > 0 and typer.confirm(
        "  Does it spread over powers of ten?", default=False
    ):
        fields["scale"] = "log"
    if spikes := _ask_optional("  Values that many share exactly (as 0, 40; empty: none)"):
        try:
            fields["spikes"] = [float(part) for part in spikes.split(",")]
        except ValueError:
            fields["spikes"] = [spikes]  # which the schema refuses with its reason
    if unit := _ask_optional("  Measured in (empty: nothing)"):
        fields["measured_in"] = unit
    return fields


def _ask_date() -> dict[str, Any]:
    fields: dict[str, Any] = {"kind": "datetime"}
    fields["bounds"] = [
        typer.prompt("  First (2020-01-01)").strip(),
        typer.prompt("  Last (2024-12-31)").strip(),
    ]
    resolution = typer.prompt("  To the day, hour, minute or second", default="day").strip()
    return fields | ({} if resolution == "day" else {"resolution": resolution})


def _ask_category() -> dict[str, Any]:
    listed = typer.prompt("  Categories, with commas")
    other = _ask_optional("  What stands for any other (empty: others are refused)")
    names = [name.strip() for name in listed.split(",") if name.strip()]
    return {"kind": "categorical", "categories": names} | ({"other": other} if other else {})


def _ask_identifier() -> dict[str, Any]:
    note(r"  It is never learned: samples have made-up ones, such as P-\d{6} or [A-Z]{2}[0-9]{4}.")
    return {"kind": "identifier", "pattern": typer.prompt("  Pattern").strip()}


# Functions that prompt for the fields of a column, by its kind.
_PROMPTS: dict[str, Callable[[], dict[str, Any]]] = {
    "number": _ask_number,
    "date": _ask_date,
    "category": _ask_category,
    "yes/no": lambda: {"kind": "boolean"},
    "identifier": _ask_identifier,
}
