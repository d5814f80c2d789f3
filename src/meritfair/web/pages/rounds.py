"""A round: who is to be called, what happened, what is still missing; and the next draw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import Response

from meritfair.core.errors import InputError
from meritfair.core.language import _, ngettext
from meritfair.programme.inputs import Outcomes, ReasonNeededError
from meritfair.programme.listing import PeopleQuery
from meritfair.programme.state import OPEN
from meritfair.programme.users import Role
from meritfair.web.access import Auditor, Coordinator, Here, Viewer
from meritfair.web.pages.forms import Text, new_key, parse_ids, parse_whole
from meritfair.web.pages.responses import go, is_htmx, said
from meritfair.web.pages.round_view import RoundState, corrected, outcome_words, round_page, round_state, tapped
from meritfair.web.rendering import page, part

router = APIRouter()
_MOST_NEWS = 500  # entries that a page looks back at most, to say who did what meanwhile


@router.get("/p/{programme}")
def show_programme(here: Viewer) -> Response:
    """Lead to what matters first: the round or, for those who see sums only, fairness."""
    return go(here, "p", here.name, "round" if here.may(Role.AUDITOR) else "fairness")


@router.get("/p/{programme}/round")
@router.get("/p/{programme}/round/{number}")
def show_round(
    here: Auditor,
    number: int | None = None,
    staff: str = "",
    missing: bool = False,
    start: Annotated[int, Query(ge=0)] = 0,
    did: str = "",
    n: int = 0,
) -> Response:
    """Show a round; without a number the last one, or what to do before the first."""
    look = here.look()
    if number is None and not look.status.round:
        return page(here, "first_round.html", look=look, draw_key=new_key(), typed=None, said=said(did, n))
    state = round_state(look, number)
    view = round_page(state, staff=staff, only_missing=missing, start=start)
    return page(here, "round.html", **_shown(state), view=view, said=said(did, n))


def _shown(state: RoundState) -> dict[str, Any]:
    """Return what the templates of a round need."""
    keys = {"new_key": new_key, "draw_key": new_key(), "typed": None}
    return {"state": state, "look": state.look, "words": outcome_words, **keys}


@router.get("/p/{programme}/round/{number}/news")
def show_news(here: Auditor, number: int, since: Annotated[int, Query(ge=0)]) -> Response:
    """Tell who else has changed something since the page was made; nothing if nobody has."""
    look = here.look()
    lines = look.entry_lines(max(since, look.entries - _MOST_NEWS), look.entries)
    news = [each for each in lines if each.by != here.by]
    if not news:
        return Response(status_code=204)
    reported: dict[str, int] = {}
    for each in news:
        if each.kind in ("report", "correct"):
            reported[each.by] = reported.get(each.by, 0) + each.rows
    texts = [
        ngettext("{by} has reported on {n} person.", "{by} has reported on {n} people.", n).format(
            by=by or _("Someone"), n=n
        )
        for by, n in reported.items()
    ]
    if any(each.kind in ("commit", "draw", "close", "end") for each in news):
        texts.append(_("The round has been closed or drawn by someone else."))
    return part(here, "parts/news.html", texts=texts or [_("Someone has changed the programme.")], number=number)


# ---- one person


@router.post("/p/{programme}/round/{number}/people/{person}/report")
def tap(here: Coordinator, number: int, person: int, outcome: Text, key: Text) -> Response:
    """Take in what one tap says of someone."""
    before = here.look().outcome(number, person)
    here.programme.report(tapped(before.id, outcome), round=number, by=here.by, key=f"{key}-{outcome}")
    return _saved(here, number, person)


@router.post("/p/{programme}/round/{number}/people/{person}/correct")
def correct(
    here: Coordinator, number: int, person: int, key: Text, reason: Text = "", action: Text = "", state: Text = ""
) -> Response:
    """Correct what was reported of someone."""
    before = here.look().outcome(number, person)
    outcomes = corrected(before.id, action, state)
    here.programme.correct(outcomes, round=number, reason=reason, by=here.by, key=f"{key}-{action}-{state}")
    return _saved(here, number, person)


def _saved(here: Here, number: int, person: int) -> Response:
    """Answer with the new line of someone, and how the round stands now."""
    if not is_htmx(here):
        return go(here, "p", here.name, "round", number)
    state = round_state(here.look(), number)
    outcome = state.look.outcome(number, person)
    return part(here, "parts/call_saved.html", **_shown(state), outcome=outcome, last_seen={})


@router.post("/p/{programme}/round/{number}/others")
def report_other(here: Coordinator, number: int, id: Text, outcome: Text, key: Text, reason: Text = "") -> Response:  # noqa: A002
    """Take in what was done for, or seen of, someone who was not drawn."""
    _check_known(here, id.strip())
    receipt = here.programme.report(
        tapped(id.strip(), outcome, reason), round=number, by=here.by, key=f"{key}-{outcome}"
    )
    return go(here, "p", here.name, "round", number, did="report", n=receipt.taken)


def _check_known(here: Here, id_: str) -> None:
    """Refuse an id that nobody has, without naming all the others as the core does."""
    try:
        here.look().number_of(id_)
    except InputError:
        raise InputError(_("there is nobody with the id {id}").format(id=repr(id_))) from None


@router.get("/p/{programme}/ids")
def suggest_ids(here: Coordinator, id: Annotated[str, Query(max_length=200)] = "") -> Response:  # noqa: A002
    """Suggest people by a part of their id."""
    wanted = id.strip()
    rows = here.look().people(PeopleQuery(search=wanted, limit=10)).rows if wanted else ()
    return part(here, "parts/id_options.html", ids=[each.id for each in rows])


# ---- the round as a whole


@router.post("/p/{programme}/round/{number}/close")
def close(here: Coordinator, number: int, key: Text) -> Response:
    """Close the round, if it is still the open one."""
    status = here.look().status
    if status.round != number or status.phase != OPEN:
        return go(here, "p", here.name, "round", did="moved")
    here.programme.close(round=number, by=here.by, key=key)
    return go(here, "p", here.name, "round", did="closed")


@router.post("/p/{programme}/round/{number}/value")
def draw_with_value(here: Coordinator, number: int, key: Text, value: Text) -> Response:
    """Draw the round that is committed, with the public value that it waits for."""
    if here.look().status.round != number:
        return go(here, "p", here.name, "round", did="moved")
    here.programme.draw(value=value.strip(), by=here.by, key=key)
    return go(here, "p", here.name, "round", did="drawn")


def parse_budget(here: Here, budgets: list[str]) -> int | dict[str, int] | None:
    """Return the budget for one round as a form has it: one number for each part, empty for that of the settings."""
    parts = here.look().settings.parts
    typed = {own.name: parse_whole(_("budget"), text) for own, text in zip(parts, budgets, strict=False)}
    given = {name: budget for name, budget in typed.items() if budget is not None}
    if not given:
        return None
    return given if len(parts) > 1 else next(iter(given.values()))


@dataclass(frozen=True)
class Typed:
    """What was typed for the next draw, and why it was not enough.

    Attributes
    ----------
    budgets : sequence of str
        One for each part.
    away, reason : str
    problem : str
        For what a reason is needed; empty before it was asked.
    file : bool
        Whether there was a file, which a browser does not keep.
    """

    budgets: Sequence[str] = ()
    away: str = ""
    reason: str = ""
    problem: str = ""
    file: bool = False


def draw_next(here: Here, number: int, key: str, states: Outcomes | None, typed: Typed) -> Response:
    """Draw a round, if it is still the next one; ask for a reason where one is needed."""
    status = here.look().status
    if status.round + 1 != number:
        return go(here, "p", here.name, "round", did="moved")
    try:
        drawn = here.programme.draw(
            states=states,
            budget=parse_budget(here, list(typed.budgets)),
            away=parse_ids(typed.away),
            reason=typed.reason,
            by=here.by,
            key=key,
        )
    except ReasonNeededError as error:
        return _ask_again(here, number, replace(typed, problem=error.problem))
    return go(here, "p", here.name, "round", did="drawn" if drawn.phase == OPEN else "committed")


def _ask_again(here: Here, number: int, typed: Typed) -> Response:
    """Show the form for the next draw again, with what was typed."""
    look = here.look()
    if is_htmx(here):
        again = {"number": number, "typed": typed, "look": look, "draw_key": new_key()}
        answer = part(here, "parts/draw_again.html", status=422, **again)
        answer.headers.update({"HX-Retarget": "#draw-next", "HX-Reswap": "outerHTML"})
        return answer
    if number == 1:
        first = {"look": look, "draw_key": new_key(), "typed": typed, "said": ""}
        return page(here, "first_round.html", status=422, **first)
    state = round_state(look, None)
    view = round_page(state, staff="", only_missing=False, start=0)
    return page(here, "round.html", status=422, **{**_shown(state), "typed": typed}, view=view, said="")
