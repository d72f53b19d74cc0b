"""What a check by reports alone says of classifiers, beside what they score on held-out people.

    python -m studies tables.telling --data FOLDER -o telling.json

40 000 people of Adult report ten columns; a model is learned and checked with a target (`privot.check`),
and classifiers or regressions that learn it from 20 000 synthetic records, and from four fifths of
people who did not report, are scored on these. A row has the score told by reports, with its 90 %
interval, and the share that is kept of what people teach, as rehearsed; beside both, what was made by
the same linear classifier, and by gradient boosting. Needs scikit-learn and `adult.csv.gz` in the folder
of `--data` or `PRIVOT_DATA`.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from privot.evaluation import check, evaluate
from privot.evaluation.verdict import GUESS
from privot.local import fit
from privot.release import Randomizer
from studies.common.rows import gather
from studies.tables.adult import PEOPLE, read_adult

_ROWS = 20_000


def measure(
    data: str, epsilon: float, seed: int, targets: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Rows of one release."""
    schema, table = read_adult(data)
    release = Randomizer.calibrate(schema, epsilon).privatize(table.slice(0, PEOPLE))
    model, others = fit(release, seed=seed), table.slice(PEOPLE)
    for target in targets:
        told = check(model, release, target=target, seed=seed).telling
        assert told is not None
        assert told.reports is not None
        prediction = evaluate(model, others, target=target, num_rows=_ROWS, seed=seed).prediction
        assert prediction is not None
        linear, trees = prediction.scores
        guess, made = GUESS[told.measure], linear.synthetic
        yield {
            "epsilon": epsilon, "target": target, "measure": told.measure, "seed": seed,
            "told": round(told.reports.estimate, 3),
            "low": round(told.reports.low, 3), "high": round(told.reports.high, 3),
            "made": round(made, 3), "held": told.reports.holds(made),
            "kept_told": None if told.kept is None else round(told.kept, 3),
            "kept_made": round((made - guess) / (linear.real - guess), 3),
            "kept_by_trees": round((trees.synthetic - guess) / (trees.real - guess), 3),
            "grade": told.finding.grade,
        }  # fmt: skip


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("--data", default=os.environ.get("PRIVOT_DATA", "."))
    parser.add_argument("--epsilons", nargs="+", type=float, default=[8.0, 4.0, 2.0])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument(
        "--targets", nargs="+", default=["income", "sex", "marital_status", "race", "age"]
    )
    parser.add_argument("-o", "--output", type=Path)


def run(chosen: argparse.Namespace) -> None:
    """Every ε and seed."""
    rows = (
        row
        for epsilon in chosen.epsilons
        for seed in chosen.seeds
        for row in measure(chosen.data, epsilon, seed, chosen.targets)
    )
    gather(rows, chosen.output)
