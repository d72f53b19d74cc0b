"""Commands of `privot account`: noise for an ε, ε for a noise, shuffling, slices, and spent budgets.

The formulas are for one mechanism, in the units of the data; `privot calibrate` applies them to a
schema, where it rounds to a grid and shares the budget among columns. Printed numbers are rounded to the
safe side; `--json` prints all digits.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, cast

from typer import Argument, Option

from privot import privacy
from privot.cli.console import note
from privot.core.errors import PrivotError, require_choice
from privot.privacy.rounding import at_least, at_most, check_delta, exactly

if TYPE_CHECKING:
    from privot.privacy.slice_accounting import SlicedAccounting

Epsilon = Annotated[float | None, Option(help="Privacy loss; the noise is computed.")]
Unit = Annotated[str, Option(help="Owner of one record.")]
Fields = dict[str, Any]
AsJson = Annotated[bool, Option("--json", help="Print JSON, every digit.")]


# By mechanism: the option that gives its noise, and the options that it requires.
_OPTIONS = {
    "laplace": ("scale", ("sensitivity",)),
    "gaussian": ("stddev", ("sensitivity", "delta")),
    "randomized-response": ("keep", ("categories",)),
}


def noise(
    kind: str = Argument(help="The mechanism: laplace, gaussian or randomized-response."),
    epsilon: Epsilon = None,
    sensitivity: float | None = Option(None, help="Diameter of the domain, l1 or (gaussian) l2."),
    delta: float | None = Option(None, help="For gaussian: well below 1 / number of people."),
    categories: int | None = Option(None, help="For randomized-response: number k of categories."),
    scale: float | None = Option(None, help="Scale b of Laplace noise; epsilon is computed."),
    stddev: float | None = Option(None, help="Stddev of Gaussian noise; epsilon is computed."),
    keep: float | None = Option(None, help="Probability of the truth; epsilon is computed."),
    unit: Unit = "person",
    as_json: AsJson = False,
) -> None:
    """Compute the noise for an epsilon, or the epsilon of a noise, of one mechanism.

    Laplace noise has scale b = sensitivity/epsilon. Gaussian noise is by the exact formula (Balle, Wang
    2018), with Zhao's closed form beside it. k-ary randomized response reports the truth, or one of the
    other categories at random. Laplace noise and randomized response are pure: delta is 0.

    Example: privot account noise laplace --epsilon 4 --sensitivity 2

    The other way: privot account noise gaussian --stddev 4 --delta 1e-6 --sensitivity 1
    """
    options: Fields = {"sensitivity": sensitivity, "delta": delta, "categories": categories}
    options |= {"scale": scale, "stddev": stddev, "keep": keep}
    require_choice("the mechanism", kind, tuple(_OPTIONS))
    noise_option, required = _OPTIONS[kind]
    for name, value in options.items():
        if value is not None and name not in (*required, noise_option):
            raise PrivotError(f"--{name} is not an option of {kind}: leave it out")
        if value is None and name in required:
            raise PrivotError(f"--{name} is missing: {kind} needs it")
    if kind == "laplace":
        answer = _laplace(cast(float, sensitivity), epsilon, scale)
    elif kind == "gaussian":
        answer = _gaussian(cast(float, sensitivity), cast(float, delta), epsilon, stddev)
    else:
        answer = _randomized_response(cast(int, categories), epsilon, keep)
    solved = answer.solved
    relation = "is needed for" if solved.from_epsilon else "gives"
    pure_or_delta = "(pure)" if delta is None else f"at delta = {exactly(delta)}"
    lines = [
        f"{answer.subject} {relation} epsilon = {solved.epsilon_text} "
        f"{pure_or_delta} per {unit}, between any two records of it."
    ]
    if sensitivity is not None:
        norm = "l1" if kind == "laplace" else "l2"
        lines.append(
            f"No two records may be farther apart than {exactly(sensitivity)} in the {norm} norm: the "
            "diameter of their domain, not its radius. Noise and diameter are in the same units."
        )
    fields = {"epsilon": solved.epsilon, "unit": unit, noise_option: solved.value, **answer.fields}
    fields |= {name: options[name] for name in required}
    answered = noise_option if solved.from_epsilon else "epsilon"
    _print_answer(as_json, answered, fields, [*lines, *answer.lines])


class _Solved(NamedTuple):
    """An ε and another option's value, of which one was given and the other computed from it."""

    epsilon: float
    value: float  # of --scale, --stddev, --keep or --central-epsilon
    from_epsilon: bool  # whether ε was given

    @property
    def epsilon_text(self) -> str:
        """The ε as text, rounded up if it was computed."""
        return exactly(self.epsilon) if self.from_epsilon else at_most(self.epsilon, 6)

    @property
    def value_text(self) -> str:
        """The value as text, rounded up if it was computed."""
        return at_most(self.value, 6) if self.from_epsilon else exactly(self.value)


@dataclass(frozen=True)
class _Answer:
    """Answer about one mechanism."""

    solved: _Solved
    subject: str  # the noise in words, as the subject of the first sentence
    fields: Fields = field(default_factory=dict)  # further fields of the JSON
    lines: Sequence[str] = ()  # further lines of the text


def _laplace(sensitivity: float, epsilon: float | None, scale: float | None) -> _Answer:
    noise_for = partial(privacy.calibrate_laplace, sensitivity)
    epsilon_of = partial(privacy.laplace_epsilon, sensitivity=sensitivity)
    solved = _solve(epsilon, "--scale", scale, noise_for, epsilon_of)
    stddev = solved.value * 2**0.5
    stddev_text = at_most(stddev, 6) if solved.from_epsilon else at_least(stddev, 6)
    subject = f"Laplace noise of scale {solved.value_text} (standard deviation {stddev_text})"
    return _Answer(solved, subject, {"stddev": stddev})


def _gaussian(
    sensitivity: float, delta: float, epsilon: float | None, stddev: float | None
) -> _Answer:
    check_delta(delta)
    noise_for = partial(privacy.calibrate_gaussian, sensitivity, delta=delta)
    epsilon_of = partial(privacy.gaussian_epsilon, sensitivity=sensitivity, delta=delta)
    solved = _solve(epsilon, "--stddev", stddev, noise_for, epsilon_of)
    subject = f"Gaussian noise of standard deviation {solved.value_text} on every coordinate"
    if solved.epsilon <= 0:  # where the closed form is not defined
        return _Answer(solved, subject, {"stddev_closed_form": None})
    closed_form = privacy.calibrate_gaussian_zhao(sensitivity, solved.epsilon, delta)
    excess = closed_form / solved.value - 1
    line = (
        f"The closed form of Zhao et al. (2019) asks for {at_most(closed_form, 6)} for the same "
        f"promise, {excess:.0%} more."
    )
    return _Answer(solved, subject, {"stddev_closed_form": closed_form}, [line])


def _randomized_response(categories: int, epsilon: float | None, keep: float | None) -> _Answer:
    keep_for = partial(privacy.calibrate_randomized_response, categories)
    epsilon_of = partial(privacy.randomized_response_epsilon, num_categories=categories)
    solved = _solve(epsilon, "--keep", keep, keep_for, epsilon_of)
    # A larger probability of the truth is less noise, so it is rounded down.
    probability = at_least(solved.value, 6) if solved.from_epsilon else exactly(solved.value)
    subject = (
        f"Reporting the truth with probability {probability}, "
        f"else any other of the {categories} categories,"
    )
    return _Answer(solved, subject)


def shuffle(
    *,
    people: int = Option(help="Number of reports that are shuffled together, one per person."),
    delta: float = Option(help="Well below 1 over the number of people."),
    epsilon: float | None = Option(
        None, help="Pure epsilon of each whole report; the epsilon after shuffling is computed."
    ),
    central_epsilon: float | None = Option(
        None, help="Epsilon after shuffling; the largest epsilon of each report is computed."
    ),
    batches: int = Option(1, help="Batches in which one person reports, each shuffled by itself."),
    unit: Unit = "person",
    as_json: AsJson = False,
) -> None:
    """Compute the guarantee of local reports after a trusted shuffler has removed their senders.

    Example: privot account shuffle --epsilon 5 --people 400000 --delta 1e-6

    The other way: privot account shuffle --central-epsilon 0.1 --people 400000 --delta 1e-6
    """
    from privot.privacy.shuffling import (
        calibrate_shuffling,
        composed_shuffled_epsilon,
        shuffled_epsilon,
    )

    check_delta(delta, people)
    solved = _solve(
        epsilon,
        "--central-epsilon",
        central_epsilon,
        lambda e: shuffled_epsilon(e, people, delta).epsilon,
        lambda e: calibrate_shuffling(e, people, delta),
        ("central epsilon", "epsilon of each report"),
    )
    local, central, central_computed = solved
    bound = shuffled_epsilon(local, people, delta)
    composed = composed_shuffled_epsilon(local, people, delta, batches) if batches != 1 else None
    fields: Fields = {
        "epsilon": central,
        "epsilon_lower": bound.epsilon_lower,
        "epsilon_closed_form": bound.epsilon_closed_form,
        "epsilon_local": local,
        "people": people,
        "unit": unit,
        "delta": delta,
        "batches": batches,
        "epsilon_of_batches": composed or central,
    }
    local_text = exactly(local) if central_computed else at_least(local, 6)
    lines = [
        f"{people:,} reports of epsilon = {local_text} (pure), shuffled, "
        f"give epsilon = {solved.value_text} at delta = {exactly(delta)} between data "
        f"sets that differ in one {unit}'s whole record; no proof for all mechanisms can give less than "
        f"{at_least(bound.epsilon_lower, 6)}.",
        "The closed form of Feldman, McMillan, Talwar (2023) gives "
        f"{at_most(bound.epsilon_closed_form, 6)}.",
    ]
    if composed is not None:
        lines.append(
            f"In {batches} batches of this size, the same person has epsilon = {at_most(composed, 6)}."
        )
    lines.append(
        "This trusts the shuffler, assumes that all of these people report honestly and once, and "
        "that nothing sent along (identifier, address, time) tells reports apart. The epsilon is of a "
        "whole report: a column of it is not amplified, for the others tell rows apart."
    )
    _print_answer(as_json, "epsilon" if central_computed else "epsilon_local", fields, lines)


def slices(
    delta: float = Option(help="Well below 1 over the number of records."),
    dim: int = Option(help="Dimension d of a record."),
    num_projections: int = Option(help="Number of directions k at each step."),
    records: int = Option(help="Number of records N that the curator holds."),
    radius: float = Option(help="Public l2 norm to which records are clipped."),
    batch_size: int | None = Option(None, help="Records of a step; padded_poisson: on average."),
    epochs: float | None = Option(None, help="Number of steps in units of records/batch-size."),
    steps: int | None = Option(None, help="Number of steps, instead of --epochs."),
    epsilon: Epsilon = None,
    stddev: float | None = Option(None, help="Noise stddev of a projection; epsilon is computed."),
    sampling: str = Option(
        "without_replacement",
        help="without_replacement, padded_poisson, or none (all records at every step).",
    ),
    neighboring: str = Option("replace_one", help="Who may differ: replace_one or zero_out."),
    non_negative: bool = Option(False, "--non-negative", help="No negative entry: less noise."),
    orthonormal: bool = Option(False, "--orthonormal", help="Directions are an orthonormal frame."),
    grid: float = Option(0.0, help="Step of the grid to which projections are rounded; 0: none."),
    accounting: str = Option("rdp", help="rdp (Rényi), or the tighter pld (loss distribution)."),
    unit: Unit = "person",
    as_json: AsJson = False,
) -> None:
    """Compute the noise for an epsilon, or the epsilon of a noise, of slices X·U + V at every step.

    X are the records of a batch, U random directions, and V Gaussian noise.

    Example: privot account slices --epsilon 10 --delta 1e-5 --dim 784 --num-projections 1000
    --records 60000 --batch-size 100 --epochs 100 --radius 0.5 --neighboring replace_one

    The other way: --stddev 2.94 instead of --epsilon 10
    """
    from privot.privacy.slice_accounting import SlicedAccounting

    require_choice("--accounting", accounting, ("rdp", "pld"))
    if batch_size is None:
        if sampling != "none":
            raise PrivotError(f"--batch-size is missing: sampling {sampling} needs it")
        batch_size = records
    setting = SlicedAccounting(
        dim=dim,
        num_projections=num_projections,
        records=records,
        batch_size=batch_size,
        sampling=sampling,  # type: ignore[arg-type]  # checked by the class
        neighboring=neighboring,  # type: ignore[arg-type]  # checked by the class
        radius=radius,
        non_negative=non_negative,
        orthonormal=orthonormal,
        grid=grid,
        unit=unit,
    )
    num_releases = _num_releases(setting, epochs, steps)
    # Rényi accounting cannot reach a small epsilon, so --accounting pld has to do without it.
    methods: list[Literal["rdp", "pld"]] = ["rdp", "pld"] if accounting == "rdp" else ["pld"]
    solved_by: dict[str, _Solved] = {}
    for method in methods:
        stddev_for = partial(setting.calibrate, delta=delta, steps=num_releases, method=method)
        epsilon_of = partial(setting.epsilon, delta=delta, steps=num_releases, method=method)
        solved_by[method] = _solve(epsilon, "--stddev", stddev, stddev_for, epsilon_of)
    solved = solved_by[accounting]
    answered = "stddev" if solved.from_epsilon else "epsilon"
    answers = {
        method: result.value if result.from_epsilon else result.epsilon
        for method, result in solved_by.items()
    }
    overflow, capacity = setting.overflow(num_releases, delta)
    fields: Fields = {
        "epsilon": solved.epsilon,
        "stddev": solved.value,
        **{f"{answered}_{method}": value for method, value in answers.items()},
        "delta": delta,
        "delta_overflow": overflow,
        "batch_capacity": capacity,
        "sensitivity": setting.sensitivity,
        "steps": num_releases,
        "neighboring": neighboring,
        "unit": unit,
        "sampling": sampling,
    }
    relation = "is needed for" if solved.from_epsilon else "gives"
    lines = [
        f"Gaussian noise of standard deviation {solved.value_text} on every projection, "
        f"{num_releases:,} times, {relation} epsilon = {solved.epsilon_text} at delta = "
        f"{exactly(delta)}, {neighboring}, per {unit}; rows differ by at most "
        f"{at_most(setting.sensitivity, 6)}."
    ]
    if accounting == "rdp":
        lines.append(
            "That is Rényi accounting; by the privacy-loss distribution (--accounting pld) the "
            f"{answered} is {at_most(answers['pld'], 6)}."
        )
    if sampling == "padded_poisson":
        lines.append(
            f"Every batch is padded to {capacity:,} rows in random slots, blank rows noised too; "
            f"overflows cost {at_most(overflow, 6)} of delta."
        )
    if sampling != "none":
        lines.append(
            "This assumes that every batch is drawn afresh by secret coins, in random row order, "
            "and that nothing published shows who was in it."
        )
    _print_answer(as_json, answered, fields, lines)


def _num_releases(setting: SlicedAccounting, epochs: float | None, steps: int | None) -> int:
    """Return the number of releases by `--epochs` or `--steps`, exactly one of which must be given."""
    if steps is not None and epochs is None:
        return steps
    if epochs is not None and steps is None:
        return setting.steps_of(epochs)
    given = "neither" if steps is None else "both"
    raise PrivotError(f"--epochs and --steps: {given} given; give exactly one")


def spent(
    adopt: Path | None = Option(
        None,
        help="List nothing, but let this account use a ledger from elsewhere (its file, or a secret "
        "model's folder), if the original is not used after it was copied.",
    ),
) -> None:
    """List the runs that this user account made on private records, grouped by the records.

    Example: privot account spent

    After a ledger was moved here: privot account spent --adopt secret/
    """
    from privot.privacy.ledger import accounts
    from privot.privacy.ledger import adopt as adopt_ledger

    if adopt is not None:
        file = adopt / "ledger.json" if adopt.is_dir() else adopt
        adopt_ledger(file)
        print(f"{file}: this account counts on from here; use the original never again")
        return
    by_records = accounts()
    for number, account in enumerate(by_records, start=1):
        print(f"records {number}: {account}")
        for run in account.runs:
            print(f"  {run.begun}  {run.uses} declared: {run.guarantee}")
    if not by_records:
        print("no run on private records is known to this account")
    note("for the curator: whether two runs had the same records is a function of raw data")


def _solve(
    epsilon: float | None,
    option: str,
    value: float | None,
    value_for: Callable[[float], float],
    epsilon_of: Callable[[float], float],
    answers: tuple[str, str] = ("noise", "epsilon"),
) -> _Solved:
    """Compute an option's value from ε, or ε from it; raise PrivotError unless exactly one is given.

    `answers` are the value and ε in words, for the error message.
    """
    if epsilon is not None and value is None:
        return _Solved(epsilon, value_for(epsilon), from_epsilon=True)
    if value is not None and epsilon is None:
        return _Solved(epsilon_of(value), value, from_epsilon=False)
    given = "neither" if epsilon is None else "both"
    raise PrivotError(
        f"--epsilon and {option}: {given} given; give exactly one, --epsilon to ask for the "
        f"{answers[0]} or {option} to ask for the {answers[1]}"
    )


def _print_answer(as_json: bool, answered: str, fields: Fields, lines: list[str]) -> None:
    """Print the lines, or the fields as JSON with the field `answered` first."""
    print(json.dumps({answered: fields[answered], **fields}) if as_json else "\n".join(lines))
