"""Commands that choose a randomizer, and try to break it before anyone trusts it.

No PyTorch, but to read a pilot's model.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Exit, Option

from privot.cli.console import Force, SchemaFile, complain, note
from privot.errors import PrivotError
from privot.privacy.rounding import at_least, at_most

if TYPE_CHECKING:
    from privot.release import Randomizer
    from privot.release.audits.audit import RandomizerAudit


def calibrate(
    schema: SchemaFile,
    epsilon: Annotated[
        float | None, Option(help="Privacy loss of one person's whole report.")
    ] = None,
    output: Annotated[Path, Option("-o", "--output", help="Where to write it.")] = Path(
        "randomizer.json"
    ),
    delta: Annotated[float, Option(help="Needed by Gaussian noise only.")] = 0.0,
    report: Annotated[
        str, Option(help="auto, joint (one cell of several columns) or split.")
    ] = "auto",
    mechanism: Annotated[
        str | None,
        Option(help="auto, window, candidates, laplace, gaussian or planar_laplace."),
    ] = None,
    report_columns: Annotated[
        int | None, Option(help="Columns one person reports, drawn by fresh coins.")
    ] = None,
    share: Annotated[
        list[str] | None,
        Option(help="COLUMN=EPSILON: what of epsilon this column gets. May be repeated."),
    ] = None,
    noise: Annotated[
        float | None,
        Option(
            help="Instead of --epsilon: stddev (or scale, of laplace) of the noise on images and "
            "vectors, in units in which their bounds are -1 and 1."
        ),
    ] = None,
    pilot: Annotated[
        Path | None,
        Option(
            help="A model of the first people's reports: pairs that depend are asked more often."
        ),
    ] = None,
    as_json: Annotated[bool, Option("--json", help="Print the expected noise as JSON.")] = False,
    force: Force = False,
) -> None:
    """Choose the noise for a schema, before anyone reports, and write the randomizer.

    Example: privot calibrate schema.toml --epsilon 4 -o randomizer.json
    """
    from privot.files import claim_file
    from privot.release import Randomizer, state_noise
    from privot.schema import Schema

    claim_file(output, inputs=[schema], suffixes=(".json",), force=force)
    shares = _shares(share or [])
    if (epsilon is None) == (noise is None):
        raise PrivotError("give --epsilon, or --noise instead of it")
    if epsilon is not None:
        randomizer = Randomizer.calibrate(
            Schema.load(schema),
            epsilon,
            delta,
            report=report,
            mechanism=mechanism,
            report_columns=report_columns,
            shares=shares,
        )
    else:
        assert noise is not None
        if report_columns is not None or report == "joint":
            raise PrivotError("--noise is for columns all reported one by one: leave others out")
        randomizer = state_noise(
            Schema.load(schema), noise, delta, mechanism=mechanism or "gaussian", shares=shares
        )
    if pilot is not None:
        randomizer = _weighed(randomizer, pilot)
    if shares and report == "auto" and randomizer.joint is None:
        note("columns with --share are reported one by one, and so are all others")
    if output.exists() and output.read_bytes() != randomizer.to_json().encode() + b"\n":
        complain(
            f"warning: {output} is replaced: devices that hold the old one go on making its reports, "
            "which are collected and fitted apart from those of the new one"
        )
    randomizer.save(output)
    if randomizer.marginals_only:
        complain(
            "warning: one column a person identifies marginals only: for joint structure use 2"
        )
    expected = randomizer.expected_noise()
    if as_json:
        fields = {"guarantee": randomizer.guarantee.to_dict(), "expected_noise": expected}
        print(json.dumps(fields))
        return
    print(f"{output}: {randomizer.guarantee}")
    print(randomizer.guarantee.describe())
    print("expected noise:")
    for row in expected:
        print(f"  {row['column']}: {row['in_words']}")
        if "reason" in row:
            print(f"    {row['reason']}")


def _weighed(randomizer: Randomizer, pilot: Path) -> Randomizer:
    """Its forms weighed by the pairs of a pilot's model, which alone needs PyTorch."""
    from privot.local import LocalModel, pair_weights
    from privot.models import load
    from privot.release import weigh_pairs

    model = load(pilot)
    if not isinstance(model, LocalModel):
        raise PrivotError(
            f"--pilot {pilot} was not learned from reports: give a model by `privot fit`"
        )
    return weigh_pairs(randomizer, pair_weights(model))


def _shares(given: list[str]) -> dict[str, float]:
    shares = {}
    for text in given:
        column, equals, value = text.rpartition("=")
        if column in shares:
            raise PrivotError(f"--share names column {column!r} twice: give it one share")
        try:
            shares[column] = float(value)
        except ValueError:
            equals = ""
        if not equals or not column:
            raise PrivotError(f"--share {text!r} names no column and ε: write COLUMN=EPSILON")
    return shares


def sign(
    file: Annotated[Path, Argument(help="randomizer.json, or a panel.json.")],
    key: Annotated[Path, Option(help="An Ed25519 key, in PEM without a password.")],
    create: Annotated[bool, Option("--create", help="Make a fresh key first.")] = False,
) -> None:
    """Sign a randomizer or a panel, so that devices take it from nobody else; print the key to pin.

    A signature covers the bytes of one file, and nothing beside it.

    Example: privot sign randomizer.json --key signing.pem --create
    """
    from privot.release import Randomizer
    from privot.release.signing import new_key, public_key, read_key, signature_path
    from privot.release.signing import sign as sign_file
    from privot.waves import Panel

    try:
        Panel.load(file)
    except PrivotError:
        Randomizer.load(file)  # what is altered is not signed
    if create:
        new_key(key)
    holder = read_key(key)
    sign_file(file, holder)
    print(f"{signature_path(file)}: devices pin the public key {public_key(holder)}")


def audit(
    randomizer: Annotated[Path, Argument(help="The randomizer: randomizer.json.")],
    draws: Annotated[
        int | None, Option(help="Reports of each made-up record; 200,000 or fewer by default.")
    ] = None,
    confidence: Annotated[
        float, Option(help="Probability that an honest randomizer passes.")
    ] = 0.999,
    exact: Annotated[
        bool,
        Option(
            "--exact",
            help="Draw nothing: bound the likelihood ratio of any two records from above, as a "
            "rational number, from the integers that devices draw by.",
        ),
    ] = False,
    as_json: Annotated[bool, Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Test the law of the reports, bound their epsilon from below, and compare with the promise.

    Made-up people report, as on a device. Exit code 0 if nothing contradicts the promise, 1 if it is
    refuted. With --exact, 0 if the promise is proved of the published integers, 1 if they exceed it, 2
    if they are none that a proof is for.

    Example: privot audit randomizer.json
    """
    if exact:
        if draws is not None:
            raise PrivotError("--exact draws nothing: leave out --draws")
        from privot.cli.exact import audit_exactly

        raise Exit(audit_exactly(randomizer, as_json))
    from privot.release import Randomizer
    from privot.release.audits.audit import audit_randomizer, stated_guarantee

    loaded = Randomizer.load(randomizer)
    promised = stated_guarantee(randomizer.read_text(encoding="utf-8"))
    result = audit_randomizer(loaded, promised, num_draws=draws, confidence=confidence)
    if as_json:
        fields = {
            "refuted": result.refuted,
            "confidence": result.confidence,
            "promised": result.promised.to_dict(),
            "implied": result.implied.to_dict(),
            "tests": [asdict(test) | {"refuted": test.refuted} for test in result.tests],
            "columns": [asdict(column) | {"refuted": column.refuted} for column in result.columns],
        }
        print(json.dumps(fields))
        raise Exit(int(result.refuted))
    print(f"{randomizer}: promised {result.promised}")
    verdict = "more than promised: REFUTED" if result.overstated else "as promised"
    print(f"by arithmetic, its noise gives {result.implied}: {verdict}")
    _print_tests(result)
    _print_bounds(result)
    print(
        "What no audit finds: a leak too rare for these draws or for records that were not tried, code "
        "that behaves differently elsewhere, and whoever reads raw values before the noise."
    )
    print(f"{randomizer}: {'REFUTED' if result.refuted else 'no contradiction found'}")
    raise Exit(int(result.refuted))


def _print_tests(result: RandomizerAudit) -> None:
    print(
        f"by law, {len(result.tests)} questions; an honest randomizer passes this audit with "
        f"probability {at_least(result.confidence, 6)} at least:"
    )
    for test in result.tests:
        if test.refuted:
            answer = f"NO, REFUTED ({test.finding or f'chance at most {at_most(test.p_value, 1)}'})"
        else:
            answer = "no contradiction found"
        print(f"  {test.question}: {answer}")


def _print_bounds(result: RandomizerAudit) -> None:
    print(
        "by trial, what the reports of two records prove (a bound below the promise proves nothing):"
    )
    for column in result.columns:
        at_delta = f" at delta = {at_most(column.delta)}" if column.delta else ""
        verdict = "no contradiction found"
        if column.refuted:
            verdict = (
                f"REFUTED (by its law, reports tell records apart by e^{at_least(column.ratio)})"
            )
        apart = ""
        if column.mu is not None and column.mu_lower is not None:
            apart = f"mu at least {at_least(column.mu_lower)}, promised {at_most(column.mu)}; "
        print(
            f"  {column.column}: {apart}epsilon at least {at_least(column.epsilon_lower)}, promised "
            f"{at_most(column.epsilon)}{at_delta} ({column.mechanism}, {column.num_tested:,} tested "
            f"draws a record): {verdict}"
        )
