"""Participants: who takes part, who joins, leaves or is away, why someone was drawn or not, and accounts."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request, Response

from meritfair.programme import files
from meritfair.programme.inputs import People
from meritfair.programme.listing import PeopleQuery, PersonLine
from meritfair.programme.users import Role
from meritfair.web.api.bodies import CsvBody, body, locating
from meritfair.web.api.dependencies import Reading, Writing, check_number, reads, writes
from meritfair.web.api.request_models import Enrolments, Ids, TakenOut
from meritfair.web.api.response_models import (
    AccountPage,
    ParticipantOut,
    ParticipantPage,
    PersonOut,
    ProofOut,
    ReceiptOut,
)
from meritfair.web.api.responses import csv_answer, known, link_next, wants_csv

router = APIRouter(prefix="/api/v1/programmes/{programme}", tags=["participants"])

CSV_PEOPLE = "id,group,staff\nAda,north,Bea\nBo,south,Bea\n"
CSV_IDS = "id\nAda\nBo\n"
_MOST = 1000
_BIG = 2**31 - 1
Number = Annotated[int, Path(ge=0, le=_BIG, description="The participant's number in the ledger.")]
Offset = Annotated[int, Query(ge=0, le=_BIG, description="How many are left out before the page.")]
Limit = Annotated[int, Query(ge=1, le=_MOST, description="How many are on the page at most.")]
_Filter = Annotated[str, Query(max_length=200)]
Why = Annotated[str, Query(max_length=1000, description="With a CSV body: why.")]
_Sort = Literal["id", "number", "account", "drawn", "last_drawn", "state"]


@router.get("/participants", operation_id="list_participants", summary="List participants")
def list_participants(
    reading: Annotated[Reading, reads(Role.AUDITOR)],
    request: Request,
    response: Response,
    search: Annotated[str, Query(max_length=200, description="A part of the id.")] = "",
    group: _Filter = "",
    staff: _Filter = "",
    part: _Filter = "",
    standing: Literal["enrolled", "away", "left", "all"] = "enrolled",
    sort: _Sort = "id",
    order: Literal["ascending", "descending"] = "ascending",
    offset: Offset = 0,
    limit: Limit = 100,
) -> ParticipantPage:
    """Return a page of participants; the header `Link` has the next one."""
    query = PeopleQuery(search, group, staff, part, standing, sort, order == "descending", offset, limit)
    found = reading.snapshot.people(query)
    link_next(request, response, offset, limit, found.total)
    return ParticipantPage(total=found.total, offset=offset, participants=[_line(each) for each in found.rows])


@router.post("/participants", operation_id="enrol_participants", summary="Enrol participants")
def enrol_participants(
    writing: Annotated[Writing, writes(Role.COORDINATOR)],
    given: Annotated[Enrolments | CsvBody, body(Enrolments, csv=CSV_PEOPLE)],
) -> ReceiptOut:
    """Let people join, all or none; those who were there before come back with all that is known of them."""
    if isinstance(given, CsvBody):
        features = writing.here.look().settings.features
        with given.file() as path:
            read = files.read_people(path, features, encoding=given.encoding)
            with files.locating(read.table):
                return ReceiptOut.model_validate(writing.programme.enrol(read.value, **writing.once))
    with locating("participants"):
        return ReceiptOut.model_validate(writing.programme.enrol(_people(given), **writing.once))


@router.get("/participants/{number:int}", operation_id="get_participant", summary="One participant")
def get_participant(reading: Annotated[Reading, reads(Role.AUDITOR)], number: Number) -> ParticipantOut:
    """Return how one participant stands."""
    place = check_number(reading.snapshot, number)
    return _line(reading.snapshot.people(PeopleQuery(standing="all", sort="number", offset=place, limit=1)).rows[0])


@router.post("/participants/withdraw", operation_id="withdraw_participants", summary="Let participants leave")
def withdraw_participants(
    writing: Annotated[Writing, writes(Role.COORDINATOR)],
    given: Annotated[TakenOut | CsvBody, body(TakenOut, csv=CSV_IDS)],
    reason: Why = "",
) -> ReceiptOut:
    """Let participants leave; what is known of them stays, for when they come back. Many need a reason."""
    why = _why(given, reason)
    return _with_ids(given, lambda ids: writing.programme.withdraw(ids, reason=why, **writing.once))


@router.post("/participants/away", operation_id="mark_away", summary="Note that participants are away")
def mark_away(
    writing: Annotated[Writing, writes(Role.COORDINATOR)],
    given: Annotated[TakenOut | CsvBody, body(TakenOut, csv=CSV_IDS)],
    reason: Why = "",
) -> ReceiptOut:
    """Note that participants cannot be drawn for now. Many need a reason."""
    why = _why(given, reason)
    return _with_ids(given, lambda ids: writing.programme.away(ids, reason=why, **writing.once))


@router.post("/participants/back", operation_id="mark_back", summary="Note that participants are back")
def mark_back(
    writing: Annotated[Writing, writes(Role.COORDINATOR)], given: Annotated[Ids | CsvBody, body(Ids, csv=CSV_IDS)]
) -> ReceiptOut:
    """Note that participants who were away can be drawn again."""
    return _with_ids(given, lambda ids: writing.programme.away(ids, back=True, **writing.once))


@router.delete("/participants/{number:int}", operation_id="erase_participant", summary="Erase a participant")
def erase_participant(writing: Annotated[Writing, writes(Role.ADMIN)], number: Number) -> ReceiptOut:
    """Delete who someone is, for good: id, group, staff and reasons. They must have left before.

    Their rows stay in the ledger, as those of nobody.
    """
    place = check_number(writing.here.look(), number)
    made = writing.programme.erase(place, **writing.once)
    writing.here.frame.forget_files(writing.here.name)
    return ReceiptOut.model_validate(made)


@router.get("/participants/{number}/report", operation_id="explain_participant", summary="Why, or why not")
def explain_participant(
    reading: Annotated[Reading, reads(Role.AUDITOR)],
    number: Number,
    round: Annotated[  # noqa: A002
        int | None, Query(ge=0, le=_BIG, description="As it was known after this round; by default as it is now.")
    ] = None,
) -> PersonOut:
    """Return why someone was drawn or not: what was seen, what they are due, their account, every round, in words."""
    said = reading.snapshot.person(check_number(reading.snapshot, number), round).to_dict()
    return PersonOut.model_validate({**said, "rounds": [_round(each) for each in said["rounds"]]})


@router.get("/participants/{number}/proof", operation_id="get_proof", summary="A proof for one person")
def get_proof(reading: Annotated[Reading, reads(Role.AUDITOR)], number: Number) -> ProofOut:
    """Return what one person needs to prove what was recorded of them; the verifier in an export checks it."""
    place = check_number(reading.snapshot, number)
    return ProofOut.model_validate(reading.here.programme.proof(place))


@router.get(
    "/accounts",
    operation_id="list_accounts",
    summary="Accounts",
    response_model=AccountPage,
    responses={200: {"content": {"text/csv": {"schema": {"type": "string"}}}}},
)
def list_accounts(
    reading: Annotated[Reading, reads(Role.AUDITOR)],
    request: Request,
    response: Response,
    offset: Offset = 0,
    limit: Limit = _MOST,
) -> Any:
    """Return what is owed to everyone, by number: what they were due less what they were given, in draws.

    With `Accept: text/csv` it is one file with all of them.
    """
    everyone = wants_csv(request)
    first, most = (0, _BIG) if everyone else (offset, limit)
    found = reading.snapshot.people(PeopleQuery(standing="all", sort="number", offset=first, limit=most))
    names = ("number", "id", "group", "part", "standing", "account", "drawn")
    if everyone:
        return csv_answer(reading, "accounts", {name: [vars(each)[name] for each in found.rows] for name in names})
    link_next(request, response, offset, limit, found.total)
    rows = [{name: vars(each)[name] for name in names} for each in found.rows]
    return {"total": found.total, "offset": offset, "accounts": rows}


def _line(line: PersonLine) -> ParticipantOut:
    return ParticipantOut.model_validate({**asdict(line), "state": known(line.state)})


def _people(given: Enrolments) -> People:
    """Return those who enrol as columns."""
    people = given.participants
    features = dict.fromkeys(name for each in people for name in each.features)
    columns = {name: [each.features.get(name) for each in people] for name in features}
    said = {name: [vars(each)[name] for each in people] for name in ("group", "staff")}
    groups, staff = (values if any(each is not None for each in values) else None for values in said.values())
    return People([each.id for each in people], groups, staff, columns)


def _why(given: TakenOut | CsvBody, reason: str) -> str:
    """Return why people are taken out: from the body or, if that is a file, from the query."""
    return given.reason if isinstance(given, TakenOut) else reason


def _with_ids(given: Ids | CsvBody, do: Any) -> ReceiptOut:
    """Do something with participants that are named in a body."""
    if isinstance(given, Ids):
        with locating("ids"):
            return ReceiptOut.model_validate(do(given.ids))
    with given.file() as path:
        read = files.read_ids(path, encoding=given.encoding)
        with files.locating(read.table):
            return ReceiptOut.model_validate(do(read.value))


def _round(row: dict[str, Any]) -> dict[str, Any]:
    """Return a round of someone, with null for what is not known."""
    codes = {name: known(row[name]) for name in ("state", "action", "after")}
    corrections = [
        {**each, **{side: {name: known(code) for name, code in each[side].items()} for side in ("old", "new")}}
        for each in row["corrections"]
    ]
    return {**row, **codes, "corrections": corrections}
