"""Every example in the README and docs/ runs as it stands there, and prints what the block after it says."""

from __future__ import annotations

import re
import shlex
import sys
import types
from dataclasses import replace
from pathlib import Path

import pytest

from meritfair.cli import main
from meritfair.policies import registry
from meritfair.reproduction import ARTEFACTS, HEADLINES
from meritfair.reproduction import reproduce as reproduction

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```(?:\n\n```text\n(.*?)^```)?", re.MULTILINE | re.DOTALL)
TRIED_ELSEWHERE = [("./mf", "docs"), ("./mf", "test"), ("./mf", "serve"), ("pip", "install")]
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [p for p in PAGES if BLOCK.search(p.read_text(encoding="utf-8"))], ids=lambda p: p.name
)
def test_examples_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MERITFAIR_STORE", "programmes.db")  # not where those of the user are
    example = types.ModuleType("example")
    monkeypatch.setitem(sys.modules, "example", example)  # dataclasses look their module up
    monkeypatch.setattr(registry, "_POLICIES", dict(registry._POLICIES))  # what a page registers is for that page
    if page.name == "README.md":  # `reproduce --quick`, made quicker: each artefact has tests of its own
        headlines = tuple(each for each in ARTEFACTS if each.name in HEADLINES)
        monkeypatch.setattr(reproduction, "ARTEFACTS", headlines)
        monkeypatch.setattr(reproduction, "QUICK", replace(reproduction.QUICK, episodes=60, runs=2))
    for language, block, printed in BLOCK.findall(page.read_text(encoding="utf-8")):
        if language == "python":
            capsys.readouterr()
            exec(compile(block, page.name, "exec"), example.__dict__)
            assert not printed or capsys.readouterr().out.split() == printed.split()
            continue
        for line in block.replace("\\\n", "").splitlines():
            words = shlex.split(line, comments=True)
            if words[0] == "./mf" and words[1] not in ("docs", "test", "serve"):
                with pytest.raises(SystemExit) as stopped:
                    main(words[1:])
                assert stopped.value.code == 0, line
            else:
                assert tuple(words[:2]) in TRIED_ELSEWHERE, line


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


def test_ci_runs_the_readmes_test_command() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = [
        line
        for line in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
        if line and not line.startswith("#")
    ]
    assert commands[-1] == "./mf test"
    assert "\n./mf test\n" in readme
