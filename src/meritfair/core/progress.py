"""Progress: a line on the error stream that says what is going on, how much is done, and how long the rest will take.

The line is drawn by tqdm, as plain text, which terminals, notebooks (without any widgets) and log files all show.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager, nullcontext, redirect_stderr, suppress
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, TypeAlias

from meritfair.core.errors import InputError
from meritfair.core.texts import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Progress: TypeAlias = "bool | Callable[..., None] | None"

_LINE = "{desc}: {percentage:3.0f}%|{bar}| {elapsed}<{remaining}"
_REDRAWN, _LOGGED = 0.2, 5.0  # seconds between two states of the line, on a screen and in a log file


@contextmanager
def following(progress: Progress, what: str | None = None) -> Iterator[Callable[..., None]]:
    """Give the function that is told how far something is: that of a bar, the caller's own, or one that does nothing.

    Parameters
    ----------
    progress : bool, callable or None
        What a user has asked for.
    what : str, optional
        What is going on. Without it, the function is told each time, before how much of how much is done.
    """
    if progress is True:
        with bar(what or "") as tell:
            yield tell if what is None else partial(tell, what)
    elif progress is None or progress is False:
        yield lambda *_: None
    elif callable(progress):
        yield progress
    else:
        raise InputError(f"progress must be True, False, or a function to report to, got {progress!r}")


def in_parts(tell: Callable[[str, int, int], None], parts: int) -> Callable[[str], Callable[[int, int], None]]:
    """Return a function that begins the next of several parts of one length.

    It takes the name of the part, and returns what is to be told how many of how many steps of that part are done.

    Examples
    --------
    >>> begin = in_parts(print, 2)
    >>> begin("reading")(5, 10)
    reading 5 20
    >>> begin("weighing")(5, 10)
    weighing 15 20
    """
    numbers = count()

    def begin(name: str) -> Callable[[int, int], None]:
        before = next(numbers)
        return lambda done, total: tell(name, before * total + done, parts * total)

    return begin


@contextmanager
def bar(what: str = "", *, keep: bool = True, delay: float = 0.0) -> Iterator[Callable[[str, int, int], None]]:
    """Show a bar for as long as the context lasts; give the function that is told what is done of how much.

    Parameters
    ----------
    what : str
        What is going on at first.
    keep : bool
        Leave the line there at the end. If not, it is shown in a terminal only.
    delay : float
        Show it only if it lasts longer than so many seconds.
    """
    stream: Any = sys.stderr  # None where a program has no console at all
    terminal = stream is not None and stream.isatty()
    if stream is None or not (keep or terminal):
        yield lambda *_: None
        return
    from tqdm import tqdm
    from tqdm.contrib import DummyTqdmFile

    on_screen = terminal or type(stream).__module__.startswith("ipykernel")
    how: dict[str, Any] = {"bar_format": _LINE, "mininterval": _REDRAWN if on_screen else _LOGGED, "miniters": 0}
    quiet = _Quiet(stream)
    line = tqdm(total=1.0, desc=printable(what), file=quiet, leave=keep, dynamic_ncols=True, delay=delay, **how)

    def tell(what: str, done: int, total: int) -> None:
        line.set_description_str(printable(what), refresh=False)
        line.update(min(1.0, done / max(total, 1)) - line.n)

    with line, redirect_stderr(DummyTqdmFile(quiet)) if on_screen else nullcontext():  # others' lines go above this one
        yield tell


@contextmanager
def progress_bar(parts: int = 1) -> Iterator[Callable[[str], Callable[[int, int], None]]]:
    """Show a bar in a terminal while something of several parts of the same length is done.

    Call it with the name of the next part; that returns a function to be told how many of how many steps are done.
    """
    with bar(keep=False) as tell:
        begin = in_parts(tell, parts)

        def begin_at_once(name: str) -> Callable[[int, int], None]:
            tell = begin(name)
            tell(0, 1)
            return tell

        yield begin_at_once


class _Quiet:
    """A stream that nobody may read any more, which is no reason to lose what is being made."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        with suppress(OSError):
            self._stream.write(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
