r"""Budget of a report: its division among parts, and the local ε₀ that a promise of batches allows.

The privacy losses of the parts add up, since they are about the same person (basic composition).

**Split columns.** If a report has k columns, each pure mechanism gets $ε/k$. The columns are drawn
independently of the record, so the losses of any k columns add up to at most ε.

Gaussian columns together are one Gaussian mechanism. Column i, of sensitivity $Δ_i$ and noise $σ_i$, has
the privacy parameter $μ_i = Δ_i/σ_i$, and j columns together have $(\sum μ_i^2)^{1/2}$. So with equal
$μ_i = μ$, a report of j Gaussian and k−j pure columns is $(ε, δ)$-private if

$$ \sqrt{j}\, μ ≤ μ(jε/k, δ), $$

where $μ(ε, δ)$ is the largest parameter of an (ε, δ)-private Gaussian mechanism, by the exact formula of
Balle and Wang (2018). The noise of Gaussian columns satisfies this for every j that can occur.

**Shares.** If all columns are reported, the user may set the ε of some, and the others share the rest as
above. An (ε_1, δ)-private Gaussian image with an ε_2-private label is (ε_1 + ε_2, δ)-private.

**Shuffled reports.** A promise (`privot.schema.schema`) declares ε, δ and the least number of people of
a batch, and possibly a *floor*: the largest ε₀ of one report. The largest ε₀ that satisfies it is
calibrated (`most_accurate_shuffled`), and batches have a guarantee (`shuffled_guarantee`).

**Privacy review** of shuffled reports. Adjacency: batches of equal size that differ in the record of one
unit; if there are several batches, in the unit's record in each. The analyst sees the set of accepted
reports, in random order and without senders. ε is computed from the number of *accepted* reports, so it
is larger if reports are dropped or delayed. Batches with fewer reports than the promise's number of
people are refused. That number is of honest people: other reports give no protection. All inputs are
public.

References:
    Balle, Wang, *Improving the Gaussian mechanism for differential privacy* (2018).
    Dong, Roth, Su, *Gaussian differential privacy* (2022), for the composition of Gaussians.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from typing import Any, NamedTuple, TypeVar

from privot import privacy
from privot.core.errors import PrivotError
from privot.mechanisms import Gaussian, Mechanism, RandomizedResponse, choose_mechanism
from privot.mechanisms.choice import takes_points
from privot.mechanisms.mechanism import mechanism_kind, mechanism_kinds
from privot.privacy.distributed import EPSILON0_MAX, ReportLaw
from privot.privacy.rounding import (
    LARGEST_EPSILON,
    at_most,
    check_delta,
    multiply_up,
    round_up,
    sum_up,
)
from privot.privacy.shuffling import calibrate_shuffling, composed_shuffled_epsilon, shuffled_delta
from privot.randomizer.information import choose_forms
from privot.randomizer.reports.candidates import (
    CANDIDATES,
    FEW_COORDINATES,
    CandidatesReport,
    choose_columns,
)
from privot.randomizer.reports.joint import FormDesign, JointReport
from privot.schema import Column, Schema
from privot.schema.columns.column import CodedColumn
from privot.schema.schema import Promise

REPORTS = ("auto", "joint", "split")  # values of `report` in calibration
_ROUNDING_MARGIN = 1 + 2.0**-38  # factor of the noise, for rounding errors of many columns
_FEW_ROUNDINGS = 2.0**-50  # bound on the relative rounding error of one or two operations

Calibrated = TypeVar("Calibrated")  # a randomizer
_PRECISION = 1e-3  # relative precision of ε₀


def require_kind(mechanism: str, delta: float) -> None:
    """Raise PrivotError for an unknown mechanism, or a δ that does not fit it."""
    known = ["auto", *(kind for kind, cls in mechanism_kinds().items() if cls.by_kind)]
    if mechanism not in known:
        raise PrivotError(f"mechanism {mechanism!r} is not known: use one of {', '.join(known)}")
    pure = mechanism == "auto" or mechanism_kind(mechanism).pure
    if not pure and not mechanism_kind(mechanism).shares_delta:
        raise PrivotError(
            f"mechanism {mechanism!r} spends δ, which only 'gaussian' shares among columns: "
            "use that, or make a Randomizer of mechanisms"
        )
    if not pure and delta == 0:
        raise PrivotError(
            f"delta 0 is not possible with mechanism {mechanism!r}: give delta > 0, or use 'laplace'"
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
    """Return mechanisms of split columns, any `num_reported` of which together are (ε, δ)-private.

    `shares` are the ε of some pure columns; then all columns must be reported.
    """
    require_kind(mechanism, delta)
    columns, shares = {name: schema.columns[name] for name in names}, shares or {}
    kinds = {name: kind_for(column, name, mechanism) for name, column in columns.items()}
    gaussian = [
        name for name in names if kinds[name] != "auto" and not mechanism_kind(kinds[name]).pure
    ]
    if shares:
        _check_shares(shares, names, gaussian, epsilon, num_reported)
    # Shares are rounded down, so that their sum does not exceed ε.
    rounding = epsilon * _FEW_ROUNDINGS if shares else 0.0
    rest, num_sharing = epsilon - math.fsum(shares.values()) - rounding, num_reported - len(shares)
    equal_share = math.nextafter(rest / num_sharing, 0.0)
    mechanisms: dict[str, Mechanism] = {}
    for name, kind in kinds.items():
        share = shares.get(name, equal_share)
        if kind == "auto":
            alone = len(schema.columns) == 1
            mechanisms[name] = choose_mechanism(columns[name], share, alone=alone).mechanism
        elif name not in gaussian:
            mechanisms[name] = mechanism_kind(kind).for_column(columns[name], share)
    if not gaussian:
        return mechanisms
    num_pure = len(names) - len(gaussian) - len(shares)
    multiplier = _shared_multiplier(len(gaussian), num_pure, equal_share, delta, num_sharing)
    while True:
        # Rounding errors may add up: noise is added until the computed guarantee holds.
        multiplier *= _ROUNDING_MARGIN
        for name in gaussian:
            domain = columns[name].domain
            assert domain is not None
            mechanisms[name] = Gaussian.of_multiplier(domain, multiplier)
        if split_guarantee(schema, mechanisms, num_reported, delta).epsilon <= epsilon:
            return {name: mechanisms[name] for name in names}


def kind_for(column: Column, name: str, mechanism: str) -> str:
    """Return `mechanism` if it fits the column; otherwise, for categories, randomized response."""
    reason = "" if mechanism == "auto" else mechanism_kind(mechanism).unfit(column)
    if not reason:
        return mechanism
    if column.domain is None:
        return RandomizedResponse.kind
    raise PrivotError(f"mechanism {mechanism!r} is not for column {name!r}: {reason}, or 'auto'")


def _check_shares(
    shares: Mapping[str, float],
    names: Sequence[str],
    gaussian: Sequence[str],
    epsilon: float,
    num_reported: int,
) -> None:
    """Raise PrivotError for shares of unknown or Gaussian columns, or shares that use up `epsilon`."""
    for name, share in shares.items():
        if name not in names or name in gaussian:
            raise PrivotError(
                f"shares name column {name!r}, which "
                + ("is Gaussian and gets the rest" if name in gaussian else "is unknown")
                + f": name some of {[known for known in names if known not in gaussian]}"
            )
        if not isinstance(share, int | float) or not 0 < share < epsilon:
            raise PrivotError(f"share {share} of column {name!r} is not between 0 and {epsilon}")
    if num_reported < len(names):
        raise PrivotError(
            f"shares need all columns, and report_columns is {num_reported}: leave out one of the two"
        )
    if len(shares) == len(names) or not math.fsum(shares.values()) < epsilon:
        raise PrivotError(
            f"shares {dict(shares)} leave nothing of ε = {epsilon}, or no column to take it: leave at "
            "least one column out, and give less than ε"
        )


def _shared_multiplier(
    num_gaussian: int, num_pure: int, share: float, delta: float, num_reported: int
) -> float:
    """Return the noise multiplier 1/μ of Gaussian columns: the largest √j / μ(j · share, δ) over j."""
    multiplier = 0.0
    for j in range(max(1, num_reported - num_pure), min(num_reported, num_gaussian) + 1):
        root = math.sqrt(j)
        # Calibration is needed only if the noise so far is too small for j columns.
        if multiplier == 0 or privacy.gaussian_delta(multiplier, root, j * share) > delta:
            multiplier = root * privacy.calibrate_gaussian(1.0, j * share, delta)
    return multiplier


def split_guarantee(
    schema: Schema, mechanisms: Mapping[str, Mechanism], num_reported: int, delta: float
) -> privacy.PureDP | privacy.ApproximateDP:
    """Compute the guarantee of any `num_reported` columns from their noise, with ε rounded up.

    Raises:
        PrivotError: if a mechanism does not fit its column, or needs δ > 0 and there is none.
    """
    mus: list[float] = []
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
            guarantee = mechanism.guarantee(column.domain)
            if not isinstance(guarantee, privacy.PureDP):
                raise PrivotError(
                    f"mechanism {mechanism.kind!r} of column {name!r} spends δ, which only Gaussian "
                    "mechanisms share with other columns: report the column by another"
                )
            losses.append(guarantee.epsilon)
        else:
            mus.append(mu)
    mus.sort(reverse=True)
    losses.sort(reverse=True)
    if not mus:
        return privacy.PureDP(sum_up(losses[:num_reported]), unit=schema.unit)
    if delta == 0:
        raise PrivotError("delta 0 is not possible with Gaussian noise: state the delta")
    # The worst report has the k−j largest pure losses and the j largest μ, for some j.
    sums = list(accumulate(map(Fraction, losses), initial=Fraction(0)))
    worst = 0.0
    for j in range(max(0, num_reported - len(losses)), min(num_reported, len(mus)) + 1):
        pure_loss = sums[num_reported - j]
        if not j:
            worst = round_up(pure_loss)
            continue
        joint_mu = math.hypot(*mus[:j]) * (1 + _FEW_ROUNDINGS)
        # The exact ε is needed only if j Gaussian columns exceed the worst report so far.
        gaussian_loss = float(Fraction(worst) - pure_loss) * (1 - _FEW_ROUNDINGS)
        if gaussian_loss <= 0 or privacy.gaussian_delta(1.0, joint_mu, gaussian_loss) > delta:
            exact = Fraction(privacy.gaussian_epsilon(1.0, joint_mu, delta))
            worst = max(worst, round_up(exact + pure_loss))
    return privacy.ApproximateDP(worst, delta, unit=schema.unit)


class ReportParts(NamedTuple):
    """Mechanisms of the split columns, the joint report and the candidates report, if there are any."""

    mechanisms: dict[str, Mechanism]
    joint: JointReport | None = None
    candidates: CandidatesReport | None = None


def calibrate_reports(
    schema: Schema,
    epsilon: float,
    delta: float,
    report: str,
    mechanism: str | None,
    report_columns: int | None,
    shares: Mapping[str, float] | None,
) -> ReportParts:
    """Return the parts of a report that are (`epsilon`, `delta`)-private together.

    With `shares`, all columns are split. Otherwise the joint report gets as much of ε as each split
    column. The arguments are those of [`Randomizer.calibrate`][privot.Randomizer.calibrate].
    """
    if report not in REPORTS:
        raise PrivotError(f"report {report!r} is not known: use one of {', '.join(REPORTS)}")
    if not isinstance(epsilon, int | float) or not 0 < epsilon <= LARGEST_EPSILON:
        raise PrivotError(
            f"epsilon {epsilon} promises nothing: give a number > 0, at most {LARGEST_EPSILON:g}"
        )
    check_delta(delta)
    epsilon, delta = float(epsilon), float(delta)
    kind = "auto" if mechanism is None else mechanism
    if report != "split" and report_columns is None and not shares:
        candidates = _calibrate_candidates(schema, epsilon, delta, kind)
        if candidates is not None:
            return ReportParts({}, candidates=candidates)
    if kind == CANDIDATES:
        raise PrivotError(
            f"mechanism {kind!r} is for one image, or one vector of more than {FEW_COORDINATES} "
            "numbers, in a report of its own, with or without a label: use 'auto'"
        )
    if mechanism is not None:
        require_kind(kind, delta)
    table = [name for name in schema.coded if name not in schema.vectors]
    if schema.words and (report == "split" or mechanism or shares or table != [*schema.columns]):
        raise PrivotError(
            f"columns {[*schema.words]} are words, which have joint reports of their own: leave out "
            "report 'split', mechanism and shares, and images and vectors"
        )
    if report == "auto":
        joined = _is_joined(schema, table) and not (mechanism or shares)
        report = "joint" if joined else "split"
    if report == "split":
        require_report_columns(report_columns, len(schema.columns))
        names, count = list(schema.columns), report_columns or len(schema.columns)
        return ReportParts(calibrate_columns(schema, names, epsilon, delta, kind, count, shares))
    if shares:
        raise PrivotError("shares are of columns reported one by one: use report 'split'")
    if not table:
        raise PrivotError("report 'joint' needs columns of a table, the schema has vectors only")
    # Cells of vectors are in the joint report, too, unless a mechanism is named for them.
    joined_names = schema.coded if mechanism is None else table
    coded = {name: schema.coded[name] for name in joined_names}
    return _calibrate_joint(schema, coded, epsilon, delta, mechanism, report_columns)


def _calibrate_joint(
    schema: Schema,
    coded: Mapping[str, CodedColumn],
    epsilon: float,
    delta: float,
    mechanism: str | None,
    report_columns: int | None,
) -> ReportParts:
    """Return the joint report of the `coded` columns, and mechanisms of all others."""
    apart, share = [name for name in schema.columns if name not in coded], epsilon
    if apart:
        share = math.nextafter(epsilon / (len(apart) + 1), 0.0)  # rounded down
    elif mechanism is not None:
        raise PrivotError(
            f"mechanism {mechanism!r} would be ignored: a joint report of a table has its own; "
            "leave it out, or use report 'split'"
        )
    elif delta > 0:
        raise PrivotError(f"delta {delta} is not needed by a joint report: leave it out")
    codings = {
        name: tuple(alphabet.size for alphabet in column.codings) for name, column in coded.items()
    }
    listed = {name: sizes for name, sizes in codings.items() if name not in schema.words}
    if report_columns is not None:
        design = FormDesign.uniform(listed or codings, report_columns)
    elif listed:
        forms = choose_forms([max(sizes) for sizes in listed.values()], share)
        design = FormDesign(listed, *forms)
    else:
        design = FormDesign(codings, tuple((i,) for i in range(len(codings))), (1,) * len(codings))
    if schema.words and listed:
        design = _beside_words(design, codings)
    joint = JointReport(design, share)
    if not apart:
        return ReportParts({}, joint)
    rest, kind = math.nextafter(epsilon - share, 0.0), mechanism or "auto"
    return ReportParts(calibrate_columns(schema, apart, rest, delta, kind, len(apart)), joint)


def _beside_words(design: FormDesign, codings: Mapping[str, tuple[int, ...]]) -> FormDesign:
    """Return a design that half of the people use; each of the others reports one word, alone."""
    names = [*codings]
    words = [(i,) for i, name in enumerate(names) if name not in design.codings]
    forms = tuple(tuple(names.index(design.columns[i]) for i in form) for form in design.forms)
    doubled = tuple(weight * len(words) for weight in design.weights)
    weight = sum(design.weights)
    return FormDesign(codings, (*forms, *words), (*doubled, *(weight for _ in words)))


def _is_joined(schema: Schema, table: Sequence[str]) -> bool:
    """Return whether the coded columns `table`, which exclude vectors, are joint by default."""
    if not table or (schema.images and len(table) == 1):  # an image and its label are split
        return False
    # A single number or date is reported as a point, unless the schema declares its codes.
    first, *others = schema.columns.values()
    return bool(others) or first.declares_codes or not takes_points(first)


def _calibrate_candidates(
    schema: Schema, epsilon: float, delta: float, kind: str
) -> CandidatesReport | None:
    """Return the candidates report of the schema's only image or long vector, with its label.

    Returns None if the schema has other columns, another mechanism is named, or Laplace noise errs less.
    """
    chosen = choose_columns(schema)
    if kind not in ("auto", CANDIDATES) or chosen is None:
        return None
    if delta > 0:
        raise PrivotError(
            f"delta {delta} is not needed by a candidates report, which is pure: leave it out, or use "
            "mechanism 'gaussian'"
        )
    candidates = CandidatesReport.calibrate(schema, *chosen, epsilon)
    better = candidates.stddev < candidates.laplace_stddev
    return candidates if better or kind == CANDIDATES else None


def require_report_columns(report_columns: int | None, total: int) -> None:
    """Raise PrivotError unless `report_columns` is None or an integer from 1 to `total`."""
    if report_columns is None:
        return
    if type(report_columns) is not int or not 1 <= report_columns <= total:
        raise PrivotError(
            f"report_columns {report_columns} is not between 1 and the {total} columns that are split"
        )


def require_promised(
    promise: Promise | None, local: privacy.PureDP | privacy.ApproximateDP
) -> None:
    """Raise PrivotError if one report, with the guarantee `local`, cannot satisfy the schema's promise.

    If the promise is of shuffled reports, ε is compared with the floor, and δ must be 0.
    """
    if promise is None:
        return
    require_randomized(promise)
    most, delta = promise.floor or math.inf, 0.0
    if promise.where == "local":
        most, delta = promise.epsilon, promise.delta
    # Machines may round a logarithm differently.
    if local.epsilon > most * (1 + 1e-9) or getattr(local, "delta", 0.0) > delta:
        raise PrivotError(
            f"one report has {local}, and the schema promises {promise}: calibrate by the schema, or "
            "leave [promise] out"
        )


def require_batch_promised(promise: Promise, law: ReportLaw) -> None:
    """Raise PrivotError if the least batch of shuffled reports of a law does not satisfy a promise."""
    people, delta = promise.people or 1, promise.delta
    if shuffled_delta(law, people, promise.epsilon, delta) > delta:
        raise PrivotError(
            f"the schema promises {promise}, and reports of ε₀ = {at_most(law.epsilon0)} do not keep "
            "it: calibrate by the schema"
        )


def require_randomized(promise: Promise) -> None:
    """Raise PrivotError for a promise of sums, for which no record is randomized by itself."""
    if promise.where not in ("local", "shuffled"):
        raise PrivotError(
            f"where is {promise.where!r}, where no record is randomized by itself: use "
            f"privot.{promise.where}, or promise 'local' or 'shuffled'"
        )


def most_accurate_shuffled(
    promise: Promise, calibrate: Callable[[float], Calibrated]
) -> Calibrated:
    """Return the randomizer with the largest ε₀, to 0.1 %, whose shuffled reports satisfy a promise.

    Arguments:
        promise: ε and δ of the batch, its least number of people, and the largest ε₀.
        calibrate: Function from ε₀ to a randomizer.
    """
    people, most = promise.people or 1, min(promise.floor or EPSILON0_MAX, EPSILON0_MAX)
    # The margin ensures that the ε of the batch, which is rounded up, does not exceed the promise's.
    epsilon = promise.epsilon * (1 - 1e-6)

    def satisfies(randomizer: Any) -> bool:
        law = randomizer.report_law
        return shuffled_delta(law, people, epsilon, promise.delta) <= promise.delta

    # This ε₀ suffices for every mechanism. No more than twice as much, or 3 more, is tried.
    low = min(calibrate_shuffling(epsilon, people, promise.delta), most)
    best = calibrate(low)
    if low == most:
        return best
    high = min(2 * low, low + 3, most)
    if satisfies(largest := calibrate(high)):
        return largest
    while high - low > _PRECISION * low:
        middle = (low + high) / 2
        randomizer = calibrate(middle)
        if satisfies(randomizer):
            low, best = middle, randomizer
        else:
            high = middle
    return best


@lru_cache(maxsize=256)
def shuffled_guarantee(
    promise: Promise, law: ReportLaw, num_reports: int, batches: int, unit: str
) -> privacy.DistributedDP:
    """Return the guarantee of honestly shuffled batches of at least `num_reports` accepted reports.

    Raises:
        PrivotError: if there are fewer reports than the promise's number of people.
    """
    least = promise.people or 1
    if num_reports < least:
        raise PrivotError(
            f"{num_reports:,} reports were accepted, and the promise is of a batch of {least:,} or "
            "more: fewer are not opened, nor added to another batch; leave them out"
        )
    epsilon = composed_shuffled_epsilon(law, num_reports, promise.delta, batches)
    batch = privacy.DistributedDP(epsilon, promise.delta, "shuffled", num_reports, unit=unit)
    return replace(batch, floor=multiply_up(law.epsilon0, batches), batches=batches)
