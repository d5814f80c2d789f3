"""What a programme may be called, and which names are the same to people.

A name stands in addresses, in the ledger and in what people say to each other, so two programmes of a store never have
names that look alike: in capitals or not, with other spaces, or in other forms of the same characters (NFKC).
"""

from __future__ import annotations

import unicodedata

from meritfair.core.errors import InputError
from meritfair.core.texts import quoted

LONGEST = 100  # characters
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"}  # categories of what is not seen, or may be anything
_BLANK = "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"  # letters and marks that look like nothing, or a space


def check_name(name: str) -> str:
    r"""Return the name of a new programme without spaces around it, if it can be one.

    Examples
    --------
    >>> check_name(" clinic ")
    'clinic'
    >>> check_name("cli\u00adnic")
    Traceback (most recent call last):
    ...
    meritfair.core.errors.InputError: the name of a programme has 1 to 100 characters, ...; got 'cli\xadnic'
    """
    found = unicodedata.normalize("NFC", name).strip()
    if not found.strip(" .") or len(found) > LONGEST or any(map(_is_hidden, found)):
        problem = f"has 1 to {LONGEST} characters, all of which can be seen, and not only dots"
        raise InputError(f"the name of a programme {problem}; got {quoted(name)}")
    if found == "*" or "/" in found or "\\" in found:
        raise InputError(
            f"the name of a programme has no / or \\ and is not *, which stands for all; got {quoted(name)}"
        )
    return found


def folded(name: str) -> str:
    r"""Return what is the same for names that people would take for the same.

    Examples
    --------
    >>> folded("CLINIC") == folded(" clinic"), folded("Straße\u00a01") == folded("STRASSE 1")
    (True, True)
    """
    once = unicodedata.normalize("NFKC", name).casefold()
    return " ".join(unicodedata.normalize("NFKC", once).split())


def _is_hidden(character: str) -> bool:
    return character in _BLANK or (character != " " and unicodedata.category(character) in _HIDDEN)
