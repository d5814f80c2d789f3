"""Every example in the README and docs/ runs as it stands there, and prints what the block after it shows."""

from __future__ import annotations

import random
import re
import secrets
import shlex
import subprocess
import sys
import types
from dataclasses import replace
from pathlib import Path

import pytest

from docs.printed import Block, blocks, located, mismatch, strays
from meritfair.cli import main
from meritfair.policies import registry
from meritfair.programme import work
from meritfair.reproduction import ARTEFACTS, HEADLINES
from meritfair.reproduction import reproduce as reproduction

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TRIED_ELSEWHERE = [("./mf", "docs"), ("./mf", "test"), ("./mf", "serve"), ("pip", "install")]
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


@pytest.mark.slow
@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p.read_text(encoding="utf-8"))], ids=lambda p: p.name)
def test_examples_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MERITFAIR_STORE", "programmes.db")  # not where those of the user are
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(work, "now", lambda: "2026-11-17T09:14:03Z")
    chance = random.Random(1)  # where a page shows what followed from a secret, it is this one
    monkeypatch.setattr(secrets, "token_bytes", chance.randbytes)
    monkeypatch.setattr(secrets, "token_hex", lambda size: chance.randbytes(size).hex())
    example = types.ModuleType("example")
    monkeypatch.setitem(sys.modules, "example", example)  # dataclasses look their module up
    monkeypatch.setattr(registry, "_POLICIES", dict(registry._POLICIES))  # what a page registers is for that page
    if page.name == "README.md":  # `reproduce --quick`, made quicker: each artefact has tests of its own
        headlines = tuple(each for each in ARTEFACTS if each.name in HEADLINES)
        monkeypatch.setattr(reproduction, "ARTEFACTS", headlines)
        monkeypatch.setattr(reproduction, "QUICK", replace(reproduction.QUICK, episodes=60, runs=2))
    wrong = []
    for block in blocks(page.read_text(encoding="utf-8")):
        capsys.readouterr()
        if block.language == "python":
            exec(compile("\n" * (block.line - 1) + block.code, str(page), "exec"), example.__dict__)
        else:
            run_commands(block)
        output, complaints = capsys.readouterr()
        printed = complaints if refused(block) else output
        found = mismatch(block.shown, printed, block.shown_line) if block.shown else None
        if found is not None:
            wrong.append(located(page, found, printed))
    assert not wrong, "\n\n".join(wrong)


def refused(block: Block) -> bool:
    """Whether the page shows the message of a command that fails."""
    return block.language == "sh" and block.shown.startswith("meritfair: ")


def run_commands(block: Block) -> None:
    """Run each line of a block of commands, as the command line would."""
    for line in block.code.replace("\\\n", "").splitlines():
        words = shlex.split(line, comments=True)
        if words[0] == "python":
            output = subprocess.run([sys.executable, *words[1:]], capture_output=True, text=True, encoding="utf-8")
            sys.stdout.write(output.stdout)
            assert output.returncode == 0, output.stderr
        elif words[0] == "./mf" and words[1] not in ("docs", "test", "serve"):
            with pytest.raises(SystemExit) as stopped:
                main(words[1:])
            assert (stopped.value.code != 0) == refused(block), line
        else:
            assert tuple(words[:2]) in TRIED_ELSEWHERE, line


SHOWN = """
policy      regret    took
──────────────────────────
whittle       12.4    0.3 s
merit-fair   1,204   12 ms

8 settings of 20 runs, 95 % interval 0.52 to 0.61
head 4f…, written on 2026-11-17T09:14:03Z by 3.13.1
"""


@pytest.mark.parametrize(
    ("this", "that"),
    [
        ("12.4", "12.42"),  # within the tolerance
        ("0.3 s", "45 s"),
        ("0.3 s", "1 min 2 s"),
        ("12 ms", "9ms"),
        ("2026-11-17T09:14:03Z", "2031-01-02T03:04:05Z"),
        ("3.13.1", "3.14.0"),
        ("─────", "─"),
        ("4f…", "4fd01c"),
        ("8 settings of 20 runs", "8 settings of\n  20 runs"),
    ],
)
def test_output_that_agrees(this: str, that: str) -> None:
    printed = SHOWN.replace(this, that)
    assert printed != SHOWN
    assert mismatch(SHOWN, printed) is None


@pytest.mark.parametrize(
    ("this", "that", "line"),
    [
        ("12.4", "12.5", 4),  # a stale figure
        ("1,204", "1,205", 5),
        ("0.52", "-0.52", 7),
        ("20 runs", "21 runs", 7),
        ("95 %", "95", 7),
        ("merit-fair   1,204   12 ms\n", "", 5),  # a missing line
        ("policy      regret", "regret      policy", 2),
        ("4f…", "5fd01c", 8),
        ("by 3.13.1", "by 3.13.1, too", 9),
        ("by 3.13.1", "", 8),
    ],
)
def test_output_that_differs(this: str, that: str, line: int) -> None:
    printed = SHOWN.replace(this, that)
    assert printed != SHOWN
    found = mismatch(SHOWN, printed)
    assert found is not None
    assert found.line == line


def test_an_ellipsis_stands_for_any_words() -> None:
    assert mismatch("first\n…\nlast 3\n", "first\nsecond 2\nlast 4\nlast 3\n") is None
    assert mismatch("first 1 …\n", "first 1\n") is None
    assert mismatch("first\n...\nlast 3\n", "first\nsecond 2\nlast 4\n") is not None
    found = mismatch("first\nsecond 2\n", "first\nsecond 2\nthird 3\n", first_line=40)
    assert str(found) == "line 42: expected 'nothing more', got 'third 3'"


def test_output_belongs_to_the_block_before_it() -> None:
    page = "```sh\n./mf a\n```\n\n```text\n1\n```\n\nBut\n\n```text\n2\n```\n\n```python\nb\n```\n"
    assert blocks(page) == [Block("sh", "./mf a\n", 2, "1\n", 6), Block("python", "b\n", 16)]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_no_output_is_left_out(page: Path) -> None:
    for shown, line, source in strays(page.read_text(encoding="utf-8")):
        where = f"{page.name}, line {line}"
        assert source, f"{where}: this is output of nothing; move it below its block, or name a recorded file above it"
        recorded = (ROOT / source).read_text(encoding="utf-8")
        found = mismatch(f"…\n{shown}…", recorded, line - 1)
        assert found is None, f"{where}: {source} has no such lines: {found}"


def test_output_elsewhere_is_found() -> None:
    page = "```sh\n./mf a\n```\n\n```text\n1\n```\n\nBut\n\n{}```text\n2\n```\n"
    assert strays(page.format("")) == [("2\n", 12, "")]
    assert strays(page.format("<!-- output\nrun.txt\n-->\n")) == [("2\n", 15, "run.txt")]


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
