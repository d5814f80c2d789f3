"""The bar of progress=True: in a terminal, a notebook and a log file, and who shows it."""

from __future__ import annotations

import io
import os
import sys
import threading
from typing import Any

import numpy as np
import pytest
from rich.cells import cell_len

import meritfair as mf
from meritfair import progress
from meritfair.cli.show import progress_bar
from meritfair.progress import Bar, following

ARMS = mf.datasets.synthetic(n_arms=3, seed=1)
QUICK: dict[str, Any] = {"budget": 1, "episodes": 3, "horizon": 10, "seed": 1}


class LogFile(io.StringIO):
    """A stream that is no terminal, and says when something was written."""

    terminal = False
    encoding = "utf-8"

    def __init__(self) -> None:
        super().__init__()
        self.written = threading.Event()

    def isatty(self) -> bool:
        return self.terminal

    def write(self, text: str) -> int:
        done = super().write(text)
        self.written.set()
        return done

    @property
    def screen(self) -> list[str]:
        """The lines that a person sees: after a carriage return, text replaces what was there."""
        lines = []
        for line in self.getvalue().split("\n"):
            seen: list[str] = []
            for part in line.split("\r"):
                seen[: len(part)] = part
            lines.append("".join(seen).rstrip())
        return lines


class Terminal(LogFile):
    terminal = True


class OutStream(LogFile):
    __module__ = "ipykernel.iostream"


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Let time go by only when a test says so, and nothing be drawn but by the test."""
    now = [100.0]
    monkeypatch.setattr("meritfair.progress.time.monotonic", lambda: now[0])
    monkeypatch.setattr(progress, "_TICK", 3600.0)
    return now


def on(monkeypatch: pytest.MonkeyPatch, stream: LogFile) -> LogFile:
    monkeypatch.setattr(sys, "stderr", stream)
    return stream


# ---- what is asked for


@pytest.mark.parametrize("nothing", [None, False])
def test_without_progress_nothing_is_shown(nothing: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = on(monkeypatch, Terminal())
    with following(nothing, "playing") as tell:
        tell(1, 2)
    assert stream.getvalue() == ""


@pytest.mark.parametrize("wrong", ["yes", 1, 0, []])
def test_anything_else_is_refused(wrong: Any) -> None:
    for call in (
        lambda: mf.simulate(ARMS, "random", **QUICK, progress=wrong),
        lambda: mf.compare(ARMS, ["random"], **QUICK, progress=wrong),
        lambda: mf.fit(counts(), progress=wrong),
        lambda: mf.audit(draws(), progress=wrong),
    ):
        with pytest.raises(mf.InputError, match=r"progress must be True, False, or a function .*, got ") as caught:
            call()
        assert repr(wrong) in str(caught.value)


def counts() -> mf.Counts:
    return mf.Counts(np.full((2, 2, 2), 9), np.full((2, 2, 2), 4))


def draws() -> mf.DrawLog:
    return mf.DrawLog([1, 1, 2, 2], ["a", "b"] * 2, [0.5] * 4, [0, 1, 1, 0])


@pytest.mark.parametrize(
    ("what", "call"),
    [
        ("random", lambda: mf.simulate(ARMS, "random", **QUICK, progress=True)),
        ("optimal", lambda: mf.compare(ARMS, ["optimal"], **QUICK, progress=True)),
        ("intervals", lambda: mf.fit(counts(), progress=True)),
        ("weighing", lambda: mf.audit(draws(), progress=True)),
    ],
    ids=["simulate", "compare", "fit", "audit"],
)
def test_true_shows_a_bar(what: str, call: Any, capsys: pytest.CaptureFixture[str]) -> None:
    call()
    (line,) = capsys.readouterr().err.splitlines()  # a short thing has one line in a log
    assert line.startswith(what)
    assert "100 %" in line


def test_a_bar_changes_no_result() -> None:
    alone, watched = (mf.simulate(ARMS, "merit-fair", **QUICK, progress=each) for each in (None, True))
    np.testing.assert_array_equal(alone.reward, watched.reward)


# ---- where it is shown


@pytest.mark.parametrize("stream", [Terminal, OutStream])
def test_terminals_and_notebooks_have_a_line_that_is_drawn_over(
    stream: type[LogFile], monkeypatch: pytest.MonkeyPatch, clock: list[float]
) -> None:
    out = on(monkeypatch, stream())
    with Bar("a longer name") as bar:
        bar._draw()
        bar.tell("short", 1, 2)
        bar._draw()
        assert out.screen[-1].startswith("short ━")
        assert out.screen[-1].endswith("left")
        bar.tell("short", 2, 2)
    assert len(out.screen) == 2
    assert out.screen[0].endswith("100 %  0:00:00")
    assert out.screen[1] == ""


def test_a_log_file_has_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch, clock: list[float]) -> None:
    out = on(monkeypatch, LogFile())
    with Bar("playing") as bar:
        for step in range(1, 401):
            clock[0] += 3.125
            bar.tell("playing", step, 400)
            bar._draw()
    lines = out.getvalue().splitlines()
    assert "\r" not in out.getvalue()
    assert [line.split(" %")[0].split()[-1] for line in lines] == [str(5 * k) for k in range(21)]
    assert lines[10].endswith(" 50 %  0:10:25, 0:10:25 left")


def test_short_things_do_not_fill_a_log(monkeypatch: pytest.MonkeyPatch, clock: list[float]) -> None:
    out = on(monkeypatch, LogFile())
    with Bar("playing") as bar:
        for step in range(101):
            clock[0] += 0.1
            bar.tell("playing", step, 100)
            bar._draw()
    assert len(out.getvalue().splitlines()) <= 3


def test_a_bar_that_is_not_kept_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on(monkeypatch, Terminal())
    with Bar("playing", keep=False):
        assert terminal.written.wait(10)  # drawn by itself
    assert terminal.screen == [""]
    log = on(monkeypatch, LogFile())
    with Bar("playing", keep=False) as bar:
        bar.tell("playing", 1, 1)
    assert log.getvalue() == ""


def test_commands_name_each_part_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    out = on(monkeypatch, Terminal())
    with progress_bar(4) as begin:
        begin("reading")
        begin("weighing")
        assert out.written.wait(10)
        assert out.screen[-1].startswith("weighing ━")
        assert " 25 %" in out.screen[-1]
    assert out.screen == [""]


def test_nothing_is_shown_of_what_never_began(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on(monkeypatch, Terminal())
    with following(True):
        pass
    assert terminal.getvalue() == ""


def test_what_others_print_stays_above_the_bar(monkeypatch: pytest.MonkeyPatch, clock: list[float]) -> None:
    out = on(monkeypatch, Terminal())
    monkeypatch.setattr(sys, "stdout", out)
    with Bar("playing") as bar:
        bar._draw()
        print("compiling", file=sys.stderr)
        bar._draw()
        print("a line that is ", end="")
        bar._draw()
        print("not complete at once")
        bar._draw()
        assert sys.stdout.isatty()
    assert out.screen[:2] == ["compiling", "a line that is not complete at once"]
    assert out.screen[2].startswith("playing")
    assert sys.stdout is sys.stderr is out


# ---- what it says


@pytest.mark.parametrize("columns", [0, 20, 40, 80, 200])
@pytest.mark.parametrize(
    "name", ["x", "merit-fair:estimate=mean,design=exact,floor=0.1", "日本語" * 20, "a\x1b[31m\nb\rc"]
)
def test_the_line_fits_into_the_terminal(
    name: str, columns: int, monkeypatch: pytest.MonkeyPatch, clock: list[float]
) -> None:
    out = on(monkeypatch, Terminal())
    monkeypatch.setattr(out, "fileno", lambda: 2, raising=False)
    monkeypatch.setattr(os, "get_terminal_size", lambda _: os.terminal_size((columns, 24)))
    with Bar() as bar:
        bar.tell(name, 1, 3)
        bar._draw()
        (line,) = out.screen
    assert line.isprintable()
    assert cell_len(line) < max(columns or 80, 35)  # less would be no use
    assert "33 %" in line


def test_marks_that_a_stream_cannot_show_are_replaced(monkeypatch: pytest.MonkeyPatch, clock: list[float]) -> None:
    out = LogFile()
    out.encoding = "cp1252"
    on(monkeypatch, out)
    with Bar("playing") as bar:
        bar.tell("playing", 1, 2)
    assert "#---" in out.getvalue()
    out.getvalue().encode("ascii")


def test_the_time_left_follows_the_speed_of_late(monkeypatch: pytest.MonkeyPatch, clock: list[float]) -> None:
    out = on(monkeypatch, Terminal())
    with Bar("playing") as bar:
        for seconds, done, left in (
            (0, 0, "-:--:--"),
            (10, 10, "0:01:30"),
            (110, 30, "0:05:50"),  # 20 in the last 100 seconds
            (115, 35, "0:04:33"),  # 25 in the last 105
            (200, 35, "0:19:30"),  # 5 in the last 90
            (205, 5, "-:--:--"),  # something else
            (215, 15, "0:01:25"),
        ):
            clock[0] = 100.0 + seconds
            bar.tell("playing", done, 100)
            bar._draw()
            assert out.screen[-1].endswith(f", {left} left"), seconds


def test_a_stream_that_is_gone_does_not_lose_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone(Terminal):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    on(monkeypatch, Gone())
    assert mf.simulate(ARMS, "random", **QUICK, progress=True).episodes == 3
    monkeypatch.setattr(sys, "stderr", None)
    assert mf.simulate(ARMS, "random", **QUICK, progress=True).episodes == 3


def test_the_bar_ends_when_something_goes_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    out = on(monkeypatch, Terminal())

    def play() -> None:
        with following(True, "playing") as tell:
            tell(1, 2)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        play()
    assert "50 %" in out.screen[0]
    assert out.getvalue().endswith("\n")
    assert not [each for each in threading.enumerate() if each.name == "meritfair-progress"]
