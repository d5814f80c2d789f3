"""Every number that the README and docs/ print has a source, and agrees with it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs import numbers
from docs.numbers import ROOT, complaints

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
RECORDED = sorted((ROOT / "benchmarks" / "recorded").glob("*.txt"))
TO_DO = "Mend it, or name its source in a comment on top of the paragraph or table: CONTRIBUTING.md, Numbers."


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_numbers_have_sources(page: Path) -> None:
    found = complaints(page.read_text(encoding="utf-8"))
    assert not found, "\n".join([*(f"{page.name}, line {line}: {what}" for line, what in found), TO_DO])


@pytest.mark.parametrize("file", RECORDED, ids=lambda f: f.stem)
def test_what_was_recorded_can_be_made_again_and_is_used(file: Path) -> None:
    command, made, *_ = file.read_text(encoding="utf-8").splitlines()
    assert command.startswith("$ ./mf ")
    assert all((ROOT / script).is_file() for script in re.findall(r"\S+\.py", command)), command
    assert re.search(r"\d{4}-\d\d-\d\d", made), "the second line says with which version, and when"
    assert any(f"benchmarks/recorded/{file.name}" in page.read_text(encoding="utf-8") for page in PAGES), "of no page"


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numbers, "ROOT", tmp_path)
    (tmp_path / "run.txt").write_text("whittle  41.3 %  1,204\nlottery  0.566  7\nlimit = 2_000\n")
    (tmp_path / "long.txt").write_text("".join(f"round {k}: 0.{k}\n" for k in range(100, 160)))


def messages(text: str) -> list[str]:
    return [what for _, what in complaints(text)]


@pytest.mark.parametrize(
    "text",
    [
        "In 3 of 12 runs with N = 20 and K = 4, by Eq. 7 and Table 1 (2024), at 95 % confidence intervals.",
        "`0.41` and $x^{0.5}$ and [this](page-0.5.md)\n\n```text\n0.1\n```",
        "The 0.41 of\n\n```text\n# benefit 0.41\n```",
        "10,000 episodes of 200 steps, 20 arms, 4 pulled",
        "## 1.5 Heading",
        "Python 3.11, SHA-256, 2^64 and 10^-6",
    ],
)
def test_what_needs_no_source(text: str) -> None:
    assert messages(text) == []


@pytest.mark.parametrize(
    ("number", "named"),
    [
        ("41 %", "41 %"),
        ("0.41", "0.41"),
        ("12", "12"),
        ("7 times", "7"),
        ("1,204", "1204"),
        ("2 s", "2"),
        ("−0.5", "-0.5"),
        ("3 points", "3"),
        ("1e-10", "1e-10"),
        (".47", ".47"),
        ("8 MB", "8"),
    ],
)
def test_what_needs_a_source(number: str, named: str) -> None:
    assert complaints(f"First.\n\nIt is {number} here.") == [(3, f"{named} has no source")]


@pytest.mark.usefixtures("source")
@pytest.mark.parametrize("number", ["41 %", "0.41", "41.3 %", "0.57", "57 %", "1,204", "2,000", "57 and 41 %"])
def test_numbers_of_a_file(number: str) -> None:
    assert messages(f"<!-- numbers\nrun.txt\n-->\nIt is {number}.") == []


@pytest.mark.usefixtures("source")
@pytest.mark.parametrize("number", ["42 %", "2000 %", "0.56", "41.2 %", "1,205", "0.5661", "20,000"])
def test_numbers_that_are_not_in_the_file(number: str) -> None:
    first, second = messages(f"<!-- numbers\nrun.txt\n-->\nIt is {number}.")
    assert first == "no number here comes from 'run.txt'"
    assert second == f"{number.replace(',', '')} is in none of its sources"


@pytest.mark.usefixtures("source")
def test_words_restrict_a_file_to_lines() -> None:
    assert messages('<!-- numbers\nrun.txt "whittle"\n-->\nIt is 41 %.') == []
    assert messages('<!-- numbers\nrun.txt "lottery"\n-->\nIt is 41 %.') != []


@pytest.mark.usefixtures("source")
def test_a_row_of_a_table_is_in_one_line() -> None:
    table = "<!-- numbers\nrun.txt\n-->\n| | a | b |\n|---|---|---|\n| whittle | 41 % | {} |\n| lottery | 0.566 | 7 |\n"
    assert messages(table.format("1,204")) == []
    assert messages(table.format("0.57")) == ["0.57 is in none of its sources"]
    assert messages(table.format("8")) == ["8 is in none of its sources"]


TABLE = "<!-- numbers\n{}\n-->\n| | a | b |\n|---|---|---|\n| {} |\n"


@pytest.mark.usefixtures("source")
def test_a_row_has_the_order_of_its_line() -> None:
    assert messages(TABLE.format("run.txt", "whittle | 41 % | 1,204")) == []
    assert len(messages(TABLE.format("run.txt", "whittle | 1,204 | 41 %"))) == 1
    assert messages(TABLE.format("run.txt", "whittle | 41 % | 41 %")) == ["41 % is in none of its sources"]
    in_list = TABLE.format("run.txt", "41 % | 7").replace("\n", "\n  ")
    assert messages(f"- One:\n\n  {in_list}") == ["7 is in none of its sources"]


@pytest.mark.usefixtures("source")
def test_a_row_may_have_a_line_in_each_of_two_sources() -> None:
    two = 'run.txt "whittle"\nrun.txt "lottery"'
    assert messages(TABLE.format(two, "41 % | 1,204 | 57 % | 7")) == []
    assert messages(TABLE.format(two, "41 % | 1,204 | 57 % | 8")) == ["8 is in none of its sources"]
    assert messages(TABLE.format('run.txt " "', "41 % | 7")) == ["7 is in none of its sources"]


@pytest.mark.usefixtures("source")
def test_words_are_needed_where_a_file_has_many_numbers() -> None:
    asked = ["'long.txt' has 120 numbers: name words of the lines that are meant"]
    assert messages("<!-- numbers\nlong.txt\n-->\nIt is 0.11.") == asked
    assert messages('<!-- numbers\nlong.txt "round 110:"\n-->\nIt is 0.11.') == []
    assert messages(TABLE.format("long.txt", "0.110")) == []


def test_headings_and_the_code_of_other_sections() -> None:
    assert messages("# 1.5 The 0.41 of all") == ["0.41 has no source"]
    assert messages("## One\n\nAt 0.41.\n\n## Two\n\n```text\n0.41\n```\n") == ["0.41 has no source"]


def test_expressions() -> None:
    assert messages("<!-- numbers\n1.35 = exp(0.3)\n24 % = 1 - 0.76\n-->\nIt is 1.35, or 24 %.") == []
    assert messages("<!-- numbers\n1.36 = exp(0.3)\n-->\nIt is 1.36.") == ["exp(0.3) is 1.34986, not 1.36"]


def test_numbers_that_are_given() -> None:
    page = "<!-- numbers\n0.2, 1,300: chosen\n-->\nAt 0.2 and 1,300{}."
    assert messages(page.format("")) == []
    assert complaints(page.format(" and 0.3")) == [(4, "0.3 is in none of its sources")]


def test_a_source_belongs_to_its_paragraph_and_is_needed() -> None:
    assert messages("<!-- numbers\n0.2: chosen\n-->\nAt 0.2.\n\nStill at 0.2.") == ["0.2 has no source"]
    assert messages("<!-- numbers\n0.3: chosen\n-->\nNone.") == ["no number here comes from '0.3: chosen'"]
    assert messages("<!-- numbers\nnone.txt\n-->\nAt 0.2.") == ["there is no file 'none.txt', and it is no expression"]
