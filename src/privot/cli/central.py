"""Commands of a trusted curator, who has the records: `privot central` and `privot integral`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer import Argument, Option

import privot
from privot.cli.console import Force, Ignore, Separator, note, note_unit, record_form, training_bar
from privot.core.errors import PrivotError
from privot.core.files import claim_file, claim_folder, require_place
from privot.privacy.rounding import at_most

if TYPE_CHECKING:
    from privot.tables.csv_records import RecordForm

SUMS_PANEL = "Options of --method sums"
SUM_SETTINGS = "privot.central.fitting:SumSettings"


def _for_slices(help: str) -> Any:
    """Return an option that only the method by noisy slices has."""
    return Option(None, help=help, rich_help_panel="Options of --method slices")


def fit(
    context: typer.Context,
    data: Path = Argument(help="Private records: csv, parquet, npz, or a folder of images."),
    schema: Path = Option(help="Schema of the records: columns, or images and their label."),
    epsilon: float | None = Option(None, help="ε of the whole run, unless the schema promises it."),
    output: Path = Option(Path("model"), "-o", "--output", help="Folder of the model."),
    delta: float | None = Option(None, help="δ of the run (1e-5), unless the schema promises it."),
    method: str | None = Option(
        None,
        help="sums: a mixture or a map from a few noisy sums (seconds); slices: a network from noisy "
        "slices (minutes); default: sums where the schema allows them.",
    ),
    low_pass: int | None = Option(None, help="Images: frequencies per axis (sums: 14, slices: 7)."),
    degree: int | None = _for_slices("1: means; 2 (default): second moments as well."),
    steps: int | None = _for_slices("Number of releases, default 60,000."),
    batch_size: int | None = _for_slices("Records per release, default 100."),
    num_projections: int | None = _for_slices("Slices per release, default 16."),
    neighboring: str | None = _for_slices("replace_one (default), or zero_out (padded Poisson)."),
    release: str | None = _for_slices("every_step (default) or once."),
    loss: str | None = _for_slices("mean_first (default), sliced, or entropic (--release once)."),
    seed: int = Option(0, help="Seed of public draws, never of noise."),
    separator: Separator = ",",
    ignore: Ignore = None,
    resume: bool = Option(False, "--resume", help="Continue an interrupted fit."),
    counted: bool = Option(
        False,
        "--count",
        help="Write noisy sums, by the schema's promise alone, and no model: `privot fit` learns from "
        "the sums of several curators together.",
    ),
    force: Force = False,
) -> None:
    """Learn a model of records that a trusted curator holds: central differential privacy.

    Ctrl-C saves state and ledger, --resume continues both.

    Example: privot central fit digits.npz --schema schema.toml --epsilon 10 -o model/

    A network: privot central fit people.csv --schema schema.toml --epsilon 10 --method slices

    One of several curators: privot central fit people.csv --schema schema.toml --count -o sums.json
    """
    from privot.central import fit as fit_model
    from privot.central.fitting import raw_records

    # `context.obj` has the options of sums, which app.py makes from the fields of `SumSettings`. The
    # options of slices are written out, because their settings class needs PyTorch, which sums do not.
    slices_options = {
        "degree": degree,
        "steps": steps,
        "batch_size": batch_size,
        "num_projections": num_projections,
        "neighboring": neighboring,
        "release": release,
        "loss": loss,
    }
    declared = privot.Schema.load(schema)
    if counted:
        others = [epsilon, delta, method, low_pass, *slices_options.values(), *context.obj.values()]
        if resume or any(value is not None for value in others):
            raise PrivotError("--count takes the schema's promise alone: leave out other settings")
        _count(data, declared, record_form(separator, ignore), output, force)
        return
    shared = {"low_pass": low_pass, "seed": seed}
    settings = _settings(method, declared, context.obj | shared, slices_options | shared)
    claim_folder(output, privot.models.FILES, inputs=[data, schema], force=force)
    checkpoint = output.with_name(output.name + ".checkpoint")
    records = raw_records(data, declared, record_form(separator, ignore))
    note_unit(declared.unit)
    with training_bar() as progress:
        model = fit_model(
            records,
            declared,
            epsilon=epsilon,
            delta=delta,
            method=settings,
            checkpoint=checkpoint,
            resume=resume,
            progress=progress,
        )
    model.save(output)
    checkpoint.unlink(missing_ok=True)
    print(f"{output}: learned through {model.releases:,} releases, {model.guarantee}")
    note(f"keep {checkpoint}.ledger, the budget's ledger; another run on these records adds to it")


def _count(data: Path, schema: privot.Schema, form: RecordForm, output: Path, force: bool) -> None:
    """Release and write noisy sums, with their ledger beside them."""
    from privot.aggregated import count
    from privot.central.fitting import raw_records

    output = output.with_name("sums.json") if output.name == "model" else output
    claim_file(output, inputs=[data], suffixes=(".json",), force=force)
    note_unit(schema.unit)
    ledger = output.with_name(output.name + ".ledger")
    sums = count(raw_records(data, schema, form), schema, ledger)
    sums.save(output)
    print(f"{output}: noisy sums of {len(sums):,} records, {sums.guarantee}")
    note(f"keep {ledger}, the budget's ledger; another release of these records adds to it")


def _settings(
    method: str | None, schema: privot.Schema, sums: dict[str, Any], slices: dict[str, Any]
) -> Any:
    """Return the settings of the method, which depends on the schema if it is None.

    `sums` and `slices` are the options of each method, None where one is not given. An option of the
    other method alone is refused.
    """
    from privot.central.fitting import SumSettings, settings_of

    settings_class = type(settings_of(method, schema))  # type: ignore[arg-type]  # checked there
    by_sums = settings_class is SumSettings
    options, unused = (sums, slices) if by_sums else (slices, sums)
    chosen, other = ("sums", "slices") if by_sums else ("slices", "sums")
    for name, value in unused.items():
        if value is not None and name not in options:
            raise PrivotError(
                f"--{name.replace('_', '-')} is an option of --method {other}, and this fit is by "
                f"{chosen}: drop it, or give --method {other}"
            )
    given = {name: value for name, value in options.items() if value is not None}
    if by_sums and "low_pass" in given:  # of the means, and by default of the covariances as well
        given.setdefault("residual_low_pass", given["low_pass"])
    return settings_class(**given)


def adapt(
    source: Path = Argument(help="Public npz: records x, classes y."),
    target: Path = Argument(help="Private npz: records x, no classes."),
    epsilon: float = Option(help="ε of the target records."),
    unit: str = Option(help="Unit that one target record belongs to: person, …."),
    output: Path = Option(Path("classifier"), "-o", "--output", help="Folder of the model."),
    delta: float = Option(1e-5, help="δ of the target records."),
    maximum: float = Option(255.0, help="Public value that is scaled to 1."),
    rounds: int = Option(2, help="Number of rounds of noisy sums by class."),
    training_steps: int = Option(
        1000, help="Optimizer steps on the source, before the first round; half as many after each."
    ),
    seed: int = Option(0, help="Seed of weights and source batches."),
    resume: bool = Option(False, "--resume", help="Continue an interrupted run."),
    force: Force = False,
) -> None:
    """Learn to classify private, unlabeled records from public, labeled ones, by a few noisy sums.

    With too few records for the noise, the command refuses before any budget is spent.

    Example: privot central adapt source.npz target.npz --unit person --epsilon 10 -o classifier/
    """
    import numpy as np

    from privot.central import adapt as adapt_classifier

    claim_folder(output, privot.models.FILES, inputs=[source, target], force=force)
    if not 0 < maximum < float("inf"):
        raise PrivotError(f"--maximum {maximum}: give a positive number, such as 255")
    public = _arrays(source, ("x", "y"))
    private = _arrays(target, ("x",))
    note_unit(unit)
    checkpoint = output.with_name(output.name + ".checkpoint")
    with training_bar() as progress:
        adapted = adapt_classifier(
            np.clip(public["x"] / maximum, 0, 1),
            public["y"],
            np.clip(private["x"] / maximum, 0, 1),
            epsilon=epsilon,
            unit=unit,
            delta=delta,
            rounds=rounds,
            training_steps=training_steps,
            seed=seed,
            checkpoint=checkpoint,
            resume=resume,
            progress=progress,
        )
    adapted.save(output)
    checkpoint.unlink(missing_ok=True)
    print(f"{output}: adapted through {adapted.releases:,} noisy sums, {adapted.guarantee}")


def _arrays(path: Path, needed: tuple[str, ...]) -> dict[str, Any]:
    """Read the arrays x and y of an npz, which may also be named x_train and y_train."""
    from privot.tables.files import read_arrays

    stored = read_arrays(path, ("x", "y", "x_train", "y_train"))
    arrays = {name.removesuffix("_train"): array for name, array in stored.items()}
    for name in needed:
        if name not in arrays:
            raise PrivotError(f"{path} has no array {name!r}: name it {name} or {name}_train")
        if arrays[name].dtype.kind not in "biuf":
            raise PrivotError(f"{path} has an array {name!r} of {arrays[name].dtype}: give numbers")
    return arrays


def fit_integral(
    people: Path = Argument(help="Raw records: csv, csv.gz, parquet, npz."),
    schema: Path = Option(help="Schema of the records: schema.toml."),
    draws: int = Option(help="Number of draws that will ever be published."),
    output: Path = Option(Path("secret"), "-o", "--output", help="The secret folder."),
    epsilon: float | None = Option(None, help="ε of ALL draws together; each costs epsilon/draws."),
    epsilon_per_draw: float | None = Option(None, help="Price of each draw, instead of --epsilon."),
    method: str = Option("clip", help="clip (a clipped ratio) or boost."),
    estimator: str = Option("auto", help="Learner of the ratio: auto, spline, mlp or trees."),
    seed: int = Option(0, help="Seed of weights and batches; never of a draw."),
    separator: Separator = ",",
    ignore: Ignore = None,
) -> None:
    """Learn a density from raw records. The folder must stay secret; only draws may be published.

    Example: privot integral fit people.csv --schema schema.toml --epsilon 20 --draws 50 -o secret/
    """
    from privot.integral import BoostSettings, ClippedRatioSettings
    from privot.integral import fit as fit_model

    if method not in ("clip", "boost"):
        raise PrivotError(f"method is {method!r}: choose clip or boost")
    require_place(output, [people, schema])
    if output.exists():  # refused before an hour of fitting
        raise PrivotError(f"{output} exists: a model's ledger is never overwritten; name another")
    if method == "boost" and estimator == "spline":
        raise PrivotError("--method boost cannot use the estimator 'spline': choose mlp or trees")
    settings: ClippedRatioSettings | BoostSettings
    if method == "clip":
        settings = ClippedRatioSettings(estimator=estimator, seed=seed)  # type: ignore[arg-type]  # checked there
    else:
        settings = BoostSettings(classifier="trees" if estimator == "trees" else "mlp", seed=seed)
    declared = privot.Schema.load(schema)
    records = privot.read_table(people, declared, record_form(separator, ignore))
    model = fit_model(
        records,
        declared,
        draws=draws,
        epsilon=epsilon,
        epsilon_per_draw=epsilon_per_draw,
        settings=settings,
    )
    model.save(output)
    draw_epsilon = at_most(model.density.epsilon)
    print(f"{output}: {draws:,} draws at ε = {draw_epsilon} each, together {model.guarantee}")
    note("keep this folder secret: the density, its weights and plots of it are not private")
    if method == "boost":
        note(
            "confidential, as it is a function of the raw records: they are at least "
            f"{model.gain(records):.3f} nats likelier than under the reference, in the mean (a limit "
            f"for any records: {-math.log(model.density.acceptance_floor):.3f})"
        )


def sample_integral(
    model: Path = Argument(help="The secret folder."),
    num_rows: int = Option(1, "-n", "--num-rows", help="Records to draw."),
    output: Path = Option(Path("draws.csv"), "-o", "--output", help="csv, csv.gz, parquet, npz."),
    shortfall: float | None = Option(
        None,
        help="Total variation, such as 1e-6, that draws may be from exact ones; a draw then does the "
        "same work for any data.",
    ),
    force: Force = False,
) -> None:
    """Draw records within the declared budget, and write them. They may be published.

    Example: privot integral sample secret/ -n 10 -o draws.csv
    """
    from privot.integral import IntegralModel
    from privot.tables.files import SUFFIXES

    # The output is checked before draws are spent.
    claim_file(output, inputs=[model], suffixes=SUFFIXES, force=force)
    loaded = IntegralModel.load(model)
    proposals = None if shortfall is None else loaded.density.proposals_for(shortfall)
    privot.write_table(loaded.sample(num_rows, proposals=proposals), output)
    print(
        f"{output}: {num_rows:,} draws, {loaded.draws_left:,} of {loaded.ledger.plan.draws:,} left; "
        f"together {loaded.guarantee}"
    )
