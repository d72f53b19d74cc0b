"""Sharing one person's budget between joint report, candidates report and the columns split from them.

All are reports of the same person, so their losses add up (basic composition).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import accumulate
from typing import Any

from privot.core.errors import PrivotError
from privot.mechanisms import (
    Gaussian,
    Mechanism,
    RandomizedResponse,
    choose_mechanism,
    compare_mechanisms,
)
from privot.mechanisms.choice import takes_points
from privot.mechanisms.mechanism import mechanism_kind, mechanism_kinds
from privot.privacy import (
    ApproximateDP,
    Guarantee,
    PureDP,
    calibrate_gaussian,
    compose,
    gaussian_delta,
    gaussian_epsilon,
)
from privot.privacy.rounding import LARGEST_EPSILON, check_delta, round_up, sum_up
from privot.randomizer.information import choose_forms
from privot.randomizer.reports.candidates import (
    CANDIDATES,
    FEW_COORDINATES,
    INDEX,
    SEED,
    CandidatesReport,
    better_than_laplace,
    choose_columns,
    reason_beside_others,
)
from privot.randomizer.reports.joint import CELLS, SHEET, JointReport, Questionnaire
from privot.randomizer.reports.rows import REPORT_ID
from privot.randomizer.reports.split import SplitReport
from privot.schema import Column, Schema

# Sharing one person's budget among the columns that are reported one by one.
#
# With k of the columns in a report, each pure mechanism gets $ε/k$: the reported columns are drawn
# independently of the record, so whichever k they are, their losses add up to at most ε.
#
# Gaussian columns are one joint Gaussian mechanism. Column i alone has the privacy parameter
# $μ_i = Δ_i/σ_i$; j of them together have $(\sum μ_i^2)^{1/2}$, so with equal shares $μ$ a report of j
# Gaussian and k−j pure columns is $(ε, δ)$-private if
#
# $$ \sqrt{j}\, μ ≤ μ(jε/k, δ), $$
#
# where $μ(ε, δ)$ solves the exact formula of Balle and Wang (2018). The column's noise satisfies this
# for every j that can occur.
#
# **Shares.** Where all columns are reported, some may be given an ε of their own, and the others share
# what is left as above. Losses of different mechanisms add up all the same: with an (ε_1, δ)-private
# Gaussian image and an ε_2-private label, the report is (ε_1 + ε_2, δ)-private (basic composition).
#
# References:
#     Balle, Wang, *Improving the Gaussian mechanism for differential privacy* (2018).
#     Dong, Roth, Su, *Gaussian differential privacy* (2022), for the composition of Gaussians.


_HAIR = 1 + 2.0**-38


def require_budget(epsilon: float, delta: float) -> None:
    """Refuse an ε or δ that is out of range."""
    if not isinstance(epsilon, int | float) or not 0 < epsilon <= LARGEST_EPSILON:
        raise PrivotError(
            f"epsilon {epsilon} promises nothing: give a number > 0, at most {LARGEST_EPSILON:g}"
        )
    check_delta(delta)


def require_kind(mechanism: str, delta: float) -> None:
    """Refuse a mechanism that nobody knows, or a δ that does not fit it."""
    known = ["auto", *(kind for kind, cls in mechanism_kinds().items() if cls.by_kind)]
    if mechanism not in known:
        raise PrivotError(f"mechanism {mechanism!r} is not known: use one of {', '.join(known)}")
    pure = mechanism == "auto" or mechanism_kind(mechanism).pure
    if not pure and not mechanism_kind(mechanism).shares_delta:
        raise PrivotError(
            f"mechanism {mechanism!r} spends δ, and how columns share one is known of 'gaussian' only: "
            "use that, or make a Randomizer of mechanisms"
        )
    if not pure and delta == 0:
        raise PrivotError(
            f"delta 0 cannot be had with mechanism {mechanism!r}: give delta > 0, or use 'laplace'"
        )
    if pure and delta > 0:
        raise PrivotError(
            f"delta {delta} is not needed by mechanism {mechanism!r}, which is pure: leave it out, "
            "or use 'gaussian'"
        )


def calibrate_columns(
    schema: Schema,
    names: Sequence[str],
    epsilon: float,
    delta: float,
    mechanism: str,
    num_reported: int,
    shares: Mapping[str, float] | None = None,
) -> dict[str, Mechanism]:
    """One mechanism for each of the columns `names`, such that any k are (ε, δ)-private together.

    `shares` are the ε of some pure columns; then all columns must be reported.
    """
    require_budget(epsilon, delta)
    require_kind(mechanism, delta)
    columns, shares = {name: schema.columns[name] for name in names}, shares or {}
    kinds = {name: kind_for(column, name, mechanism) for name, column in columns.items()}
    shared = [
        name for name, kind in kinds.items() if kind != "auto" and not mechanism_kind(kind).pure
    ]
    if shares:
        _check_shares(shares, names, shared, epsilon, num_reported)
    # Rounded down, so that shares, each rounded (by as much as large ones are), stay within ε.
    left, sharing = epsilon - math.fsum(shares.values()), num_reported - len(shares)
    share = math.nextafter((left - epsilon * 2.0**-50 * bool(shares)) / sharing, 0.0)
    mechanisms: dict[str, Mechanism] = {}
    for name, kind in kinds.items():
        own = shares.get(name, share)
        if kind == "auto":
            alone = len(schema.columns) == 1
            mechanisms[name] = choose_mechanism(columns[name], own, alone=alone).mechanism
        elif name not in shared:
            mechanisms[name] = mechanism_kind(kind).for_column(columns[name], own)
    if not shared:
        return mechanisms
    # The roundings of many columns may add up: a hair more noise settles it, as is checked.
    pure = len(names) - len(shared) - len(shares)
    multiplier = _shared_multiplier(len(shared), pure, share, delta, sharing) * _HAIR
    while True:
        for name in shared:
            domain = columns[name].domain
            assert domain is not None
            mechanisms[name] = Gaussian.of_multiplier(domain, multiplier)
        if split_guarantee(schema, mechanisms, num_reported, delta).epsilon <= epsilon:
            return {name: mechanisms[name] for name in names}
        multiplier *= _HAIR


def kind_for(column: Column, name: str, mechanism: str) -> str:
    """The kind of mechanism of a column, where one is asked for that may not be for all columns.

    Columns that are no points, such as categories, are reported by randomized response.

    Raises:
        PrivotError: if the column is of points, and the mechanism is not for it.
    """
    if mechanism == "auto" or not (reason := mechanism_kind(mechanism).unfit(column)):
        return mechanism
    if column.domain is None:
        return RandomizedResponse.kind
    raise PrivotError(f"mechanism {mechanism!r} is not for column {name!r}: {reason}, or 'auto'")


def with_reasons(
    schema: Schema, mechanisms: Mapping[str, Mechanism], rows: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Rows of what to expect of each `column`, those of pure mechanisms of points with a `reason`."""
    for row in rows:
        mechanism = mechanisms.get(row["column"])
        if mechanism is not None and mechanism.pure and not mechanism.takes_codes:
            column, alone = schema.columns[row["column"]], len(schema.columns) == 1
            spent = mechanism.guarantee(column.domain).epsilon
            row["reason"] = compare_mechanisms(column, mechanism, spent, alone=alone)
            row["reason"] += reason_beside_others(schema, row["column"])
    return rows


def _check_shares(
    shares: Mapping[str, float],
    names: Sequence[str],
    shared: Sequence[str],
    epsilon: float,
    num_reported: int,
) -> None:
    """Refuse shares that are not of `names`, or leave nothing of `epsilon` to the others."""
    for name, share in shares.items():
        if name not in names or name in shared:
            raise PrivotError(
                f"shares name column {name!r}, which "
                + ("gets what is left: its noise is Gaussian" if name in shared else "is unknown")
                + f": name some of {[n for n in names if n not in shared]}"
            )
        if not isinstance(share, int | float) or not 0 < share < epsilon:
            raise PrivotError(
                f"share {share} of column {name!r} is not between 0 and ε = {epsilon}"
            )
    if num_reported < len(names):
        raise PrivotError(
            f"shares need all columns reported, report_columns is {num_reported}: leave one out"
        )
    if len(shares) == len(names) or not math.fsum(shares.values()) < epsilon:
        raise PrivotError(
            f"shares {dict(shares)} leave nothing of ε = {epsilon}, or no column to take it: leave at "
            "least one column out, and give less than ε"
        )


def _shared_multiplier(
    points: int, pure: int, share: float, delta: float, num_reported: int
) -> float:
    """The largest of √j σ(jε/k, δ), j = Gaussian columns of a report, for sensitivity 1."""
    most = min(num_reported, points)
    least = max(1, num_reported - pure)
    multiplier = 0.0
    for j in range(least, most + 1):
        root = math.sqrt(j)
        # One evaluation tells whether the noise so far is enough for j columns.
        if multiplier == 0 or gaussian_delta(multiplier, root, j * share) > delta:
            multiplier = root * calibrate_gaussian(1.0, j * share, delta)
    return multiplier


def split_guarantee(
    schema: Schema, mechanisms: Mapping[str, Mechanism], num_reported: int, delta: float
) -> PureDP | ApproximateDP:
    """What any `num_reported` columns promise together, from their noise alone; ε is rounded up.

    Raises:
        PrivotError: if a mechanism does not fit its column, or needs δ > 0 and there is none.
    """
    multipliers: list[float] = []
    losses: list[float] = []
    for name, mechanism in mechanisms.items():
        column = schema.columns[name]
        if not mechanism.fits(column):
            raise PrivotError(
                f"mechanism {mechanism.kind!r} does not fit column {name!r} as the schema declares it "
                f"({column.kind}): calibrate again"
            )
        mu = None if column.domain is None else mechanism.gaussian_mu(column.domain)
        if mu is None:
            spent = mechanism.guarantee(column.domain)
            if not isinstance(spent, PureDP):
                raise PrivotError(
                    f"mechanism {mechanism.kind!r} of column {name!r} spends δ and is not Gaussian, "
                    "whose shares alone add up: report the column by another"
                )
            losses.append(spent.epsilon)
        else:
            multipliers.append(mu)
    multipliers.sort(reverse=True)
    losses.sort(reverse=True)
    if not multipliers:
        return PureDP(sum_up(losses[:num_reported]), unit=schema.unit)
    if delta == 0:
        raise PrivotError("delta 0 cannot be had with Gaussian noise: state the delta")
    # Exact sums of the k largest pure losses, and what j Gaussian columns add to k−j of them.
    pure = list(accumulate(map(Fraction, losses), initial=Fraction(0)))
    worst = 0.0
    for j in range(max(0, num_reported - len(losses)), min(num_reported, len(multipliers)) + 1):
        rest = pure[num_reported - j]
        if not j:
            worst = round_up(rest)
            continue
        joint = math.hypot(*multipliers[:j]) * (1 + 2.0**-50)
        # One evaluation tells whether j columns stay below the worst so far.
        left = float(Fraction(worst) - rest) * (1 - 2.0**-50)
        if left <= 0 or gaussian_delta(1.0, joint, left) > delta:
            worst = max(worst, round_up(Fraction(gaussian_epsilon(1.0, joint, delta)) + rest))
    return ApproximateDP(worst, delta, unit=schema.unit)


REPORTS = ("auto", "joint", "split")


@dataclass(frozen=True)
class Budget:
    """What a randomizer is made of: see `privot.randomizer.randomizer.Randomizer`."""

    mechanisms: dict[str, Mechanism]
    report_columns: int | None
    joint: JointReport | None
    candidates: CandidatesReport | None = None


def share_budget(
    schema: Schema,
    epsilon: float,
    delta: float,
    report: str,
    mechanism: str | None,
    report_columns: int | None,
    shares: Mapping[str, float] | None = None,
) -> Budget:
    """Mechanisms and a joint report that are (`epsilon`, `delta`)-private together.

    With `shares`, all columns are split. Otherwise the joint report gets as much of ε as each column
    that is split from it.
    """
    budget = _share(schema, epsilon, delta, report, mechanism, report_columns, shares or {})
    num_reported = budget.report_columns or len(budget.mechanisms)
    parts = (budget.mechanisms, budget.joint, budget.candidates)
    promised = promise(schema, *parts, num_reported, delta)
    # Every step rounds to the safe side; what is promised is checked again, from the noise.
    if promised.epsilon > epsilon:
        raise PrivotError(
            f"epsilon {epsilon} could not be reached (noise gives {promised.epsilon}): "
            "please report this as a bug"
        )
    return budget


def _share(
    schema: Schema,
    epsilon: float,
    delta: float,
    report: str,
    mechanism: str | None,
    report_columns: int | None,
    shares: Mapping[str, float],
) -> Budget:
    if report not in REPORTS:
        raise PrivotError(f"report {report!r} is not known: use one of {', '.join(REPORTS)}")
    require_budget(epsilon, delta)
    epsilon, delta = float(epsilon), float(delta)
    whole = report != "split" and report_columns is None and not shares
    if seeded := _with_candidates(schema, epsilon, delta, mechanism) if whole else None:
        return seeded
    if mechanism == CANDIDATES:
        raise PrivotError(
            f"mechanism {mechanism!r} is for one image, or one vector of more than {FEW_COORDINATES} "
            "numbers, in a report of its own, with or without a label: use 'auto'"
        )
    if mechanism is not None:
        require_kind(mechanism, delta)
    # A vector is in a cell of the joint report, unless it is alone or has a mechanism of its own.
    named = [name for name in schema.coded if name not in schema.vectors]
    coded = {n: c for n, c in schema.coded.items() if n in named or (named and mechanism is None)}
    if report == "auto":
        joint = _joined(schema, named) and not (mechanism or shares)
        report = "joint" if joint else "split"
    if report == "split":
        _require_count(report_columns, len(schema.columns))
        columns, k = list(schema.columns), report_columns or len(schema.columns)
        mechanisms = calibrate_columns(
            schema, columns, epsilon, delta, mechanism or "auto", k, shares
        )
        return Budget(mechanisms, report_columns, None)
    if shares:
        raise PrivotError("shares are of columns reported one by one: use report 'split'")
    if not coded:
        raise PrivotError("report 'joint' needs columns of a table, the schema has vectors only")
    codings = {n: tuple(a.size for a in column.codings) for n, column in coded.items()}
    apart = [name for name in schema.columns if name not in coded]
    if not apart:
        if mechanism is not None:
            raise PrivotError(
                f"mechanism {mechanism!r} would be ignored: a joint report of a table has its own; "
                "leave it out, or use report 'split'"
            )
        if delta > 0:
            raise PrivotError(f"delta {delta} is not needed by a joint report: leave it out")
        return Budget({}, None, _joint(codings, report_columns, epsilon))
    # One step down, so that the shares, each rounded, cannot add up to more than ε.
    share = math.nextafter(epsilon / (len(apart) + 1), 0.0)
    joint_report = _joint(codings, report_columns, share)
    rest = math.nextafter(epsilon - share, 0.0)
    mechanisms = calibrate_columns(schema, apart, rest, delta, mechanism or "auto", len(apart))
    return Budget(mechanisms, None, joint_report)


def _joined(schema: Schema, named: Sequence[str]) -> bool:
    """Whether a table's columns, of which some are `named`, are one report by default."""
    # A label is learned with its image, from reports of both.
    if not named or (schema.images and len(named) == 1):
        return False
    # A lone number or date is a point: bins that nobody declared would only blur it.
    first, *others = schema.columns.values()
    return bool(others) or first.declares_codes or not takes_points(first)


def _with_candidates(
    schema: Schema, epsilon: float, delta: float, mechanism: str | None
) -> Budget | None:
    """A candidates report of a column and its label, which are the whole schema.

    None where another mechanism is named, or candidates do not serve.
    """
    chosen = choose_columns(schema)
    if mechanism not in (None, "auto", CANDIDATES) or chosen is None:
        return None
    if delta > 0:
        raise PrivotError(
            f"delta {delta} is not needed by a candidates report, which is pure: leave it out, or use "
            "mechanism 'gaussian'"
        )
    candidates = CandidatesReport.calibrate(schema, *chosen, epsilon)
    if mechanism != CANDIDATES and not better_than_laplace(candidates):
        return None
    return Budget({}, None, None, candidates)


def promise(
    schema: Schema,
    mechanisms: Mapping[str, Mechanism],
    joint: JointReport | None,
    candidates: CandidatesReport | None,
    num_reported: int,
    delta: float,
) -> PureDP | ApproximateDP:
    """What all parts promise together, from their noise; `num_reported` are of the split columns."""
    if not 0 <= delta < 1:
        raise PrivotError(f"delta {delta} is not a small probability: give 0 ≤ delta < 1")
    parts: list[PureDP | ApproximateDP] = []
    if joint is not None:
        parts.append(PureDP(joint.epsilon, unit=schema.unit))
    if candidates is not None:
        parts.append(candidates.guarantee(schema.unit))
    if mechanisms:
        parts.append(split_guarantee(schema, mechanisms, num_reported, delta))
    together: PureDP | ApproximateDP = compose(*parts)
    return together


def require_promise(stated: Guarantee, computed: PureDP | ApproximateDP) -> None:
    """Refuse promises that disagree by more than what another machine's logarithm rounds differently."""
    agree = False
    if isinstance(stated, PureDP | ApproximateDP) and type(stated) is type(computed):
        rest = replace(stated, epsilon=computed.epsilon) == computed
        agree = rest and math.isclose(stated.epsilon, computed.epsilon, rel_tol=1e-9)
    if not agree:
        raise PrivotError(
            f"the randomizer states {stated}, its noise gives {computed}: calibrate again with "
            "`privot calibrate`"
        )


def require_cover(
    schema: Schema,
    mechanisms: Mapping[str, Mechanism],
    joint: JointReport | None,
    candidates: CandidatesReport | None,
    report_columns: int | None,
) -> None:
    """Refuse a randomizer that does not report every column of the schema, as declared, once."""
    codings = {} if joint is None else joint.asked.codings
    seeded = [] if candidates is None else candidates.columns
    if sorted([*mechanisms, *codings, *seeded]) != sorted(schema.columns):
        raise PrivotError(
            f"mechanisms are for columns {sorted(mechanisms)}, the joint report for {sorted(codings)} "
            f"and candidates for {sorted(seeded)}, the schema has {sorted(schema.columns)}: cover each "
            "once"
        )
    # Columns are numbered in the schema's order wherever reports are read.
    joined = {n: c for n, c in schema.coded.items() if n not in seeded}
    whole = not joined.keys() & mechanisms.keys() - schema.vectors.keys()
    tabular = [name for name in joined if name not in mechanisms] if whole else []
    if joint is not None and list(codings) != tabular:
        raise PrivotError(
            f"the joint report has columns {list(codings)}, the schema's table {list(joined)}: report "
            "all of them together, in this order, or all of them split; vectors may be apart"
        )
    for name, sizes in codings.items():
        if tuple(coding.size for coding in schema.coded[name].codings) != sizes:
            raise PrivotError(
                f"column {name!r} of the joint report is not as the schema declares it: "
                "calibrate again"
            )
    _require_count(report_columns, len(mechanisms))
    splits = [SplitReport(n, schema.columns[n], m) for n, m in mechanisms.items()]
    parts = [p for split in splits if split.mechanism.fits(split.column) for p in split.types]
    repeated = sorted({part for part in parts if parts.count(part) > 1})
    if repeated:
        raise PrivotError(
            f"columns {repeated} are what a release calls the flags of what may be missing, or the "
            "places on a curve: give the schema's columns other names"
        )
    if taken := {SHEET, CELLS, SEED, INDEX, REPORT_ID} & {*schema.table_columns, *parts}:
        raise PrivotError(
            f"columns {sorted(taken)} are what a release calls its joint reports, candidates and ids: "
            "give the schema's columns other names"
        )


def _require_count(report_columns: int | None, total: int) -> None:
    if report_columns is None:
        return
    if type(report_columns) is not int or not 1 <= report_columns <= total:
        raise PrivotError(
            f"report_columns {report_columns} is not between 1 and the {total} columns that are split"
        )


def _joint(
    codings: Mapping[str, tuple[int, ...]], report_columns: int | None, epsilon: float
) -> JointReport:
    if report_columns is None:
        forms = choose_forms([max(sizes) for sizes in codings.values()], epsilon)
        return JointReport(Questionnaire(codings, *forms), epsilon)
    return JointReport(Questionnaire.uniform(codings, report_columns), epsilon)
