"""Languages of the pages, by Babel: texts from one catalogue for each, numbers and days as people there write them.

English is written in the code and the templates; every other language is a file ``locale/LANGUAGE.po``. Regions matter
for numbers and days alone: a reader from the United Kingdom and one from the United States see the same texts.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from babel import Locale, UnknownLocaleError
from babel.dates import format_date, format_datetime
from babel.messages.catalog import Catalog
from babel.messages.pofile import read_po
from babel.numbers import format_decimal
from starlette.types import Receive, Scope, Send

from meritfair.core.language import Language, speaking

CATALOGUES = Path(__file__).parent / "locale"
LANGUAGES = {"en": "English", "de": "Deutsch"}
COOKIE = "meritfair_language"


class BabelLanguage(Language):
    """A language as it is written in some region."""

    def __init__(self, locale: Locale) -> None:
        self.locale, self.code, self.name = locale, locale.language, LANGUAGES[locale.language]
        self._catalogue = _catalogue(locale.language)

    def gettext(self, message: str) -> str:
        found = self._catalogue.get(message)
        return str(found.string) if found is not None and found.string else message

    def ngettext(self, singular: str, plural: str, number: float) -> str:
        found = self._catalogue.get(singular)
        place = 0 if self.locale.plural_form(number) == "one" else 1  # English and German have two forms
        forms = () if found is None or isinstance(found.string, str) else tuple(found.string or ())
        return forms[place] if len(forms) == 2 and forms[place] else super().ngettext(singular, plural, number)

    def decimal(self, value: float, digits: int = 0) -> str:
        return format_decimal(value, format="#,##0" + "." * bool(digits) + "0" * digits, locale=self.locale)

    def day(self, time: datetime) -> str:
        return format_date(time, "medium", locale=self.locale)

    def moment(self, time: datetime) -> str:
        return format_datetime(time, "medium", locale=self.locale)


@cache
def _catalogue(language: str) -> Catalog:
    file = CATALOGUES / f"{language}.po"
    if not file.exists():
        return Catalog(locale=language)
    with file.open("rb") as stream:
        return read_po(stream, locale=language)


@lru_cache(1000)  # whoever asks can make up any tag
def language_of(tag: str) -> BabelLanguage | None:
    """Return the language of a tag such as ``de-AT``, None if the pages are not in it."""
    try:
        locale = Locale.parse(tag, sep="-")
    except (UnknownLocaleError, ValueError):
        return None
    return BabelLanguage(locale) if locale.language in LANGUAGES else None


def choose(chosen: str, accepted: str) -> BabelLanguage:
    """Return the language that a reader has chosen or, if none, the first that their browser asks for.

    Examples
    --------
    >>> choose("", "fr, de-AT;q=0.9, en;q=0.8").code
    'de'
    >>> choose("en", "de").code
    'en'
    """
    wanted = [part.partition(";")[0].strip() for part in accepted.split(",")][:10]
    tags = [tag for tag in wanted if tag and len(tag) <= 12]
    if chosen in LANGUAGES:  # the region still follows from the browser
        tags = [*(tag for tag in tags if tag.partition("-")[0] == chosen), chosen]
    found = next((found for tag in tags if (found := language_of(tag)) is not None), None)
    return found or BabelLanguage(Locale("en"))


class ReaderLanguage:
    """Middleware: sets the language while a request is answered."""

    def __init__(self, app: Callable[[Scope, Receive, Send], Awaitable[Any]]) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request in its reader's language."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        from starlette.requests import HTTPConnection

        asked = HTTPConnection(scope)
        with speaking(choose(asked.cookies.get(COOKIE, ""), asked.headers.get("accept-language", ""))):
            await self._app(scope, receive, send)
