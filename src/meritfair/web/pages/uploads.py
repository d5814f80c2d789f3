"""Files in and out: outcomes and people by CSV with a preview of what a file would change, and the list of a round."""

from __future__ import annotations

import codecs
import csv
import io
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, File, Form, UploadFile
from starlette.responses import Response

from meritfair.core.errors import InputError, MeritfairError
from meritfair.core.language import _, current
from meritfair.core.tables import Table
from meritfair.core.texts import listed
from meritfair.programme.files import FromFile, locating, read_outcomes, read_people, read_states, the_round, write_list
from meritfair.programme.inputs import Outcomes, People
from meritfair.programme.reporting import Receipt
from meritfair.web.access import Auditor, Coordinator, Here
from meritfair.web.errors import MissingError
from meritfair.web.pages.forms import Text
from meritfair.web.pages.responses import go
from meritfair.web.pages.rounds import Typed, draw_next
from meritfair.web.pending_uploads import KINDS, PendingUpload, PendingUploads, opened
from meritfair.web.rendering import page

router = APIRouter()
Upload = Annotated[UploadFile, File()]
_FIRST_ROWS = 8
_MOST_PRINTED = 2000


@dataclass(frozen=True)
class Preview:
    """What a file would change.

    Attributes
    ----------
    file : PendingUpload
    problem : str
        What is wrong with it, with its line and column; empty if nothing is.
    receipt : Receipt or None
        What would come of it.
    headings : tuple of str
    rows : list of (line, cells)
        The first rows that were read.
    total : int
    ignored : str
        The first columns that are not read.
    says_nothing : bool
        Whether no row tells an action or a state.
    """

    file: PendingUpload
    problem: str = ""
    receipt: Receipt | None = None
    headings: tuple[str, ...] = ()
    rows: tuple[tuple[int, tuple[str, ...]], ...] = ()
    total: int = 0
    ignored: str = ""
    says_nothing: bool = False


# ---- out


@router.get("/p/{programme}/round/{number}/list.csv")
def download_list(here: Auditor, number: int) -> Response:
    """Return the list of a round, to be filled in and handed back."""
    look = here.look()
    with tempfile.TemporaryDirectory(prefix="meritfair-") as folder:
        file = Path(folder) / "list.csv"
        write_list(file, look.round(number), look.outcomes(number))
        data = file.read_bytes()
    name = f"round-{number}.csv"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(_for_spreadsheets(data), media_type="text/csv", headers=headers)


def _for_spreadsheets(data: bytes) -> bytes:
    """Return a list as the reader's spreadsheet opens it by a double click.

    A mark says that it is UTF-8. Where numbers have a decimal comma, semicolons separate. Uploads take either.
    """
    rows = list(csv.reader(io.StringIO(data.decode())))
    comma = "," in current().decimal(0.5, 1)
    if comma:
        numbers = [rows[0].index(name) for name in ("due", "chance")]
        for row in rows[1:]:
            for place in numbers:
                row[place] = row[place].replace(".", ",")
    text = io.StringIO()
    csv.writer(text, delimiter=";" if comma else ",", lineterminator="\n").writerows(rows)
    return codecs.BOM_UTF8 + text.getvalue().encode()


@router.get("/p/{programme}/round/{number}/print")
def show_printable_list(here: Auditor, number: int, staff: str = "") -> Response:
    """Show the list of a round as it is printed, with boxes to tick."""
    look = here.look()
    calls = [each for each in look.outcomes(number) if each.drawn and staff in ("", each.staff)]
    return page(
        here,
        "print_round.html",
        look=look,
        round=look.round(number),
        calls=calls[:_MOST_PRINTED],
        total=len(calls),
        staff=staff,
    )


# ---- in


@router.get("/p/{programme}/round/{number}/upload")
def ask_for_outcomes(here: Coordinator, number: int) -> Response:
    """Ask for a file with outcomes."""
    here.look().progress(number)  # which refuses a round that there was not
    return page(here, "upload.html", kind="report", number=number, preview=None)


@router.get("/p/{programme}/people/upload")
def ask_for_people(here: Coordinator) -> Response:
    """Ask for a file of people who enrol."""
    return page(here, "upload.html", kind="enrol", number=0, preview=None, features=here.look().settings.features)


@router.post("/p/{programme}/uploads")
def preview(
    here: Coordinator, file: Upload, kind: Text, number: Annotated[int, Form()] = 0, reason: Text = ""
) -> Response:
    """Show what a file would change; it waits until that is confirmed."""
    if kind not in KINDS:
        raise InputError(f"a file is one of {', '.join(KINDS)}, got {kind!r}")
    files = PendingUploads(here.frame.store)
    kept = files.keep(file, here.name, here.by, kind, number, reason)
    shown = _preview(here, files, kept)
    if shown.problem:
        files.remove(kept)
    features = here.look().settings.features
    return page(here, "upload.html", kind=kind, number=number, preview=shown, features=features)


@router.post("/p/{programme}/uploads/{token}")
def confirm(here: Coordinator, token: str) -> Response:
    """Take in a file whose changes were shown."""
    files, file = _waiting(here, token)
    with files.opened(file) as path:
        receipt = _take_in(here, file, _read(here, file, path), dry_run=False)
    files.remove(file)
    if file.kind == "enrol":
        return go(here, "p", here.name, "people", did="enrol", n=receipt.taken)
    return go(here, "p", here.name, "round", receipt.round, did=file.kind, n=receipt.taken)


@router.post("/p/{programme}/uploads/{token}/discard")
def discard(here: Coordinator, token: str) -> Response:
    """Remove a file that waits."""
    files, file = _waiting(here, token)
    files.remove(file)
    return go(here, "p", here.name, "people" if file.kind == "enrol" else "round", did="discarded")


def _waiting(here: Here, token: str) -> tuple[PendingUploads, PendingUpload]:
    """Return a file that this user has uploaded here, and where it waits."""
    files = PendingUploads(here.frame.store)
    found = files.find(token, here.name, here.by)
    if found is None:
        raise MissingError(
            _(
                "this file does not wait any more: it was taken in, is older than an hour, or has made room for newer "
                "ones; upload it again"
            )
        )
    return files, found


def _read(here: Here, file: PendingUpload, path: Path) -> FromFile[Any]:
    if file.kind == "enrol":
        return read_people(path, here.look().settings.features)
    return read_outcomes(path, correcting=file.kind == "correct")


def _take_in(here: Here, file: PendingUpload, found: FromFile[Any], *, dry_run: bool) -> Receipt:
    """Hand a file over to the programme, once, or try that."""
    programme = here.programme
    how: Any = {"by": here.by, "key": file.token, "dry_run": dry_run}
    with locating(found.table):
        if isinstance(found.value, People):
            return programme.enrol(found.value, **how)
        round_ = the_round(found, file.round or None)
        if file.kind == "correct":
            return programme.correct(found.value, round=round_, reason=file.reason, **how)
        return programme.report(found.value, round=round_, **how)


def _preview(here: Here, files: PendingUploads, file: PendingUpload) -> Preview:
    try:
        with files.opened(file) as path:
            found = _read(here, file, path)
            receipt = _take_in(here, file, found, dry_run=True)
    except MeritfairError as error:
        return Preview(file, here.frame.store.hide(str(error)))
    return _with_rows(file, receipt, found.table)


def _with_rows(file: PendingUpload, receipt: Receipt, table: Table) -> Preview:
    """Return a preview with the first rows of a file."""
    headings = tuple(table.columns)
    cells = zip(*(table.columns[name][:_FIRST_ROWS] for name in headings), strict=True)
    texts = [tuple("" if cell is None else str(cell) for cell in row) for row in cells]
    rows = tuple(zip(table.lines[:_FIRST_ROWS], texts, strict=True))
    told = [table.columns[name] for name in ("action", "state") if name in table.columns]
    empty = file.kind != "enrol" and all(cell in (None, "") for column in told for cell in column)
    return Preview(file, "", receipt, headings, rows, len(table.lines), listed(table.ignored), empty)


# ---- the draw, with states that are known before it


@router.post("/p/{programme}/draw")
def draw(
    here: Coordinator,
    number: Annotated[int, Form()],
    key: Text,
    budget: Annotated[list[str] | None, Form()] = None,
    away: Annotated[str, Form(max_length=1_000_000)] = "",
    reason: Text = "",
    states: Annotated[UploadFile | None, File()] = None,
) -> Response:
    """Draw the next round."""
    seen = None if states is None or not states.filename else _states(here, states)
    return draw_next(here, number, key, seen, Typed(budget or [], away, reason, file=seen is not None))


def _states(here: Here, upload: UploadFile) -> Outcomes:
    """Return the states in a file that comes with a draw."""
    with opened(upload) as path:
        found = read_states(path)
        with locating(found.table):
            here.programme.preview(states=found.value)  # whatever is wrong is told with its line
        return found.value
