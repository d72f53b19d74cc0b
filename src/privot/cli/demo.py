"""Things to try: the demo, one command and about a minute; and public data sets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from privot.cli.console import Force, note, training_bar

if TYPE_CHECKING:
    from privot.local import FitSettings

Name = Annotated[str, Argument(help="mnist, fashion_mnist or usps.")]
_HOLDS = ("report.html", "metrics.json", "maps.png", "digits.png", "model/*")


def run(
    output: Annotated[Path, Option("-o", "--output", help="Folder for the results.")] = Path(
        "demo"
    ),
    people: Annotated[int, Option(help="How many people.")] = 200_000,
    epsilon: Annotated[float, Option(help="Privacy loss of each person's report.")] = 4.0,
    mechanism: Annotated[
        str, Option(help="How homes are reported; 'laplace' runs the papers' version.")
    ] = "auto",
    steps: Annotated[int | None, Option(help="Most steps of a fit.")] = None,
    seed: Annotated[int, Option(help="Of the people and of the training.")] = 0,
    images: Annotated[
        bool, Option("--images", help="Handwritten digits instead; needs scikit-learn.")
    ] = False,
    force: Force = False,
) -> None:
    """Recover where people live from locations that were randomized one by one; or how they write.

    Example: privot demo
    """
    from privot.files import claim_folder
    from privot.local import FitSettings

    claim_folder(output, _HOLDS, force=force)
    settings = FitSettings(seed=seed) if steps is None else FitSettings(seed=seed, steps=steps)
    lines = (
        _digits(output, settings)
        if images
        else _homes(output, people, epsilon, mechanism, settings)
    )
    print("\n   " + "\n   ".join(lines))
    print(f"\n   look at {output / 'report.html'}")


def _homes(
    output: Path, people: int, epsilon: float, mechanism: str, settings: FitSettings
) -> list[str]:
    from privot.demo.homes import run_demo

    with training_bar() as progress:
        m = run_demo(
            output,
            num_people=people,
            epsilon=epsilon,
            mechanism=mechanism,
            settings=settings,
            progress=progress,
        )
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


def _digits(output: Path, settings: FitSettings) -> list[str]:
    from privot.demo.digits import run_image_demo

    with training_bar() as progress:
        m = run_image_demo(output, settings=settings, progress=progress)
    return [
        "real digits named rightly by a classifier that learned",
        f"from synthetic digits      {m.accuracy_synthetic:.1%}",
        f"from half of the real ones {m.accuracy_real:.1%}",
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
