r"""An integral model: a secret density, a declared number of draws, and a ledger that counts them.

The folder (`model.json`, `weights.npz`, `ledger.json`) is **secret**: the density, its parameters and
plots of it are not private, and `model.json` says so (`"publishable": false`). What may leave are the
records that `sample` returns.

**The budget.** `epsilon` is the promise about **all `draws` together**: each costs `epsilon/draws`.
`epsilon_per_draw` declares the price of one instead, and the whole is `draws` times that. Both add up by
basic composition: densities of independent draws multiply. Any two data sets, of any sizes, are covered;
a second model of the same data is a second budget.

**What depends on raw data besides the draws:** the weights, the time and memory that a fit and a draw
take, how many proposals were refused. None of it may be shown to others; none of it is logged.
"""

from __future__ import annotations

import math
import secrets
import shutil
import zipfile
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa

from privot.errors import PrivotError
from privot.files import replacing_folder
from privot.integral.boosting import BoostSettings, boost
from privot.integral.clipping import ClippedRatioSettings, clip_ratio
from privot.integral.density import TiltedDensity
from privot.integral.ledger import FileLedger, Ledger, MemoryLedger
from privot.integral.records import RecordSpace
from privot.integral.references import (
    ProductReference,
    Reference,
)
from privot.integral.storage import build_density, plain_marginal
from privot.model_folder import ModelKind
from privot.privacy import ApproximateDP, IntegralPrivacy
from privot.privacy.rounding import multiply_up, require_finite
from privot.release import as_table
from privot.schema import Schema

KIND = ModelKind("integral", 2, "privot integral fit")
WEIGHTS = "weights.npz"


class IntegralModel:
    """A secret density and what may still be drawn from it.

    Examples:
        >>> from privot.integral import StandardNormal
        >>> rng = np.random.default_rng(0)
        >>> model = IntegralModel.fit(
        ...     rng.normal(0.5, 1.0, (500, 1)), reference=StandardNormal(1), unit="person",
        ...     epsilon=2.0, draws=4,
        ... )
        >>> model.sample(3).shape, model.draws_left
        ((3, 1), 1)
        >>> print(model.guarantee)
        ε = 2 (integral), any, per person
    """

    def __init__(
        self,
        density: TiltedDensity,
        ledger: Ledger,
        space: RecordSpace | None,
        unit: str,
        made_with: dict[str, Any],
    ) -> None:
        self.density, self.ledger, self.space = density, ledger, space
        self.unit, self.made_with = unit, made_with

    @classmethod
    def fit(
        cls,
        data: Any,
        *,
        draws: int,
        epsilon: float | None = None,
        epsilon_per_draw: float | None = None,
        schema: Schema | RecordSpace | None = None,
        reference: Reference | None = None,
        settings: ClippedRatioSettings | BoostSettings | None = None,
        unit: str | None = None,
    ) -> Self:
        """Learn a density from raw records, for a declared number of draws.

        Arguments:
            data: With a schema a table (pandas, polars, pyarrow, dict), else an array (n, dim).
            draws: How many draws will ever be published.
            epsilon: Of all draws **together**; or else
            epsilon_per_draw: of each.
            schema: Columns of the table; a `RecordSpace` declares marginals as well.
            reference: Public density of an array's rows; with it, `unit`.
            settings: `ClippedRatioSettings` (the default) or `BoostSettings`: decides the method.
            unit: Whom one row of an array belongs to; a schema says its own.

        Raises:
            PrivotError: if the data, the budget or the settings cannot be used; never repeating values.
        """
        price = _price(epsilon, epsilon_per_draw, draws)
        settings = settings or ClippedRatioSettings()
        space = RecordSpace(schema) if isinstance(schema, Schema) else schema
        if (space is None) == (reference is None) or (reference is None) != (unit is None):
            raise PrivotError(
                "give either schema, for a table, whose unit it says, or reference and unit, for an "
                "array: unit is whom one row belongs to, such as 'person'"
            )
        public: Reference
        if space is not None:
            records, public = space.encode(_table(data), settings.seed), space.reference
            unit = space.schema.unit
        else:
            assert reference is not None
            records, public = data, reference
        if isinstance(settings, BoostSettings):
            density, method = boost(records, public, price, settings), "boost"
        else:
            density, method = clip_ratio(records, public, price, settings), "clip"
        made_with = {"method": method} | asdict(settings)
        assert unit is not None
        return cls(density, MemoryLedger(draws), space, unit, made_with)

    @property
    def guarantee(self) -> IntegralPrivacy | ApproximateDP:
        """The promise about all declared draws together, spent or not."""
        epsilon = multiply_up(float(self.ledger.budget), self.density.epsilon)
        if self.density.delta:
            return ApproximateDP(epsilon, self.density.delta, "any", self.unit)
        return IntegralPrivacy(epsilon, unit=self.unit)

    @property
    def draws_left(self) -> int:
        """How many draws may still be made."""
        return self.ledger.budget - self.ledger.spent

    def sample(self, n: int, proposals: int | None = None) -> Any:
        """Spend n draws and make them: a table with the schema's columns, or an array (n, dim).

        Arguments:
            n: How many. They are spent even if the process dies before it returns.
            proposals: A fixed number a draw, to close the timing channel: see
                [`TiltedDensity.draw`][privot.integral.density.TiltedDensity.draw].

        Raises:
            PrivotError: if fewer are left, or the ledger cannot be trusted.
        """
        if proposals is not None:
            self.density.shortfall(proposals)  # refuses a useless number before anything is spent
        self.ledger.spend(n)
        points = self.density.draw(n, proposals)
        return points if self.space is None else self.space.decode(points)

    def save(self, path: str | Path) -> None:
        """Write the secret folder, readable by its owner only; from now on its ledger counts.

        Raises:
            PrivotError: if the folder exists, or the model has one already (a copy of a budget would
                double it).
        """
        path = Path(path)
        if isinstance(self.ledger, FileLedger):
            raise PrivotError(
                f"the model is saved in {self.ledger.folder}: a second folder would double its budget"
            )
        if path.exists():
            raise PrivotError(f"{path} exists: a model's ledger is never overwritten; name another")
        tilt, arrays = self.density.tilt.pack()
        fields = self._fields(tilt)
        with replacing_folder(path, secret=True) as folder:
            with open(folder / WEIGHTS, "wb") as file:
                np.savez(file, allow_pickle=False, **arrays)
            sealed = KIND.seal(folder, fields)
        ledger = FileLedger(path.resolve(), sealed["seal"], self.ledger.budget)
        try:
            ledger.create(self.ledger.spent)
        except PrivotError:
            shutil.rmtree(path)  # without its ledger it could never be drawn from
            raise
        self.ledger = ledger

    def _fields(self, tilt: dict[str, Any]) -> dict[str, Any]:
        space, base = self.space, self.density.reference
        base = getattr(base, "base", base)
        return {
            "publishable": False,
            "warning": "SECRET: only draws by `privot integral sample` may leave this folder",
            "id": secrets.token_hex(16),
            "guarantee": self.guarantee.to_dict(),
            "in_words": self.guarantee.describe(),
            "draws": self.ledger.budget,
            "epsilon_per_draw": self.density.epsilon,
            "limits": [self.density.low, self.density.high],
            "normalizer": self.density.normalizer and asdict(self.density.normalizer),
            "unit": self.unit,
            "reference": base.to_dict() if isinstance(base, ProductReference) else None,
            "schema": space and space.schema.to_dict(),
            "marginals": space and {k: plain_marginal(m) for k, m in space.marginals.items()},
            "missing": space and space.missing,
            "tilt": tilt,
            "made_with": self.made_with,
        }

    @classmethod
    def load(cls, path: str | Path, reference: Reference | None = None) -> Self:
        """Read a model's folder; `reference` is needed, and used, only for one of your own.

        Raises:
            PrivotError: if it is missing, damaged, or from a newer version.
        """
        path = Path(path)
        fields = KIND.read(path)
        if fields["reference"] is None and reference is None:
            raise PrivotError(
                f"model {path} was fitted with a reference of your own: give it again"
            )
        try:
            with np.load(path / WEIGHTS, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
            density, space = build_density(fields, arrays, reference)
        except (OSError, KeyError, ValueError, TypeError, zipfile.BadZipFile) as error:
            raise PrivotError(
                f"model {path} is damaged ({error}): copy it again, or fit it again"
            ) from None
        ledger = FileLedger(path.resolve(), fields["seal"], fields["draws"])
        return cls(density, ledger, space, fields["unit"], fields["made_with"])


def _table(data: Any) -> pa.Table:
    """The data as a table; what is said of one that mixes types repeats none of its values."""
    try:
        return as_table(data)
    except PrivotError:
        raise PrivotError(
            "data is no table of one type a column: give a pandas, polars or pyarrow table, or a "
            "dict of columns"
        ) from None


def _price(epsilon: float | None, epsilon_per_draw: float | None, draws: int) -> float:
    """ε of one draw, rounded down so that all together stay within ε."""
    if not isinstance(draws, int) or draws < 1:
        raise PrivotError(
            f"draws is {draws!r}: declare how many will ever be published, at least 1"
        )
    if (epsilon is None) == (epsilon_per_draw is None):
        raise PrivotError(
            "give either epsilon, of all draws together, or epsilon_per_draw, of each of them"
        )
    if epsilon is None:
        assert epsilon_per_draw is not None
        require_finite("epsilon_per_draw", epsilon_per_draw, positive=True)
        return epsilon_per_draw
    require_finite("epsilon", epsilon, positive=True)
    price = float(Fraction(epsilon) / draws)
    return price if Fraction(price) * draws <= Fraction(epsilon) else math.nextafter(price, 0.0)
