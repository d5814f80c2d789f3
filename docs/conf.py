"""How the pages are built: `./mf docs`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpydoc.xref import DEFAULT_LINKS

import meritfair

if TYPE_CHECKING:
    from sphinx.application import Sphinx

for name in ("metrics", "plots", "theory"):  # where `import meritfair as mf` has them
    sys.modules[f"meritfair.{name}"] = getattr(meritfair, name)
sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "meritfair"
author = "The meritfair developers"
project_copyright = author
version = release = meritfair.__version__

extensions = [
    "command_help",
    "mathml",
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
]

# Markdown that reads well on a forge too: plain links between files, checked with their anchors
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4

# Single backticks stand for parameters and for names elsewhere; the latter become links
default_role = "py:obj"
nitpicky = True
nitpick_ignore_regex = [
    ("py:obj", r".*"),
    ("py:mod", r"meritfair\..*"),  # modules that have no page, but source (sphinx.ext.viewcode)
]
autodoc_typehints = "none"  # types stand in the docstrings
autodoc_inherit_docstrings = False
autodoc_member_order = "bysource"
autosummary_generate = False
numpydoc_show_class_members = False  # autodoc lists them
numpydoc_xref_param_type = True  # our own types are links
numpydoc_xref_aliases = {
    name: f"meritfair.{name}" for name in meritfair.__all__ if name[0].isupper()
}
numpydoc_xref_ignore = "all"
DEFAULT_LINKS.clear()  # Python's own types would be links to another site

html_theme = "furo"
html_title = "meritfair"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_show_sourcelink = False
html_copy_source = False
html_math_renderer = "mathml"
pygments_style = "friendly"
pygments_dark_style = "monokai"
exclude_patterns = ["_*"]


def _no_sections(
    _app: Sphinx, what: str, _name: str, _object: object, _options: Any, lines: list[str]
) -> None:
    """Turn sections of a module's docstring, such as its references, into mere headings."""
    for at in range(len(lines) - 1 if what == "module" else 0):
        if lines[at] and lines[at + 1] == "-" * len(lines[at]):
            lines[at : at + 2] = [f".. rubric:: {lines[at]}", ""]


def setup(app: Sphinx) -> None:
    """Let Sphinx call the function above."""
    app.connect("autodoc-process-docstring", _no_sections)
