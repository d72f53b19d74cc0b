"""Public image data sets: MNIST, Fashion-MNIST, USPS; where they come from, and how to read them.

| name | images | source |
|---|---|---|
| mnist | 60 000 + 10 000, 28 × 28 | LeCun, Cortes, Burges; copies kept for PyTorch and TensorFlow |
| fashion_mnist | 60 000 + 10 000, 28 × 28 | Xiao, Rasul, Vollgraf (Zalando), MIT license |
| usps | 7 291 + 2 007, 16 × 16 | Hastie, Tibshirani, Friedman, *Elements of statistical learning* |

A folder holds, for each of them, either `NAME.npz` (arrays `x_train`, `y_train`, `x_test`, `y_test` of
bytes) or a folder `NAME` with the publisher's own files, compressed or not. Which one it was makes no
difference: the known checksums are SHA-256 sums of the *values*, one byte a pixel or label in row-major
order. (The publishers' own sums cover compressed files, which mirrors compress again.) No record of
these sets is private; in experiments they stand in for records that would be.

The **IDX format** of MNIST: two zero bytes, a type (8: unsigned bytes), the number of axes, one
big-endian 32-bit size for each axis, then the values in row-major order.

References:
    LeCun, Cortes, Burges, *The MNIST database of handwritten digits* (1998), file formats.
"""

from __future__ import annotations

import gzip
import hashlib
import math
import os
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from privot.errors import PrivotError

PARTS = ("x_train", "y_train", "x_test", "y_test")
_IDX = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
IDX_FILES = tuple(f"{stem}-ubyte.gz" for stem in _IDX)
ZIP_CODE_FILES = ("zip.train.gz", "zip.test.gz")
_IDX_OF_BYTES, _MOST_AXES = b"\0\0\x08", 4


@dataclass(frozen=True)
class LabeledImages:
    """Gray images (n, height, width) of bytes with labels (n,): to learn from, and held out.

    Examples:
        >>> shapes = (2, 4, 4), 2, (1, 4, 4), 1
        >>> dots = LabeledImages("dots", *(np.zeros(shape, np.uint8) for shape in shapes))
        >>> dots.x_train.shape, len(dots.checksums())
        ((2, 4, 4), 4)
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


@dataclass(frozen=True)
class Source:
    """One data set: where its files are, what they are called, what they hold.

    Arguments:
        name: What users call it; also the name of its folder, and of its npz file.
        addresses: Folders on the web that hold all of its files; tried in turn.
        files: Names of the files.
        checksums: SHA-256 of the values of `x_train`, `y_train`, `x_test`, `y_test`.
    """

    name: str
    addresses: tuple[str, ...]
    files: tuple[str, ...]
    checksums: tuple[str, ...]

    def found(self, folder: Path) -> list[Path]:
        """The publisher's files in `folder/NAME`, compressed or not; fewer if some are missing."""
        whole = [folder / self.name / file for file in self.files]
        pairs = [
            [path for path in (file, file.with_suffix("")) if path.is_file()] for file in whole
        ]
        return [pair[0] for pair in pairs if pair]

    def read(self, folder: Path) -> LabeledImages:
        """The images in `folder`, of which no pixel and no label was changed.

        Raises:
            PrivotError: if the files are missing, damaged, or not what was published.
        """
        archive = folder / f"{self.name}.npz"
        arrays = _read_npz(archive) if archive.is_file() else self._read_files(folder)
        images = LabeledImages(self.name, *arrays)
        for part, sum_, known in zip(PARTS, images.checksums(), self.checksums, strict=True):
            if sum_ != known:
                raise PrivotError(
                    f"{part} of {self.name} in {folder} has checksum {sum_[:12]}…, not {known[:12]}…: "
                    f"remove the file and run `privot datasets fetch {self.name} --to {folder}`"
                )
        return images

    def _read_files(self, folder: Path) -> list[np.ndarray]:
        files = self.found(folder)
        if len(files) < len(self.files):
            raise PrivotError(
                f"{folder} has neither {self.name}.npz nor {self.name}/ with "
                f"{', '.join(self.files)}: run `privot datasets fetch {self.name} --to {folder}`"
            )
        if self.files == IDX_FILES:
            return [read_idx(path) for path in files]
        return [array for path in files for array in _read_zip_codes(path)]


SOURCES = {
    source.name: source
    for source in (
        Source(
            "mnist",
            (
                "https://ossci-datasets.s3.amazonaws.com/mnist/",
                "https://storage.googleapis.com/cvdf-datasets/mnist/",
            ),
            IDX_FILES,
            (
                "741c988805d008ac6e4c904b69001ba184c24b2c540a4ef403f4c71b676cf757",
                "1feba77c54802fa5339a11837ea4b2866434b83314ec45192930f1df69120c13",
                "6d87418db22cc8025d05968bec9bd5c3932904b23485740db143a061a2c9d161",
                "ddeff807876a9661a1110d45c266c86239a3a1b7d37da0c3716a7a683c852ff5",
            ),
        ),
        Source(
            "fashion_mnist",
            (
                "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
                "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
            ),
            IDX_FILES,
            (
                "2e487a6c89124f78f2d7521542223cafe96f7123c3ca13d447772ac6ecbb3012",
                "657fbd221bfc9f4198cc14b5619cc33ec57c58dd0e47af4d99d6650759e869a7",
                "c867c93ff95360594e8ec3287995350b824dd110b11595c0e13d5423f621867a",
                "3d0e6c6ea990b53b6f8f500a41cac93881d981b315f84578b7d915342ade01e9",
            ),
        ),
        Source(
            "usps",
            ("https://hastie.su.domains/ElemStatLearn/datasets/",),
            ZIP_CODE_FILES,
            (
                "2f7c143ae36230217969192bdf6cf789ab7d6b192094d8469106db85e5f32496",
                "ee5027fd47b76715ac18ca27e72fa1332bde98e0b8ce593b503bb2bdb6c03da0",
                "0d676bfeece8e58939a4cf88aa0de0b720c60556b6ab1d02e37e9c1ca07b758b",
                "0b8b792b8ca1c5c704fd9d5bbd1b261623a359e6c8c65b23db428257beea7800",
            ),
        ),
    )
}


def find_source(name: str) -> Source:
    """The data set of that name; a `PrivotError` if there is none."""
    if name not in SOURCES:
        raise PrivotError(f"dataset {name!r} is not known: use one of {', '.join(SOURCES)}")
    return SOURCES[name]


def load_images(name: str, folder: str | Path | None = None) -> LabeledImages:
    """The data set `name` from `folder`, by default the one that PRIVOT_DATA names.

    Arguments:
        name: `"mnist"`, `"fashion_mnist"` or `"usps"`.
        folder: Holds `name.npz`, or the publisher's files in a folder `name`.

    Raises:
        PrivotError: if the files are missing, damaged, or not what they should be.
    """
    source = find_source(name)
    chosen = folder if folder is not None else os.environ.get("PRIVOT_DATA")
    if chosen is None:
        raise PrivotError(
            f"no folder holds {name}: run `privot datasets fetch {name} --to DIR`, then give DIR "
            "(--data DIR, or the environment variable PRIVOT_DATA)"
        )
    return source.read(Path(chosen))


def read_idx(path: Path) -> np.ndarray:
    """The array of unsigned bytes in an IDX file whose name ends with `.gz` or not."""
    content = _read_bytes(path)
    if len(content) < 4 or content[:3] != _IDX_OF_BYTES:
        raise PrivotError(f"{path} is no IDX file of unsigned bytes: fetch it again")
    start = 4 + 4 * content[3]
    if not 1 <= content[3] <= _MOST_AXES or len(content) < start:
        raise PrivotError(f"{path} has a damaged IDX header: fetch it again")
    shape = np.frombuffer(content[4:start], ">u4").tolist()
    if len(content) - start != math.prod(shape):
        raise PrivotError(
            f"{path} holds {len(content) - start} values where its header says {math.prod(shape)}: "
            "fetch it again"
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def _read_bytes(path: Path) -> bytes:
    """The content of a file, uncompressed if its name ends with `.gz`."""
    raw = path.read_bytes()
    try:
        return gzip.decompress(raw) if path.suffix == ".gz" else raw
    except (OSError, EOFError, zlib.error) as error:
        raise PrivotError(f"{path} is not a whole gzip file ({error}): fetch it again") from error


def _read_npz(path: Path) -> list[np.ndarray]:
    try:
        with np.load(path, allow_pickle=False) as file:
            return [file[part] for part in PARTS]
    except (KeyError, ValueError, OSError, zipfile.BadZipFile) as error:
        raise PrivotError(
            f"{path} is no archive of {', '.join(PARTS)} ({error}): remove or replace it"
        ) from error


def _read_zip_codes(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """USPS digits: a line is a label and 256 gray values in [−1, 1]; bytes are 255 (value + 1)/2."""
    try:
        lines = [line.split() for line in _read_bytes(path).split(b"\n") if line.strip()]
        rows = np.array(lines, float)
        labels, gray = rows[:, 0].astype(np.uint8), rows[:, 1:].reshape(-1, 16, 16)
    except (ValueError, IndexError) as error:
        raise PrivotError(
            f"{path} is no file of zip code digits ({error}): fetch it again"
        ) from error
    # Published with three decimals: whole thousandths first, so that halves round one way.
    thousandths = np.rint(1000 * gray).astype(np.int64)
    return ((255 * (thousandths + 1000) + 1000) // 2000).astype(np.uint8), labels
