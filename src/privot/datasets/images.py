"""Public image data sets from a folder: MNIST, Fashion-MNIST, USPS.

A folder holds, for each data set, either `NAME.npz` (arrays `x_train`, `y_train`, `x_test`, `y_test` of
bytes) or a folder `NAME` with the publisher's own files. Which one it was makes no difference: the
values are checked against known sums. No record of these sets is private; in experiments they stand
in for records that would be.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from privot.datasets.idx import read_bytes, read_idx
from privot.datasets.sources import IDX_FILES, PARTS, Source, find_source
from privot.errors import PrivotError


@dataclass(frozen=True)
class LabeledImages:
    """Gray images (n, height, width) of bytes with labels (n,), in two parts.

    Arguments:
        name: Of the data set.
        x_train: Images to learn from.
        y_train: Their labels.
        x_test: Images held out.
        y_test: Their labels.
    """

    name: str
    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray

    def checksums(self) -> tuple[str, ...]:
        """SHA-256 of the values of each part."""
        parts = (np.ascontiguousarray(getattr(self, part)) for part in PARTS)
        return tuple(hashlib.sha256(array.tobytes()).hexdigest() for array in parts)


def load_images(
    name: str, folder: str | Path | None = None, *, check: bool = True
) -> LabeledImages:
    """The data set `name` from `folder`, by default the one that PRIVOT_DATA names.

    Arguments:
        name: `"mnist"`, `"fashion_mnist"` or `"usps"`.
        folder: Holds `name.npz`, or the publisher's files in a folder `name`.
        check: Whether the values must have the known checksums; False for made-up stand-ins.

    Raises:
        PrivotError: if the files are missing, damaged, or not what they should be.
    """
    source = find_source(name)
    place = _folder(name, folder)
    images = read_source(source, place)
    if check:
        require_whole(images, source, place)
    return images


def require_whole(images: LabeledImages, source: Source, place: Path) -> None:
    """Refuse values that are not those of the published data set."""
    for part, found, known in zip(PARTS, images.checksums(), source.checksums, strict=True):
        if found != known:
            raise PrivotError(
                f"{part} of {source.name} in {place} has checksum {found[:12]}…, not {known[:12]}…: "
                f"remove the file and run `privot datasets fetch {source.name} --to {place}`"
            )


def find_files(source: Source, folder: Path) -> list[Path]:
    """The publisher's files in `folder/NAME`, compressed or not; fewer if some are missing."""
    found = []
    for file in source.files:
        whole = folder / source.name / file
        found += [path for path in (whole, whole.with_suffix("")) if path.is_file()][:1]
    return found


def _folder(name: str, folder: str | Path | None) -> Path:
    chosen = folder if folder is not None else os.environ.get("PRIVOT_DATA")
    if chosen is None:
        raise PrivotError(
            f"no folder holds {name}: run `privot datasets fetch {name} --to DIR`, then give DIR "
            "(--data DIR, or the environment variable PRIVOT_DATA)"
        )
    return Path(chosen)


def read_source(source: Source, folder: Path) -> LabeledImages:
    """The images of `source` in `folder`, whatever they are.

    Raises:
        PrivotError: if files are missing or damaged.
    """
    archive = folder / f"{source.name}.npz"
    if archive.is_file():
        return LabeledImages(source.name, *_read_npz(archive))
    files = find_files(source, folder)
    if len(files) < len(source.files):
        raise PrivotError(
            f"{folder} has neither {archive.name} nor {source.name}/ with "
            f"{', '.join(source.files)}: run `privot datasets fetch {source.name} --to {folder}`"
        )
    if source.files == IDX_FILES:
        return LabeledImages(source.name, *(read_idx(path) for path in files))
    (x_train, y_train), (x_test, y_test) = (read_zip_codes(path) for path in files)
    return LabeledImages(source.name, x_train, y_train, x_test, y_test)


def _read_npz(path: Path) -> list[np.ndarray]:
    try:
        with np.load(path, allow_pickle=False) as file:
            return [file[part] for part in PARTS]
    except (KeyError, ValueError, OSError, zipfile.BadZipFile) as error:
        raise PrivotError(
            f"{path} is no archive of {', '.join(PARTS)} ({error}): remove or replace it"
        ) from error


def read_zip_codes(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """USPS digits: a line is a label and 256 gray values in [−1, 1]; bytes are 255 (value + 1)/2.

    Raises:
        PrivotError: if a line has another number of values.
    """
    try:
        rows = np.array(
            [line.split() for line in read_bytes(path).split(b"\n") if line.strip()], float
        )
        labels, gray = rows[:, 0].astype(np.uint8), rows[:, 1:].reshape(-1, 16, 16)
    except (ValueError, IndexError) as error:
        raise PrivotError(
            f"{path} is no file of zip code digits ({error}): fetch it again"
        ) from error
    # Published with three decimals: whole thousandths first, so that halves round one way.
    thousandths = np.rint(1000 * gray).astype(np.int64)
    return ((255 * (thousandths + 1000) + 1000) // 2000).astype(np.uint8), labels
