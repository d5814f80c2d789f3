"""Programmes: which there are, how one stands, its settings, and its end."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Response

from meritfair.core.errors import InputError
from meritfair.model.rules import Rules
from meritfair.policies.registry import RECOMMENDED
from meritfair.programme.programme import Programme
from meritfair.programme.reporting import Receipt
from meritfair.programme.settings import FLOOR, Part, Settings, Trial
from meritfair.programme.storage.names import check_name
from meritfair.programme.users import Role
from meritfair.web.access import Here, Someone
from meritfair.web.api.bodies import body
from meritfair.web.api.dependencies import Creating, Reading, Writing, reads, writes
from meritfair.web.api.request_models import ArmIn, NewProgramme, RulesIn, SettingsChange
from meritfair.web.api.response_models import ProgrammeLine, ProgrammeList, ProgrammeOut, ReceiptOut
from meritfair.web.rendering import path

router = APIRouter(prefix="/api/v1/programmes", tags=["programmes"])


@router.get("", operation_id="list_programmes", summary="List programmes")
def list_programmes(here: Someone) -> ProgrammeList:
    """Return the programmes in which you have a role, with what to do next in each."""
    found = []
    for name in here.frame.reader.names():
        role = here.caller.role_in(name)
        if role is not None:
            status = here.frame.reader.look(name).status
            said = {**asdict(status), "role": role.word, "next_step": status.next_step}
            found.append(ProgrammeLine.model_validate(said))
    return ProgrammeList(programmes=found)


@router.post("", operation_id="create_programme", summary="Create a programme", status_code=201)
def create_programme(
    asked: Annotated[tuple[Here, str | None], Depends(Creating(Role.ADMIN))],
    given: Annotated[NewProgramme, body(NewProgramme)],
    response: Response,
) -> ReceiptOut:
    """Create a programme: a budget for each round, a policy, and rules. It needs the role admin for all programmes.

    Records from before, and the file of a trial's protocol, are for the command line; a trial is given the hash of it.
    """
    here, key = asked
    name = check_name(given.name)
    made = Programme(here.frame.store, name).create(**_settings(given), by=here.by, key=key)
    response.headers["Location"] = path("api", "v1", "programmes", name)
    return ReceiptOut.model_validate(made)


@router.get("/{programme}", operation_id="get_programme", summary="How a programme stands")
def get_programme(reading: Annotated[Reading, reads(Role.VIEWER)]) -> ProgrammeOut:
    """Return how a programme stands, what to do next, and its settings."""
    snapshot, role = reading.snapshot, reading.here.role
    status = snapshot.status
    said = {**asdict(status), "identity": snapshot.identity, "next_step": status.next_step}
    return ProgrammeOut.model_validate(
        {**said, "role": role.word if role is not None else "", "settings": settings_shown(snapshot.settings)}
    )


@router.patch("/{programme}/settings", operation_id="change_settings", summary="Change settings")
def change_settings(
    writing: Annotated[Writing, writes(Role.ADMIN)], given: Annotated[SettingsChange, body(SettingsChange)]
) -> ReceiptOut:
    """Change settings from the next round on; in a trial those of one arm. It needs a reason."""
    if all(each is None for each in (given.budget, given.policy, given.floor, given.rules, given.source)):
        raise InputError("say what changes: budget, policy, floor, rules or source")
    rules = None if given.rules is None else _rules(given.rules, writing.here.look().settings.rules)
    changed: dict[str, Any] = {"budget": given.budget, "policy": given.policy, "floor": given.floor, "rules": rules}
    changed["source"] = given.source
    return _shown(writing.programme.change(**changed, part=given.part, reason=given.reason, **writing.once))


@router.post("/{programme}/end", operation_id="end_programme", summary="End a programme")
def end_programme(writing: Annotated[Writing, writes(Role.ADMIN)]) -> ReceiptOut:
    """End the programme for good and publish its secret, so that anyone can check the seeds of all draws."""
    return _shown(writing.programme.end(**writing.once))


def settings_shown(settings: Settings) -> dict[str, Any]:
    """Return settings as plain values, with numbers as numbers."""
    said = settings.body()
    parts = [{**each, "policy": json.loads(each["policy"]), "floor": float(each["floor"])} for each in said["parts"]]
    return {**said, "parts": parts, "forget": float(said["forget"])}


def _shown(receipt: Receipt) -> ReceiptOut:
    return ReceiptOut.model_validate(receipt)


def _rules(given: RulesIn | None, old: Rules) -> Rules:
    return old if given is None else dataclasses.replace(old, **given.model_dump(exclude_none=True))


def _settings(given: NewProgramme) -> dict[str, Any]:
    """Return what `Programme.create` is told."""
    shared: dict[str, Any] = {"features": given.features, "forget": given.forget, "pseudonymise": given.pseudonymise}
    shared |= {"rules": _rules(given.rules, Rules()), "source": given.source}
    if given.trial is not None:
        if any(each is not None for each in (given.budget, given.policy, given.floor)):
            raise InputError("in a trial each arm has its own budget, policy and floor")
        fixed = Trial(given.trial.protocol, tuple(given.trial.strata))
        return {**shared, "trial": fixed, "parts": [_arm(each) for each in given.trial.arms]}
    if given.budget is None:
        raise InputError("say how many are drawn in a round: budget")
    return {**shared, "budget": given.budget, **_usual(given.policy, given.floor)}


def _arm(given: ArmIn) -> Part:
    return Part(given.budget, name=given.name, share=given.share, **_usual(given.policy, given.floor))


def _usual(policy: str | None, floor: float | None) -> dict[str, Any]:
    """Return the policy and the floor, the recommended ones where none are given."""
    return {"policy": RECOMMENDED if policy is None else policy, "floor": FLOOR if floor is None else floor}
