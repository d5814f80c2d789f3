"""Exports: a folder with the whole ledger and a verifier that needs nothing but Python; and back into a database.

Beside the ledger an export has what is private (ids, salts, reasons, the secret), unless it is anonymous: without these
anyone can check everything, and nobody can tell who is who. A *proof* is for one person: all entries without their
tables, and that person's own rows, each with its way up to the root in its entry. Of a draw in which they were not
drawn it has the rows between which they would stand: numbers of two others, and nothing else of them.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from meritfair.core.checks import check_kind
from meritfair.core.errors import FileError, InputError
from meritfair.core.json_values import DAMAGE, from_json
from meritfair.core.storage import check_readable, naming, write_text, write_whole
from meritfair.core.texts import shortened
from meritfair.programme.ledger.canonical import sha256
from meritfair.programme.ledger.entries import Entry
from meritfair.programme.ledger.rowtable import RowTable
from meritfair.programme.reporting import Receipt, receipt
from meritfair.programme.storage.store import Session, Store, StoreError
from meritfair.programme.work import Work

LEDGER, TABLES, PRIVATE, HEAD, VERIFIER = "ledger.jsonl", "tables", "private.json", "head.txt", "verify.py"
_FORMAT = "meritfair-private-1"
_README = """This is the ledger of the programme "{name}": {entries} entries, head {head}.

To check it you need Python 3.9 or newer, and nothing else:

    python verify.py

It checks that no entry was changed, taken out or put in, and makes every draw again. If you have kept a head that was
published earlier, check that the ledger still holds it:

    python verify.py --head HEAD

ledger.jsonl has an entry in each line, tables/ has their tables. {private}
"""
_WITH = (
    "private.json has ids, salts, reasons and the secret: keep it to yourself, or delete it before you pass this on."
)
_WITHOUT = "Nothing in here says who the participants are."


def write_export(session: Session, folder: Path, anonymous: bool) -> Path:
    """Write the ledger into a folder that is new or empty, and return it."""
    with naming(folder, "cannot be written"):
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise FileError(folder, "is not empty: export into a new folder")
        (folder / TABLES).mkdir()
        with (folder / LEDGER).open("wb") as ledger:
            for seq, data, _ in session.entries():
                ledger.write(data + b"\n")
                rows = session.rows(seq)
                if rows is not None:
                    (folder / TABLES / f"{seq}.z").write_bytes(zlib.compress(rows, 6))
    said = {"name": session.name, "entries": session.length, "head": session.head.hex()}
    write_text(folder / HEAD, session.head.hex() + "\n")
    write_text(folder / VERIFIER, verifier_source())
    write_text(folder / "README.txt", _README.format(**said, private=_WITHOUT if anonymous else _WITH))
    if not anonymous:
        text = json.dumps(_private(session))
        write_whole(folder / PRIVATE, lambda file: file.write_text(text, encoding="utf-8"), private=True)
    return folder


def verifier_source() -> str:
    """Return the source of the verifier that goes with exports."""
    return (resources.files("meritfair.programme.ledger") / "standalone.py").read_text(encoding="utf-8")


def _private(session: Session) -> dict[str, Any]:
    people = [[each.number, each.id, (each.salt or b"").hex(), each.group, each.staff] for each in session.people()]
    return {
        "format": _FORMAT,
        "programme": session.identity,
        "name": session.name,
        "secret": session.secret.hex(),
        "people": people,
        "notes": [list(note) for note in session.notes()],
    }


def read_export(store: Store, name: str | None, folder: Path) -> Receipt:
    """Make a programme of an export, with the same entries and so the same head."""
    from meritfair.programme.ledger.standalone import check

    for file in (LEDGER, PRIVATE):
        check_readable(folder / file)
    problems = check(folder)[0]
    if problems:
        raise FileError(folder, f"does not hold a whole ledger: {problems[0]}")
    private = _read_private(folder / PRIVATE)
    lines = (folder / LEDGER).read_bytes().splitlines()
    with _naming(folder / LEDGER, "does not begin with an entry"):
        identity = Entry.from_bytes(lines[0]).programme
    if identity != private["programme"]:
        raise FileError(folder / PRIVATE, "belongs to another programme")
    with store.creating(name or private["name"], identity, private["secret"]) as session:
        work = Work(session)
        for seq, data in enumerate(lines):
            with _naming(folder / LEDGER, f"entry {seq} cannot be taken in", line=seq + 1):
                entry = Entry.from_bytes(data)
                rows = None if entry.table is None else zlib.decompress((folder / TABLES / f"{seq}.z").read_bytes())
                table = None if entry.table is None or rows is None else RowTable.from_bytes(entry.table, rows)
                work.state.apply(entry, table)
            session.append(data, sha256(data), rows)
        with _naming(folder / PRIVATE, "does not hold what is private of this ledger"):
            _keep_private(session, private)
        work.save()
        return receipt(work, "import", work.state.summary.round, entries=session.length)


@contextmanager
def _naming(file: Path, problem: str, line: int | None = None) -> Iterator[None]:
    """Say which file holds what cannot be used, whatever that has caused."""
    try:
        yield
    except StoreError:  # which is not the file's fault
        raise
    except (*DAMAGE, OSError) as error:
        raise FileError(file, f"{problem}: {shortened(str(error) or type(error).__name__)}", line=line) from None


def _read_private(file: Path) -> dict[str, Any]:
    with _naming(file, "does not hold what is private of an export"):
        values = from_json(file.read_text(encoding="utf-8"))
        if values["format"] != _FORMAT:
            raise InputError(f"it has the format {values['format']!r}")
        check_kind("name", values["name"], str)
        return {**values, "secret": bytes.fromhex(values["secret"])}


def _keep_private(session: Session, private: dict[str, Any]) -> None:
    """Write who the participants are, and reasons."""
    people = [each for each in private["people"] if each[1]]
    if people:
        numbers, ids, salts, groups, staff = zip(*people, strict=True)
        empty = ["" if each is None else each for each in groups], ["" if each is None else each for each in staff]
        session.add_people(list(numbers), list(ids), [bytes.fromhex(salt) for salt in salts], *empty)
    by_entry = dict[int, dict[int, str]]()
    for seq, number, text in private["notes"]:
        by_entry.setdefault(seq, {})[number] = text
    for seq, notes in by_entry.items():
        session.add_notes(seq, notes)


def _shown(entry: Entry, table: RowTable, number: int) -> list[int]:
    """Return which rows of a table a proof has: the person's own, or those between which they would stand in a draw."""
    own = np.flatnonzero(table["number"] == number).tolist()
    if own or entry.kind != "draw":
        return [int(index) for index in own]
    place = int(np.searchsorted(table["number"], number))
    return [index for index in (place - 1, place) if 0 <= index < len(table)]


def proof(work: Work, id_: str | int) -> dict[str, Any]:
    """Return what one person needs to prove what was recorded of them."""
    number = work.number(id_)
    found = work.session.people([number])
    if not found:
        raise InputError(f"participant {number} was erased, and nobody can tell any more who they were")
    person = found[0]
    entries, rows = list[str](), list[dict[str, Any]]()
    for seq, data, _ in work.session.entries():
        entry = Entry.from_bytes(data)
        entries.append(data.decode())
        if entry.table is None:
            continue
        table = RowTable.from_bytes(entry.table, work.session.rows(seq) or b"")
        for index in _shown(entry, table, number):
            path = [[side, step.hex()] for side, step in table.path(index)]
            rows.append({"seq": seq, "index": index, "row": table.row(index).hex(), "path": path})
    return {
        "programme": work.session.identity,
        "id": person.id,
        "salt": (person.salt or b"").hex(),
        "number": number,
        "entries": entries,
        "rows": rows,
    }
