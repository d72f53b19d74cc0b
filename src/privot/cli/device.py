"""Commands that run on a device, or by whoever sends the randomizer there. No PyTorch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from privot.cli.console import complain, note, tell_quarantined
from privot.cli.options import Force


def calibrate(
    schema: Annotated[Path, typer.Argument(help="The schema: schema.toml.")],
    epsilon: Annotated[
        float | None, typer.Option(help="Privacy loss of one person's whole report.")
    ] = None,
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
    share: Annotated[
        list[str] | None,
        typer.Option(help="COLUMN=EPSILON: what of epsilon this column gets. May be repeated."),
    ] = None,
    noise: Annotated[
        float | None,
        typer.Option(
            help="Instead of --epsilon: stddev (or scale, of laplace) of the noise on images and "
            "vectors, in units in which their bounds are -1 and 1."
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the expected noise as JSON.")
    ] = False,
    force: Force = False,
) -> None:
    """Choose the noise for a schema, before anyone reports, and write the randomizer.

    Example: privot calibrate schema.toml --epsilon 4 -o randomizer.json
    """
    from privot.errors import PrivotError
    from privot.files import claim_file
    from privot.release import Randomizer, state_noise
    from privot.release.planning.expected import expected_noise
    from privot.schema import Schema

    claim_file(output, inputs=[schema], suffixes=(".json",), force=force)
    shares = _shares(share or [])
    if (epsilon is None) == (noise is None):
        raise PrivotError("give --epsilon, or --noise instead of it")
    if epsilon is not None:
        randomizer = Randomizer.calibrate(
            Schema.load(schema),
            epsilon,
            delta,
            report=report,
            mechanism=mechanism,
            report_columns=report_columns,
            shares=shares,
        )
    else:
        assert noise is not None
        if report_columns is not None or report == "joint":
            raise PrivotError("--noise is for columns all reported one by one: leave others out")
        randomizer = state_noise(
            Schema.load(schema), noise, delta, mechanism=mechanism or "gaussian", shares=shares
        )
    if shares and report == "auto" and randomizer.joint is None:
        note("columns with --share are reported one by one, and so are all others")
    if output.exists() and output.read_bytes() != randomizer.to_json().encode() + b"\n":
        complain(
            f"warning: {output} is replaced: devices that hold the old one go on making its reports, "
            "which are collected and fitted apart from those of the new one"
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


def _shares(given: list[str]) -> dict[str, float]:
    from privot.errors import PrivotError

    shares = {}
    for text in given:
        column, equals, value = text.rpartition("=")
        if column in shares:
            raise PrivotError(f"--share names column {column!r} twice: give it one share")
        try:
            shares[column] = float(value)
        except ValueError:
            equals = ""
        if not equals or not column:
            raise PrivotError(f"--share {text!r} names no column and ε: write COLUMN=EPSILON")
    return shares


def collect(
    releases: Annotated[
        list[Path],
        typer.Argument(help="Reports of many devices: files, folders of them, quoted patterns."),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="Where to write them all.")] = Path(
        "release.parquet"
    ),
    randomizer: Annotated[
        Path | None,
        typer.Option("-r", "--randomizer", help="Whose reports to collect; CSV needs it."),
    ] = None,
    quarantine: Annotated[
        Path | None,
        typer.Option(help="Where to put what is not counted; OUTPUT.quarantine.csv by default."),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse reports that cannot be, instead.")
    ] = False,
    force: Force = False,
) -> None:
    """Put many devices' reports into one release; all must be of the same randomizer.

    A report that is there several times counts once. What the randomizer cannot have made is put aside,
    with its file, row and reason, and so are reports of one id that differ.

    Example: privot collect inbox/ -o release.parquet
    """
    from privot.files import claim_file
    from privot.release import Randomizer, collect_files
    from privot.release.collecting.inbox import quarantine_of

    inputs = [*releases] if randomizer is None else [*releases, randomizer]
    claim_file(output, inputs=inputs, suffixes=(".parquet",), force=force)
    quarantine = quarantine or quarantine_of(output)
    claim_file(quarantine, inputs=[*inputs, output], suffixes=(".csv",), force=force)
    made_by = None if randomizer is None else Randomizer.load(randomizer)
    done = collect_files(releases, output, made_by, quarantine=quarantine, strict=strict)
    tell_quarantined(done)
    print(f"{output}: {done.num_reports:,} reports, {done.randomizer.guarantee}")
