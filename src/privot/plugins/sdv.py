"""Synthesizer with SDV's interface, which learns from privatized reports of the rows.

**Privacy review.** Adjacency: one row is replaced by another; every row is randomized by itself, so
that whatever is learned, stored and sampled is ε-locally private if a person has one row. SDV's own
`fit` would compute transformers from the rows (smallest and largest values, categories), store them with
the synthesizer, and use them for its samples. Here it sees rows that were sampled from the model
instead, and its steps that take rows by themselves (`preprocess`, `auto_assign_transformers`) are
refused. Bounds and categories are those of the declared schema. The number of rows is public. An error
about a row that the schema does not allow may quote its values to whoever calls `fit`.
"""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from sdv.metadata import Metadata
from sdv.single_table.base import BaseSingleTableSynthesizer

from privot import Randomizer, Schema, fit
from privot.core.errors import PrivotError
from privot.local.model import LocalModel
from privot.local.releases import Reports
from privot.schema.drafts import write_metadata

_ROWS_FOR_SDV = 10_000  # sampled rows from which SDV computes its transformers
_UNIT = pd.to_datetime(["2024-01-01"]).unit  # dates as pandas reads them: SDMetrics sees integers


class PrivotSynthesizer(BaseSingleTableSynthesizer):
    """Synthesizer for SDV that privatizes every row by itself, and learns from the reports alone.

    Arguments:
        metadata: SDV's metadata of one table, with the schema's columns; see `metadata_of`.
        schema: Declared columns, bounds and categories, which must be public.
        epsilon: ε of each row's report.
        seed: Seed of the fit and of samples; the noise of reports has no seed.

    Attributes:
        model: The fitted model; its `guarantee` says what holds.

    Raises:
        PrivotError: if metadata and schema have different columns.
    """

    model: LocalModel
    _passes_samples = False  # whether SDV's `fit` runs, on samples

    def __init__(
        self, metadata: Metadata, schema: Schema, epsilon: float = 4.0, seed: int = 0
    ) -> None:
        super().__init__(metadata)
        known, declared = set(metadata.get_column_names()), set(schema.sampled_columns)
        if known != declared:
            raise PrivotError(
                f"metadata and schema differ in columns {sorted(known ^ declared)}: describe the same "
                "table by both, or use metadata_of(schema)"
            )
        self.schema, self.epsilon, self.seed = schema, epsilon, seed

    def fit(self, data: pd.DataFrame) -> None:
        """Privatize every row by itself, and learn from the reports."""
        self.fit_release(Randomizer.calibrate(self.schema, epsilon=self.epsilon).privatize(data))

    def fit_release(self, release: Reports) -> None:
        """Learn from reports that devices sent.

        Raises:
            PrivotError: if the release is of another schema.
        """
        if release.schema != self.schema:
            raise PrivotError("the release is of another schema than the synthesizer: give its own")
        self.model = fit(release, seed=self.seed)
        self._set_random_state(self.seed)
        self._passes_samples = True
        try:
            super().fit(self._draw(_ROWS_FOR_SDV, {}))
        finally:
            self._passes_samples = False

    def preprocess(self, data: Any) -> Any:
        """Transform the samples of a fit; refuse rows, whose bounds and categories SDV would store."""
        if not self._passes_samples:
            raise PrivotError("preprocess stores bounds of rows: call fit or fit_release alone")
        return super().preprocess(data)

    def auto_assign_transformers(self, data: Any) -> None:
        """Raise an error: SDV would store bounds of the rows."""
        raise PrivotError("transformers are assigned from samples: call fit or fit_release alone")

    def add_constraints(self, constraints: list[Any]) -> None:
        """Raise an error: constraints are rules of the schema, which samples satisfy."""
        raise PrivotError(
            "constraints are no part of this synthesizer: declare rules in the schema"
        )

    def _fit(self, processed_data: pd.DataFrame) -> None:
        """Do nothing: the model was fitted before SDV received any row."""

    def _set_random_state(self, random_state: int) -> None:
        self._rng = np.random.default_rng(random_state)
        self._random_state_set = True

    def _draw(self, num_rows: int, where: Mapping[str, Any]) -> pd.DataFrame:
        seed = int(self._rng.integers(2**31))
        rows = self.model.sample(num_rows, seed, where).to_pandas(date_as_object=False)
        dates = rows.select_dtypes("datetime")
        return rows.assign(**{name: dates[name].dt.as_unit(_UNIT) for name in dates})

    def _sample_rows(
        self,
        num_rows: int,
        conditions: Mapping[str, Any] | None = None,
        transformed_conditions: Mapping[str, Any] | None = None,
        float_rtol: float = 0.1,
        previous_rows: pd.DataFrame | None = None,
        keep_extra_columns: bool = False,
    ) -> tuple[pd.DataFrame, int]:
        """Return rows after `previous_rows`, and their number; conditions hold by the model itself."""
        if not self._random_state_set:
            self._set_random_state(self.seed)
        rows = [self._draw(num_rows, conditions or {})]
        if previous_rows is not None and len(previous_rows):
            rows.insert(0, previous_rows)
        sampled = pd.concat(rows, ignore_index=True)
        return sampled, len(sampled)


def metadata_of(schema: Schema) -> Metadata:
    """Return SDV's metadata of the columns of a schema."""
    return Metadata.load_from_dict(json.loads(write_metadata(schema)))
