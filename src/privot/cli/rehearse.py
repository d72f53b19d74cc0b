"""The command that rehearses a campaign before anyone is asked. It needs PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typer import Option

from privot.cli.console import Force, SchemaFile, step_bar
from privot.privacy.rounding import exactly


def rehearse(
    schema: SchemaFile,
    epsilon: Annotated[float, Option(help="Privacy loss of one whole report.")],
    people: Annotated[int, Option(help="How many will report.")],
    prior: Annotated[
        Path | None,
        Option(
            help="A table that is like people and not private, or a model's folder; made-up people "
            "otherwise."
        ),
    ] = None,
    rehearsals: Annotated[int, Option(help="How many fits.")] = 3,
    seed: Annotated[int, Option(help="Of people and fits.")] = 0,
    output: Annotated[Path, Option("-o", "--output", help="Folder of what it shows.")] = Path(
        "rehearsal"
    ),
    force: Force = False,
) -> None:
    """What will the answer look like? Simulated people report and are learned from; nobody is asked.

    Everything is stamped SIMULATED: every line, file and picture. With --prior people are drawn from a
    table or a model, whose rows are shown: give no table of private people.

    Example: privot rehearse schema.toml --epsilon 2 --people 30000 --prior census.csv
    """
    from privot.errors import require_seed
    from privot.evaluation.simulated import STAMP
    from privot.evaluation.simulated import rehearse as rehearsed
    from privot.files import claim_folder, replacing_folder
    from privot.models import load
    from privot.release import read_table
    from privot.report.simulated_pages import NAMES, WRITTEN, write_rehearsal
    from privot.schema import Schema

    declared, inputs = Schema.load(schema), [schema, *([] if prior is None else [prior])]
    require_seed(seed)
    claim_folder(output, WRITTEN, inputs=inputs, force=force)
    like: Any = None
    if prior is not None:
        like = load(prior) if prior.is_dir() else read_table(prior, declared)
    with step_bar("rehearsing") as progress:
        told = rehearsed(
            declared,
            epsilon,
            people,
            prior=like,
            rehearsals=rehearsals,
            seed=seed,
            progress=progress,
        )
    with replacing_folder(output) as folder:
        write_rehearsal(folder, told, epsilon, people)
    who = "made-up people" if prior is None else f"people like those of {prior}"
    print(f"{STAMP}: {people:,} reports of {who}, ε = {exactly(epsilon)}")
    for key, error in told.predicted.items():
        print(
            f"{STAMP}: {NAMES[key]}: error {error:.4f} ({told.low[key]:.4f} to {told.high[key]:.4f} in "
            f"{told.rehearsals} rehearsals), without noise {told.without_noise[key]:.4f}"
        )
    print(f"{STAMP}: {output / WRITTEN[0]}: what the answer will look like")
