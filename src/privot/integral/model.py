r"""Integral models: a secret density, a declared number of draws, and a ledger that counts them.

The folder (`model.json`, `weights.safetensors`, `ledger.json`) is **secret**: the density, its
parameters and plots of it are not private. Only the records that `sample` returns may leave it, and each
costs a declared ε.

**Draws require a saved model**, because the ledger is in its folder. Copies of an unsaved model share
one ledger, which can be saved only once, and is neither pickled nor used in a forked process. Saving
enters the whole budget in the account of the records (`privot.privacy.ledger`): a second model of the
same data spends a second budget, and the curator is warned.

**The budget.** The guarantee is about **all `draws` together**, for any two data sets, of any sizes.
Each draw costs ε/draws; or ε of one draw is declared, and the budget is its product with draws.
One call of `sample` makes its $n$ draws together (`privot.integral.density`), at a cost of $n ε_d$;
calls are independent given the model, so that their densities multiply and costs add up. **Make all
draws in one call**: together they are much nearer to the data, for the same ε. The promise to a person
who sees only some draws of a call is the ε of the whole call, so a smaller ε requires another call.

**Stopping early.** Unlike with (ε, δ), the sum over the calls that were *made* is a bound as well (an
odometer), even if their number $T$ depends on the draws. Let $x_1, …, x_T$ be the results, of $n_1, …,
n_T$ draws, that a reader sees, where the decision to continue after $x_t$ is a function of $x_1, …, x_t$
and of coins independent of the data. The densities for two data sets have the same factors for the
coins, and

$$ \frac{q(x_1) ⋯ q(x_T)}{q'(x_1) ⋯ q'(x_T)} \le e^{(n_1 + … + n_T) ε_d} $$

holds **at every point**: there is no failure event whose probability could accumulate by stopping. (The
failure of an estimated normalizer, of probability δ, happens before the first draw.) The stated
guarantee nevertheless covers all declared draws.

**Privacy review.** Besides the draws, these depend on raw data: the weights; the fingerprint of the
records, which is in no file of the model, and the warning that they were used before; the time and
memory of a fit and of a draw, and the number of rejected proposals; and the gain. None of these may be
shown to others, and none is logged.
"""

import math
import secrets
import shutil
import warnings
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, Self

from privot.core.errors import MOST_ROWS, PrivotError, require_count, require_finite
from privot.integral.density import Arrays, Normalizer, TiltedDensity
from privot.integral.learners import pack, unpack
from privot.integral.methods import BoostSettings, ClippedRatioSettings
from privot.integral.records import RecordSpace, Space, space_from_dict
from privot.integral.references import Reference
from privot.models import Learned, ModelKind, Stored
from privot.privacy import ApproximateDP, IntegralPrivacy
from privot.privacy.ledger import Chain, Ledger, Plan, charge, fingerprint
from privot.privacy.rounding import at_most, multiply_up, percent_at_most
from privot.schema import Schema

LEDGER = "ledger.json"
_MIN_VARIATION = 0.05  # total variation from the reference below which a warning is issued


@dataclass(frozen=True)
class DrawPlan(Plan):
    """Declared number of draws and their price."""

    id: str  # random id of the model
    draws: int  # number of draws
    epsilon: float  # price of each draw; n draws of one call cost n times as much together
    delta: float  # δ of all draws together; 0 unless the normalizer is estimated
    unit: str  # owner of one record, such as a person

    noun: ClassVar[str] = "draws"

    def __post_init__(self) -> None:
        object.__setattr__(self, "draws", _require_draws(self.draws))

    @property
    def uses(self) -> int:
        return self.draws

    @property
    def guarantee(self) -> IntegralPrivacy | ApproximateDP:
        epsilon = multiply_up(float(self.draws), self.epsilon)
        if self.delta:
            return ApproximateDP(epsilon, self.delta, "any", self.unit)
        return IntegralPrivacy(epsilon, unit=self.unit)


def price_of_draw(epsilon: float | None, epsilon_per_draw: float | None, draws: int) -> float:
    """Return the ε of one draw, rounded down so that all draws stay within `epsilon`.

    Raises:
        PrivotError: if both or neither of the two ε are given, or an argument is out of range.
    """
    draws = _require_draws(draws)
    if epsilon is None and epsilon_per_draw is not None:
        require_finite("epsilon_per_draw", epsilon_per_draw, positive=True)
        return epsilon_per_draw
    if epsilon is None or epsilon_per_draw is not None:
        raise PrivotError(
            "give either epsilon, of all draws together, or epsilon_per_draw, of one draw"
        )
    require_finite("epsilon", epsilon, positive=True)
    price = float(Fraction(epsilon) / draws)
    return price if Fraction(price) * draws <= Fraction(epsilon) else math.nextafter(price, 0.0)


def _require_draws(draws: int) -> int:
    return require_count("draws", draws, MOST_ROWS, "all that will ever be published")


def warn_of_small_epsilon(price: float, draws: int) -> None:
    """Warn, before a fit, if nearly all draws of ε = `price` could be draws of the reference.

    The total variation of all draws together from draws of the reference is at most tanh(draws·ε/4),
    because the ratio of densities has mean 1, and its values differ by a factor of at most e^(draws·ε).
    The divergences of single draws add up to at most draws·ε. So by Pinsker's inequality, the total
    variation of a draw chosen at random is at most √(ε/2).
    """
    variation = min(math.tanh(draws * price / 4), math.sqrt(price / 2))
    if variation < _MIN_VARIATION:
        warnings.warn(
            f"epsilon of one draw is {at_most(price)}: whatever the records are, at most "
            f"{percent_at_most(variation)} of the draws can differ from draws of the reference, which "
            "cost nothing; declare fewer draws, or more epsilon",
            stacklevel=3,
        )


def fit(
    table: Any,
    schema: Schema | Space,
    *,
    draws: int,
    epsilon: float | None = None,
    epsilon_per_draw: float | None = None,
    settings: ClippedRatioSettings | BoostSettings | None = None,
) -> "IntegralModel":
    """Learn a density from raw records, for a declared number of draws.

    Arguments:
        table: A table (pandas, polars, pyarrow, dict) or its file; an array (n, dim) in a `PointSpace`.
        schema: Schema of the records. A `RecordSpace` declares marginals as well, a `PointSpace` any
            public reference for the rows of an array.
        draws: Number of draws that will ever be published.
        epsilon: ε of all draws **together**.
        epsilon_per_draw: Price of each draw, if `epsilon` is not given.
        settings: `ClippedRatioSettings` (the default) or `BoostSettings`, which determine the method.

    Raises:
        PrivotError: if the data, the budget or the settings cannot be used; messages contain no values.
    """
    price = price_of_draw(epsilon, epsilon_per_draw, draws)
    warn_of_small_epsilon(price, draws)
    settings = settings or ClippedRatioSettings()
    space = RecordSpace(schema) if isinstance(schema, Schema) else schema
    if space.schema is not None:
        space.schema.require_listed()
        if promise := space.schema.promise:
            raise PrivotError(
                f"the schema promises {promise}, not integral privacy: leave [promise] out"
            )
    raw = space.take(table)
    density = settings.learn(space.encode(raw, settings.seed), space.reference, price)
    plan = DrawPlan(secrets.token_hex(16), draws, density.epsilon, density.delta, space.unit)
    made_with = {"method": settings.method} | asdict(settings)
    return IntegralModel(density, Ledger(plan), space, made_with, fingerprint(space.rows(raw)))


class IntegralModel(Learned):
    """Model with a secret density, and the ledger of its draws.

    Arguments:
        density: Density of the draws.
        ledger: Ledger of the draws; in memory until the model is saved.
        space: Map from drawn points to records.
        made_with: Method and settings of the fit, as plain values.
        digest: Fingerprint of the records, whose account saving enters; None for a loaded model.

    Examples:
        >>> import numpy as np
        >>> from privot.integral import PointSpace, fit
        >>> from privot.integral.references import StandardNormal
        >>> ages = np.random.default_rng(0).normal(0.5, 1.0, (500, 1))
        >>> model = fit(ages, PointSpace(StandardNormal(1), "person"), epsilon=2.0, draws=4)
        >>> print(model.guarantee)
        ε = 2 (integral), any, per person
        >>> import tempfile
        >>> model.save(tempfile.mkdtemp() + "/secret")
        >>> model.sample(3).shape, model.draws_left
        ((3, 1), 1)
    """

    kind: ClassVar[ModelKind] = ModelKind("integral", 5, "privot integral fit")
    publishable: ClassVar[bool] = False

    def __init__(
        self,
        density: TiltedDensity,
        ledger: Ledger[DrawPlan],
        space: Space,
        made_with: dict[str, Any],
        digest: str | None = None,
    ) -> None:
        self.density, self.ledger, self.space = density, ledger, space
        self.made_with, self._digest = made_with, digest

    @property
    def guarantee(self) -> IntegralPrivacy | ApproximateDP:
        """Guarantee of all declared draws together, made or not."""
        return self.ledger.plan.guarantee

    def gain(self, table: Any) -> float:
        """Return a lower bound on the mean log q/q₀ of records, in nats, **not private**."""
        points = self.space.encode(self.space.take(table), 0)
        return float(self.density.log_tilt(points).mean()) - self.density.log_normalizer_limits[1]

    @property
    def schema(self) -> Schema | None:
        """Schema of the records; None in a `PointSpace`."""
        return self.space.schema

    @property
    def draws_left(self) -> int:
        """Number of draws that may still be made."""
        return self.ledger.left

    def sample(
        self, num_rows: int, *, proposals: int | None = None, seed: None = None, where: None = None
    ) -> Any:
        """Make draws, and count them: a table with the schema's columns, or an array (num_rows, dim).

        Arguments:
            num_rows: Number of draws, which are spent even if the process dies before it returns them.
            proposals: Fixed number of proposals for each draw, which closes the timing channel: see
                [`TiltedDensity.draw`][privot.integral.density.TiltedDensity.draw].
            seed: Refused: a seeded draw would be a function of the records.
            where: Refused: draws that do not meet a condition would be spent as well.

        Raises:
            PrivotError: if the model is not saved, fewer draws are left, or the ledger is damaged or an
                unknown copy.
        """
        if seed is not None or where is not None:
            raise PrivotError(
                "a seed cannot be given, nor a condition: a seeded draw would be a function of the "
                "records, and every draw is counted; sample without, and select rows"
            )
        num_rows = require_count("num_rows", num_rows, MOST_ROWS)
        if self.ledger.path is None:
            raise PrivotError(
                "the model is not saved: call save(folder), whose ledger counts draws"
            )
        if proposals is not None:
            self.density.shortfall(proposals)  # refuses invalid numbers before any draw is spent
        self.ledger.spend(num_rows)
        density = self.density
        drawn = density.draw(num_rows, proposals) if proposals else density.draw_together(num_rows)
        return self.space.decode(drawn)

    def save(self, path: str | Path) -> None:
        """Write the secret folder, readable only by its owner, and begin the ledger in it.

        Raises:
            PrivotError: if the folder exists, or the model is saved (a second ledger would double the
                budget).
        """
        path = Path(path)
        if self.ledger.path is not None:
            raise PrivotError(
                f"the model is saved in {self.ledger.path.parent}: a second folder would double its "
                "budget"
            )
        if path.exists():
            raise PrivotError(f"{path} exists: a model's ledger is never overwritten; name another")
        super().save(path)
        try:
            if self._digest is not None:
                charge(self._digest, self.ledger)
            self.ledger.begin(path / LEDGER)
        except BaseException:  # including Ctrl-C, and warnings that are raised as errors
            shutil.rmtree(path)  # without its ledger, nothing could be drawn from it
            raise

    def fields(self) -> dict[str, Any]:
        tilt, _ = pack(self.density.tilt)
        return {
            "warning": "SECRET: only draws by `privot integral sample` may leave this folder",
            "plan": self.ledger.plan.to_dict(),
            "limits": [self.density.low, self.density.high],
            "normalizer": self.density.normalizer and asdict(self.density.normalizer),
            "space": self.space.to_dict(),
            "tilt": tilt,
            "made_with": self.made_with,
        }

    def arrays(self) -> Arrays:
        _, arrays = pack(self.density.tilt)
        return arrays

    @classmethod
    def build(cls, stored: Stored, reference: Reference | None = None) -> Self:
        """See `Learned`; only a model from `load` can be drawn from, as it has its ledger."""
        fields, arrays = stored.fields, stored.arrays
        space = space_from_dict(fields["space"], reference)
        tilt = unpack(fields["tilt"], arrays, space.reference)
        normalizer = fields["normalizer"] and Normalizer(**fields["normalizer"])
        low, high = fields["limits"]
        reference = getattr(tilt, "grid", space.reference)  # a table belongs to its grid
        density = TiltedDensity(reference, tilt, low, high, normalizer)
        return cls(density, Ledger(DrawPlan.from_dict(fields["plan"])), space, fields["made_with"])

    @classmethod
    def load(cls, path: str | Path, reference: Reference | None = None) -> Self:
        """Read a model's folder; `reference` is needed only if the model has a `CustomReference`.

        Raises:
            PrivotError: if folder or ledger is missing, damaged, of another version, or an older copy.
        """
        with cls.stored(path) as stored:
            space = stored.fields["space"]  # only a custom "reference" is None; schemas have none
            is_custom = "reference" in space and space["reference"] is None
            model = None if is_custom and reference is None else cls.build(stored, reference)
        if model is None:
            raise PrivotError(f"model {path} was fitted with a custom reference: give it again")
        Chain.read(Path(path) / LEDGER)  # a ledger that is gone is refused, and not begun again
        model.ledger = Ledger(model.ledger.plan, Path(path) / LEDGER, resume=True)
        return model
