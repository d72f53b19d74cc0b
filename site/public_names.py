"""`{public} privot.local`: every name of a package's `__all__`, shown as autodoc2 shows it."""

from __future__ import annotations

import importlib
import re

from autodoc2.render.myst_ import MystRenderer
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


class Public(SphinxDirective):
    """Names of a package, in their order, but for the packages below it."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Write a directive of autodoc2 for each name, and parse them."""
        package = importlib.import_module(self.arguments[0])
        lines = []
        for name in package.__all__:
            found = getattr(package, name)
            where = getattr(found, "__module__", None) or ""
            if where.startswith("privot") and hasattr(found, "__qualname__"):
                shown = f"{where}.{found.__qualname__}"
                lines += [f"## {name}", "", f"```{{autodoc2-object}} {shown}", "```", ""]
        return self.parse_text_to_nodes("\n".join(lines), allow_section_headings=True)


class ShortNames(MystRenderer):
    """Types without the modules that they are defined in."""

    def format_annotation(self, annotation: str | None) -> str:
        """The last word of every dotted name."""
        found = super().format_annotation(annotation)
        return re.sub(r"\b(?:[a-z_]\w*\.)+(?=[A-Za-z_])", "", found)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("public", Public)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
