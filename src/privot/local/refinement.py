r"""What a pilot found, for those who are asked next: bins where the people are, pairs that depend.

A campaign asks its first people, say a fifth, by a schema of bounds alone; from the model that they give
come bins of equal mass and the values that many share, and the others are asked by these. Categories
that hardly anybody has can be left out of the list, so that `other` stands for them. Pairs of columns
that depend on each other in the model can be asked more often, those that hardly do less often. The two
releases are fitted together (`privot.local.releases`), so nobody's report is lost.

**Privacy review.** Adjacency and ε are as they were: every person reports once, by one randomizer, and
is promised that one's ε. The second schema, and the weights of its pairs, depend on the first people's
*reports*, through a model of them, so they are as private as these, and public; on the others' records
nothing depends but their noised values. Who is asked first must not depend on records: the first to
come, or drawn by coins.

References:
    Joseph, Kulkarni, Mao, Wu, *Locally private Gaussian estimation* (2019), for two rounds with
    disjoint people.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pyarrow as pa

from privot.errors import PrivotError, require_count
from privot.local.classes.sampler import LatentClassSampler
from privot.local.model import LocalModel
from privot.schema import Schema

_ROWS = 100_000
_LEAST_WEIGHT = 0.1  # of a pair without dependence: the pilot may have missed it
_NOTHING = 1e-12  # of squared dependence, by rounding


def refine(model: LocalModel, *, num_codes: int = 12, rarest: float = 0.0, seed: int = 0) -> Schema:
    """The model's schema, its numbers and dates with bins of equal mass in the model.

    Arguments:
        model: Of a pilot's release, fitted by `privot.fit`.
        num_codes: Bins and spikes of each number, about.
        rarest: Share of the model's people below which a category joins `other`, in columns that
            declare one. Samples of later models have `other` in its place.
        seed: Of the records that are drawn from the model.

    Raises:
        PrivotError: for what is no model of a release, a share that is none, or a rule that names a
            category which joined `other`.
    """
    if not isinstance(model, LocalModel):
        raise PrivotError(
            f"model is a {type(model).__name__}, not one of a pilot's release: give what privot.fit made"
        )
    require_count("num_codes", num_codes, 1000, least=2)
    if not 0 <= rarest < 1:
        raise PrivotError(f"rarest is {rarest!r}: give a share from 0, which merges nothing, to 1")
    rng = np.random.default_rng(seed)
    drawn = pa.concat_tables(model.draw(_ROWS, rng, {}))
    coded = model.schema.coded
    refined = {n: column.refined(n, drawn, num_codes, rarest) for n, column in coded.items()}
    schema = model.schema
    fields = {"unit": schema.unit, "rules": schema.rules}
    return Schema.from_dict(fields | {"columns": {**schema.declared, **refined}})


def pair_weights(model: LocalModel) -> dict[tuple[str, str], float]:
    r"""How much pairs of columns depend in a pilot's model: weights for `privot.weigh_pairs`.

    $w_{ij} = .1 + .9\, t_{ij}^2 / \overline{t^2}$, where $t_{ij}$ is the total variation of the pair's
    table from independence and the bar a mean over pairs: weights have mean 1, and all are 1 where the
    pilot found no dependence.

    Raises:
        PrivotError: for what is no model of a table whose columns are all reported as codes.
    """
    sampler = model.sampler if isinstance(model, LocalModel) else None
    if not isinstance(sampler, LatentClassSampler):
        raise PrivotError(
            "model is not of a table whose columns are all reported as codes: give what privot.fit made "
            "of a pilot's joint reports"
        )
    classes, names = sampler.classes, list(model.schema.coded)
    squares = {}
    for pair in combinations(range(len(names)), 2):
        table = classes.marginal(pair)
        alone = table.sum(axis=1, keepdims=True) * table.sum(axis=0)
        squares[names[pair[0]], names[pair[1]]] = (np.abs(table - alone).sum() / 2) ** 2
    mean = float(np.mean([*squares.values()])) if squares else 0.0
    if mean < _NOTHING:
        return dict.fromkeys(squares, 1.0)
    rest = 1 - _LEAST_WEIGHT
    return {pair: float(_LEAST_WEIGHT + rest * square / mean) for pair, square in squares.items()}
