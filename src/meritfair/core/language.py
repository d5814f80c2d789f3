"""The language in which people are spoken to: a context variable, English unless someone sets another.

Texts are marked by `_` and `ngettext` where they are written, with names in braces for what is put in:
``_("Round {number}").format(number=3)``. A server sets the language of each request (`speaking`); all that is made
meanwhile, in the same thread or task, is in that language. Numbers and days are written as the language does.

Examples
--------
>>> _("Round {number}").format(number=3)
'Round 3'
>>> ngettext("{n} person", "{n} people", 2).format(n=2)
'2 people'
>>> current().decimal(1234.5, 1)
'1,234.5'
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime


class Language:
    """English, which needs no catalogue; other languages override what differs."""

    code = "en"
    name = "English"

    def gettext(self, message: str) -> str:
        """Return a text in this language."""
        return message

    def ngettext(self, singular: str, plural: str, number: float) -> str:
        """Return the form of a text for this number."""
        return singular if number == 1 else plural

    def decimal(self, value: float, digits: int = 0) -> str:
        """Return a number with this many digits behind the point."""
        return f"{value:,.{digits}f}"

    def day(self, time: datetime) -> str:
        """Return a day."""
        return f"{time:%Y-%m-%d}"

    def moment(self, time: datetime) -> str:
        """Return a day and the time of day."""
        return f"{time:%Y-%m-%d %H:%M}"


ENGLISH = Language()
_CURRENT: ContextVar[Language] = ContextVar("language", default=ENGLISH)


def current() -> Language:
    """Return the language that is spoken here."""
    return _CURRENT.get()


@contextmanager
def speaking(language: Language) -> Iterator[None]:
    """Speak a language until the block ends."""
    token = _CURRENT.set(language)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def _(message: str) -> str:
    """Return a text in the current language."""
    return _CURRENT.get().gettext(message)


def ngettext(singular: str, plural: str, number: float) -> str:
    """Return the form of a text for this number, in the current language."""
    return _CURRENT.get().ngettext(singular, plural, number)
