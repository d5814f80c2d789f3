"""`meritfair audit`, as a person or a script uses it."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(command: Call, monkeypatch: pytest.MonkeyPatch) -> Call:
    monkeypatch.setenv("COLUMNS", "80")
    return partial(command, "audit")


def write_log(file: Path, chance: dict[str, float], rounds: int = 400) -> Path:
    """Twelve arms, half of them women, stated to be drawn one time in four and drawn by the chance of their sex."""
    rng = np.random.default_rng(3)
    with file.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["arm", "round", "sex", "exposure", "drawn", "remark"])
        for r in range(rounds):
            for k in range(12):
                sex = "fm"[k % 2]
                writer.writerow([f"patient {k + 1}", r, sex, 0.25, int(rng.random() < chance[sex]), "-"])
    return file


@pytest.fixture
def fair(tmp_path: Path) -> Path:
    return write_log(tmp_path / "fair.csv", {"f": 0.25, "m": 0.25})


@pytest.fixture
def unfair(tmp_path: Path) -> Path:
    return write_log(tmp_path / "unfair.csv", {"f": 0.15, "m": 0.35})


def flat(text: str) -> str:
    return " ".join(text.split())


def test_fair_draws_are_said_to_be_compatible_first_of_all(fair: Path, call: Call) -> None:
    code, out, _ = call(fair)
    assert code == 0
    assert out.startswith("The draws are compatible with the stated exposures: e-value 0.")
    assert "20 would be needed at level 0.05" in flat(out)
    assert "12 arms, 400 rounds" in out
    assert "do not sum" not in out  # as each was drawn by itself
    assert "If each arm was drawn by itself, that is in order; --independent says so." in flat(out)
    assert "One arm that is drawn a tenth less often than stated would show after about 5," in flat(out)
    assert "The 10 most suspicious of 12 arms:" in out
    assert out.count("patient") == 10
    assert max(map(len, out.splitlines())) <= 80


def test_draws_by_ones_own_coin_are_in_order_and_a_fixed_number_is_not(fair: Path, tmp_path: Path, call: Call) -> None:
    code, out, _ = call(fair, "--independent", "-g", "sex")
    assert code == 0
    assert "times as much as with independent draws (variance; 0.79 to 1.21 by chance), as it should." in flat(out)
    told = json.loads(call(fair, "--independent", "--json")[1])
    assert told["independent"] is True
    assert 5000 < told["power"]["rounds"] < 6000
    fixed = tmp_path / "fixed.csv"
    rows = [f"p{k},{r},0.25,{int((k + r) % 4 == 0)}" for r in range(100) for k in range(12)]
    fixed.write_text("arm,round,exposure,drawn\n" + "\n".join(rows))
    assert "which is rare at one look. If the arms were not drawn independently, omit --independent." in flat(
        call(fixed, "--independent")[1]
    )
    short = tmp_path / "short.csv"
    short.write_text("\n".join(fair.read_text().splitlines()[: 1 + 3 * 12]))
    shown = flat(call(short)[1])
    assert "the exposures do not sum to the number drawn, first in round" in shown
    assert "That is in order if each arm was drawn by itself, which so few rounds cannot show: --independent." in shown
    assert "do not sum" not in call(short, "--independent")[1]
    code, _, err = call(fair, "--independent", "--fixed-budget")
    assert code == 2
    assert "give --independent or --fixed-budget" in flat(err)


def test_groups_come_before_arms_and_those_wronged_are_flagged(unfair: Path, call: Call) -> None:
    code, out, _ = call(unfair, "--group", "sex")
    assert code == 0
    assert out.startswith("The draws did not follow the stated exposures: the e-value passed 20 in round ")
    assert out.index("\nsex ") < out.index("\narm ")
    rows = {line.split()[0]: line.split() for line in out.splitlines() if line[:2] in ("f ", "m ")}
    assert (rows["f"][1], rows["f"][-1], rows["m"][-1]) == ("6", "less", "more")
    assert rows["f"][2] == "50.0"
    assert float(rows["f"][3]) < 40
    assert max(map(len, out.splitlines())) <= 80


def test_files_are_written_and_named(unfair: Path, tmp_path: Path, call: Call) -> None:
    code, out, _ = call(unfair, "-g", "sex", "--out", tmp_path / "kept.csv", "--plot", tmp_path / "kept.png")
    assert code == 0
    for name in ("kept.csv", "kept-groups.csv", "kept.png"):
        assert f"wrote {tmp_path / name}" in out.replace("\n", "")
        assert (tmp_path / name).stat().st_size > 0
    with (tmp_path / "kept-groups.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [(row["group"], row["members"], row["turns"], row["flagged"]) for row in rows] == [
        ("f", "6", "2400", "True"),
        ("m", "6", "2400", "True"),
    ]


def test_json_holds_everything(unfair: Path, call: Call) -> None:
    code, out, _ = call(unfair, "--group", "sex", "--alpha", "0.01", "--json")
    assert code == 0
    report = json.loads(out)
    assert report["alpha"] == 0.01
    assert report["overall"]["violated"] is True
    assert report["overall"]["largest"] >= 100
    assert report["rounds"] == 400
    assert len(report["arms"]) == 12
    assert [group["flagged"] for group in report["groups"]] == [True, True]
    assert report["budget"]["smallest"] < report["budget"]["largest"]
    assert report["certain"] == []


def test_impossible_draws_are_told_also_in_json(tmp_path: Path, call: Call) -> None:
    file = tmp_path / "draws.csv"
    file.write_text("round,arm,exposure,drawn\n1,Ada,0,1\n1,Bo,1,0\n")
    assert "2 of them are impossible, first in round 1, where Ada was drawn at exposure 0" in flat(call(file)[1])
    report = json.loads(call(file, "--json")[1])
    assert report["overall"]["e_value"] is None  # JSON knows no infinity
    assert report["overall"]["p_value"] == 0
    assert report["certain"][1] == {"round": 1, "arm": "Bo", "exposure": 1.0}


def test_a_fixed_budget_is_offered_where_it_would_help(tmp_path: Path, call: Call) -> None:
    file = tmp_path / "draws.csv"
    rows = [f"{r},{name},0.5,{(r + k) % 2},{name}" for r in range(50) for k, name in enumerate("ab")]
    file.write_text("round,arm,exposure,drawn,site\n" + "\n".join(rows) + "\n")
    assert "1 drawn in a round. If that number was fixed before each draw, --fixed-budget" in flat(
        call(file, "-g", "site")[1]
    )
    assert "If that number" not in call(file, "-g", "site", "--fixed-budget")[1]
    assert "If that number" not in call(file)[1]


def write_timed_log(file: Path, slack: float, broken: bool = False) -> Path:
    """Twelve arms, three drawn: given exposures at random within the slack; if broken, patient 5 lacks some."""
    rng, due = np.random.default_rng(8), np.repeat([0.2, 0.3], 6)
    account = np.zeros(12)
    with file.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["round", "arm", "sex", "due", "exposure", "drawn"])
        for r in range(1, 101):
            low, high = np.maximum(0, account + due - slack), np.minimum(1, account + due + slack)
            x = rng.uniform(low, high)
            toward = low if x.sum() > 3 else high
            x = (x + (3 - x.sum()) / (toward - x).sum() * (toward - x)).clip(0, 1)
            account += due - x
            ends = np.append(0, np.cumsum(x))
            ends[-1] = 3
            drawn = np.diff(np.floor(ends + rng.random())).astype(int)
            if broken and 40 <= r <= 50:
                x[4] = drawn[4] = 0
            writer.writerows([r, f"patient {k + 1}", "fm"[k % 2], due[k], x[k], drawn[k]] for k in range(12))
    return file


def test_accounts_within_the_slack_are_said_to_be(tmp_path: Path, call: Call) -> None:
    file = write_timed_log(tmp_path / "timed.csv", slack=1.5)
    code, out, _ = call(file, "--slack", "1.5", "-g", "sex", "--plot", tmp_path / "timed.png")
    assert code == 0
    assert "Every account stayed within the slack of 1.5. The largest: patient " in flat(out)
    assert "In every round the due exposures sum to the given ones." in flat(out)
    assert out.index("Accounts of groups, in pulls:") < out.index("The 10 largest of 12 accounts, in pulls:")
    assert "Worst window of all: rounds " in flat(out)
    assert max(map(len, out.replace(str(tmp_path), "").splitlines())) <= 80
    assert (tmp_path / "timed.png").stat().st_size > 0
    _, out, _ = call(file)
    assert "The largest account: patient " in flat(out)
    assert "slack" not in out


def test_an_account_beyond_the_slack_is_named(tmp_path: Path, call: Call) -> None:
    file = write_timed_log(tmp_path / "broken.csv", slack=0.5, broken=True)
    code, out, _ = call(file, "--slack", "0.5")
    assert code == 0  # as for draws that did not follow: a finding is no failure of the command
    report = json.loads(call(file, "--slack", "0.5", "--json")[1])
    worst = report["largest_account"]
    assert report["within_slack"] is False
    assert worst["arm"] == "patient 5"
    assert 40 <= worst["round"] <= 100
    assert "1 account of 12 went beyond the slack of 0.5: patient 5 was " in flat(out)
    assert f"in round {worst['round']}, which is " in flat(out)
    assert "the due exposures do not sum to the given ones, first in round 40." in flat(out)
    assert report["budget"]["first_uneven_due"] == 40


def test_json_holds_the_accounts(tmp_path: Path, call: Call) -> None:
    report = json.loads(call(write_timed_log(tmp_path / "timed.csv", slack=1.5), "-g", "sex", "--json")[1])
    assert (report["slack"], report["within_slack"]) == (None, None)
    extremes = [value for arm in report["arms"] for value in (arm["least_account"], arm["largest_account"])]
    assert report["largest_account"]["account"] in extremes
    assert abs(report["largest_account"]["account"]) == max(map(abs, extremes))
    assert set(report["worst_window"]) == {"arm", "first", "last", "owed"}
    assert sum(group["account"] for group in report["groups"]) == pytest.approx(0, abs=1e-9)


def test_without_due_exposures_there_are_no_accounts(fair: Path, call: Call) -> None:
    assert "account" not in call(fair)[1]
    report = json.loads(call(fair, "--json")[1])
    assert report["largest_account"] is report["worst_window"] is report["budget"]["uneven_due"] is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--alpha", "0"], "alpha must lie strictly between 0 and 1, got 0.0"),
        (["--slack", "-1"], "slack must be at least 0, got -1.0"),
        (["--slack", "2"], "fair.csv has no column due"),
        (["--alpha", "small"], "must be a number, got 'small'"),
        (["--group", "site"], "lacks the column site; it has arm, round, sex, exposure, drawn, remark"),
        (["--group", "remark", "--out", "audit.xlsx"], "audit.xlsx: audits are kept in .csv or .parquet files"),
        (["--plot", "audit.txt"], "--plot audit.txt: a figure is a .png, .pdf or .svg file"),
    ],
)
def test_mistakes_are_one_clear_line(fair: Path, call: Call, options: list[str], message: str) -> None:
    code, out, err = call(fair, *options)
    assert code == 2
    assert out == ""
    assert message in err
    assert len(err.strip().splitlines()) == 1


def test_a_log_that_is_not_there(call: Call) -> None:
    code, _, err = call("nothing.csv")
    assert (code, err.strip()) == (2, "meritfair: nothing.csv: there is no such file")
    assert call()[0] == 2
