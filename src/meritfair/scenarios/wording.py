"""An answer in words and cells, for people who read no code: the terminal, Markdown and LaTeX tables, and pages."""

from __future__ import annotations

from collections.abc import Collection

from meritfair.core.texts import several
from meritfair.policies.registry import RECOMMENDED, RECOMMENDED_TEXT
from meritfair.scenarios.answer import Outlook, WhatIf
from meritfair.simulation.bootstrap import Interval

_MEANINGS = {
    "good": "expected share of arms in the good state over the rounds ahead, with a 95 % interval.",
    "difference": "in percentage points, paired by draws.",
    "per pull": "good rounds that a pull adds, compared with nobody pulled.",
    "misplaced": "part of the pulls that would have to go to other arms to be as merit says.",
    "least": "exposure of the arm that has the least.",
    "wait": "longest, in rounds.",
    "check": "whether the log itself bears it out, and how many windows of a few rounds it is worth for that; "
    "if it disagrees, there is no answer.",
}


def note(found: WhatIf, hidden: Collection[str] = ()) -> str:
    """Return what the columns are, but for those that are hidden, and what is recommended if that was asked for."""
    said = [f"{name.capitalize()}: {meaning}" for name, meaning in _MEANINGS.items() if name not in hidden]
    if any(each.policy == RECOMMENDED for each in found.asked):
        said.append(f"Recommended: {RECOMMENDED_TEXT}, but for what varies.")
    return " ".join(said)


def headings(found: WhatIf) -> list[str]:
    """Return the heading of each column."""
    held = "as logged" if found.against == found.logged.name else found.against
    left = ["policy", "budget", *_varied(found), "good", f"difference to\n{held}"]
    return [*left, "per pull", "misplaced", "least", "wait", "check"]


def cells(found: WhatIf) -> list[list[str]]:
    """Return a row of text for each scenario."""
    varied = _varied(found)
    return [
        [
            each.policy,
            f"{each.budget:.1f}" if abs(each.budget - round(each.budget)) >= 0.05 else f"{each.budget:.0f}",
            *(each.varied.get(name, "") for name in varied),
            _share(each.share) if each.answered else "–",
            points_with_interval(each.difference) if each.answered and each.name != found.against else "–",
            f"{each.gain_per_pull.mean:.2f}".replace("-", "−") if each.answered and each.budget else "–",
            f"{100 * each.misplaced:.0f} %" if each.budget else "–",
            f"{each.smallest_exposure:.3f}",
            f"{each.longest_wait:.0f}",
            f"{each.verdict} ({each.check.effective:,.0f})" if each.check.windows else each.verdict,
        ]
        for each in found.outlooks
    ]


def hidden(found: WhatIf) -> set[str]:
    """Return the columns for which a terminal has no room."""
    varied = _varied(found)
    return {"per pull", "least" if "floor" not in varied else "", "wait" if varied else ""}


def narrow(found: WhatIf) -> tuple[list[str], list[list[str]]]:
    """Return headings and cells for a terminal: intervals in a second line, and fewer columns."""
    names, rows = headings(found), [[_in_lines(cell) for cell in row] for row in cells(found)]
    left_out = hidden(found)
    shown = [i for i, name in enumerate(names) if name not in left_out]
    short = {"misplaced": "mis-\nplaced", "budget": "bud-\nget"}
    return [short.get(names[i], names[i]) for i in shown], [[row[i] for i in shown] for row in rows]


def _in_lines(cell: str) -> str:
    """Return a cell with what is in brackets in a line of its own."""
    return cell.replace(" (", "\n").removesuffix(")")


def _varied(found: WhatIf) -> list[str]:
    return list(dict.fromkeys(name for each in found.asked for name in each.varied))


def _share(value: Interval) -> str:
    mean, low, high = (f"{100 * x:.1f}" for x in value)
    return f"{mean} % ({low} to {high})"


def points_with_interval(value: Interval) -> str:
    """Return a difference in percentage points with its interval."""
    mean, low, high = (f"{100 * x:+.1f}".replace("-", "−") for x in value)
    return f"{mean} ({low} to {high})"


def lead(found: WhatIf) -> str:
    """Return what was found in a sentence or two."""
    answered = [each for each in found.asked if each.answered]
    if not answered:
        return f"The log cannot answer this: {found.asked[0].name}: {found.asked[0].check.refusal}."
    same = [each for each in answered if (each.policy, each.varied) == (answered[0].policy, answered[0].varied)]
    usual = min(same, key=lambda each: abs(each.budget - found.logged.budget))
    most = max(same, key=lambda each: each.budget)
    return " ".join([_sentence(found, usual), *([_more_pulls(usual, most)] if most is not usual else [])])


def _sentence(found: WhatIf, one: Outlook) -> str:
    arms, rounds = several(found.n_arms, "arm"), several(found.rounds, "round")
    name = one.name.replace(RECOMMENDED, "the recommended policy", 1) if one.policy == RECOMMENDED else one.name
    said = f"With {name}, {_share(one.share)} of the {arms} would be in the good state over the next {rounds}"
    if one.name == found.against:
        return f"{said}."
    return f"{said}, against {100 * found[found.against].share.mean:.1f} % {_as(found)}: {_change(one.difference)}."


def _as(found: WhatIf) -> str:
    return "as logged" if found.against == found.logged.name else f"with {found.against}"


def _change(value: Interval) -> str:
    if value.low <= 0 <= value.high:
        ends = [f"{100 * x:+.1f}".replace("-", "−") for x in value[1:]]
        return f"no clear difference ({ends[0]} to {ends[1]} percentage points)"
    low, high = sorted(100 * abs(x) for x in value[1:])
    direction = "more" if value.mean > 0 else "fewer"
    return f"{100 * abs(value.mean):.1f} percentage points {direction} ({low:.1f} to {high:.1f})"


def _more_pulls(low: Outlook, high: Outlook) -> str:
    from meritfair.scenarios.answer import difference

    more = several(round(high.budget - low.budget), "more pull")
    return f"{more} a round ({high.budget:.0f} instead of {low.budget:.0f}): {_change(difference(high, low))}."
