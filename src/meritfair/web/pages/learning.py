"""What the programme has learned: how much people gain, whether calls help, and what other budgets would do."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import Response

from meritfair.core.errors import InputError
from meritfair.core.language import _
from meritfair.web.access import Here, Viewer
from meritfair.web.charts import Chart, Curve
from meritfair.web.job_kinds import MOST_ROUNDS
from meritfair.web.job_table import Job
from meritfair.web.pages.fairness import is_drawn
from meritfair.web.pages.jobs import work_of
from meritfair.web.pages.whatif import whatif_chart
from meritfair.web.rendering import number, page, signed

router = APIRouter()
_MOST_BUDGETS = 6


@router.get("/p/{programme}/learning")
def show_learning(
    here: Viewer,
    budgets: Annotated[str, Query(max_length=200)] = "",
    rounds: Annotated[int, Query(ge=0, le=MOST_ROUNDS)] = 0,
    extrapolate: bool = False,
) -> Response:
    """Show what was learned and, if that is asked, what other budgets would do."""
    look = here.look()
    if not is_drawn(look):
        shows = _("This page shows how much people gain from calls, as outcomes come in.")
        return page(here, "no_draw.html", look=look, title=_("Learning"), shows=shows)
    work, grown = work_of(here, "report"), work_of(here, "learning")
    asked, problem = _asked(here, budgets, rounds, extrapolate)
    own = look.settings.parts[0].budget_in(look.status.round + 1)
    found = work.result
    return page(
        here,
        "learning.html",
        look=look,
        work=work,
        grown=grown,
        found=found,
        words=work.words() if found is not None else {},
        charts=_charts(found, grown.result),
        asked=asked,
        problem=problem,
        whatif_chart=whatif_chart,
        trial_heading=trial_heading,
        form={"budgets": budgets or f"{own}, {2 * own}", "rounds": rounds or 26, "extrapolate": extrapolate},
    )


def _asked(here: Here, budgets: str, rounds: int, extrapolate: bool) -> tuple[Job | None, str]:
    """Return the job for what a form asks, or what is wrong with it."""
    if not budgets:
        return None, ""
    try:
        arguments = {"budgets": budgets_of(budgets), "rounds": rounds, "extrapolate": extrapolate}
        return here.frame.jobs.ask("whatif", here.name, arguments, by=here.by), ""
    except InputError as error:
        return None, str(error)


def budgets_of(text: str) -> list[int]:
    """Return budgets that are written with commas or spaces between them.

    Examples
    --------
    >>> budgets_of("18, 30 30")
    [18, 30]
    """
    found = list(dict.fromkeys(text.replace(",", " ").replace(";", " ").split()))
    if not all(each.isdecimal() and len(each) < 10 and int(each) > 0 for each in found):
        raise InputError(_("Budgets are whole numbers above 0, such as 20, 40; got {text}").format(text=text))
    if not 1 <= len(found) <= _MOST_BUDGETS:
        raise InputError(
            _("Between 1 and {most} budgets can be asked, got {n}").format(most=_MOST_BUDGETS, n=len(found))
        )
    return [int(each) for each in found]


def _charts(found: dict[str, Any] | None, grown: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "effect": effect_chart(found) if found and _has_course(found["effect_course"]) else None,
        "widths": [] if grown is None else widths_charts(grown),
        "benefits": [] if grown is None else [benefit_chart(each) for each in grown["now"]],
    }


def trial_heading(name: str) -> str:
    """Return what a column of the tables of a trial is called."""
    known = {
        "arm": _("arm"),
        "people": _("people"),
        "randomised": _("randomised"),
        "enrolled": _("still enrolled"),
        "withdrawn": _("left"),
        "erased": _("erased"),
        "reached": _("reached"),
        "analysed": _("analysed"),
        "first_joined": _("first joined"),
        "last_joined": _("last joined"),
        "share": _("share in the good state"),
        "low": _("at least"),
        "high": _("at most"),
        "difference": _("difference"),
        "difference_low": _("difference at least"),
        "difference_high": _("difference at most"),
        "rounds": _("rounds of a person"),
        "due": _("due"),
        "given": _("given"),
        "drawn": _("drawn"),
        "not_reached": _("not reached"),
        "not_reported": _("not reported"),
        "overrides": _("reached, not drawn"),
        "states": _("states after a round"),
        "missing": _("missing"),
    }
    return known.get(name, name.replace("_", " "))


def widths_charts(grown: dict[str, Any]) -> list[Chart]:
    """Return by part how the intervals of people's benefits have shrunk."""
    parts = list(dict.fromkeys(row["part"] for row in grown["course"]))
    return [_widths_chart(part, [row for row in grown["course"] if row["part"] == part]) for part in parts]


def _widths_chart(part: str, rows: list[dict[str, Any]]) -> Chart:
    columns = {name: [100 * row[name] for row in rows] for name in ("width", "narrow", "wide")}
    title = _("How sure the estimates are")
    return Chart(
        f"widths-{part}" if part else "widths",
        f"{title}: {part}" if part else title,
        x=[row["round"] for row in rows],
        curves=[Curve(_("mean width"), columns["width"], columns["narrow"], columns["wide"], points=True)],
        headings=[
            _("after round"),
            _("people"),
            _("mean width, points"),
            _("narrowest tenth below"),
            _("widest tenth above"),
        ],
        rows=[
            [str(row["round"]), number(row["people"]), *(number(100 * row[name]) for name in columns)] for row in rows
        ],
        x_label=_("round"),
        y_label=_("percentage points"),
        note=_(
            "The width of the 95 % interval of a single person's benefit: the mean, and the band in which eight of ten "
            "people are. It narrows as outcomes come in, of a person and of everyone."
        ),
    )


def benefit_chart(now: dict[str, Any]) -> Chart:
    """Return how many people are estimated to gain how much."""
    edges = [100 * edge for edge in now["edges"]]
    title = _("Estimated benefits now")
    return Chart(
        f"benefits-{now['part']}" if now["part"] else "benefits",
        f"{title}: {now['part']}" if now["part"] else title,
        x=[(low + high) / 2 for low, high in pairwise(edges)],
        curves=[Curve(_("people"), now["people"], color=3)],
        headings=[_("benefit, points"), _("people")],
        rows=[
            [_("{low} to {high}").format(low=signed(low, 1), high=signed(high, 1)), number(people)]
            for low, high, people in zip(edges, edges[1:], now["people"], strict=False)
            if people
        ],
        x_label=_("percentage points"),
        y_label=_("people"),
        kind="histogram",
        whole=False,
        note=_(
            "Benefit: by how much the share of rounds in the good state would change if a person were always reached, "
            "rather than never."
        ),
    )


def _has_course(course: dict[str, list[float]] | None) -> bool:
    """Return whether an effect has been estimated often enough for a curve."""
    return sum(map(math.isfinite, (course or {}).get("anytime_low", ()))) > 1


def effect_chart(found: dict[str, Any]) -> Chart:
    """Return the effect of being drawn, as it was known after each round."""
    course = {name: _points(values) for name, values in found["effect_course"].items() if name != "round"}
    rounds = found["effect_course"]["round"]
    first = next((k for k, low in enumerate(course["anytime_low"]) if math.isfinite(low)), len(rounds))
    shown = slice(min(first, max(0, len(rounds) - 1)), None)
    cut = {name: values[shown] for name, values in course.items()}
    columns = (rounds[shown], *(cut[name] for name in ("estimate", "anytime_low", "anytime_high")))
    return Chart(
        "effect",
        _("Effect of being drawn, as it was known after each round"),
        x=rounds[shown],
        curves=[Curve(_("estimate"), cut["estimate"], cut["anytime_low"], cut["anytime_high"], color=2)],
        headings=[_("up to round"), _("estimate, points"), _("at least"), _("at most")],
        rows=[[str(round_), *(signed(value, 1) for value in values)] for round_, *values in zip(*columns, strict=True)],
        x_label=_("round"),
        y_label=_("percentage points"),
        levels=[("", 0.0)],
        note=_(
            "By how much one draw raises the chance of a good state after the round, with the 95 % interval that holds "
            "whenever one looks. It rests on the lottery alone."
        ),
    )


def _points(values: list[float]) -> list[float]:
    return [100 * value for value in values]
