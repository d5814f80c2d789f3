"""`meritfair reproduce` as a person uses it."""

from __future__ import annotations

import html
import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from lab.made_up import FAILING, PLAIN, TINY
from meritfair.lab import read_results
from meritfair.reproduction import ARTEFACTS
from meritfair.reproduction import reproduce as lab


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Make the paper small, and play it without other processes, which take long to start."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("meritfair.lab.sweep.processes", ThreadPoolExecutor)
    monkeypatch.setattr(lab, "QUICK", TINY)
    monkeypatch.setattr(lab, "ARTEFACTS", (PLAIN, FAILING))
    monkeypatch.setattr(lab, "HEADLINES", ("plain", "failing"))


def test_a_quick_look_ends_with_headline_and_path(command: Any) -> None:
    answer = command("reproduce", "--quick", "--only", "plain", "--workers", 1)
    assert answer.code == 0
    assert "Quick look: 3 runs instead of 30" in answer.words
    assert "Of 1 claim of the paper, 1 holds." in answer.words
    assert "Regret is 3." in answer.words
    assert answer.out.endswith("Report: paper-quick/report.html\n")
    assert Path("paper-quick/report.html").is_file()
    assert Path("paper-quick/figures/plain.pdf").is_file()


def test_failed_tasks_are_told_and_are_an_error(command: Any) -> None:
    answer = command("reproduce", "--quick", "--workers", 1, "--out", "mine")
    assert answer.code == 1
    assert "left out: Failing: 1 of its 1 task failed: window must be at least 10" in answer.err
    assert "1 task failed; run the same command again" in answer.err
    assert answer.out.endswith("Report: mine/report.html\n")


def test_json_for_a_script(command: Any) -> None:
    answer = command("reproduce", "--quick", "--only", "plain", "--workers", 1, "--json")
    found = json.loads(answer.out)
    assert found["report"] == "paper-quick/report.html"
    (verdict,) = found["sections"]["plain"]["verdicts"]
    assert verdict["holds"] is True
    assert found["tasks"] == {"played": 1, "kept": 0, "failed": 0}
    assert found["left_out"] == {}
    assert found["summary"] == ["Of 1 claim of the paper, 1 holds."]
    assert found["sections"]["plain"]["note"] == "Quick look: 3 runs of 4 episodes; the full version has 30 of 10,000"
    assert found["sections"]["plain"]["tables"]["plain-regret"]["headings"] == ["policy", "regret"]
    assert found["headlines"] == [found["sections"]["plain"]["headline"]]


def test_a_spec_of_the_report_is_played_by_a_sweep_as_it_is_printed(command: Any) -> None:
    command("reproduce", "--quick", "--only", "plain", "--workers", 1)
    page = Path("paper-quick/report.html").read_text(encoding="utf-8")
    (block,) = re.findall("<pre>(.*?)</pre>", page, re.DOTALL)
    assert "authors = true" in block
    Path("spec.toml").write_text(html.unescape(block), encoding="utf-8")
    answer = command("sweep", "spec.toml", "--out", "results", "--workers", 1, "--json")
    assert (answer.code, json.loads(answer.out)["played"]) == (0, 1)
    (found,) = read_results("results").measures.values()
    assert f"Regret is {found['fairness_regret'].mean:.2f}." in page


def test_an_interrupt_says_how_to_go_on(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(lab, "run_sweep", interrupted)
    answer = command("reproduce", "--quick")
    assert answer.code == 130
    assert answer.err.strip() == "stopped: 0 of 2 tasks are done; run the same command again to resume"


def test_the_list_has_all_names(command: Any) -> None:
    answer = command("reproduce", "--list")
    assert answer.code == 0
    assert all(each.name in answer.out for each in ARTEFACTS)
    names = [each["name"] for each in json.loads(command("reproduce", "--list", "--json").out)]
    assert names == [each.name for each in ARTEFACTS]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--only", "plane"], "there is no figure or table 'plane', did you mean 'plain'?"),
        (["--workers", "0"], "for each core), got 0"),
        (["--workers", "2", "--cluster", "local:2"], "--workers cannot go together with --cluster"),
        (["--out", "file"], "file: cannot be used as a folder"),
    ],
)
def test_mistakes_are_one_line(command: Any, arguments: list[str], problem: str) -> None:
    Path("file").touch()
    answer = command("reproduce", *arguments)
    assert answer.code == 2
    assert problem in answer.err
    assert answer.err.startswith("meritfair: ")
    assert answer.err.count("\n") == 1
    assert not Path("paper/shards").exists()
