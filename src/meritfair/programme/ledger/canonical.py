r"""Canonical bytes: one form for each value, so that anyone who hashes it gets the same hash.

It is the canonical JSON of RFC 8785, restricted to what has the same form everywhere: objects whose keys have only
characters below U+D800, which all languages sort alike; lists, texts, whole numbers below :math:`2^{53}`, true, false
and null. There are no decimal numbers: settings that have some are kept as texts.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from meritfair.core.errors import InputError
from meritfair.core.json_values import from_json

_FIRST_SURROGATE = "\ud800"
LARGEST = 2**53  # beyond this, readers in other languages may round whole numbers


def canonical(value: Any) -> bytes:
    """Return the canonical bytes of a value.

    Examples
    --------
    >>> canonical({"b": [1, None], "a": "Ada"})
    b'{"a":"Ada","b":[1,null]}'
    >>> canonical({"slack": 0.5})
    Traceback (most recent call last):
    ...
    meritfair.core.errors.InputError: a ledger holds texts and whole numbers below 2^53, got 0.5
    """
    _check(value)
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        raise InputError("a text has half of a character in it (a lone surrogate), which cannot be kept") from None


def from_canonical(data: bytes) -> Any:
    """Return the value of canonical bytes; refuse bytes that are not in canonical form."""
    try:
        value = from_json(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise InputError(f"not JSON in UTF-8: {error}") from None
    if canonical(value) != data:
        raise InputError("not in canonical form")
    return value


def sha256(*parts: bytes) -> bytes:
    """Return the SHA-256 hash of these bytes, one after another."""
    return hashlib.sha256(b"".join(parts)).digest()


def _check(value: Any) -> None:
    """Refuse a value that has no canonical form."""
    if isinstance(value, dict):
        for key, each in value.items():
            if not isinstance(key, str) or any(character >= _FIRST_SURROGATE for character in key):
                raise InputError(f"names in a ledger are texts without rare characters (from U+D800 on), got {key!r}")
            _check(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            _check(each)
    elif isinstance(value, bool) or value is None or isinstance(value, str):
        return
    elif not isinstance(value, int) or abs(value) >= LARGEST:
        raise InputError(f"a ledger holds texts and whole numbers below 2^53, got {value!r}")
