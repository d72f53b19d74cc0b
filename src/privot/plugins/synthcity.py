"""Plug-in for synthcity, which learns from privatized reports of the rows.

    from synthcity.plugins import Plugins
    from privot.plugins.synthcity import PrivotPlugin

    plugins = Plugins(categories=[])
    plugins.add("privot", PrivotPlugin)
    plugin = plugins.get("privot", schema=open("schema.toml").read(), epsilon=4.0)

**Privacy review.** Adjacency: one row is replaced by another; every row is randomized by itself, so
that whatever is learned, stored and generated is ε-locally private if a person has one row. synthcity's
own `fit` would compute types, smallest and largest values and categories from the rows, store them with
the plug-in, and refuse generated rows beyond them. Here it sees rows that were sampled from the model
instead. The number of rows is public. An error about a row that the schema does not allow may quote its
values to whoever calls `fit`.
"""

from typing import Any

import pandas as pd
from synthcity.plugins.core.constraints import Constraints
from synthcity.plugins.core.dataloader import DataLoader, GenericDataLoader
from synthcity.plugins.core.distribution import Distribution, FloatDistribution
from synthcity.plugins.core.plugin import Plugin
from synthcity.plugins.core.schema import Schema as SynthcitySchema

from privot import Randomizer, Schema, fit
from privot.core.errors import PrivotError
from privot.local.model import LocalModel

_ROWS_FOR_SYNTHCITY = 10_000  # sampled rows from which synthcity computes its own schema


class PrivotPlugin(Plugin):
    """Plug-in "privot", which privatizes every row by itself and learns from the reports alone.

    Arguments:
        schema: Declared columns, bounds and categories as TOML, which must be public. synthcity leaves
            it out when it loads a fitted plug-in.
        epsilon: ε of each row's report.
        kwargs: Arguments of synthcity's `Plugin`; `random_state` is the seed of the fit.

    Attributes:
        fitted_model: The fitted model; its `guarantee` says what holds.
    """

    fitted_model: LocalModel

    def __init__(self, schema: str = "", epsilon: float = 4.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.columns, self.epsilon = Schema.from_toml(schema) if schema else None, epsilon

    @staticmethod
    def name() -> str:
        """Return the name under which synthcity lists the plug-in."""
        return "privot"

    @staticmethod
    def type() -> str:
        """Return the plug-in's group, "privacy"."""
        return "privacy"

    @staticmethod
    def hyperparameter_space(**kwargs: Any) -> list[Distribution]:
        """Return the range of ε over which synthcity's search may choose."""
        return [FloatDistribution(name="epsilon", low=1.0, high=8.0, step=0.5)]

    def fit(self, X: DataLoader | pd.DataFrame, *args: Any, **kwargs: Any) -> "PrivotPlugin":
        """Privatize every row by itself, and learn from the reports.

        Raises:
            PrivotError: if `cond` is given, or the plug-in has no schema.
        """
        if self.columns is None:
            raise PrivotError("the plug-in has no schema: give get('privot', schema=…) its TOML")
        if kwargs.get("cond") is not None:
            raise PrivotError("cond is not supported: give `constraints` to `generate`")
        rows = X if isinstance(X, pd.DataFrame) else X.dataframe()
        release = Randomizer.calibrate(self.columns, epsilon=self.epsilon).privatize(rows)
        self.fitted_model = fit(release, seed=self.random_state)
        drawn = self.fitted_model.sample(_ROWS_FOR_SYNTHCITY, seed=self.random_state)
        super().fit(
            GenericDataLoader(
                drawn.to_pandas(date_as_object=False, coerce_temporal_nanoseconds=True)
            )
        )
        self.data_info["len"] = len(rows)
        return self

    def generate(
        self,
        count: int | None = None,
        constraints: Constraints | None = None,
        random_state: int | None = None,
        **kwargs: Any,
    ) -> DataLoader:
        """Return `count` sampled rows that satisfy the constraints; as many as were fitted by default.

        Raises:
            PrivotError: if too few of `sampling_patience` samples satisfy the constraints.
        """
        if not self.fitted:
            raise RuntimeError("Fit the generator first")
        count = self.data_info["len"] if count is None else count
        seed = self.random_state if random_state is None else random_state
        parts: list[pd.DataFrame] = []
        for attempt in range(self.sampling_patience):
            sample = self.fitted_model.sample(count, seed=seed + attempt).to_pandas(
                date_as_object=False, coerce_temporal_nanoseconds=True
            )
            parts.append(sample if constraints is None else constraints.match(sample))
            if sum(map(len, parts)) >= count:
                return GenericDataLoader(pd.concat(parts, ignore_index=True).head(count))
        raise PrivotError(
            f"fewer than count {count} of {self.sampling_patience * count} sampled rows satisfy the "
            "constraints: relax them, or raise sampling_patience"
        )

    def _fit(self, X: DataLoader, *args: Any, **kwargs: Any) -> "PrivotPlugin":
        """Do nothing: the model was fitted before synthcity received any row."""
        return self

    def _generate(self, count: int, syn_schema: SynthcitySchema, **kwargs: Any) -> DataLoader:
        """Return sampled rows; `generate` does not call it."""
        return self.generate(count, syn_schema.as_constraints())
