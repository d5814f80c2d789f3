"""Where the numbers that pages print come from: each has a source that a test can read.

Nothing is needed for settings ("N = 20", "30 runs"), references ("Eq. 4"), whole numbers of one digit without a unit,
and what stands in a block of code or output below the same heading. Any other number in a heading, in prose or in a
table has its source in a comment on top of the same paragraph, list or table, which readers of the page do not see::

    <!-- numbers
    benchmarks/recorded/slack-programme.txt
    tests/unit/test_theory.py "longest wait"
    1.35 = exp(3 * 0.1)
    0.2, 300: settings of this simulation
    -->

A file of the repository
    has the number: what a script printed, a test that expects it, the code that has the limit. Words in quotes restrict
    it to lines that have them, which has to be done where there are many numbers. All numbers of a row of a table have
    to be in one line of a ``.txt`` or ``.csv`` file, in the same order; or in two, if the page names two sources.
An expression in Python
    is worked out; it knows the names of `math`, ``np``, ``mf`` and ``ROOT``, the folder of the project.
Numbers before a colon
    are chosen, or facts of others; what follows says why they need no source.

Numbers agree if the source, rounded as on the page, is the number; 5 % is also 0.05.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import meritfair as mf
from docs.printed import fences

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]

_UNIT = (
    r" ?%|[ -](?:times|points?|percentage|nats|[nµm]?s|(?:nano|micro|milli)?seconds?|minutes?|min|hours?|h|[kMG]B)\b"
    r"|(?=(?:, [-−]?[\d.]*\d)* (?:and|or|to) [-−]?[\d.]*\d(?P<shared> %))"  # 53, 79 and 76 %
)
_NUMBER = re.compile(
    r"(?<![\w.^/⁻])(?<!\w-)(?P<value>[-−+]?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)?(?:\.\d+|(?<=\d))(?:e[-+]?\d+)?)"
    rf"(?![\w^/⁻]|\.\d)(?P<unit>{_UNIT})?"
)
_COMMENT = re.compile(r"<!--(?P<text>.*?)-->", re.DOTALL)
_HEADING = re.compile(r"^#+ ", re.MULTILINE)
_NO_PROSE = re.compile(
    r"`[^`\n]*`|\$\$.*?\$\$|\$[^$\n]+(?:\n[^$\n]+)?\$|\]\([^)]*\)|</?[a-z][^>\n]*>|^\s*\d+\. |^#+ [\d.]+ ",
    re.DOTALL | re.MULTILINE,
)
_REFERENCES = (
    r"\b(?:Algorithm|Appendix|Art|Assumption|Condition|Definition|Entry|entry|Eq|Equation|Figure|Lemma|line|OpenAPI|port|"
    r"PostgreSQL|Proposition|Python|RFC|Round|round|Section|SHA|Step|step|Table|Theorem|Version|version|week)s?\.? "
    r"\d[\d.]*(?:(?:, | and | or | to )\d[\d.]*)*"
)
_THINGS = (
    r"(?:arms?|arm-rounds|participants|patients|people|persons|newcomers|men|women|sites|workers|environments|cores|"
    r"bits?|bytes|digits|characters|lanes|policies|data sets|instances|populations|episodes|repetitions|runs?|seeds|"
    r"logs|settings|programmes|steps|rounds?|days|weeks?|months|years?|(?:are )?(?:called|drawn|pulled)|calls?|pulls?|"
    r"draws? a round|a (?:week|round))"
)
_KINDS = r"(?:of the authors' |independent |made-up |other |more |honest )"
_SETTINGS = rf"(?<![\d.,])\d[\d,]*(?:(?:,| to| or| and| ×) \d[\d,]*)* {_KINDS}?{_THINGS}\b"
_GIVEN = re.compile(r"(?P<numbers>[-−+\d.,% e±]+): ")
_EXPRESSION = re.compile(r"(?P<number>[-−+]?[\d.][\d.,]*(?: %)?) = (?P<expression>.+)")
_NEED_NONE = [
    re.compile(_REFERENCES),
    re.compile(_SETTINGS.replace(" ", "[ \n]")),  # the line may be broken there
    re.compile(r"\b(?:19|20)\d\d\b(?! ?%)(?!,)"),  # years
    re.compile(r"\b\w+ ?[=≤≥<>] ?[-−]?\d[\d.,]*(?:, [-−]?\d[\d.,]*)*"),  # N = 20, N, K = 10, 2
    re.compile(r"\b(?:90|95|99) %(?= (?:bootstrap |confidence )*(?:intervals?|limits?|level)\b)"),
]


_MOST = 100  # numbers of a source of prose: among more any number of two digits is found by chance


@dataclass(frozen=True)
class Number:
    """A number as a page or a file prints it, without commas, and the line in which it stands."""

    text: str
    unit: str = ""
    line: int = 0

    def __str__(self) -> str:
        return self.text + (" %" if self.percent else "")

    @property
    def percent(self) -> bool:
        return "%" in self.unit

    @property
    def as_percent(self) -> str:
        return f"{100 * self.value:.6g} %"

    @property
    def is_small(self) -> bool:
        """Whether it is one digit without a unit."""
        return not self.unit and self.text.isdigit() and len(self.text) == 1

    @property
    def value(self) -> float:
        return float(self.text) / (100 if self.percent else 1)

    def agrees(self, value: float) -> bool:
        """Return whether `value`, rounded as this number is, is this number."""
        return self._is_rounded(100 * value if self.percent else value)

    def _is_rounded(self, value: float) -> bool:
        shown, exact = abs(Decimal(self.text)), abs(Decimal(repr(value)))
        half = Decimal(1).scaleb(int(shown.as_tuple().exponent)) / 2 if shown else Decimal(0)
        return exact.is_finite() and abs(exact - shown) <= half * Decimal("1.000001")  # of binary fractions


@dataclass(frozen=True)
class Source:
    """A line of a comment on numbers."""

    text: str
    line: int

    @property
    def is_table(self) -> bool:
        """Whether it is all of what a script printed, or a table: then rows have to agree with rows."""
        return self.text.partition(' "')[0].endswith((".txt", ".csv"))

    def values(self) -> list[list[float]]:
        """Return the numbers that it has; of a file those of each line."""
        if given := _GIVEN.match(self.text):
            return [[number.value for each in given["numbers"].split(", ") for number in numbers_in(each)]]
        if expression := _EXPRESSION.match(self.text):
            return [[self._worked_out(expression)]]
        path, _, words = self.text.partition(' "')
        if not (ROOT / path).is_file():
            raise SourceError(self.line, f"there is no file {path!r}, and it is no expression")
        return [values for line, values in _values_in(ROOT / path) if words.rstrip('"') in line]

    def _worked_out(self, expression: re.Match[str]) -> float:
        names: dict[str, Any] = {**vars(math), "np": np, "mf": mf, "ROOT": ROOT}
        value = float(eval(expression["expression"], names))  # of our own pages
        (shown,) = numbers_in(expression["number"])
        if not shown.agrees(value):
            raise SourceError(self.line, f"{expression['expression']} is {value:.6g}, not {shown}")
        return shown.value


class SourceError(Exception):
    """A source that cannot be used: its line, and what is wrong."""


@dataclass(frozen=True)
class Block:
    """A paragraph, list or table: the numbers of each row that need a source, and the sources that it names."""

    rows: list[list[Number]]
    sources: list[Source]
    is_table: bool

    @property
    def is_measured(self) -> bool:
        """Whether this is a table that a script printed: then each of its numbers is checked."""
        return self.is_table and any(source.is_table for source in self.sources)


def complaints(page: str) -> list[tuple[int, str]]:
    """Return what is wrong with the numbers of a page, with lines; nothing if each has a source."""
    found: list[tuple[int, str]] = []
    for start, section in _sections(page):
        numbers = (number for _, code, *_ in fences(section) for number in numbers_in(code))
        in_code = {each for number in numbers for each in (str(number), number.as_percent)}
        for block in blocks(section):
            try:
                wrong = _complaints_about(block, in_code)
            except SourceError as error:
                wrong = [error.args]
            found += [(start + line, what) for line, what in wrong]
    return sorted(found)


def _sections(page: str) -> Iterator[tuple[int, str]]:
    """Yield what is below each heading, with it, and the number of lines above."""
    starts = [0, *(heading.start() for heading in _HEADING.finditer(_without_code(page))), len(page)]
    return ((page.count("\n", 0, start), page[start:end]) for start, end in pairwise(starts))


def _without_code(page: str) -> str:
    for *_, start, end in fences(page):
        page = page[:start] + _blank(page[start:end]) + page[end:]
    return page


def _complaints_about(block: Block, in_code: set[str]) -> list[tuple[int, str]]:
    found, used = [], set()
    for row in block.rows:
        rest = list(row)
        for source in sorted(block.sources, key=lambda each: each.is_table):  # a row's line may need only the rest
            covered = _covered(rest, source, block.is_table)
            used |= {source} if covered else set()
            for number in covered:  # each once: a row may have a number twice
                rest.remove(number)
        if not block.is_measured:
            rest = [number for number in rest if not (number.is_small or str(number) in in_code)]
        found += [(n.line, f"{n} is in none of its sources" if block.sources else f"{n} has no source") for n in rest]
    unused = [source for source in block.sources if source not in used]
    return found + [(source.line, f"no number here comes from {source.text!r}") for source in unused]


def _covered(numbers: list[Number], source: Source, in_table: bool) -> list[Number]:
    """Return those of `numbers` that a source has: for a row of a table, in the line of a file that has the most."""
    lines = source.values()
    if in_table and source.is_table:
        return max((_in_order(numbers, line) for line in lines), key=len, default=[])
    values = [*chain.from_iterable(lines)]
    if len(values) > _MOST:
        raise SourceError(
            source.line, f"{source.text!r} has {len(values)} numbers: name words of the lines that are meant"
        )
    return [number for number in numbers if any(map(number.agrees, values))]


def _in_order(numbers: list[Number], line: list[float]) -> list[Number]:
    """Return the longest subsequence of `numbers` that agree with values of a line in the same order."""
    best: list[list[Number]] = [[] for _ in range(len(line) + 1)]
    for number in numbers:
        agree = [number.agrees(value) for value in line]
        longer = [best[0]]
        for at, agrees in enumerate(agree):
            longer.append(max(best[at] + [number] * agrees, best[at + 1], longer[at], key=len))
        best = longer
    return best[-1]


def blocks(page: str) -> Iterator[Block]:
    """Yield the paragraphs, lists and tables of a page that have numbers or sources."""
    line = 1
    for part in re.split(r"(\n[ \t]*(?=\n))", _without_code(page)):
        sources = [source for comment in _COMMENT.finditer(part) for source in _sources(part, comment, line)]
        text = _COMMENT.sub(lambda match: _blank(match[0]), part)
        is_table = any(row.lstrip().startswith("|") for row in text.splitlines())
        text = _NO_PROSE.sub(lambda match: _blank(match[0]), text)
        numbers = [replace(number, line=line + number.line) for number in numbers_of_prose(text)]
        rows = [[n for n in numbers if n.line == row] for row in sorted({n.line for n in numbers})]
        if numbers or sources:
            yield Block(rows if is_table else [numbers], sources, is_table)
        line += part.count("\n")


def _sources(part: str, comment: re.Match[str], line: int) -> Iterator[Source]:
    name, *items = comment["text"].split("\n")
    if name.strip() == "numbers":
        first = line + part.count("\n", 0, comment.start()) + 1
        yield from (Source(item.strip(), number) for number, item in enumerate(items, first) if item.strip())


def numbers_of_prose(text: str) -> Iterator[Number]:
    """Yield the numbers of prose but for settings, references and years."""
    for pattern in _NEED_NONE:
        text = pattern.sub(lambda match: _blank(match[0], "x"), text)
    return (_number(match, text.count("\n", 0, match.start())) for match in _NUMBER.finditer(text))


def numbers_in(text: str) -> Iterator[Number]:
    """Yield all numbers of a text."""
    return (_number(match) for match in _NUMBER.finditer(text))


def _number(match: re.Match[str], line: int = 0) -> Number:
    return Number(match["value"].replace(",", "").replace("−", "-"), match["unit"] or match["shared"] or "", line)


@cache
def _values_in(path: Path) -> list[tuple[str, list[float]]]:
    lines = re.sub(r"(?<=\d)_(?=\d)", "", path.read_text(encoding="utf-8")).splitlines()
    return [(line, [number.value for number in numbers_in(line)]) for line in lines]


def _blank(text: str, by: str = " ") -> str:
    return re.sub(r"[^\n]", by, text)
