"""`meritfair effect`, as a person or a script uses it."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import meritfair as mf

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(command: Call, monkeypatch: pytest.MonkeyPatch) -> Call:
    monkeypatch.setenv("COLUMNS", "80")
    return partial(command, "effect")


def write_log(file: Path, gain: float, *, exposure: bool = True) -> Path:
    """Fifty people for 30 weeks, three in ten called each week, chosen by coins; a call adds `gain` to 0.4."""
    rng = np.random.default_rng(3)
    state = rng.random(50) < 0.5
    with file.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["arm", "round", "state", "action", *["exposure"] * exposure, "sex"])
        for week in range(30):
            drawn = rng.random(50) < 0.3
            for k in range(50):
                writer.writerow([f"P{k}", week, int(state[k]), int(drawn[k]), *[0.3] * exposure, "fm"[k % 2]])
            state = rng.random(50) < 0.4 + gain * drawn
    return file


@pytest.fixture
def helped(tmp_path: Path) -> Path:
    return write_log(tmp_path / "log.csv", 0.3)


def flat(text: str) -> str:
    return " ".join(text.split())


def test_the_answer_comes_first_in_one_sentence(helped: Path, call: Call) -> None:
    code, out, _ = call(helped)
    assert code == 0
    assert out.startswith("A pull raises the chance of a good next state by ")
    assert "percentage points (between " in flat(out)
    assert "at 95 % confidence)." in flat(out)
    assert "The plain difference of means is +" in flat(out)
    assert "It misleads because those who are drawn differ from those who are not" in flat(out)
    assert "50 rows left out: 50 of the last round (the next state is not known yet)" in flat(out)
    assert max(map(len, out.splitlines())) <= 80


def test_nothing_is_claimed_without_an_effect(tmp_path: Path, call: Call) -> None:
    _, out, _ = call(write_log(tmp_path / "log.csv", 0.0))
    assert out.startswith("It is not clear that a pull makes a difference")


def test_groups_states_and_periods_are_in_the_table(helped: Path, call: Call) -> None:
    _, out, _ = call(helped, "--group", "sex", "--period", 10)
    rows = [line.split()[0] for line in out.splitlines() if line[:1] in (" ", "a", "b") and line.strip()]
    assert [row for row in rows if row in ("all", "by", "bad", "good", "f", "m", "0", "10", "20")] == [
        *["all", "by", "bad", "good", "by", "f", "m", "by", "0", "10", "20"],
    ]


def test_json_has_all_numbers(helped: Path, call: Call) -> None:
    _, out, _ = call(helped, "--json", "--group", "sex", "--level", 0.9)
    values = json.loads(out)
    found = mf.effect(mf.read_log(helped, ["sex"]), group="sex", level=0.9)
    assert values["verdict"] == str(found)
    assert values["effect"]["estimate"] == found.estimate
    assert values["effect"]["anytime_low"] == found.interval[0]
    assert [row["group"] for row in values["groups"]] == ["f", "m"]
    assert len(values["rounds"]) == 29
    assert values["left_out"]["latest"] == 50
    assert values["settings"]["level"] == 0.9


def test_files_are_written(helped: Path, tmp_path: Path, call: Call) -> None:
    out, plot, page = (tmp_path / "deep" / name for name in ("e.csv", "e.png", "e.html"))
    _, shown, _ = call(helped, "--out", out, "--plot", plot, "--html", page)
    assert [flat(line) for line in shown.split("wrote ")[1:]] == [
        str(out),
        str(out.with_name("e-rounds.csv")),
        str(plot),
        str(page),
    ]
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert "Did it help?" in page.read_text(encoding="utf-8")
    with out.open(newline="") as stream:
        assert next(csv.DictReader(stream))["part"] == "all"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--html", "page.pdf"], "--html page.pdf: a report is an .html file"),
        (["--plot", "figure.doc"], "--plot figure.doc: a figure is a .png, .pdf or .svg file"),
        (["--out", "table.xlsx"], "table.xlsx: effects are kept in .csv or .parquet files"),
        (["--level", "95"], "level must lie strictly between 0 and 1, got 95"),
        (["--group", "gender"], "line 1: lacks the column gender; it has arm, round"),
        (["--group", "state"], "features must be columns of their own, got 'state'"),
    ],
)
def test_what_cannot_be_done_is_one_clear_line(helped: Path, call: Call, options: list[str], problem: str) -> None:
    code, out, err = call(helped, *options)
    assert (code, out) == (2, "")
    assert problem in flat(err)
    assert err.startswith("meritfair: ")


def test_a_log_without_chances_is_refused(tmp_path: Path, call: Call) -> None:
    code, _, err = call(write_log(tmp_path / "log.csv", 0.3, exposure=False))
    assert code == 2
    assert "the log has no column exposure" in err
    assert "record for each arm and round the probability with which it was drawn" in err


def test_a_report_needs_its_extra(helped: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("meritfair.cli.show.find_spec", lambda name: None)
    code, _, err = call(helped, "--html", "page.html")
    assert code == 2
    assert "--html needs the extra 'lab': pip install 'meritfair[lab]'" in err


def write_sites(file: Path, *, column: bool = True) -> Path:
    """Six sites of ten people for 30 weeks; each week two sites are drawn, and each site has weeks of its own."""
    rng = np.random.default_rng(5)
    state = rng.random(60) < 0.5
    with file.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["arm", "round", "state", "action", "exposure", "mood", *["site"] * column])
        for week in range(30):
            drawn = np.isin(np.arange(60) % 6, rng.choice(6, 2, replace=False))
            for k in range(60):
                cells = [f"P{k}", week, int(state[k]), int(drawn[k]), 1 / 3, rng.integers(3)]
                writer.writerow([*cells, *[f"site {k % 6}"] * column])
            state = rng.random(60) < rng.uniform(0.2, 0.8, 6)[np.arange(60) % 6]
    return file


def test_sites_that_were_drawn_are_noticed_and_the_answer_is_typed(tmp_path: Path, call: Call) -> None:
    file = write_sites(tmp_path / "log.csv")
    _, out, _ = call(file)
    assert "Warning: arms with the same site were always either all drawn or all not drawn (6 sets)." in flat(out)
    assert "Name the column: --cluster site, in Python cluster='site'." in flat(out)
    _, named, _ = call(file, "--cluster", "site")
    assert "Warning" not in named
    assert "Arms with the same site count as drawn together: 6 clusters, drawn 58 times and 116 times not." in flat(
        named
    )
    wide, narrow = (json.loads(call(file, "--json", *more)[1]) for more in (["--cluster", "site"], []))
    assert wide["settings"]["cluster"] == "site"
    assert wide["effect"]["anytime_high"] - wide["effect"]["anytime_low"] > 1.5 * (
        narrow["effect"]["anytime_high"] - narrow["effect"]["anytime_low"]
    )
    assert narrow["together"].startswith("arms with the same site")
    assert wide["together"] is None


def test_sites_are_noticed_if_no_column_names_them(tmp_path: Path, call: Call) -> None:
    _, out, _ = call(write_sites(tmp_path / "log.csv", column=False))
    assert "Warning: 60 arms were always drawn together with others, in 6 sets." in flat(out)
    assert "Name the column that says who is drawn with whom: --cluster COLUMN" in flat(out)


def test_a_cluster_that_is_no_column_is_refused(helped: Path, call: Call) -> None:
    code, _, err = call(helped, "--cluster", "site")
    assert code == 2
    assert "line 1: lacks the column site" in flat(err)


def test_what_was_not_seen_has_its_line_and_its_numbers(helped: Path, tmp_path: Path, call: Call) -> None:
    assert "Not seen: nothing. The next states of all 1,450 arm-rounds were observed" in flat(call(helped)[1])
    rng = np.random.default_rng(1)
    with helped.open(newline="") as stream:
        header, *rows = csv.reader(stream)
    with (tmp_path / "missing.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows(
            [header, *([*row[:2], "" if rng.random() < 0.2 else row[2], *row[3:]] for row in rows)]
        )
    page = tmp_path / "page.html"
    _, out, _ = call(tmp_path / "missing.csv", "--html", page)
    _, told, _ = call(tmp_path / "missing.csv", "--json")
    known = json.loads(told)["sensitivity"]
    assert f"Not seen: the next state of {known['missing']} of {known['rows']:,} arm-rounds" in flat(out)
    assert f"With {100 * known['tipping']['worse']:.0f} points for both, it would no longer be clear" in flat(out)
    assert known["tipping"]["better"] is None
    assert "States that were not observed" in page.read_text(encoding="utf-8")
