"""Files: checked before they are read, written whole or not at all, and locked."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from meritfair.core.errors import FileError


@contextmanager
def naming(path: Path, problem: str) -> Iterator[None]:
    """Say which file an error of the system is about."""
    try:
        yield
    except OSError as error:
        raise FileError(path, f"{problem}: {error.strerror or error}") from None


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
    with naming(path, "cannot be read"):
        if not path.is_file():
            raise FileError(path, "is not a file" if path.exists() else "there is no such file")
        path.open("rb").close()


def write_whole(path: Path, write: Callable[[Path], Any], *, private: bool = False) -> None:
    """Let `write` fill a temporary file beside `path`, then put it in place in one step.

    If anything goes wrong, what was at `path` is still there and the temporary file is gone. A symbolic link stays, and
    the file that it points to is replaced. A file that is replaced keeps its mode; a new one has that of the umask, or
    can be read by its owner alone if it is `private`.
    """
    file = Path(os.path.realpath(path))
    with naming(path, "cannot be written"):
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


def write_text(path: Path, text: str) -> None:
    """Write a text, in UTF-8 and with its line ends as they are, as `write_whole` does."""
    write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8", newline=""))


def lock(handle: int, *, wait: bool = False) -> bool:
    """Lock an open file or folder until it is closed or its process ends; return False if another has done so.

    Where there are no such locks (Windows, some network drives) nobody is kept out.
    """
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except (ImportError, OSError):  # no locks here
        pass
    return True


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep others who use this lock from the folder of a file meanwhile, in this process and in others.

    The folder itself is locked, as by `lock`, so nothing is left behind. What is done meanwhile should take no longer
    than it has to.
    """
    folder = -1
    try:
        with suppress(OSError):  # whether the folder can be written to, the writer will say
            folder = os.open(Path(os.path.realpath(path)).parent, os.O_RDONLY)
            lock(folder, wait=True)
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
