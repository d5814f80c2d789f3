"""Pages of HTML that need nothing beside them: a result for people who read no code, in one file.

A page has a title, one sentence that says what was found, a few numbers, and sections with text, a figure and tables.
Everything is inside the file: no script, no font and no image is asked for from elsewhere. What is drawn is also in a
table. All text is shown as it is, so the names of people may hold anything. The style, shared with the report of a
reproduction, is in ``templates/``: it is for wide screens and phones, light and dark, and paper.

Needs the extra ``lab``; Jinja is imported when the first page is made.

Examples
--------
>>> table = PageTable("Calls by week", ("week", "calls"), (("1", "20"), ("2", "21")))
>>> page = Page("Calls", "There were 41 calls.", {"calls": "41"}, (PageSection("Weeks", tables=(table,)),))
>>> "<h1>Calls</h1>" in render(page)
True
"""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from meritfair.core.errors import InputError, MissingExtraError
from meritfair.core.figures import house_style
from meritfair.core.language import _, current
from meritfair.core.storage import check_suffix, write_text

if TYPE_CHECKING:
    import jinja2
    from matplotlib.figure import Figure

SUFFIXES = (".html",)
_OURS = "meritfair.core"


@dataclass(frozen=True)
class PageTable:
    """A table as people are shown it: a heading for each column, and rows of text."""

    title: str
    headings: Sequence[str]
    cells: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Drawing:
    """A figure of a page.

    Attributes
    ----------
    svg : bytes
        The figure, as `svg` makes it.
    alt : str
        What it shows, for those who cannot see it.
    caption : str
        What to look at.
    """

    svg: bytes
    alt: str
    caption: str


@dataclass(frozen=True)
class PageSection:
    """A part of a page under a heading: paragraphs, a drawing, tables, and notes below them.

    Examples
    --------
    >>> PageSection("Weeks", drawing=Drawing(b"<svg/>", "Calls by week.", ""))
    Traceback (most recent call last):
    ...
    meritfair.core.errors.InputError: the section 'Weeks' must have a table with the numbers of its drawing
    """

    heading: str
    paragraphs: Sequence[str] = ()
    drawing: Drawing | None = None
    tables: Sequence[PageTable] = ()
    notes: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.drawing is not None and not self.tables:
            raise InputError(f"the section {self.heading!r} must have a table with the numbers of its drawing")


@dataclass(frozen=True)
class Page:
    """All that a page says.

    Attributes
    ----------
    title, lead : str
        What it is about, and what was found, in a sentence or two.
    numbers : mapping of str to str
        A few numbers to remember, by what they are.
    sections : sequence of PageSection
    made_with : mapping of str to str
        Settings and versions: a line for each.
    warnings : sequence of str
        What a reader must know before anything else.
    """

    title: str
    lead: str
    numbers: Mapping[str, str] = field(default_factory=dict)
    sections: Sequence[PageSection] = ()
    made_with: Mapping[str, str] = field(default_factory=dict)
    warnings: Sequence[str] = ()


def svg(figure: Figure) -> bytes:
    """Return a figure as SVG, the same bytes each time."""
    stream = io.BytesIO()
    with house_style():
        figure.savefig(stream, format="svg", metadata={"Date": None})
    return stream.getvalue()


def render(page: Page) -> str:
    """Return a page as HTML, with everything inside."""
    return page_templates().get_template("page.html.jinja").render(page=page)


def write_page(page: Page, path: str | PathLike[str]) -> None:
    """Write a page to an .html file, which replaces an old one once it is complete."""
    file = Path(path)
    check_suffix(file, "pages", SUFFIXES)
    write_text(file, render(page))


def page_templates(*packages: str) -> jinja2.Environment:
    """Return what renders the templates of some packages, and those of all pages.

    Text is as it is, HTML escaped; a name that is not there is an error.
    """
    try:
        import jinja2
    except ImportError:
        raise MissingExtraError("a page of HTML", "lab") from None
    made = jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader(package) for package in (*packages, _OURS)]),
        autoescape=jinja2.select_autoescape(["html.jinja"], default=False),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"data_uri": _data_uri, "sides": _sides}
    made.globals |= {"_": _, "language": current}
    return made


def _data_uri(drawing: bytes) -> str:
    """Return a drawing as an address that holds it whole."""
    return "data:image/svg+xml;base64," + base64.b64encode(drawing).decode()


def _sides(cells: Sequence[Sequence[str]], headings: Sequence[str]) -> list[str]:
    """Return for each column of a table whether it is text, to the left, or numbers, to the right.

    Examples
    --------
    >>> _sides([["CPAP", "−1.5 ±2", "yes"], ["", "–", "no"]], ["arms", "mean", "fits"])
    ['left', 'right', 'left']
    """
    columns: Any = zip(*cells, strict=True) if cells else ((),) * len(headings)
    return ["right" if all(map(_is_like_a_number, column)) else "left" for column in columns]


def _is_like_a_number(cell: str) -> bool:
    start = cell.lstrip("≥≤<>≈±+−-( ")[:1]
    return not start or start.isdigit() or start in "–∞"
