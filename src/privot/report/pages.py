"""Pages from templates: HTML in one file, written so that an old one survives any failure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2

import privot
from privot.files import replacing_file

_TEMPLATES = jinja2.Environment(
    loader=jinja2.PackageLoader("privot.report", "templates"),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=jinja2.StrictUndefined,
)


def write_page(path: str | Path, template: str, fields: dict[str, Any]) -> None:
    """Fill `templates/<template>` and write the page."""
    page = _TEMPLATES.get_template(template).render(**fields, version=privot.__version__)
    with replacing_file(path) as draft:
        draft.write_text(page, encoding="utf-8")
