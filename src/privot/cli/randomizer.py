"""Commands on a randomizer: `privot calibrate`, `sign`, `privatize` and `audit`.

For sums by two servers, an encoder (`privot.aggregated`) takes the place of the randomizer. Only
`privot calibrate --pilot` needs PyTorch.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer import Argument, Exit, Option

import privot
from privot.cli import console
from privot.core.errors import PrivotError
from privot.core.files import claim_file, claim_folder, read_text, replacing_folder, require_place
from privot.device.exact import ExactLaw, Ratio, check_randomizer, exp_below
from privot.privacy.rounding import at_least, at_most
from privot.waves import Panel

if TYPE_CHECKING:
    from privot.aggregated import Encoder
    from privot.audit import RandomizerAudit


def calibrate(
    schema: console.SchemaFile,
    epsilon: float | None = Option(None, help="Privacy loss of one person's whole report."),
    output: Path = Option(Path("randomizer.json"), "-o", "--output", help="File to write."),
    delta: float = Option(0.0, help="For shuffled reports, two servers, and Gaussian noise only."),
    where: str | None = Option(None, help="local, shuffled, or aggregated by two servers."),
    people: console.People = None,
    proofs: console.Proofs = False,
    floor: console.Floor = None,
    report: str = Option("auto", help="auto, joint (one cell of several columns) or split."),
    mechanism: str | None = Option(None, help="auto, window, candidates, laplace or gaussian."),
    report_columns: console.ReportColumns = None,
    share: list[str] | None = Option(None, help="COLUMN=EPSILON of a column. May be repeated."),
    noise: float | None = Option(
        None,
        help="Standard deviation (with laplace, scale) of the noise on images and vectors, instead of "
        "--epsilon, in units in which their bounds are -1 and 1.",
    ),
    pilot: Path | None = Option(None, help="Pilot's model, whose dependent pairs are preferred."),
    as_json: bool = Option(False, "--json", help="Print the expected noise as JSON."),
    force: console.Force = False,
) -> None:
    """Choose the noise for a schema, before anyone reports, and write the randomizer.

    A schema that declares [promise] needs no --epsilon. If it promises sums by two servers, an encoder
    is written instead.

    Example: privot calibrate schema.toml --epsilon 4 -o randomizer.json
    """
    from privot.randomizer import randomizer_from_noise
    from privot.randomizer.integrity import with_campaign

    claim_file(output, inputs=[schema], suffixes=(".json",), force=force)
    shares = _read_shares(share or [])
    declared = privot.Schema.load(schema)
    if noise is not None and (declared.promise is not None or where or people or floor):
        raise PrivotError(
            "--noise promises what it gives: leave out [promise], --where, --people and --floor"
        )
    if declared.promise is None and (epsilon is None) == (noise is None):
        raise PrivotError("give --epsilon, or --noise instead of it, or declare [promise]")
    declared, epsilon, delta = console.with_promise(declared, epsilon, delta, where, people, floor)
    if epsilon is None and declared.promise and declared.promise.where == "aggregated":
        return _calibrate_encoder(declared, schema, output, force, proofs)
    if proofs:
        raise PrivotError("--proofs is for sums by two servers: promise where = 'aggregated'")
    if noise is None:
        randomizer = privot.Randomizer.calibrate(
            declared,
            epsilon,
            delta,
            report=report,
            mechanism=mechanism,
            report_columns=report_columns,
            shares=shares,
        )
    else:
        if report_columns is not None or report == "joint":
            raise PrivotError("--noise is for columns all reported one by one: leave others out")
        randomizer = randomizer_from_noise(
            declared, noise, delta, mechanism=mechanism or "gaussian", shares=shares
        )
    if pilot is not None:
        randomizer = _weighted_by_pilot(randomizer, pilot)
    if declared.promise and declared.promise.where == "shuffled":
        # What was sealed for it is refused by other campaigns.
        randomizer = privot.Randomizer.from_json(with_campaign(randomizer.to_json()))
    if shares and report == "auto" and randomizer.joint is None:
        console.note("columns with --share are reported one by one, and so are all others")
    if output.exists() and output.read_bytes() != randomizer.to_json().encode() + b"\n":
        console.complain(
            f"warning: {output} is replaced: devices that hold the old one go on making its reports, "
            "which are collected and fitted apart from those of the new one"
        )
    randomizer.save(output)
    if randomizer.marginals_only:
        console.complain(
            "warning: one column a person identifies marginals only: for joint structure use 2"
        )
    expected = randomizer.expected_noise()
    if as_json:
        print(json.dumps({"guarantee": randomizer.guarantee.to_dict(), "expected_noise": expected}))
        return
    print(f"{output}: {randomizer.guarantee}")
    print(randomizer.guarantee.describe())
    if declared.promise is not None and declared.promise.people:
        batch = randomizer.batch_guarantee(declared.promise.people)
        print(f"a batch of {declared.promise.people:,} reports: {batch}")
        print(batch.describe())
    print("expected noise:")
    for row in expected:
        print(f"  {row['column']}: {row['in_words']}")
        if "reason" in row:
            print(f"    {row['reason']}")


def _weighted_by_pilot(randomizer: privot.Randomizer, pilot: Path) -> privot.Randomizer:
    """Return a randomizer that reports pairs of columns more often if they depend more in a pilot."""
    from privot.local import pair_weights
    from privot.randomizer import weight_pairs

    model = console.load_local(pilot, "give --pilot a model by `privot fit`")
    return weight_pairs(randomizer, pair_weights(model))


def _read_shares(arguments: list[str]) -> dict[str, float]:
    """Return the ε of each column that `--share` names."""
    shares = {}
    for text in arguments:
        column, _, value = text.rpartition("=")
        if column in shares:
            raise PrivotError(f"--share names column {column!r} twice: give it one share")
        try:
            share = float(value)
        except ValueError:
            column = ""
        if not column:
            raise PrivotError(f"--share {text!r} names no column and ε: write COLUMN=EPSILON")
        shares[column] = share
    return shares


def _calibrate_encoder(
    schema: privot.Schema, path: Path, output: Path, force: bool, proofs: bool
) -> None:
    """Choose the noise of two servers, and write the encoder; `path` is the file of the schema."""
    from privot.aggregated import Encoder

    if output.name == "randomizer.json":
        output = output.with_name("encoder.json")
    claim_file(output, inputs=[path], suffixes=(".json",), force=force)
    encoder = Encoder.calibrate(schema, proofs=proofs)
    encoder.save(output)
    guarantee = encoder.guarantee(encoder.people)
    print(f"{output}: {guarantee}")
    print(guarantee.describe())
    leader, helper = (encoder.share_length(role) for role in ("leader", "helper"))
    print(f"shares of a record: {leader:,} bytes for the leader, {helper:,} for the helper")


def sign(
    file: Path = Argument(help="randomizer.json, or a panel.json."),
    key: Path = Option(help="Private Ed25519 key, in PEM without a password."),
    create: bool = Option(False, "--create", help="Make a fresh key first."),
) -> None:
    """Sign a randomizer or a panel, and print the public key, which devices pin to verify it.

    A signature covers the bytes of this file alone.

    Example: privot sign randomizer.json --key signing.pem --create
    """
    from privot.randomizer.integrity import new_key, public_key, read_key, signature_path
    from privot.randomizer.integrity import sign as sign_file

    try:
        Panel.load(file)
    except PrivotError:
        privot.Randomizer.load(file)  # refuses a file that is neither, or was altered
    if create:
        new_key(key)
    private_key = read_key(key)
    sign_file(file, private_key)
    print(f"{signature_path(file)}: devices pin the public key {public_key(private_key)}")


def privatize(
    table: Path = Argument(
        help="Raw records: csv, csv.gz, parquet, npz, a folder of files; - for CSV on a pipe."
    ),
    randomizer: Path = Option(..., "-r", "--randomizer", help="randomizer.json."),
    output: Path = Option(
        Path("release.parquet"),
        "-o",
        "--output",
        help="Release to write: parquet, csv, csv.gz; a folder (no suffix) for shards; "
        "- for CSV on a pipe.",
    ),
    resume: bool = Option(
        False, "--resume", help="Continue a killed run; resend the same reports to a pipe."
    ),
    discard: bool = Option(
        False,
        "--discard",
        help="Discard the stored reports of a stopped run, and noise afresh. People whose first reports "
        "were passed on have then reported twice, and spent the budget twice.",
    ),
    shard_rows: int | None = Option(None, help="Approximate number of records of a shard."),
    separator: console.Separator = ",",
    ignore: console.Ignore = None,
) -> None:
    """Noise every record with fresh randomness; only the result may leave the device.

    Reports come in random order. A second run on the same records makes second reports, and spends the
    budget twice: an output that exists is refused, and --resume noises only what a killed run lacks.
    Reports for a pipe are stored in $PRIVOT_STATE_DIR or ~/.local/state/privot until all are sent.

    With an encoder in place of the randomizer, a folder of shares for two servers is written.

    Example: privot privatize people.csv --randomizer randomizer.json -o release.parquet
    """
    from privot.randomizer.privatize import privatize_records
    from privot.randomizer.publishing import Leftover
    from privot.tables.record_files import open_records

    to_pipe = str(output) == "-"
    if not to_pipe:
        require_place(output, [path for path in (table, randomizer) if str(path) != "-"])
    form = console.record_form(separator, ignore)
    if resume and discard:
        raise PrivotError("--resume and --discard exclude each other: give one")
    leftover: Leftover = "resume" if resume else "discard" if discard else "refuse"
    if (encoder := _encoder_in(randomizer)) is not None:
        return _encode_records(encoder, table, output, [table, randomizer])
    loaded = privot.Randomizer.load(randomizer)
    with console.row_bar() as progress:
        privatized = privatize_records(
            loaded,
            open_records(table, loaded.schema, form),
            sys.stdout.buffer if to_pipe else output,
            leftover=leftover,
            part_rows=shard_rows,
            progress=progress,
            log=console.note,
        )
    counts = privatized.outside.items()
    outside = ", ".join(f"{number:,} of {name}" for name, number in counts if number)
    if outside:
        console.note(
            f"values outside their bounds were moved to them: {outside}. "
            "This count is not private: it is for you, and not in the release."
        )
    resumed = privatized.resumed_rows
    before = f" ({resumed:,} of them by the run before)" if resumed else ""
    say = console.note if to_pipe else print  # on a pipe, standard output has the reports
    say(f"{output}: {privatized.num_rows:,} reports{before}, {loaded.guarantee}")


def _encoder_in(path: Path) -> Encoder | None:
    """Return the encoder in a file; None if the file contains something else, such as a randomizer."""
    # Only an encoder's JSON has a query. The caller reads any other file as a randomizer.
    if not path.is_file() or b'"query":{' not in path.read_bytes():
        return None
    from privot.aggregated import Encoder

    return Encoder.load(path)


def _encode_records(encoder: Encoder, table: Path, output: Path, inputs: Sequence[Path]) -> None:
    """Write a folder with a file of shares for each server, of records in random order."""
    import numpy as np

    from privot.aggregated.shares import ROLES
    from privot.central.fitting import raw_table

    claim_folder(output, ("*.shares",), inputs=inputs)
    records = raw_table(table, encoder.schema)
    records = records.take(np.random.default_rng().permutation(records.num_rows))
    with replacing_folder(output, secret=True) as draft:
        leader, helper = (draft / f"{role}.shares" for role in ROLES)
        with leader.open("wb") as first, helper.open("wb") as second:
            for shares in encoder.encode_table(records):
                first.write(shares[0])
                second.write(shares[1])
    print(f"{output}: shares of {records.num_rows:,} records; send each file to its own server")


def audit(
    randomizer: Path = Argument(help="The randomizer: randomizer.json."),
    draws: int | None = Option(None, help="Reports of each record; at most 200,000 by default."),
    confidence: float = Option(0.999, help="Probability that an honest randomizer passes."),
    exact: bool = Option(
        False,
        "--exact",
        help="Draw nothing, but compute a rational upper bound of the likelihood ratio of any two "
        "records, from the published integers by which devices draw.",
    ),
    as_json: bool = Option(False, "--json", help="Print the result as JSON."),
) -> None:
    """Test the distribution of reports, bound their epsilon from below, and compare with the promise.

    Reports of made-up records are drawn as on a device. The exit code is 0 if nothing contradicts the
    promise, 1 if it is refuted. With --exact, it is 0 if the published integers are proved to keep the
    promise, 1 if they exceed it, and 2 if no proof is known for such integers.

    Example: privot audit randomizer.json
    """
    if exact:
        if draws is not None:
            raise PrivotError("--exact draws nothing: leave out --draws")
        raise Exit(_audit_exactly(randomizer, as_json))
    from privot.audit import audit_randomizer, stated_guarantee

    loaded = privot.Randomizer.load(randomizer)
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
    """Print the outcome of each test of the distribution."""
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
    """Print the lower bounds of each column's privacy loss, beside what is promised."""
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
        mu = ""
        if column.mu is not None and column.mu_lower is not None:
            mu = f"mu at least {at_least(column.mu_lower)}, promised {at_most(column.mu)}; "
        print(
            f"  {column.column}: {mu}epsilon at least {at_least(column.epsilon_lower)}, promised "
            f"{at_most(column.epsilon)}{at_delta} ({column.mechanism}, {column.num_tested:,} tested "
            f"draws a record): {verdict}"
        )


# `privot audit --exact` reads the published file alone, by the code with which a device checks it, and
# not by the code that calibrated it.

_DIGITS = 15  # decimal digits that a double represents


def _audit_exactly(path: Path, as_json: bool) -> int:
    """Print the exact likelihood ratios beside the promise; return the exit code."""
    law = check_randomizer(read_text(path, "randomizer"))
    if as_json:
        print(json.dumps(_law_fields(law)))
        return int(not law.holds)
    print(
        f"{path}: promised epsilon {law.epsilon!r}, e^epsilon is {_exp_text(law.epsilon)} at least"
    )
    print("likelihood ratios of any two records, exactly, from the integers that devices draw by:")
    for part in (*law.always, *law.split):
        blocks = "" if part.blocks == 1 else f", {part.blocks} blocks"
        print(f"  {part.name} ({part.draw}{blocks}): {_ratio_text(part.ratio)}")
    if law.choose < len(law.split):
        print(
            f"  of {len(law.split)} columns a report holds {law.choose}: those of the largest count"
        )
    print(f"in all, their product: {_ratio_text(law.total)}")
    print(f"{path}: {'as promised, PROVED' if law.holds else 'more than promised: REFUTED'}")
    return int(not law.holds)


def _decimal(number: Fraction, rounding: str) -> str:
    """Format a positive number with 15 digits, rounded up or down.

    >>> _decimal(Fraction(1, 3), ROUND_CEILING), _decimal(Fraction(1, 3), ROUND_FLOOR)
    ('0.333333333333334', '0.333333333333333')
    """
    context = Context(prec=_DIGITS, rounding=rounding)
    return str(context.divide(Decimal(number.numerator), Decimal(number.denominator)))


def _exp_text(epsilon: float) -> str:
    """Format a lower bound of e^ε."""
    return _decimal(exp_below(Fraction(epsilon)), ROUND_FLOOR)


def _ratio_text(ratio: Ratio) -> str:
    """Format a likelihood ratio: its factor, its power of e, and its upper bound if it has one."""
    factors = [str(ratio.factor)] if ratio.factor != 1 or not ratio.exponent else []
    factors += [f"e^({ratio.exponent})"] if ratio.exponent else []
    bound = _ratio_fields(ratio)["at_most"]
    return " * ".join(factors) + ("" if bound is None else f", at most {bound}")


def _ratio_fields(ratio: Ratio) -> dict[str, str | None]:
    """Return the JSON fields of a likelihood ratio."""
    return {
        "factor": str(ratio.factor),
        "exponent": str(ratio.exponent),
        "at_most": None if ratio.above is None else _decimal(ratio.above, ROUND_CEILING),
    }


def _law_fields(law: ExactLaw) -> dict[str, Any]:
    """Return the JSON fields of an exact law."""
    parts = [
        {"name": part.name, "draw": part.draw, "blocks": part.blocks} | _ratio_fields(part.ratio)
        for part in (*law.always, *law.split)
    ]
    return {
        "refuted": not law.holds,
        "epsilon": law.epsilon,
        "promised_at_least": _exp_text(law.epsilon),
        "parts": parts,
        "split": len(law.split),
        "choose": law.choose,
        "total": _ratio_fields(law.total),
    }
