"""The ledger: its entries, the head to keep elsewhere, verification, and an export for anyone to check."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from meritfair.core.errors import InputError
from meritfair.core.language import _
from meritfair.programme.reading import EntryLine, Snapshot
from meritfair.programme.users import Role
from meritfair.web.access import Auditor, Viewer
from meritfair.web.pages.forms import Text
from meritfair.web.pages.responses import go
from meritfair.web.rendering import page

router = APIRouter()
PAGE = 25
_AT_ONCE = 1000


@dataclass(frozen=True)
class Kept:
    """What came of a head that someone has kept: the entry that it belongs to, None if there is none."""

    head: str
    entry: EntryLine | None


@router.get("/p/{programme}/ledger")
def show_ledger(
    here: Viewer, start: Annotated[int | None, Query(ge=0)] = None, kept: Annotated[str, Query(max_length=200)] = ""
) -> Response:
    """Show entries, the last first, and the head."""
    look, jobs = here.look(), here.frame.jobs
    first = max(0, look.entries - PAGE) if start is None else min(start, look.entries - 1)
    may = here.may(Role.AUDITOR)
    problem, found = "", None
    if kept:
        try:
            found = find_head(look, kept)
        except InputError as error:
            problem = str(error)
    return page(
        here,
        "ledger.html",
        look=look,
        lines=look.entry_lines(first, min(first + PAGE, look.entries))[::-1],
        first=first,
        last=min(first + PAGE, look.entries) - 1,
        step=PAGE,
        kept=found,
        problem=problem,
        typed=kept,
        verified=jobs.recent("verify", here.name) if may else None,
        exported=jobs.recent("export", here.name) if may else None,
        kind_words=kind_words,
    )


@router.post("/p/{programme}/ledger/verify")
def verify(here: Auditor, head: Text = "") -> Response:
    """Have the whole ledger checked, and that it holds a head that was kept."""
    heads = [_check_head(head)] if head.strip() else []
    here.frame.jobs.ask("verify", here.name, {"heads": heads}, again=True)
    return go(here, "p", here.name, "ledger")


@router.post("/p/{programme}/ledger/export")
def export(here: Auditor) -> Response:
    """Have an anonymous export made."""
    here.frame.jobs.ask("export", here.name, again=True)
    return go(here, "p", here.name, "ledger")


def find_head(look: Snapshot, text: str) -> Kept:
    """Return the entry whose hash someone has kept."""
    head = _check_head(text)
    for stop in range(look.entries, 0, -_AT_ONCE):
        for line in look.entry_lines(max(0, stop - _AT_ONCE), stop):
            if line.digest == head:
                return Kept(head, line)
    return Kept(head, None)


def _check_head(text: str) -> str:
    """Return a head as the ledger writes it."""
    head = re.sub(r"\s", "", text).lower()
    if not re.fullmatch("[0-9a-f]{64}", head):
        raise InputError(_("A head has 64 digits from 0 to 9 and a to f, got {text}").format(text=repr(text)))
    return head


def kind_words(line: EntryLine) -> str:
    """Return in words what an entry is."""
    texts = {
        "create": _("Programme created"),
        "change": _("Settings changed"),
        "history": _("Earlier records taken in"),
        "enrol": _("People enrolled"),
        "withdraw": _("People left"),
        "away": _("Away or back"),
        "erase": _("Person erased"),
        "commit": _("Round {round}: chances committed"),
        "draw": _("Round {round}: drawn"),
        "report": _("Round {round}: outcomes reported"),
        "correct": _("Round {round}: outcomes corrected"),
        "close": _("Round {round}: closed"),
        "end": _("Programme ended, secret published"),
    }
    return texts.get(line.kind, line.kind).format(round=line.round)
