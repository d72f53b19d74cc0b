"""The face that all models share, and how each is written to a folder and read again.

A class states its fields and its arrays, and builds itself from them; the folder is the same for all:
`model.json` (what it is, what it promises, how it was made), `weights.safetensors` and, if it was
trained by steps, `history.parquet`. Nothing is pickled: loading a model runs no code from it.
"""

from __future__ import annotations

import importlib
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import safetensors
import safetensors.numpy

from privot.errors import MOST_ROWS, PrivotError, require_count, require_seed
from privot.files import recover_folder, replacing_folder
from privot.models.files import HISTORY, WEIGHTS, Array, ModelKind, kind_of
from privot.privacy import ApproximateDP, IntegralPrivacy, PureDP
from privot.schema import Schema
from privot.schema.rules.sampling import completed
from privot.schema.rules.where import looked_at
from privot.summary import Summarized

Guarantee = PureDP | ApproximateDP | IntegralPrivacy
COLUMNS = ("step", "loss", "learning_rate", "marginal_error", "seconds")


@dataclass
class History:
    """Rows of (step, mean loss since the last row, learning rate, marginal error, seconds).

    Examples:
        >>> history = History([(100, 0.5, 0.001, 0.0, 2.5), (200, 0.25, 0.0, 0.0, 5.0)])
        >>> history["loss"].tolist(), history.done()
        ([0.5, 0.25], {'steps': 200, 'seconds': 5.0})
    """

    rows: list[tuple[float, ...]] = field(default_factory=list)

    def __getitem__(self, column: str) -> np.ndarray:
        """One column as an array."""
        return np.array([row[COLUMNS.index(column)] for row in self.rows])

    def done(self) -> dict[str, float]:
        """How many steps were taken, and in how many seconds."""
        taken = self.rows[-1] if self.rows else (0.0,) * len(COLUMNS)
        return {"steps": int(taken[0]), "seconds": taken[COLUMNS.index("seconds")]}

    def save(self, path: Path) -> None:
        """Write `history.parquet`."""
        pq.write_table(pa.table({name: self[name] for name in COLUMNS}), path)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read `history.parquet`."""
        table = pq.read_table(path)
        columns = [table.column(name).to_pylist() for name in COLUMNS]
        return cls(list(zip(*columns, strict=True)))


@dataclass(frozen=True)
class Stored:
    """What a model's folder held.

    Arguments:
        fields: Of `model.json`.
        arrays: By name.
        history: Of the training, if there was any.

    Examples:
        >>> Stored({"kind": "local"}, arrays={}, history=None).fields["kind"]
        'local'
    """

    fields: dict[str, Any]
    arrays: dict[str, Array]
    history: History | None


class Learned(Summarized, ABC):
    """Something learned from private records: it states its guarantee, and is a folder on disk.

    A subclass that sets `kind` is known to [`load`][privot.models.load].
    """

    kind: ClassVar[ModelKind]
    publishable: ClassVar[bool] = True
    history: History | None

    def __init_subclass__(cls, **given: Any) -> None:
        super().__init_subclass__(**given)
        if "kind" in cls.__dict__:
            KINDS[cls.kind.name] = cls

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """What is promised to those whose records it was learned from."""

    def summary(self) -> dict[str, object]:
        """See `Summarized`."""
        return {"guarantee": self.guarantee}

    @abstractmethod
    def fields(self) -> dict[str, Any]:
        """Plain values that it is built from, and facts of its making."""

    @abstractmethod
    def arrays(self) -> Mapping[str, Array]:
        """Its numbers, by name."""

    @classmethod
    @abstractmethod
    def build(cls, stored: Stored) -> Self:
        """What `fields` and `arrays` took apart."""

    def save(self, path: str | Path) -> None:
        """Write the model's folder; an existing one survives any failure."""
        stated = {
            "publishable": self.publishable,
            "guarantee": self.guarantee.to_dict(),
            "in_words": self.guarantee.describe(),
        }
        fields = stated | self.fields()
        with replacing_folder(path, secret=not self.publishable) as folder:
            weights = {name: np.asarray(a, order="C") for name, a in self.arrays().items()}
            (folder / WEIGHTS).write_bytes(safetensors.numpy.save(weights))
            if self.history is not None:
                self.history.save(folder / HISTORY)
            self.kind.seal(folder, fields)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a model's folder.

        Raises:
            PrivotError: if it is missing, damaged, of another kind or of another version.
        """
        with cls.stored(path) as stored:
            return cls.build(stored)

    @classmethod
    @contextmanager
    def stored(cls, path: str | Path) -> Iterator[Stored]:
        """What a folder of this kind holds; a block that cannot use it says that it is damaged."""
        path = Path(path)
        recover_folder(path)
        fields = cls.kind.read(path)
        try:
            trained = HISTORY in fields["files"]
            arrays = safetensors.numpy.load_file(path / WEIGHTS)
            yield Stored(fields, arrays, History.load(path / HISTORY) if trained else None)
        except (
            OSError,
            KeyError,
            TypeError,
            ValueError,
            RuntimeError,
            PrivotError,
            safetensors.SafetensorError,
            pa.ArrowException,
        ) as error:
            raise cls.kind.damaged(path, str(error).splitlines()[0]) from None


class Model(Learned):
    """A distribution of records that was learned from private ones: what every fit returns.

    `sample`, `save`, `guarantee` and `schema` mean the same whatever learned it.
    """

    @property
    @abstractmethod
    def schema(self) -> Schema:
        """What one record may be."""

    def summary(self) -> dict[str, object]:
        """See `Summarized`."""
        return self.schema.summary() | super().summary()

    @abstractmethod
    def draw(
        self, num_rows: int, rng: np.random.Generator, where: Mapping[str, Any]
    ) -> Iterator[pa.Table]:
        """Records in pieces, of arguments that `sample` has checked."""

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
                missing, a number or a date, for all that are in its bin, a bin's label, a range
                `"30..40"`, or a list of them.

        Raises:
            PrivotError: if `num_rows` is negative, or the condition cannot be met.

        Examples:
            `model.sample(1000, where={"sex": "F", "age": [20, "25 to 32"]})`
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
        entropy = np.random.SeedSequence(None if seed is None else require_seed(seed))
        rng, of_identifiers = map(np.random.default_rng, entropy.spawn(2))
        drawn, looked = looked_at(self.schema, where or {})
        return completed(
            self.schema, lambda n: self.draw(n, rng, drawn), num_rows, of_identifiers, looked
        )


KINDS: dict[str, type[Any]] = {}  # of `Learned`, by the name of their kind


def load(path: str | Path) -> Learned:
    """The model in a folder, whatever wrote it; its `guarantee` says what was promised.

    A kind's name begins with the package of privot that knows it, which is imported if need be; kinds of
    other packages are known once those are imported.

    Raises:
        PrivotError: if the folder is missing or damaged, holds no model, or is of another version.

    Examples:
        >>> load("nowhere")
        Traceback (most recent call last):
            ...
        privot.errors.PrivotError: model nowhere cannot be read (no such folder): ...
    """
    path = Path(path)
    recover_folder(path)
    if not path.is_dir():
        raise PrivotError(
            f"model {path} cannot be read (no such folder): give the folder that `privot fit`, or "
            "another fit, wrote"
        )
    kind = kind_of(path) or ""
    # Letters alone: no path, and no `__main__`.
    package = re.match(r"[a-z]+(?=\.|$)", kind)
    if kind not in KINDS and package and find_spec(f"privot.{package[0]}"):
        module = importlib.import_module(f"privot.{package[0]}")
        if (name := getattr(module, "MODEL_CLASSES", {}).get(kind)) is not None:
            getattr(module, name)  # imports the module that defines the class
    if kind not in KINDS:
        raise PrivotError(
            f"{path} holds no model (kind {kind or None!r}): give the folder that `privot fit`, or "
            "another fit, wrote"
        )
    model: Learned = KINDS[kind].load(path)
    return model
