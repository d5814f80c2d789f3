"""One person: why they were called or not, their account over time, and every round; and what can be done for them."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Form, HTTPException, Query
from starlette.responses import Response

from meritfair.core.errors import InputError
from meritfair.core.language import _
from meritfair.programme.inputs import People, ReasonNeededError
from meritfair.programme.showing.person import Account, PersonReport
from meritfair.programme.showing.person_history import Correction, PersonRound
from meritfair.programme.showing.person_words import last_round, paragraphs
from meritfair.web.access import Admin, Auditor, Coordinator, Here
from meritfair.web.charts import Chart, Curve
from meritfair.web.pages.forms import Text, new_key
from meritfair.web.pages.people import ask_for_reason
from meritfair.web.pages.responses import go
from meritfair.web.pages.round_view import corrected
from meritfair.web.rendering import page, percent, signed

router = APIRouter()
_ADDRESS = "/p/{programme}/people/{number}"


@router.get(_ADDRESS)
def show_person(
    here: Auditor, number: int, round_: Annotated[int | None, Query(alias="round", ge=0)] = None, did: str = ""
) -> Response:
    """Show one person as it is known now, or as it was known after a round."""
    look = here.look()
    try:
        person = look.person(number, round_)
    except InputError as error:
        if 0 <= number < look.status.enrolled + look.status.left:
            raise
        raise HTTPException(404, str(error)) from None
    return page(
        here,
        "person.html",
        person=person,
        look=look,
        why=last_round(person),
        paragraphs=paragraphs(person),
        chart=account_chart(person) if person.rounds else None,
        rows=[round_row(each) for each in reversed(person.rounds)],
        said=_said(did),
        new_key=new_key,
    )


@router.get(_ADDRESS + "/proof")
def proof(here: Auditor, number: int) -> Response:
    """Hand out what the person needs to prove what was recorded of them."""
    found = here.programme.proof(_id(here, number))
    name = f"proof-{number}.json"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(json.dumps(found), media_type="application/json", headers=headers)


@router.post(_ADDRESS + "/away")
def away(here: Coordinator, number: int, key: Text, back: Text = "", reason: Text = "") -> Response:
    """Note that someone cannot be called for now, or is back; ask for a reason where one is needed."""
    id_ = _id(here, number)
    try:
        here.programme.away(id_, back=bool(back), reason=reason, by=here.by, key=key)
    except ReasonNeededError as error:
        return ask_for_reason(here, error, id_, {"key": key, "action": "away"})
    return _done(here, number, "back" if back else "away")


@router.post(_ADDRESS + "/withdraw")
def withdraw(here: Coordinator, number: int, key: Text, reason: Text = "") -> Response:
    """Let someone leave; ask for a reason where one is needed."""
    id_ = _id(here, number)
    try:
        here.programme.withdraw(id_, reason=reason, by=here.by, key=key)
    except ReasonNeededError as error:
        return ask_for_reason(here, error, id_, {"key": key, "action": "withdraw"})
    return _done(here, number, "left")


@router.post(_ADDRESS + "/enrol")
def enrol(here: Coordinator, number: int, key: Text) -> Response:
    """Let someone come back, as they were."""
    person = here.look().person(number)
    known = person.enrolment
    features = {name: [value] for name, value in known.features.items()}
    here.programme.enrol(People([_id(here, number)], [known.group], [known.staff], features), by=here.by, key=key)
    return _done(here, number, "enrolled")


@router.post(_ADDRESS + "/correct")
def correct(
    here: Coordinator,
    number: int,
    key: Text,
    round_: Annotated[int, Form(alias="round", ge=1)],
    action: Text = "",
    state: Text = "",
    reason: Text = "",
) -> Response:
    """Correct what was reported of someone in a round."""
    if not action and not state:
        raise InputError(
            _("A correction needs what is right: whether they were reached, or the state after the round.")
        )
    outcomes = corrected(_id(here, number), action, state)
    here.programme.correct(outcomes, round=round_, reason=reason, by=here.by, key=key)
    return _done(here, number, "corrected")


@router.post(_ADDRESS + "/erase")
def erase(here: Admin, number: int, key: Text, typed: Text = "") -> Response:
    """Delete who someone is, for good."""
    id_ = _id(here, number)
    if typed.strip() != id_:
        raise InputError(_("Nothing was erased: what you typed is not the id of this person."))
    here.programme.erase(id_, by=here.by, key=key)
    here.frame.forget_files(here.name)
    return _done(here, number, "erased")


def _id(here: Here, number: int) -> str:
    """Return the id of someone by their number in the ledger; refuse those who are erased."""
    person = here.look().person(number)
    if person.enrolment.erased:
        raise InputError(_("This person is erased: who it was is not known any more."))
    return person.id


def _done(here: Here, number: int, did: str) -> Response:
    return go(here, "p", here.name, "people", number, did=did)


def _said(did: str) -> str:
    return {
        "away": _("Noted as away: they cannot be drawn until they are back."),
        "back": _("Noted as back: they can be drawn again."),
        "left": _("They have left. What is known of them stays, for when they come back."),
        "enrolled": _("They are enrolled again."),
        "corrected": _("The correction is entered. The old values stay in the ledger."),
        "erased": _("Erased. What was drawn stays in the ledger; who it was is gone for good."),
    }.get(did, "")


# ---- what is shown of the rounds


def account_chart(person: PersonReport) -> Chart:
    """Return the account after each round, and the rounds in which they were drawn."""
    rounds = [each.round for each in person.rounds]
    accounts = [each.account for each in person.rounds]
    hits = [each.account if each.drawn else None for each in person.rounds]
    slack = person.account.slack
    return Chart(
        "account",
        _("Account over time"),
        x=rounds,
        curves=[
            Curve(_("account"), accounts, step=True),
            Curve(_("drawn"), hits, color=2, points=True, line=False),
        ],
        headings=[_("round"), _("account"), _("drawn")],
        rows=[[str(each.round), signed(each.account), yes_no(each.drawn)] for each in person.rounds],
        x_label=_("round"),
        y_label=_("draws owed"),
        levels=[] if slack is None else [(_("slack"), slack), ("", -slack)],
        note=" ".join(_account_note(person.account)),
    )


def _account_note(account: Account) -> list[str]:
    """Return how to read the account, and what its slack promises."""
    said = [
        _(
            "What was due less what was given, in draws. Above 0, draws are still owed; below 0, they came ahead of "
            "time."
        )
    ]
    if account.slack is None:
        return said
    if account.bounded:
        return [*said, _("The dashed lines are the slack now in force: the account is not to leave them.")]
    if account.rules:
        lines = _(
            "The dashed lines are the slack. The account can leave them for a time, as rules keep people out of some "
            "draws."
        )
        return [*said, lines]
    lines = _("The dashed lines are the slack now in force. The account can leave them until all are back within it.")
    return [*said, lines]


def round_row(each: PersonRound) -> dict[str, Any]:
    """Return one round as it is shown in the table."""
    reached = {1: _("yes"), 0: _("no")}.get(each.action, _("not reported") if each.drawn else "–")
    return {
        "round": each.round,
        "time": each.time,
        "state": state_words(each.state),
        "due": percent(each.due),
        "chance": percent(each.chance),
        "drawn": yes_no(each.drawn),
        "is_drawn": bool(each.drawn),
        "reached": reached,
        "after": state_words(each.after) if each.after >= 0 else "–",
        "account": signed(each.account),
        "remarks": remarks(each),
    }


def yes_no(drawn: bool | None) -> str:
    """Return whether someone was drawn."""
    return {True: _("yes"), False: _("no")}.get(drawn, _("not yet")) if drawn is not None else _("not yet")


def state_words(state: int) -> str:
    """Return a state in words."""
    return {1: _("good"), 0: _("bad")}.get(state, _("not known"))


def remarks(each: PersonRound) -> list[str]:
    """Return what is special about a round."""
    rules = {
        "away": _("was away"),
        "cool-down": _("was reached shortly before"),
        "warm-up": _("had joined shortly before"),
        "once": _("had been reached already"),
    }
    said = [rules[each.kept_out]] if each.kept_out else []
    if each.override:
        said.append(_("reached without being drawn") + (f": {each.reason}" if each.reason else ""))
    if each.late:
        said.append(_("reported late"))
    return [*said, *map(_correction, each.corrections)]


def _correction(each: Correction) -> str:
    names = {"before": _("state before"), "action": _("reached"), "after": _("state after")}
    changes = [f"{names[name]} {_value(name, each.old[name])} → {_value(name, new)}" for name, new in each.new.items()]
    return _("corrected by {by}: {changes} ({reason})").format(
        by=each.by, changes=", ".join(changes), reason=each.reason
    )


def _value(name: str, value: int) -> str:
    return {0: _("no"), 1: _("yes")}.get(value, _("not known")) if name == "action" else state_words(value)
