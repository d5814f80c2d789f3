"""Progress: a line on the error stream with what is going on, how much of it is done, and how long the rest will take.

In a terminal and in a notebook the line is drawn over itself. Anywhere else, as in a log file, there is a new line for
each twentieth that is done. It is plain text: a notebook shows that without any widgets installed.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout, suppress
from datetime import timedelta
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, TextIO, TypeAlias, cast

from meritfair.errors import InputError
from meritfair.texts import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Bar", "Progress", "following", "in_parts"]

Progress: TypeAlias = "bool | Callable[..., None] | None"

_TICK = 0.2  # seconds between two looks at what was told
_WINDOW = 30.0  # seconds over which the speed is measured
_LINES, _PAUSE = 20, 5.0  # in a log file: how many lines at most, and seconds between two
_WIDEST, _NARROWEST = 40, 10  # columns of the bar itself
_USUAL = 80  # columns of a line where that is not known
_CYAN, _PLAIN = "\x1b[36m", "\x1b[0m"


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
        with Bar(what or "") as bar:
            yield bar.tell if what is None else partial(bar.tell, what)
    elif progress is None or progress is False:
        yield lambda *_: None
    elif callable(progress):
        yield progress
    else:
        raise InputError(f"progress must be True, False, or a function that is told how far it is, got {progress!r}")


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


class Bar:
    """A line that shows how far something is, for as long as the context lasts.

    A thread of its own draws it, so that the clock goes on while nothing is told, and telling takes no time.

    Parameters
    ----------
    what : str
        What is going on at first; without it, nothing is shown until something is told.
    keep : bool
        Leave the line there at the end. If not, it is shown in a terminal only.
    """

    def __init__(self, what: str = "", *, keep: bool = True) -> None:
        self._stream: Any = sys.stderr  # None where a program has no console at all
        self._terminal = self._stream is not None and self._stream.isatty()
        self._wanted, self._keep = self._stream is not None and (keep or self._terminal), keep
        notebook = type(self._stream).__module__.startswith("ipykernel")
        self._over_itself = self._wanted and (self._terminal or notebook)
        self._now = what, 0.0
        self._begin = time.monotonic()
        self._past = deque([(self._begin, 0.0)])
        self._drawn, self._held = "", False
        self._logged = -1.0, self._begin  # how much was done at the last line of a log file, and when that was
        self._lock, self._over = threading.RLock(), threading.Event()
        self._streams = ExitStack()
        self._thread = threading.Thread(target=self._watch, name="meritfair-progress", daemon=True)

    def tell(self, what: str, done: int, total: int) -> None:
        """Take in what is going on, and how much of how much is done."""
        self._now = what, min(1.0, done / max(total, 1))

    def __enter__(self) -> Bar:
        if self._over_itself:
            self._streams.enter_context(redirect_stderr(cast("TextIO", _Above(sys.stderr, self))))
            self._streams.enter_context(redirect_stdout(cast("TextIO", _Above(sys.stdout, self))))
        if self._wanted:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if not self._wanted:
            return
        self._over.set()
        self._thread.join()
        self._streams.close()
        if self._keep:
            self._draw(last=True)
        else:
            self._erase()

    def print_above(self, stream: Any, text: str) -> Any:
        """Write a text of others where the line was; this is drawn again once their last line is complete."""
        with self._lock:
            self._erase()
            self._held = not text.endswith("\n")
            return stream.write(text)

    def _erase(self) -> None:
        if self._drawn:
            self._write("\r" + " " * _cells(self._drawn) + "\r")
            self._drawn = ""

    def _watch(self) -> None:
        while not self._over.wait(_TICK):
            self._draw()

    def _draw(self, *, last: bool = False) -> None:
        (what, part), now = self._now, time.monotonic()
        if not what:  # nothing was told yet
            return
        tail = f" {int(100 * part):3} %  {_clock(now - self._begin)}" + f", {self._left(part, now)} left" * (part < 1)
        name, full, empty = self._fitted(what, part, len(tail))
        line = f"{name} {full}{empty}{tail}"
        with self._lock:
            if not self._over_itself:
                before, then = self._logged
                more = int(_LINES * part) != int(_LINES * before) and now - then >= _PAUSE
                if more or (last and part != before):
                    self._logged = part, now
                    self._write(f"{line}\n")
            elif last or (line != self._drawn and not self._held):
                done = f"{_CYAN}{full}{_PLAIN}" if self._terminal and _in_color() else full
                rest = " " * (_cells(self._drawn) - _cells(line))
                begin, end = "\n" if self._held else "\r", "\n" * last
                self._write(f"{begin}{name} {done}{empty}{tail}{rest}{end}")
                self._drawn = line

    def _left(self, part: float, now: float) -> str:
        """Return how long the rest will take at the present speed."""
        past = self._past
        if part < past[-1][1]:  # something else has begun
            past.clear()
        if not past or part > past[-1][1]:
            past.append((now, part))
        while len(past) > 2 and past[1][0] < now - _WINDOW:
            past.popleft()
        then, before = past[0]
        return _clock((1 - part) * (now - then) / (part - before)) if part > before else "-:--:--"

    def _fitted(self, what: str, part: float, tail: int) -> tuple[str, str, str]:
        """Return the name and both parts of the bar; the line must fit, as one that wraps cannot be drawn over."""
        from rich.cells import set_cell_size

        room = self._columns() - 2 - tail
        name = printable(what)
        name = set_cell_size(name, max(0, min(_cells(name), room - _NARROWEST)))
        width = max(0, min(_WIDEST, room - _cells(name)))
        full, empty = _marks(self._stream)
        return name, full * int(width * part), empty * (width - int(width * part))

    def _columns(self) -> int:
        with suppress(OSError, ValueError):  # a terminal that does not know
            if self._terminal:
                return os.get_terminal_size(self._stream.fileno()).columns or _USUAL
        return _USUAL

    def _write(self, text: str) -> None:
        with suppress(OSError, ValueError):  # nobody reads it any more: no reason to lose what is being made
            self._stream.write(text)
            self._stream.flush()


class _Above:
    """A stream whose texts appear above a bar."""

    def __init__(self, stream: Any, bar: Bar) -> None:
        self._stream, self._bar = stream, bar

    def write(self, text: str) -> Any:
        return self._bar.print_above(self._stream, text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _cells(text: str) -> int:
    """Return how many columns a text takes."""
    from rich.cells import cell_len

    return cell_len(text)


def _clock(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))


def _marks(stream: Any) -> tuple[str, str]:
    """Return the marks of a bar, of what is done and what is not, that a stream can show."""
    try:
        "━─".encode(getattr(stream, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return "#", "-"
    return "━", "─"


def _in_color() -> bool:
    return os.name != "nt" and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
