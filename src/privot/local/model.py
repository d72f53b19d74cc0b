"""A fitted model: it samples records, states its guarantee, and is a folder of open formats.

`model.json` (schema, randomizer, guarantee, how it was made), `weights.safetensors`, and, if it was
trained by steps, `history.parquet`. Nothing is pickled: loading a model runs no code from it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import safetensors
import safetensors.torch
import torch

from privot.errors import PrivotError
from privot.files import recover_folder, replacing_folder
from privot.limits import MOST_ROWS, require_count, require_seed
from privot.local.samplers import SAMPLERS, Sampler, read_condition
from privot.model_folder import ModelKind
from privot.privacy import ApproximateDP, PureDP
from privot.release import Randomizer
from privot.schema import Schema
from privot.training import History

KIND = ModelKind("local", 2, "privot fit")
_SAMPLE_ROWS = 65_536
_SAMPLE_NUMBERS = 2**22  # at once, of images


@dataclass(frozen=True)
class Model:
    """A distribution of clean records, learned from a release.

    Arguments:
        sampler: What records are drawn from: a generator's network, or latent classes.
        randomizer: What was done to each record that it was learned from.
        made_with: Settings and facts of the fit, plain values.
        history: Loss and learning rate over the steps; None if it was not trained by steps.
    """

    sampler: Sampler
    randomizer: Randomizer
    made_with: dict[str, Any]
    history: History | None = None

    @property
    def schema(self) -> Schema:
        """What one record may be."""
        return self.randomizer.schema

    @property
    def guarantee(self) -> PureDP | ApproximateDP:
        """The guarantee of the release: whatever is computed from a release keeps it."""
        return self.randomizer.guarantee

    def sample(
        self,
        num_rows: int,
        seed: int | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> pa.Table:
        """Draw synthetic records, as a table with the schema's columns.

        Arguments:
            num_rows: How many.
            seed: To repeat a draw; fresh randomness otherwise. Samples are not secret either way.
            where: Only records with these values: by column, a category, True or False, None for
                missing, a bin's label, or a list of them.

        Raises:
            PrivotError: if `num_rows` is negative, or the condition cannot be met.

        Examples:
            `model.sample(1000, where={"sex": "F", "age": ["17 to 24", "25 to 32"]})`
        """
        return pa.concat_tables(self.pieces(num_rows, seed, where))

    def pieces(
        self,
        num_rows: int,
        seed: int | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> Iterator[pa.Table]:
        """The records of `sample`, piece by piece: any number of them, in the memory of one piece."""
        num_rows = require_count("num_rows", num_rows, MOST_ROWS, least=0)
        condition = read_condition(self.schema, where or {})
        rng = torch.Generator()
        if seed is None:
            rng.seed()
        else:
            rng.manual_seed(require_seed(seed))
        names, most = list(self.schema.table_columns), self._rows_at_once()
        for start in range(0, max(num_rows, 1), most):
            rows = min(most, num_rows - start)
            yield self.sampler.records(rows, rng, condition).select(names)

    def _rows_at_once(self) -> int:
        pixels = sum(column.domain.num_pixels for column in self.schema.images.values())
        return max(64, _SAMPLE_NUMBERS // pixels) if pixels else _SAMPLE_ROWS

    def save(self, path: str | Path) -> None:
        """Write the model's folder; an existing one survives any failure."""
        fields = {
            "publishable": True,
            "guarantee": self.guarantee.to_dict(),
            "in_words": self.guarantee.describe(),
            "sampler": {"kind": self.sampler.kind} | self.sampler.shape(),
            "made_with": self.made_with,
            "randomizer": json.loads(self.randomizer.to_json()),
        }
        with replacing_folder(path) as folder:
            weights = safetensors.torch.save(self.sampler.tensors())
            (folder / "weights.safetensors").write_bytes(weights)
            if self.history is not None:
                self.history.save(folder / "history.parquet")
            KIND.seal(folder, fields)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a model's folder.

        Raises:
            PrivotError: if it is missing, damaged, or from a newer version.
        """
        path = Path(path)
        recover_folder(path)
        fields = KIND.read(path)
        randomizer = Randomizer.from_json(json.dumps(fields["randomizer"]))
        shape = fields["sampler"]
        try:
            weights = safetensors.torch.load_file(path / "weights.safetensors")
            sampler = SAMPLERS[shape["kind"]].build(randomizer, shape, weights)
            trained = "history.parquet" in fields["files"]
            history = History.load(path / "history.parquet") if trained else None
        except (
            OSError,
            KeyError,
            RuntimeError,
            PrivotError,
            safetensors.SafetensorError,
            pa.ArrowException,
        ) as error:
            reason = str(error).splitlines()[0]
            raise PrivotError(
                f"model {path} is damaged ({reason}): copy it again, or fit it again"
            ) from None
        return cls(sampler, randomizer, fields["made_with"], history)
