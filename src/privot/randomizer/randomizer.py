"""Local randomizers, which every device applies to its own record, and releases of the reports.

The randomizer is public: it consists of a schema and the kind of report of each column. Columns of a
table are reported **jointly**, a few of them as one cell of their product alphabet
(`privot.randomizer.reports.joint`). An image or a long vector, with its label, is reported by public
**candidates** (`privot.randomizer.reports.candidates`). Other vectors, and columns that the user
chooses, are **split**: each is reported with a share of ε (`privot.randomizer.reports.split`). The
guarantee is that of one report under *local* differential privacy.

**Privacy review.** Adjacency: any two records of the schema. Sensitivity: any two cells of a joint
report; the diameter of each split column's domain, including the rounding to the grid; a candidates
report needs none. What leaves the device: the randomized values, and random draws that are independent
of the record, namely the choice of the reported columns and their coding, and the report's id
(`privot.randomizer.reports.rows`), which determines the order of the rows. The time of the samplers, the
counts of `count_outside`, and refused values depend on the record, but are in no release. (Others can
observe that a device whose value is refused sends nothing; with `nullable`, `other` and `out_of_bounds =
"clip"` no value is refused.) A second report would spend a second budget, so a device sends its first
report again.
"""

import json
import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sized
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
import pyarrow as pa

from privot.core.errors import PrivotError
from privot.core.files import read_text, write_file
from privot.core.summary import Summarized
from privot.mechanisms import Mechanism, compare_mechanisms
from privot.mechanisms.mechanism import mechanism_from_dict
from privot.privacy import ApproximateDP, DistributedDP, PureDP, compose, guarantee_from_dict
from privot.privacy.distributed import ReportLaw
from privot.randomizer import budget
from privot.randomizer.integrity import seal, unseal
from privot.randomizer.reports.candidates import INDEX, SEED, CandidatesReport, reason_beside_others
from privot.randomizer.reports.joint import CELLS, SHEET, JointAnswers, JointReport
from privot.randomizer.reports.rows import ID_TYPE, REPORT_ID, ReportTable, draw_ids, sorted_by_id
from privot.randomizer.reports.split import SplitReport, privatize_columns
from privot.schema.schema import Schema, promise_or_epsilon
from privot.tables.files import as_table
from privot.waves.panel import Panel, PanelGuarantee, most_reports_in_shards

PROGRAM_VERSION = 2
TIME_STEP = 3600  # seconds to which devices round the times of reports


@dataclass(frozen=True, repr=False)
class Randomizer(Summarized):
    """Local randomizer of the records of a schema.

    Arguments:
        schema: Declaration of the columns.
        mechanisms: Mechanism of every split column, by name.
        report_columns: Number of split columns in each report, drawn at random; all if None.
        delta: δ of the guarantee; 0 unless a mechanism is Gaussian.
        joint: Joint report of coded columns, if there is one.
        candidates: Candidates report of a vector or an image and its label, if there is one.

    Raises:
        PrivotError: if the parts do not report every column once, have no guarantee, or have another
            one than the schema promises.

    Examples:
        >>> schema = Schema.from_dict({"columns": {"smokes": {"kind": "boolean"}}})
        >>> randomizer = Randomizer.calibrate(schema, epsilon=2.0)
        >>> release = randomizer.privatize({"smokes": [True, False, False]})
        >>> len(release), str(randomizer.guarantee)
        (3, 'ε = 2 (pure), local, per person')
    """

    schema: Schema
    mechanisms: Mapping[str, Mechanism]
    report_columns: int | None = None
    delta: float = 0.0
    joint: JointReport | None = None
    candidates: CandidatesReport | None = None

    def __post_init__(self) -> None:
        self._require_each_column_once()
        self._require_names_unreserved()
        # The guarantee raises an error for mechanisms that do not fit or have no guarantee.
        budget.require_promised(self.schema.promise, self.guarantee)

    @classmethod
    def calibrate(
        cls,
        schema: Schema,
        epsilon: float | None = None,
        delta: float = 0.0,
        *,
        report: str = "auto",
        mechanism: str | None = None,
        report_columns: int | None = None,
        shares: Mapping[str, float] | None = None,
    ) -> Self:
        """Choose the least noise that satisfies the schema's promise, or (`epsilon`, `delta`) locally.

        For a promise about shuffled reports, every report gets the largest ε₀, up to the promise's
        floor, for which a batch of the promise's number of people satisfies ε and δ. The computation
        uses the distribution of these reports (`privot.privacy.shuffling`), accurate to 0.1 %.
        Equal arguments give equal fingerprints, until `privot calibrate` adds a campaign's random id.

        Arguments:
            schema: Declaration of the columns, and of the promise if `epsilon` is None.
            epsilon: Privacy loss of one person's whole report, if the schema has no promise.
            delta: Between 0 and 1 for `"gaussian"`, otherwise 0.
            report: `"split"`: every column is reported with an equal share of ε (Gaussian columns have
                one guarantee together); `"joint"`: the coded columns are reported together, with cells
                of vectors unless a mechanism is named, or a vector or image with its label; `"auto"`:
                the kind of smaller error.
            mechanism: Kind of mechanism for split columns, or `"auto"` (the default) for the kind of
                least planned error. Categories that a kind does not fit use randomized response.
            report_columns: Number of columns in a report; with 1, only marginals can be learned.
            shares: ε of some split columns; the others share the rest of `epsilon`.

        Raises:
            PrivotError: for arguments that are out of range or contradict each other or the schema.
        """
        promise = promise_or_epsilon(schema.promise, epsilon, delta or None)
        if promise is not None:
            budget.require_randomized(promise)

        def calibrate_locally(epsilon: float, delta: float = 0.0) -> Any:
            parts = budget.calibrate_reports(
                schema, epsilon, delta, report, mechanism, report_columns, shares
            )
            count = None if parts.joint else report_columns
            randomizer = cls(schema, parts.mechanisms, count, delta, parts.joint, parts.candidates)
            # Calibration rounds to the safe side; the guarantee is computed again from the noise.
            if (reached := randomizer.guarantee.epsilon) > epsilon:
                raise PrivotError(
                    f"epsilon {epsilon} could not be reached (noise gives {reached}): "
                    "please report this as a bug"
                )
            return randomizer

        if promise is not None and promise.where == "shuffled":
            return cast(Self, budget.most_accurate_shuffled(promise, calibrate_locally))
        if promise is not None:
            epsilon, delta = promise.epsilon, promise.delta
        return cast(Self, calibrate_locally(cast(float, epsilon), delta))

    @property
    def guarantee(self) -> PureDP | ApproximateDP:
        """Guarantee of one report with all its parts, computed from the noise."""
        if not 0 <= self.delta < 1:
            raise PrivotError(f"delta {self.delta} is not a small probability: give 0 ≤ delta < 1")
        parts: list[PureDP | ApproximateDP] = []
        if self.joint:
            parts.append(PureDP(self.joint.epsilon, unit=self.schema.unit))
        if self.candidates:
            parts.append(self.candidates.guarantee(self.schema.unit))
        if self.mechanisms:
            split = budget.split_guarantee(
                self.schema, self.mechanisms, self.num_reported, self.delta
            )
            parts.append(split)
        total: PureDP | ApproximateDP = compose(*parts)
        return total

    @property
    def report_law(self) -> ReportLaw:
        """Overlap of the distributions of a report under two records, for shuffling amplification."""
        laws = [part.report_law or self._worst_law for part in self.parts]
        if len(laws) == 1:
            return laws[0]
        if self.num_reported == 1 and not (self.joint or self.candidates):
            share = 1 / len(laws)  # a report has one column, drawn at random
            return ReportLaw.mixed([(share, law) for law in laws])
        return self._worst_law

    @property
    def _worst_law(self) -> ReportLaw:
        """Overlap with the least amplification among all reports of this ε."""
        if self.delta:
            raise PrivotError(
                f"delta is {self.delta!r}: reports that spend δ are not amplified by shuffling; use "
                "mechanisms that need none"
            )
        return ReportLaw.worst(self.guarantee.epsilon)

    def batch_guarantee(
        self, num_reports: int | None = None, batches: int = 1
    ) -> PureDP | ApproximateDP | DistributedDP:
        """Return the guarantee of several batches with one report of the same unit in each.

        If the schema promises shuffled reports, every batch is shuffled by itself, and ε is computed at
        the promise's δ; otherwise the local guarantee is multiplied.

        Arguments:
            num_reports: Number of reports in the smallest batch; by default the promise's people.
            batches: Number of batches.

        Raises:
            PrivotError: if there are fewer shuffled reports than the promise's number of people.
        """
        promise = self.schema.promise
        if promise is None or promise.where != "shuffled":
            return self.guarantee.times(batches)
        count = (promise.people or 1) if num_reports is None else num_reports
        return budget.shuffled_guarantee(promise, self.report_law, count, batches, self.schema.unit)

    def panel_guarantee(self, panel: Panel, num_reports: int | None = None) -> PanelGuarantee:
        """Return a panel's guarantee; see `batch_guarantee` for the reports of its smallest wave."""
        most_reports, one_wave = panel.most_reports(), self.batch_guarantee(num_reports)
        composed = None if most_reports is None else self.batch_guarantee(num_reports, most_reports)
        return PanelGuarantee(one_wave, panel.window, panel.waves, composed)

    def summary(self) -> dict[str, object]:
        """Return the kind of report of each column, and the guarantee."""
        kinds: dict[str, str] = {}
        if self.joint:
            kinds |= dict.fromkeys(self.joint.design.columns, "joint report")
        if self.candidates:
            kinds |= dict.fromkeys(self.candidates.columns, "candidates report")
        kinds |= {name: mechanism.kind for name, mechanism in self.mechanisms.items()}
        return {"columns": kinds, "guarantee": self.guarantee}

    @property
    def num_reported(self) -> int:
        """Number of split columns in one person's report."""
        return self.report_columns or len(self.mechanisms)

    @cached_property
    def splits(self) -> dict[str, SplitReport]:
        """Split reports, by column name."""
        columns, mechanisms = self.schema.columns, self.mechanisms
        return {name: SplitReport(name, columns[name], mechanisms[name]) for name in mechanisms}

    @property
    def parts(self) -> list[JointReport | CandidatesReport | SplitReport]:
        """All parts that a report may have."""
        return [*(part for part in (self.joint, self.candidates) if part), *self.splits.values()]

    @cached_property
    def program(self) -> dict[str, Any] | None:
        """Plain values by which devices draw reports with integers only; None if a part has none."""
        if self.candidates:
            return None
        joint, splits = self.joint, self.splits.values()
        coded = {name: self.schema.coded[name] for name in joint.design.columns} if joint else {}
        values = {name: column.code_program(name, column.codings) for name, column in coded.items()}
        values |= {split.name: split.value_program() for split in splits}
        draws = [
            {"column": name, "draw": split.mechanism.program(split.column)}
            for name, split in self.splits.items()
        ]
        if None in values.values() or any(draw["draw"] is None for draw in draws):
            return None
        program = {
            "version": PROGRAM_VERSION,
            "time_step": TIME_STEP,
            "columns": values,
            "joint": joint.program() if joint else None,
            "split": {"choose": self.num_reported, "reports": draws} if draws else None,
        }
        if self.schema.unread_columns:
            program["unread"] = list(self.schema.unread_columns)
        return dict(json.loads(json.dumps(program)))  # lists for tuples, as `from_json` reads them

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the canonical JSON in 64 hexadecimal digits, which devices send with reports."""
        return str(json.loads(self._text)["fingerprint"])

    @cached_property
    def types(self) -> dict[str, pa.DataType]:
        """Names and types of the columns of a release."""
        parts = {name: kind for part in self.parts for name, kind in part.types.items()}
        return parts | {REPORT_ID: ID_TYPE}

    def expected_noise(self) -> list[dict[str, Any]]:
        """Describe the noise of each part, with the reason for its mechanism."""
        alone = len(self.schema.columns) == 1
        rows = [part.expected() for part in self.parts]
        for row in rows:
            mechanism = self.mechanisms.get(row["column"])
            if mechanism is not None and mechanism.pure and not mechanism.takes_codes:
                column = self.schema.columns[row["column"]]
                epsilon = mechanism.guarantee(column.domain).epsilon
                row["reason"] = compare_mechanisms(column, mechanism, epsilon, alone=alone)
                row["reason"] += reason_beside_others(self.schema, row["column"])
        return rows

    @cached_property
    def all_coded(self) -> bool:
        """True if every column is reported as a code."""
        columns, mechanisms = self.schema.columns, self.mechanisms
        forms = (mechanism.form(columns[name]) for name, mechanism in mechanisms.items())
        return self.candidates is None and all(form.learns_codes for form in forms)

    @property
    def marginals_only(self) -> bool:
        """True if every report has one of several columns, so that only marginals can be learned."""
        if self.joint is not None:
            return self.joint.design.lengths[1] == 1 < len(self.joint.design.columns)
        return self.num_reported == 1 and len(self.schema.columns) > 1 and not self.candidates

    def privatize(self, data: Any, *, keep_order: bool = False) -> "Release":
        """Randomize the records of a whole table as each person's device does, in random order.

        Values outside their bounds are projected, or fall into an outer bin, unless the schema refuses
        them.

        Arguments:
            data: A pandas, polars or pyarrow table, or a dict of columns, with the schema's columns.
            keep_order: Whether to keep the order of the records, which is **not private**.

        Raises:
            PrivotError: for records that the schema does not allow, or `keep_order` of shuffled reports.
        """
        if keep_order and self.schema.shuffled_promise:
            raise PrivotError(
                "keep_order is True, and the schema promises shuffled reports: leave it out, or promise "
                "local privacy"
            )
        reports = self.reports_in_order(data)
        return Release(ReportTable.of(reports if keep_order else sorted_by_id(reports)), self)

    def reports_in_order(self, data: Any) -> pa.Table:
        """Draw reports in the order of their records, which is **not private**."""
        table = as_table(data)
        self.schema.check_table(table)
        # All columns are encoded before any draw, because encoding may refuse values.
        joint, candidates = self.joint, self.candidates
        codes = self.schema.encode_codings(joint.design.columns if joint else (), table)
        records = candidates.encode(table) if candidates else None
        encoded = {name: split.encode(table) for name, split in self.splits.items()}
        columns = joint.privatize(codes).to_table() if joint else {}
        columns |= candidates.privatize(records) if candidates and records else {}
        if encoded:
            columns |= privatize_columns(self.splits, self.num_reported, encoded)
        return pa.table(columns | {REPORT_ID: draw_ids(table.num_rows)})

    def count_outside(self, data: Any) -> dict[str, int]:
        """Count the raw values of each column outside its domain (**not private**)."""
        table = as_table(data)
        self.schema.check_columns(table)
        points = self.schema.points.items()
        return {name: column.count_outside(name, table) for name, column in points}

    def reasons(self, table: pa.Table) -> pa.Array:
        """Return the first reason (n,) why no device sends each row of a table, or null."""
        reasons: list[str | None] = [None]
        index = np.zeros(table.num_rows, np.int32)  # of each row's reason
        for faulty, reason in self._faults(table):
            index[faulty & (index == 0)] = len(reasons)
            reasons.append(reason)
        return pa.array(reasons, pa.string()).take(pa.array(index))

    def _faults(self, table: pa.Table) -> Iterator[tuple[np.ndarray, str]]:
        """Yield masks of rows (n,) that no device sends, with the reason."""
        ids = table.column(REPORT_ID)
        yield np.asarray(ids.is_null().to_numpy()), "it has no id of 32 hexadecimal digits"
        for part in self.parts:
            yield from part.faults(table)
        if self.splits:
            reported = np.sum([split.reported(table) for split in self.splits.values()], axis=0)
            expected = self.num_reported
            yield reported != expected, f"it does not have {expected} of the split columns"

    def to_json(self) -> str:
        """Return the canonical JSON with guarantee and fingerprint, or the JSON that was read."""
        return self._text

    @cached_property
    def _text(self) -> str:
        split = [name for name in self.schema.columns if name in self.mechanisms]
        candidates = {} if self.candidates is None else {"candidates": self.candidates.to_dict()}
        return seal(
            schema=self.schema.to_dict(),
            mechanisms={name: self.mechanisms[name].to_dict() for name in split},
            report_columns=self.report_columns,
            delta=self.delta,
            joint=None if self.joint is None else self.joint.to_dict(),
            **candidates,
            guarantee=self.guarantee.to_dict(),
            device=self.program,
        )

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read the canonical JSON.

        Raises:
            PrivotError: if it was damaged or altered, or comes from a newer version.
        """
        fields = unseal(text)
        try:
            schema = Schema.from_dict(fields["schema"])
            mechanisms = {
                name: mechanism_from_dict(values) for name, values in fields["mechanisms"].items()
            }
            joint = None if fields["joint"] is None else JointReport.from_dict(fields["joint"])
            candidates = fields.get("candidates")
            candidates = candidates and CandidatesReport.from_dict(schema, candidates)
            count, delta = fields["report_columns"], fields["delta"]
            randomizer = cls(schema, mechanisms, count, delta, joint, candidates)
            stated, program = guarantee_from_dict(fields["guarantee"]), fields["device"]
            sealed = seal(**fields)
        except (KeyError, AttributeError, TypeError):
            raise PrivotError("the randomizer lacks parts: calibrate it again") from None
        if not _agree(stated, randomizer.guarantee):
            raise PrivotError(
                f"the randomizer states {stated}, its noise gives {randomizer.guarantee}: calibrate "
                "again with `privot calibrate`"
            )
        if promise := schema.shuffled_promise:
            budget.require_batch_promised(promise, randomizer.report_law)
        if program != randomizer.program:
            raise PrivotError(
                "the randomizer's program for devices is not that of its mechanisms, so it has no "
                "guarantee there: calibrate it again"
            )
        # Reports refer to the text that was read, even if this version would round differently.
        vars(randomizer)["_text"] = sealed
        return randomizer

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read `randomizer.json`."""
        return cls.from_json(read_text(path, "randomizer"))

    def save(self, path: str | Path) -> None:
        """Write `randomizer.json`; if writing fails, an existing file stays."""
        write_file(path, self.to_json() + "\n")

    def _require_each_column_once(self) -> None:
        """Raise PrivotError unless the parts report every column of the schema once, as declared."""
        schema, mechanisms, joint = self.schema, self.mechanisms, self.joint
        codings = {} if joint is None else joint.design.codings
        candidates = self.candidates.columns if self.candidates else []
        if sorted([*mechanisms, *codings, *candidates]) != sorted(schema.columns):
            raise PrivotError(
                f"mechanisms are for columns {sorted(mechanisms)}, the joint report for "
                f"{sorted(codings)} and candidates for {sorted(candidates)}, the schema has "
                f"{sorted(schema.columns)}: cover each once"
            )
        # A joint report has all coded columns, in the schema's order; only vectors may be split.
        coded = [name for name in schema.coded if name not in candidates]
        split = [name for name in coded if name in mechanisms and name not in schema.vectors]
        expected = [] if split else [name for name in coded if name not in mechanisms]
        if joint is not None and list(codings) != expected:
            raise PrivotError(
                f"the joint report has columns {list(codings)}, the schema's table {coded}: "
                "report all of them together, in this order, or all of them split; vectors may be apart"
            )
        for name, sizes in codings.items():
            if tuple(coding.size for coding in schema.coded[name].codings) != sizes:
                raise PrivotError(
                    f"column {name!r} of the joint report is not as the schema declares it: "
                    "calibrate again"
                )
        budget.require_report_columns(self.report_columns, len(mechanisms))

    def _require_names_unreserved(self) -> None:
        """Raise PrivotError for columns with names that a release uses for other columns."""
        splits = self.splits.values()
        names = [name for s in splits if s.mechanism.fits(s.column) for name in s.types]
        reserved = {SHEET, CELLS, SEED, INDEX, REPORT_ID} & {*self.schema.table_columns, *names}
        reserved |= {name for name in names if names.count(name) > 1}
        if reserved:
            raise PrivotError(
                f"columns {sorted(reserved)} are reserved names of a release, for joint reports, "
                "candidates, ids, flags of missing values and places on a curve: give the schema's "
                "columns other names"
            )


def _agree(stated: object, computed: PureDP | ApproximateDP) -> bool:
    """Return whether a stated guarantee is the computed one, up to the rounding of ε."""
    if not isinstance(stated, PureDP | ApproximateDP):
        return False
    same_but_epsilon = replace(stated, epsilon=computed.epsilon) == computed  # and of one type
    # Machines may round a logarithm differently.
    return same_but_epsilon and math.isclose(stated.epsilon, computed.epsilon, rel_tol=1e-9)


class Reports(Summarized, Sized):
    """Reports of one randomizer, as rows or as counts."""

    randomizer: Randomizer

    @property
    @abstractmethod
    def waves(self) -> frozenset[str]:
        """Texts of the waves of the reports (`privot.waves.panel.WAVE_KEY`), if they have any."""

    @property
    def schema(self) -> Schema:
        """Declaration of the columns."""
        return self.randomizer.schema

    @property
    def guarantee(self) -> PureDP | ApproximateDP | DistributedDP:
        """Guarantee of all reports of one person: one report, or as many as a panel's waves allow."""
        batches = most_reports_in_shards(self.waves) if self.waves else 1
        return self.randomizer.batch_guarantee(len(self), batches)


@dataclass(frozen=True, repr=False)
class Release(Reports):
    """Reports with their randomizer, the only input of estimators.

    Arguments:
        rows: Table with one row per report, in memory or in a file.
        randomizer: Randomizer of the reports.
    """

    rows: ReportTable
    randomizer: Randomizer

    def __post_init__(self) -> None:
        names, present = list(self.randomizer.types), self.rows.dataset.schema.names
        if sorted(present) != sorted(names) or len(self.rows) == 0:
            raise PrivotError(
                f"the reports have columns {present} and {len(self)} rows, "
                f"the randomizer makes {names}: use the file that `privot privatize` wrote"
            )

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def waves(self) -> frozenset[str]:
        return self.rows.waves

    def __reduce__(self) -> tuple[Any, ...]:
        return Release, (self.rows, self.randomizer)

    def summary(self) -> dict[str, object]:
        """Return the number of reports, and the summary of the randomizer."""
        return {"reports": f"{len(self):,}"} | self.randomizer.summary()

    @cached_property
    def table(self) -> pa.Table:
        """All rows, in memory."""
        return pa.concat_tables(self.rows.pieces())

    def pieces(self) -> Iterator["Release"]:
        """Yield the reports as releases of about 10⁵ reports, so that not all are in memory."""
        tables = (ReportTable.of(piece, waves=self.waves) for piece in self.rows.pieces())
        return (Release(rows, self.randomizer) for rows in tables)

    def reports(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the reports of one split column, and the mask (n,) of people who reported it.

        Noisy numbers are unit coordinates (n, d), 0 where not reported. Other reports are supports, the
        codes whose likelihood they raise (n, w), padded with −1.
        """
        return self.randomizer.splits[name].read(self.table)

    @cached_property
    def joint_answers(self) -> JointAnswers:
        """Joint reports of all people; PrivotError is raised if there are none."""
        if self.randomizer.joint is None:
            raise PrivotError("the release has no joint reports: call `reports` for each column")
        return self.randomizer.joint.read(self.table)

    def save(self, path: str | Path) -> None:
        """Write `release.parquet`; if writing fails, an existing file stays."""
        self.rows.save(path, self.randomizer.to_json())

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Open a file or a folder of shards, which must not change later, without validating reports."""
        rows, text = ReportTable.open(path)
        release = cls(rows, Randomizer.from_json(text))
        rows.require_types(release.randomizer.types)
        return release

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Open a release and validate its reports.

        Raises:
            PrivotError: if a report is impossible or repeated, so the file was altered.
        """
        release = cls.open(path)
        release.require_possible()
        return release

    def require_possible(self) -> None:
        """Validate all reports.

        Raises:
            PrivotError: for an impossible or repeated report, with its row and the reason.
        """
        in_order = self.schema.shuffled_promise is not None
        pieces = self.rows.validated(lambda piece: (self.randomizer.reasons(piece), None), in_order)
        for _ in pieces:  # each is validated when it is yielded
            pass
