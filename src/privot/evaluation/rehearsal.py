r"""Rehearsals: people drawn from a known distribution report, and a model is fitted to their reports.

The population is then known, so errors can be computed without any real record.

**Populations** to rehearse with:

- `population_of`: what a model draws, by its distribution;
- `made_up`: random latent classes of the schema's alphabets. Scores of codes are normal, and each
  class's differ from them by normal ones, times what makes the mean distance of pairs of columns from
  independence .1 in total variation, which is what columns of a census have;
- `with_dependence`: the same around a model's shares of single columns, which it retains, for any
  strength of dependence, 0 included. The scores of a number's values are cosines of their ranks among
  all people, so that neighbors are alike.

**Rehearsing a fit** (`rehearse`): people drawn from the model report again, and the same settings are
fitted. A model smooths, so what it draws is easier to learn than real records are, and a rehearsal's
error alone is a little low. The reports' evidence against the model is added: with p̂ the unbiased shares
of a pair (`estimates`), V their variances and m the model's,

$$ Q = ‖p̂ − m‖^2 − \sum V $$

is the squared error, less the noise in p̂ that the model followed. In the rehearsal that part is the same
and the error e is known; so $e^2 + Q − Q_{rehearsed}$, averaged over pairs, estimates the squared error
of the model itself, and expected errors grow by the root of its ratio to $e^2$, if that is above 1. Of
reports that the model has not seen, Q itself estimates its squared error.

**Goodness of fit.** $‖p̂ − m‖^2$ of a model that is right, and has not seen the reports, is a sum of
squares of nearly normal errors, of mean ΣV; with S their covariance, its tail is that of a chi-square of
$ν = (\mathrm{tr} S^2)^3 / (\mathrm{tr} S^3)^2$ degrees of freedom with the same mean, variance and
skewness (Pearson's, in Imhof's paper). Mean and variance alone call one in a thousand one in five
thousand where one error is much larger than the others. A model follows some of the noise of its own
reports, so that less is left of it, and alarms are rarer. How much less is another share for every
column, from a hundredth, of a column of three categories, to all, of a number that is reported in eight
codings and learned as one curve: a mean of these shares would cause false alarms for the latter.

Privacy review: functions of public numbers, of coins, of a release and of a model, which was learned
from reports alone: post-processing. Rehearsed reports are of simulated people. No record is read.

References:
    Imhof, *Computing the distribution of quadratic forms in normal variables* (1961).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, replace
from itertools import combinations

import numpy as np
import pyarrow as pa
import scipy

from privot.core.errors import PrivotError
from privot.evaluation.distances import independent, total_variation
from privot.evaluation.estimates import CodeReports, Question, estimate
from privot.local import LocalModel
from privot.local.classes.class_fit import fit_again
from privot.local.classes.marginals import rake
from privot.local.classes.mixture import LatentClasses, LatentClassSampler, Places
from privot.local.releases import Releases
from privot.randomizer import Release
from privot.schema import Schema
from privot.schema.domains import Array

MAX_REHEARSED = 200_000  # people: an error of more is smaller
Columns = tuple[int, ...]
_MAX_COVARIANCES = 400
_CLASSES = 12
_DEPENDENCE = 0.1
_SCALES = np.geomspace(0.05, 6.0, 24)
_MAX_SCALE, _HALVINGS = 8.0, 12
_WAVES = 3
_TOLERANCE = 1e-5
_FLOOR = 1e-9


@dataclass(frozen=True)
class Residual:
    """Distance of a model's shares from the reports' for the same columns.

    Arguments:
        square: ‖p̂ − m‖².
        noise: ΣV, the part of it that is the reports' noise.
        fourth: The trace of the squared covariance.
        sixth: The trace of the covariance cubed.
    """

    square: float
    noise: float
    fourth: float
    sixth: float

    @property
    def excess(self) -> float:
        """The statistic Q."""
        return self.square - self.noise

    @property
    def p_value(self) -> float:
        """Probability of as large a residual, if the model is right; of its own reports, at most."""
        if self.fourth <= 0:  # no report, or one
            return 1.0
        freedom = self.fourth**3 / self.sixth**2
        above = self.excess / (2 * self.fourth) ** 0.5
        return float(scipy.stats.chi2.sf(freedom + above * (2 * freedom) ** 0.5, freedom))

    @classmethod
    def mean(cls, some: Sequence[Residual]) -> Residual:
        """Return the mean over questions in several alphabets, of about as many cells each."""
        square, noise, fourth, sixth = np.mean([astuple(each) for each in some], axis=0).tolist()
        return cls(square, noise, fourth / len(some), sixth / len(some) ** 2)


def atoms_of(model: LocalModel) -> LatentClasses:
    """Return the distribution of the columns' atoms under a table's model."""
    sampler = model.sampler
    assert isinstance(sampler, LatentClassSampler)  # as a check requires
    return sampler.atoms


def codes_of(model: LocalModel) -> LatentClasses:
    """Return the distribution of the schema's codes under a table's model."""
    sampler = model.sampler
    assert isinstance(sampler, LatentClassSampler)
    return sampler.classes


def cell_shares(atoms: LatentClasses, *questions: Question) -> Array:
    """Return probabilities of the cells of one or two questions (cells,)."""
    table = atoms.marginal([each.column for each in questions])
    for axis, each in enumerate(questions):
        of_code = np.arange(each.size)[:, None] == each.codes
        table = np.moveaxis(np.tensordot(of_code * 1.0, table, (1, axis)), 0, axis)
    return table.ravel()


def residuals(reports: CodeReports, atoms: LatentClasses) -> dict[Columns, Residual]:
    """Return residuals of every column, and of every two that some report covers."""
    found: dict[Columns, list[Residual]] = {}
    for questions in reports.pairs:
        shares = cell_shares(atoms, *(reports.questions[q] for q in questions))
        # Shares add up to 1: of few cells their covariances count, of many hardly.
        own = estimate(reports, questions, full=shares.size <= _MAX_COVARIANCES)
        gap = own.mean - shares
        residual = Residual(float(gap @ gap), *_traces(own.spread))
        found.setdefault(tuple(sorted(reports.columns(questions))), []).append(residual)
    return {columns: Residual.mean(some) for columns, some in found.items()}


def _traces(spread: Array) -> tuple[float, float, float]:
    """Return the traces of a covariance (or diagonal of variances), of its square and of its cube."""
    if spread.ndim == 1:
        return float(spread.sum()), float((spread**2).sum()), float((spread**3).sum())
    square = float((spread**2).sum())
    return float(np.trace(spread)), square, float((spread @ spread * spread).sum())


@dataclass(frozen=True, eq=False)
class Rehearsed:
    """Results of a rehearsal, by columns.

    Arguments:
        errors: Total variation.
        squares: Squared error ‖m′ − m‖².
        residuals: Residuals of its model by its reports.
        model: The model that it fitted.
        releases: Its reports.
    """

    errors: dict[Columns, float]
    squares: dict[Columns, float]
    residuals: dict[Columns, Residual]
    model: LocalModel
    releases: Releases

    def growth(self, own: dict[Columns, Residual], several: int, *, held_out: bool) -> float:
        """Estimate the ratio of the model's errors to rehearsed ones from the reports' residuals."""
        reported = [columns for columns in own if len(columns) == several]
        if not reported:
            return 1.0
        # Where few report, no report may cover some columns.
        excess = [self.residuals[c].excess for c in reported if c in self.residuals]
        square = np.mean([self.squares[c] for c in reported])
        noise = square if held_out else np.mean(excess or [0.0])
        more = np.mean([own[c].excess for c in reported]) - noise
        return max(1.0, 1 + float(more / max(float(square), 1e-12))) ** 0.5


def rehearse(
    model: LocalModel, releases: Releases, ways: Sequence[Columns], seed: int
) -> Rehearsed:
    """Rehearse with as many people as reported; of more than 200 000, with so many.

    Arguments:
        model: Of a table.
        releases: Only their randomizers are used, by as many people each; not their reports.
        ways: Columns, and pairs, whose errors are computed, in the schema's codes.
        seed: Of draws and fits; not of the reports' noise.
    """
    share = min(1.0, MAX_REHEARSED / len(releases))
    again = Releases(
        tuple(
            _report(model, part, round(share * len(part)), seed + number)
            for number, part in enumerate(releases.parts)
        )
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nothing to warn of: the people are simulated
        learned = fit_again(model, again, seed)
    law, true = codes_of(learned), codes_of(model)
    gaps = {way: (law.marginal(way) - true.marginal(way)).ravel() for way in ways}
    errors = {way: float(np.abs(gap).sum() / 2) for way, gap in gaps.items()}
    squares = {way: float(gap @ gap) for way, gap in gaps.items()}
    found = residuals(CodeReports.of(again), atoms_of(learned))
    return Rehearsed(errors, squares, found, learned, again)


def _report(model: LocalModel, part: Release, people: int, seed: int) -> Release:
    """Privatize people drawn from the model by the randomizer of one of its releases."""
    drawn = model.sample(max(people, 1), seed=seed)
    return part.randomizer.privatize(drawn.select(list(part.schema.table_columns)))


Marginal = Callable[[Columns], Array]


def marginal_errors(learned: Marginal, truth: Marginal, num_columns: int) -> Array:
    """Return mean total variation (2,) over columns, and over pairs; the latter NaN of one column."""
    found = []
    for several in (1, 2):
        ways = [*combinations(range(num_columns), several)]
        errors = [total_variation(learned(way), truth(way)) for way in ways]
        found.append(np.mean(errors) if errors else np.nan)
    return np.array(found)


@dataclass(frozen=True, eq=False)
class Population:
    """A population whose distribution is known.

    Arguments:
        law: The distribution of the schema's codes.
        draw: Draws records of n people, by a seed.
    """

    law: LatentClasses
    draw: Callable[[int, int], pa.Table]

    def errors(self, model: LocalModel) -> Array:
        """Return one- and two-way error (2,) of a model of this population."""
        return marginal_errors(codes_of(model).marginal, self.law.marginal, len(self.law.sizes))


def dependence(law: LatentClasses) -> float:
    """Return the mean total variation of pairs of columns from independence; 0 of a single column."""
    gaps = [
        total_variation(joint, independent(joint))
        for joint in map(law.marginal, combinations(range(len(law.sizes)), 2))
    ]
    return float(np.mean(gaps)) if gaps else 0.0


def population_of(model: LocalModel, schema: Schema) -> Population:
    """Return the population that a model draws, in the codes of a schema of the same columns.

    Raises:
        PrivotError: for a model of no table, or of other columns or values.
    """
    if "averaged" not in model.made_with:
        raise PrivotError(
            f"like is by estimator {model.made_with['estimator']!r}, and a rehearsal is of tables whose "
            "columns are all reported as codes: give a model of such a table"
        )
    theirs = {name: column.labels for name, column in model.schema.coded.items()}
    for name, column in schema.coded.items():
        if theirs.get(name) != column.labels:
            raise PrivotError(
                f"like has column {name!r} not at all, or with other values or bins: give a model of "
                "the schema's columns"
            )
    if list(theirs) != list(schema.coded):
        raise PrivotError(
            f"like is of the columns {', '.join(theirs)}: give a model of the schema's, in its order"
        )
    names = list(schema.table_columns)
    return Population(codes_of(model), lambda n, seed: model.sample(n, seed=seed).select(names))


def with_dependence(model: LocalModel, strength: float, seed: int) -> LocalModel:
    """Return the model with random classes: its single columns, and dependence of about this strength.

    Arguments:
        model: Of a table.
        strength: Mean total variation of pairs from independence; the nearest that twelve classes of
            these columns reach.
        seed: Of the classes.
    """
    sampler = model.sampler
    assert isinstance(sampler, LatentClassSampler)
    own = sampler.atoms
    shares = [np.maximum(table @ own.weights, _FLOOR) for table in own.probabilities]
    alone = LatentClasses(np.ones(1), tuple(each[:, None] / each.sum() for each in shares))
    if not strength > 0:
        return replace(model, sampler=replace(sampler, atoms=alone))
    rng = np.random.default_rng([seed, 3])
    weights = rng.dirichlet(np.ones(_CLASSES))
    pairs = zip(shares, sampler.places, strict=True)
    tilts = [np.exp(_scores(each, places, rng)) for each, places in pairs]
    marginals = [each[:, 0] for each in alone.probabilities]

    def with_scale(scale: float) -> LatentClassSampler:
        tables = [p * tilt**scale for p, tilt in zip(alone.probabilities, tilts, strict=True)]
        law = LatentClasses(weights, tuple(each / each.sum(axis=0) for each in tables))
        return replace(sampler, atoms=rake(law, marginals, tolerance=_TOLERANCE))

    # What raking leaves of dependence does not grow with the scale throughout, so all are tried.
    tried = [with_scale(float(scale)) for scale in _SCALES]
    off = [abs(dependence(each.classes) - strength) for each in tried]
    return replace(model, sampler=tried[int(np.argmin(off))])


def _scores(shares: Array, places: Places, rng: np.random.Generator) -> Array:
    """Draw scores of each value in each class (values, classes), of variance about 1."""
    scores = rng.standard_normal((len(shares), _CLASSES))
    if places.cells is not None and places.cells.in_order.size:
        order = places.cells.in_order
        mass = shares[order]
        place = (np.cumsum(mass) - mass / 2) / mass.sum()
        waves = np.cos(np.pi * place[:, None] * np.arange(1, _WAVES + 1)) * (2 / _WAVES) ** 0.5
        scores[order] = waves @ rng.standard_normal((_WAVES, _CLASSES))
    return scores


def made_up(schema: Schema, seed: int) -> Population:
    """Return a population of random latent classes, whose pairs depend as a census's do."""
    rng = np.random.default_rng([seed, 1])
    sizes = [column.alphabet.size for column in schema.coded.values()]
    weights = rng.dirichlet(np.ones(_CLASSES))
    own = [rng.standard_normal((size, 1)) for size in sizes]
    apart = [rng.standard_normal((size, _CLASSES)) for size in sizes]

    def law(scale: float) -> LatentClasses:
        scores = [np.exp(base + scale * each) for base, each in zip(own, apart, strict=True)]
        return LatentClasses(weights, tuple(each / each.sum(axis=0) for each in scores))

    low, high = 0.0, _MAX_SCALE
    for _ in range(_HALVINGS if len(sizes) > 1 else 0):
        middle = (low + high) / 2
        low, high = (middle, high) if dependence(law(middle)) < _DEPENDENCE else (low, middle)
    made = law(low if len(sizes) > 1 else 1.0)

    def draw(people: int, seed: int) -> pa.Table:
        rng = np.random.default_rng([seed, 2])
        return _records(schema, made.sample(people, rng), rng)

    return Population(made, draw)


def _records(schema: Schema, codes: np.ndarray, rng: np.random.Generator) -> pa.Table:
    columns: dict[str, pa.Array] = {}
    for index, (name, column) in enumerate(schema.coded.items()):
        columns |= column.decode_codes(name, codes[:, index], rng)
    return pa.table(columns)
