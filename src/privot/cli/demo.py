"""The demo: one command, about a minute, three maps, or three sheets of digits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from privot.cli.console import training_bar
from privot.cli.options import Force

if TYPE_CHECKING:
    from privot.local import FitSettings

_HOLDS = ("report.html", "metrics.json", "maps.png", "digits.png", "model/*")


def run(
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for the results.")] = Path(
        "demo"
    ),
    people: Annotated[int, typer.Option(help="How many people.")] = 200_000,
    epsilon: Annotated[float, typer.Option(help="Privacy loss of each person's report.")] = 4.0,
    steps: Annotated[int | None, typer.Option(help="Optimizer steps.")] = None,
    seed: Annotated[int, typer.Option(help="Of the people and of the training.")] = 0,
    images: Annotated[
        bool, typer.Option("--images", help="Handwritten digits instead; needs scikit-learn.")
    ] = False,
    force: Force = False,
) -> None:
    """Recover where people live from locations that were noised one by one; or how they write.

    Example: privot demo
    """
    from privot.files import claim_folder
    from privot.local import FitSettings

    claim_folder(output, _HOLDS, force=force)
    settings = FitSettings(seed=seed) if steps is None else FitSettings(seed=seed, steps=steps)
    if images:
        _run_images(output, settings)
        return
    from privot.demo.homes import run_demo

    with training_bar() as progress:
        m = run_demo(
            output, num_people=people, epsilon=epsilon, settings=settings, progress=progress
        )
    print()
    print("   distance from the truth (2-Wasserstein, the map as a square of side 2)")
    print(f"   what the curator received  {m.w2_released:.3f}")
    print(f"   what was learned           {m.w2_learned:.3f}")
    print(f"   two honest samples         {m.w2_floor:.3f}")
    print()
    print(f"   look at {output / 'report.html'}")


def _run_images(output: Path, settings: FitSettings) -> None:
    from privot.demo.digits import run_image_demo

    with training_bar() as progress:
        m = run_image_demo(output, settings=settings, progress=progress)
    print()
    print("   real digits named rightly by a classifier that learned")
    print(f"   from synthetic digits      {m.accuracy_synthetic:.1%}")
    print(f"   from half of the real ones {m.accuracy_real:.1%}")
    print()
    print(f"   look at {output / 'report.html'}")
