r"""The randomizer, which every device applies to its own record, and the release that it makes.

The randomizer is public: a schema, one calibrated mechanism a column, and how many columns one
person reports. Sent to every device as `randomizer.json`, it turns records into a `Release`, and its
guarantee is that of one report under *local* differential privacy: any two records of the schema,
no neighbor relation.

**Privacy review.** Adjacency: any two records of the schema. Sensitivity: the diameter of each
column's domain, rounding to the grid included. What leaves the device: the randomized values and
which columns they are, which is a draw of fresh coins, independent of the record. What depends on
the raw record besides: the time the exact sampler takes (see `mechanisms`), the counts of
`count_outside`, and the texts of refusals; none of them is in the release, and they belong to
whoever holds the raw records. The guarantee is for **one** report: a second report of the same
person is a second budget, so a device keeps its report and sends it again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa

import privot.release.calibration as calibration
from privot.errors import PrivotError
from privot.files import replacing_file
from privot.mechanisms import Mechanism, mechanism_from_dict
from privot.privacy import ApproximateDP, PureDP, guarantee_from_dict
from privot.release.encoding import (
    check_reports,
    count_outside,
    decode_reports,
    draw_columns,
    encode_records,
    reports_table,
)
from privot.release.storage import read_reports, write_reports
from privot.release.tables import as_table
from privot.schema import Schema

FORMAT = 1


@dataclass(frozen=True)
class Randomizer:
    """A schema with one mechanism a column, and the number of columns one person reports.

    Arguments:
        schema: What a record may be.
        mechanisms: One mechanism a column of the schema, by name.
        report_columns: Number k of columns each person reports, drawn by fresh coins; all by default.
        delta: The δ of the guarantee; 0 unless a mechanism is Gaussian.
    """

    schema: Schema
    mechanisms: Mapping[str, Mechanism]
    report_columns: int | None = None
    delta: float = 0.0

    def __post_init__(self) -> None:
        if set(self.mechanisms) != set(self.schema.columns):
            raise PrivotError(
                f"mechanisms are for columns {sorted(self.mechanisms)}, the schema has "
                f"{sorted(self.schema.columns)}: give one a column"
            )
        k, total = self.report_columns, len(self.schema.columns)
        if k is not None and (type(k) is not int or not 1 <= k <= total):
            raise PrivotError(
                f"report_columns {k} is not between 1 and the schema's {total} columns"
            )
        if not 0 <= self.delta < 1:
            raise PrivotError(f"delta {self.delta} is not a small probability: give 0 ≤ delta < 1")
        # Computing the promise refuses mechanisms that do not fit, or promise nothing.
        calibration.joint_guarantee(self.schema, self.mechanisms, self.num_reported, self.delta)

    @classmethod
    def calibrate(
        cls,
        schema: Schema,
        epsilon: float,
        delta: float = 0.0,
        *,
        mechanism: str = "laplace",
        report_columns: int | None = None,
    ) -> Self:
        """Choose the least noise that gives each person (`epsilon`, `delta`)-local privacy.

        Categorical columns use k-ary randomized response; numeric and vector columns use
        `mechanism`. Each reported column gets an equal share of ε; Gaussian columns share one joint
        guarantee (see `privot.release.calibration`).

        Arguments:
            schema: What a record may be.
            epsilon: Privacy loss of one person's whole report; > 0.
            delta: 0 for `"laplace"`; between 0 and 1 for `"gaussian"`.
            mechanism: `"laplace"` or `"gaussian"`.
            report_columns: Number of columns a person reports; all by default. With 1, only
                one-column marginals can be learned.

        Raises:
            PrivotError: if the values are out of range, or do not fit each other.
        """
        mechanisms = calibration.calibrate_columns(
            schema, epsilon, delta, mechanism, report_columns or len(schema.columns)
        )
        randomizer = cls(schema, mechanisms, report_columns, delta)
        # Calibration rounds to the safe side; what is promised is checked again, from the noise.
        if randomizer.guarantee.epsilon > epsilon:
            raise PrivotError(
                f"epsilon {epsilon} could not be reached (noise gives "
                f"{randomizer.guarantee.epsilon}): please report this as a bug"
            )
        return randomizer

    @property
    def guarantee(self) -> PureDP | ApproximateDP:
        """What one report promises, computed from the noise as it is, never merely remembered."""
        return calibration.joint_guarantee(
            self.schema, self.mechanisms, self.num_reported, self.delta
        )

    @property
    def num_reported(self) -> int:
        """Number of columns in one person's report."""
        return self.report_columns or len(self.schema.columns)

    @property
    def marginals_only(self) -> bool:
        """Whether reports hold one column of several, so that no joint structure can be learned."""
        return self.num_reported == 1 and len(self.schema.columns) > 1

    def privatize(self, data: Any) -> Release:
        """Randomize records: what each person's device does, for a whole table at once.

        Values outside their bounds are projected to the domain. Every call draws fresh noise: to
        report the same record twice is to spend its budget twice.

        Arguments:
            data: A pandas, polars or pyarrow table, or a dict of columns, with the schema's columns.

        Raises:
            PrivotError: for missing, extra, or unusable columns and values.
        """
        table = as_table(data)
        self.schema.check_table(table)
        chosen = draw_columns(table.num_rows, len(self.schema.columns), self.num_reported)
        reported = {name: chosen[:, index] for index, name in enumerate(self.schema.columns)}
        noisy = {}
        for name, values in encode_records(self.schema, table).items():
            # What is not reported is never randomized, so that nothing of it can be left in memory
            # under a null. Zeros stand there instead.
            noisy[name] = np.zeros_like(values)
            noisy[name][reported[name]] = self.mechanisms[name].privatize(values[reported[name]])
        return Release(reports_table(self.schema, noisy, reported), self)

    def count_outside(self, data: Any) -> dict[str, int]:
        """How many raw values of each continuous column lie outside its domain.

        For whoever holds the raw records, to notice a wrong unit before reporting. The counts are
        exact functions of raw data: they never enter a release.
        """
        table = as_table(data)
        self.schema.check_table(table)
        return count_outside(self.schema, table)

    def to_json(self) -> str:
        """Canonical JSON, with the guarantee it implies and a fingerprint against alteration."""
        fields = {
            "format": FORMAT,
            "schema": self.schema.to_dict(),
            "mechanisms": {name: self.mechanisms[name].to_dict() for name in self.schema.columns},
            "report_columns": self.report_columns,
            "delta": self.delta,
            "guarantee": self.guarantee.to_dict(),
        }
        return json.dumps(fields | {"fingerprint": _fingerprint(fields)}, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read the canonical JSON, and check that it still says what it was written to say.

        Raises:
            PrivotError: if it is damaged, altered, or from a newer version.
        """
        try:
            fields = json.loads(text)
            fingerprint = fields.pop("fingerprint")
            version = fields["format"]
        except (ValueError, KeyError, AttributeError, TypeError):
            raise PrivotError(
                "the randomizer is not readable: write it again with `privot calibrate`"
            ) from None
        if version != FORMAT:
            raise PrivotError(
                f"the randomizer has format {version}, this version reads {FORMAT}: upgrade privot"
            )
        if fingerprint != _fingerprint(fields):
            raise PrivotError(
                "the randomizer was altered after it was calibrated, so its guarantee is void: "
                "calibrate again with `privot calibrate`"
            )
        randomizer = cls(
            Schema.from_dict(fields["schema"]),
            {name: mechanism_from_dict(m) for name, m in fields["mechanisms"].items()},
            fields["report_columns"],
            fields["delta"],
        )
        stated = guarantee_from_dict(fields["guarantee"])
        if not calibration.same_promise(stated, randomizer.guarantee):
            raise PrivotError(
                f"the randomizer states {stated}, its noise gives {randomizer.guarantee}: "
                "calibrate again with `privot calibrate`"
            )
        return randomizer

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read `randomizer.json`."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise PrivotError(f"randomizer {path} cannot be read: {error}") from None
        return cls.from_json(text)

    def save(self, path: str | Path) -> None:
        """Write `randomizer.json`; an existing file survives any failure."""
        with replacing_file(path) as draft:
            draft.write_text(self.to_json() + "\n", encoding="utf-8")


@dataclass(frozen=True)
class Release:
    """The reports, and the randomizer that made them: the only thing that training can see.

    It is a Parquet file whose columns are the schema's and whose metadata holds the randomizer, so
    it knows its own guarantee and its own likelihood. What a person did not report is null. It holds
    nothing that was not randomized on a device; whatever is computed from it keeps its guarantee
    (post-processing), however often and by whomever.

    Arguments:
        table: One row a report: the schema's table columns, noisy, null where not reported.
        randomizer: What was done to each record.
    """

    table: pa.Table
    randomizer: Randomizer

    def __post_init__(self) -> None:
        self.schema.check_table(self.table)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @property
    def schema(self) -> Schema:
        """What one record may be."""
        return self.randomizer.schema

    @property
    def guarantee(self) -> PureDP | ApproximateDP:
        """What is promised to each person who reported once."""
        return self.randomizer.guarantee

    def reports(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """One column's reports, and a mask (n,) of who reported it.

        A continuous column's reports are noisy unit coordinates (n, d); a categorical column's are
        category indices (n,). Entries of those who did not report it are 0.
        """
        return decode_reports(self.schema, self.table, name, self.randomizer.mechanisms[name])

    def save(self, path: str | Path) -> None:
        """Write `release.parquet`; an existing file survives any failure."""
        write_reports(path, self.table, self.randomizer.to_json())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read `release.parquet` and check that reports and randomizer belong together.

        Raises:
            PrivotError: if the file is missing, truncated, not a release, or altered.
        """
        table, text = read_reports(path)
        release = cls(table, Randomizer.from_json(text))
        made_by = release.randomizer
        check_reports(made_by.schema, table, made_by.mechanisms, made_by.num_reported, path)
        return release


def _fingerprint(fields: dict[str, Any]) -> str:
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
