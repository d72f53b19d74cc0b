"""The command that noises records: of a laptop's file, of a data set in shards, of a pipe."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from privot.cli.console import note, row_bar
from privot.cli.options import Ignore, Separator, record_form


def privatize(
    table: Annotated[
        Path,
        typer.Argument(
            help="Raw records: csv, csv.gz, parquet, npz; a folder of files, also partitioned; "
            "- for CSV on a pipe."
        ),
    ],
    randomizer: Annotated[Path, typer.Option("-r", "--randomizer", help="randomizer.json.")],
    output: Annotated[
        Path,
        typer.Option(
            "-o",
            "--output",
            help="Where to write the release: parquet, csv, csv.gz; a folder (no suffix) for shards; "
            "- for CSV on a pipe.",
        ),
    ] = Path("release.parquet"),
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Go on where a killed run stopped; send the same reports again where a pipe broke.",
        ),
    ] = False,
    discard: Annotated[
        bool,
        typer.Option(
            "--discard",
            help="Throw away what a stopped run has kept, and noise afresh: whoever's report somebody "
            "was given meanwhile has then reported twice, and spent the budget twice.",
        ),
    ] = False,
    shard_rows: Annotated[
        int | None, typer.Option(help="Records noised and kept at a time, and about those a shard.")
    ] = None,
    separator: Separator = ",",
    ignore: Ignore = None,
    engine: Annotated[
        str,
        typer.Option(
            help="local, on all cores of this machine; or ray, on the workers of a Ray cluster, which "
            "pays from several machines on: to start it takes some ten seconds, at any size."
        ),
    ] = "local",
) -> None:
    """Noise every record with fresh randomness; only the result may leave the device.

    Reports come in random order. Running it twice on the same records is two reports, and spends the
    budget twice: an output that exists is refused, and --resume noises only what a killed run lacks.
    A pipe's reports are kept, in $PRIVOT_STATE_DIR or ~/.local/state/privot, until all are through.

    Example: privot privatize people.csv --randomizer randomizer.json -o release.parquet
    """
    from privot.errors import PrivotError
    from privot.files import require_place
    from privot.release import Randomizer
    from privot.release.streaming.parts import Left
    from privot.release.streaming.privatize import privatize_records
    from privot.tables.record_files import open_records

    if engine not in ("local", "ray"):
        raise PrivotError(f"engine {engine!r} is not known: use local or ray")
    piped = str(output) == "-"
    if engine == "ray" and (piped or str(table) == "-"):
        raise PrivotError("- is a pipe, which one process reads: use --engine local")
    if not piped:
        require_place(output, [path for path in (table, randomizer) if str(path) != "-"])
    form = record_form(separator, ignore)
    if resume and discard:
        raise PrivotError("--resume and --discard are two answers to one question: give one")
    left: Left = "resume" if resume else "discard" if discard else "refuse"
    loaded = Randomizer.load(randomizer)
    if engine == "ray":
        from privot.distributed import privatize_files

        with row_bar() as progress:
            done = privatize_files(
                loaded,
                table,
                output,
                form=form,
                left=left,
                part_rows=shard_rows,
                progress=progress,
                told=note,
            )
    else:
        with row_bar() as progress:
            done = privatize_records(
                loaded,
                open_records(table, loaded.schema, form),
                sys.stdout.buffer if piped else output,
                left=left,
                part_rows=shard_rows,
                progress=progress,
                told=note,
            )
    outside = {name: n for name, n in done.outside.items() if n}
    if outside:
        counted = ", ".join(f"{n:,} of {name}" for name, n in outside.items())
        note(
            f"values outside their bounds were moved to them: {counted}. "
            "This count is not private: it is for you, and not in the release."
        )
    kept = f" ({done.kept_rows:,} of them by the run before)" if done.kept_rows else ""
    said = f"{output}: {done.num_rows:,} reports{kept}, {loaded.guarantee}"
    if piped:
        note(said)
    else:
        print(said)
