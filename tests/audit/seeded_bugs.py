"""Bugs that a developer might make in a mechanism, and honest randomizers, for the audit to tell apart.

Each bug is seeded where it would be made, and the randomizer says nothing of it. Draws are few, to be
quick: so many that the smallest p-value lies six of its standard deviations (in log10) below the level,
or that it does not depend on chance, as a likelihood ratio above e^ε does not.
`privot_benchmarks/audit_power.py` counts what is caught, and false alarms.
"""

import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from privot.audit import audit_randomizer
from privot.mechanisms import Gaussian, Laplace, RandomizedResponse, SubsetSelection, Window
from privot.mechanisms.additive_noise import AdditiveNoise, NullableNoise
from privot.mechanisms.candidates import codebook
from privot.mechanisms.gaussian import sample_rounded_gaussian
from privot.mechanisms.laplace import sample_discrete_laplace
from privot.mechanisms.samplers import random_words, uniforms_below, words_outside
from privot.mechanisms.window_cells import WindowMixture
from privot.randomizer import Randomizer
from privot.randomizer import randomizer as randomizer_module
from privot.randomizer.reports import split as encoding
from privot.randomizer.reports.rows import ID_TYPE
from privot.randomizer.reports.split import SplitReport
from privot.schema import Schema
from privot.schema.domains import L2Ball, to_unit

AGE = Schema.from_toml('[columns.age]\nkind = "numeric"\nbounds = [0, 100]')
BALL = Schema.from_toml(
    '[columns.v]\nkind = "vector"\ncolumns = ["a", "b", "c", "d"]\nradius = 1.0'
)
BOX = Schema.from_toml("""
[columns.v]
kind = "vector"
columns = ["a", "b", "c", "d"]
bounds = [[0, 1], [0, 1], [0, 1], [0, 1]]
""")
MAYBE = Schema.from_toml("""
[columns.v]
kind = "vector"
columns = ["a", "b"]
bounds = [[0, 1], [0, 1]]
nullable = true
""")
TABLE = Schema.from_toml("""
[columns.a]
kind = "categorical"
categories = ["a", "b", "c", "d", "e"]
[columns.b]
kind = "boolean"
[columns.c]
kind = "boolean"
""")
IMAGE = Schema.from_toml("""
[columns.image]
kind = "array"
shape = [28, 28]
bounds = [0, 255]
transform = "dct"
low_pass = 10
radius = 10.0
[columns.label]
kind = "categorical"
categories = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]
""")
MIXED = Schema.from_toml("""
[columns.job]
kind = "categorical"
categories = ["a", "b", "c"]
other = "c"
nullable = true
[columns.hours]
kind = "numeric"
bounds = [0, 50]
nullable = true
[columns.born]
kind = "datetime"
bounds = ["2000-01-01", "2020-01-01"]
[columns.place]
kind = "vector"
columns = ["x", "y"]
radius = 2.0
norm = 1
""")
PLACE = Schema.from_toml('[columns.p]\nkind = "vector"\ncolumns = ["x", "y"]\nradius = 3.0')


def age():
    return Randomizer.calibrate(AGE, 1.0, mechanism="laplace")


def box():
    return Randomizer.calibrate(BOX, 1.0, mechanism="laplace")


def candidates():
    return Randomizer.calibrate(BALL, 2.0)


def ball(delta=1e-6):
    return Randomizer.calibrate(BALL, 1.0, delta, mechanism="gaussian")


def window(schema=AGE):
    return Randomizer.calibrate(schema, 1.0, report="split", mechanism="window")


HONEST: dict[str, Callable[[], Randomizer]] = {
    "laplace": age,
    "laplace in a box": box,
    "gaussian": ball,
    "window": window,
    "disk": lambda: window(PLACE),
    "window, maybe missing": lambda: window(MAYBE),
    "maybe missing": lambda: Randomizer.calibrate(MAYBE, 2.0, mechanism="laplace"),
    "joint report": lambda: Randomizer.calibrate(TABLE, 2.0),
    "candidates": candidates,
    "a joint report and a vector": lambda: Randomizer.calibrate(
        MIXED, 4.0, report="joint", mechanism="laplace"
    ),
    "two columns of four": lambda: Randomizer.calibrate(
        MIXED, 4.0, report="split", report_columns=2
    ),
    "subset selection": lambda: Randomizer.calibrate(
        Schema.from_dict(
            {"columns": {"town": {"kind": "categorical", "categories": [*map(str, range(300))]}}}
        ),
        1.0,
        report="split",
        mechanism="auto",
    ),
    "an image and its label": lambda: Randomizer.calibrate(
        IMAGE, 10.0, 1e-5, mechanism="gaussian", shares={"label": 2.0}
    ),
}


def noise(scale=1.0):
    """Laplace noise of a share of the right scale."""
    return lambda self, shape: sample_discrete_laplace(shape, scale * self.scale / self.grid)


def gaussian_noise(share):
    return lambda self, shape: sample_rounded_gaussian(shape, share * self.stddev / self.grid)


def as_floats(self, x):
    return np.asarray(x) + np.random.default_rng().laplace(0, self.scale, np.shape(x))


def float_likelihood(self, y, x):
    return (-np.abs(np.asarray(y) - x) / self.scale).sum(-1)


def truncated(most):
    def draw(self, shape):
        ratio = self.scale / self.grid
        drawn = sample_discrete_laplace(shape, ratio)
        while (far := np.abs(drawn) > most * ratio).any():
            drawn[far] = sample_discrete_laplace(int(far.sum()), ratio)
        return drawn

    return draw


def clipped(self, shape):
    ratio = self.scale / self.grid
    return np.clip(sample_discrete_laplace(shape, ratio), -int(3 * ratio), int(3 * ratio))


def seeded(self, shape):
    drawn = np.random.default_rng(0).laplace(0, self.scale / self.grid, shape)
    return np.rint(drawn).astype(np.int64)


def shared(self, shape):
    people = sample_discrete_laplace((shape[0] // 8 + 1, *shape[1:]), self.scale / self.grid)
    return np.repeat(people, 8, axis=0)[: shape[0]]


def one_for_all(self, shape):
    drawn = sample_discrete_laplace((shape[0], 1), self.scale / self.grid)
    return np.broadcast_to(drawn, shape).copy()


def one_gaussian_for_all(self, shape):
    drawn = sample_rounded_gaussian((shape[0], 1), self.stddev / self.grid)
    return np.broadcast_to(drawn, shape).copy()


def last_is_bare(draw):
    def drawn(self, shape):
        out = draw(self, shape)
        out[..., -1] = 0
        return out

    return drawn


def not_projected(self, table):
    return to_unit(self.column.domain, self.column.encode_points(self.name, table))


_NULLABLE, _SUBSETS, _WINDOW = (
    NullableNoise.privatize,
    SubsetSelection.privatize,
    Window.privatize,
)
_DIAMETER, _DRAW, _REPORT = L2Ball.diameter, WindowMixture.draw, WindowMixture.report


def half_noise_if_missing(self, x):
    reports = _NULLABLE(self, x)
    reports[np.asarray(x)[..., -1] == 1, :-1] *= 0.5
    return reports


def true_cell_first(self, x):
    reports = _SUBSETS(self, x)
    for report, cell in zip(reports, np.asarray(x), strict=True):
        place = np.flatnonzero(report == cell)
        if place.size:
            report[[0, place[0]]] = report[[place[0], 0]]
    return reports


def outside_is_far(self, x):
    reports = _WINDOW(self, x)
    record = np.rint((np.asarray(x) + 1) * 512)
    outside = np.abs(np.rint((reports + 1) * 512) - record) > self.radius
    end = 1 + self.radius / 512
    return np.where(outside, np.where(record > 512, -end, end), reports)


def one_sided(self, count):
    near, far = _DRAW(self, count)
    return -np.abs(near), far


def missing_near_the_middle(self, records, missing):
    return _REPORT(self, records, None)


def radius_for_diameter(self, norm):
    return _DIAMETER(self, norm) / 2


_ADDITIVE, _COLUMNS = AdditiveNoise.privatize, encoding.privatize_columns
_ONE_AT_A_TIME = threading.Lock()
TWO = Schema.from_toml("""
[columns.a]
kind = "numeric"
bounds = [0, 1]
[columns.b]
kind = "numeric"
bounds = [0, 1]
""")


def two_of_three():
    return Randomizer.calibrate(TABLE, 2.0, report="split", report_columns=1)


def asked_by_the_record(reports, num_reported, encoded):
    def coins(num_rows, total, chosen):
        mask = np.zeros((num_rows, total), bool)
        mask[np.arange(num_rows), np.where(encoded["b"] == 1, 1, 2)] = True
        return mask

    with _ONE_AT_A_TIME:  # the audit draws in threads, of which each puts the honest coins back
        honest, encoding.draw_columns = encoding.draw_columns, coins
        try:
            return _COLUMNS(reports, num_reported, encoded)
        finally:
            encoding.draw_columns = honest


def sorted_first(self, x):
    return _ADDITIVE(self, np.sort(x, axis=0))


def centered(self, x):
    return _ADDITIVE(self, x - 0.3 * np.mean(x, axis=0))


def borrowed(kept):
    """Every second call repeats the noise of the one before."""

    def draw(self, shape):
        if kept and kept[0].shape == tuple(shape):
            return kept.pop()
        kept[:] = [noise()(self, shape)]
        return kept[0].copy()

    return draw


def few_numbers(share, seed=None):
    def draw(self, count):
        ratio = share * self.scale / self.grid
        return np.rint(np.random.default_rng(seed).laplace(0, ratio, count)).astype(int).tolist()

    return draw


def counted(count):
    numbers = np.arange(2 * count, dtype=np.uint64)
    return pa.FixedSizeBinaryArray.from_buffers(ID_TYPE, count, [None, pa.py_buffer(numbers)])


def told_by_ids(reports, num_reported, encoded):
    """The first word of each id is the quantile of the noise."""
    columns = _COLUMNS(reports, num_reported, encoded)
    noise = (columns["age"].to_numpy() - 50) / 50 - encoded["age"][:, 0]
    uniform = np.where(noise < 0, np.exp(noise / 2) / 2, 1 - np.exp(-noise / 2) / 2)
    words = random_words(2 * len(noise)).reshape(-1, 2)
    words[:, 0] = (np.clip(uniform, 0, 1 - 2.0**-40) * 2.0**64).astype(np.uint64).byteswap()
    ids = [None, pa.py_buffer(words)]
    randomizer_module.draw_ids = lambda count: pa.FixedSizeBinaryArray.from_buffers(
        ID_TYPE, count, ids
    )
    return columns


def copied_noise(rng):
    return lambda self, shape: np.rint(rng.laplace(0, self.scale / self.grid, shape)).astype(int)


def bare(self, x):
    """One report of some 500 has no noise."""
    reports = _ADDITIVE(self, x)
    rows = np.random.default_rng().random(len(reports)) < 0.002
    reports[rows] = self.to_grid(np.clip(np.asarray(x)[rows], -1, 1))
    return reports


@property
def too_small_a_slot(self):
    return int(0.9 * 2**64 / (np.exp(self.epsilon) + self.num_categories - 1))


def too_few_words(*arguments):
    return words_outside(*arguments) * 9 // 10


def never_the_last(bound, count):
    return uniforms_below(max(1, bound - bound // 8), count)


def coarse_seeds(count):
    return random_words(count) & np.uint64(2**64 - 2**10)


@dataclass(frozen=True)
class Bug:
    """Attributes to replace, and who is calibrated (with them replaced)."""

    make: Callable[[], Randomizer]
    changes: tuple[tuple[object, str, object], ...]
    num_draws: int = 3_000


def bug(make, *change, num_draws=3_000):
    changes = tuple(zip(change[::3], change[1::3], change[2::3], strict=True))
    return Bug(make, changes, num_draws)


BUGS = {
    "a fifth less noise": bug(age, Laplace, "_draw", noise(0.8)),
    "3 % less noise": bug(age, Laplace, "_draw", noise(0.97), num_draws=30_000),
    "noise in floats": bug(age, AdditiveNoise, "privatize", as_floats),
    "noise and likelihood in floats": bug(
        age,
        AdditiveNoise,
        "privatize",
        as_floats,
        AdditiveNoise,
        "log_likelihood",
        float_likelihood,
    ),
    "noise cut at 3 scales": bug(age, Laplace, "_draw", truncated(3)),
    "noise cut at 5 scales": bug(age, Laplace, "_draw", truncated(5), num_draws=8_000),
    "noise clipped to 3 scales": bug(age, Laplace, "_draw", clipped),
    "eight people share one noise": bug(age, Laplace, "_draw", shared),
    "one noise for all coordinates": bug(box, Laplace, "_draw", one_for_all),
    "one Gaussian for all coordinates": bug(ball, Gaussian, "_draw", one_gaussian_for_all),
    "no Gaussian noise in the last coordinate": bug(
        ball, Gaussian, "_draw", last_is_bare(gaussian_noise(1.0))
    ),
    "no noise in the last coordinate": bug(box, Laplace, "_draw", last_is_bare(noise())),
    "a fifth less Gaussian noise": bug(ball, Gaussian, "_draw", gaussian_noise(0.8)),
    "a fifth less Gaussian noise, large delta": bug(
        lambda: ball(1e-3), Gaussian, "_draw", gaussian_noise(0.8)
    ),
    "half the Gaussian noise": bug(ball, Gaussian, "_draw", gaussian_noise(0.5)),
    "Gaussian noise for the radius": bug(
        ball, L2Ball, "diameter", radius_for_diameter, num_draws=8_000
    ),
    "noise for the radius": bug(
        lambda: Randomizer.calibrate(BALL, 1.0, mechanism="laplace"),
        L2Ball,
        "diameter",
        radius_for_diameter,
    ),
    "values are not projected": bug(age, SplitReport, "encode", not_projected),
    "half the noise where a value is missing": bug(
        HONEST["maybe missing"], NullableNoise, "privatize", half_noise_if_missing
    ),
    "the true cell is listed first": bug(  # sets of four cells of ten
        lambda: Randomizer.calibrate(TABLE, 0.5), SubsetSelection, "privatize", true_cell_first
    ),
    "close candidates are named too often": bug(
        candidates, codebook.samplers, "words_outside", too_few_words, num_draws=400
    ),
    "some candidates are never named": bug(
        candidates, codebook.samplers, "uniforms_below", never_the_last, num_draws=400
    ),
    "seeds have fewer bits": bug(
        candidates, codebook.samplers, "random_words", coarse_seeds, num_draws=400
    ),
    "what falls outside the window falls far": bug(window, Window, "privatize", outside_is_far),
    "a window on one side": bug(lambda: window(PLACE), WindowMixture, "draw", one_sided),
    "the missing are in the middle": bug(
        lambda: window(MAYBE), WindowMixture, "report", missing_near_the_middle
    ),
}
# Beyond what the law of single columns shows, in one large sample.
BUGS_OF_SAMPLES = {
    "which column is reported looks at the record": bug(
        two_of_three, randomizer_module, "privatize_columns", asked_by_the_record
    ),
    "reports leave sorted by the records": bug(age, AdditiveNoise, "privatize", sorted_first),
    "a column borrows the noise of another": bug(
        lambda: Randomizer.calibrate(TWO, 2.0, mechanism="laplace"),
        Laplace, "_draw", borrowed([]),
    ),
    "some reports have no noise": bug(age, AdditiveNoise, "privatize", bare, num_draws=8_000),
    "ids are counted": bug(age, randomizer_module, "draw_ids", counted),
    "ids tell the noise": bug(age, randomizer_module, "privatize_columns", told_by_ids),
    "rows stay in the order of the records": bug(age, randomizer_module, "sorted_by_id", lambda t: t),
    "a category is kept too often": bug(
        HONEST["two columns of four"], RandomizedResponse, "_slot", too_small_a_slot,
        num_draws=1000,
    ),
}  # fmt: skip
# What only reports of several calls, threads and processes show.
BUGS_OF_STREAMS = {
    "a fixed seed": bug(age, Laplace, "_draw", seeded, num_draws=100),
    "noise around the mean of all records": bug(
        age, AdditiveNoise, "privatize", centered, num_draws=100
    ),
    "a generator that a fork copies": bug(
        age, Laplace, "_draw", copied_noise(np.random.default_rng()), num_draws=100
    ),
    "single reports have half the noise": bug(
        age, Laplace, "_draw_list", few_numbers(0.5), num_draws=100
    ),
    "single reports repeat": bug(
        age, Laplace, "_draw_list", few_numbers(1.0, seed=0), num_draws=100
    ),
}
MORE_BUGS = BUGS_OF_SAMPLES | BUGS_OF_STREAMS


def caught(bug):
    """Whether the audit refutes a randomizer that has the bug."""
    with ExitStack() as stack:
        kept = randomizer_module.draw_ids
        stack.callback(setattr, randomizer_module, "draw_ids", kept)
        for owner, name, value in bug.changes:
            stack.enter_context(patch.object(owner, name, value))
        return audit_randomizer(bug.make(), num_draws=bug.num_draws).refuted
