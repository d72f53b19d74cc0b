"""Read and fetch public data sets of images: MNIST, Fashion-MNIST and USPS.

| name | images | source |
|---|---|---|
| mnist | 60 000 + 10 000, 28 × 28 | LeCun, Cortes, Burges; copies for PyTorch and TensorFlow |
| fashion_mnist | 60 000 + 10 000, 28 × 28 | Xiao, Rasul, Vollgraf (Zalando), MIT license |
| usps | 7 291 + 2 007, 16 × 16 | Hastie, Tibshirani, Friedman, *Elements of statistical learning* |

A folder of data sets contains, for each of them, `NAME.npz` (arrays `x_train`, `y_train`, `x_test`,
`y_test` of bytes) or a folder `NAME` with the publisher's files, compressed or not. Both are verified by
SHA-256 checksums of the *values*, one byte per pixel or label in row-major order. (The publishers'
checksums are of compressed files, which mirrors may compress differently.) No record of these sets is
private; in experiments they take the place of private records.

The **IDX format** of MNIST: two zero bytes, a type (8: unsigned bytes), the number of axes, one
big-endian 32-bit size for each axis, then the values in row-major order.

**Fetching** (`fetch`) resumes interrupted downloads: only missing bytes are requested (by HTTP Range; a
server without ranges sends the whole file again). If the values do not have the known checksums, the
files that were fetched are removed, so that the next attempt starts anew; older files stay.

References:
    LeCun, Cortes, Burges, *The MNIST database of handwritten digits* (1998), file formats.
"""

import gzip
import hashlib
import http.client
import math
import os
import urllib.error
import urllib.parse
import urllib.request
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from privot.core.errors import PrivotError
from privot.core.files import cannot_write
from privot.tables.files import read_arrays

PARTS = ("x_train", "y_train", "x_test", "y_test")
_IDX = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
IDX_FILES = tuple(f"{stem}-ubyte.gz" for stem in _IDX)
ZIP_CODE_FILES = ("zip.train.gz", "zip.test.gz")
_IDX_OF_BYTES, _MOST_AXES = b"\0\0\x08", 4  # start of an IDX file of bytes, most axes of its array
_BLOCK, _SECONDS = 2**16, 30.0  # of a download: bytes read at once, timeout of a connection
_PARTIAL, _PAST_THE_END = 206, 416  # HTTP status codes


@dataclass(frozen=True)
class LabeledImages:
    """Gray images (n, height, width) of bytes and their labels (n,), for training and for tests."""

    name: str
    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray

    def checksums(self) -> tuple[str, ...]:
        """Return the SHA-256 of the values of each part."""
        parts = (np.ascontiguousarray(getattr(self, part)) for part in PARTS)
        return tuple(hashlib.sha256(array.tobytes()).hexdigest() for array in parts)


@dataclass(frozen=True)
class Source:
    """Source of one data set: addresses, names and checksums of its files."""

    name: str  # of the data set, of its folder, and of its npz file
    addresses: tuple[str, ...]  # URLs of folders that contain all files; tried in this order
    files: tuple[str, ...]
    checksums: tuple[str, ...]  # SHA-256 of the values of `PARTS`

    def found(self, folder: Path) -> list[Path]:
        """Return the publisher's files that exist in `folder/NAME`, compressed or not."""
        compressed = [folder / self.name / file for file in self.files]
        files = [file if file.is_file() else file.with_suffix("") for file in compressed]
        return [file for file in files if file.is_file()]

    def read(self, folder: Path) -> LabeledImages:
        """Read the images in `folder`, and verify their checksums.

        Raises:
            PrivotError: if the files are missing, damaged, or not what was published.
        """
        archive = folder / f"{self.name}.npz"
        arrays = _read_npz(archive) if archive.is_file() else self._read_files(folder)
        images = LabeledImages(self.name, *arrays)
        for part, found, known in zip(PARTS, images.checksums(), self.checksums, strict=True):
            if found != known:
                raise PrivotError(
                    f"{part} of {self.name} in {folder} has checksum {found[:12]}…, not {known[:12]}…: "
                    f"remove the file and run `privot demo --fetch {self.name} --data {folder}`"
                )
        return images

    def _read_files(self, folder: Path) -> list[np.ndarray]:
        files = self.found(folder)
        if len(files) < len(self.files):
            raise PrivotError(
                f"{folder} has neither {self.name}.npz nor {self.name}/ with "
                f"{', '.join(self.files)}: run `privot demo --fetch {self.name} --data {folder}`"
            )
        if self.files == IDX_FILES:
            return [read_idx(path) for path in files]
        return [array for path in files for array in _read_zip_codes(path)]


_SOURCES = (
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
SOURCES = {source.name: source for source in _SOURCES}


def find_source(name: str) -> Source:
    """Return the source of a data set; raise `PrivotError` if the name is not known."""
    if name not in SOURCES:
        raise PrivotError(f"dataset {name!r} is not known: use one of {', '.join(SOURCES)}")
    return SOURCES[name]


def load_images(name: str, folder: str | Path | None = None) -> LabeledImages:
    """Load `"mnist"`, `"fashion_mnist"` or `"usps"` from a folder; by default from that in PRIVOT_DATA.

    Raises:
        PrivotError: if the files are missing or damaged, or their values are not the published ones.
    """
    source = find_source(name)
    if folder is None:
        folder = os.environ.get("PRIVOT_DATA")
    if folder is None:
        raise PrivotError(
            f"no folder holds {name}: run `privot demo --fetch {name} --data DIR`, then give DIR "
            "(--data DIR, or the environment variable PRIVOT_DATA)"
        )
    return source.read(Path(folder))


def read_idx(path: Path) -> np.ndarray:
    """Read the array of bytes in an IDX file (`.gz`, too); raise PrivotError if it is damaged."""
    content = _read_bytes(path)
    if len(content) < 4 or content[:3] != _IDX_OF_BYTES:
        raise PrivotError(f"{path} is no IDX file of unsigned bytes: fetch it again")
    start = 4 + 4 * content[3]
    if not 1 <= content[3] <= _MOST_AXES or len(content) < start:
        raise PrivotError(f"{path} has a damaged IDX header: fetch it again")
    shape = np.frombuffer(content[4:start], ">u4").tolist()
    if len(content) - start != math.prod(shape):
        raise PrivotError(
            f"{path} has {len(content) - start} values, and its header says {math.prod(shape)}: "
            "fetch it again"
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def _read_bytes(path: Path) -> bytes:
    """Read a file, and decompress it if its name ends with `.gz`."""
    raw = path.read_bytes()
    try:
        return gzip.decompress(raw) if path.suffix == ".gz" else raw
    except (OSError, EOFError, zlib.error) as error:
        raise PrivotError(f"{path} is not a whole gzip file ({error}): fetch it again") from error


def _read_npz(path: Path) -> list[np.ndarray]:
    arrays = read_arrays(path, PARTS)
    if len(arrays) < len(PARTS):
        raise PrivotError(f"{path} is no archive of {', '.join(PARTS)}: remove or replace it")
    return [arrays[part] for part in PARTS]


def _read_zip_codes(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Read USPS images (n, 16, 16) and labels (n,): lines of a label and 256 values v in [−1, 1]."""
    try:
        lines = [line.split() for line in _read_bytes(path).split(b"\n") if line.strip()]
        rows = np.array(lines, float)
        labels, gray = rows[:, 0].astype(np.uint8), rows[:, 1:].reshape(-1, 16, 16)
    except (ValueError, IndexError) as error:
        raise PrivotError(f"{path} is no file of zip codes ({error}): fetch it again") from error
    # Gray is 255 (v + 1)/2. Values have three decimals, so integers are exact, and halves round up.
    thousandths = np.rint(1000 * gray).astype(np.int64)
    return ((255 * (thousandths + 1000) + 1000) // 2000).astype(np.uint8), labels


def fetch(
    name: str, folder: str | Path, *, address: str | None = None, say: Callable[[str], None] = print
) -> Path:
    """Fetch a data set into `folder/NAME`, and return that folder.

    `address` is the URL of a folder with the files, by default the publishers'; `say` gets messages.

    Raises:
        PrivotError: if no address answers, or the files are not the published data set.
    """
    source = find_source(name)
    if address is not None:
        parts = urllib.parse.urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise PrivotError(
                f"address {address!r} is no folder on the web: give one such as "
                "https://example.org/mnist"
            )
        source = replace(source, addresses=(address.rstrip("/") + "/",))
    return fetch_source(source, Path(folder), say)


def fetch_source(source: Source, folder: Path, say: Callable[[str], None] = print) -> Path:
    """Fetch a data set from its source, resume partial files, and verify checksums; see `fetch`."""
    target, archive = folder / source.name, folder / f"{source.name}.npz"
    if archive.exists():
        raise PrivotError(f"{archive} is there already: remove it, or fetch to another folder")
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(target, error) from None
    missing = [target / file for file in source.files if not (target / file).exists()]
    for path in missing:
        _download_from_any(source, path, say)
    try:
        source.read(folder)
    except PrivotError as error:
        for path in missing:
            path.unlink()
        older = sorted(map(str, source.found(folder)))
        more = f"; there before, and not removed: {', '.join(older)}" if older else ""
        raise PrivotError(f"{error}{more}") from None
    say(f"{source.name} is in {target}, checksums verified")
    return target


def _download_from_any(source: Source, path: Path, say: Callable[[str], None]) -> None:
    failures = []
    for address in source.addresses:
        url = address + path.name
        try:
            say(url)
            download(url, path)
            return
        except (OSError, http.client.HTTPException) as error:
            failures.append(f"{url}: {error}")
    raise PrivotError(
        f"{path.name} could not be fetched ({'; '.join(failures)}): run the command again to resume, "
        f"or put the file at {path} by hand"
    )


def download(url: str, path: Path) -> None:
    """Download a file to `path.part`, resuming if it exists, and rename it to `path` when complete.

    Raises:
        OSError: if the server does not answer, or the connection ends early; the partial file stays.
    """
    part = path.with_name(path.name + ".part")
    start = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={start}-"} if start else {})
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS) as response:
            expected = response.headers.get("Content-Length")
            received = 0
            with open(part, "ab" if response.status == _PARTIAL else "wb") as file:
                while block := response.read(_BLOCK):
                    received += file.write(block)
            if expected is not None and received < int(expected):
                raise OSError(f"the connection ended after {received} of {expected} bytes")
    except urllib.error.HTTPError as error:
        # The server has no bytes beyond the partial file: it is complete, and was not renamed yet.
        if not (start and error.code == _PAST_THE_END):
            raise
    part.replace(path)
