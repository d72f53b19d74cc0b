"""Common interface of all models, the format of their folders, and checkpoints of runs.

A model class defines its `fields` and `arrays`, and how `build` makes a model from them. The folder has
the same files for all classes: `model.json` (kind, guarantee, and settings of the fit),
`weights.safetensors` and, for training by steps, `history.parquet`. Loading runs no code (no pickles).

`model.json` is the **seal** of the folder: it lists the SHA-256 of every other file, and ends with the
SHA-256 of its own text. All files are compared with it before any is used, because weights with damaged
bytes would usually still load. The seal detects damage, not manipulation: it can be written again.

**A checkpoint** stores the state of a run as arrays, and the values that must agree when the run
resumes. Only the file's owner can read it, because the state of some objectives depends on raw records.
"""

import hashlib
import importlib
import json
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sized
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import safetensors.numpy
from numpy.typing import NDArray
from pyarrow import ArrowException
from safetensors import SafetensorError, safe_open

import privot
from privot.core.errors import MOST_ROWS, PrivotError, require_count, require_seed
from privot.core.files import recover_folder, replacing_folder, write_file
from privot.core.summary import Summarized
from privot.privacy import ApproximateDP, DistributedDP, IntegralPrivacy, PureDP
from privot.schema import Schema
from privot.schema.sampling import completed, split_where

__all__ = [
    "NO_CHECKPOINT",
    "Checkpoint",
    "Guarantee",
    "History",
    "Learned",
    "Model",
    "ModelKind",
    "Stored",
    "load",
]

Array = NDArray[Any]
# Errors of damaged files; PrivotError is a ValueError.
_DAMAGE = (OSError, KeyError, TypeError, ValueError, RuntimeError, SafetensorError, ArrowException)
Where = Mapping[str, Any]  # condition on records, by column; see `Model.sample`
_DESCRIPTION = "model.json"
WEIGHTS, HISTORY = "weights.safetensors", "history.parquet"
# All files that a model's folder may contain; `load` does not read the report.
FILES = (_DESCRIPTION, WEIGHTS, HISTORY, "report.html")


@dataclass(frozen=True)
class ModelKind:
    """Kind of model, and the format of its folder.

    Arguments:
        name: Package that defines the kind, with a dotted suffix if the package has several kinds.
        format: Version of the folder's format; the library reads only this version.
        command: Command that writes folders of this kind, for error messages.

    Examples:
        >>> ModelKind("local", 3, "privot fit").command
        'privot fit'
    """

    name: str
    format: int
    command: str

    def seal(self, folder: Path, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Write `model.json` into a folder that has all other files; return its content."""
        header = {"format": self.format, "kind": self.name, "privot": privot.__version__}
        files = {file.name: _digest(file) for file in sorted(folder.iterdir())}
        text = _sealed(header | dict(fields) | {"files": files})
        (folder / _DESCRIPTION).write_bytes(text)
        return dict(json.loads(text))

    def read(self, folder: Path) -> dict[str, Any]:
        """Read `model.json` of a folder, and compare all files with the seal.

        Raises:
            PrivotError: if a file is missing or damaged, or the kind or format is another.
        """
        try:
            text = (folder / _DESCRIPTION).read_bytes()
            fields = json.loads(text)
            kind, version = fields.get("kind"), fields.get("format")
        except (OSError, ValueError, AttributeError) as error:
            raise PrivotError(
                f"model {folder} cannot be read ({error}): give the folder that `{self.command}` wrote"
            ) from None
        if kind != self.name:
            raise PrivotError(
                f"model {folder} has kind {kind!r}, this reads kind {self.name!r}: give the folder "
                f"that `{self.command}` wrote"
            )
        if version != self.format:
            raise PrivotError(
                f"model {folder} has format {version}, this version of privot reads format "
                f"{self.format}: read it with the version that wrote it"
            )
        damage = _find_damage(folder, fields, text)
        if damage is not None:
            raise self.damage_error(folder, damage)
        return dict(fields)

    def damage_error(self, folder: Path, reason: str) -> PrivotError:
        """Return the error for a damaged folder."""
        return PrivotError(
            f"model {folder} is damaged ({reason}): copy it again, or make it again by `{self.command}`"
        )


def kind_of(folder: Path) -> str | None:
    """Return the kind that `model.json` names; None if it names none or cannot be read."""
    try:
        kind = json.loads((folder / _DESCRIPTION).read_text(encoding="utf-8")).get("kind")
    except (OSError, ValueError, AttributeError):
        return None
    return str(kind)


def _find_damage(folder: Path, fields: dict[str, Any], text: bytes) -> str | None:
    """Describe the first difference of a folder's files from its seal; None if they agree."""
    # The text is compared, not the values, to detect changed bytes between values as well.
    if _sealed({name: value for name, value in fields.items() if name != "seal"}) != text:
        return f"{_DESCRIPTION} was changed"
    for name, digest in fields["files"].items():
        try:
            if _digest(folder / name) != digest:
                return f"{name} was changed"
        except OSError as error:
            return f"{name} cannot be read: {error.strerror}"
    return None


def _sealed(fields: dict[str, Any]) -> bytes:
    """Return the text of `model.json`: the fields, and the SHA-256 of their text as the last one."""
    plain = json.dumps(fields, indent=2, ensure_ascii=False)
    seal = hashlib.sha256(plain.encode(errors="surrogatepass")).hexdigest()
    text = json.dumps(fields | {"seal": seal}, indent=2, ensure_ascii=False)
    return (text + "\n").encode(errors="surrogatepass")


def _digest(file: Path) -> str:
    with open(file, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


_SECONDS_BETWEEN_SAVES = 30.0


class Checkpoint:
    """File with the state of a run.

    Arguments:
        path: Path of the file; None for a run that saves no state.
        identity: JSON values that identify the run (settings, a hash of the data).
        resume: Whether to continue from the file if it exists.

    Examples:
        >>> checkpoint = Checkpoint(None, {"seed": 0}, resume=False)
        >>> checkpoint.load() is None, checkpoint.of({"steps": 10}).identity
        (True, {'seed': 0, 'steps': 10})
    """

    def __init__(self, path: str | Path | None, identity: Mapping[str, Any], resume: bool) -> None:
        self.path = None if path is None else Path(path)
        self.resume = resume
        self.identity = json.loads(json.dumps(identity))  # lists for tuples, as `load` reads it
        self._saved = time.perf_counter()

    def of(self, identity: Mapping[str, Any]) -> "Checkpoint":
        """Return a checkpoint in the same file, with further values in its identity."""
        return Checkpoint(self.path, self.identity | identity, self.resume)

    @property
    def due(self) -> bool:
        """True if half a minute has passed since the state was saved last."""
        return time.perf_counter() - self._saved > _SECONDS_BETWEEN_SAVES

    def save(self, state: Mapping[str, Array]) -> None:
        """Write the state, if the checkpoint has a path; if writing fails, the old file stays."""
        if self.path is None:
            return
        arrays = {name: np.asarray(array, order="C") for name, array in state.items()}
        metadata = {"identity": json.dumps(self.identity, sort_keys=True)}
        write_file(self.path, safetensors.numpy.save(arrays, metadata), secret=True)
        self._saved = time.perf_counter()

    def load(self) -> dict[str, Array] | None:
        """Return the state to continue from; None for a new run.

        Raises:
            PrivotError: if the file cannot be read, or belongs to another run.
        """
        if self.path is None or not self.resume or not self.path.exists():
            return None
        try:
            with safe_open(self.path, framework="np") as file:
                saved = json.loads(file.metadata()["identity"])
                state = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (a handle, not a dict)
        except (OSError, KeyError, TypeError, ValueError, SafetensorError) as error:
            raise PrivotError(
                f"checkpoint {self.path} cannot be read ({error}): restore it, or remove it to start "
                "again; what a ledger counted stays spent"
            ) from None
        before, now = dict(_leaves(saved)), dict(_leaves(self.identity))
        for key in sorted(before.keys() | now.keys()):
            if before.get(key) != now.get(key):
                raise PrivotError(
                    f"checkpoint {self.path} was made with {key} {before.get(key)!r}, this run has "
                    f"{now.get(key)!r}: resume with the same arguments, or start without --resume"
                )
        return state


NO_CHECKPOINT = Checkpoint(None, {}, False)  # for runs that save no state


def _leaves(fields: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of nested dictionaries, each with its dotted name."""
    if isinstance(fields, dict):
        for key, value in fields.items():
            yield from _leaves(value, f"{name}.{key}" if name else key)
    else:
        yield name, fields


Guarantee = PureDP | ApproximateDP | DistributedDP | IntegralPrivacy
HISTORY_COLUMNS = ("step", "loss", "learning_rate", "marginal_error", "seconds")


@dataclass
class History:
    """History of a training run.

    Arguments:
        rows: Step, mean loss since the last row, learning rate, mean marginal error, seconds so far.

    Examples:
        >>> history = History([(100, 0.5, 0.001, 0.0, 2.5), (200, 0.25, 0.0, 0.0, 5.0)])
        >>> history["loss"].tolist(), history.totals()
        ([0.5, 0.25], {'steps': 200, 'seconds': 5.0})
    """

    rows: list[tuple[float, ...]] = field(default_factory=list)

    def __getitem__(self, column: str) -> np.ndarray:
        """Return one column as an array."""
        return np.array([row[HISTORY_COLUMNS.index(column)] for row in self.rows])

    def totals(self) -> dict[str, float]:
        """Return the number of steps, and the duration in seconds."""
        last = self.rows[-1] if self.rows else (0.0,) * len(HISTORY_COLUMNS)
        return {"steps": int(last[0]), "seconds": last[HISTORY_COLUMNS.index("seconds")]}

    def save(self, path: Path) -> None:
        """Write `history.parquet`."""
        pq.write_table(pa.table({name: self[name] for name in HISTORY_COLUMNS}), path)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read `history.parquet`."""
        table = pq.read_table(path)
        columns = [table.column(name).to_pylist() for name in HISTORY_COLUMNS]
        return cls(list(zip(*columns, strict=True)))


@dataclass(frozen=True)
class Stored:
    """Contents of a model's folder.

    Arguments:
        fields: Fields of `model.json`.
        arrays: Arrays by name.
        history: History of the training, if there was any.

    Examples:
        >>> Stored({"kind": "local"}, arrays={}, history=None).fields["kind"]
        'local'
    """

    fields: dict[str, Any]
    arrays: dict[str, Array]
    history: History | None


class Component(ABC):
    """Part of a model that its folder stores: a law, a sampler of records, or a drift over time."""

    kind: ClassVar[str]

    def fields(self) -> dict[str, Any]:
        """Return the plain values that `build` needs in addition to the arrays."""
        return {}

    @abstractmethod
    def arrays(self) -> Mapping[str, Array]:
        """Return the parameters as arrays by name."""

    @classmethod
    @abstractmethod
    def build(cls, context: Any, fields: Mapping[str, Any], arrays: Mapping[str, Array], /) -> Self:
        """Restore it from its fields and arrays, and the map, randomizer or sampler it depends on."""


class Sums(Summarized, Sized, ABC):
    """Noisy sums of records, from which `privot.fit` learns a model."""

    @abstractmethod
    def learn(self, seed: int) -> "Model":
        """Learn a model; `seed` determines the random draws of the estimator."""


class Learned(Summarized, ABC):
    """Base class of what is learned from private records, with a guarantee and a folder on disk.

    A subclass that sets `kind` is registered for [`load`][privot.models.load].
    """

    kind: ClassVar[ModelKind]
    publishable: ClassVar[bool] = True  # if False, only the owner may read the folder
    history: History | None = None  # None unless it was trained by steps in one stage

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "kind" in cls.__dict__:
            KINDS[cls.kind.name] = cls

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """Guarantee for the people from whose records it was learned."""

    def summary(self) -> dict[str, object]:
        """Return facts by name (see `Summarized`)."""
        return {"guarantee": self.guarantee}

    @abstractmethod
    def fields(self) -> dict[str, Any]:
        """Return the JSON values for `model.json`: parameters, and facts about the fit."""

    @abstractmethod
    def arrays(self) -> Mapping[str, Array]:
        """Return the arrays for `weights.safetensors` by name."""

    @classmethod
    @abstractmethod
    def build(cls, stored: Stored) -> Self:
        """Build the model from the stored values of `fields` and `arrays`."""

    def save(self, path: str | Path) -> None:
        """Write the model's folder; if writing fails, an existing folder stays."""
        guarantee = {
            "publishable": self.publishable,
            "guarantee": self.guarantee.to_dict(),
            "in_words": self.guarantee.describe(),
        }
        fields = guarantee | self.fields()
        with replacing_folder(path, secret=not self.publishable) as folder:
            weights = {name: np.asarray(array, order="C") for name, array in self.arrays().items()}
            (folder / WEIGHTS).write_bytes(safetensors.numpy.save(weights))
            if self.history is not None:
                self.history.save(folder / HISTORY)
            self.kind.seal(folder, fields)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a model's folder.

        Raises:
            PrivotError: if the folder is missing or damaged, or has another kind or format.
        """
        with cls.stored(path) as stored:
            return cls.build(stored)

    @classmethod
    @contextmanager
    def stored(cls, path: str | Path) -> Iterator[Stored]:
        """Yield the contents of a folder of this kind; report errors of the block as damage."""
        path = Path(path)
        recover_folder(path)
        fields = cls.kind.read(path)
        try:
            trained = HISTORY in fields["files"]
            arrays = safetensors.numpy.load_file(path / WEIGHTS)
            yield Stored(fields, arrays, History.load(path / HISTORY) if trained else None)
        except _DAMAGE as error:
            raise cls.kind.damage_error(path, str(error).splitlines()[0]) from None


class Model(Learned):
    """Distribution of records learned from private records; every fit returns one.

    `sample`, `save`, `guarantee` and `schema` have the same meaning for all estimators.
    """

    @property
    @abstractmethod
    def schema(self) -> Schema:
        """Schema of the records."""

    def summary(self) -> dict[str, object]:
        """Return facts by name (see `Summarized`)."""
        return self.schema.summary() | super().summary()

    @abstractmethod
    def draw(self, num_rows: int, rng: np.random.Generator, where: Where) -> Iterator[pa.Table]:
        """Yield tables with `num_rows` records in total; `sample` has validated the arguments."""

    def sample(
        self, num_rows: int, seed: int | None = None, where: Where | None = None
    ) -> pa.Table:
        """Draw synthetic records, as a table with the schema's columns.

        Arguments:
            num_rows: Number of records.
            seed: Seed of the draw; by default, every call draws new records.
            where: Condition on the records, by column: a category, True or False, None for missing, a
                number or date (for its bin), a bin's label, a range `"30..40"`, or a list of these.

        Raises:
            PrivotError: if `num_rows` is negative, or the condition has probability 0.

        Examples:
            `model.sample(1000, where={"sex": "F", "age": [20, "25 to 32"]})`
        """
        return pa.concat_tables(self.pieces(num_rows, seed, where))

    def pieces(
        self, num_rows: int, seed: int | None = None, where: Where | None = None
    ) -> Iterator[pa.Table]:
        """Yield the records of `sample` as several tables, so that memory holds one at a time."""
        num_rows = require_count("num_rows", num_rows, MOST_ROWS, least=0)
        entropy = np.random.SeedSequence(None if seed is None else require_seed(seed))
        rng, identifier_rng = map(np.random.default_rng, entropy.spawn(2))
        condition, rules = split_where(self.schema, where or {})
        draw = partial(self.draw, rng=rng, where=condition)
        return completed(self.schema, draw, num_rows, identifier_rng, rules)


KINDS: dict[str, type[Any]] = {}  # subclasses of `Learned` by the name of their kind


def load(path: str | Path) -> Learned:
    """Load a model of any kind from its folder.

    Packages of privot are imported on demand. Other kinds are known once their module is imported.

    Raises:
        PrivotError: if the folder is missing or damaged, has no model, or another version's format.

    Examples:
        >>> load("nowhere")
        Traceback (most recent call last):
            ...
        privot.core.errors.PrivotError: model nowhere cannot be read (no such folder): ...
    """
    path = Path(path)
    recover_folder(path)
    if not path.is_dir():
        raise PrivotError(
            f"model {path} cannot be read (no such folder): give the folder that `privot fit`, or "
            "another fit, wrote"
        )
    kind = kind_of(path) or ""
    # The name comes from a file: only letters, so neither a path nor `__main__` is imported.
    package = re.match(r"[a-z]+(?=\.|$)", kind)
    if kind not in KINDS and package and find_spec(f"privot.{package[0]}"):
        module = importlib.import_module(f"privot.{package[0]}")
        name = getattr(module, "MODEL_CLASSES", {}).get(kind)
        if name is not None:
            getattr(module, name)  # imports the module that defines the class
    if kind not in KINDS:
        raise PrivotError(
            f"{path} holds no model (kind {kind or None!r}): give the folder that `privot fit`, or "
            "another fit, wrote"
        )
    model: Learned = KINDS[kind].load(path)
    return model
