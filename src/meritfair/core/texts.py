"""Text on its way out: to people, a terminal, a figure, a spreadsheet; and back from there."""

from __future__ import annotations

import re
from collections.abc import Sequence

# Control characters, separators of lines, marks that change the direction of all that follows, and surrogates, which
# cannot be encoded. Joiners and no-break spaces stay: names have them.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_FORMULA = re.compile(r"'*[=+\-@\t\r\n]")


def printable(text: str) -> str:
    r"""Return a text in which characters that would control a terminal are written out.

    Examples
    --------
    >>> print(printable("\x1b[31mAda\n"))
    \x1b[31mAda\n
    """
    return _UNPRINTABLE.sub(lambda found: repr(found[0])[1:-1], text)


def shortened(text: str, most: int = 100) -> str:
    """Return a text that has at most about this many characters: of a longer one, the start and the end.

    Examples
    --------
    >>> shortened("Ada"), shortened("x" * 1000, 20)
    ('Ada', 'xxxxxxxxxxxxxxx … (1,000 characters) … xxxxx')
    """
    if len(text) <= most:
        return text
    end = most // 4
    return f"{text[: most - end]} … ({len(text):,} characters) … {text[len(text) - end :]}"


def quoted(value: object) -> str:
    """Return a value as an error quotes it.

    Examples
    --------
    >>> print(quoted("no"), len(quoted("x" * 100_000)) < 130)
    'no' True
    """
    return shortened(repr(value))


def listed(names: Sequence[str], most: int = 20) -> str:
    """Return names for a message, not more of them than a person would read, and none very long.

    Examples
    --------
    >>> listed(["Ada", "Bo", "Cy"], 2)
    'Ada, Bo and 1 more'
    """
    more = len(names) - most
    return ", ".join(map(shortened, names[:most])) + (f" and {more:,} more" if more > 0 else "")


def for_figure(text: str) -> str:
    r"""Return a text in one line that Matplotlib draws as it is, and not as mathematics.

    Examples
    --------
    >>> print(for_figure("$\\frac{$\nAda"))
    \$\frac{\$ Ada
    """
    return printable(" ".join(text.split())).replace("$", r"\$")


def to_spreadsheet(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula: after an apostrophe, if it begins like one.

    Examples
    --------
    >>> to_spreadsheet("=1+1"), to_spreadsheet("Ada"), from_spreadsheet(to_spreadsheet("=1+1"))
    ("'=1+1", 'Ada', '=1+1')
    """
    return f"'{text}" if _FORMULA.match(text) else text


def from_spreadsheet(text: str) -> str:
    """Return the text of which `to_spreadsheet` made this one."""
    return text[1:] if text[:1] == "'" and _FORMULA.match(text) else text


def several(number: int, word: str, plural: str = "") -> str:
    """Return a number of things.

    Examples
    --------
    >>> several(1, "run"), several(1000, "run"), several(2, "policy", "policies")
    ('1 run', '1,000 runs', '2 policies')
    """
    return f"{number:,} {word if number == 1 else plural or word + 's'}"


def duration(seconds: float) -> str:
    """Return a time as people say it.

    Examples
    --------
    >>> duration(4.2), duration(252), duration(7322)
    ('4 s', '4 min 12 s', '2 h 2 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60} min"
