"""The same fit, for people who think in scikit-learn's terms: parameters first, `fit`, then `sample`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import pyarrow as pa

from privot.errors import PrivotError
from privot.local.fitting import fit, require_release
from privot.local.model import LocalModel
from privot.local.settings import FitSettings
from privot.privacy.rounding import at_most, exactly
from privot.release import Release
from privot.schema import Schema
from privot.summary import Summarized

_PARAMETERS = ("schema", "epsilon", "settings", "seed")


class Synthesizer(Summarized):
    """A model to be, of records that each person privatizes before anybody collects them.

    Follows scikit-learn's conventions without needing it: parameters are kept as given, `fit` returns
    the estimator itself, what was learned ends with an underscore, and `clone` works.

    Arguments:
        schema: What one record may be.
        epsilon: The most that the release may have cost each person, if there is to be a limit.
        settings: How to fit; the defaults otherwise.
        seed: Of the fit.

    Attributes:
        model_: The [`LocalModel`][privot.local.model.LocalModel], once there is one.

    Examples:
        >>> from privot import Randomizer, Schema
        >>> schema = Schema.from_toml('''
        ... [columns.color]
        ... kind = "categorical"
        ... categories = ["red", "blue"]
        ... ''')
        >>> colors = {"color": ["red", "blue"] * 200}
        >>> release = Randomizer.calibrate(schema, epsilon=2.0).privatize(colors)  # on the devices
        >>> Synthesizer(schema, epsilon=2.0).fit(release).sample(3).shape
        (3, 1)
    """

    model_: LocalModel

    def __init__(
        self,
        schema: Schema,
        epsilon: float | None = None,
        settings: FitSettings | None = None,
        seed: int = 0,
    ) -> None:
        self.schema, self.epsilon, self.settings, self.seed = schema, epsilon, settings, seed

    def summary(self) -> dict[str, object]:
        """See `Summarized`."""
        limit = "any" if self.epsilon is None else f"at most {exactly(self.epsilon)}"
        return self.schema.summary() | {"epsilon": limit, "fitted": hasattr(self, "model_")}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's arguments."""
        return {name: getattr(self, name) for name in _PARAMETERS}

    def set_params(self, **params: Any) -> Self:
        """Change some of them.

        Raises:
            PrivotError: naming what is no parameter.
        """
        for name, value in params.items():
            if name not in _PARAMETERS:
                raise PrivotError(f"{name} is no parameter: use one of {', '.join(_PARAMETERS)}")
            setattr(self, name, value)
        return self

    def fit(self, release: Release, y: None = None) -> Self:
        """Learn from a release; `y` is there for scikit-learn, and ignored.

        Raises:
            PrivotError: for raw records, a release of another schema, or of more than `epsilon`.
        """
        require_release(release)
        if release.schema != self.schema:
            raise PrivotError(
                f"schema {self.schema} is not the release's, {release.schema}: give the one that the "
                "randomizer was calibrated for"
            )
        spent = release.guarantee.epsilon
        if self.epsilon is not None and spent > self.epsilon:
            raise PrivotError(
                f"epsilon {exactly(self.epsilon)} is less than the release's {at_most(spent)}: "
                "calibrate the randomizer to it, or allow more"
            )
        self.model_ = fit(release, self.settings, seed=self.seed)
        return self

    def sample(
        self, num_rows: int, seed: int | None = None, where: Mapping[str, Any] | None = None
    ) -> pa.Table:
        """Draw synthetic records: see [`Model.sample`][privot.models.model.Model.sample].

        Raises:
            PrivotError: before `fit`, and as the model's own.
        """
        if not hasattr(self, "model_"):
            raise PrivotError("the synthesizer is not fitted: call fit(release) first")
        return self.model_.sample(num_rows, seed, where)
