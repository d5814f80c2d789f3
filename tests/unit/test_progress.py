"""The bar of progress=True: in a terminal, a notebook and a log file, and who shows it."""

from __future__ import annotations

import io
import sys
from typing import Any

import numpy as np
import pytest

import meritfair as mf
from meritfair.core.progress import bar, following, progress_bar

ARMS = mf.datasets.synthetic(n_arms=3, seed=1)
QUICK: dict[str, Any] = {"budget": 1, "episodes": 3, "horizon": 10, "seed": 1}


class LogFile(io.StringIO):
    """A stream that is no terminal."""

    terminal = False
    encoding = "utf-8"

    def isatty(self) -> bool:
        return self.terminal

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


def on(monkeypatch: pytest.MonkeyPatch, stream: LogFile) -> LogFile:
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr("meritfair.core.progress._REDRAWN", 0.0)  # every state is drawn
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
        ("auditing", lambda: mf.audit(draws(), progress=True)),
    ],
    ids=["simulate", "compare", "fit", "audit"],
)
def test_true_shows_a_bar(what: str, call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    out = on(monkeypatch, LogFile())
    call()
    assert len(out.getvalue().splitlines()) <= 3  # a short thing does not fill a log
    assert out.screen[0].startswith(f"{what}: 100%|")


def test_a_bar_changes_no_result() -> None:
    alone, watched = (mf.simulate(ARMS, "merit-fair", **QUICK, progress=each) for each in (None, True))
    np.testing.assert_array_equal(alone.reward, watched.reward)


# ---- where it is shown


@pytest.mark.parametrize("stream", [Terminal, OutStream])
def test_terminals_and_notebooks_have_a_line_that_is_drawn_over(
    stream: type[LogFile], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = on(monkeypatch, stream())
    with bar("a longer name") as tell:
        tell("short", 1, 2)
        assert out.screen[-1].startswith("short:  50%|")
        tell("short", 2, 2)
    assert len(out.screen) == 2
    assert out.screen[0].startswith("short: 100%|")
    assert out.screen[1] == ""


def test_a_bar_that_is_not_kept_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on(monkeypatch, Terminal())
    with bar("playing", keep=False) as tell:
        tell("playing", 1, 2)
        assert terminal.screen[-1].startswith("playing:  50%|")
    assert terminal.screen == [""]
    log = on(monkeypatch, LogFile())
    with bar("playing", keep=False) as tell:
        tell("playing", 1, 1)
    assert log.getvalue() == ""


def test_commands_name_each_part_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    out = on(monkeypatch, Terminal())
    with progress_bar(4) as begin:
        begin("reading")
        begin("auditing")
        assert out.screen[-1].startswith("auditing:  25%|")
    assert out.screen == [""]


def test_what_others_print_stays_above_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    out = on(monkeypatch, Terminal())
    with bar("playing") as tell:
        tell("playing", 1, 2)
        print("compiling", file=sys.stderr)
        tell("playing", 2, 2)
    assert out.screen[0] == "compiling"
    assert out.screen[1].startswith("playing: 100%|")
    assert sys.stderr is out


def test_names_do_not_control_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    out = on(monkeypatch, Terminal())
    with bar() as tell:
        tell("a\x1b[31m\nb", 1, 3)
    assert r"a\x1b[31m\nb:  33%" in out.screen[0]


@pytest.mark.parametrize("gone", [True, False])
def test_a_stream_that_is_gone_does_not_lose_the_result(gone: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone(Terminal):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stderr", Gone() if gone else None)
    assert mf.simulate(ARMS, "random", **QUICK, progress=True).episodes == 3


def test_the_bar_ends_when_something_goes_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    out = on(monkeypatch, Terminal())

    def play() -> None:
        with following(True, "playing") as tell:
            tell(1, 2)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        play()
    assert "50%" in out.screen[0]
    assert out.getvalue().endswith("\n")
