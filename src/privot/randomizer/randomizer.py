"""The randomizer, which every device applies to its own record, and the release of the reports.

The randomizer is public: a schema, and how each of its columns is reported. Columns of a table are
reported **jointly**, a few as one cell of their product alphabet (`privot.randomizer.reports.joint`);
an image or a long vector, with its label, by public **candidates**
(`privot.randomizer.reports.candidates`); other vectors, and columns that the user chooses, are
**split** (`privot.randomizer.reports.split`). Its guarantee is that of one report under *local*
differential privacy.

**Privacy review.** Adjacency: any two records of the schema. Sensitivity: any two cells of a joint
report; the diameter of each split column's domain, rounding to the grid included; a candidates report
needs none. What leaves the device: the randomized values, and fresh coins, independent of the record:
which columns they are and how they are coded, and the report's id (`privot.randomizer.reports.rows`),
whose order is that of the rows. What depends on the record besides is its holder's, and in no
release: the samplers' time, counts of `count_outside`, and refusals.
(A refused device is seen to send nothing; `nullable` and `other` leave nothing to refuse.) A second
report is a second budget: a device resends its first.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa

from privot.core.errors import PrivotError
from privot.core.files import replacing_file
from privot.core.summary import Summarized
from privot.mechanisms import Mechanism
from privot.privacy import ApproximateDP, PureDP
from privot.randomizer.budget import (
    Budget,
    promise,
    require_cover,
    require_promise,
    share_budget,
    with_reasons,
)
from privot.randomizer.reports.candidates import CandidatesReport
from privot.randomizer.reports.joint import JointAnswers, JointReport
from privot.randomizer.reports.rows import ID_TYPE, REPORT_ID, ReportTable, draw_ids, in_order
from privot.randomizer.reports.split import SplitReport, privatize_columns
from privot.randomizer.reports.validation import (
    device_program,
    read_text,
    require_possible,
    require_program,
    seal_parts,
    unseal_parts,
)
from privot.schema import Schema
from privot.tables.files import as_table


@dataclass(frozen=True, repr=False)
class Randomizer(Summarized):
    """A schema, its split columns' mechanisms, and the joint report of the others.

    Arguments:
        schema: Declaration of the columns.
        mechanisms: One mechanism for every split column, by name.
        report_columns: Number of split columns in each report, drawn by fresh coins; all if None.
        delta: The δ of the guarantee; 0 unless a mechanism is Gaussian.
        joint: Joint report of all other columns, if there are any.
        candidates: Candidates report of a vector or an image, with its label, if there is one.
    """

    schema: Schema
    mechanisms: Mapping[str, Mechanism]
    report_columns: int | None = None
    delta: float = 0.0
    joint: JointReport | None = None
    candidates: CandidatesReport | None = None

    def __post_init__(self) -> None:
        require_cover(self.schema, self._budget)
        _ = self.guarantee  # refuses mechanisms that do not fit, or have no guarantee

    @classmethod
    def calibrate(
        cls,
        schema: Schema,
        epsilon: float,
        delta: float = 0.0,
        *,
        report: str = "auto",
        mechanism: str | None = None,
        report_columns: int | None = None,
        shares: Mapping[str, float] | None = None,
    ) -> Self:
        """Choose the least noise that gives each person (`epsilon`, `delta`)-local privacy.

        Arguments:
            schema: Declaration of the columns.
            epsilon: Privacy loss of one person's whole report.
            delta: Between 0 and 1 for `"gaussian"`, else 0.
            report: `"split"`: columns get equal shares, and Gaussian ones share one guarantee;
                `"joint"`: a table's columns are one report (vectors in cells unless a mechanism is
                named), as are an image or a long vector and its label; `"auto"`: that, or split.
            mechanism: Kind for split columns, or `"auto"`, the default: the one of least planned
                error. Categories that a kind does not fit use randomized response.
            report_columns: Number of columns a person reports; with 1, only marginals are learned.
            shares: The ε of some split columns; the others share the rest of `epsilon`.
        """
        made = share_budget(schema, epsilon, delta, report, mechanism, report_columns, shares)
        return cls(schema, made.mechanisms, made.report_columns, delta, made.joint, made.candidates)

    @property
    def guarantee(self) -> PureDP | ApproximateDP:
        """Guarantee of one report, computed from the noise, never merely stored."""
        return promise(self.schema, self._budget, self.delta)

    @property
    def _budget(self) -> Budget:
        return Budget(self.mechanisms, self.report_columns, self.joint, self.candidates)

    def summary(self) -> dict[str, object]:
        """See `Summarized`."""
        how = dict.fromkeys(self.joint.design.columns if self.joint else [], "joint report")
        seeded = self.candidates.columns if self.candidates else []
        how |= dict.fromkeys(seeded, "candidates report")
        how |= {name: mechanism.kind for name, mechanism in self.mechanisms.items()}
        return {"columns": how, "guarantee": self.guarantee}

    @property
    def num_reported(self) -> int:
        """Number of split columns in one person's report."""
        return self._budget.num_reported

    @cached_property
    def splits(self) -> dict[str, SplitReport]:
        """Split reports, by column name."""
        columns = self.schema.columns
        return {name: SplitReport(name, columns[name], m) for name, m in self.mechanisms.items()}

    @property
    def parts(self) -> list[JointReport | CandidatesReport | SplitReport]:
        """All parts that a report may have."""
        return [*(p for p in (self.joint, self.candidates) if p), *self.splits.values()]

    @cached_property
    def program(self) -> dict[str, Any] | None:
        """Program by which a device draws from integers alone (`privot.device`); None without one."""
        if self.candidates:
            return None
        return device_program(self.schema, self.joint, self.splits, self.num_reported)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the canonical JSON, 64 digits, by which reports on the wire name it."""
        return str(json.loads(self._text)["fingerprint"])

    @property
    def types(self) -> dict[str, pa.DataType]:
        """Names and types of the columns of a release."""
        parts = {name: kind for part in self.parts for name, kind in part.types.items()}
        return parts | {REPORT_ID: ID_TYPE}

    def expected_noise(self) -> list[dict[str, Any]]:
        """One row a part: see `Mechanism.expected` and `JointReport.expected`; and reasons."""
        return with_reasons(self.schema, self.mechanisms, [part.expected() for part in self.parts])

    @property
    def marginals_only(self) -> bool:
        """True if reports hold one column of several, so that no joint structure can be learned."""
        if self.joint is not None:
            return self.joint.design.lengths[1] == 1 < len(self.joint.design.columns)
        return self.num_reported == 1 and len(self.schema.columns) > 1 and not self.candidates

    def privatize(self, data: Any, *, keep_order: bool = False) -> Release:
        """Randomize the records of a whole table at once, as each person's device does.

        Values outside their bounds are projected, or fall into an outer bin.

        Arguments:
            data: A pandas, polars or pyarrow table, or a dict of columns, with the schema's columns.
            keep_order: Rows come in random order; True keeps the records', which is **not private**.
        """
        self.schema.check_table(table := as_table(data))  # all that is refused is before any draw
        encoded = {name: split.encode(table) for name, split in self.splits.items()}
        joint, seeded = self.joint, self.candidates
        records = seeded.encode(table) if seeded else None
        codes = self.schema.encode_codings(joint.design.columns if joint else (), table)
        columns = joint.privatize(codes).to_table() if joint else {}
        columns |= seeded.privatize(records) if seeded and records else {}
        columns |= privatize_columns(self.splits, self.num_reported, encoded)
        reports = pa.table(columns | {REPORT_ID: draw_ids(table.num_rows)})
        return Release(ReportTable.of(reports if keep_order else in_order(reports)), self)

    def count_outside(self, data: Any) -> dict[str, int]:
        """Count the raw values of each column outside its domain: **not private**."""
        self.schema.check_table(table := as_table(data))
        return {name: c.count_outside(name, table) for name, c in self.schema.points.items()}

    def to_json(self) -> str:
        """Canonical JSON, with guarantee and fingerprint; of one that was read, what was read."""
        return self._text

    @cached_property
    def _text(self) -> str:
        return seal_parts(self)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read the canonical JSON; refused if it was damaged or altered, or is from a newer version."""
        randomizer, stated, program, sealed = unseal_parts(text, cls)
        require_promise(stated, randomizer.guarantee)
        require_program(program, randomizer.program)
        # Reports, and records whose reports wait for a pipe, refer to it, whatever a version rounds.
        vars(randomizer)["_text"] = sealed
        return randomizer

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read `randomizer.json`."""
        return cls.from_json(read_text(path))

    def save(self, path: str | Path) -> None:
        """Write `randomizer.json`; an existing file survives any failure."""
        with replacing_file(path) as draft:
            draft.write_text(self.to_json() + "\n", encoding="utf-8")


@dataclass(frozen=True, repr=False)
class Release(Summarized):
    """The reports and the randomizer that made them: all that estimation and training can see.

    Arguments:
        rows: One row a report, in memory or in a file.
        randomizer: The randomizer that made the reports.
    """

    rows: ReportTable
    randomizer: Randomizer

    def __post_init__(self) -> None:
        names = list(self.randomizer.types)
        if sorted(self.rows.column_names) != sorted(names) or len(self) == 0:
            raise PrivotError(
                f"the reports have columns {self.rows.column_names} and {len(self)} rows, "
                f"the randomizer makes {names}: use the file that `privot privatize` wrote"
            )

    def __len__(self) -> int:
        return len(self.rows)

    def __reduce__(self) -> tuple[Any, ...]:
        return Release, (self.rows, self.randomizer)

    def summary(self) -> dict[str, object]:
        """See `Summarized`."""
        return {"reports": f"{len(self):,}"} | self.randomizer.summary()

    @property
    def schema(self) -> Schema:
        """Declaration of the columns."""
        return self.randomizer.schema

    @property
    def guarantee(self) -> PureDP | ApproximateDP:
        """Guarantee to each person who reported once."""
        return self.randomizer.guarantee

    @cached_property
    def table(self) -> pa.Table:
        """All rows, in memory."""
        return pa.concat_tables(self.rows.pieces())

    def pieces(self) -> Iterator[Release]:
        """Yield the same reports, some 10⁵ at a time, so that not all need be in memory."""
        return (Release(ReportTable.of(piece), self.randomizer) for piece in self.rows.pieces())

    def reports(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Return one split column's reports, and a mask (n,) of who reported it.

        Noisy numbers are unit coordinates (n, d), 0 where not reported; any other reports are the codes
        that they support (n, w), padded with −1.
        """
        return self.randomizer.splits[name].read(self.table)

    @cached_property
    def joint_answers(self) -> JointAnswers:
        """The joint reports; refused if there are none."""
        if joint := self.randomizer.joint:
            return joint.read(self.table)
        raise PrivotError("the release holds no joint reports: read its columns' reports")

    def save(self, path: str | Path) -> None:
        """Write `release.parquet`; an existing file survives any failure."""
        self.rows.save(path, self.randomizer.to_json())

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Open a file or folder of shards, which must not change; its reports are not checked."""
        rows, text = ReportTable.open(path)
        release = cls(rows, Randomizer.from_json(text))
        rows.require_types(release.randomizer.types)
        return release

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Open a release, and refuse impossible or repeated reports: it was altered."""
        release = cls.open(path)
        require_possible(release.randomizer, release.rows)
        return release
