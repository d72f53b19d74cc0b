r"""How much of the truth's spread is learned, against the batch size, by each loss.

A plan between b reports and b generated points matches noise that only looks like structure, so plain
entropic transport learns too narrow a distribution; the self-corrected loss should not, at any b
(`privot.local.fitting`). Here both are put to where the truth is known (`known_records`).

**Learned spread** is $\sqrt{\operatorname{tr} Σ / \operatorname{tr} Σ_0}$ of the learned and the true
covariance: of the records; of the probabilities $p(·|z)$ over the latents where records are categories
(below 1, categories depend too little on one another). *Along the signal* it is taken within the first
r principal directions of the truth: what is beyond is noise that was taken for signal. The *closed
form* is probabilistic principal components: what 20 000 reports can tell.

A **schedule** of stages (until which share of the steps, loss, batch size) tells a fit that starts
from the plain solution, or whose batches grow, from one that does not. The learning rate decays to
zero in all of them: at a constant one the jitter of the weights adds to the spread, six percent at
.005 and thirty at .02 (d = 50, σ = 3, b = 100).

Seconds are of one thread, with as many fits at a time as there are processes.

Usage:
    python -m studies tables.learned_spread -o learned_spread.md
    python -m studies tables.learned_spread --only categories schedules
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from privot.core.files import replacing_file
from privot.local import FitSettings
from privot.local.networks.generator_fit import TransportObjective
from privot.local.networks.heads import Head
from privot.local.networks.steps import LOSSES
from privot.randomizer import Release
from privot.training.generators import MLP
from privot.training.loop import TrainingSettings, threads_for, train
from studies.tables.known_records import LatentCategories, LinearGaussian, Records

# Stages: until which share of the steps, with which loss, on batches of which size.
Schedule = tuple[tuple[float, str, int], ...]

NUM_PEOPLE = 20_000
# Steps are cheap where batches are small; large ones need fewer.
STEPS = {100: 3000, 200: 3000, 400: 2500, 1000: 500}


def spread(learned: Tensor, true: Tensor) -> float:
    """$\\sqrt{\\operatorname{tr} Σ / \\operatorname{tr} Σ_0}$ of two covariances.

    Examples:
        >>> round(spread(torch.eye(2), 4 * torch.eye(2)), 6)
        0.5
    """
    return math.sqrt(float(learned.trace() / true.trace()))


def spread_along(learned: Tensor, true: Tensor, rank: int) -> float:
    """Spread within the first `rank` principal directions of the truth."""
    directions = torch.linalg.eigh(true)[1][:, -rank:]
    return spread(*(directions.T @ each @ directions for each in (learned, true)))


@dataclass(frozen=True)
class Fit:
    """One fit: what is learned, how."""

    records: Records
    schedule: Schedule
    steps: int
    averaging: float = 0.98
    learning_rate: float = 0.01
    seed: int = 0
    num_people: int = NUM_PEOPLE


@dataclass(frozen=True)
class Outcome:
    """Learned spread of a fit, its part along the signal, and the seconds it took."""

    spread: float
    along: float
    seconds: float


def constant(loss: str, batch_size: int) -> Schedule:
    """One loss on batches of one size, from first to last."""
    return ((1.0, loss, batch_size),)


def measure(fit: Fit) -> Outcome:
    """Draw records, privatize, fit, and compare with the truth."""
    release = fit.records.release(fit.num_people, fit.seed)
    generator = fit.records.generator(fit.seed)
    settings = TrainingSettings(fit.steps, fit.learning_rate, fit.averaging, fit.seed)
    started = time.perf_counter()
    with threads_for(max(batch_size for _, _, batch_size in fit.schedule) ** 2):
        train(generator, _objective(generator, release, fit), settings)
    seconds = time.perf_counter() - started
    learned, true = fit.records.covariances(generator, fit.seed)
    along = spread_along(learned, true, fit.records.rank)
    return Outcome(spread(learned, true), along, seconds)


def _objective(
    generator: MLP, release: Release, fit: Fit
) -> Callable[[torch.Generator], tuple[Tensor, float]]:
    head, cpu = Head(release.randomizer), torch.device("cpu")
    stages = [
        (
            until * fit.steps,
            TransportObjective(
                generator, head, release, FitSettings(batch_size=batch_size), LOSSES[loss], cpu
            ),
        )
        for until, loss, batch_size in fit.schedule
    ]
    done = 0

    def objective(rng: torch.Generator) -> tuple[Tensor, float]:
        nonlocal done
        done += 1
        return next(stage for until, stage in stages if done <= until)(rng)

    return objective


def _cell(outcome: Outcome) -> str:
    return f"{outcome.spread:.3f} ({outcome.seconds:.0f} s)"


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join([_row(header), _row("---" for _ in header), *map(_row, rows)])


# Fits one after another, or several processes at a time; outcomes in the order of the fits.
Run = Callable[[Iterable[Fit]], Iterable[Outcome]]


def table_of_batches(
    population: Sequence[Records],
    steps: Mapping[int, int],
    seed: int,
    run: Run,
    learning_rate: float = 0.01,
    losses: Sequence[str] = ("plain", "self_corrected"),
) -> str:
    """Spread and seconds of some losses by batch size; a second row along the signal if it differs."""
    columns = [(loss, b) for loss in losses for b in steps]
    fits = [
        Fit(records, constant(loss, b), steps[b], learning_rate=learning_rate, seed=seed)
        for records in population
        for loss, b in columns
    ]
    outcomes = iter(run(fits))
    rows = []
    for records in population:
        found = [next(outcomes) for _ in columns]
        rows.append([str(records), *map(_cell, found)])
        along = [f"{each.along:.3f}" for each in found]
        if along != [f"{each.spread:.3f}" for each in found]:  # not all is signal
            rows.append(["… along the signal", *along])
    titles = [f"{loss.replace('_', '-')}, b = {b}" for loss, b in columns]
    return _table(["records", *titles], rows)


def table_of_closed_forms(population: Sequence[LinearGaussian], seed: int) -> str:
    """What 20 000 reports can tell, by a formula."""
    rows = []
    for records in population:
        estimated = records.closed_form(records.release(NUM_PEOPLE, seed))
        _, true = records.covariances(records.generator(seed), seed)
        along = spread_along(estimated, true, records.rank)
        rows.append([str(records), f"{spread(estimated, true):.3f}", f"{along:.3f}"])
    return _table(["records", "closed form", "along the signal"], rows)


def table_of_schedules(population: Sequence[Records], seed: int, run: Run) -> str:
    """Starts from plain, growing batches, tiny batches, averages of the weights."""
    corrected = constant("self_corrected", 100)
    variants: list[tuple[str, Schedule, int, float]] = [
        ("b = 100, 2 000 steps", corrected, 2000, 0.98),
        ("… without averaging", corrected, 2000, 0.0),
        ("… averaging .999", corrected, 2000, 0.999),
        ("… plain for a quarter", ((0.25, "plain", 100), *corrected), 2000, 0.98),
        ("… plain for half", ((0.5, "plain", 100), *corrected), 2000, 0.98),
        (
            "… b = 400 from .6 on",
            ((0.6, "self_corrected", 100), *constant("self_corrected", 400)),
            2000,
            0.98,
        ),
        ("b = 400, 2 000 steps", constant("self_corrected", 400), 2000, 0.98),
        ("b = 20, 4 000 steps", constant("self_corrected", 20), 4000, 0.98),
        ("b = 5, 6 000 steps", constant("self_corrected", 5), 6000, 0.98),
    ]
    fits = [
        Fit(records, schedule, steps, averaging, seed=seed)
        for _, schedule, steps, averaging in variants
        for records in population
    ]
    outcomes = iter(run(fits))
    rows = [[name, *(_cell(next(outcomes)) for _ in population)] for name, *_ in variants]
    return _table(["schedule", *map(str, population)], rows)


_SIZES = ((2, 2, 1.0), (5, 5, 1.0), (20, 20, 1.0), (50, 50, 1.0), (50, 50, 3.0), (200, 10, 3.0))
VECTORS = tuple(
    LinearGaussian(noise, *size) for noise in ("gaussian", "laplace") for size in _SIZES
)
CATEGORIES = (LatentCategories(10, 4, 3, 2.0), LatentCategories(10, 4, 10, 2.0))
_SCHEDULED = (VECTORS[2], VECTORS[4], VECTORS[8])


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    tables = ("closed_forms", "vectors", "categories", "schedules")
    parser.add_argument("--only", choices=tables, nargs="+", default=tables)
    parser.add_argument("--seed", type=int, default=0, help="of all but the noise, which has none")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("-o", "--output", type=Path, help="Markdown file to write")


def run(chosen: argparse.Namespace) -> None:
    """The command line: all tables, or some."""
    written = []
    with ProcessPoolExecutor(
        chosen.processes, multiprocessing.get_context("spawn"), torch.set_num_threads, (1,)
    ) as pool:

        def run(fits: Iterable[Fit]) -> Iterable[Outcome]:
            return pool.map(measure, fits)

        for name in chosen.only:
            if name == "closed_forms":
                table = table_of_closed_forms(VECTORS, chosen.seed)
            elif name == "vectors":
                table = table_of_batches(VECTORS, STEPS, chosen.seed, run)
            elif name == "categories":
                losses = ("plain", "likelihood", "self_corrected")
                steps = {100: 2000, 400: 1000}
                table = table_of_batches(CATEGORIES, steps, chosen.seed, run, 0.02, losses)
            else:
                table = table_of_schedules(_SCHEDULED, chosen.seed, run)
            print(table, end="\n\n", flush=True)
            written.append(table)
    if chosen.output is not None:
        with replacing_file(chosen.output) as draft:
            draft.write_text("\n\n".join(written) + "\n", encoding="utf-8")
