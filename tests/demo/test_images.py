"""Public image sets: both file formats, known sums, and refusals that say what to do."""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest

from commands import privot
from made_up_images import idx_bytes, made_up, source_of
from privot.core.errors import PrivotError
from privot.demo.datasets import IDX_FILES, PARTS, SOURCES, ZIP_CODE_FILES, load_images, read_idx


def write_idx(folder, arrays, compress=True):
    (folder / "made_up").mkdir(parents=True)
    for name, array in zip(IDX_FILES, arrays):
        content = idx_bytes(array)
        path = folder / "made_up" / (name if compress else name.removesuffix(".gz"))
        path.write_bytes(gzip.compress(content) if compress else content)


@pytest.mark.parametrize("compress", [True, False])
def test_idx_files_and_npz_hold_the_same_values(tmp_path, compress):
    arrays = made_up()
    source = source_of(arrays)
    write_idx(tmp_path / "idx", arrays, compress)
    (tmp_path / "npz").mkdir()
    np.savez(tmp_path / "npz" / "made_up.npz", **dict(zip(PARTS, arrays)))
    for kind in ("idx", "npz"):
        images = source.read(tmp_path / kind)
        for part, array in zip(PARTS, arrays):
            np.testing.assert_array_equal(getattr(images, part), array)


def test_one_changed_pixel_is_noticed(tmp_path):
    arrays = made_up()
    source = source_of(arrays)
    arrays[2][1, 1, 1] ^= 1
    np.savez(tmp_path / "made_up.npz", **dict(zip(PARTS, arrays)))
    with pytest.raises(PrivotError, match=r"x_test of made_up.*privot demo --fetch made_up --data"):
        source.read(tmp_path)


def test_zip_codes_are_read_as_published(tmp_path):
    """Thousandths from −1 to 1 become bytes, halves rounded up."""
    rng = np.random.default_rng(0)
    thousandths = rng.integers(-1000, 1001, (4, 256))
    lines = [
        " ".join([f"{label:.4f}", *(f"{value / 1000:.4f}" for value in row)]) + " "
        for label, row in enumerate(thousandths)
    ]
    (tmp_path / "made_up").mkdir()
    for file in ZIP_CODE_FILES:
        content = "\n".join(lines).encode() + b"\n"
        (tmp_path / "made_up" / file).write_bytes(gzip.compress(content))
    expected = np.floor((thousandths + 1000) * 255 / 2000 + 0.5).reshape(4, 16, 16)
    arrays = (expected.astype(np.uint8), np.arange(4, dtype=np.uint8)) * 2
    images = source_of(arrays, ZIP_CODE_FILES).read(tmp_path)
    np.testing.assert_array_equal(images.x_train, expected)
    np.testing.assert_array_equal(images.y_test, range(4))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\0\0\x0d\x01" + bytes(8), "no IDX file of unsigned bytes"),
        (b"\0\0\x08\x02\0\0", "damaged IDX header"),
        (idx_bytes(np.zeros((2, 3), np.uint8))[:-1], "has 5 values, and its header says 6"),
    ],
)
def test_damaged_idx_files_are_refused(tmp_path, content, message):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(PrivotError, match=f"{message}.*fetch it again"):
        read_idx(tmp_path / "file")


def test_half_a_gzip_file_is_refused(tmp_path):
    path = tmp_path / "images.gz"
    path.write_bytes(gzip.compress(idx_bytes(np.arange(200, dtype=np.uint8)))[:-9])
    with pytest.raises(PrivotError, match="not a whole gzip file"):
        read_idx(path)


def test_missing_files_say_what_to_do(tmp_path, monkeypatch):
    with pytest.raises(PrivotError, match="run `privot demo --fetch mnist --data"):
        load_images("mnist", tmp_path)
    monkeypatch.delenv("PRIVOT_DATA", raising=False)
    with pytest.raises(PrivotError, match=r"fetch usps --data DIR.*--data DIR.*PRIVOT_DATA"):
        load_images("usps")
    with pytest.raises(PrivotError, match="dataset 'mnits' is not known: use one of mnist"):
        load_images("mnits")
    (tmp_path / "usps.npz").write_bytes(b"nothing of the kind")
    with pytest.raises(PrivotError, match="cannot be read as npz"):
        load_images("usps", tmp_path)
    np.savez(tmp_path / "usps.npz", x_train=np.zeros(3))
    with pytest.raises(PrivotError, match="no archive of x_train"):
        load_images("usps", tmp_path)


@pytest.mark.parametrize("name", SOURCES)
def test_published_sets_have_the_sums_that_we_state(name):
    """The shared npz files, whose sums were compared with the publishers' when they were made."""
    folder = os.environ.get("PRIVOT_DATA")
    if folder is None or not (Path(folder) / f"{name}.npz").exists():
        pytest.skip(f"set PRIVOT_DATA to a folder with {name}.npz")
    images = load_images(name)
    assert images.x_train.ndim == 3
    assert len(images.x_train) == len(images.y_train)
    assert set(np.unique(images.y_test)) == set(range(10))


def test_the_command_line_names_the_remedy(tmp_path):
    done = privot(tmp_path, "demo", "--verify", "mnist", "--data", "nowhere")
    assert done.returncode == 2
    assert "privot demo --fetch mnist --data nowhere" in done.stderr
