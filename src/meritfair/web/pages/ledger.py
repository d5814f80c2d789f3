"""The ledger: its entries, the head to keep elsewhere, verification, and an export for anyone to check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from meritfair.core.errors import InputError
from meritfair.core.language import _
from meritfair.programme.ledger.heads import check_head, read_heads
from meritfair.programme.reading import EntryLine, Snapshot
from meritfair.programme.users import Role
from meritfair.web.access import Auditor, Viewer
from meritfair.web.pages.forms import Lines
from meritfair.web.pages.responses import go
from meritfair.web.rendering import number, page

router = APIRouter()
PAGE = 25
_AT_ONCE = 1000
_MOST_HEADS = 1000


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
def verify(here: Auditor, heads: Lines = "") -> Response:
    """Have the whole ledger checked, and that it holds heads that were kept."""
    here.frame.jobs.ask("verify", here.name, {"heads": _heads_in(here.look(), heads)}, by=here.by, again=True)
    return go(here, "p", here.name, "ledger")


def _heads_in(look: Snapshot, text: str) -> list[str]:
    """Return the heads that someone has pasted."""
    try:
        found = read_heads(text, look.name, look.identity, _("what was entered"))
    except InputError as error:
        raise InputError(_("These are not heads: {problem}").format(problem=error)) from None
    if text.strip() and not found:
        raise InputError(_("None of these heads is one of this programme."))
    if len(found) > _MOST_HEADS:
        raise InputError(_("At most {n} heads can be compared at once.").format(n=number(_MOST_HEADS)))
    return found


@router.post("/p/{programme}/ledger/export")
def export(here: Auditor) -> Response:
    """Have an anonymous export made."""
    here.frame.jobs.ask("export", here.name, by=here.by, again=True)
    return go(here, "p", here.name, "ledger")


def find_head(look: Snapshot, text: str) -> Kept:
    """Return the entry whose hash someone has kept."""
    head = _check_head(text)
    for stop in range(look.entries, 0, -_AT_ONCE):
        for line in look.entry_lines(max(0, stop - _AT_ONCE), stop):
            if line.digest.startswith(head):
                return Kept(head, line)
    return Kept(head, None)


def _check_head(text: str) -> str:
    """Return a head, or a short code, as the ledger writes it."""
    try:
        return check_head(text)
    except InputError:
        said = _("A head has 64 digits from 0 to 9 and a to f, a short code at least 12 of them, got {text}")
        raise InputError(said.format(text=repr(text))) from None


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
