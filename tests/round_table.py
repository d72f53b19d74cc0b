"""A mechanism of one's own, in one file; and people whose hours it reports."""

import math
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

import privot
from privot.mechanisms import Mechanism
from privot.mechanisms.forms import TableForm
from privot.mechanisms.frequency_oracles import require_codes
from privot.mechanisms.samplers import uniforms_below
from privot.privacy import PureDP
from privot.privacy.rounding import require_epsilon

_FAR = 2**40


@dataclass(frozen=True)
class RoundTable(Mechanism, kind="round_table"):
    """Codes sit in a circle: the own seat e^ε, its two neighbors e^(ε/2) times as likely as others."""

    seats: int
    epsilon: float

    takes_codes = names_code = True
    among_auto = False  # or every test that compares kinds would meet it

    def __post_init__(self):
        require_epsilon(self.epsilon)

    @property
    def weights(self):
        """Integers by distance around the table; rounded down, so no ratio is above e^ε."""
        weights = np.full(self.seats, _FAR)
        weights[[1, -1]] = math.floor(_FAR * math.exp(self.epsilon / 2) * (1 - 2.0**-50))
        weights[0] = math.floor(_FAR * math.exp(self.epsilon) * (1 - 2.0**-50))
        return weights

    @classmethod
    def unfit(cls, column):
        few = column.alphabet is None or column.alphabet.size < 4
        return "it is for four codes or more: use 'randomized_response'" if few else ""

    @classmethod
    def for_column(cls, column, epsilon):
        return cls(column.alphabet.size, epsilon)

    def fits(self, column):
        return not self.unfit(column) and column.alphabet.size == self.seats

    def _law(self):
        return self.weights / self.weights.sum()

    def form(self, column):
        codes = np.arange(self.seats)
        return TableForm(np.exp(self.log_likelihood(codes[:, None], codes)))

    def privatize(self, x):
        codes = require_codes("x", x, self.seats)
        ends = np.cumsum(self.weights)
        steps = np.searchsorted(ends, uniforms_below(int(ends[-1]), codes.size), side="right")
        return (codes + steps) % self.seats

    def log_likelihood(self, y, x):
        y, x = (require_codes("codes", each, self.seats) for each in (y, x))
        return np.log(self._law())[(y - x) % self.seats]

    def log_ratio(self, reports, x, other):
        return super().log_ratio(reports[:, 0], x, other)

    def probability_cells(self, reports, x, rng):
        law, steps = self._law(), (reports - np.asarray(x)[:, None]) % self.seats
        below = np.concatenate([[0.0], np.cumsum(law)])
        return below[steps], below[steps + 1]

    def impossible(self, reports):
        return ~((reports >= 0) & (reports < self.seats)).all(axis=1)

    def guarantee(self, domain=None, delta=0.0):
        return PureDP(self.epsilon)

    def expected(self, column):
        return {"keep": float(self._law()[0]), "in_words": "its seat, or one near it"}

    bias = variance = 0.0


SCHEMA = privot.Schema.from_dict(
    {
        "columns": {
            "hour": {"kind": "categorical", "categories": [f"{h}h" for h in range(6)]},
            "night": {"kind": "boolean"},
        }
    }
)


def made_up_people():
    """Two thirds come at 4h."""
    rng = np.random.default_rng(0)
    hours = np.where(rng.random(12_000) < 2 / 3, 4, rng.integers(0, 6, 12_000))
    return pa.table({"hour": [f"{h}h" for h in hours], "night": (hours > 2).tolist()})
