r"""People whose law is known, to rehearse reports and their fit with.

- **A model's people**: what it draws, by its law (`stands_for`).
- **Made-up people** (`made_up`): random latent classes of the schema's alphabets. Scores of codes are
  normal, and each class's differ from them by normal ones, times what makes the mean distance of pairs
  of columns from independence .1 in total variation, which is what columns of a census have.
- **People with a model's columns** (`with_columns_of`): the same around a model's shares of single
  columns, which they keep, for any strength of dependence, 0 included. The scores of a number's values
  are cosines of where these stand among all people, so that neighbors are alike.

Privacy review: functions of public numbers, coins, and a model, which was learned from reports alone:
post-processing. No record is read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import pyarrow as pa

from privot.errors import PrivotError
from privot.evaluation.distances import independent, total_variation
from privot.evaluation.rehearsal import codes_of
from privot.local.classes.marginals import rake
from privot.local.classes.product_mixture import LatentClasses
from privot.local.classes.sampler import LatentClassSampler, Places
from privot.local.model import LocalModel
from privot.schema import Array, Schema

_CLASSES = 12
_DEPENDENCE = 0.1
_SCALES = np.geomspace(0.05, 6.0, 24)
_LARGEST_SCALE, _HALVINGS = 8.0, 12
_WAVES = 3
_TOLERANCE = 1e-5
_RAREST = 1e-9


@dataclass(frozen=True, eq=False)
class Population:
    """People whose law is known.

    Arguments:
        law: Of the schema's codes.
        draw: Records of n of them, by a seed.
    """

    law: LatentClasses
    draw: Callable[[int, int], pa.Table]

    def errors(self, model: LocalModel) -> Array:
        """One- and two-way error of a model of these people, means over columns and pairs."""
        learned, every = codes_of(model), range(len(self.law.sizes))
        found = []
        for several in (1, 2):
            ways = [*combinations(every, several)]
            told = [total_variation(learned.marginal(w), self.law.marginal(w)) for w in ways]
            found.append(np.mean(told) if told else np.nan)
        return np.array(found)


def dependence(law: LatentClasses) -> float:
    """Mean total variation of pairs of columns from independence; 0 of a single column."""
    gaps = [
        total_variation(joint, independent(joint))
        for joint in map(law.marginal, combinations(range(len(law.sizes)), 2))
    ]
    return float(np.mean(gaps)) if gaps else 0.0


def stands_for(model: LocalModel, schema: Schema) -> Population:
    """A model's people, in the codes of a schema of the same columns.

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


def with_columns_of(model: LocalModel, strength: float, seed: int) -> LocalModel:
    """The model with other classes: its single columns, and random dependence of about this strength.

    Arguments:
        model: Of a table.
        strength: Mean total variation of pairs from independence; the nearest that twelve classes of
            these columns reach.
        seed: Of the classes.
    """
    sampler = model.sampler
    assert isinstance(sampler, LatentClassSampler)
    own = sampler.atoms
    shares = [np.maximum(table @ own.weights, _RAREST) for table in own.probabilities]
    alone = LatentClasses(np.ones(1), tuple(each[:, None] / each.sum() for each in shares))
    if not strength > 0:
        return replace(model, sampler=replace(sampler, atoms=alone))
    rng = np.random.default_rng([seed, 3])
    weights = rng.dirichlet(np.ones(_CLASSES))
    pairs = zip(shares, sampler.places, strict=True)
    tilts = [np.exp(_scores(each, places, rng)) for each, places in pairs]

    kept = [each[:, 0] for each in alone.probabilities]

    def with_scale(scale: float) -> LatentClassSampler:
        tables = [p * tilt**scale for p, tilt in zip(alone.probabilities, tilts, strict=True)]
        law = LatentClasses(weights, tuple(each / each.sum(axis=0) for each in tables))
        return replace(sampler, atoms=rake(law, kept, tolerance=_TOLERANCE))

    # What raking leaves of dependence does not grow with the scale throughout, so all are tried.
    tried = [with_scale(float(scale)) for scale in _SCALES]
    off = [abs(dependence(each.classes) - strength) for each in tried]
    return replace(model, sampler=tried[int(np.argmin(off))])


def _scores(shares: Array, places: Places, rng: np.random.Generator) -> Array:
    """Of each value in each class (values, classes), of variance about 1."""
    scores = rng.standard_normal((len(shares), _CLASSES))
    if places.cells is not None and places.cells.in_order.size:
        order = places.cells.in_order
        mass = shares[order]
        place = (np.cumsum(mass) - mass / 2) / mass.sum()
        waves = np.cos(np.pi * place[:, None] * np.arange(1, _WAVES + 1)) * (2 / _WAVES) ** 0.5
        scores[order] = waves @ rng.standard_normal((_WAVES, _CLASSES))
    return scores


def made_up(schema: Schema, seed: int) -> Population:
    """Random latent classes of the schema's alphabets, whose pairs depend as a census's do."""
    rng = np.random.default_rng([seed, 1])
    sizes = [column.alphabet.size for column in schema.coded.values()]
    weights = rng.dirichlet(np.ones(_CLASSES))
    own = [rng.standard_normal((size, 1)) for size in sizes]
    apart = [rng.standard_normal((size, _CLASSES)) for size in sizes]

    def law(scale: float) -> LatentClasses:
        scores = [np.exp(base + scale * each) for base, each in zip(own, apart, strict=True)]
        return LatentClasses(weights, tuple(each / each.sum(axis=0) for each in scores))

    low, high = 0.0, _LARGEST_SCALE
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
