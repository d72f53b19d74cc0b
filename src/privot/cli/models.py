"""Commands from reports to synthetic records: `privot collect`, `fit`, `sample`, and `demo`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import typer
from typer import Argument, Option

import privot
from privot.cli import console
from privot.core.errors import PrivotError
from privot.core.files import claim_file, claim_folder, require_place
from privot.core.processes import is_first

if TYPE_CHECKING:
    from privot.aggregated import SumRelease
    from privot.local import LocalModel
    from privot.local.releases import Reports
    from privot.training import Interrupted


def collect(
    context: typer.Context,
    releases: list[Path] = Argument(help="Reports of devices: files, folders, quoted patterns."),
    output: Path = Option(Path("release.parquet"), "-o", "--output", help="Release to write."),
    counted: bool = Option(False, "--count", help="Write counts, enough for maps and tables."),
    randomizer: Path | None = Option(None, "-r", "--randomizer", help="Needed by CSV files."),
    quarantine: Path | None = Option(None, help="Refused reports; default OUTPUT.quarantine.csv."),
    strict: bool = Option(False, "--strict", help="Refuse impossible reports: no quarantine."),
    key: Path | None = Option(None, help="The analyst's private key, to open one batch.sealed."),
    force: console.Force = False,
) -> None:
    """Collect the reports of many devices, all of one randomizer, into one release.

    Copies of a report count once. Reports that the randomizer cannot have made are listed in the
    quarantine with file, row and reason.

    Example: privot collect inbox/ -o release.parquet

    Counts, of two collectors: privot collect release/ counts-b --count -o counts

    Sums of a batch, by two servers: privot collect leader.json helper.json --count -o monday.json

    Shuffled: privot collect batch-000000.sealed -r randomizer.json --key analyst.key -o release.parquet
    """
    from privot.collector import collect_files
    from privot.collector.analyst import collect_batch
    from privot.collector.collecting import quarantine_of

    inputs = [*releases] if randomizer is None else [*releases, randomizer]
    if counted and output.name == "release.parquet":
        output = output.with_name("counts")
    claim_file(output, inputs=inputs, suffixes=() if counted else (".parquet",), force=force)
    quarantine = quarantine or quarantine_of(output)
    claim_file(quarantine, inputs=[*inputs, output], suffixes=(".csv",), force=force)
    made_by = None if randomizer is None else privot.Randomizer.load(randomizer)
    if key is None and (sealed := [path for path in releases if path.suffix == ".sealed"]):
        raise PrivotError(f"{sealed[0]} is sealed to the analyst: give --key analyst.key")
    if counted and (sums := _open_sums(releases)):
        if key is not None or made_by is not None or strict:
            raise PrivotError("noisy sums have no single reports: leave out --key, -r and --strict")
        claim_file(output, suffixes=(".json",), force=force)
        sums.save(output)
        print(f"{output}: noisy sums of {len(sums):,} reports, {sums.guarantee}")
        return
    if counted:
        if key is not None:
            raise PrivotError(f"--key {key} opens a batch: collect it, then count the release")
        options = {"strict": strict, "replace": force, "inputs": inputs}
        merged = _counts_of(context, releases, made_by, quarantine, options)
        merged.save(output)
        print(f"{output}: {len(merged):,} reports, counted, {merged.guarantee}")
        return
    if key is not None:
        if made_by is None or len(releases) != 1:
            raise PrivotError(
                f"--key {key} opens one batch, which is a release of its own: give one batch, and its "
                "-r randomizer.json"
            )
        collection = collect_batch(
            releases[0], output, made_by, key, quarantine=quarantine, strict=strict
        )
    else:
        collection = collect_files(releases, output, made_by, quarantine=quarantine, strict=strict)
    console.print_quarantined(collection)
    guarantee = privot.Release.open(output).guarantee
    print(f"{output}: {collection.num_reports:,} reports, {guarantee}")


def _counts_of(
    context: typer.Context,
    sources: list[Path],
    made_by: privot.Randomizer | None,
    quarantine: Path,
    options: dict[str, Any],
) -> privot.Counts:
    """Return the sum of counts, of counted releases, and of other files, which are collected first.

    `options` are those of `console.open_releases`.
    """
    from privot.collector import collect_files
    from privot.randomizer.reports.counts import is_counts
    from privot.randomizer.reports.rows import is_release

    def is_whole(path: Path) -> bool:
        is_file = path.is_file() and path.suffix == ".parquet"
        return is_file or is_counts(path) or (path.is_dir() and is_release(path))

    paths = [path for path in sources if is_whole(path)]
    if loose := [path for path in sources if not is_whole(path)]:
        folder = Path(context.with_resource(TemporaryDirectory(prefix="privot-")))
        paths.append(folder / "release.parquet")
        strict = options["strict"]
        collection = collect_files(loose, paths[-1], made_by, quarantine=quarantine, strict=strict)
        console.print_quarantined(collection)
    stem = quarantine.name.removesuffix(".csv").removesuffix(".quarantine")
    beside = [quarantine.with_name(f"{stem}.{number}") for number in range(len(paths))]
    releases = console.open_releases(context, paths, beside, **options)
    first, *others = (
        item if isinstance(item, privot.Counts) else privot.count(item) for item in releases
    )
    if made_by is not None and first.randomizer.to_json() != made_by.to_json():
        raise PrivotError(f"{paths[0]} is of another randomizer than -r: leave it out, or -r")
    return first.merge(*others)


def fit(
    context: typer.Context,
    release: list[Path] = Argument(help="Releases or counts, newest last; or waves, in order."),
    output: Path = Option(Path("model"), "-o", "--output", help="Folder of the model."),
    device: str = Option("auto", help="auto, cpu or cuda."),
    resume: bool = Option(False, "--resume", help="Continue an interrupted fit."),
    strict: bool = Option(False, "--strict", help="Refuse a release with impossible reports."),
    with_check: bool = Option(True, "--check/--no-check", help="Grade uses of a table's model."),
    target: console.Target = None,
    waves: bool = Option(
        False, "--waves", help="Each release is a wave; or one of `privot serve --panel` has all."
    ),
    times: str | None = Option(
        None, help="Times of waves, numbers or dates; 1,2,3 … without --panel."
    ),
    start: str | None = Option(None, help="Time of the first wave, instead of --times."),
    every: float = Option(1.0, help="With --start: time between waves, in days if it is a date."),
    onto: Path | None = Option(None, help="Model of earlier waves, to which these are added."),
    panel: Path | None = Option(None, help="panel.json of the waves, for their joint guarantee."),
    force: console.Force = False,
) -> None:
    """Learn a model from a release: latent classes of a table, or a generator trained by steps.

    Reports that the randomizer cannot have made are left out, and listed in OUTPUT.quarantine.csv.

    Ctrl-C saves the model that was learned until then, and the state of a generator, from which --resume
    continues bit for bit. Several processes train one generator together: torchrun --nproc-per-node 2 -m
    privot fit …

    A table's model is checked by its reports, which takes about half as long again. The verdict on its
    uses is printed, stored with the model, and shown in OUTPUT/report.html.

    With --waves, the speed at which the population changes is learned as well. OUTPUT/report.html shows
    the trends of all columns with their bands, and sudden changes.

    Example: privot fit release.parquet -o model/

    Sums of two servers, or sums that merge: privot fit leader.json helper.json -o model/

    For waves: privot fit wave-*.parquet --start 2026-01-05 --every 7 -o model/
    """
    from privot.cli.waves import WaveTimes, learn_waves
    from privot.training import Interrupted

    # `context.obj` has the options that app.py makes from the fields of `FitSettings`.
    settings = privot.FitSettings(**context.obj)
    wave_times = WaveTimes(times, start, every, onto, panel)
    if sums := _open_sums(release):
        if waves or wave_times.given or resume or target is not None or device != "auto" or strict:
            raise PrivotError(
                "noisy sums are fitted at once: leave out --waves and times, --resume, --target, "
                "--device and --strict"
            )
        claim_folder(output, privot.models.FILES, inputs=release, force=force)
        learned = privot.fit(sums, settings)
        learned.save(output)
        print(f"{output}: learned from the sums of {len(sums):,} reports, {learned.guarantee}")
        return
    if waves or wave_times.given:
        if resume or target is not None or device != "auto":
            raise PrivotError("waves are fitted at once: leave out --resume, --target and --device")
        learn_waves(context, release, settings, output, wave_times, strict=strict, force=force)
        return
    require_place(output, release)
    checkpoint = output.with_name(output.name + ".checkpoint")
    if checkpoint.exists() and not resume:
        raise PrivotError(
            f"{checkpoint} is left from an interrupted fit: continue it with --resume, or remove it"
        )
    if is_first():
        replaced = force or checkpoint.exists()  # a resumed fit replaces its first model
        claim_folder(output, privot.models.FILES, inputs=release, force=replaced)
    # The quarantine of the first release is OUTPUT.quarantine.csv, of the next OUTPUT.1.quarantine.csv.
    beside = [output, *(output.with_name(f"{output.name}.{n}") for n in range(1, len(release)))]
    replace = force or resume or not is_first()
    one_by_one = settings.estimator == "generator"
    reports = console.open_releases(
        context, release, beside, strict=strict, replace=replace, one_by_one=one_by_one
    )
    if target is not None:
        if not with_check:
            raise PrivotError("--target is a part of the check: leave out --no-check, or --target")
        from privot.evaluation.target_check import require_target

        require_target(reports[-1].schema, target)
    with console.training_bar(then="") as progress:
        try:
            model = privot.fit(
                reports,
                settings,
                device=device,
                checkpoint=checkpoint,
                resume=resume,
                progress=progress,
            )
        except Interrupted as interruption:
            if is_first():
                _save_interrupted(interruption, output, checkpoint)
            raise
    if not is_first():
        return
    model.save(output)
    checkpoint.unlink(missing_ok=True)
    count = sum(map(len, reports))
    print(
        f"{output}: learned from {count:,} reports in {model.made_with['seconds']:.0f} s "
        f"({model.made_with['estimator']}, {model.made_with['loss']}), {model.guarantee}"
    )
    for promise in model.made_with.get("promises", []):
        print(f"  of them {promise['reports']:,} were promised {promise['guarantee']}")
    if len(reports) == 1 and (floor := _floor_of(model)):
        print(f"  {floor}")
    if model.made_with["estimator"] == "latent_classes":
        if with_check:
            _check(model, reports, output, settings.seed, target)
        else:
            console.note(f"not checked: privot check {output} {release[-1]} grades it later")
    if isinstance(reports[-1], privot.Release) and model.schema.images:
        from privot.report import write_image_fit_report

        write_image_fit_report(output / "report.html", model, reports[-1])
        print(f"{output / 'report.html'}: what it draws, beside what was received")


def _floor_of(model: LocalModel) -> str:
    """Return the sentence on the least error of any method near a map or near numbers, or ""."""
    from privot.evaluation.floors import floor_of_model

    floor = floor_of_model(model)
    numbers = any(column.is_number for column in model.schema.columns.values())
    return "" if floor is None else floor.words("W1" if numbers else "W2", "this one")


def _open_sums(paths: Sequence[Path]) -> SumRelease | None:
    """Open and merge noisy sums, which are `.json` files; return None if any path is no such file."""
    if any(path.suffix != ".json" for path in paths):
        return None
    from privot.aggregated.releases import load_sums

    return load_sums(paths)


def _check(
    model: LocalModel, reports: list[Reports], output: Path, seed: int, target: str | None
) -> None:
    """Check a table's model by its reports, print the verdict, and store it with the model."""
    from privot.report import write_check_report

    try:
        with console.step_bar("checking") as progress:
            result = privot.check(model, reports, target=target, seed=seed, progress=progress)
    except PrivotError as error:
        # Releases of earlier schemas may not fit the check; the model is saved without a verdict.
        console.note(f"the model was not checked: {error}")
        return
    result.recorded(model).save(output)
    console.print_verdict(result.verdict, "by the reports alone")
    write_check_report(result, model, output / "report.html")
    print(f"\n{output / 'report.html'}: the same, with every column and pair")


def _save_interrupted(interruption: Interrupted, output: Path, checkpoint: Path) -> None:
    """Save the current model of an interrupted fit, and print how to continue."""
    if interruption.model is not None:
        interruption.model.save(output)
        print(f"{output}: what was learned until now, {interruption.model.guarantee}")
    if checkpoint.exists():
        console.note("run again with --resume to continue")


def sample(
    model: Path = Argument(help="Folder of the model."),
    num_rows: int = Option(10_000, "-n", "--num-rows", help="Records to draw."),
    output: Path | None = Option(
        None,
        "-o",
        "--output",
        help="csv, csv.gz, parquet, npz; for images, also a folder of PNGs (no suffix). synthetic.csv "
        "by default, or synthetic.npz for images.",
    ),
    seed: int | None = Option(None, help="Seed, to repeat a draw."),
    where: list[str] | None = Option(
        None, help="COLUMN=VALUE or COLUMN=30..40: draw only such records. May be repeated."
    ),
    time: str | None = Option(None, help="Time, for a model of waves; the last by default."),
    force: console.Force = False,
) -> None:
    """Draw synthetic records from a model.

    Example: privot sample model/ --num-rows 10000 --where sex=F -o synthetic.parquet
    """
    from privot.tables.files import STREAMED, require_format, write_pieces

    if output is not None:
        _claim_table(output, model, force)  # refused before the model is read
    loaded = console.load_generative(model, f"privot integral sample {model}")
    if time is not None:
        from privot.local import WaveModel

        if not isinstance(loaded, WaveModel):
            raise PrivotError(f"--time is of a model of waves, and {model} is none: leave it out")
        loaded = loaded.at(time)
    if output is None:
        output = Path("synthetic.npz" if loaded.schema.images else "synthetic.csv")
        _claim_table(output, model, force)
    require_format(output, loaded.schema)  # before records are drawn
    condition: dict[str, list[str]] = {}
    for text in where or []:
        column, equals, value = text.partition("=")
        if not equals:
            raise PrivotError(f"--where {text!r} says no value: write COLUMN=VALUE")
        condition.setdefault(column, []).append(value)
    if output.name.endswith(STREAMED) and not loaded.schema.images:
        with console.row_bar() as progress:
            pieces = console.counted(loaded.pieces(num_rows, seed, condition), num_rows, progress)
            write_pieces(pieces, output)
    else:
        privot.write_table(
            loaded.sample(num_rows, seed=seed, where=condition), output, loaded.schema
        )
    print(f"{output}: {num_rows:,} synthetic records, {loaded.guarantee}")


def _claim_table(output: Path, model: Path, force: bool) -> None:
    """Check that records can be written to an output: a folder of images if it has no suffix."""
    from privot.tables.files import SUFFIXES
    from privot.tables.image_folders import WRITTEN

    if output.suffix:
        claim_file(output, inputs=[model], suffixes=SUFFIXES, force=force)
    else:
        claim_folder(output, WRITTEN, inputs=[model], force=force)


_DEMO_FILES = ("report.html", "metrics.json", "maps.png", "digits.png", "model/*")


def demo(
    context: typer.Context,
    output: Path = Option(Path("demo"), "-o", "--output", help="Folder for the results."),
    people: int | None = Option(None, help="Number of people: 200 000, or 60 000 for images."),
    epsilon: float | None = Option(None, help="Privacy loss of each report: 4, or 10 for images."),
    mechanism: str = Option("auto", help="The papers used 'laplace', for images 'gaussian'."),
    images: bool = Option(False, "--images", help="Handwritten digits; needs scikit-learn."),
    data: Path | None = Option(None, "--data", help="Folder of data sets; --images reads MNIST."),
    fetch: str | None = Option(
        None, help="Only fetch a data set into --data, or resume: mnist, fashion_mnist or usps."
    ),
    address: str | None = Option(None, help="With --fetch: web folder of the files."),
    verify: str | None = Option(None, help="Data set to verify in --data, or in PRIVOT_DATA."),
    force: console.Force = False,
) -> None:
    """Learn a map of homes from locations that were randomized one by one; or images of digits.

    Example: privot demo

    A public data set to try things on: privot demo --fetch mnist --data data
    """
    if address is not None and fetch is None:
        raise PrivotError("--address is where to fetch from: give --fetch, or leave it out")
    if fetch is not None or verify is not None:
        _datasets(fetch, verify, data, address)
        return
    if data is not None and not images:
        raise PrivotError("--data is for images alone: add --images, or leave it out")
    claim_folder(output, _DEMO_FILES, force=force)
    options = {"num_people": people, "epsilon": epsilon, "mechanism": mechanism}
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    given["settings"] = privot.FitSettings(**context.obj)
    lines = _demo_digits(output, given, data) if images else _demo_homes(output, given)
    print("\n   " + "\n   ".join(lines))
    print(f"\n   look at {output / 'report.html'}")


def _demo_homes(output: Path, given: dict[str, Any]) -> list[str]:
    """Run the demo of homes, and return its results as lines."""
    from privot.demo.homes import run_demo

    with console.training_bar(then="") as progress:
        metrics = run_demo(output, **given, progress=progress)
    floor = "two honest samples"
    width = len(floor)
    return [
        "distance from the truth (2-Wasserstein, the map as a square of side 2)",
        f"{'':{width}}   sent    learned         fit",
        *(
            f"{learned.mechanism:{width}}  {learned.w2_released:.3f}    {learned.w2_learned:.3f} "
            f"{learned.km_learned:4.0f} km  {learned.train_seconds:4.0f} s, {learned.estimator}"
            for learned in metrics.maps
        ),
        f"{floor}           {metrics.w2_floor:.3f} {metrics.km_floor:4.0f} km",
    ]


def _demo_digits(output: Path, given: dict[str, Any], data: Path | None) -> list[str]:
    """Run the demo of digits, and return its results as lines."""
    from privot.demo.digits import run_image_demo

    with console.training_bar(then="") as progress:
        metrics = run_image_demo(output, **given, data=data, progress=progress)
    return [
        "share of held-out real digits that a classifier recognizes, trained",
        f"on samples of the model {metrics.accuracy_synthetic:.1%}",
        f"on raw digits           {metrics.accuracy_real:.1%}",
        "labels that an attacker names from one report  "
        f"{metrics.accuracy_attack:.1%}  (guessing: 10 %)",
    ]


def _datasets(
    fetched: str | None, verified: str | None, data: Path | None, address: str | None
) -> None:
    """Fetch a public data set, or verify the checksums of one."""
    from privot.demo.datasets import fetch, load_images

    if fetched is not None:
        if data is None:
            raise PrivotError("--data is missing: name the folder of data sets to fetch into")
        print(fetch(fetched, data, address=address, say=console.note))
    if verified is not None:
        images = load_images(verified, data)
        height, width = images.x_train.shape[1:]
        print(
            f"{verified}: {len(images.x_train):,} + {len(images.x_test):,} images of {height} × "
            f"{width}, checksums verified"
        )
