"""What forms send: texts of bounded length, keys, and what was typed as numbers or ids."""

from __future__ import annotations

import secrets
from typing import Annotated

from fastapi import Form

from meritfair.core.errors import InputError
from meritfair.core.language import _

Text = Annotated[str, Form(max_length=2000)]
Lines = Annotated[str, Form(max_length=100_000)]
_MOST_DIGITS = 9


def new_key() -> str:
    """Return a key that a form is sent with: sent twice, it has one effect."""
    return secrets.token_urlsafe(12)


def parse_whole(name: str, text: str) -> int | None:
    """Return a whole number; None if nothing was typed.

    Examples
    --------
    >>> parse_whole("cool-down", " 3 "), parse_whole("cool-down", "")
    (3, None)
    """
    typed = text.strip()
    if typed and (not typed.isdecimal() or len(typed) > _MOST_DIGITS):
        raise InputError(_("{name} must be a whole number, got {text}").format(name=name, text=repr(text)))
    return int(typed) if typed else None


def parse_number(name: str, text: str) -> float | None:
    """Return a number, with a point or a comma before its fraction; None if nothing was typed."""
    if not text.strip():
        return None
    try:
        return float(text.replace(",", "."))
    except ValueError:
        raise InputError(_("{name} must be a number, got {text}").format(name=name, text=repr(text))) from None


def parse_ids(text: str) -> list[str]:
    """Return ids that stand in lines of their own."""
    return list(dict.fromkeys(line.strip() for line in text.splitlines() if line.strip()))
