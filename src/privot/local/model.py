"""Model of records learned from reports, and refinement of a schema by the model of a pilot.

A model's sampler is a generator network, latent classes, a density on a grid, or Gaussian classes. A
**condition** allows only some codes of a coded column. Latent classes and generators draw a latent, then
every column given the latent; under a condition they weight latents by its probability and restrict the
columns' distributions. This is exact for latent classes; a generator draws latents from a pool in
proportion to the weights. Gaussian classes can be conditioned on their label, and a grid, exactly, on
bins or cells of its column.

**Refinement** (`refine`, `pair_weights`). The first people of a campaign, say a fifth, report with a
schema that declares bounds only: the **pilot**. Its model determines typical numbers and frequent
values, with which the other people report. Rare categories can be merged into `other`, and pairs of
columns that depend on each other can be reported more often. Both releases are fitted together
(`privot.local.releases`), so all reports are used.

**Privacy review.** Adjacency and ε are unchanged: every person reports once, with one randomizer and its
ε. The second schema and the weights of its pairs are functions of a model of the first people's
*reports*, hence post-processing, and public. The records of other people are used only through their own
reports. Who reports first must not depend on the records: the first to answer, or a random sample.

References:
    Joseph, Kulkarni, Mao, Wu, *Locally private Gaussian estimation* (2019), for two rounds with
    disjoint people.
"""

import json
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privot.core.errors import PrivotError, load_object
from privot.local.releases import Releases, Reports
from privot.local.words import FoundWord, find_words, without_words
from privot.models import Component, History, Model, ModelKind, Stored
from privot.privacy import ApproximateDP, DistributedDP, PureDP, weakest
from privot.randomizer import Counts, Randomizer, count
from privot.schema import Column, Schema
from privot.schema.sampling import values_of
from privot.waves.panel import most_reports_in_shards

if TYPE_CHECKING:
    from privot.local.classes.mixture import LatentClassSampler

# Allowed codes by column.
Condition = Mapping[str, list[int]]

_SAMPLE_ROWS, _SAMPLE_NUMBERS = 65_536, 2**22  # most records, or pixels, drawn at once
_MIN_IMAGES = 64  # fewest records with images drawn at once
_REFINE_ROWS = 100_000  # records drawn from a model to determine bins
_MIN_PAIR_WEIGHT = 0.1  # weight of a pair without dependence, since the pilot may have missed it
OTHER_WORDS = "(other)"  # category of the words that a pilot did not find
_MIN_DEPENDENCE = 1e-12  # mean squared dependence below which it counts as rounding error


class Sampler(Component):
    """Distribution of records that can be sampled, restored for the records of a randomizer."""

    @abstractmethod
    def records(self, num_rows: int, rng: np.random.Generator, where: Condition) -> pa.Table:
        """Draw records that satisfy a condition, or raise PrivotError if the sampler cannot."""


# Classes of samplers by kind, imported on use, because only networks need PyTorch.
_SAMPLERS = {
    "latent_classes": "privot.local.classes.mixture:LatentClassSampler",
    "grid": "privot.local.grid_channels:GridSampler",
    "gaussian_classes": "privot.local.gaussians:GaussianSampler",
    "generator": "privot.local.networks.generator_fit:GeneratorSampler",
    "labeled_generator": "privot.local.networks.generator_fit:LabeledSampler",
}


def read_condition(schema: Schema, where: Mapping[str, Any]) -> dict[str, list[int]]:
    """Convert a condition on values (see `Model.sample`) to allowed codes by column.

    A number or a date stands for its bin, and a range for all bins that it intersects.

    Raises:
        PrivotError: for a column or a value that the schema does not declare.
    """
    condition = {}
    for name, allowed in where.items():
        if name not in schema.coded:
            raise PrivotError(
                f"where names column {name!r}: name one of {', '.join(schema.coded) or 'none'}"
            )
        column = schema.coded[name]
        codes = {code for value in values_of(allowed) for code in column.find_codes(name, value)}
        condition[name] = sorted(codes)
    return condition


@dataclass(frozen=True, repr=False)
class LocalModel(Model):
    """Distribution of clean records, learned from their reports.

    Arguments:
        sampler: Distribution that records are drawn from.
        randomizer: Randomizer of the release (of the newest, if there were several).
        made_with: Settings and facts of the fit, as plain values.
        history: History of the training; None for a model that was not trained by steps.
        earlier: Randomizers of earlier releases that were fitted together with the newest.
    """

    kind: ClassVar[ModelKind] = ModelKind("local", 3, "privot fit")

    sampler: Sampler
    randomizer: Randomizer
    made_with: dict[str, Any]
    history: History | None = None
    earlier: tuple[Randomizer, ...] = ()

    @classmethod
    def of(
        cls,
        releases: Releases,
        sampler: Sampler,
        made_with: dict[str, Any],
        history: History | None = None,
    ) -> Self:
        """Build a model of one or several releases; `made_with` records the guarantee of each."""
        *earlier, newest = releases.randomizers
        if earlier:
            parts = releases.parts
            promises = [{"guarantee": str(part.guarantee), "reports": len(part)} for part in parts]
            made_with = made_with | {"promises": promises}
        waves = frozenset[str]().union(*(part.waves for part in releases.parts))
        if waves:
            made_with = made_with | {"reports_of_a_person": most_reports_in_shards(waves)}
        return cls(sampler, newest, made_with, history, tuple(earlier))

    @property
    def schema(self) -> Schema:
        """Schema of the records."""
        return self.randomizer.schema

    @property
    def guarantee(self) -> PureDP | ApproximateDP | DistributedDP:
        """Guarantee of the release, by post-processing; the weakest one of several releases.

        If a person has several reports, those of one randomizer compose, and those of several add up.
        Shuffled batches then count as batches of their promise's people, because later sizes may depend
        on earlier batches.
        """
        if (batches := self.made_with.get("reports_of_a_person", 1)) > 1:
            if not self.earlier:
                return self.randomizer.batch_guarantee(batches=batches)
            each = (made_by.batch_guarantee() for made_by in (*self.earlier, self.randomizer))
            return weakest(*each).times(batches)
        only_promise = {"reports": self.made_with.get("num_reports", 1)}
        promises = self.made_with.get("promises", [only_promise])
        pairs = zip((*self.earlier, self.randomizer), promises, strict=True)
        return weakest(*(made_by.batch_guarantee(promise["reports"]) for made_by, promise in pairs))

    def with_reports_of_a_person(self, count: int) -> Self:
        """Return the model of releases in which one person has up to `count` reports."""
        return replace(self, made_with=self.made_with | {"reports_of_a_person": count})

    def summary(self) -> dict[str, object]:
        return super().summary() | {"estimator": self.made_with["estimator"]}

    def draw(
        self, num_rows: int, rng: np.random.Generator, where: Mapping[str, Any]
    ) -> Iterator[pa.Table]:
        condition = read_condition(self.schema, where)
        pixels = sum(column.domain.num_pixels for column in self.schema.images.values())
        rows_at_once = max(_MIN_IMAGES, _SAMPLE_NUMBERS // pixels) if pixels else _SAMPLE_ROWS
        for start in range(0, max(num_rows, 1), rows_at_once):
            yield self.sampler.records(min(rows_at_once, num_rows - start), rng, condition)

    def fields(self) -> dict[str, Any]:
        return {
            "sampler": {"kind": self.sampler.kind} | self.sampler.fields(),
            "made_with": self.made_with,
            "randomizer": json.loads(self.randomizer.to_json()),
            "earlier": [randomizer.to_json() for randomizer in self.earlier],
        }

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        return self.sampler.arrays()

    @classmethod
    def build(cls, stored: Stored) -> Self:
        fields = stored.fields["sampler"]
        randomizer = Randomizer.from_json(json.dumps(stored.fields["randomizer"]))
        kind = load_object(_SAMPLERS[fields["kind"]], f"a model of kind {fields['kind']!r}")
        sampler = kind.build(randomizer, fields, stored.arrays)
        earlier = tuple(map(Randomizer.from_json, stored.fields["earlier"]))
        return cls(sampler, randomizer, stored.fields["made_with"], stored.history, earlier)


def refine(model: LocalModel, *, rarest: float = 0.0, seed: int = 0) -> Schema:
    """Return a pilot's schema with typical numbers, and spikes, for numbers and dates.

    Arguments:
        model: Model of the pilot, fitted by `privot.fit`.
        rarest: Share below which a category is merged into `other`, in columns that declare `other`.
        seed: Seed of the records that are drawn from the model.

    What is learned by the refined schema depends on the pilot's reports, too: people of the pilot have
    the pilot's ε, whatever a later model of others alone states.

    Raises:
        PrivotError: if `model` is not a model of a release, `rarest` (in [0, 1)) is out of range, or a
            rule names a merged category.
    """
    if not isinstance(model, LocalModel):
        raise PrivotError(
            f"model is a {type(model).__name__}, not one of a pilot's release: give what privot.fit made"
        )
    if not 0 <= rarest < 1:
        raise PrivotError(f"rarest is {rarest!r}: give a share from 0, which merges nothing, to 1")
    schema, rng = model.schema, np.random.default_rng(seed)
    drawn = pa.concat_tables(model.draw(_REFINE_ROWS, rng, {}))
    coded = schema.coded.items()
    refined = {name: column.refined(name, drawn, rarest) for name, column in coded}
    fields = {"unit": schema.unit, "rules": schema.rules, "promise": schema.promise}
    return Schema.from_dict(fields | {"columns": {**schema.declared, **refined}})


def refine_words(
    release: Reports, fit: Callable[[Counts], LocalModel], public: Iterable[str] = (), **how: Any
) -> tuple[Schema, dict[str, list[FoundWord]]]:
    """Return a pilot's schema with the frequent words as categories, and these words by column.

    Arguments:
        release: Reports of the pilot, or their counts.
        fit: Fit of the other columns, such as `privot.fit`.
        public: Public words to try (`privot.local.words.find_words`).
        **how: Arguments of `refine`, for the other columns.

    Raises:
        PrivotError: if there is no column of words, or one without a frequent word.
    """
    counts = release if isinstance(release, Counts) else count(release)
    schema, public = counts.schema, [*public]
    found = {name: find_words(counts, name, public) for name in schema.words}
    if rare := [name for name in found if not found[name]] or [*schema.columns][: not found]:
        raise PrivotError(
            f"columns {rare} have no word that is sure to be frequent: ask more people, raise ε, or "
            "give public words to try; a schema without words is refined by a model"
        )
    others = schema.columns.keys() - found.keys()
    fields: dict[str, Any] = {"unit": schema.unit, "rules": schema.rules, "promise": schema.promise}
    columns = dict(schema.declared)
    if others:
        columns |= refine(fit(without_words(counts)), **how).declared
    for name, words in found.items():
        listed = {
            "kind": "categorical",
            "categories": [found.word for found in words],
            "other": OTHER_WORDS,
        }
        columns[name] = Column.of_kind(listed | {"nullable": schema.columns[name].nullable})
    return Schema.from_dict(fields | {"columns": columns}), found


def pair_dependence(joint: NDArray[np.float64]) -> float:
    """Return the total variation between a joint table of two columns and their independence."""
    independent = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0)
    return float(np.abs(joint - independent).sum() / 2)


def pair_weights(model: LocalModel) -> dict[tuple[str, str], float]:
    r"""Weight pairs of columns by their dependence in a pilot's model, for `randomizer.weight_pairs`.

    The weight of columns i and j is $w_{ij} = 0.1 + 0.9\, t_{ij}^2 / \overline{t^2}$, where $t_{ij}$ is
    their `pair_dependence`, and the bar is the mean over pairs. Weights have mean 1; all are 1 if the
    model shows no dependence.

    Raises:
        PrivotError: if `model` is not a model of a table whose columns are all reported as codes.
    """
    if not isinstance(model, LocalModel) or model.sampler.kind != "latent_classes":
        raise PrivotError(
            "model is not of a table whose columns are all reported as codes: give what privot.fit made "
            "of a pilot's joint reports"
        )
    classes = cast("LatentClassSampler", model.sampler).classes
    names, squares = list(model.schema.coded), {}
    for i, j in combinations(range(len(names)), 2):
        squares[names[i], names[j]] = pair_dependence(classes.marginal((i, j))) ** 2
    mean = float(np.mean([*squares.values()])) if squares else 0.0
    if mean < _MIN_DEPENDENCE:
        return dict.fromkeys(squares, 1.0)
    rest = 1 - _MIN_PAIR_WEIGHT
    return {pair: _MIN_PAIR_WEIGHT + rest * square / mean for pair, square in squares.items()}
