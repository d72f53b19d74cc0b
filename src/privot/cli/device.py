"""Commands that run on a device, or by whoever sends the randomizer there. No PyTorch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from privot.cli.console import complain, note


def check_schema(
    schema: Annotated[Path, typer.Argument(help="The schema: schema.toml.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print canonical JSON.")] = False,
) -> None:
    """Check a schema and say what one record may be.

    Example: privot schema check schema.toml
    """
    from privot.schema import Schema

    checked = Schema.load(schema)
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
                f"diameter {domain.diameter(1):.6g} (l1), {domain.diameter(2):.6g} (l2)"
            )


def import_schema(
    metadata: Annotated[Path, typer.Argument(help="SDV's metadata: metadata.json.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Where to write it.")] = Path(
        "schema.toml"
    ),
    table: Annotated[str | None, typer.Option(help="Which table, of several.")] = None,
) -> None:
    """Draft a schema from SDV's metadata; bounds and categories are left to you.

    Example: privot schema import metadata.json -o schema.toml
    """
    from privot.errors import PrivotError
    from privot.files import replacing_file
    from privot.schema.sdv import draft_schema

    try:
        text = metadata.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PrivotError(f"metadata {metadata} cannot be read: {error}") from None
    draft = draft_schema(text, table)
    # What a person declared by hand is worth more than any draft.
    if output.exists():
        raise PrivotError(f"{output} exists: give another -o, or remove it")
    with replacing_file(output) as file:
        file.write_text(draft, encoding="utf-8")
    print(f"{output}: a draft; declare what is commented out, then: privot schema check {output}")


def calibrate(
    schema: Annotated[Path, typer.Argument(help="The schema: schema.toml.")],
    epsilon: Annotated[float, typer.Option(help="Privacy loss of one person's whole report.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Where to write it.")] = Path(
        "randomizer.json"
    ),
    delta: Annotated[float, typer.Option(help="Needed by Gaussian noise only.")] = 0.0,
    report: Annotated[
        str, typer.Option(help="auto, joint (one cell of several columns) or split.")
    ] = "auto",
    mechanism: Annotated[
        str | None,
        typer.Option(help="laplace, gaussian, planar_laplace, square_wave or auto."),
    ] = None,
    report_columns: Annotated[
        int | None, typer.Option(help="Columns one person reports, drawn by fresh coins.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the expected noise as JSON.")
    ] = False,
) -> None:
    """Choose the noise for a schema, before anyone reports, and write the randomizer.

    Example: privot calibrate schema.toml --epsilon 4 -o randomizer.json
    """
    from privot.release import Randomizer
    from privot.release.expected import expected_noise
    from privot.schema import Schema

    randomizer = Randomizer.calibrate(
        Schema.load(schema),
        epsilon,
        delta,
        report=report,
        mechanism=mechanism,
        report_columns=report_columns,
    )
    randomizer.save(output)
    if randomizer.marginals_only:
        complain(
            "warning: one column a person identifies marginals only: for joint structure use 2"
        )
    expected = expected_noise(randomizer)
    if as_json:
        fields = {"guarantee": randomizer.guarantee.to_dict(), "expected_noise": expected}
        print(json.dumps(fields))
        return
    print(f"{output}: {randomizer.guarantee}")
    print(randomizer.guarantee.describe())
    print("expected noise:")
    for row in expected:
        print(f"  {row['column']}: {row['in_words']}")


def privatize(
    table: Annotated[Path, typer.Argument(help="Raw records: csv, csv.gz, parquet or npz.")],
    randomizer: Annotated[Path, typer.Option("-r", "--randomizer", help="randomizer.json.")],
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Where to write the release.")
    ] = Path("release.parquet"),
) -> None:
    """Noise every record with fresh randomness; only the result may leave the device.

    Running it twice on the same records is two reports, and spends the budget twice.

    Example: privot privatize people.csv --randomizer randomizer.json -o release.parquet
    """
    from privot.release import Randomizer, read_table

    loaded = Randomizer.load(randomizer)
    records = read_table(table, loaded.schema)
    release = loaded.privatize(records)
    release.save(output)
    outside = {name: n for name, n in loaded.count_outside(records).items() if n}
    if outside:
        counted = ", ".join(f"{n:,} of {name}" for name, n in outside.items())
        note(
            f"values outside their bounds were moved to them: {counted}. "
            "This count is not private: it is for you, and not in the release."
        )
    print(f"{output}: {len(release):,} reports, {release.guarantee}")


def collect(
    releases: Annotated[list[Path], typer.Argument(help="Reports of many devices.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Where to write them all.")] = Path(
        "release.parquet"
    ),
) -> None:
    """Put many devices' reports into one release; all must be of the same randomizer.

    Example: privot collect inbox/*.parquet -o release.parquet
    """
    from privot.release import Release
    from privot.release import collect as collect_releases

    together = collect_releases(Release.load(path) for path in releases)
    together.save(output)
    print(f"{output}: {len(together):,} reports, {together.guarantee}")
