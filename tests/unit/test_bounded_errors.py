"""What is wrong is told in a message that a person can read, however large what it quotes is."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

import pytest

from meritfair.core.checks import check_known, check_number
from meritfair.core.errors import FileError, InputError
from meritfair.core.tables import MOST_COLUMNS, read_table
from meritfair.core.texts import listed, shortened
from meritfair.programme import People
from meritfair.programme.files import read_outcomes, read_people

LONG = "x" * 1_000_000


def refused(error: type[Exception], call: Any, *arguments: Any, **options: Any) -> str:
    with pytest.raises(error) as caught:
        call(*arguments, **options)
    return str(caught.value)


def test_many_columns_are_refused_and_not_listed(tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    file.write_text(",".join(f"c{k}" for k in range(500_000)) + "\n")
    said = refused(FileError, read_people, file, ())
    assert said.endswith(f"has 500,000 columns, of which at most {MOST_COLUMNS:,} are read")
    file.write_text(",".join(f"c{k}" for k in range(9000)) + "\n1\n")
    said = refused(FileError, read_people, file, ())
    assert len(said) < 1000
    assert "c0, c1" in said
    assert said.endswith("and 8,980 more")


@pytest.mark.slow
def test_the_columns_of_a_parquet_file_are_bounded(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({f"c{k}": [1] for k in range(MOST_COLUMNS + 1)}), tmp_path / "wide.parquet")
    assert "has 10,001 columns" in refused(FileError, read_table, tmp_path / "wide.parquet", "people", ["id"])


@pytest.mark.parametrize(
    "text",
    [
        f"id,action\nAda,{LONG[:100_000]}\n",
        f"id,action\nAda,1,{LONG[:100_000]},y\n",
        f"id,{LONG[:100_000]}\nAda,1\n",
        f"id,action\n{LONG[:100_000]},1\n",
    ],
)
def test_long_cells_are_not_quoted_in_full(text: str, tmp_path: Path) -> None:
    file = tmp_path / "report.csv"
    file.write_text(text)
    assert len(refused(InputError, read_outcomes, file)) < 1000


def test_no_message_is_longer_than_a_page() -> None:
    for said in (
        refused(InputError, check_number, "alpha", LONG, 0, 1),
        refused(InputError, People, [LONG]),
        refused(InputError, check_known, "policy", LONG, ["random"]),
        refused(InputError, check_known, "policy", "no", [LONG]),
    ):
        assert len(said) < 5000
    assert len(FileError("a.csv", LONG).problem) < 5000
    assert shortened(LONG, 20).endswith("… (1,000,000 characters) … xxxxx")
    assert listed(["a"] * 20) == ", ".join(["a"] * 20)


def test_a_misspelt_name_is_compared_with_few_others(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []
    close = difflib.get_close_matches

    def counting(word: str, words: list[str], **options: Any) -> list[str]:
        compared.append(len(words))
        return close(word, words, **options)

    monkeypatch.setattr(difflib, "get_close_matches", counting)
    known = [f"patient-{k:07d}" for k in range(200_000)]
    assert "did you mean 'patient-0000" in refused(InputError, check_known, "participant", "patient-000000", known)
    assert compared == [1000]
