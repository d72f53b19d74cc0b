"""How the site is built: `make docs`. Pages are Markdown; the reference is made of docstrings."""

import os
import sys
import tempfile
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

_HERE = Path(__file__).parent
sys.path.insert(0, str(_HERE))

from playground import client_script  # noqa: E402 - it stands beside this file
from trust import rows_script  # noqa: E402 - likewise

project = "Privot"
author = "The Privot developers"
project_copyright = "2026, The Privot developers"

extensions = [
    "myst_parser",
    "autodoc2",
    "sphinx_copybutton",
    "sphinxcontrib.bibtex",
    "sphinx_gallery.gen_gallery",
    "mathml",
    "public_names",
]
exclude_patterns = ["_build", "gallery/*.ipynb", "gallery/*.py"]

# Scripts of the gallery run when they have changed; what is made of them is under no version control.
sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "filename_pattern": "",
    "within_subsection_order": "gallery_order.place",
    "abort_on_example_error": True,
    "capture_repr": (),
    "thumbnail_size": (320, 224),
    "write_computation_times": False,
    "show_signature": False,
}
# What scripts fit on made-up records is nobody's account of what was spent on real ones.
os.environ.setdefault("PRIVOT_STATE_DIR", tempfile.mkdtemp(prefix="privot-gallery-"))

myst_enable_extensions = ["dollarmath", "deflist", "colon_fence", "html_image"]
myst_heading_anchors = 4

# What is public is listed by hand in api/: modules, and what of them is shown.
autodoc2_packages = [{"path": "../src/privot", "auto_mode": False}]
autodoc2_render_plugin = "public_names.ShortNames"
autodoc2_docstring_parser_regexes = [(r".*", "docstrings")]
autodoc2_hidden_objects = {"private", "dunder", "inherited", "undoc"}
autodoc2_class_docstring = "merge"
autodoc2_sort_names = False

bibtex_bibfiles = ["../references.bib"]
bibtex_default_style = "plain"

html_theme = "furo"
html_title = "Privot"
html_static_path = ["static"]
html_css_files = ["privot.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#2346a0", "color-brand-content": "#2346a0"},
    "dark_css_variables": {"color-brand-primary": "#8fb0ff", "color-brand-content": "#8fb0ff"},
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# Pages that stand beside what they tell of, elsewhere in the repository, are pages of the site as well.
_ELSEWHERE = {
    "../../conformance/README.md": "/reference/conformance.md",
    "../../clients/javascript/README.md": "/reference/javascript.md",
    "../docs/reference/wire.md": "/reference/wire.md",
    "../examples/gallery/": "/gallery/index.rst",
}


def _link_here(app: Sphinx, page: str, source: list[str]) -> None:
    for there, here in _ELSEWHERE.items():
        source[0] = source[0].replace(f"({there})", f"({here})")


def _write_client(app: Sphinx, exception: Exception | None) -> None:
    if exception is not None or app.builder.format != "html":
        return
    try:
        script = client_script()
    except FileNotFoundError as error:
        raise ExtensionError(str(error)) from None
    static = Path(app.outdir) / "_static"
    (static / "playground" / "client.js").write_text(script, "utf-8")
    (static / "trust" / "rows.js").write_text(rows_script(), "utf-8")


def setup(app: Sphinx) -> None:
    """Register the rewriting of links, and what the pages that compute draw with."""
    app.connect("source-read", _link_here)
    app.connect("build-finished", _write_client)
