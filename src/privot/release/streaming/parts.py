"""Reports that are not published yet: kept part by part, so that a killed run goes on where it was.

**The protocol.** Part k holds the reports of records k·R to (k+1)·R − 1 of the source. All parts are
written in `<output>.unfinished`, and nobody is given anything before `<output>` appears by one rename,
when all parts are there. A part is written as a draft, flushed to the disk, and linked to its name,
which fails if the name exists. So

* a part that has its name is whole and is never written again: a resumed run passes over its records,
  and of two runs at once only one can write a part;
* a part without its name may have left a draft. Its noise left nobody's hands: the draft is deleted,
  and the records are noised afresh. **Whoever copied a draft meanwhile holds a second report of the same
  people**, which is why a resumed run says how many it deleted.

**Privacy review.** Parts are in the order of the records, and their manifest has a hash over the names,
sizes and times of the raw files: the folder belongs to whoever holds the raw records, is readable by its
owner only like every file in it, and is deleted when the output is there.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from privot.errors import PrivotError
from privot.files import beside, cannot_write, create, flush, replacing_file

_FORMAT = 1
_MANIFEST = "unfinished.json"
# What a run that goes on has in common with the one that began it.
_SAME = {
    "format": "another version of privot",
    "randomizer": "another randomizer",
    "source": "other records, or their files changed since",
    "part_rows": "another --shard-rows",
    "buckets": "another --shard-rows",
}
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EOPNOTSUPP)

# What to do with what a stopped run has left.
Left = Literal["refuse", "resume", "discard"]


@dataclass(frozen=True)
class Parts:
    """The parts of a run.

    Arguments:
        folder: Where they are.
        part_rows: Records a part.
        buckets: Into how many random buckets each part is dealt (`privot.release.streaming.publishing`).
        deleted_drafts: How many drafts of a killed run were deleted.
    """

    folder: Path
    part_rows: int
    buckets: int
    deleted_drafts: int = 0

    @classmethod
    def begin(
        cls,
        output: Path,
        part_rows: int,
        buckets: int,
        randomizer: str,
        identity: dict[str, Any] | None,
        left: Left,
    ) -> Self:
        """Start a run, or continue one that was killed.

        Arguments:
            output: What it is to write.
            part_rows: Records a part.
            buckets: Buckets a part.
            randomizer: Its JSON.
            identity: What tells that the source is unchanged; None if nothing does.
            left: What to do with parts of a killed run.
        """
        folder = unfinished(output)
        if left == "discard":
            discard(folder)
        _require_fresh(output, folder, left == "resume")
        made_with = {
            "format": _FORMAT,
            "part_rows": part_rows,
            "buckets": buckets,
            "randomizer": _hash(randomizer),
            "source": None if identity is None else _hash(json.dumps(identity, sort_keys=True)),
        }
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            drafts = list(folder.glob(".part-*.draft"))
            for trash in [*output.parent.glob(f".{output.name}.*.draft"), *drafts]:
                _remove(trash)
            # Parts without a manifest are what a removal left that was killed: of records unknown.
            if (folder / _MANIFEST).exists() or any(folder.glob("part-*.arrow")):
                _require_same_run(folder, made_with)
            else:
                with replacing_file(folder / _MANIFEST, secret=True) as draft:
                    draft.write_text(json.dumps(made_with, indent=2) + "\n", encoding="utf-8")
        except OSError as error:
            raise cannot_write(output, error) from error
        return cls(folder, part_rows, buckets, len(drafts))

    def path(self, number: int) -> Path:
        """Where a part is."""
        return self.folder / f"part-{number:06d}.arrow"

    def done(self) -> set[int]:
        """Numbers of the parts that are whole."""
        names = (re.fullmatch(r"part-(\d+)\.arrow", file.name) for file in self.folder.iterdir())
        return {int(name[1]) for name in names if name}

    def publish(self, number: int, write: Callable[[Path], int]) -> int:
        """Let `write` fill a draft and return its rows, then give it the part's name, for good."""
        path = self.path(number)
        draft = beside(path)
        try:
            create(draft, secret=True)
            rows = write(draft)
            flush(draft)
            _link(draft, path)
        except FileExistsError:
            raise PrivotError(
                f"{path} was written by another run at the same time, so these reports were thrown "
                "away: let one run write an output"
            ) from None
        except OSError as error:
            raise cannot_write(path, error) from error
        finally:
            draft.unlink(missing_ok=True)
        return rows

    def whole(self) -> list[Path]:
        """All parts in order, if none is missing."""
        numbers = sorted(self.done())
        if not numbers or numbers != list(range(len(numbers))):
            raise PrivotError(f"{self.folder} lacks parts: run again with --resume")
        return [self.path(number) for number in numbers]

    def remove(self) -> None:
        """Delete them: all is published, or nothing is to be."""
        discard(self.folder)


def discard(folder: Path) -> None:
    """Delete parts, all of them at once for whoever looks for them."""
    trash = beside(folder)
    with suppress(FileNotFoundError):
        os.rename(folder, trash)
    shutil.rmtree(trash, ignore_errors=True)


def unfinished(output: Path) -> Path:
    """The folder of the parts of `output`."""
    return output.with_name(output.name + ".unfinished")


def _require_fresh(output: Path, folder: Path, resume: bool) -> None:
    if output.exists():
        if resume and folder.exists():  # killed after the last rename
            shutil.rmtree(folder)
            raise PrivotError(f"{output} was finished already: there is nothing to resume")
        raise PrivotError(
            f"{output} exists: to noise the same records again would spend their budget twice; "
            "if these are other records, give another -o, or remove it"
        )
    if folder.exists() and not resume:
        raise left_behind(folder)


def left_behind(folder: Path) -> PrivotError:
    """What to raise where a run was stopped, and another begins."""
    return PrivotError(
        f"{folder} is left from a run that was stopped: continue it with --resume; to start again, "
        "--discard it, but of whoever's report somebody was given meanwhile, the budget is spent twice"
    )


def _require_same_run(folder: Path, now: dict[str, Any]) -> None:
    try:
        left = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise PrivotError(f"{folder} is damaged: remove it, and start again") from None
    if now["source"] is None:
        raise PrivotError(
            f"{folder} cannot be continued: its records came in an order that does not come back; "
            "remove it, and start again"
        )
    for key, words in _SAME.items():
        if left.get(key) != now[key]:
            raise PrivotError(
                f"{folder} was begun with {words}: resume with the same, or remove it and start again"
            )


def _link(draft: Path, path: Path) -> None:
    """Give a file its name unless the name is taken."""
    try:
        os.link(draft, path)
    except OSError as error:
        # Some network file systems have no links; a rename would replace, so look first.
        if error.errno not in _NO_LINKS:
            raise
        if path.exists():
            raise FileExistsError(path) from None
        os.rename(draft, path)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
