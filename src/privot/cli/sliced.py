"""Commands of a trusted curator who learns through noisy slices. They need PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privot.cli.console import complain, note, note_unit, training_bar
from privot.cli.options import Force, Ignore, Separator, record_form

if TYPE_CHECKING:
    from privot.tables.csv_records import RecordForm


def fit(
    data: Annotated[
        Path,
        typer.Argument(help="Private records: npz of images x and labels y, or a table."),
    ],
    epsilon: Annotated[float, typer.Option(help="ε of the whole run.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder of the model.")] = Path(
        "model"
    ),
    delta: Annotated[float, typer.Option(help="δ of the whole run.")] = 1e-5,
    schema: Annotated[
        Path | None, typer.Option(help="Of a table: schema.toml. Without it, images.")
    ] = None,
    unit: Annotated[
        str | None,
        typer.Option(help="Of images: whom one belongs to, such as person. A schema says its own."),
    ] = None,
    num_labels: Annotated[
        int | None, typer.Option(help="Of images with labels: number of classes (public).")
    ] = None,
    pixel_maximum: Annotated[
        float, typer.Option(help="Pixel value that means 1 (public).")
    ] = 255.0,
    low_pass: Annotated[int, typer.Option(help="Frequencies kept along each axis.")] = 7,
    degree: Annotated[int, typer.Option(help="1: means; 2: second moments as well.")] = 2,
    steps: Annotated[int, typer.Option(help="Number of releases.")] = 60_000,
    batch_size: Annotated[int, typer.Option(help="Records a release.")] = 100,
    num_projections: Annotated[int, typer.Option(help="Slices a release.")] = 16,
    neighboring: Annotated[
        str, typer.Option(help="replace_one, or zero_out with padded Poisson batches.")
    ] = "replace_one",
    release: Annotated[str, typer.Option(help="every_step or once.")] = "every_step",
    estimator: Annotated[str, typer.Option(help="auto, factors (of images) or network.")] = "auto",
    loss: Annotated[
        str, typer.Option(help="Of a network: mean_first, sliced, or (once) entropic.")
    ] = "mean_first",
    seed: Annotated[int, typer.Option(help="Of weights and latents, never of noise.")] = 0,
    separator: Separator = ",",
    ignore: Ignore = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted fit.")] = False,
    force: Force = False,
) -> None:
    """Learn a model from private records through noisy slices: central privacy, a trusted curator.

    Ctrl-C saves state and ledger, --resume continues both.

    Example: privot sliced fit data.npz --unit person --num-labels 10 --epsilon 10 -o model/
    """
    from privot.errors import PrivotError
    from privot.files import claim_folder
    from privot.models.folder import FILES
    from privot.sliced import SlicedSettings, fit_sliced
    from privot.training import Interrupted

    settings = SlicedSettings(
        epsilon=epsilon,
        delta=delta,
        steps=steps,
        batch_size=batch_size,
        num_projections=num_projections,
        neighboring=neighboring,  # type: ignore[arg-type]  # checked by the accounting
        release=release,  # type: ignore[arg-type]  # checked by the settings
        estimator=estimator,  # type: ignore[arg-type]  # checked by the settings
        loss=loss,  # type: ignore[arg-type]  # checked by the settings
        seed=seed,
    )
    inputs = [data] if schema is None else [data, schema]
    claim_folder(output, FILES, inputs=inputs, force=force)
    checkpoint = output.with_name(output.name + ".checkpoint")
    ledger = output.with_name(output.name + ".checkpoint.ledger")
    if (schema is None) == (unit is None):
        raise PrivotError(
            "images need --unit, whom one belongs to (such as person); a table's is in its schema"
        )
    if schema is None:
        assert unit is not None
        values, labels, records = _images(data, unit, num_labels, pixel_maximum, low_pass, degree)
    else:
        values, labels, records = _table(data, schema, degree, record_form(separator, ignore))
    note_unit(records.unit)
    try:
        with training_bar() as progress:
            model = fit_sliced(
                values,
                labels,
                records,
                settings,
                checkpoint=checkpoint,
                resume=resume,
                progress=progress,
            )
    except Interrupted as interruption:
        complain(f"{interruption}; run again with --resume to continue")
        raise typer.Exit(1) from None
    model.save(output)
    checkpoint.unlink(missing_ok=True)
    print(f"{output}: learned through {model.releases:,} releases, {model.guarantee}")
    note(f"{ledger} is the budget's book: keep it; another run on these records adds to it")


def adapt(
    source: Annotated[Path, typer.Argument(help="Public npz: records x, classes y.")],
    target: Annotated[Path, typer.Argument(help="Private npz: records x, no classes.")],
    epsilon: Annotated[float, typer.Option(help="ε of the target records.")],
    unit: Annotated[str, typer.Option(help="Whom one target record belongs to: person, ….")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder of it.")] = Path(
        "classifier"
    ),
    delta: Annotated[float, typer.Option(help="δ of the target records.")] = 1e-5,
    maximum: Annotated[float, typer.Option(help="Value that means 1 (public).")] = 255.0,
    steps: Annotated[int, typer.Option(help="Number of steps and releases.")] = 2000,
    batch_size: Annotated[int, typer.Option(help="Target records a release.")] = 100,
    num_projections: Annotated[int, typer.Option(help="Slices a release.")] = 16,
    neighboring: Annotated[str, typer.Option(help="replace_one or zero_out.")] = "replace_one",
    weight: Annotated[float, typer.Option(help="Of the sliced loss.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Of weights and source batches.")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted run.")] = False,
    force: Force = False,
) -> None:
    """Learn to classify private, unlabeled records from public, labeled ones.

    Example: privot sliced adapt source.npz target.npz --unit person --epsilon 10 -o classifier/
    """
    import numpy as np

    from privot.errors import PrivotError
    from privot.files import claim_folder
    from privot.models.folder import FILES
    from privot.sliced import AdaptationSettings
    from privot.sliced import adapt as adapt_classifier
    from privot.training import Interrupted

    settings = AdaptationSettings(
        epsilon=epsilon,
        unit=unit,
        delta=delta,
        steps=steps,
        batch_size=batch_size,
        num_projections=num_projections,
        neighboring=neighboring,  # type: ignore[arg-type]  # checked by the accounting
        weight=weight,
        seed=seed,
    )
    claim_folder(output, FILES, inputs=[source, target], force=force)
    if not 0 < maximum < float("inf"):
        raise PrivotError(f"--maximum {maximum}: give a positive number, such as 255")
    public = _arrays(source, ("x", "y"))
    private = _arrays(target, ("x",))
    note_unit(unit)
    checkpoint = output.with_name(output.name + ".checkpoint")
    try:
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
    except Interrupted as interruption:
        complain(f"{interruption}; run again with --resume to continue")
        raise typer.Exit(1) from None
    adapted.save(output)
    checkpoint.unlink(missing_ok=True)
    print(f"{output}: adapted through {adapted.releases:,} releases, {adapted.guarantee}")


def _images(
    data: Path, unit: str, num_labels: int | None, maximum: float, low_pass: int, degree: int
) -> tuple[Any, Any, Any]:
    """Pixels in [0, 1], labels or None, and their map; shapes are public."""
    import numpy as np

    from privot.errors import PrivotError
    from privot.limits import MOST_CODES, require_count
    from privot.sliced import LabeledImages

    if not 0 < maximum <= np.finfo(np.float32).max:
        raise PrivotError(f"--pixel-maximum {maximum}: give a positive number, such as 255")
    if num_labels is not None:
        require_count("num_labels", num_labels, MOST_CODES)
    arrays = _arrays(data, ("x",) if num_labels is None else ("x", "y"))
    if num_labels is None and "y" in arrays:
        raise PrivotError(
            f"{data} holds labels: declare --num-labels (public; never counted from the data)"
        )
    records = LabeledImages(
        tuple(arrays["x"].shape[1:]),
        unit=unit,
        num_labels=num_labels or 1,
        low_pass=min(low_pass, *arrays["x"].shape[-2:]),
        degree=degree,
    )
    values = arrays["x"].astype("float32") / np.float32(maximum)
    return values, arrays["y"] if num_labels else None, records


def _table(data: Path, schema: Path, degree: int, form: RecordForm) -> tuple[Any, Any, Any]:
    """Rows as coordinates, no labels, and their map."""
    from privot.release import read_table
    from privot.schema import Schema
    from privot.sliced import TableRecords

    declared = Schema.load(schema)
    records = TableRecords(declared, degree)
    return records.encode(read_table(data, declared, form)), None, records


def _arrays(path: Path, needed: tuple[str, ...]) -> dict[str, Any]:
    """Arrays x and y of an npz, whatever split they are named after (`x_train`)."""
    import zipfile

    import numpy as np

    from privot.errors import PrivotError

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
