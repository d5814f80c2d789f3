"""Words for numbers: each artefact has a template, ``templates/<name>.md.jinja``, that is filled in with its numbers.

A filled-in template is text in sections, each under a heading:

==================  ============================================================================================
heading             section
==================  ============================================================================================
``## about``        a paragraph; so are ``## headline`` and ``## caption``
``## remark``       a paragraph for each line below the figure
``## claim NAME``   four paragraphs: what the paper says, where, the numbers behind the verdict, and when it holds
``## table NAME``   a title, then rows of cells between bars, the headings first
==================  ============================================================================================

What several templates share is in ``templates/shared.jinja``. An artefact's Python gives numbers and verdicts only; a
name that a template does not find is an error.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from meritfair.core.pages import page_templates
from meritfair.core.texts import several
from meritfair.lab.resampling import above, below, interval_columns, percent, shown, span, tally
from meritfair.lab.spec import Setting
from meritfair.reproduction.artefact import DATASETS, Findings, Length, PaperTable, Scale, Specs, Verdict
from meritfair.simulation.bootstrap import Interval

if TYPE_CHECKING:
    import jinja2

Rows: TypeAlias = Sequence[Mapping[str, Any]]
_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


class Standing(NamedTuple):
    """How a claim stands, by a sign and by words, for those who see no colours."""

    key: str
    sign: str
    words: str


STANDINGS = {
    True: Standing("yes", "✓", "holds"),
    False: Standing("no", "✗", "does not hold"),
    None: Standing("open", "?", "inconclusive"),
}


def standing(holds: bool | None) -> Standing:
    """Return how a claim stands.

    Examples
    --------
    >>> standing(None).words
    'inconclusive'
    """
    return STANDINGS[None if holds is None else bool(holds)]


def count_verdicts(verdicts: Iterable[Verdict], whose: str) -> str:
    """Return in words how many claims hold and how many do not; nothing if there are none.

    Examples
    --------
    >>> count_verdicts([Verdict("", "", holds, "") for holds in (True, True, None)], "of the paper")
    'Of 3 claims of the paper, 2 hold and 1 is inconclusive.'
    """
    found = Counter(standing(each.holds).key for each in verdicts)
    return str(_shared().count(found, whose)) if found else ""


@lru_cache(maxsize=1)
def environment() -> jinja2.Environment:
    """Return what renders all templates: text as it is, HTML escaped; a name that is not there is an error."""
    made = page_templates("meritfair.reproduction")
    filters = (shown, shown_percent, percent, span, span_percent, tally, several, power, standing, above, below, marked)
    made.filters |= {each.__name__: each for each in filters}
    made.tests |= {"above": above, "below": below, "infinite": math.isinf}  # above and below: surely, by the interval
    return made


def _shared(**values: Any) -> Any:
    """Return what templates share, to be called from here."""
    return environment().get_template("shared.jinja").make_module(values)


def compose(
    template: str,
    scale: Scale,
    numbers: Any,
    *,
    specs: Callable[[Scale], Specs],
    verdicts: Mapping[str, bool | None],
    tables: Mapping[str, Rows],
    at_any_length: Collection[str] = (),
    **values: Any,
) -> Findings:
    """Return the findings of an artefact, in the words of its template.

    Parameters
    ----------
    template : str
        The name of its file, without suffix.
    scale : Scale
    numbers : Any
        What is drawn.
    specs : callable
        Those of the artefact, which say how long its runs are.
    verdicts : mapping of str to bool or None
        Which claims hold, by the names that the template has for them, in order.
    tables : mapping of str to rows
        For files, by name: a row maps columns to values, and an interval takes three columns.
    at_any_length : collection of str
        Claims that a run of any length can speak against. Others are about runs of the full length: a quick look can
        speak for them, but not against.
    **values
        What the template needs besides `scale`, `numbers`, `tables` and `verdicts`.
    """
    length = Length.of(specs, scale)
    given = {"scale": scale, "numbers": numbers, "verdicts": verdicts, "tables": tables, **values}
    _, *parts = _HEADING.split(environment().get_template(f"{template}.md.jinja").render(given))
    sections = dict(zip(parts[::2], map(_paragraphs, parts[1::2]), strict=True))

    def verdict(name: str, holds: bool | None) -> Verdict:
        claim, where, found, rule = sections[f"claim {name}"]
        if name in at_any_length or scale.answer(holds) == holds:
            return Verdict(claim, where, holds, found, rule)
        return Verdict(claim, where, None, f"{found} {_shared().too_short(length)}", rule)

    return Findings(
        numbers,
        about=" ".join(sections["about"]),
        caption=" ".join(sections["caption"]),
        remark="\n".join(sections["remark"]),
        tables=tuple(_table(name, rows, sections[f"table {name}"]) for name, rows in tables.items()),
        verdicts=tuple(verdict(*each) for each in verdicts.items()),
        headline=" ".join(sections["headline"]),
    )


def _paragraphs(text: str) -> list[str]:
    """Return the paragraphs of a section, each in one line; rows of a table stay rows."""
    rows = [line.strip() for line in text.splitlines() if line.lstrip().startswith("|")]
    rest = "\n".join(line.strip() for line in text.splitlines() if not line.lstrip().startswith("|"))
    return [" ".join(each.split()) for each in rest.split("\n\n") if each.strip()] + rows


def _table(name: str, rows: Rows, section: Sequence[str]) -> PaperTable:
    title, headings, *cells = section
    split = [[cell.strip() for cell in row[1:-1].split("|")] for row in (headings, *cells)]
    return PaperTable(name, title, split[0], split[1:], _columns(rows))


def place(setting: Setting) -> dict[str, Any]:
    """Return the columns of a table that say which data set and size a row is about."""
    return {"dataset": DATASETS[setting.dataset], "n_arms": setting.n_arms, "budget": setting.budget}


def _columns(rows: Rows) -> dict[str, list[Any]]:
    """Return the columns of a file.

    Examples
    --------
    >>> _columns([{"n_arms": 5, "G": Interval(2.0, 1.0, 3.0)}])
    {'n_arms': [5], 'G': [2.0], 'G_low': [1.0], 'G_high': [3.0]}
    """
    columns: dict[str, list[Any]] = {}
    for name, first in rows[0].items():
        values = [row[name] for row in rows]
        columns |= interval_columns(name, values) if isinstance(first, Interval) else {name: values}
    return columns


def shown_percent(value: Interval, digits: int = 0) -> str:
    """Return a part of 1 and its interval as text.

    Examples
    --------
    >>> shown_percent(Interval(0.5, 0.254, 0.75), 1), shown_percent(Interval(0.5, math.nan, math.nan))
    ('50.0 % (25.4 to 75.0)', '50 %')
    """
    mean, space, ends = shown(Interval(*(100 * each for each in value)), digits).partition(" ")
    return f"{mean} %{space}{ends}"


def marked(text: str, censored: float) -> str:
    """Return the text of a number, with a sign before it if it is only a lower bound, as some runs ended too early.

    Examples
    --------
    >>> marked("7.0", 2), marked("7.0", 0)
    ('≥ 7.0', '7.0')
    """
    return f"≥ {text}" if censored else text


def span_percent(parts: Iterable[float], digits: int = 0) -> str:
    """Return the least and the largest of several parts of 1 as text.

    Examples
    --------
    >>> span_percent([0.5, 0.25])
    '25 to 50 %'
    """
    return f"{span((100 * each for each in parts), digits)} %"


def power(value: float) -> str:
    """Return a large number by its power of ten.

    Examples
    --------
    >>> power(23_456_789.0), power(12.0)
    ('2·10⁷', '12')
    """
    if not math.isfinite(value) or value < 10_000:
        return f"{value:,.0f}".replace("inf", "∞")
    mantissa, exponent = f"{value:.0e}".split("e")
    return f"{mantissa}·10{str(int(exponent)).translate(_SUPERSCRIPTS)}"
