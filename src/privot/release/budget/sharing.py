"""Sharing one person's budget between joint report, candidates report and the columns split from them.

All are reports of the same person, so their losses add up (basic composition).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from privot.errors import PrivotError
from privot.mechanisms import Mechanism
from privot.mechanisms.choice import takes_points
from privot.privacy import ApproximateDP, Guarantee, PureDP, compose
from privot.release.budget.forms import choose_forms
from privot.release.budget.split_columns import (
    calibrate_columns,
    require_budget,
    require_kind,
    split_guarantee,
)
from privot.release.reports.candidates import (
    CANDIDATES,
    FEW_COORDINATES,
    INDEX,
    SEED,
    CandidatesReport,
    better_than_laplace,
    choose_columns,
)
from privot.release.reports.ids import REPORT_ID
from privot.release.reports.joint import CELLS, SHEET, JointReport
from privot.release.reports.questionnaire import Questionnaire
from privot.release.reports.split import SplitReport
from privot.schema import Schema

REPORTS = ("auto", "joint", "split")


@dataclass(frozen=True)
class Budget:
    """What a randomizer is made of: see `privot.release.randomizer.Randomizer`."""

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
