"""A schema made of what a pilot found: bins where the people are.

A campaign asks its first people, say a fifth, by a schema of bounds alone; from the model that they give
come bins of equal mass and the values that many share, and the others are asked by these. Categories
that hardly anybody has can be left out of the list, so that `other` stands for them. The two releases
are fitted together (`privot.local.releases`), so nobody's report is lost.

**Privacy review.** Adjacency and ε are as they were: every person reports once, by one randomizer, and
is promised that one's ε. The second schema depends on the first people's *reports*, through a model of
them, so it is as private as these, and public; on the others' records nothing depends but their noised
values. Who is asked first must not depend on records: the first to come, or drawn by coins.

References:
    Joseph, Kulkarni, Mao, Wu, *Locally private Gaussian estimation* (2019), for two rounds with
    disjoint people.
"""

from __future__ import annotations

import pyarrow as pa
import torch

from privot.errors import PrivotError, require_count
from privot.local.model import LocalModel
from privot.schema import Schema

_ROWS = 100_000


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
    rng = torch.Generator().manual_seed(seed)
    drawn = pa.concat_tables(model.draw(_ROWS, rng, {}))
    coded = model.schema.coded
    refined = {n: column.refined(n, drawn, num_codes, rarest) for n, column in coded.items()}
    schema = model.schema
    fields = {"unit": schema.unit, "rules": schema.rules}
    return Schema.from_dict(fields | {"columns": {**schema.declared, **refined}})
