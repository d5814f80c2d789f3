"""A language that is no language: every text of the catalogue is in brackets, so whatever is outside was forgotten."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime
from html.parser import HTMLParser
from typing import Any

from meritfair.core.language import Language

_ATTRIBUTES = ("aria-label", "title", "placeholder", "alt", "data-copied", "label")
_UNSEEN = ("script", "style", "pre")
# What is shown as it is: hashes, names of formats and of this program, and languages by their own names.
_DATA = re.compile(
    r"\b(?:[0-9a-f]{8,}…?|[0-9a-f]{4}(?:-[0-9a-f]{4}){2}|mf_[\w-]{40,}|\d{4}-\d\d-\d\dT[\d:]+Z|UTC|meritfair|drand|English|Deutsch|CSV|SVG|PNG|JSON|HTML|Parquet|https?://\S+|verify\.py|HEAD"
    r"|python verify\.py(?: --head HEAD)?)(?!\w)"
)


class Pseudo(Language):
    """Texts in brackets, numbers with another point."""

    code = "en"
    name = "English"

    def gettext(self, message: str) -> str:
        return f"⟦{message}⟧" if message else ""

    def ngettext(self, singular: str, plural: str, number: float) -> str:
        return self.gettext(super().ngettext(singular, plural, number))

    def decimal(self, value: float, digits: int = 0) -> str:
        return super().decimal(value, digits).replace(".", "·").replace(",", "’")

    def day(self, time: datetime) -> str:
        return f"⟦{time:%d/%m}⟧"

    moment = day


class _Page(HTMLParser):
    """Collects what people see or hear of a page, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._unseen = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._unseen += tag in _UNSEEN
        known = dict(attrs)
        for name in _ATTRIBUTES:
            if known.get(name):
                self.texts.append(f"\n{known[name]}\n")
        if tag == "input" and known.get("type") in ("submit", "button"):
            self.texts.append(f"\n{known.get('value')}\n")
        if known.get("data-chart"):
            self.texts += (f"\n{text}\n" for text in _of_chart(json.loads(known["data-chart"] or "")))

    def handle_endtag(self, tag: str) -> None:
        self._unseen -= tag in _UNSEEN
        inline = tag in ("b", "strong", "em", "a", "span", "code", "small", "time")
        self.texts.append(" " if inline else "\n")

    def handle_data(self, data: str) -> None:
        if not self._unseen:
            self.texts.append(data)


def _of_chart(spec: dict[str, Any]) -> Iterator[str]:
    yield from (spec["x_label"], spec["y_label"], spec["unit"], *spec["names"])
    yield from (each["name"] for each in (*spec["levels"], *spec["curves"]))


def visible(html: str) -> str:
    """Return all that people see or hear of a page."""
    page = _Page()
    page.feed(html)
    return "".join(page.texts)


def forgotten(html: str, known: tuple[str, ...]) -> list[str]:
    """Return the texts of a page that are neither in brackets nor known to be data."""
    kept, depth = "", 0
    for letter in visible(html):
        depth += letter == "⟦"
        kept += letter if depth == 0 else "\0" * (letter == "⟦")
        depth -= letter == "⟧"
    assert depth == 0, "brackets are cut"
    texts = [" ".join(text.split()) for text in re.split("[\n\0]", kept)]
    return [text for text in texts if re.search(r"[^\W\d_]", _without(text, known))]


def _without(text: str, known: tuple[str, ...]) -> str:
    """Return a text without what is data."""
    for each in sorted(known, key=len, reverse=True):
        text = re.sub(rf"(?<!\w){re.escape(each)}(?!\w)", "", text)
    return _DATA.sub("", text)


def points(html: str) -> list[str]:
    """Return the numbers of a page that have an English decimal point; addresses and versions may."""
    return re.findall(r".{0,30}\d\.\d.{0,20}", re.sub(r"https?://\S+|meritfair\s+\S+", "", visible(html)))
