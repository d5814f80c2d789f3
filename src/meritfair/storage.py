"""Files: of the right kind, and written so that they are there whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from meritfair.errors import FileError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["check_readable", "check_suffix", "write_whole"]


def check_suffix(path: Path, what: str, suffixes: tuple[str, ...]) -> str:
    """Return the file's suffix in small letters, if `what` is kept in such files.

    Examples
    --------
    >>> check_suffix(Path("arms.xlsx"), "arms", (".csv", ".parquet"))
    Traceback (most recent call last):
    ...
    meritfair.errors.FileError: arms.xlsx: arms are kept in .csv or .parquet files
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


def write_whole(path: Path, write: Callable[[Path], Any]) -> None:
    """Let `write` fill a temporary file beside `path`, then put it in place in one step.

    If anything goes wrong, what was at `path` is still there and the temporary file is gone.
    """
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix)
        os.close(handle)
        temporary = Path(name)
        try:
            write(temporary)
            temporary.chmod(0o666 & ~_umask())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise FileError(path, f"cannot be written: {error.strerror or error}") from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
