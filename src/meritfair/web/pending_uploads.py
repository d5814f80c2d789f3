"""Files that were uploaded and wait until someone has seen what they would change, and confirms.

They wait in the server's run folder, under a random name; what users call them is only ever shown. Whatever is older
than an hour is removed.
"""

from __future__ import annotations

import json
import re
import secrets
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from fastapi import UploadFile

from meritfair.core.errors import InputError, MeritfairError
from meritfair.core.language import _
from meritfair.web.settings import ServerSettings

KINDS = ("report", "correct", "enrol")
_NAME = re.compile(r"[A-Za-z0-9_-]{32}")
_OLDEST = 3600  # seconds
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
    """The files that wait in a server; the same for all of its workers."""

    def __init__(self, settings: ServerSettings) -> None:
        usual = Path(tempfile.gettempdir()) / f"meritfair-{settings.key[:16]}"
        self._folder = (Path(settings.run_folder) if settings.run_folder else usual) / "uploads"

    def keep(self, upload: UploadFile, programme: str, by: str, kind: str, round_: int, reason: str) -> PendingUpload:
        """Keep what was uploaded."""
        if not upload.filename:
            raise InputError(_("choose a file first"))
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._remove_old()
        name = Path(upload.filename.replace("\\", "/")).name[:100]
        found = PendingUpload(secrets.token_urlsafe(24), programme, by, kind, name, round_, reason)
        with self.path(found).open("xb") as stream:
            while chunk := upload.file.read(_CHUNK):
                stream.write(chunk)
        self._about(found.token).write_text(json.dumps(asdict(found)), "utf-8")
        return found

    def find(self, token: str, programme: str, by: str) -> PendingUpload | None:
        """Return a file that waits; None if there is none, or it is one of another programme or user."""
        self._remove_old()
        found = self._read(self._about(token)) if _NAME.fullmatch(token) else None
        return found if found is not None and (found.programme, found.by) == (programme, by) else None

    def forget(self, programme: str) -> None:
        """Remove all files of a programme: someone who is erased may be in them."""
        for each in self._folder.glob("*.json"):
            found = self._read(each)
            if found is not None and found.programme == programme:
                self.remove(found)

    def remove(self, file: PendingUpload) -> None:
        """Remove a file."""
        self._about(file.token).unlink(missing_ok=True)
        self.path(file).unlink(missing_ok=True)

    def path(self, file: PendingUpload) -> Path:
        """Return where the file is."""
        return self._folder / f"{file.token}.csv"

    def words(self, error: MeritfairError, file: PendingUpload) -> str:
        """Return what is wrong with a file, which is called as its user calls it."""
        return str(error).replace(str(self.path(file)), file.name)

    def _about(self, token: str) -> Path:
        return self._folder / f"{token}.json"

    def _read(self, about: Path) -> PendingUpload | None:
        try:
            return PendingUpload(**json.loads(about.read_text("utf-8")))
        except FileNotFoundError:  # there is none, or someone has removed it meanwhile
            return None

    def _remove_old(self) -> None:
        for each in self._folder.glob("*"):
            with suppress(FileNotFoundError):  # another worker may be faster
                if time.time() - each.stat().st_mtime > _OLDEST:
                    each.unlink()
