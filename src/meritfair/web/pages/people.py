"""People: searched, filtered, sorted and shown page by page; who joins, leaves or is away."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any
from urllib.parse import parse_qs, urlsplit

from fastapi import APIRouter, Depends, Form, Query
from starlette.requests import Request
from starlette.responses import Response

from meritfair.core.errors import InputError
from meritfair.core.language import _
from meritfair.programme.inputs import People, ReasonNeededError
from meritfair.programme.listing import PeopleQuery
from meritfair.web.access import Auditor, Coordinator, Here
from meritfair.web.pages.forms import Text, new_key
from meritfair.web.pages.responses import go, is_htmx, said
from meritfair.web.rendering import page, path

router = APIRouter()
ON_A_PAGE = 50
_LONGEST = 200


def people_query(
    search: Annotated[str, Query(max_length=_LONGEST)] = "",
    group: Annotated[str, Query(max_length=_LONGEST)] = "",
    staff: Annotated[str, Query(max_length=_LONGEST)] = "",
    part: Annotated[str, Query(max_length=_LONGEST)] = "",
    standing: str = "enrolled",
    sort: str = "id",
    descending: bool = False,
    start: Annotated[int, Query(ge=0)] = 0,
) -> PeopleQuery:
    """Return who is asked for."""
    return PeopleQuery(search.strip(), group, staff, part, standing, sort, descending, start, ON_A_PAGE)


Asked = Annotated[PeopleQuery, Depends(people_query)]


def address(here: Here, query: PeopleQuery, **changes: Any) -> str:
    """Return the address of a list of people; what is usual is left out."""
    asked = replace(query, **changes)
    usual = PeopleQuery(limit=ON_A_PAGE)
    names = ("search", "group", "staff", "part", "standing", "sort", "descending")
    said_ = {name: vars(asked)[name] for name in names if vars(asked)[name] != vars(usual)[name]}
    return path("p", here.name, "people", **said_, start=asked.offset or None)


@router.get("/p/{programme}/people")
def show_people(here: Auditor, query: Asked, did: str = "", n: int = 0) -> Response:
    """Show a page of the people; only the list itself, if only that is asked for."""
    return _list(here, query, said(did, n))


def _list(here: Here, query: PeopleQuery, words: str = "") -> Response:
    look = here.look()
    found = look.people(query)
    if query.offset and query.offset >= found.total:
        query = replace(query, offset=max(0, (found.total - 1) // ON_A_PAGE * ON_A_PAGE))
        found = look.people(query)
    headings = {
        "id": _("Person"),
        "drawn": _("Times drawn"),
        "last_drawn": _("Last drawn"),
        "state": _("Last state"),
        "account": _("Account"),
    }
    template = "parts/people_list.html" if is_htmx(here) else "people.html"
    return page(
        here,
        template,
        look=look,
        query=query,
        found=found,
        headings=headings,
        address=address,
        said=words,
        key=new_key(),
    )


@router.get("/p/{programme}/people/enrol")
def ask_for_person(here: Coordinator) -> Response:
    """Ask for someone who enrols."""
    return page(here, "enrol.html", look=here.look(), key=new_key())


@router.post("/p/{programme}/people/enrol")
def enrol(
    here: Coordinator,
    id: Text,  # noqa: A002
    key: Text,
    group: Text = "",
    staff: Text = "",
    feature: Annotated[list[str] | None, Form()] = None,
) -> Response:
    """Enrol one person; features come in the order of the settings."""
    names = here.look().settings.features
    values = feature or [""] * len(names)
    if len(values) != len(names):
        raise InputError(f"the programme has {len(names)} features, got {len(values)} values")
    features = {name: [value.strip()] for name, value in zip(names, values, strict=True)}
    people = People([id.strip()], [group.strip()], [staff.strip()], features)
    receipt = here.programme.enrol(people, by=here.by, key=key)
    return go(here, "p", here.name, "people", search=id.strip(), did="enrol", n=receipt.taken)


@router.post("/p/{programme}/people/standing")
def set_standing(
    here: Coordinator,
    request: Request,
    id: Text,  # noqa: A002
    action: Text,
    key: Text,
    reason: Text = "",
) -> Response:
    """Mark someone as away or back, or withdraw them; ask for a reason where one is needed."""
    programme = here.programme
    number = here.look().number_of(id)
    how: Any = {"by": here.by, "key": f"{key}-{action}-{number}"}  # keys are kept, also of those who are erased
    try:
        if action in ("away", "back"):
            programme.away([id], back=action == "back", reason=reason, **how)
        elif action == "withdraw":
            programme.withdraw([id], reason=reason, **how)
        else:
            raise InputError(f"an action is away, back or withdraw, got {action!r}")
    except ReasonNeededError as error:
        return ask_for_reason(here, error, id, {"id": id, "action": action, "key": key})
    if not is_htmx(here):
        return go(here, "p", here.name, "people")
    return _list(here, _asked_before(request))


def ask_for_reason(here: Here, error: ReasonNeededError, id_: str, fields: dict[str, str]) -> Response:
    """Ask why someone is taken out, in a form that sends the same again with the reason."""
    values = {"address": here.request.url.path, "problem": error.problem, "id": id_, "fields": fields}
    if not is_htmx(here):
        return page(here, "reason.html", status=422, **values)
    answer = page(here, "parts/reason_form.html", status=422, **values)
    answer.headers.update({"HX-Retarget": "#message", "HX-Reswap": "innerHTML"})
    return answer


def _asked_before(request: Request) -> PeopleQuery:
    """Return the query of the page from which something was sent."""
    try:
        sent = parse_qs(urlsplit(request.headers.get("hx-current-url", "")).query)
    except ValueError:  # which is no address
        sent = {}
    known = {name: values[0] for name, values in sent.items() if name in ("search", "group", "staff", "part", "sort")}
    standing = sent.get("standing", ["enrolled"])[0]
    start = sent.get("start", ["0"])[0]
    descending = sent.get("descending", [""])[0] == "True"
    offset = int(start) if start.isdecimal() and len(start) < 10 else 0
    return PeopleQuery(**known, standing=standing, descending=descending, offset=offset, limit=ON_A_PAGE)
