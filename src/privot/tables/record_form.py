"""How records stand in a file: what separates fields, and which columns are passed over."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import pyarrow as pa

from privot.errors import PrivotError

_NAMED = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";"}
SEPARATORS = (",", ";", "\t", "|")


@dataclass(frozen=True)
class RecordForm:
    """The separator of a CSV, and columns to ignore that the schema does not know.

    Arguments:
        separator: One character, or `"tab"`.
        ignore: Names of table columns.

    Examples:
        >>> RecordForm("tab").separator
        '\\t'
    """

    separator: str = ","
    ignore: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        separator = _NAMED.get(self.separator, self.separator)
        if len(separator) != 1 or separator.isalnum() or separator in "\"'\r\n.-+":
            raise PrivotError(
                f"--separator {self.separator!r} cannot separate fields: give one character, such "
                "as ';', or tab"
            )
        object.__setattr__(self, "separator", separator)

    def select(self, table: pa.Table, columns: Collection[str] | None, source: str) -> pa.Table:
        """The table without the ignored columns.

        Raises:
            PrivotError: for a column that is not there, or that the schema declares.
        """
        for name in self.ignore:
            if name in (columns or ()):
                raise PrivotError(
                    f"--ignore {name!r}: the schema declares this column, and a report must be of all: "
                    "remove it from the schema instead"
                )
            if name not in table.column_names:
                raise PrivotError(
                    f"--ignore {name!r}: {source} has no such column: correct it, or leave it out"
                )
        return table.drop_columns(list(self.ignore)) if self.ignore else table


COMMA_SEPARATED = RecordForm()


def require_columns(
    names: list[str], columns: Sequence[str], form: RecordForm, source: str
) -> None:
    """Refuse a first line that names none of the schema's columns: it may be a record.

    Raises:
        PrivotError: with the separator to give, where another one is right.
    """
    declared = set(columns)
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise PrivotError(f"columns {repeated} appear twice in {source}: rename or remove one")
    if declared & set(names):
        return
    for other in SEPARATORS:
        if other != form.separator and declared & set(form.separator.join(names).split(other)):
            shown = "tab" if other == "\t" else f"'{other}'"
            raise PrivotError(
                f"{source} is not separated by {form.separator!r}, but by {other!r}: "
                f"give --separator {shown}"
            )
    raise PrivotError(
        f"{source} has none of the columns {list(columns)} in its first line: put the "
        "columns' names there, as the schema has them"
    )
