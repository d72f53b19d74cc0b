"""`privot account sliced`: noise for noisy slices, by the exact accountant.

The setting is the run's: dimension and number of slices, records, batch, epochs, radius. Both
accountants answer (Rényi and the tighter privacy-loss distribution), and what the published
bounds would ask for stands beside them.
"""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from privot.cli.account import AsJson, Epsilon, Unit, rounded_up, solve, tell
from privot.errors import PrivotError
from privot.privacy.rounding import exactly

if TYPE_CHECKING:
    from privot.privacy.slicing import SlicedAccounting


class _Sampling(StrEnum):
    without_replacement = "without_replacement"
    padded_poisson = "padded_poisson"
    none = "none"


class _Neighboring(StrEnum):
    replace_one = "replace_one"
    zero_out = "zero_out"


class _Accounting(StrEnum):
    rdp = "rdp"
    pld = "pld"


def sliced(
    delta: Annotated[float, Option(help="Well below one over the number of records.")],
    dim: Annotated[int, Option(help="Dimension d of a record.")],
    num_projections: Annotated[int, Option(help="Directions k at every step.")],
    records: Annotated[int, Option(help="Records N that the curator holds.")],
    radius: Annotated[float, Option(help="Records are clipped to this l2 norm; public.")],
    batch_size: Annotated[
        int | None, Option(help="Records at every step (padded_poisson: on average).")
    ] = None,
    epochs: Annotated[float | None, Option(help="Steps in units of records/batch-size.")] = None,
    steps: Annotated[int | None, Option(help="Number of releases, instead of epochs.")] = None,
    epsilon: Epsilon = None,
    stddev: Annotated[
        float | None, Option(help="Of each projection's noise; asks for the epsilon.")
    ] = None,
    sampling: Annotated[
        _Sampling, Option(help="How batches are drawn; none: all records at every step.")
    ] = _Sampling.without_replacement,
    neighboring: Annotated[_Neighboring, Option(help="Who may differ.")] = _Neighboring.replace_one,
    non_negative: Annotated[
        bool, Option("--non-negative", help="Records have no negative entry: √2·radius.")
    ] = False,
    orthonormal: Annotated[
        bool, Option("--orthonormal", help="Directions form an orthonormal frame.")
    ] = False,
    grid: Annotated[float, Option(help="Projections are rounded to it; 0: not.")] = 0.0,
    accounting: Annotated[
        _Accounting, Option(help="Rényi, or the tighter privacy-loss distribution (slower).")
    ] = _Accounting.rdp,
    unit: Unit = "person",
    as_json: AsJson = False,
) -> None:
    """Noisy slices X·U + V at every step: noise for an epsilon, or epsilon for a noise.

    Example: privot account sliced --epsilon 10 --delta 1e-5 --dim 784 --num-projections 1000
    --records 60000 --batch-size 100 --epochs 100 --radius 0.5 --neighboring replace_one

    The other way: --stddev 2.94 instead of --epsilon 10
    """
    from privot.privacy.slicing import SlicedAccounting

    if batch_size is None:
        if sampling is not _Sampling.none:
            raise PrivotError(f"--batch-size is missing: sampling {sampling} needs it")
        batch_size = records
    setting = SlicedAccounting(
        dim=dim,
        num_projections=num_projections,
        records=records,
        batch_size=batch_size,
        sampling=sampling.value,
        neighboring=neighboring.value,
        radius=radius,
        non_negative=non_negative,
        orthonormal=orthonormal,
        grid=grid,
        unit=unit,
    )
    count = _steps(setting, epochs, steps)
    forward = epsilon is not None
    both = {
        method.value: solve(
            epsilon,
            "--stddev",
            stddev,
            partial(setting.calibrate, delta=delta, steps=count, method=method.value),
            partial(setting.epsilon, delta=delta, steps=count, method=method.value),
        )
        # Low targets are out of reach for Rényi accounting alone.
        for method in (_Accounting if accounting is _Accounting.rdp else [_Accounting.pld])
    }
    answers = {method: pair[1 if forward else 0] for method, pair in both.items()}
    epsilon, stddev = both[accounting.value]
    name = "stddev" if forward else "epsilon"
    overflow, capacity = setting.overflow(count, delta)
    published = _published(setting, epsilon, delta, count) if forward and "rdp" in both else {}
    fields: dict[str, Any] = {"epsilon": epsilon, "stddev": stddev}
    fields |= {f"{name}_{method}": value for method, value in answers.items()}
    fields |= {f"stddev_published_{bound}": value for bound, value in published.items()}
    fields |= {"delta": delta, "delta_overflow": overflow, "batch_capacity": capacity}
    fields |= {"sensitivity": setting.sensitivity, "steps": count}
    fields |= {"neighboring": neighboring.value, "unit": unit, "sampling": sampling.value}
    relation = "is needed for" if forward else "gives"
    lines = [
        f"Gaussian noise of standard deviation {rounded_up(stddev, forward)} on every projection, "
        f"{count:,} times, {relation} epsilon = {rounded_up(epsilon, not forward)} at delta = "
        f"{exactly(delta)}, {neighboring.value}, per {unit}; rows differ by at most "
        f"{rounded_up(setting.sensitivity)}."
    ]
    if accounting is _Accounting.rdp:
        lines.append(
            f"That is Rényi accounting; by the privacy-loss distribution (--accounting pld) the {name} "
            f"is {rounded_up(answers['pld'])}."
        )
    if sampling is _Sampling.padded_poisson:
        lines.append(
            f"Every batch is padded to {capacity:,} rows in random slots, blank rows noised too; "
            f"overflows cost {rounded_up(overflow)} of delta."
        )
    if published:
        lines.append(
            f"The published recipe would ask for {rounded_up(published['bernstein'])} (Bernstein) or "
            f"{rounded_up(published['clt'])} (normal approximation, which is no bound)."
        )
    if sampling is not _Sampling.none:
        lines.append(
            "This assumes that every batch is drawn afresh by secret coins, in random row order, "
            "and that nothing published shows who was in it."
        )
    tell(as_json, name, fields, lines)


def _steps(setting: SlicedAccounting, epochs: float | None, steps: int | None) -> int:
    if steps is not None and epochs is None:
        return steps
    if epochs is not None and steps is None:
        return setting.steps_of(epochs)
    given = "neither" if steps is None else "both"
    raise PrivotError(f"--epochs and --steps: {given} given; give exactly one")


def _published(
    setting: SlicedAccounting, epsilon: float, delta: float, steps: int
) -> dict[str, float]:
    """What the published bounds would ask for, where they apply."""
    from privot.privacy.slicing import published_stddev

    if setting.orthonormal or setting.grid:
        return {}
    return {
        "bernstein": published_stddev(setting, "bernstein", epsilon, delta, steps),
        "clt": published_stddev(setting, "clt", epsilon, delta, steps),
    }
