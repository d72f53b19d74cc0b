"""Folders of images: every layout, random order, and what is refused, with the file's name."""

import numpy as np
import pytest

from privot.core.errors import PrivotError
from privot.schema import Schema
from privot.schema.columns.array import tensor_values
from privot.tables.files import as_table, read_table, write_table

pillow = pytest.importorskip("PIL.Image", reason="Pillow is not installed")

ALONE = '[columns.image]\nkind = "array"\nshape = [4, 6]\nbounds = [0, 255]\n'
LABELED = ALONE + '[columns.label]\nkind = "categorical"\ncategories = ["cat", "dog"]\n'
COLOR = '[columns.image]\nkind = "array"\nshape = [4, 6, 3]\nbounds = [0, 1]\n'


def save(path, array, mode=None):
    path.parent.mkdir(parents=True, exist_ok=True)
    pillow.fromarray(array, mode).save(path)


def gray(value):
    return np.full((4, 6), value, np.uint8)


def pixels(table):
    return tensor_values(table.column("image"))


def test_subfolders_are_labels(tmp_path):
    for value in range(40):
        save(tmp_path / ("cat" if value < 20 else "dog") / f"{value:02d}.png", gray(value))
    (tmp_path / "cat" / "notes.txt").write_text("passed over")
    (tmp_path / ".hidden").mkdir()
    table = read_table(tmp_path, Schema.from_toml(LABELED))
    values, labels = pixels(table)[:, 0, 0], table.column("label").to_pylist()
    assert sorted(values) == list(range(40))
    assert all((label == "cat") == (value < 20) for value, label in zip(values, labels))
    # In the order of the folders, the first half would be cats: 1 in 10¹¹ orders is.
    assert labels[:20] != ["cat"] * 20
    again = read_table(tmp_path, Schema.from_toml(LABELED))
    assert pixels(again)[:, 0, 0].tolist() != values.tolist()


def test_images_alone_and_with_a_table(tmp_path):
    for value in range(9):
        save(tmp_path / f"{value}.png", gray(value))
    alone = read_table(tmp_path, Schema.from_toml(ALONE))
    assert sorted(pixels(alone)[:, 3, 5]) == list(range(9))
    lines = [f"{value}.png,{'dog' if value % 2 else 'cat'}" for value in range(9)]
    (tmp_path / "labels.csv").write_text("\n".join(["file,label", *lines]))
    table = read_table(tmp_path, Schema.from_toml(LABELED))
    for value, label in zip(pixels(table)[:, 0, 0], table.column("label").to_pylist()):
        assert label == ("dog" if value % 2 else "cat")


def test_black_and_white_are_the_bounds(tmp_path):
    save(tmp_path / "a.png", np.stack([gray(0), gray(51), gray(255)], axis=2))
    table = read_table(tmp_path, Schema.from_toml(COLOR))
    np.testing.assert_allclose(pixels(table)[0, 0, 0], [0.0, 0.2, 1.0])
    assert table.column("image").type.shape == [4, 6, 3]


def test_one_bit_images_are_gray(tmp_path):
    pillow.fromarray(gray(255)).convert("1").save(tmp_path / "a.png")
    assert (pixels(read_table(tmp_path, Schema.from_toml(ALONE))) == 255).all()


def bad_images(folder):
    """Files by what is wrong with them, and what the complaint has to say."""
    whole = folder / "whole.png"
    save(whole, np.random.default_rng(0).integers(0, 256, (4, 6)).astype(np.uint8))
    data = whole.read_bytes()
    whole.unlink()

    def write(content):
        return lambda path: path.write_bytes(content)

    deep = pillow.fromarray(np.full((4, 6), 40_000, np.uint16))
    clear = pillow.fromarray(np.zeros((4, 6, 4), np.uint8))
    color = pillow.fromarray(np.zeros((4, 6, 3), np.uint8))
    return {
        "turned": (lambda p: save(p, np.zeros((6, 4), np.uint8)), "6×4 pixels"),
        "sixteen": (lambda p: deep.save(p), "more than 8 bits"),
        "clear": (lambda p: clear.save(p), "transparency"),
        "color": (lambda p: color.save(p), "3 channels"),
        "palette": (lambda p: color.convert("P").save(p), "palette"),
        "cut": (write(data[: len(data) - 25]), "cannot be read as an image"),
        "header": (write(data[:20]), "cannot be read as an image"),
        "text": (write(b"not an image"), "cannot be read as an image"),
        "empty": (write(b""), "cannot be read as an image"),
    }


@pytest.mark.parametrize(
    "kind", ["turned", "sixteen", "clear", "color", "palette", "cut", "header", "text", "empty"]
)
def test_bad_images_are_refused_by_name(tmp_path, kind):
    write, match = bad_images(tmp_path)[kind]
    save(tmp_path / "a.png", gray(1))
    write(tmp_path / "bad.png")
    with pytest.raises(PrivotError, match=match) as refused:
        read_table(tmp_path, Schema.from_toml(ALONE))
    assert "bad.png" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_gray_images_are_not_made_colored(tmp_path):
    save(tmp_path / "a.png", gray(1))
    with pytest.raises(PrivotError, match="is gray, the schema declares 3 channels"):
        read_table(tmp_path, Schema.from_toml(COLOR))


def test_bad_folders_are_refused(tmp_path):
    schema = Schema.from_toml(LABELED)
    with pytest.raises(PrivotError, match="holds no images"):
        read_table(tmp_path, Schema.from_toml(ALONE))
    save(tmp_path / "a.png", gray(1))
    with pytest.raises(PrivotError, match=r"has no columns \['label'\]"):
        read_table(tmp_path, schema)
    save(tmp_path / "cat" / "b.png", gray(1))
    with pytest.raises(PrivotError, match="beside its subfolders"):
        read_table(tmp_path, schema)
    (tmp_path / "labels.csv").write_text("file,animal\na.png,cat\n")
    with pytest.raises(PrivotError, match="give columns"):
        read_table(tmp_path, schema)
    (tmp_path / "labels.csv").write_text("file,label\nz.png,cat\n")
    with pytest.raises(PrivotError, match="z.png is not there"):
        read_table(tmp_path, schema)
    (tmp_path / "labels.csv").write_text("file,label\na.png,cat\n./a.png,dog\n")
    with pytest.raises(PrivotError, match="a.png twice, which would report twice"):
        read_table(tmp_path, schema)
    with pytest.raises(PrivotError, match="has 0 columns of images"):
        read_table(tmp_path, Schema.from_toml('[columns.a]\nkind = "boolean"'))


def test_a_written_folder_is_read_back(tmp_path):
    rng = np.random.default_rng(0)
    records = {"image": rng.random((12, 4, 6, 3)).astype(np.float32)}
    schema = Schema.from_toml(COLOR)
    write_table(as_table(records), tmp_path / "out", schema)
    assert sorted(p.name for p in (tmp_path / "out").iterdir())[:2] == ["00.png", "01.png"]
    back = pixels(read_table(tmp_path / "out", schema))
    order = [np.abs(records["image"] - image).sum(axis=(1, 2, 3)).argmin() for image in back]
    assert sorted(order) == list(range(12))
    np.testing.assert_allclose(back, records["image"][order], atol=0.5 / 255 + 1e-6)


def test_a_folder_of_other_things_is_not_replaced(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    records = as_table({"image": np.zeros((2, 4, 6, 3), np.float32)})
    with pytest.raises(PrivotError, match=r"holds thesis.txt, which is not replaced"):
        write_table(records, tmp_path, Schema.from_toml(COLOR))
    assert (tmp_path / "thesis.txt").exists()
    out = tmp_path / "out"
    write_table(records, out, Schema.from_toml(COLOR))
    write_table(records, out, Schema.from_toml(COLOR))  # its own work may be


def test_without_pillow_the_remedy_is_named(tmp_path, monkeypatch):
    save(tmp_path / "a.png", gray(1))
    monkeypatch.setitem(__import__("sys").modules, "PIL.Image", None)
    with pytest.raises(PrivotError, match=r"pip install 'privot\[images\]'"):
        read_table(tmp_path, Schema.from_toml(ALONE))
