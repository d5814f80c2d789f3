"""Rounds: the draw, what was done and seen, corrections, and the end of a round."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response

from meritfair.core.errors import InputError
from meritfair.programme import files
from meritfair.programme.inputs import Outcomes
from meritfair.programme.reading import EntryLine, Snapshot
from meritfair.programme.reporting import Receipt
from meritfair.programme.rounds import Drawn, Round
from meritfair.programme.state import FORGOTTEN
from meritfair.programme.users import Role
from meritfair.web.api import request_models as models
from meritfair.web.api.bodies import CsvBody, body, locating
from meritfair.web.api.dependencies import Reading, Writing, reads, writes
from meritfair.web.api.participants import Limit, Offset
from meritfair.web.api.response_models import DrawnOut, PreviewOut, ReceiptOut, RoundLine, RoundList, RoundOut
from meritfair.web.api.responses import csv_file, known, link_next, wants_csv
from meritfair.web.errors import BodyError, MissingError
from meritfair.web.rendering import path

router = APIRouter(prefix="/api/v1/programmes/{programme}", tags=["rounds"])

CSV_OUTCOMES = "id,action,state,reason\nAda,1,1,\nBo,0,,\n"
CSV_CORRECTIONS = "id,action,state\nAda,0,unknown\n"
CSV_STATES = "id,state\nAda,0\nBo,1\n"
RoundNumber = Annotated[int, Path(ge=1, le=2**31 - 1, description="The round, from 1.")]
_Budget = Annotated[int | None, Query(ge=0, le=2**31 - 1, description="How many would be drawn; not for a trial.")]


@router.get("/rounds", operation_id="list_rounds", summary="List rounds")
def list_rounds(
    reading: Annotated[Reading, reads(Role.VIEWER)],
    request: Request,
    response: Response,
    offset: Offset = 0,
    limit: Limit = 100,
) -> RoundList:
    """Return the rounds, the last one first."""
    found = _rounds(reading.snapshot)[::-1]
    link_next(request, response, offset, limit, len(found))
    return RoundList(total=len(found), offset=offset, rounds=found[offset : offset + limit])


@router.post("/rounds", operation_id="draw_round", summary="Draw the next round")
def draw_round(
    writing: Annotated[Writing, writes(Role.COORDINATOR)],
    given: Annotated[models.DrawIn | CsvBody, body(models.DrawIn, csv=CSV_STATES, optional=True)],
    response: Response,
) -> RoundOut:
    """Draw the next round: who is there, what each is due, the chances and the draw are recorded at once.

    There is one draw for each round: while a round is open, the same request returns the same draw. A CSV body has the
    states that are observed now.
    """
    drawn = _with_states(given, lambda states: writing.programme.draw(states=states, **_asked(given), **writing.once))
    response.headers["Location"] = path("api", "v1", "programmes", writing.here.name, "rounds", drawn.number)
    return _round(drawn, writing.here.look())


@router.get("/preview", operation_id="preview_round", summary="What the next draw would be")
def preview_round(reading: Annotated[Reading, reads(Role.AUDITOR)], budget: _Budget = None) -> PreviewOut:
    """Return what the next draw would be committed to, for everyone enrolled; nothing is drawn, nothing is kept."""
    planned, people = reading.here.programme.preview(budget=budget)
    number, budgets = reading.snapshot.status.round + 1, [int(each) for each in planned.budgets]
    return PreviewOut(round=number, budgets=budgets, participants=[_drawn(each) for each in people])


@router.get(
    "/rounds/{number}",
    operation_id="get_round",
    summary="One round",
    response_model=RoundOut,
    responses={200: {"content": {"text/csv": {"schema": {"type": "string"}}}}},
)
def get_round(reading: Annotated[Reading, reads(Role.AUDITOR)], number: RoundNumber, request: Request) -> Any:
    """Return a round with those who were drawn, and what came of them.

    With `Accept: text/csv` it is the list of those to be called, to be filled in and handed back as a report.
    """
    _check_round(reading.snapshot, number)
    found = reading.snapshot.round(number)
    if wants_csv(request):
        return csv_file(reading, f"round-{number}", lambda file: files.write_list(file, found))
    return _round(found, reading.snapshot)


@router.post("/rounds/{number}/outcomes", operation_id="report_outcomes", summary="Report what was done and seen")
def report_outcomes(
    writing: Annotated[Writing, writes(Role.COORDINATOR)],
    number: RoundNumber,
    given: Annotated[models.OutcomesIn | CsvBody, body(models.OutcomesIn, csv=CSV_OUTCOMES)],
) -> ReceiptOut:
    """Take in what was done and seen in a round: whole or in part, now or later; all that is sent, or nothing.

    Whoever was reached without being drawn needs a reason. What was reported before is not changed: that is a
    correction.
    """
    _check_round(writing.here.look(), number)

    def do(seen: Outcomes) -> Receipt:
        return writing.programme.report(seen, round=number, **writing.once)

    if isinstance(given, CsvBody):
        return _from_csv(given, number, False, do)
    with locating("outcomes"):
        return ReceiptOut.model_validate(do(_outcomes(given.outcomes)))


@router.patch("/rounds/{number}/outcomes", operation_id="correct_outcomes", summary="Correct what was reported")
def correct_outcomes(
    writing: Annotated[Writing, writes(Role.COORDINATOR)],
    number: RoundNumber,
    given: Annotated[models.CorrectionsIn | CsvBody, body(models.CorrectionsIn, csv=CSV_CORRECTIONS)],
    reason: Annotated[str, Query(max_length=1000, description="With a CSV body: why.")] = "",
) -> ReceiptOut:
    """Put other values in the place of what was reported; it needs a reason. `unknown`: not known after all."""
    _check_round(writing.here.look(), number)

    def do(seen: Outcomes, why: str) -> Receipt:
        return writing.programme.correct(seen, round=number, reason=why, **writing.once)

    if isinstance(given, CsvBody):
        return _from_csv(given, number, True, lambda seen: do(seen, reason))
    with locating("outcomes"):
        return ReceiptOut.model_validate(do(_outcomes(given.outcomes, correcting=True), given.reason))


@router.post("/rounds/{number}/close", operation_id="close_round", summary="Close a round")
def close_round(writing: Annotated[Writing, writes(Role.COORDINATOR)], number: RoundNumber) -> ReceiptOut:
    """End the open round; what comes later can still be reported."""
    _check_round(writing.here.look(), number)
    return ReceiptOut.model_validate(writing.programme.close(round=number, **writing.once))


def _check_round(snapshot: Snapshot, number: int) -> None:
    if number > snapshot.status.round:
        last = f"the last one is {snapshot.status.round}" if snapshot.status.round else "there was none yet"
        raise MissingError(f"there is no round {number}: {last}")


def _asked(given: models.DrawIn | CsvBody) -> dict[str, Any]:
    if isinstance(given, CsvBody):
        return {}
    return {"budget": given.budget, "away": given.away, "value": given.value, "reason": given.reason}


def _with_states(given: models.DrawIn | CsvBody, do: Callable[[Outcomes | None], Round]) -> Round:
    """Draw with the states that a body has."""
    if isinstance(given, CsvBody):
        with given.file() as file:
            read = files.read_states(file, encoding=given.encoding)
            with files.locating(read.table):
                return do(read.value)
    with locating("states"):
        seen = given.states
        return do(None if seen is None else Outcomes([each.id for each in seen], before=[each.state for each in seen]))


def _from_csv(given: CsvBody, number: int, correcting: bool, do: Callable[[Outcomes], Receipt]) -> ReceiptOut:
    """Take in a report or a correction that is a file."""
    with given.file() as file:
        read = files.read_outcomes(file, correcting=correcting, encoding=given.encoding)
        files.the_round(read, number)
        with files.locating(read.table):
            return ReceiptOut.model_validate(do(read.value))


def _outcomes(rows: Sequence[models.OutcomeIn | models.CorrectionIn], *, correcting: bool = False) -> Outcomes:
    """Return what was done and seen as columns; each participant once."""
    seen = dict[str, int]()
    for row, each in enumerate(rows):
        if seen.setdefault(each.id, row) != row:
            problem = f"the participant {each.id!r} is already in row {seen[each.id]}"
            raise BodyError(problem, where=("body", "outcomes", row, "id"))
    action, after, before = (
        [_code(value) for value in column]
        for column in zip(*((each.action, each.state, each.before) for each in rows), strict=True)
    )
    reasons = {each.id: each.reason for each in rows if each.reason}
    return Outcomes([*seen], action, after, before, reasons, correcting)


def _code(value: int | str | None) -> int | None:
    return FORGOTTEN if isinstance(value, str) else value


def _drawn(each: Drawn) -> DrawnOut:
    return DrawnOut.model_validate({**asdict(each), "state": known(each.state)})


def _round(found: Round, snapshot: Snapshot) -> RoundOut:
    """Return a round with what came of it."""
    outcomes = [
        {**asdict(each), **{name: known(vars(each)[name]) for name in ("before", "action", "after")}}
        for each in snapshot.outcomes(found.number)
    ]
    return RoundOut.model_validate({**asdict(found), "outcomes": outcomes})


def _rounds(snapshot: Snapshot) -> list[RoundLine]:
    """Return the rounds in one line each, in order."""
    lines = dict[tuple[str, int], EntryLine]()
    for each in snapshot.entry_lines(0, snapshot.entries):
        if each.round is not None and each.kind in ("commit", "draw", "close"):
            lines[each.kind, each.round] = each
    return [_line(lines, number, snapshot) for number in range(1, snapshot.status.round + 1)]


def _line(lines: dict[tuple[str, int], EntryLine], number: int, snapshot: Snapshot) -> RoundLine:
    committed, drawn, closed = (lines.get((kind, number)) for kind in ("commit", "draw", "close"))
    if committed is None:
        raise InputError(f"there is no round {number}")
    return RoundLine.model_validate(
        {
            "number": number,
            "phase": snapshot.status.phase if number == snapshot.status.round else "closed",
            "enrolled": committed.rows,
            "drawn": 0 if drawn is None else drawn.rows,
            "committed_at": committed.time,
            "drawn_at": None if drawn is None else drawn.time,
            "closed_at": None if closed is None else closed.time,
        }
    )
