"""Heads that were kept elsewhere: their short codes, and the lines of a file of them.

The head of a ledger is the hash of its last entry, and stands for all entries up to it. Whoever owns the database could
rewrite a ledger with all of its hashes; then it lacks a head that someone has kept. No head covers what was entered
after it.

A *short code* is the first 12 of the 64 hexadecimal digits, to be printed and read out. To make another ledger whose
entry has the same short code takes about :math:`2^{48}` tries, which is days on a large machine: a whole head is better
wherever it can be copied.

A file of heads has one in each line: time, name and identity of the programme, round, number of the entry, and the
head, with tabs between them. Lines that begin with # say nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass

from meritfair.core.errors import InputError
from meritfair.core.texts import printable

SHORT, WHOLE = 12, 64  # hexadecimal digits
HEADER = "# heads of meritfair: time, programme, identity, round, entry, head"
_FIELDS = 6


@dataclass(frozen=True)
class KeptHead:
    """A head, and what it is the head of.

    Attributes
    ----------
    time : str
        Of the entry.
    programme, identity : str
        The name of the programme, and its 32 hexadecimal digits.
    round, entry : int
        The last round, and the number of the last entry.
    head : str
        The hash of that entry.
    """

    time: str
    programme: str
    identity: str
    round: int
    entry: int
    head: str

    def line(self) -> str:
        """Return the line of a file, without its end; a name has no tab in it."""
        return "\t".join(printable(str(each)) for each in astuple(self))


def short_code(head: str) -> str:
    """Return the short code of a head.

    Examples
    --------
    >>> short_code("6f523e21ba67" + 52 * "0")
    '6f52-3e21-ba67'
    """
    return "-".join(head[place : place + 4] for place in range(0, SHORT, 4))


def check_head(text: str) -> str:
    """Return a head, or the beginning of one, as hexadecimal digits; refuse what is neither.

    Examples
    --------
    >>> check_head(" 6F52-3e21-ba67 ")
    '6f523e21ba67'
    >>> check_head("6f52")
    Traceback (most recent call last):
    ...
    meritfair.core.errors.InputError: a head has 64 hexadecimal digits, a short code at least 12 of them, got '6f52'
    """
    head = re.sub(r"[\s-]", "", text).lower()
    if not re.fullmatch(f"[0-9a-f]{{{SHORT},{WHOLE}}}", head):
        raise InputError(
            f"a head has {WHOLE} hexadecimal digits, a short code at least {SHORT} of them, got {text.strip()!r}"
        )
    return head


def read_heads(text: str, programme: str, identity: str, where: str = "heads") -> list[str]:
    r"""Return the heads of a programme in the text of a file, each once: lines as they are kept, or heads alone.

    Lines of other programmes are passed over; what is neither is refused, by its line. A line that has the name of the
    programme and another identity counts: whoever put a new ledger in the place of the old one is found by it.

    Examples
    --------
    >>> line = KeptHead("2026-11-17T09:00:00Z", "calls", 32 * "a", 1, 3, 64 * "b").line()
    >>> read_heads(f"{HEADER}\n{line}\n6f52-3e21-ba67", "calls", 32 * "a") == [64 * "b", "6f523e21ba67"]
    True
    >>> read_heads(line, "visits", 32 * "c")
    []
    """
    found = dict.fromkeys(
        head
        for number, line in _lines(text)
        if (head := _head_in(line, printable(programme), identity, f"{where}, line {number}"))
    )
    return list(found)


def _lines(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), start=1):
        if line.strip() and not line.lstrip().startswith("#"):
            yield number, line


def _head_in(line: str, programme: str, identity: str, where: str) -> str:
    """Return the head in a line; empty if it is that of another programme."""
    fields = line.rstrip().split("\t")
    try:
        if len(fields) != _FIELDS:
            return check_head(line)
        head = check_head(fields[5])
        if len(head) == WHOLE and re.fullmatch("[0-9a-f]{32}", fields[2]):
            return head if programme == fields[1] or identity == fields[2] else ""
    except InputError:
        pass
    raise InputError(f"{where}: neither a head that was kept nor a line of a file of heads, got {line.strip()!r}")


def matching(head: str, hashes: Iterable[str]) -> list[str]:
    """Return those of some hashes that a head, or a short code, stands for."""
    return [each for each in hashes if each.startswith(head)]
