"""Commands of a trusted curator who learns through noisy sums and slices. They need PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from privot.cli.console import Force, Ignore, Separator, note, note_unit, record_form, training_bar
from privot.errors import PrivotError

if TYPE_CHECKING:
    from privot.tables.csv_records import RecordForm


Records = Annotated[
    Path, Argument(help="Private: csv, parquet, npz (arrays named as columns), image folder.")
]
Declared = Annotated[
    Path, Option("--schema", help="What a record may be: columns, or images and their label.")
]
Epsilon = Annotated[float, Option(help="ε of the whole run.")]
Delta = Annotated[float, Option(help="δ of the whole run.")]
Folder = Annotated[Path, Option("-o", "--output", help="Folder of the model.")]
Seed = Annotated[int, Option(help="Of what is drawn in public, never of noise.")]
Resume = Annotated[bool, Option("--resume", help="Continue an interrupted fit.")]


def fit(
    data: Records,
    schema: Declared,
    epsilon: Epsilon,
    output: Folder = Path("model"),
    delta: Delta = 1e-5,
    components: Annotated[int | None, Option(help="Of images, a label; by ε and n.")] = None,
    low_pass: Annotated[
        int | None, Option(help="Of images: frequencies kept along each axis.")
    ] = None,
    residual_low_pass: Annotated[
        int | None, Option(help="Of what is left of images; more of them for textures.")
    ] = None,
    classes: Annotated[
        int | None, Option(help="Of tables: latent classes; as many as are heard.")
    ] = None,
    seed: Seed = 0,
    separator: Separator = ",",
    ignore: Ignore = None,
    resume: Resume = False,
    force: Force = False,
) -> None:
    """Learn a mixture of a curator's records by a few noisy sums: central privacy, in seconds.

    Ctrl-C saves state and ledger, --resume continues both.

    Example: privot sliced fit digits.npz --schema schema.toml --epsilon 10 -o model/
    """
    from privot.sliced import MixtureSettings

    settings = MixtureSettings(
        components=components,
        low_pass=low_pass,
        residual_low_pass=residual_low_pass or low_pass,
        classes=classes,
        seed=seed,
    )
    form = record_form(separator, ignore)
    _learn(data, schema, form, output, settings, (epsilon, delta), resume=resume, force=force)


def train(
    data: Records,
    schema: Declared,
    epsilon: Epsilon,
    output: Folder = Path("model"),
    delta: Delta = 1e-5,
    low_pass: Annotated[int, Option(help="Of images: frequencies kept along each axis.")] = 7,
    degree: Annotated[int, Option(help="1: means; 2: second moments as well.")] = 2,
    steps: Annotated[int, Option(help="Number of releases.")] = 60_000,
    batch_size: Annotated[int, Option(help="Records a release.")] = 100,
    num_projections: Annotated[int, Option(help="Slices a release.")] = 16,
    neighboring: Annotated[
        str, Option(help="replace_one, or zero_out with padded Poisson batches.")
    ] = "replace_one",
    release: Annotated[str, Option(help="every_step or once.")] = "every_step",
    loss: Annotated[str, Option(help="mean_first, sliced, or (once) entropic.")] = "mean_first",
    seed: Seed = 0,
    separator: Separator = ",",
    ignore: Ignore = None,
    resume: Resume = False,
    force: Force = False,
) -> None:
    """Train a network on a curator's records through noisy slices: central privacy, in minutes.

    Ctrl-C saves state and ledger, --resume continues both.

    Example: privot sliced train people.csv --schema schema.toml --epsilon 10 -o model/
    """
    from privot.sliced import SlicedSettings

    settings = SlicedSettings(
        steps=steps,
        batch_size=batch_size,
        num_projections=num_projections,
        neighboring=neighboring,  # type: ignore[arg-type]  # checked by the settings
        release=release,  # type: ignore[arg-type]  # checked by the settings
        degree=degree,
        low_pass=low_pass,
        loss=loss,  # type: ignore[arg-type]  # checked by the settings
        seed=seed,
    )
    form = record_form(separator, ignore)
    _learn(data, schema, form, output, settings, (epsilon, delta), resume=resume, force=force)


def _learn(
    data: Path,
    schema: Path,
    form: RecordForm,
    output: Path,
    settings: Any,
    budget: tuple[float, float],
    **how: bool,
) -> None:
    """What both commands do with their settings, ε and δ."""
    from privot.files import claim_folder
    from privot.models.files import FILES
    from privot.release import read_table
    from privot.schema import Schema
    from privot.sliced import fit as fit_model

    claim_folder(output, FILES, inputs=[data, schema], force=how["force"])
    checkpoint = output.with_name(output.name + ".checkpoint")
    declared = Schema.load(schema)
    table = read_table(data, declared, form)
    note_unit(declared.unit)
    with training_bar() as progress:
        model = fit_model(
            table,
            declared,
            epsilon=budget[0],
            delta=budget[1],
            settings=settings,
            checkpoint=checkpoint,
            resume=how["resume"],
            progress=progress,
        )
    model.save(output)
    checkpoint.unlink(missing_ok=True)
    print(f"{output}: learned through {model.releases:,} releases, {model.guarantee}")
    note(
        f"{checkpoint}.ledger is the budget's book: keep it; another run on these records adds to it"
    )


def adapt(
    source: Annotated[Path, Argument(help="Public npz: records x, classes y.")],
    target: Annotated[Path, Argument(help="Private npz: records x, no classes.")],
    epsilon: Annotated[float, Option(help="ε of the target records.")],
    unit: Annotated[str, Option(help="Whom one target record belongs to: person, ….")],
    output: Annotated[Path, Option("-o", "--output", help="Folder of it.")] = Path("classifier"),
    delta: Annotated[float, Option(help="δ of the target records.")] = 1e-5,
    maximum: Annotated[float, Option(help="Value that means 1 (public).")] = 255.0,
    rounds: Annotated[int, Option(help="How often the target's classes are told.")] = 2,
    training_steps: Annotated[
        int, Option(help="On the source alone, before the first round; half as many after each.")
    ] = 1000,
    seed: Annotated[int, Option(help="Of weights and source batches.")] = 0,
    resume: Annotated[bool, Option("--resume", help="Continue an interrupted run.")] = False,
    force: Force = False,
) -> None:
    """Learn to classify private, unlabeled records from public, labeled ones, by a few noisy sums.

    Refused before anything is spent where noise would drown what so few records tell.

    Example: privot sliced adapt source.npz target.npz --unit person --epsilon 10 -o classifier/
    """
    import numpy as np

    from privot.files import claim_folder
    from privot.models.files import FILES
    from privot.sliced import AdaptationSettings
    from privot.sliced import adapt as adapt_classifier

    settings = AdaptationSettings(
        epsilon=epsilon,
        unit=unit,
        delta=delta,
        rounds=rounds,
        training_steps=training_steps,
        seed=seed,
    )
    claim_folder(output, FILES, inputs=[source, target], force=force)
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
            settings,
            checkpoint=checkpoint,
            resume=resume,
            progress=progress,
        )
    adapted.save(output)
    checkpoint.unlink(missing_ok=True)
    print(f"{output}: adapted through {adapted.releases:,} noisy sums, {adapted.guarantee}")


def _arrays(path: Path, needed: tuple[str, ...]) -> dict[str, Any]:
    """Arrays x and y of an npz, whatever split they are named after (`x_train`)."""
    import zipfile

    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {
                name.removesuffix("_train"): file[name]
                for name in file.files
                if name.removesuffix("_train") in ("x", "y")
            }
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise PrivotError(f"{path} cannot be read ({error}): give an npz of x and y") from None
    for name in needed:
        if name not in arrays:
            raise PrivotError(f"{path} has no array {name!r}: name it {name} or {name}_train")
        if arrays[name].dtype.kind not in "biuf":
            raise PrivotError(f"{path} has an array {name!r} of {arrays[name].dtype}: give numbers")
    return arrays
