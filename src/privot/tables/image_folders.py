"""Reading and writing of image folders: one file per image, labels as subfolder names or in a table.

Layouts of a folder:

- `3/a.png`, `7/b.png`: names of subfolders are the values of the schema's only other column;
- `labels.csv` with a column `file` and the schema's other columns, beside the images it names;
- only images, if the schema has no other column.

The values 0 and 255 of a file's pixels become the bounds of the schema. A file with another size or mode
than the schema declares is refused, not converted: its owner must choose how to resize it.

**Privacy.** Files are listed in the order of their names, which with subfolders is the order of the
labels: rows of a release in that order would reveal every label. So the rows are put in a random order,
which is drawn from cryptographic random words and not stored.
"""

import importlib
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv

from privot.core.errors import PrivotError
from privot.core.files import claim_folder, replacing_folder
from privot.mechanisms.samplers import random_words
from privot.schema import ArrayColumn, Schema
from privot.schema.columns.array import tensor_array, tensor_values
from privot.tables.csv_records import RecordForm, read_csv

SUFFIXES = (".png", ".jpg", ".jpeg")
LABELS = "labels.csv"
WRITTEN = ("*.png", LABELS)  # patterns of the files in a written folder
# Pillow's modes of 8-bit images, by number of channels; 1-bit ones are gray without loss.
_MODES = {1: ("L", "1"), 3: ("RGB",), 4: ("RGBA",)}


def read_image_folder(folder: Path, schema: Schema | None) -> pa.Table:
    """Read images of a folder as a table in random order; raise PrivotError unless the schema fits."""
    name, column = _image_column(folder, schema)
    assert schema is not None
    others = [part for part in schema.table_columns if part != name]
    files, values = _list_files(folder, others)
    order = np.argsort(random_words(len(files)))
    images = np.empty((len(files), *column.shape), np.uint8)
    for row, index in enumerate(order):
        images[row] = _read_image(files[index], column)
    low, high = column.bounds
    if (low, high) != (0, 255):
        images = (low + (high - low) / 255 * images).astype(np.float32)
    labels = {part: array.take(order) for part, array in values.items()}
    return pa.table({name: tensor_array(images)} | labels)


def write_image_folder(table: pa.Table, folder: Path, schema: Schema) -> None:
    """Write images as PNG files and other columns as `labels.csv`; replace a folder of such files."""
    name, column = _image_column(folder, schema)
    claim_folder(folder, WRITTEN, force=True)
    pillow = _pillow()
    low, high = column.bounds
    raw = tensor_values(table.column(name)).reshape(table.num_rows, *column.shape)
    digits = len(str(max(table.num_rows - 1, 0)))
    names = [f"{row:0{digits}d}.png" for row in range(table.num_rows)]
    with replacing_folder(folder) as draft:
        for file, image in zip(names, raw, strict=True):
            levels = np.rint((image.astype(np.float64) - low) / (high - low) * 255)
            pixels = levels.clip(0, 255).astype(np.uint8)
            pixels = pixels[..., 0] if pixels.shape[2:] == (1,) else pixels
            pillow.fromarray(pixels).save(draft / file)
        others = table.drop_columns([name])
        csv.write_csv(others.add_column(0, "file", pa.array(names, pa.string())), draft / LABELS)


def _image_column(folder: Path, schema: Schema | None) -> tuple[str, ArrayColumn]:
    """Return the name and the column of the images; raise PrivotError unless there is exactly one."""
    arrays = [] if schema is None else list(schema.images.items())
    if len(arrays) != 1:
        raise PrivotError(
            f"{folder} is a folder, and the schema has {len(arrays)} columns of images: "
            "use a folder with one column of kind 'array', else parquet or npz"
        )
    return arrays[0]


def _list_files(folder: Path, others: list[str]) -> tuple[list[Path], dict[str, pa.Array]]:
    """Return image files (n), and the values (n,) of the other columns."""
    if (folder / LABELS).is_file():
        return _read_labels(folder, others)
    nested = [path for path in sorted(folder.iterdir()) if path.is_dir() and _visible(path)]
    if nested and len(others) == 1:
        files = [path for parent in nested for path in _images_of(parent)]
        labels = pa.array([path.parent.name for path in files], pa.string())
        if not files or _images_of(folder):
            raise PrivotError(
                f"{folder} has images {'beside' if files else 'neither in nor beside'} its "
                "subfolders: put each into the subfolder named by its label"
            )
        return files, {others[0]: labels}
    files = _images_of(folder)
    if others:
        raise PrivotError(
            f"{folder} has no columns {others}: add {LABELS} with columns "
            f"{['file', *others]}" + (", or a subfolder a label" if len(others) == 1 else "")
        )
    if not files:
        raise PrivotError(f"{folder} holds no images: give a folder of {', '.join(SUFFIXES)} files")
    return files, {}


def _read_labels(folder: Path, others: list[str]) -> tuple[list[Path], dict[str, pa.Array]]:
    """Return image files (n), and the values (n,) of the other columns, as `labels.csv` lists them."""
    path, wanted = folder / LABELS, ["file", *others]
    table = read_csv(path, RecordForm(declared=tuple(wanted)))
    if sorted(table.column_names) != sorted(wanted) or not table.num_rows:
        raise PrivotError(
            f"{path} has columns {table.column_names} and {table.num_rows} rows: give columns "
            f"{wanted}, and a row for each image"
        )
    files = [folder / str(file) for file in table.column("file").to_pylist()]
    counts = Counter(file.resolve() for file in files)
    repeated = [file for file, count in counts.items() if count > 1]
    if repeated:
        raise PrivotError(
            f"{path} names {repeated[0]} twice, which would report twice: list each image once"
        )
    return files, {part: table.column(part).combine_chunks() for part in others}


def _visible(path: Path) -> bool:
    return not path.name.startswith(".")


def _images_of(folder: Path) -> list[Path]:
    """Return the image files directly in a folder, sorted by name."""
    inside = sorted(path for path in folder.iterdir() if path.is_file() and _visible(path))
    return [path for path in inside if path.suffix.lower() in SUFFIXES]


def _read_image(path: Path, column: ArrayColumn) -> np.ndarray:
    """Return the pixels of a file, 0 to 255, in the shape that the column declares."""
    pillow = _pillow()
    height, width, channels = (*column.shape, 1)[:3]
    try:
        with pillow.open(path) as image:
            # Size and mode are in the header: an image that does not fit is not decoded.
            if image.size != (width, height):
                raise PrivotError(
                    f"{path} is {image.size[1]}×{image.size[0]} pixels, the schema declares "
                    f"{height}×{width}: resize it, or correct the schema"
                )
            if image.mode not in _MODES.get(channels, ()):
                raise PrivotError(f"{path} {_wrong_mode(image.mode, channels)}")
            if image.mode == "1":
                image = image.convert("L")
            return np.asarray(image, np.uint8).reshape(column.shape)
    except FileNotFoundError:
        raise PrivotError(f"{path} is not there: correct {LABELS}, or add the image") from None
    except (OSError, ValueError, SyntaxError) as error:
        if isinstance(error, PrivotError):
            raise
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise PrivotError(f"{path} cannot be read as an image ({reason}): replace it") from None


def _wrong_mode(mode: str, channels: int) -> str:
    """Return the end of an error about an image's mode, where `channels` of 8 bits are declared."""
    wanted = _MODES.get(channels, ("",))[0]
    if not wanted:
        return f"cannot fill {channels} channels: use npz or parquet for other than 1, 3 or 4"
    actual = {
        "L": "is gray",
        "1": "is black and white",
        "RGB": "has 3 channels",
        "RGBA": "has 4 channels, the last of them transparency",
        "LA": "has 2 channels, the last of them transparency",
        "P": "has a palette",
        "CMYK": "has 4 channels of print colors",
    }.get(mode, f"has pixels of more than 8 bits (mode {mode})")
    return (
        f"{actual}, the schema declares {channels} channel{'s' if channels > 1 else ''} of 8 bits: "
        f"convert it, as by Pillow's image.convert({wanted!r})"
    )


def _pillow() -> Any:
    """Import Pillow, an optional dependency."""
    try:
        return importlib.import_module("PIL.Image")
    except ModuleNotFoundError:
        raise PrivotError(
            "folders of images need Pillow, which is not installed: pip install 'privot[images]'"
        ) from None
