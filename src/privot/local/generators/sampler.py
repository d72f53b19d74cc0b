"""What a generator's model draws records from: a network, alone or with a label."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from privot.errors import PrivotError
from privot.generators import DCGAN, MLP, make_network, torch_generator
from privot.local.generators.image_generators import LabeledGenerator
from privot.local.likelihood.heads import Head, Outputs
from privot.local.model import Condition
from privot.release import Randomizer

_CANDIDATES = 16  # latents in a pool, for each record drawn


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
    def records(self, num_rows: int, rng: np.random.Generator, where: Condition) -> pa.Table:
        """See `Sampler`."""
        for name in where:
            if name not in self.head.coded:
                raise PrivotError(
                    f"where names column {name!r}, which was reported with noise added: "
                    "only columns that were reported as codes can be given"
                )
        pool = num_rows * (_CANDIDATES if where else 1)
        rng_torch = torch_generator(rng)
        outputs = dict(self.outputs(pool, rng_torch))
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
            chosen = torch.multinomial(weight, num_rows, replacement=True, generator=rng_torch)
            outputs = {name: output[chosen] for name, output in outputs.items()}
        return self.head.records(outputs, rng_torch)

    def shape(self) -> dict[str, Any]:
        """See `Sampler`."""
        network = self.generator
        sizes = {"latent_dim": network.latent_dim, "hidden": list(network.hidden)}
        return sizes | {"architecture": network.architecture}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """See `Sampler`."""
        return {name: x.cpu().numpy() for name, x in self.generator.state_dict().items()}

    @classmethod
    def build(
        cls, randomizer: Randomizer, shape: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> GeneratorSampler:
        """The sampler that `shape` and `arrays` describe."""
        head = Head(randomizer)
        generator = _network(shape, _features(head))
        generator.load_state_dict({k: torch.from_numpy(v) for k, v in arrays.items()})
        return cls(generator.eval(), head)


class LabeledSampler(GeneratorSampler):
    """The same for labeled images, whose labels can be given before anything is drawn."""

    kind: ClassVar[str] = "labeled_generator"

    @torch.no_grad()
    def records(self, num_rows: int, rng: np.random.Generator, where: Condition) -> pa.Table:
        """See `Sampler`."""
        generator, rng_torch = self.generator, torch_generator(rng)
        assert isinstance(generator, LabeledGenerator)
        shares, codes = generator.conditional.shares, where.get(generator.label)
        if codes is not None:
            shares = torch.zeros_like(shares).index_put((torch.tensor(codes),), shares[codes])
        labels = torch.multinomial(shares, max(num_rows, 1), replacement=True, generator=rng_torch)
        latent = generator.draw_latent(num_rows, rng_torch, labels[:num_rows])
        return self.head.records(self.head(generator(latent)), rng_torch)

    @classmethod
    def build(
        cls, randomizer: Randomizer, shape: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> LabeledSampler:
        """The sampler that `shape` and `arrays` describe."""
        head = Head(randomizer)
        shares = torch.from_numpy(arrays["conditional.shares"])
        generator = LabeledGenerator(head, _network(shape, _features(head), len(shares)), shares)
        generator.load_state_dict({k: torch.from_numpy(v) for k, v in arrays.items()})
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
