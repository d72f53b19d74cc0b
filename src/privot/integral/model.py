r"""An integral model: a secret density, a declared number of draws, and a ledger that counts them.

The folder (`model.json`, `weights.npz`, `ledger.json`) is **secret**: the density, its parameters and
plots of it are not private, and `model.json` says so (`"publishable": false`). What may leave are the
records that `sample` returns.

**The budget.** `epsilon` is the promise about **all `draws` together**: each costs `epsilon/draws`.
`epsilon_per_draw` declares the price of one instead, and the whole is `draws` times that
(`privot.integral.draw_plan`).

**Nothing is drawn before the model is saved**: its folder counts. Copies of an unsaved model share one
ledger, which begins one folder and no second; it is neither pickled nor used in a forked process. Saving
enters the whole budget in the account of the records (`privot.disk.accounts`): a second model of the
same data is a second budget, and the curator is told.

**What depends on raw data besides the draws:** the weights, the fingerprint of the records, which is in
no file of the model, and the warning that they were used before; the time and memory that a fit and a
draw take, how many proposals were refused. None of it may be shown to others; none of it is logged.
"""

from __future__ import annotations

import secrets
import shutil
import zipfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa

from privot.disk import Ledger, charge, fingerprint
from privot.errors import PrivotError
from privot.files import replacing_folder
from privot.integral.boosting import BoostSettings, boost
from privot.integral.clipping import ClippedRatioSettings, clip_ratio
from privot.integral.densities.density import TiltedDensity
from privot.integral.densities.grid import require_inside
from privot.integral.densities.references import ProductReference, Reference
from privot.integral.densities.storage import build_density, plain_marginal
from privot.integral.draw_plan import DrawPlan, price_of_draw, say_what_it_buys
from privot.integral.records import RecordSpace
from privot.models import ModelKind
from privot.models.model import KINDS
from privot.privacy import ApproximateDP, IntegralPrivacy
from privot.release import as_table
from privot.schema import Schema
from privot.sliced import TableRecords

KIND = ModelKind("integral", 3, "privot integral fit")
WEIGHTS, LEDGER = "weights.npz", "ledger.json"
_CHUNK = 4096


class IntegralModel:
    """A secret density and what may still be drawn from it.

    Arguments:
        density: What is drawn from.
        ledger: Counts the draws; in memory until the model is saved.
        space: Of a table: its columns as points.
        made_with: Settings of the fit, plain values.
        digest: Fingerprint of the records, for the account that saving enters; None of a loaded model.

    Examples:
        >>> from privot.integral import StandardNormal
        >>> rng = np.random.default_rng(0)
        >>> model = IntegralModel.fit(
        ...     rng.normal(0.5, 1.0, (500, 1)), reference=StandardNormal(1), unit="person",
        ...     epsilon=2.0, draws=4,
        ... )
        >>> print(model.guarantee)
        ε = 2 (integral), any, per person
        >>> import tempfile
        >>> model.save(tempfile.mkdtemp() + "/secret")
        >>> model.sample(3).shape, model.draws_left
        ((3, 1), 1)
    """

    def __init__(
        self,
        density: TiltedDensity,
        ledger: Ledger[DrawPlan],
        space: RecordSpace | None,
        made_with: dict[str, Any],
        digest: str | None = None,
    ) -> None:
        self.density, self.ledger, self.space = density, ledger, space
        self.made_with, self._digest = made_with, digest

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
        price = price_of_draw(epsilon, epsilon_per_draw, draws)
        say_what_it_buys(price)
        settings = settings or ClippedRatioSettings()
        space = RecordSpace(schema) if isinstance(schema, Schema) else schema
        if (space is None) == (reference is None) or (reference is None) != (unit is None):
            raise PrivotError(
                "give either schema, for a table, whose unit it says, or reference and unit, for an "
                "array: unit is whom one row belongs to, such as 'person'"
            )
        public: Reference
        if space is not None:
            table = _table(data)
            records, public = space.encode(table, settings.seed), space.reference
            digest = fingerprint(_rows(table, space.schema))
            unit = space.schema.unit
        else:
            assert reference is not None
            records, public = require_inside(reference, data), reference
            digest = fingerprint([records])
        if isinstance(settings, BoostSettings):
            density, method = boost(records, public, price, settings), "boost"
        else:
            density, method = clip_ratio(records, public, price, settings), "clip"
        made_with = {"method": method} | asdict(settings)
        assert unit is not None
        plan = DrawPlan(secrets.token_hex(16), draws, density.epsilon, density.delta, unit)
        return cls(density, Ledger(plan), space, made_with, digest)

    @property
    def guarantee(self) -> IntegralPrivacy | ApproximateDP:
        """The promise about all declared draws together, spent or not."""
        return self.ledger.plan.guarantee

    @property
    def draws_left(self) -> int:
        """How many draws may still be made."""
        return self.ledger.left

    def sample(self, n: int, proposals: int | None = None) -> Any:
        """Spend n draws and make them: a table with the schema's columns, or an array (n, dim).

        Arguments:
            n: How many. They are spent even if the process dies before it returns.
            proposals: A fixed number a draw, to close the timing channel: see
                [`TiltedDensity.draw`][privot.integral.densities.density.TiltedDensity.draw].

        Raises:
            PrivotError: if the model is not saved, fewer are left, or the ledger cannot be trusted.
        """
        if self.ledger.path is None:
            raise PrivotError(
                "the model is not saved: call save(folder) first, the folder counts draws"
            )
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
        if self.ledger.path is not None:
            raise PrivotError(
                f"the model is saved in {self.ledger.path.parent}: a second folder would double its "
                "budget"
            )
        if path.exists():
            raise PrivotError(f"{path} exists: a model's ledger is never overwritten; name another")
        tilt, arrays = self.density.tilt.pack()
        fields = self._fields(tilt)
        with replacing_folder(path, secret=True) as folder:
            with open(folder / WEIGHTS, "wb") as file:
                np.savez(file, allow_pickle=False, **arrays)
            KIND.seal(folder, fields)
        try:
            if self._digest is not None:
                charge(self._digest, self.ledger)
            self.ledger.begin(path / LEDGER)
        except BaseException:  # Ctrl-C, too, and warnings that a program made errors
            shutil.rmtree(path)  # without its ledger it could never be drawn from
            raise

    def _fields(self, tilt: dict[str, Any]) -> dict[str, Any]:
        space, base = self.space, self.density.reference
        base = getattr(base, "base", base)
        return {
            "publishable": False,
            "warning": "SECRET: only draws by `privot integral sample` may leave this folder",
            "guarantee": self.guarantee.to_dict(),
            "in_words": self.guarantee.describe(),
            "plan": self.ledger.plan.to_dict(),
            "limits": [self.density.low, self.density.high],
            "normalizer": self.density.normalizer and asdict(self.density.normalizer),
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
            PrivotError: if it is missing, damaged, or of another version, or if its ledger is a copy
                that this account does not know, or that is behind.
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
            plan = DrawPlan.from_dict(fields["plan"])
        except (OSError, KeyError, ValueError, TypeError, zipfile.BadZipFile) as error:
            raise PrivotError(
                f"model {path} is damaged ({error}): copy it again, or fit it again"
            ) from None
        ledger = Ledger(plan, path / LEDGER, resume=True)
        return cls(density, ledger, space, fields["made_with"])


KINDS[KIND.name] = IntegralModel


def _rows(table: pa.Table, schema: Schema) -> Iterator[np.ndarray]:
    """A table's rows as `privot.sliced` takes them, so that its runs on the same table are seen."""
    records = TableRecords(schema)
    for start in range(0, table.num_rows, _CHUNK):
        yield records.encode(table.slice(start, _CHUNK)).numpy()


def _table(data: Any) -> pa.Table:
    """The data as a table; what is said of one that mixes types repeats none of its values."""
    try:
        return as_table(data)
    except PrivotError:
        raise PrivotError(
            "data is no table of one type a column: give a pandas, polars or pyarrow table, or a "
            "dict of columns"
        ) from None
