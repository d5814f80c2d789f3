"""Files that were uploaded and wait until someone has seen what they would change, and confirms.

They wait in the store, so that whichever server on it is asked next finds them; what users call them is only ever
shown. Whatever is older than an hour is removed. A user has few files at a time, of which the oldest goes for a new
one; if those of all users together are too many, another one is refused.
"""

from __future__ import annotations

import os
import re
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from fastapi import UploadFile

from meritfair.core.errors import InputError, MeritfairError
from meritfair.core.language import _
from meritfair.programme.storage.store import Store
from meritfair.programme.storage.temporary_rows import TemporaryRows, UploadRow
from meritfair.web.quota import QuotaError

KINDS = ("report", "correct", "enrol")
MOST_OF_ONE = 4  # files of one user
MOST_BYTES_OF_ONE = 128 << 20
MOST_BYTES = 512 << 20  # of all users
_NAME = re.compile(r"[A-Za-z0-9_-]{32}")
_OLDEST = 3_600_000  # milliseconds
_CHUNK = 1 << 20


@dataclass(frozen=True)
class PendingUpload:
    """A file that waits.

    Attributes
    ----------
    token : str
        By which it is found.
    programme, by : str
        Where it was uploaded, and by whom: nobody else can confirm it.
    kind : {"report", "correct", "enrol"}
    name : str
        What its user calls it.
    round : int
    reason : str
        Of a correction.
    """

    token: str
    programme: str
    by: str
    kind: str
    name: str
    round: int = 0
    reason: str = ""


class PendingUploads:
    """The files that wait in a store; the same for all servers on it."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def keep(self, upload: UploadFile, programme: str, by: str, kind: str, round_: int, reason: str) -> PendingUpload:
        """Keep what was uploaded."""
        found = PendingUpload(secrets.token_urlsafe(24), programme, by, kind, name_of(upload), round_, reason)
        size = upload.file.seek(0, os.SEEK_END)
        upload.file.seek(0)
        with self._store.temporary(writing=True) as rows:
            _make_room(rows, by, size)
            kept = (programme, by, kind, found.name, round_, reason, size, rows.now())
            rows.put_upload(UploadRow(found.token, *kept))
            rows.put_data(found.token, _chunks(upload.file))
        return found

    def find(self, token: str, programme: str, by: str) -> PendingUpload | None:
        """Return a file that waits; None if there is none, or it is one of another programme or user."""
        if not _NAME.fullmatch(token):
            return None
        with self._store.temporary() as rows:
            row = rows.upload(token)
            if row is None or (row.programme, row.done_by) != (programme, by) or rows.now() - row.time > _OLDEST:
                return None
        return PendingUpload(row.token, row.programme, row.done_by, row.kind, row.name, row.round, row.reason)

    def forget(self, programme: str) -> None:
        """Remove all files of a programme: someone who is erased may be in them."""
        with self._store.temporary(writing=True) as rows:
            for row in rows.uploads():
                if row.programme == programme:
                    rows.remove_upload(row.token)

    def remove(self, file: PendingUpload) -> None:
        """Remove a file."""
        with self._store.temporary(writing=True) as rows:
            rows.remove_upload(file.token)

    @contextmanager
    def opened(self, file: PendingUpload) -> Iterator[Path]:
        """Give a file to read, which is gone at the end; in what is wrong with it, it is called as its user does."""
        with _named(file.name) as path:
            with path.open("wb") as stream, self._store.temporary() as rows:
                stream.writelines(rows.data(file.token))
            yield path


def name_of(upload: UploadFile) -> str:
    """Return what a user calls a file, if there is one, as far as it can be shown."""
    if not upload.filename:
        raise InputError(_("choose a file first"))
    name = "".join(filter(str.isprintable, upload.filename))
    return Path(name.replace("\\", "/")).name[:100]


@contextmanager
def opened(upload: UploadFile) -> Iterator[Path]:
    """Give a file that need not wait, as `PendingUploads.opened` does."""
    with _named(name_of(upload)) as path:
        with path.open("wb") as stream:
            stream.writelines(_chunks(upload.file))
        yield path


@contextmanager
def _named(name: str) -> Iterator[Path]:
    """Give the path for a file that is gone at the end; errors call it by another name."""
    with tempfile.TemporaryDirectory(prefix="meritfair-") as folder:  # which nobody else may look into
        path = Path(folder) / "upload.csv"
        try:
            yield path
        except MeritfairError as error:
            if str(path) not in str(error):
                raise
            raise InputError(str(error).replace(str(path), name)) from None


def _chunks(stream: BinaryIO) -> Iterator[bytes]:
    while chunk := stream.read(_CHUNK):
        yield chunk


def _make_room(rows: TemporaryRows, by: str, size: int) -> None:
    """Remove what is too old, and the oldest of a user's own that are too many with a new one; refuse it if all are."""
    now, left = rows.now(), list[UploadRow]()
    for row in rows.uploads():
        if now - row.time > _OLDEST:
            rows.remove_upload(row.token)
        else:
            left.append(row)
    own = [row for row in left if row.done_by == by]
    while own and (len(own) >= MOST_OF_ONE or sum(row.size for row in own) + size > MOST_BYTES_OF_ONE):
        left.remove(own[0])
        rows.remove_upload(own.pop(0).token)
    if sum(row.size for row in left) + size > MOST_BYTES:
        raise QuotaError(_("too many files of others wait to be confirmed: try again in some minutes"))
