"""Candidates report of a vector or an image, with or without a label, which spends the whole ε.

A record is encoded as a unit vector of features, whose mean over people contains the moments of its
coordinates for each label (`privot.mechanisms.candidates.features`). The report is one of many public
directions (`privot.mechanisms.candidates.codebook`), stored as a seed and an index, of 12 bytes
together. If ε were split between image and label, their dependence would hardly be identified.

**Privacy review.** Adjacency: any two records. The proof of the mechanism gives ε for any two vectors of
any length, hence for any two records, image and label together. Only the seed and the index leave the
device. Error messages depend on the record, as for every column; a record that was read is projected, so
no later error occurs. Coordinates, features and codebook depend on schema and ε only.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from privot.core.errors import PrivotError
from privot.mechanisms import Laplace
from privot.mechanisms.candidates.codebook import LARGEST_DIMENSION, ClosestCandidates, Codebook
from privot.mechanisms.candidates.features import Coordinates, Features, Moments
from privot.privacy import PureDP
from privot.privacy.distributed import ReportLaw
from privot.privacy.rounding import at_least, percent_at_most
from privot.randomizer.reports.rows import one_array
from privot.schema import Column, Schema
from privot.schema.columns.column import CodedColumn, PointColumn
from privot.schema.domains import Array

# Names of a release's columns, which no column of a schema may have.
SEED, INDEX = "candidates.seed", "candidates.index"

CANDIDATES = "candidates"  # name of the mechanism

FEW_COORDINATES = 3  # vectors with at most this many coordinates are reported with noise instead
_MAX_LABELED = 2**14  # largest number of features with a label
_RECORDS_AT_ONCE = 2**8  # records that are randomized together, to bound memory
# Number of reported cosines of an image, by the least ε: less noise allows more cosines.
_COSINES = {0: 48, 4: 64, 8: 98}


@dataclass(frozen=True)
class CandidateRecords:
    """Encoded records: points (n, q) on the unit sphere, NaN if missing, and codes of labels (n,)."""

    points: Array
    codes: NDArray[np.int64]


@dataclass(frozen=True)
class CandidateAnswers:
    """Reports of n people: seeds (n,) and indices of candidates (n,)."""

    seeds: NDArray[np.uint64]
    indices: NDArray[np.uint32]


@dataclass(frozen=True)
class CandidatesReport:
    """Report of a column of vectors or images together with a label."""

    name: str  # name of the column in the schema
    label: str | None  # name of the label's column; None without a label
    coordinates: Coordinates  # reported coordinates of a vector or an image
    features: Features  # map from coordinates and labels to features
    mechanism: ClosestCandidates  # mechanism for a vector of features
    labels: CodedColumn | None = None  # declaration of the label's column; None without a label

    def __post_init__(self) -> None:
        column, features = self.coordinates.column, self.features
        declared = (self.coordinates.dimension, _num_labels(self.labels), column.nullable)
        if (features.num_coordinates, features.num_labels, features.nullable) != declared:
            raise PrivotError(
                f"the candidates report of column {self.name!r} is not as the schema declares it: "
                "calibrate again"
            )
        if features.dimension > self.mechanism.codebook.dimension:  # otherwise zeros fill it
            raise PrivotError(
                f"the candidates of column {self.name!r} have {self.mechanism.codebook.dimension} "
                f"numbers, its records {features.dimension}: calibrate again"
            )

    @classmethod
    def calibrate(cls, schema: Schema, name: str, label: str | None, epsilon: float) -> Self:
        """Create the report of least error that spends `epsilon`."""
        column, labels = schema.point_column(name), schema.coded[label] if label else None
        coordinates = coordinates_at(column, epsilon)
        features = Features.of(coordinates.dimension, _num_labels(labels), column.nullable)
        mechanism = ClosestCandidates.for_dimension(features.dimension, epsilon)
        return cls(name, label, coordinates, features, mechanism, labels)

    def to_dict(self) -> dict[str, Any]:
        """Return its arguments as plain values."""
        codebook = self.mechanism.codebook
        return {
            "column": self.name,
            "label": self.label,
            "coordinates": self.coordinates.count,
            "label_weight": self.features.label_weight,
            "epsilon": self.mechanism.epsilon,
            "dimension": codebook.dimension,
            "blocks": codebook.blocks,
            "closest": self.mechanism.closest,
        }

    @classmethod
    def from_dict(cls, schema: Schema, fields: Mapping[str, Any]) -> Self:
        """Create a report from the plain values of `to_dict`."""
        name, label = fields["column"], fields["label"]
        column = schema.point_column(name)
        labels = None if label is None else schema.coded[label]
        coordinates = Coordinates(column, fields["coordinates"])
        num_coordinates, weight = coordinates.dimension, fields["label_weight"]
        features = Features(num_coordinates, _num_labels(labels), weight, column.nullable)
        codebook = Codebook(fields["dimension"], fields["blocks"])
        mechanism = ClosestCandidates(fields["epsilon"], codebook, fields["closest"])
        return cls(name, label, coordinates, features, mechanism, labels)

    @property
    def columns(self) -> list[str]:
        """Names of the reported columns of the schema."""
        return [self.name, *([self.label] if self.label is not None else [])]

    @property
    def types(self) -> dict[str, pa.DataType]:
        """Names and types of the report's columns in a release."""
        return {SEED: pa.uint64(), INDEX: pa.uint32()}

    def encode(self, table: pa.Table) -> CandidateRecords:
        """Encode the raw values of a table as coordinates and codes."""
        units = self.coordinates.column.encode_units(self.name, table)
        codes = np.zeros(len(units), np.int64)
        if self.labels is not None and self.label is not None:
            codes = self.labels.encode_codes(self.label, table)
        return CandidateRecords(self.coordinates.encode(units), codes)

    def privatize(self, records: CandidateRecords) -> dict[str, pa.Array]:
        """Draw one report for each record; return them as table columns."""
        count = len(records.points)
        seeds, indices = np.empty(count, np.uint64), np.empty(count, np.uint32)
        for start in range(0, count, _RECORDS_AT_ONCE):
            rows = slice(start, start + _RECORDS_AT_ONCE)
            vectors = self.features.encode(records.points[rows], records.codes[rows])
            seeds[rows], indices[rows] = self.mechanism.privatize(vectors)
        return {SEED: pa.array(seeds), INDEX: pa.array(indices)}

    def vectors(self, records: CandidateRecords) -> NDArray[np.float32]:
        """Return the unit vectors of features (n, d) of records."""
        return self.features.encode(records.points, records.codes)

    def read(self, table: pa.Table) -> CandidateAnswers:
        """Read the reports in a release's table, which must all be possible."""
        seeds, indices = (one_array(table.column(name)).to_numpy() for name in (SEED, INDEX))
        return CandidateAnswers(seeds, indices)

    def moments(self, answers: CandidateAnswers) -> tuple[Moments, float]:
        """Return nearly unbiased estimates of the moments, and the standard deviation of mean features.

        A feature is a coordinate times the root of a weight (`Features`), so the standard deviation of a
        moment is that of its feature, divided by this root.
        """
        mean, stddev = self.mechanism.estimate_mean(answers.seeds, answers.indices)
        return self.features.decode(mean[: self.features.dimension]), stddev

    def faults(self, table: pa.Table) -> Iterator[tuple[NDArray[np.bool_], str]]:
        """Yield masks of rows (n,) that no device sends, with the reason."""
        seeds, indices = (table.column(name) for name in (SEED, INDEX))
        exists = pc.less(indices, self.mechanism.codebook.num_candidates)
        possible = pc.and_(pc.is_valid(seeds), pc.fill_null(exists, False))
        yield ~np.asarray(possible.to_numpy()), "no device names this candidate of a seed"

    @property
    def stddev(self) -> float:
        """Standard deviation of one report's estimate of a coordinate's mean, in unit coordinates."""
        # The estimate of a mean feature has standard deviation 1/gain. Coordinates of length
        # `large_length`, which few records exceed, become features of length √(1 − label weight).
        feature_length = math.sqrt(1 - self.features.label_weight)
        return self.coordinates.large_length / (self.mechanism.gain * feature_length)

    @property
    def laplace_stddev(self) -> float:
        """Standard deviation of Laplace noise, in unit coordinates, if the label gets half of ε."""
        share = self.mechanism.epsilon / len(self.columns)
        return math.sqrt(Laplace.for_column(self.coordinates.column, share).variance)

    @property
    def report_law(self) -> ReportLaw | None:
        """Overlap of the distributions of reports under two records; None if it is not known."""
        return self.mechanism.report_law

    def guarantee(self, unit: str) -> PureDP:
        """Return the guarantee of one report."""
        return PureDP(self.mechanism.epsilon, unit=unit)

    def expected(self) -> dict[str, Any]:
        """Describe the noise of the report; see `Randomizer.expected_noise`."""
        total, num_closest = self.mechanism.codebook.num_candidates, self.mechanism.closest
        close_words, _ = self.mechanism.words  # of 2^64 words, those that select a close candidate
        keep = close_words / 2**64
        laplace = self.laplace_stddev
        closest = "the closest" if num_closest == 1 else f"one of the {num_closest:,} closest"
        return {
            "column": " with ".join(self.columns),
            "mechanism": CANDIDATES,
            "columns": self.columns,
            "candidates": total,
            "closest": num_closest,
            "keep": keep,
            "features": self.features.dimension,
            "stddev": self.stddev,
            "laplace": laplace,
            "in_words": (
                f"one of {total:,} public directions, {closest} to the record with probability "
                f"{percent_at_most(keep)}; a mean over n reports errs by {at_least(self.stddev)}/√n in "
                f"each of {self.features.num_coordinates:,} coordinates, where Laplace noise would by "
                f"{at_least(laplace)}/√n (in units in which bounds are -1 and 1, or a radius is 1)"
            ),
        }


def unfit_for_candidates(column: Column) -> str:
    """Return the reason why candidates do not fit a column, with the remedy; "" if they fit."""
    domain = column.domain
    if domain is None or column.alphabet is not None or domain.dimension <= FEW_COORDINATES:
        return f"it is for images, and vectors of over {FEW_COORDINATES} numbers: use 'laplace'"
    return ""


def choose_columns(schema: Schema) -> tuple[str, str | None] | None:
    """Return the names of a schema's only image or long vector and of its label, if any.

    The label is a coded column, other than a vector of cells. Returns None if the schema has more
    columns, since no estimator learns them from candidates, or the label has too many values.
    """
    fitting = [name for name, column in schema.columns.items() if not unfit_for_candidates(column)]
    coded = [name for name in schema.coded if name not in schema.vectors]
    if len(fitting) != 1 or len(coded) > 1 or len(schema.columns) != 1 + len(coded):
        return None
    name, label = fitting[0], coded[0] if coded else None
    num_labels = _num_labels(None if label is None else schema.coded[label])
    column = schema.point_column(name)
    num_coordinates = coordinates_at(column, math.inf).dimension  # the most at any ε
    features = Features.of(num_coordinates, num_labels, column.nullable)
    most = LARGEST_DIMENSION if label is None else _MAX_LABELED
    return (name, label) if features.dimension <= most else None


def _num_labels(labels: CodedColumn | None) -> int:
    return 1 if labels is None else labels.alphabet.size


def reason_beside_others(schema: Schema, name: str) -> str:
    """Return the reason why a column that candidates would fit is reported with noise, or ""."""
    if unfit_for_candidates(schema.columns[name]) or choose_columns(schema) is not None:
        return ""
    return (
        "; candidates, which err less, report one image or long vector with one label at most, and "
        "are not combined with more columns"
    )


def coordinates_at(column: PointColumn, epsilon: float) -> Coordinates:
    """Return the reported coordinates: all of a vector; 48 to 98 cosines of an image, depending on ε."""
    dimension = column.domain.dimension
    if column.image_shape is None:
        return Coordinates(column, dimension)
    num_channels = math.prod(column.image_shape[2:])
    num_cosines = [count for least, count in _COSINES.items() if epsilon >= least][-1]
    # `Coordinates` adds the brightness of each channel, which is a cosine, too.
    return Coordinates(column, min(dimension - num_channels, num_cosines))
