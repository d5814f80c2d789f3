"""What holds for all commands: results before errors, folders that are made, and terminals of any kind."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import meritfair as mf
from meritfair.cli import main

QUICK = ["-d", "synthetic", "--episodes", "4", "--horizon", "10", "--runs", "2", "--seed", "1", "-p", "random"]
NAMES = ("$\\frac{$", "=1+1", "-Bo", "\x1b[31mRed", "two\nlines", "a\u202eb", ":x:", "[/bold]")
COMMANDS = {
    "simulate": (["simulate", *QUICK], "run.npz"),
    "compare": (["compare", *QUICK], "table.csv"),
    "fit": (["fit", "log.csv"], "people.csv"),
    "audit": (["audit", "draws.csv", "--group", "site"], "audit.csv"),
}


@pytest.fixture
def call(command: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Call the command line in a folder with records of people whose names no one should have."""
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    with Path("log.csv").open("w", newline="") as log, Path("draws.csv").open("w", newline="") as draws:
        logged, drawn = csv.writer(log), csv.writer(draws)
        logged.writerow(["arm", "round", "state", "action"])
        drawn.writerow(["round", "arm", "exposure", "drawn", "site"])
        for name in NAMES:
            for t in range(5):
                logged.writerow([name, t, rng.integers(2), rng.integers(2)])
                drawn.writerow([t, name, 0.5, rng.integers(2), NAMES[len(name) % 4]])
    return command


@pytest.fixture
def full_disk(call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let there be no room for any new file in the folder."""
    put = os.replace

    def replace(file: Any, target: Any) -> None:
        if tmp_path in Path(target).absolute().parents:
            raise OSError(28, os.strerror(28))
        put(file, target)

    monkeypatch.setattr(os, "replace", replace)


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_results_are_shown_though_they_cannot_be_kept(call: Any, full_disk: None, name: str) -> None:
    arguments, out = COMMANDS[name]
    shown = call(*arguments)
    answer = call(*arguments, "--out", out, "--plot", "figure.png")
    assert answer.code == 2
    assert answer.out == shown.out
    lines = answer.err.strip().splitlines()
    assert lines == [f"meritfair: {file}: cannot be written: No space left on device" for file in (out, "figure.png")]
    told = call(*arguments, "--out", out, "--json")
    assert told.code == 2
    assert json.loads(told.out)["files"] == []


def test_one_failure_does_not_keep_other_files_from_being_written(call: Any) -> None:
    Path("people.csv").mkdir()
    answer = call("fit", "log.csv", "--out", "people.csv", "--plot", "people.png")
    assert answer.code == 2
    assert "wrote people.png" in answer.out
    assert "people.csv: cannot be written: " in answer.err
    assert Path("people.png").stat().st_size > 0


def test_a_figure_that_fails_in_any_way_comes_after_the_results(
    call: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("meritfair.fitting.two_panels", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main(["fit", "log.csv", "--out", "people.csv", "--plot", "people.png"])
    assert capsys.readouterr().out.endswith("wrote people.csv\n")
    assert mf.datasets.read_arms("people.csv").n_arms == len(NAMES)


def test_folders_of_tables_and_figures_are_made(call: Any) -> None:
    answer = call("fit", "log.csv", "--out", "new/people.csv", "--plot", "other/new/people.png")
    assert answer.code == 0
    assert answer.out.endswith("wrote new/people.csv\nwrote other/new/people.png\n")
    assert Path("new/people.csv").is_file()
    assert Path("other/new/people.png").is_file()


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("option", ["--out", "--plot"])
def test_a_folder_that_cannot_be_made_is_told_before_the_work(call: Any, name: str, option: str) -> None:
    arguments, out = COMMANDS[name]
    answer = call(*arguments, option, f"log.csv/{out if option == '--out' else 'figure.png'}")
    assert answer.code == 2
    assert answer.out == ""
    assert answer.err.startswith("meritfair: the folder log.csv cannot be made: ")


def test_names_come_back_from_the_table_of_a_fit(call: Any) -> None:
    assert call("fit", "log.csv", "--out", "people.csv").code == 0
    with Path("people.csv").open(newline="") as stream:
        kept = [row["arm"] for row in csv.DictReader(stream)]
    assert kept == ["$\\frac{$", "'=1+1", "'-Bo", *NAMES[3:]]
    assert call("simulate", "--arms-file", "people.csv", *QUICK[2:], "--out", "run.npz").code == 0
    assert mf.Run.load("run.npz").arms[0].names == NAMES


@pytest.mark.parametrize("name", ["fit", "audit"])
def test_names_do_not_control_the_terminal(call: Any, name: str) -> None:
    arguments, _ = COMMANDS[name]
    shown = call(*arguments).out
    assert not set("\x1b\r\u202e") & set(shown)
    for cell in ("\\x1b[31mRed", "two\\nlines", "a\\u202eb", ":x:", "[/bold]"):
        assert any(line.startswith(cell) for line in shown.splitlines())


def test_messages_do_not_control_the_terminal(call: Any) -> None:
    for arguments in (["fit", "\x1b[31mnone.csv"], ["fit", "log.csv", "--\x1b[31m"], ["simulate", "-d", "\x1b[31m"]):
        answer = call(*arguments)
        assert answer.code == 2
        assert "\x1b" not in answer.err
        assert "\\x1b[31m" in answer.err
    Path("draws.csv").write_text("round,arm,exposure,drawn\n1,\x1b[31mRed,0,1\n")
    answer = call("audit", "draws.csv")
    assert "\x1b" not in answer.out
    assert "where \\x1b[31mRed was drawn at exposure 0" in answer.words


@pytest.mark.parametrize(("encoding", "late"), [("utf-8", "≥ 4"), ("cp1252", ">= 4"), ("ascii", ">= 4")])
def test_any_encoding_will_do(call: Any, monkeypatch: pytest.MonkeyPatch, encoding: str, late: str) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding=encoding))
    with pytest.raises(SystemExit) as stopped:
        main(["simulate", *QUICK])
    assert stopped.value.code == 0
    assert late in written.getvalue().decode(encoding)


def test_a_name_that_cannot_be_encoded_is_written_out(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("log.csv").write_text("arm,round,state,action\nŁukasz,1,0,1\nŁukasz,2,1,0\n", encoding="utf-8")
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="cp1252"))
    with pytest.raises(SystemExit):
        main(["fit", "log.csv"])
    assert b"\\u0141ukasz" in written.getvalue()


@pytest.mark.parametrize("width", ["0", "", "20", "80"])
def test_numbers_are_whole_in_any_width(call: Any, monkeypatch: pytest.MonkeyPatch, width: str) -> None:
    expected = call("simulate", *QUICK).out.splitlines()
    wanted = next(line.split()[1:] for line in expected if line.startswith("random"))
    monkeypatch.setenv("COLUMNS", width)
    assert any(line.split()[1:] == wanted for line in call("simulate", *QUICK).out.splitlines())
    assert "Usage" in call("simulate", "--help").out


class FullDisk(io.StringIO):
    """Output to a file for which there is no room."""

    def flush(self) -> None:
        raise OSError(28, os.strerror(28))


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_output_that_cannot_be_written_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    monkeypatch.setattr(sys, "stdout", FullDisk())
    with pytest.raises(SystemExit) as stopped:
        main(["policies", *options])
    assert stopped.value.code == 1
    assert capsys.readouterr().err == "meritfair: No space left on device\n"
