"""What a model may be used for: by reports alone, or against real records. They need PyTorch."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from privot.cli.console import (
    FailOn,
    Force,
    Ignore,
    Separator,
    Target,
    fail_by_verdict,
    note,
    record_form,
    require_fail_on,
    step_bar,
    tell_verdict,
)
from privot.errors import PrivotError


def check(
    model: Annotated[Path, Argument(help="Folder of the model.")],
    release: Annotated[Path, Argument(help="The reports that it learned from, or later ones.")],
    held_out: Annotated[
        bool, Option("--held-out", help="The model has not seen these reports.")
    ] = False,
    target: Target = None,
    output: Annotated[
        Path | None, Option("-o", "--output", help="A page of it; none by default.")
    ] = None,
    seed: Annotated[int, Option(help="Of the rehearsals.")] = 0,
    as_json: Annotated[bool, Option("--json", help="Print all numbers as JSON.")] = False,
    force: Force = False,
) -> None:
    """Say what a table's model may be used for, by reports alone: no real record is needed.

    It is as private as the release: intervals of what people are like, whether the reports contradict
    the model, the errors to expect. A rehearsal, in which people whom the model drew report and are
    learned from, takes about half as long as a fit. With --target it says, too, whether a classifier of
    that column may be trusted that learns from synthetic records.

    Example: privot check model/ release.parquet --target income -o check.html
    """
    from privot.errors import require_seed
    from privot.evaluation import check as checked
    from privot.files import claim_file
    from privot.local import LocalModel
    from privot.models import load
    from privot.release import Release
    from privot.report import write_check_report

    if output is not None:
        claim_file(output, inputs=[model, release], suffixes=(".html",), force=force)
    require_seed(seed)
    loaded = load(model)
    if not isinstance(loaded, LocalModel):
        raise PrivotError(
            f"{model} was not learned from reports: only such a model has any to check"
        )
    reports = Release.load(release)
    with step_bar("checking") as progress:
        found = checked(
            loaded, reports, held_out=held_out, target=target, seed=seed, progress=progress
        )
    if output is not None:
        write_check_report(found, loaded, output)
    if as_json:
        verdict = [asdict(finding) for finding in found.verdict]
        print(json.dumps({"verdict": verdict} | found.to_dict()))
        return
    print(f"{model}: checked by {found.num_reports:,} reports, {found.guarantee}")
    tell_verdict(found.verdict, "by the reports alone")
    if output is not None:
        print(f"\n{output}: written")


def evaluate(
    model: Annotated[Path, Argument(help="Folder of the model.")],
    against: Annotated[
        Path, Option(help="Real records: csv, csv.gz, parquet, npz, a folder of images.")
    ],
    target: Annotated[
        str | None,
        Option(
            help="Column that classifiers, or of numbers regressions, are to tell from the others; of "
            "images, their one category by default."
        ),
    ] = None,
    output: Annotated[Path, Option("-o", "--output", help="The report.")] = Path("report.html"),
    num_rows: Annotated[
        int, Option("-n", "--num-rows", help="Synthetic records to compare.")
    ] = 50_000,
    most_real: Annotated[
        int, Option(help="Real records to compare at most, drawn uniformly from more.")
    ] = 500_000,
    seed: Annotated[int, Option(help="Of the samples compared.")] = 0,
    separator: Separator = ",",
    ignore: Ignore = None,
    as_json: Annotated[bool, Option("--json", help="Print all numbers as JSON.")] = False,
    fail_on: FailOn = None,
    force: Force = False,
) -> None:
    """Compare a model's samples with real records. The output is not private.

    With --fail-on poor a verdict with a poor finding ends with exit code 3, after everything is written.

    Example: privot evaluate model/ --against holdout.csv --target income -o report.html
    """
    from privot.errors import MOST_ROWS, require_count, require_seed
    from privot.evaluation import evaluate as compared
    from privot.files import claim_file
    from privot.models import Model, load
    from privot.models.files import kind_of
    from privot.report import write_report
    from privot.tables.batches import sample_rows
    from privot.tables.record_files import open_records

    claim_file(output, inputs=[model, against], suffixes=(".html",), force=force)
    require_fail_on(fail_on)
    require_count("num_rows", num_rows, MOST_ROWS)
    require_count("most_real", most_real, MOST_ROWS)
    require_seed(seed)
    if kind_of(model) == "integral":
        raise PrivotError(
            f"{model} is an integral model, whose draws cost budget: draw records by `privot integral "
            "sample`, and compare the tables by privot.evaluate"
        )
    loaded = load(model)
    if not isinstance(loaded, Model):
        raise PrivotError(f"{model} learned no distribution of records: there is nothing to draw")
    records = open_records(against, loaded.schema, record_form(separator, ignore))
    real, num_held = sample_rows(records, most_real, seed)
    if num_held > real.num_rows:
        note(
            f"{against} holds {num_held:,} records: {real.num_rows:,} drawn uniformly are compared"
        )
    found = compared(loaded, real, target=target, num_rows=num_rows, seed=seed)
    if fail_on is not None and not found.verdict:
        raise PrivotError(
            f"--fail-on {fail_on}: places and images alone have distances and no verdict: leave it out, "
            "and read them with --json"
        )
    comparison, prediction, label = found.comparison, found.prediction, found.label
    write_report(found, output, num_held=num_held)
    note("what follows, and the report, depend on real records: they are not private")
    if as_json:
        numbers = {
            "verdict": [asdict(finding) for finding in found.verdict],
            "summary": {name: asdict(score) for name, score in comparison.summary.items()},
            "prediction": None if prediction is None else asdict(prediction),
            "label": None if label is None else asdict(label),
        }
        print(json.dumps(numbers | asdict(comparison)))
    else:
        for name, fact in found.summary().items():
            print(f"{name}: {fact}")
        if found.verdict:
            tell_verdict(found.verdict, "against real records, not private")
        print(f"\n{output}: written")
    fail_by_verdict(found.verdict, fail_on)
