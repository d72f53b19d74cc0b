"""The parser of docstrings, by the name and class that docutils looks for."""

from __future__ import annotations

from docutils import nodes
from myst_parser.parsers.sphinx_ import MystParser
from sections import to_markdown


class Parser(MystParser):
    """MyST's parser, of docstrings whose sections were turned to Markdown."""

    def parse(self, inputstring: str, document: nodes.document) -> None:
        """Parse a docstring."""
        super().parse(to_markdown(inputstring), document)
