"""Things to try: the demo, one command and about a minute; and public data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from privot.cli.console import Force, note, training_bar

Name = Annotated[str, Argument(help="mnist, fashion_mnist or usps.")]
_HOLDS = ("report.html", "metrics.json", "maps.png", "digits.png", "model/*")


def run(
    output: Annotated[Path, Option("-o", "--output", help="Folder for the results.")] = Path(
        "demo"
    ),
    people: Annotated[
        int | None, Option(help="How many people: 200 000, or 60 000 who write.")
    ] = None,
    epsilon: Annotated[
        float | None, Option(help="Privacy loss of each person's report: 4, or 10 of images.")
    ] = None,
    mechanism: Annotated[
        str, Option(help="How people report; 'laplace', for images 'gaussian', is the papers'.")
    ] = "auto",
    steps: Annotated[int | None, Option(help="Most steps of a fit.")] = None,
    seed: Annotated[int, Option(help="Of the people and of the training.")] = 0,
    images: Annotated[
        bool, Option("--images", help="Handwritten digits instead; needs scikit-learn.")
    ] = False,
    data: Annotated[
        Path | None, Option("--data", help="Folder of data sets, for images: MNIST's digits.")
    ] = None,
    force: Force = False,
) -> None:
    """Recover where people live from locations that were randomized one by one; or how they write.

    Example: privot demo
    """
    from privot.errors import PrivotError
    from privot.files import claim_folder
    from privot.local import FitSettings

    if data is not None and not images:
        raise PrivotError("data is for images alone: add --images, or leave --data out")
    claim_folder(output, _HOLDS, force=force)
    settings = FitSettings(seed=seed) if steps is None else FitSettings(seed=seed, steps=steps)
    asked = {"num_people": people, "epsilon": epsilon, "mechanism": mechanism, "settings": settings}
    given = {name: value for name, value in asked.items() if value is not None}
    lines = _digits(output, given, data) if images else _homes(output, given)
    print("\n   " + "\n   ".join(lines))
    print(f"\n   look at {output / 'report.html'}")


def _homes(output: Path, given: dict[str, Any]) -> list[str]:
    from privot.demo.homes import run_demo

    with training_bar(then="") as progress:
        m = run_demo(output, **given, progress=progress)
    honest = "two honest samples"
    return [
        "distance from the truth (2-Wasserstein, the map as a square of side 2)",
        f"{'':{len(honest)}}   sent    learned         fit",
        *(
            f"{each.mechanism:{len(honest)}}  {each.w2_released:.3f}    {each.w2_learned:.3f} "
            f"{each.km_learned:4.0f} km  {each.train_seconds:4.0f} s, {each.estimator}"
            for each in m.maps
        ),
        f"{honest}           {m.w2_floor:.3f} {m.km_floor:4.0f} km",
    ]


def _digits(output: Path, given: dict[str, Any], data: Path | None) -> list[str]:
    from privot.demo.digits import run_image_demo

    with training_bar(then="") as progress:
        m = run_image_demo(output, **given, data=data, progress=progress)
    return [
        "real digits, of nobody who reported, named rightly by a classifier that learned",
        f"from what was learned  {m.accuracy_synthetic:.1%}",
        f"from raw digits        {m.accuracy_real:.1%}",
        f"labels that an attacker names from one report  {m.accuracy_attack:.1%}  (guessing: 10 %)",
    ]


def fetch(
    name: Name,
    to: Annotated[Path, Option("--to", help="Folder of data sets.")],
    address: Annotated[
        str | None, Option(help="Folder on the web to take the files from instead.")
    ] = None,
) -> None:
    """Fetch a public data set; run it again to resume, and it is checked at the end.

    Example: privot datasets fetch mnist --to data
    """
    from privot.datasets import fetch as fetch_dataset

    print(fetch_dataset(name, to, address=address, say=note))


def check(
    name: Name,
    data: Annotated[
        Path | None, Option("--data", help="Folder of data sets; PRIVOT_DATA by default.")
    ] = None,
) -> None:
    """Say what a folder holds of a data set, after its checksums were verified.

    Example: privot datasets check mnist --data data
    """
    from privot.datasets import load_images

    images = load_images(name, data)
    height, width = images.x_train.shape[1:]
    print(
        f"{name}: {len(images.x_train):,} + {len(images.x_test):,} images of {height} × {width}, "
        "checksums verified"
    )
