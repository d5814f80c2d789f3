"""Pages as blocks of code with the output that they show, and the comparison of shown with printed output.

A ``text`` block right after a ``python`` or ``sh`` block is its output. Words have to be equal, however lines are
broken. A number may differ by `RELATIVE` if it has decimals, and not at all if it has none. What is different each time
may be anything of its kind: a time with its unit, a version, a date. Anything else that is, or that a page leaves out,
is ``…`` (or ``...``): alone it stands for any words, within a word for any letters. A ``text`` block elsewhere is part
of what was recorded in a file, which a comment above it names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from math import isclose
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RELATIVE = 0.002

_FENCE = re.compile(r"^(?P<fence>`{3,})(?P<language>[^\n`]*)\n(?P<code>.*?)^(?P=fence)[ ]*$", re.MULTILINE | re.DOTALL)
_SOURCE = re.compile(r"<!-- output\n(?P<file>\S+)\n-->\n\Z")
_UNITS = r"(?:ms|s|min|h|seconds?|minutes?|hours?)"
_ANYTHING = {"…", "..."}
_PIECE = re.compile(
    r"(?P<time>\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?Z?)?|\d\d:\d\d:\d\d)"
    r"|(?P<version>\d+\.\d+\.\d+\w*)"
    r"|(?P<number>(?<![\w.])[-+−]?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+|(?<=\d)\.?)(?:e[-+]?\d+)?(?![\w]))"
    r"|(?P<open>…|\.\.\.)"
)


@dataclass(frozen=True)
class Block:
    """A block of code that is run, and the output that the page shows for it, "" if none; with the lines of both."""

    language: str
    code: str
    line: int
    shown: str = ""
    shown_line: int = 0


@dataclass(frozen=True)
class Mismatch:
    """Where shown and printed output begin to differ."""

    line: int
    expected: str
    got: str

    def __str__(self) -> str:
        return f"line {self.line}: expected {self.expected!r}, got {self.got!r}"


def fences(page: str) -> Iterator[tuple[str, str, int, int, int]]:
    """Yield for each fenced block its language, its code, the number of the code's first line, its start and end."""
    for match in _FENCE.finditer(page):
        line = page.count("\n", 0, match.start("code")) + 1
        yield match["language"].strip(), match["code"], line, match.start(), match.end()


def blocks(page: str) -> list[Block]:
    """Return the ``python`` and ``sh`` blocks of a page, each with the ``text`` block right after it."""
    found: list[Block] = []
    end_of_last = -1  # of a block that may have output
    for language, code, line, start, end in fences(page):
        if language in ("python", "sh"):
            found.append(Block(language, code, line))
            end_of_last = end
        elif language == "text" and end_of_last >= 0 and not page[end_of_last:start].strip():
            last = found.pop()
            found.append(Block(last.language, last.code, last.line, code, line))
            end_of_last = -1
    return found


def strays(page: str) -> list[tuple[str, int, str]]:
    """Return the ``text`` blocks that are output of no block: code, first line, and the file named above as the source.

    ::

        <!-- output
        benchmarks/recorded/reproduce.txt
        -->
    """
    shown = {block.shown_line for block in blocks(page)}
    found = []
    for language, code, line, start, _ in fences(page):
        if language == "text" and line not in shown:
            source = _SOURCE.search(page[:start])
            found.append((code, line, source["file"] if source else ""))
    return found


def mismatch(shown: str, printed: str, first_line: int = 1) -> Mismatch | None:
    """Compare shown with printed output: where they begin to differ, or None if they agree."""
    wanted = [(number, word) for number, line in enumerate(shown.splitlines(), first_line) for word in _words(line)]
    got = [(number, word) for number, line in enumerate(printed.splitlines()) for word in _words(line)]
    furthest = (0, 0)

    @cache
    def agree(i: int, j: int) -> bool:  # from wanted word i and printed word j on
        nonlocal furthest
        while i < len(wanted) and wanted[i][1] not in _ANYTHING:
            furthest = max(furthest, (i, j))
            following = wanted[i + 1][1] if i + 1 < len(wanted) else ""
            if j == len(got) or not _same(wanted[i][1], got[j][1], following):
                return False
            i, j = i + 1, j + 1
        furthest = max(furthest, (i, j))
        if i == len(wanted):
            return j == len(got)
        return any(agree(i + 1, skipped) for skipped in range(j, len(got) + 1))

    if agree(0, 0):
        return None
    i, j = furthest
    line = wanted[i][0] if i < len(wanted) else first_line + len(shown.splitlines())
    expected = shown.splitlines()[line - first_line].strip() if i < len(wanted) else "nothing more"
    return Mismatch(line, expected, printed.splitlines()[got[j][0]].strip() if j < len(got) else "nothing more")


def _words(line: str) -> list[str]:
    line = re.sub(r"\d+ (?:h|min) (?=\d+ (?:min|s)\b)", "", line)  # "1 min 2 s" is a time as "4 s" is
    line = re.sub(rf"(?<=\d) ?{_UNITS}\b", " s", line)  # any time agrees with any other, so units do
    return re.sub("─+", "─", line).split()


def _same(wanted: str, got: str, following: str) -> bool:
    """Whether two words agree; the word after the first may say that it is a time."""
    if wanted == got:
        return True
    pieces = list(_PIECE.finditer(wanted))
    pattern, end = "", 0
    for piece in pieces:
        pattern += re.escape(wanted[end : piece.start()])
        kinds = {"time": r"[-\d:TZ]+", "version": r"\d+\.\d+\S*?", "number": r"([-+−]?[\d.,]*\d(?:e[-+]?\d+)?)"}
        pattern += kinds.get(str(piece.lastgroup), ".*")
        end = piece.end()
    found = re.fullmatch(pattern + re.escape(wanted[end:]), got)
    if found is None:
        return False
    if re.fullmatch(_UNITS, following.strip(".,;:()")):
        return True
    numbers = [piece["number"] for piece in pieces if piece.lastgroup == "number"]
    return all(map(_close, numbers, found.groups()))


def _close(wanted: str, got: str) -> bool:
    if wanted.lstrip("-+−").replace(",", "").isdigit():
        return wanted.replace(",", "") == got.replace(",", "")
    one, other = (float(each.replace(",", "").replace("−", "-")) for each in (wanted, got))
    return isclose(one, other, rel_tol=RELATIVE)


def located(page: Path, found: Mismatch, printed: str) -> str:
    """Return the message of a mismatch: file, line, both lines, and all that was printed, to be copied."""
    return f"{page.name}, {found}\n--- all that was printed:\n{printed}"
