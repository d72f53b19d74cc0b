"""The demo: one command, about a minute, three maps."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from privot.cli.console import training_bar


def run(
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for the results.")] = Path(
        "demo"
    ),
    people: Annotated[int, typer.Option(help="How many people.")] = 200_000,
    epsilon: Annotated[float, typer.Option(help="Privacy loss of each person's report.")] = 4.0,
    steps: Annotated[int | None, typer.Option(help="Optimizer steps.")] = None,
    seed: Annotated[int, typer.Option(help="Of the people and of the training.")] = 0,
) -> None:
    """Recover where people live from locations that were noised one by one.

    Example: privot demo
    """
    from privot.experiments.home_towns import run_demo
    from privot.local import FitSettings

    settings = FitSettings(seed=seed) if steps is None else FitSettings(seed=seed, steps=steps)
    with training_bar() as progress:
        result = run_demo(
            output, num_people=people, epsilon=epsilon, settings=settings, progress=progress
        )
    m = result.metrics
    print()
    print("   distance from the truth (2-Wasserstein, the map as a square of side 2)")
    print(f"   what the curator received  {m.w2_released:.3f}")
    print(f"   what was learned           {m.w2_learned:.3f}")
    print(f"   two honest samples         {m.w2_floor:.3f}")
    print()
    print(f"   look at {output / 'report.html'}")
