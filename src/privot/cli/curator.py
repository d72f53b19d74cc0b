"""Commands of the curator, who only ever sees a release. They need PyTorch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from privot.cli.console import complain, note, training_bar


def fit(
    release: Annotated[Path, typer.Argument(help="The reports: release.parquet.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder of the model.")] = Path(
        "model"
    ),
    estimator: Annotated[
        str, typer.Option(help="auto, latent_classes (of tables) or generator.")
    ] = "auto",
    loss: Annotated[
        str, typer.Option(help="Of a generator: auto, plain, self_corrected or likelihood.")
    ] = "auto",
    steps: Annotated[int | None, typer.Option(help="Optimizer steps.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Reports a step.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Peak learning rate.")] = None,
    seed: Annotated[int, typer.Option(help="Of weights, batches, latents.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted fit.")] = False,
) -> None:
    """Learn a model from a release: latent classes of a table, or a generator trained by steps.

    Ctrl-C saves a generator's state, --resume continues it bit for bit.

    Example: privot fit release.parquet -o model/
    """
    from privot.errors import PrivotError
    from privot.local import FitSettings
    from privot.local import fit as fit_model
    from privot.release import Release
    from privot.training import Interrupted

    given = {"steps": steps, "batch_size": batch_size, "learning_rate": learning_rate}
    settings = FitSettings(
        estimator=estimator,  # type: ignore[arg-type]  # checked by FitSettings
        loss=loss,  # type: ignore[arg-type]  # checked by FitSettings
        seed=seed,
        **{key: value for key, value in given.items() if value is not None},  # type: ignore[arg-type]  # each has its option's type
    )
    checkpoint = output.with_name(output.name + ".checkpoint")
    if checkpoint.exists() and not resume:
        raise PrivotError(
            f"{checkpoint} is left from an interrupted fit: continue it with --resume, or remove it"
        )
    reports = Release.load(release)
    try:
        with training_bar() as progress:
            model = fit_model(
                reports,
                settings,
                device=device,
                checkpoint=checkpoint,
                resume=resume,
                progress=progress,
            )
    except Interrupted as interruption:
        complain(f"{interruption}; run again with --resume to continue")
        raise typer.Exit(1) from None
    model.save(output)
    checkpoint.unlink(missing_ok=True)
    print(
        f"{output}: learned from {len(reports):,} reports in {model.made_with['seconds']:.0f} s "
        f"({model.made_with['estimator']}, {model.made_with['loss']}), {model.guarantee}"
    )


def sample(
    model: Annotated[Path, typer.Argument(help="Folder of the model.")],
    num_rows: Annotated[int, typer.Option("-n", "--num-rows", help="Records to draw.")] = 10_000,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="csv, csv.gz, parquet, npz.")
    ] = Path("synthetic.csv"),
    seed: Annotated[int | None, typer.Option(help="To repeat a draw.")] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(help="COLUMN=VALUE: only such records. May be repeated, also for one column."),
    ] = None,
) -> None:
    """Draw synthetic records from a model.

    Example: privot sample model/ --num-rows 10000 --where sex=F -o synthetic.parquet
    """
    from privot.errors import PrivotError
    from privot.local import Model
    from privot.release import write_table
    from privot.release.tables import table_suffix

    kind = _kind_of(model)
    if kind == "integral":
        raise PrivotError(
            f"{model} is an integral model, whose draws cost budget: privot integral sample {model}"
        )
    if kind == "sliced":
        _sample_sliced(model, num_rows, output, seed, where)
        return
    table_suffix(output)  # refuse an unknown format before drawing
    loaded = Model.load(model)
    condition: dict[str, list[str]] = {}
    for given in where or []:
        column, equals, value = given.partition("=")
        if not equals:
            raise PrivotError(f"--where {given!r} says no value: write COLUMN=VALUE")
        condition.setdefault(column, []).append(value)
    write_table(loaded.sample(num_rows, seed=seed, where=condition), output)
    print(f"{output}: {num_rows:,} synthetic records, {loaded.guarantee}")


def _kind_of(model: Path) -> str | None:
    """What a model's folder says it is; None where it says nothing, or cannot be read."""
    try:
        kind = json.loads((model / "model.json").read_text(encoding="utf-8")).get("kind")
    except (OSError, ValueError, AttributeError):
        return None
    return str(kind)


def _sample_sliced(
    model: Path, num_rows: int, output: Path, seed: int | None, where: list[str] | None
) -> None:
    from privot.errors import PrivotError
    from privot.sliced import SlicedModel

    if where:
        raise PrivotError("--where is for models of `privot fit`: draw more, and keep what fits")
    loaded = SlicedModel.load(model)
    loaded.write(num_rows, output, seed)
    print(f"{output}: {num_rows:,} synthetic records, {loaded.guarantee}")


def evaluate(
    model: Annotated[Path, typer.Argument(help="Folder of the model.")],
    against: Annotated[Path, typer.Option(help="Real records: csv, csv.gz, parquet, npz.")],
    target: Annotated[
        str | None, typer.Option(help="Column that classifiers are to tell from the others.")
    ] = None,
    output: Annotated[Path, typer.Option("-o", "--output", help="The report.")] = Path(
        "report.html"
    ),
    num_rows: Annotated[
        int, typer.Option("-n", "--num-rows", help="Synthetic records to compare.")
    ] = 50_000,
    seed: Annotated[int, typer.Option(help="Of the samples compared.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print all numbers as JSON.")] = False,
) -> None:
    """Compare a model's samples with real records. The output is not private.

    Example: privot evaluate model/ --against holdout.csv --target income -o report.html
    """
    from dataclasses import asdict

    from privot.evaluation import compare
    from privot.local import Model
    from privot.release import read_table
    from privot.report import write_evaluation_report

    loaded = Model.load(model)
    real = read_table(against, loaded.schema)
    synthetic = loaded.sample(num_rows, seed=seed)
    prediction = None
    if target is not None:
        from privot.evaluation.prediction import predict_target

        prediction = predict_target(loaded.schema, synthetic, real, target, seed=seed)
    comparison = compare(loaded.schema, synthetic, real, seed=seed)
    write_evaluation_report(output, loaded, synthetic, real, comparison, prediction)
    note("what follows, and the report, depend on real records: they are not private")
    summary = {} if comparison.table is None else comparison.table.summary
    if as_json:
        numbers = {
            "summary": {name: asdict(score) for name, score in summary.items()},
            "prediction": None if prediction is None else asdict(prediction),
        }
        print(json.dumps(numbers | asdict(comparison)))
        return
    for name, score in summary.items():
        ceiling = "" if score.independence is None else f", independence {score.independence:.4f}"
        print(f"{name}: {score.synthetic:.4f} (floor {score.floor:.4f}{ceiling})")
    for row in comparison.vectors:
        print(f"{row.column}: W2 {row.distance:.4f} (floor {row.floor:.4f})")
    for told in () if prediction is None else prediction.scores:
        print(
            f"AUC of {target}, {told.classifier}: {told.synthetic:.4f} (from real {told.real:.4f})"
        )
    print(f"{output}: written")
