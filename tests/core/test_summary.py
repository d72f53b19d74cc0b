"""Objects are shown in one line, and as a table whose texts are escaped."""

from privot.core.summary import Summarized
from privot.schema import Schema


class House(Summarized):
    def summary(self):
        rooms = {f"room {number}": "<script>" for number in range(8)}
        return {"rooms": rooms, "owner": "A & B"}


def test_one_line_names_few_of_many():
    first = "room 0, room 1, room 2, room 3, room 4, room 5"
    assert repr(House()) == f"House(rooms: {first}, and 2 more; owner: A & B)"


def test_the_table_is_escaped_and_names_all():
    html = House()._repr_html_()
    assert html.startswith("<table><caption>House</caption><tr><th>rooms</th><td><table>")
    assert "room 7" in html
    assert "A &amp; B" in html
    assert "<script>" not in html
    assert html.count("&lt;script&gt;") == 8


def test_a_schema_is_printed_as_its_summary():
    schema = Schema.from_dict({"columns": {"bit": {"kind": "boolean"}}})
    assert str(schema) == f"{schema}" == repr(schema)
    assert "Schema(columns: bit" in str(schema)
