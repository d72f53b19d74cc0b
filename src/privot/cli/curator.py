"""Commands of the curator, who only ever sees a release. They need PyTorch."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from privot.cli.console import (
    Force,
    Ignore,
    Separator,
    counted,
    note,
    record_form,
    row_bar,
    tell_quarantined,
    training_bar,
)
from privot.errors import PrivotError


def fit(
    context: typer.Context,
    release: Annotated[Path, Argument(help="The reports: release.parquet.")],
    output: Annotated[Path, Option("-o", "--output", help="Folder of the model.")] = Path("model"),
    estimator: Annotated[
        str, Option(help="auto, latent_classes, grid, gaussian_classes or generator.")
    ] = "auto",
    loss: Annotated[
        str, Option(help="Of a generator: auto, plain, self_corrected or likelihood.")
    ] = "auto",
    steps: Annotated[int | None, Option(help="Optimizer steps.")] = None,
    batch_size: Annotated[int | None, Option(help="Reports a step.")] = None,
    learning_rate: Annotated[float | None, Option(help="Peak learning rate.")] = None,
    seed: Annotated[int, Option(help="Of weights, batches, latents.")] = 0,
    device: Annotated[str, Option(help="auto, cpu or cuda.")] = "auto",
    resume: Annotated[bool, Option("--resume", help="Continue an interrupted fit.")] = False,
    strict: Annotated[
        bool, Option("--strict", help="Refuse a release with reports that cannot be.")
    ] = False,
    force: Force = False,
) -> None:
    """Learn a model from a release: latent classes of a table, or a generator trained by steps.

    Reports that no randomizer makes are left out, and listed in OUTPUT.quarantine.csv.

    Ctrl-C saves a generator's state, --resume continues it bit for bit. Several processes train one
    generator together: torchrun --nproc-per-node 2 -m privot fit …

    Example: privot fit release.parquet -o model/
    """
    from privot.files import claim_file, claim_folder
    from privot.local import FitSettings
    from privot.local import fit as fit_model
    from privot.models.files import FILES
    from privot.release.collecting.collect import checked
    from privot.release.collecting.inbox import quarantine_of
    from privot.training.parallel import is_first

    given = {"steps": steps, "batch_size": batch_size, "learning_rate": learning_rate}
    settings = FitSettings(
        estimator=estimator,  # type: ignore[arg-type]  # checked by FitSettings
        loss=loss,  # type: ignore[arg-type]  # checked by FitSettings
        seed=seed,
        **{key: value for key, value in given.items() if value is not None},  # type: ignore[arg-type]  # each has its option's type
    )
    if is_first():
        claim_folder(output, FILES, inputs=[release], force=force)
    checkpoint = output.with_name(output.name + ".checkpoint")
    if checkpoint.exists() and not resume:
        raise PrivotError(
            f"{checkpoint} is left from an interrupted fit: continue it with --resume, or remove it"
        )
    aside = quarantine_of(output)
    claim_file(aside, inputs=[release], force=force or resume or not is_first())
    # What can be counted of a release that was tampered with is a file as long as this command.
    reports, found = context.with_resource(checked(release, aside, strict))
    if found is not None and is_first():
        tell_quarantined(found)
    with training_bar() as progress:
        model = fit_model(
            reports,
            settings,
            device=device,
            checkpoint=checkpoint,
            resume=resume,
            progress=progress,
        )
    if not is_first():
        return
    model.save(output)
    checkpoint.unlink(missing_ok=True)
    print(
        f"{output}: learned from {len(reports):,} reports in {model.made_with['seconds']:.0f} s "
        f"({model.made_with['estimator']}, {model.made_with['loss']}), {model.guarantee}"
    )
    if model.schema.images:
        from privot.report import write_image_fit_report

        write_image_fit_report(output / "report.html", model, reports)
        print(f"{output / 'report.html'}: what it draws, beside what was received")


def sample(
    model: Annotated[Path, Argument(help="Folder of the model.")],
    num_rows: Annotated[int, Option("-n", "--num-rows", help="Records to draw.")] = 10_000,
    output: Annotated[
        Path | None,
        Option(
            "-o",
            "--output",
            help="csv, csv.gz, parquet, npz; of images, also a folder for PNGs (no suffix). "
            "synthetic.csv by default, of images synthetic.npz.",
        ),
    ] = None,
    seed: Annotated[int | None, Option(help="To repeat a draw.")] = None,
    where: Annotated[
        list[str] | None,
        Option(help="COLUMN=VALUE: only such records. May be repeated, also for one column."),
    ] = None,
    force: Force = False,
) -> None:
    """Draw synthetic records from a model.

    Example: privot sample model/ --num-rows 10000 --where sex=F -o synthetic.parquet
    """
    from privot.models import Model, load
    from privot.models.files import kind_of
    from privot.release import write_table
    from privot.tables.files import STREAMED, check_output, write_pieces

    if output is not None:
        _claim_table(output, model, force)  # refused before the model is read
    if kind_of(model) == "integral":
        raise PrivotError(
            f"{model} is an integral model, whose draws cost budget: privot integral sample {model}"
        )
    loaded = load(model)
    if not isinstance(loaded, Model):
        raise PrivotError(f"{model} learned no distribution of records: there is nothing to draw")
    if output is None:
        output = Path("synthetic.npz" if loaded.schema.images else "synthetic.csv")
        _claim_table(output, model, force)
    check_output(output, loaded.schema)  # refuse before drawing
    condition: dict[str, list[str]] = {}
    for given in where or []:
        column, equals, value = given.partition("=")
        if not equals:
            raise PrivotError(f"--where {given!r} says no value: write COLUMN=VALUE")
        condition.setdefault(column, []).append(value)
    if output.name.endswith(STREAMED) and not loaded.schema.images:
        with row_bar() as progress:
            pieces = counted(loaded.pieces(num_rows, seed, condition), num_rows, progress)
            write_pieces(pieces, output)
    else:
        write_table(loaded.sample(num_rows, seed=seed, where=condition), output, loaded.schema)
    print(f"{output}: {num_rows:,} synthetic records, {loaded.guarantee}")


def _claim_table(output: Path, model: Path, force: bool) -> None:
    """Refuse an output of records; one without a suffix is a folder of images."""
    from privot.files import claim_file, claim_folder
    from privot.tables.files import SUFFIXES
    from privot.tables.image_folders import WRITTEN

    if output.suffix:
        claim_file(output, inputs=[model], suffixes=SUFFIXES, force=force)
    else:
        claim_folder(output, WRITTEN, inputs=[model], force=force)


def evaluate(
    model: Annotated[Path, Argument(help="Folder of the model.")],
    against: Annotated[
        Path, Option(help="Real records: csv, csv.gz, parquet, npz, a folder of images.")
    ],
    target: Annotated[
        str | None,
        Option(
            help="Column that classifiers are to tell from the others; of images, their one category "
            "by default."
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
    force: Force = False,
) -> None:
    """Compare a model's samples with real records. The output is not private.

    Example: privot evaluate model/ --against holdout.csv --target income -o report.html
    """
    from privot.evaluation import evaluate as compared
    from privot.files import claim_file
    from privot.limits import MOST_ROWS, require_count, require_seed
    from privot.models import Model, load
    from privot.models.files import kind_of
    from privot.report import write_report
    from privot.tables.batches import sample_rows
    from privot.tables.record_files import open_records

    claim_file(output, inputs=[model, against], suffixes=(".html",), force=force)
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
    comparison, prediction, label = found.comparison, found.prediction, found.label
    write_report(found, output, num_held=num_held)
    note("what follows, and the report, depend on real records: they are not private")
    if as_json:
        summary = {} if comparison.table is None else comparison.table.summary
        numbers = {
            "summary": {name: asdict(score) for name, score in summary.items()},
            "prediction": None if prediction is None else asdict(prediction),
            "label": None if label is None else asdict(label),
        }
        print(json.dumps(numbers | asdict(comparison)))
        return
    for name, fact in found.summary().items():
        print(f"{name}: {fact}")
    print(f"{output}: written")
