"""Privacy arithmetic at the prompt: how much noise an ε needs, how much ε a noise gives.

These are the bare formulas, in the data's own units. `privot calibrate` applies them to a schema,
where rounding to the grid, and the sharing of one budget among columns, come on top. What is
printed for people is rounded to the safe side; `--json` gives every digit.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Annotated

import typer

from privot.errors import PrivotError
from privot.privacy.guarantees.figures import at_least, at_most, exactly

Epsilon = Annotated[float | None, typer.Option(help="Privacy loss; asks for the noise.")]
Unit = Annotated[str, typer.Option(help="Whom one record belongs to.")]
Figures = dict[str, float | str | None]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, every digit.")]


def laplace(
    sensitivity: Annotated[float, typer.Option(help="l1 diameter of the domain, in its units.")],
    epsilon: Epsilon = None,
    scale: Annotated[float | None, typer.Option(help="Laplace's b; asks for the epsilon.")] = None,
    unit: Unit = "person",
    as_json: AsJson = False,
) -> None:
    """Laplace noise of scale b = sensitivity/epsilon; pure.

    Example: privot account laplace --epsilon 4 --sensitivity 2
    """
    from privot.privacy import calibrate_laplace, laplace_epsilon

    forward = epsilon is not None
    epsilon, scale = solve(
        epsilon,
        "--scale",
        scale,
        lambda e: calibrate_laplace(sensitivity, e),
        lambda b: laplace_epsilon(b, sensitivity),
    )
    stddev = scale * 2**0.5
    if as_json:
        fields: Figures = {"epsilon": epsilon, "unit": unit, "scale": scale, "stddev": stddev}
        answer = "scale" if forward else "epsilon"
        print(as_object(answer, fields | {"sensitivity": sensitivity}))
        return
    deviation = rounded_up(stddev) if forward else rounded_down(stddev)
    noise = f"Laplace noise of scale {rounded_up(scale, forward)} (standard deviation {deviation})"
    print(_sentence(forward, noise, f"epsilon = {rounded_up(epsilon, not forward)} (pure)", unit))
    print(_diameter(sensitivity, "l1"))


def gaussian(
    sensitivity: Annotated[float, typer.Option(help="l2 diameter of the domain, in its units.")],
    delta: Annotated[float, typer.Option(help="Well below one over the number of people.")],
    epsilon: Epsilon = None,
    stddev: Annotated[
        float | None, typer.Option(help="Of each coordinate's noise; asks for the epsilon.")
    ] = None,
    unit: Unit = "person",
    as_json: AsJson = False,
) -> None:
    """Gaussian noise by the exact formula (Balle, Wang 2018), Zhao's closed form beside it.

    Example: privot account gaussian --epsilon 1 --delta 1e-6 --sensitivity 1
    """
    from privot.privacy import calibrate_gaussian, calibrate_gaussian_zhao, gaussian_epsilon
    from privot.privacy.rounding import check_delta

    check_delta(delta)
    forward = epsilon is not None
    epsilon, stddev = solve(
        epsilon,
        "--stddev",
        stddev,
        lambda e: calibrate_gaussian(sensitivity, e, delta),
        lambda s: gaussian_epsilon(s, sensitivity, delta),
    )
    # The closed form is silent at epsilon 0.
    closed_form = calibrate_gaussian_zhao(sensitivity, epsilon, delta) if epsilon > 0 else None
    if as_json:
        fields: Figures = {"epsilon": epsilon, "stddev": stddev, "stddev_closed_form": closed_form}
        fields |= {"delta": delta, "unit": unit, "sensitivity": sensitivity}
        print(as_object("stddev" if forward else "epsilon", fields))
        return
    noise = (
        f"Gaussian noise of standard deviation {rounded_up(stddev, forward)} on every coordinate"
    )
    promise = f"epsilon = {rounded_up(epsilon, not forward)} at delta = {exactly(delta)}"
    print(_sentence(forward, noise, promise, unit))
    print(_diameter(sensitivity, "l2"))
    if closed_form is not None:
        more = closed_form / stddev - 1
        print(
            f"The closed form of Zhao et al. (2019) asks for {rounded_up(closed_form)} for the same "
            f"promise, {more:.0%} more."
        )


def randomized_response(
    categories: Annotated[int, typer.Option(help="Number of categories k, at least 2.")],
    epsilon: Epsilon = None,
    keep: Annotated[
        float | None, typer.Option(help="Probability of the truth; asks for the epsilon.")
    ] = None,
    unit: Unit = "person",
    as_json: AsJson = False,
) -> None:
    """k-ary randomized response: the truth, or one of the other categories at random; pure.

    Example: privot account randomized-response --epsilon 1 --categories 5
    """
    from privot.privacy import calibrate_randomized_response, randomized_response_epsilon

    forward = epsilon is not None
    epsilon, keep = solve(
        epsilon,
        "--keep",
        keep,
        lambda e: calibrate_randomized_response(categories, e),
        lambda p: randomized_response_epsilon(p, categories),
    )
    if as_json:
        fields: Figures = {"epsilon": epsilon, "unit": unit, "keep": keep, "categories": categories}
        print(as_object("keep" if forward else "epsilon", fields))
        return
    noise = (
        f"Reporting the truth with probability {rounded_down(keep, forward)}, "
        f"else any other of the {categories} categories,"
    )
    print(_sentence(forward, noise, f"epsilon = {rounded_up(epsilon, not forward)} (pure)", unit))


def shuffle(
    people: Annotated[int, typer.Option(help="Reports shuffled together, one a person.")],
    delta: Annotated[float, typer.Option(help="Well below one over the number of people.")],
    epsilon: Annotated[
        float | None,
        typer.Option(
            help="Of each person's whole report, all columns, pure; asks for the central one."
        ),
    ] = None,
    central_epsilon: Annotated[
        float | None,
        typer.Option(help="Wanted after shuffling; asks for the largest epsilon of each report."),
    ] = None,
    unit: Unit = "person",
    as_json: AsJson = False,
) -> None:
    """What local reports promise once a trusted shuffler has dropped who sent which.

    Example: privot account shuffle --epsilon 5 --people 400000 --delta 1e-6

    The other way: privot account shuffle --central-epsilon 0.1 --people 400000 --delta 1e-6
    """
    from privot.privacy.curves.shuffling import calibrate_shuffling, shuffled_epsilon
    from privot.privacy.rounding import check_delta

    check_delta(delta, people)
    forward = central_epsilon is None
    local, central = solve(
        epsilon,
        "--central-epsilon",
        central_epsilon,
        lambda e: shuffled_epsilon(e, people, delta).epsilon,
        lambda e: calibrate_shuffling(e, people, delta),
        ("central epsilon", "epsilon of each report"),
    )
    bound = shuffled_epsilon(local, people, delta)
    if as_json:
        fields: Figures = {
            "epsilon": central,
            "epsilon_lower": bound.epsilon_lower,
            "epsilon_closed_form": bound.epsilon_closed_form,
            "epsilon_local": local,
            "people": people,
            "unit": unit,
            "delta": delta,
        }
        print(as_object("epsilon" if forward else "epsilon_local", fields))
        return
    print(
        f"{people:,} reports of epsilon = {rounded_down(local, not forward)} (pure), shuffled, give "
        f"epsilon = {rounded_up(central, forward)} at delta = {exactly(delta)} between data sets that "
        f"differ in one {unit}'s whole record; no proof for all mechanisms can reach below "
        f"{rounded_down(bound.epsilon_lower)}."
    )
    print(
        "The closed form of Feldman, McMillan, Talwar (2023) gives "
        f"{rounded_up(bound.epsilon_closed_form)}."
    )
    print(
        "This trusts the shuffler, assumes that all of these people report honestly and once, and "
        "that nothing sent along (identifier, address, time) tells reports apart. The epsilon is of a "
        "whole report: a column of it is not amplified, for the others tell rows apart."
    )


def solve(
    epsilon: float | None,
    noise_name: str,
    noise: float | None,
    noise_for: Callable[[float], float],
    epsilon_of: Callable[[float], float],
    asked: tuple[str, str] = ("noise", "epsilon"),
) -> tuple[float, float]:
    """Return epsilon and noise, the one that was not given computed from the other."""
    if epsilon is not None and noise is None:
        return epsilon, noise_for(epsilon)
    if noise is not None and epsilon is None:
        return epsilon_of(noise), noise
    given = "neither" if epsilon is None else "both"
    raise PrivotError(
        f"--epsilon and {noise_name}: {given} given; give exactly one, --epsilon to ask for the "
        f"{asked[0]} or {noise_name} to ask for the {asked[1]}"
    )


def as_object(answer: str, fields: Mapping[str, float | str | None]) -> str:
    """JSON with what was asked for in front."""
    return json.dumps({answer: fields[answer], **fields})


def _sentence(forward: bool, noise: str, promise: str, unit: str) -> str:
    relation = "is needed for" if forward else "gives"
    return f"{noise} {relation} {promise} per {unit}, between any two records of it."


def _diameter(sensitivity: float, norm: str) -> str:
    return (
        f"No two records may be farther apart than {exactly(sensitivity)} in the {norm} norm: the "
        "diameter of their domain, not its radius. Noise and diameter are in the same units."
    )


def rounded_up(value: float, rounded: bool = True) -> str:
    """Six digits rounded up, for losses and for noise; what the user gave stays as it is."""
    return at_most(value, 6) if rounded else exactly(value)


def rounded_down(value: float, rounded: bool = True) -> str:
    """Six digits rounded down, for probabilities of the truth and for lower bounds."""
    return at_least(value, 6) if rounded else exactly(value)
