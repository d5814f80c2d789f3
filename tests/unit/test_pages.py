"""Pages of HTML: whole, safe, and complete without anything beside them."""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

import meritfair as mf
from meritfair.core.figures import new_figure
from meritfair.core.pages import Drawing, Page, PageSection, PageTable, render, svg, write_page

HOSTILE = "<script>alert('Ada & Bo')</script>"
TABLE = PageTable("Calls by week", ("week", "calls", "who"), (("1", "1,020", "Ada"), ("2", "–", "Bo")))


class Elements(HTMLParser):
    """The elements of a page, with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {name: value or "" for name, value in attrs}))

    def all(self, attribute: str) -> list[str]:
        return [given[attribute] for _, given in self.found if attribute in given]


def drawing() -> Drawing:
    with new_figure(2.0) as figure:
        figure.subplots().plot([1, 2], [3, 1])
    return Drawing(svg(figure), "Calls fall.", "Calls by week.")


def full_page(text: str = "Ada") -> Page:
    section = PageSection(text, [text], drawing(), [PageTable(text, [text, "n"], [[text, "1"]]), TABLE], [text])
    return Page(text, text, {text: text}, (section, PageSection("More", ["Words."])), {text: text}, (text,))


def test_the_page_asks_for_nothing_from_elsewhere() -> None:
    text = render(full_page())
    found = Elements(text)
    assert not {"script", "link", "iframe", "object"} & {tag for tag, _ in found.found}
    assert found.all("src")
    assert all(source.startswith("data:image/svg+xml;base64,") for source in found.all("src"))
    assert not found.all("href")
    assert not re.search(r"url\(|@import", text)


def test_text_stays_text_wherever_it_stands() -> None:
    text = render(full_page(HOSTILE))
    assert "<script" not in text
    assert text.count("&lt;script&gt;") == 15  # every place of a page that has text
    assert "alert(&#39;Ada &amp; Bo&#39;)" in text


def test_names_in_the_page_are_there_once_and_all_labels_lead_to_one() -> None:
    found = Elements(render(full_page()))
    names = found.all("id")
    assert len(names) == len(set(names))
    assert {*found.all("aria-labelledby"), *found.all("aria-describedby")} <= set(names)


def test_numbers_stand_to_the_right_and_words_to_the_left() -> None:
    found = Elements(render(Page("Calls", "", sections=(PageSection("Weeks", tables=(TABLE,)),))))
    assert [given["class"] for tag, given in found.found if tag == "th"] == ["right", "right", "left"]


def test_a_drawing_has_words_for_those_who_cannot_see_it() -> None:
    assert Elements(render(full_page())).all("alt") == ["Calls fall."]


def test_it_is_for_dark_screens_phones_and_paper_too() -> None:
    text = render(full_page())
    assert "prefers-color-scheme: dark" in text
    assert "max-width: 46rem" in text
    assert "@media print" in text


def test_the_same_page_is_the_same_bytes() -> None:
    assert render(full_page()) == render(full_page())


def test_a_page_is_written_whole(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    write_page(full_page(), file)
    assert file.read_text(encoding="utf-8") == render(full_page())
    assert [each.name for each in tmp_path.iterdir()] == ["page.html"]


def test_only_html_is_written(tmp_path: Path) -> None:
    with pytest.raises(mf.FileError, match=r"page.pdf: pages are kept in .html files"):
        write_page(full_page(), tmp_path / "page.pdf")


def test_without_jinja_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(mf.MissingExtraError, match=r"a page of HTML needs the extra 'lab'"):
        render(Page("Calls", ""))
