"""A model that was learned from a release, and what it draws records from.

That is a generator's network, latent classes, a density on a grid, or Gaussian classes, which draw a
label and then a point of it. The first two draw a latent first and every column given it, so both can
draw **conditionally**: given that some coded columns hold one of some codes, latents are weighted by the
probability that they give to that, and those columns are drawn from what is left of their distributions.
For latent classes this is exact; a network's latents are drawn from a pool in proportion to weights.
Of Gaussian classes a label can be given; of a grid, bins or cells of its column, exactly.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

import pyarrow as pa
import torch
from torch import Tensor

from privot.errors import PrivotError
from privot.generators import DCGAN, MLP, make_network
from privot.local.classes.sampler import LatentClassSampler
from privot.local.gaussians.sampler import GaussianSampler
from privot.local.generators.image_generators import LabeledGenerator
from privot.local.grid.density import GridSampler
from privot.local.likelihood.heads import Head, Outputs
from privot.local.releases import Releases
from privot.models import History, Model, ModelKind, Stored
from privot.privacy import ApproximateDP, PureDP, weakest
from privot.release import Randomizer
from privot.schema import Schema
from privot.schema.rules.where import values_of

# By column, the codes that a record may have there.
Condition = Mapping[str, list[int]]
_CANDIDATES = 16  # latents in a pool, for each record drawn


class Sampler(Protocol):
    """A distribution of records."""

    kind: ClassVar[str]

    def records(self, num_rows: int, rng: torch.Generator, where: Condition) -> pa.Table:
        """Draw records given a condition, as a table."""

    def shape(self) -> dict[str, Any]:
        """What is needed, beside the tensors, to build it again."""

    def tensors(self) -> dict[str, Tensor]:
        """Its numbers."""


@dataclass(frozen=True, eq=False)
class GeneratorSampler:
    """A network from latents to features, and the head that reads them.

    Arguments:
        generator: Network with its learned weights.
        head: What its features mean.
    """

    generator: MLP | DCGAN | LabeledGenerator
    head: Head
    kind: ClassVar[str] = "generator"

    def outputs(self, num_rows: int, rng: torch.Generator) -> Outputs:
        """The head's outputs of fresh latents."""
        return self.head(self.generator(self.generator.draw_latent(num_rows, rng)))

    @torch.no_grad()
    def records(self, num_rows: int, rng: torch.Generator, where: Condition) -> pa.Table:
        """See `Sampler`."""
        for name in where:
            if name not in self.head.coded:
                raise PrivotError(
                    f"where names column {name!r}, which was reported with noise added: "
                    "only columns that were reported as codes can be given"
                )
        pool = num_rows * (_CANDIDATES if where else 1)
        outputs = dict(self.outputs(pool, rng))
        if where and num_rows:
            weight = torch.ones(pool, dtype=torch.float64)
            for name, codes in where.items():
                allowed = outputs[name].double().exp()[:, codes]
                weight *= allowed.sum(dim=1)
                kept = torch.full_like(outputs[name], -torch.inf)
                kept[:, codes] = outputs[name][:, codes]
                outputs[name] = torch.log_softmax(kept, dim=1)
            if not float(weight.sum()) > 0:
                raise PrivotError(f"where {dict(where)} has probability 0: relax it")
            chosen = torch.multinomial(weight, num_rows, replacement=True, generator=rng)
            outputs = {name: output[chosen] for name, output in outputs.items()}
        return self.head.records(outputs, rng)

    def shape(self) -> dict[str, Any]:
        """See `Sampler`."""
        network = self.generator
        told = {"latent_dim": network.latent_dim, "hidden": list(network.hidden)}
        return told | {"architecture": network.architecture}

    def tensors(self) -> dict[str, Tensor]:
        """See `Sampler`."""
        return {k: v.detach().contiguous() for k, v in self.generator.state_dict().items()}

    @classmethod
    def build(
        cls, randomizer: Randomizer, shape: Mapping[str, Any], tensors: Mapping[str, Tensor]
    ) -> GeneratorSampler:
        """The sampler that `shape` and `tensors` describe."""
        head = Head(randomizer)
        generator = _network(shape, _features(head))
        generator.load_state_dict(dict(tensors))
        return cls(generator.eval(), head)


class LabeledSampler(GeneratorSampler):
    """The same for labeled images, whose labels can be given before anything is drawn."""

    kind: ClassVar[str] = "labeled_generator"

    @torch.no_grad()
    def records(self, num_rows: int, rng: torch.Generator, where: Condition) -> pa.Table:
        """See `Sampler`."""
        generator = self.generator
        assert isinstance(generator, LabeledGenerator)
        shares, codes = generator.conditional.shares, where.get(generator.label)
        if codes is not None:
            shares = torch.zeros_like(shares).index_put((torch.tensor(codes),), shares[codes])
        labels = torch.multinomial(shares, max(num_rows, 1), replacement=True, generator=rng)
        latent = generator.draw_latent(num_rows, rng, labels[:num_rows])
        return self.head.records(self.head(generator(latent)), rng)

    @classmethod
    def build(
        cls, randomizer: Randomizer, shape: Mapping[str, Any], tensors: Mapping[str, Tensor]
    ) -> LabeledSampler:
        """The sampler that `shape` and `tensors` describe."""
        head = Head(randomizer)
        shares = tensors["conditional.shares"]
        generator = LabeledGenerator(head, _network(shape, _features(head), len(shares)), shares)
        generator.load_state_dict(dict(tensors))
        return cls(generator.eval(), head)


def _features(head: Head) -> tuple[int, ...]:
    """Shape of what a generator makes: the image's, where there is just one, alone or with a label."""
    images = [column.image_shape for column in head.images.values()]
    alone = len(images) == 1 and len(head.widths) == 1 + len(head.coded) <= 2
    return images[0] if alone else (head.num_features,)


def _network(
    shape: Mapping[str, Any], features: tuple[int, ...], num_labels: int = 0
) -> MLP | DCGAN:
    """The network that a sampler's `shape` describes; its weights are to be loaded."""
    latent_dim = shape["latent_dim"] + num_labels
    return make_network(shape["architecture"], latent_dim, features, tuple(shape["hidden"]))


_KINDS = (GeneratorSampler, LabeledSampler, LatentClassSampler, GridSampler, GaussianSampler)
SAMPLERS = {cls.kind: cls for cls in _KINDS}


def read_condition(schema: Schema, where: Mapping[str, Any]) -> dict[str, list[int]]:
    """Codes that a condition in words allows, by column.

    A column's value is a category, True or False, None for missing, a number or a date, whose bin is
    meant, the label of a bin, a range, for all bins that it meets, or a list of them.

    Raises:
        PrivotError: for a column or a value that the schema does not declare.
    """
    condition = {}
    for name, given in where.items():
        if name not in schema.coded:
            raise PrivotError(
                f"where names column {name!r}: name one of {', '.join(schema.coded) or 'none'}"
            )
        column = schema.coded[name]
        codes = {code for value in values_of(given) for code in column.find_codes(name, value)}
        condition[name] = sorted(codes)
    return condition


_SAMPLE_ROWS, _SAMPLE_NUMBERS = 65_536, 2**22  # at once; numbers are those of images


@dataclass(frozen=True, repr=False)
class LocalModel(Model):
    """A distribution of clean records, learned from a release.

    Arguments:
        sampler: What records are drawn from.
        randomizer: What was done to each record that it was learned from (of the newest release).
        made_with: Settings and facts of the fit, plain values.
        history: Loss and learning rate over the steps; None if it was not trained by steps.
        earlier: The randomizers of earlier releases that it was learned from as well.
    """

    kind: ClassVar[ModelKind] = ModelKind("local", 3, "privot fit")

    sampler: Sampler
    randomizer: Randomizer
    made_with: dict[str, Any]
    history: History | None = None
    earlier: tuple[Randomizer, ...] = ()

    @classmethod
    def of(cls, releases: Releases, sampler: Sampler, made_with: dict[str, Any]) -> Self:
        """A model of one or several releases, which says what the people of each were promised."""
        *earlier, newest = releases.randomizers
        return cls(sampler, newest, made_with | releases.promises(), earlier=tuple(earlier))

    @property
    def schema(self) -> Schema:
        """What one record may be."""
        return self.randomizer.schema

    @property
    def guarantee(self) -> PureDP | ApproximateDP:
        """That of the release, which all that is computed from it keeps; of several, the weakest."""
        return weakest(self.randomizer.guarantee, *(each.guarantee for each in self.earlier))

    def summary(self) -> dict[str, object]:
        """See `Summarized`."""
        return super().summary() | {"estimator": self.made_with["estimator"]}

    def draw(
        self, num_rows: int, rng: torch.Generator, where: Mapping[str, Any]
    ) -> Iterator[pa.Table]:
        """See `Model`."""
        condition = read_condition(self.schema, where)
        names, most = list(self.schema.table_columns), self._rows_at_once()
        for start in range(0, max(num_rows, 1), most):
            rows = min(most, num_rows - start)
            yield self.sampler.records(rows, rng, condition).select(names)

    def _rows_at_once(self) -> int:
        pixels = sum(column.domain.num_pixels for column in self.schema.images.values())
        return max(64, _SAMPLE_NUMBERS // pixels) if pixels else _SAMPLE_ROWS

    def fields(self) -> dict[str, Any]:
        """See `Learned`."""
        return {
            "sampler": {"kind": self.sampler.kind} | self.sampler.shape(),
            "made_with": self.made_with,
            "randomizer": json.loads(self.randomizer.to_json()),
            "earlier": [each.to_json() for each in self.earlier],
        }

    def tensors(self) -> dict[str, Tensor]:
        """See `Learned`."""
        return self.sampler.tensors()

    @classmethod
    def build(cls, stored: Stored) -> Self:
        """See `Learned`."""
        shape = stored.fields["sampler"]
        randomizer = Randomizer.from_json(json.dumps(stored.fields["randomizer"]))
        sampler = SAMPLERS[shape["kind"]].build(randomizer, shape, stored.tensors)
        earlier = tuple(map(Randomizer.from_json, stored.fields["earlier"]))
        return cls(sampler, randomizer, stored.fields["made_with"], stored.history, earlier)
