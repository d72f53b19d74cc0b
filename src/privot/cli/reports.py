"""Commands that make reports of records, and put many devices' reports together. No PyTorch."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from privot.cli.console import (
    Force,
    Ignore,
    Separator,
    note,
    record_form,
    row_bar,
    tell_quarantined,
)
from privot.errors import PrivotError


def privatize(
    table: Annotated[
        Path,
        Argument(
            help="Raw records: csv, csv.gz, parquet, npz; a folder of files, also partitioned; "
            "- for CSV on a pipe."
        ),
    ],
    randomizer: Annotated[Path, Option("-r", "--randomizer", help="randomizer.json.")],
    output: Annotated[
        Path,
        Option(
            "-o",
            "--output",
            help="Where to write the release: parquet, csv, csv.gz; a folder (no suffix) for shards; "
            "- for CSV on a pipe.",
        ),
    ] = Path("release.parquet"),
    resume: Annotated[
        bool,
        Option(
            "--resume",
            help="Go on where a killed run stopped; send the same reports again where a pipe broke.",
        ),
    ] = False,
    discard: Annotated[
        bool,
        Option(
            "--discard",
            help="Throw away what a stopped run has kept, and noise afresh: whoever's report somebody "
            "was given meanwhile has then reported twice, and spent the budget twice.",
        ),
    ] = False,
    shard_rows: Annotated[
        int | None, Option(help="Records noised and kept at a time, and about those a shard.")
    ] = None,
    separator: Separator = ",",
    ignore: Ignore = None,
    engine: Annotated[
        str,
        Option(
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
    with row_bar() as progress:
        how: dict[str, Any] = {"part_rows": shard_rows, "progress": progress, "told": note}
        if engine == "ray":
            from privot.distributed import privatize_files

            done = privatize_files(loaded, table, output, form=form, left=left, **how)
        else:
            records = open_records(table, loaded.schema, form)
            to = sys.stdout.buffer if piped else output
            done = privatize_records(loaded, records, to, left=left, **how)
    outside = {name: n for name, n in done.outside.items() if n}
    if outside:
        counted = ", ".join(f"{n:,} of {name}" for name, n in outside.items())
        note(
            f"values outside their bounds were moved to them: {counted}. "
            "This count is not private: it is for you, and not in the release."
        )
    kept = f" ({done.kept_rows:,} of them by the run before)" if done.kept_rows else ""
    said = f"{output}: {done.num_rows:,} reports{kept}, {loaded.guarantee}"
    (note if piped else print)(said)


def collect(
    releases: Annotated[
        list[Path],
        Argument(help="Reports of many devices: files, folders of them, quoted patterns."),
    ],
    output: Annotated[Path, Option("-o", "--output", help="Where to write them all.")] = Path(
        "release.parquet"
    ),
    randomizer: Annotated[
        Path | None, Option("-r", "--randomizer", help="Whose reports to collect; CSV needs it.")
    ] = None,
    quarantine: Annotated[
        Path | None,
        Option(help="Where to put what is not counted; OUTPUT.quarantine.csv by default."),
    ] = None,
    strict: Annotated[
        bool, Option("--strict", help="Refuse reports that cannot be, instead.")
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
