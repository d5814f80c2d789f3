"""Files: of the right kind, and written so that they are there whole or not at all."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from meritfair.core.errors import FileError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["check_readable", "check_suffix", "locked", "write_whole"]


def check_suffix(path: Path, what: str, suffixes: tuple[str, ...]) -> str:
    """Return the file's suffix in small letters, if `what` is kept in such files.

    Examples
    --------
    >>> check_suffix(Path("arms.xlsx"), "arms", (".csv", ".parquet"))
    Traceback (most recent call last):
    ...
    meritfair.core.errors.FileError: arms.xlsx: arms are kept in .csv or .parquet files
    """
    suffix = path.suffix.lower()
    if suffix not in suffixes:
        raise FileError(path, f"{what} are kept in {' or '.join(suffixes)} files")
    return suffix


def check_readable(path: Path) -> None:
    """Refuse a file that is not there, is no file, or may not be read."""
    try:
        if not path.is_file():
            raise FileError(path, "is not a file" if path.exists() else "there is no such file")
        path.open("rb").close()
    except OSError as error:
        raise FileError(path, f"cannot be read: {error.strerror or error}") from None


def write_whole(path: Path, write: Callable[[Path], Any], *, private: bool = False) -> None:
    """Let `write` fill a temporary file beside `path`, then put it in place in one step.

    If anything goes wrong, what was at `path` is still there and the temporary file is gone. A symbolic link stays, and
    the file that it points to is replaced. A file that is replaced keeps its mode; a new one has that of the umask, or
    can be read by its owner alone if it is `private`.
    """
    file = Path(os.path.realpath(path))
    try:
        mode = _mode(file, 0o600 if private else 0o666 & ~_umask())
        handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.stem}-", suffix=path.suffix)
        os.close(handle)
        temporary = Path(name)
        try:
            write(temporary)
            temporary.chmod(mode)
            temporary.replace(file)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise FileError(path, f"cannot be written: {error.strerror or error}") from None


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep others who use this lock from the folder of a file meanwhile, in this process and in others.

    The folder itself is locked, so nothing is left behind. Where there are no such locks (Windows, some network
    drives) nobody is kept out: what is done meanwhile should take no longer than it has to.
    """
    folder = -1
    try:
        with suppress(ImportError, OSError):  # whether the folder can be written to, the writer will say
            import fcntl

            folder = os.open(Path(os.path.realpath(path)).parent, os.O_RDONLY)
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        if folder >= 0:
            os.close(folder)


def _mode(file: Path, usual: int) -> int:
    """Return the mode that a file has, or that a new one is to have."""
    try:
        found = file.stat().st_mode
    except FileNotFoundError:
        return usual
    if not stat.S_ISREG(found):
        raise OSError("it is not a regular file")
    return stat.S_IMODE(found)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
