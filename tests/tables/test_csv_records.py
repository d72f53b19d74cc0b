"""CSV: read as text by the schema, refused by its line, whatever separates its fields."""

import gzip

import pytest

from privot.core.errors import PrivotError
from privot.schema import Schema
from privot.schema.drafts import draft_header
from privot.tables.csv_records import RecordForm, place_in_csv, read_csv

COLUMNS = ("height", "color")


@pytest.fixture
def write(tmp_path):
    def save(content):
        path = tmp_path / "people.csv"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return save


@pytest.mark.parametrize(("form", "sign"), [(";", ";"), ("tab", "\t"), ("\\t", "\t"), ("|", "|")])
def test_declared_columns_stay_text(write, form, sign):
    path = write(f"height{sign}color{sign}n\n007{sign}red{sign}3\n\n{sign}{sign}4\n")
    table = read_csv(path, RecordForm(form, ignore=("n",), declared=COLUMNS))
    assert table.to_pydict() == {"height": ["007", ""], "color": ["red", ""]}


def test_a_column_without_a_name_is_not_read(write):
    """pandas and R number the rows so; `privot schema new --like` leaves it out, too."""
    schema = Schema.from_dict({"columns": {"height": {"kind": "numeric", "bounds": [0, 9]}}})
    table = read_csv(write(",height\n0,1\n1,2\n"), RecordForm().of(schema))
    assert table.column_names == ["height"]
    assert "has no name" in draft_header({"": None, "height": None}, "people.csv")


def test_the_byte_order_mark_of_spreadsheets_is_passed_over(write):
    table = read_csv(write("\ufeffheight,color\n1,red\n"), RecordForm(declared=COLUMNS))
    assert table.column_names == ["height", "color"]


def test_blank_lines_count_as_lines_and_not_as_rows(write, tmp_path):
    path = write("height,color\n\n1,red\n\n\n2,blue\n")
    assert [place_in_csv(path, row) for row in (0, 1)] == [f"{path}, line 3", f"{path}, line 6"]
    zipped = tmp_path / "people.csv.gz"
    zipped.write_bytes(gzip.compress(path.read_bytes()))
    assert place_in_csv(zipped, 1) == f"{zipped}, line 6"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("height,color\n1,red,9\n", "line 2"),
        (b"height,color\n1,red\n2,\xff\xfe\n", "line 3"),
        ("height;color\n1;red\n", "give separator ';'"),
        ("1,red\n2,blue\n", "in its first line"),
        ("height,color,height\n1,red,2\n", "appear twice"),
        ("height,color\n".encode("utf-16"), "is UTF-16"),
        (b"PK\x03\x04 and more", "is a zip or Excel file"),
        ("height,color\n", "has no rows"),
        ("", "is empty"),
    ],
)
def test_what_is_no_csv_of_the_schema_is_refused_without_its_content(write, content, words):
    with pytest.raises(PrivotError, match=words) as refused:
        read_csv(write(content), RecordForm(declared=COLUMNS))
    assert "red" not in str(refused.value)


@pytest.mark.parametrize("separator", ["", "ab", "a", '"', "\n", "."])
def test_what_cannot_separate_is_refused(separator):
    with pytest.raises(PrivotError, match="cannot separate fields"):
        RecordForm(separator)
