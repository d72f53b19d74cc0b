"""A model learned through noisy slices: it samples records and states the guarantee that was spent.

A folder of `model.json`, `weights.safetensors` and, of a network, `history.parquet`, like every model.
All of it is a function of releases and of public settings: it may be published. Counts of clipped
records and times are not in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import safetensors
import safetensors.torch
import torch
from torch import Tensor

from privot.errors import PrivotError
from privot.files import recover_folder, replacing_file, replacing_folder
from privot.limits import MOST_ROWS, require_count, require_seed
from privot.models import History, ModelKind
from privot.models.model import KINDS
from privot.privacy import ApproximateDP
from privot.release import write_table
from privot.schema import Schema
from privot.sliced.images import LabeledImages
from privot.sliced.releases.given import given_labels
from privot.sliced.releases.plan import Plan
from privot.sliced.samplers import SAMPLERS, Records, Sampler
from privot.sliced.tables import TableRecords

KIND = ModelKind("sliced", 2, "privot sliced fit")
_SAMPLE_ROWS = 16_384


@dataclass(frozen=True)
class SlicedModel:
    """A distribution of records, learned from releases of the slicing mechanism.

    Arguments:
        sampler: What records are drawn from.
        records: The public map of the records it was learned from.
        plan: What could be released.
        releases: How many releases were made.
        made_with: Settings of the fit, plain values.
        history: Loss over the steps; None if it was not trained by steps.
    """

    sampler: Sampler
    records: Records
    plan: Plan
    releases: int
    made_with: dict[str, Any]
    history: History | None = None

    @property
    def guarantee(self) -> ApproximateDP:
        """What was spent: the guarantee of all releases that were counted."""
        return self.plan.guarantee

    def sample(self, num_rows: int, seed: int | None = None) -> pa.Table:
        """Draw synthetic records: a table of the schema, or of columns `image` and `label`.

        Raises:
            PrivotError: if `num_rows` is negative.
        """
        values, labels = self._draw(num_rows, None, _random(seed))
        if isinstance(self.records, TableRecords):
            return self.records.decode(values, _random(seed))
        flat = pa.array(values.numpy().ravel())
        size = int(np.prod(self.records.shape))
        images = pa.FixedSizeListArray.from_arrays(flat, size)
        return pa.table({"image": images, "label": labels.numpy()})

    def sample_images(
        self, num_rows: int, seed: int | None = None, labels: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Images (n, *shape) in [0, 1], float32, and their labels (n,), drawn or as given.

        Raises:
            PrivotError: if the model is one of tables, a label is unknown, or there are not as many.
        """
        if not isinstance(self.records, LabeledImages):
            raise PrivotError("the model holds rows of a table, not images: use sample()")
        given = None
        if labels is not None:
            given = given_labels(labels, num_rows, self.records.num_labels)
        values, drawn = self._draw(num_rows, given, _random(seed))
        return values.numpy(), drawn.numpy()

    def write(self, num_rows: int, path: str | Path, seed: int | None = None) -> None:
        """Write samples: a table by its suffix, or arrays `x` and `y` of images as npz."""
        path = Path(path)
        if isinstance(self.records, TableRecords):
            write_table(self.sample(num_rows, seed), path)
            return
        if path.suffix != ".npz":
            raise PrivotError(f"{path} is no npz: images are written as arrays x and y of an npz")
        images, labels = self.sample_images(num_rows, seed)
        with replacing_file(path) as draft, open(draft, "wb") as file:
            np.savez_compressed(file, x=np.rint(images * 255).astype(np.uint8), y=labels)

    def _draw(
        self, num_rows: int, labels: Tensor | None, rng: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        num_rows = require_count("num_rows", num_rows, MOST_ROWS, least=0)
        if labels is None:
            shares = self.sampler.shares
            labels = (
                torch.multinomial(shares, num_rows, replacement=True, generator=rng)
                if num_rows
                else torch.empty(0, dtype=torch.int64)
            )
        parts = [self.sampler.values(part, rng) for part in labels.split(_SAMPLE_ROWS)]
        return torch.cat(parts), labels

    def save(self, path: str | Path) -> None:
        """Write the model's folder; an existing one survives any failure."""
        fields = {
            "publishable": True,
            "guarantee": self.guarantee.to_dict(),
            "in_words": self.guarantee.describe(),
            "releases": self.releases,
            "plan": self.plan.to_dict(),
            "records": self.records.to_dict(),
            "sampler": {"kind": self.sampler.kind} | self.sampler.shape(),
            "made_with": self.made_with,
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
            PrivotError: if it is missing, damaged, of another kind, or from a newer version.
        """
        path = Path(path)
        recover_folder(path)
        fields = KIND.read(path)
        try:
            records = records_from_dict(fields["records"])
            shape = fields["sampler"]
            weights = safetensors.torch.load_file(path / "weights.safetensors")
            sampler = SAMPLERS[shape["kind"]].build(records, shape, weights)
            trained = "history.parquet" in fields["files"]
            history = History.load(path / "history.parquet") if trained else None
            plan = Plan.from_dict(fields["plan"])
            return cls(sampler, records, plan, fields["releases"], fields["made_with"], history)
        except (
            OSError,
            KeyError,
            TypeError,
            RuntimeError,
            PrivotError,
            safetensors.SafetensorError,
            pa.ArrowException,
        ) as error:
            reason = str(error).splitlines()[0]
            raise PrivotError(
                f"model {path} is damaged ({reason}): copy it again; fitting it again costs budget"
            ) from None


KINDS[KIND.name] = SlicedModel


def records_from_dict(fields: dict[str, Any]) -> Records:
    """The record map of its `to_dict`."""
    rest = {key: value for key, value in fields.items() if key != "kind"}
    if fields["kind"] == "images":
        return LabeledImages(**rest)
    return TableRecords(Schema.from_dict(rest.pop("schema")), **rest)


def _random(seed: int | None) -> torch.Generator:
    rng = torch.Generator()
    if seed is None:
        rng.seed()
    else:
        rng.manual_seed(require_seed(seed))
    return rng
