"""Accounts in the audit: what was due less what was given, against plain loops; their limits; columns of files."""

from __future__ import annotations

import csv
import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure

import meritfair as mf
from meritfair.auditing import Accounts, Audit, DrawLog, audit, read_draws
from meritfair.core.errors import FileError, InputError

Row = tuple[int, str, float, int, str, float]  # round, arm, given, drawn, group, due


def make_log(rows: list[Row], *, grouped: bool = False) -> DrawLog:
    rounds, arms, exposure, drawn, group, due = zip(*rows, strict=True)
    return DrawLog(rounds, arms, exposure, drawn, group if grouped else None, due)


def accounts(report: Audit) -> Accounts:
    assert report.arms.account is not None
    return report.arms.account


def ragged_rows(seed: int = 1) -> list[Row]:
    """Arms that join late, leave and skip rounds; rounds have gaps, and rows are in no order."""
    rng = np.random.default_rng(seed)
    spans = {"a": (0, 30), "b": (0, 20), "c": (7, 30), "d": (12, 13)}
    rows: list[Row] = []
    for name, (first, last) in spans.items():
        for r in range(first, last):
            if r == first or rng.random() < 0.7:
                e, x = rng.random(2)
                rows.append((10 * r, name, float(x), int(rng.random() < x), "f" if name in "ac" else "m", float(e)))
    return [rows[k] for k in rng.permutation(len(rows))]


def course(rows: list[Row], members: str) -> dict[int, float]:
    """The account after each round of the log, in plain loops."""
    total, found = 0.0, {}
    for r in sorted({row[0] for row in rows}):
        total += sum(row[5] - row[2] for row in rows if row[0] == r and row[1] in members)
        found[r] = total
    return found


@pytest.mark.parametrize("seed", range(4))
def test_extremes_are_those_of_plain_loops(seed: int) -> None:
    rows = ragged_rows(seed)
    report = audit(make_log(rows, grouped=True))
    assert report.groups is not None
    assert report.groups.account is not None
    cases = [(accounts(report), name, name) for name in "abcd"]
    cases += [(report.groups.account, "f", "ac"), (report.groups.account, "m", "bd")]
    for table, name, members in cases:
        k, values = table.names.index(name), course(rows, members)
        assert table.now[k] == pytest.approx(list(values.values())[-1])
        assert table.least[k] == pytest.approx(min(0, *values.values()))
        assert table.largest[k] == pytest.approx(max(0, *values.values()))
        assert table.due[k] == pytest.approx(sum(row[5] for row in rows if row[1] in members))
        for extreme, when in ((table.least, table.least_round), (table.largest, table.largest_round)):
            if extreme[k] != 0:
                assert values[when[k]] == pytest.approx(extreme[k])
    farthest = max(abs(v) for name in "abcd" for v in course(rows, name).values())
    worst = report.largest_account
    assert worst is not None
    assert worst.round is not None
    assert abs(worst.account) == pytest.approx(farthest)
    assert course(rows, worst.arm)[worst.round] == pytest.approx(worst.account)


def window_sum(rows: list[Row], arm: str, first: int, last: int) -> float:
    return sum(row[5] - row[2] for row in rows if row[1] == arm and first <= row[0] <= last)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=9))
def test_the_worst_window_is_the_largest_sum_over_any_run_of_rounds(exposures: list[tuple[int, int]]) -> None:
    rows: list[Row] = [(3 * r, "a", x / 20, 0, "", e / 20) for r, (e, x) in enumerate(exposures)]
    worst = audit(make_log(rows)).worst_window
    assert worst is not None
    ends = itertools.combinations_with_replacement([row[0] for row in rows], 2)
    largest = max(abs(window_sum(rows, "a", first, last)) for first, last in ends)
    assert abs(worst.owed) == pytest.approx(largest, abs=1e-12)
    assert worst.owed == pytest.approx(window_sum(rows, "a", worst.first, worst.last), abs=1e-12)


def test_an_arm_that_joins_late_begins_at_0_and_absence_changes_nothing() -> None:
    rows: list[Row] = [(r, "a", 0.5, 0, "", 0.5) for r in range(1, 7)]
    rows += [(3, "b", 0.2, 0, "", 0.5), (6, "b", 0.9, 1, "", 0.5)]
    table = accounts(audit(make_log(rows)))
    k = table.names.index("b")
    assert table.at(k, np.arange(6)) == pytest.approx([math.nan, math.nan, 0.3, 0.3, 0.3, -0.1], nan_ok=True)
    assert table.window[k].tolist() == [6, 6]
    assert table.owed[k] == pytest.approx(-0.4)
    low, high = table.envelope(np.array([2, 5]))
    assert low == pytest.approx([0, -0.1])
    assert high == pytest.approx([0.3, 0])


def test_who_is_away_and_due_something_has_a_row_with_exposure_0() -> None:
    rows: list[Row] = [(r, name, x, x, "", 0.5) for r in range(3) for name, x in (("here", 1), ("away", 0))]
    report = audit(make_log(rows), slack=1.5)
    assert not report.overall.violated
    assert report.certain == ()
    assert report.within_slack is True
    assert accounts(report).now.tolist() == [-1.5, 1.5]
    assert report.budget.uneven_due == 0


def test_one_arm_that_is_given_what_it_is_due() -> None:
    report = audit(make_log([(r, "a", 0.25, r % 4 == 0, "", 0.25) for r in range(8)]), slack=0)
    assert report.within_slack is True
    assert report.largest_account == ("a", None, 0.0)
    assert report.worst_window == ("a", 0, 0, 0.0)
    assert "All accounts are 0 at all times" in str(report)
    report.plot()


def test_a_log_without_due_exposures_has_no_accounts() -> None:
    log = DrawLog([1, 2], ["a", "a"], [0.5, 0.5], [0, 1])
    report = audit(log)
    assert log.due is None
    assert [report.arms.account, report.largest_account, report.worst_window, report.within_slack] == [None] * 4
    assert "account" not in str(report)
    assert "due" not in report.arms.columns("arm")
    with pytest.raises(InputError, match="slack needs a log with due exposures, and this one has none"):
        audit(log, slack=2)


def timed_rows(slack: float, rounds: int = 200, n_arms: int = 8, seed: int = 5) -> list[Row]:
    """A timed lottery: given exposures at random, within what the slack allows; two of the arms are drawn."""
    rng = np.random.default_rng(seed)
    due = rng.uniform(0.1, 0.4, n_arms)
    due *= 2 / due.sum()
    account, rows = np.zeros(n_arms), []
    for r in range(1, rounds + 1):
        low, high = np.maximum(0, account + due - slack), np.minimum(1, account + due + slack)
        x = rng.uniform(low, high)
        toward = low if x.sum() > 2 else high
        x += (2 - x.sum()) / (toward - x).sum() * (toward - x)
        x = x.clip(0, 1)
        account += due - x
        ends = np.append(0, np.cumsum(x))
        ends[-1] = 2
        drawn = np.diff(np.floor(ends + rng.random())).astype(int)  # systematic
        rows += [(r, f"arm {i}", float(x[i]), int(drawn[i]), "fm"[i % 2], float(due[i])) for i in range(n_arms)]
    return rows


@pytest.mark.parametrize("slack", [0.5, 2.0])
def test_a_timed_lottery_stays_within_its_slack_and_no_less(slack: float) -> None:
    log = make_log(timed_rows(slack), grouped=True)
    report = audit(log, slack=slack)
    assert report.within_slack is True
    assert not report.overall.violated  # the draws followed the given exposures
    assert f"Every account stayed within the slack of {slack:g}. The largest: arm " in str(report)
    assert (report.budget.uneven, report.budget.uneven_due, report.budget.first_uneven_due) == (0, 0, None)
    worst = report.largest_account
    assert worst is not None
    less = audit(log, slack=abs(worst.account) - 0.001)
    assert less.within_slack is False
    assert str(worst) in str(less)
    assert "which is 0.001 too much." in str(less)
    window = report.worst_window
    assert window is not None
    assert abs(worst.account) <= abs(window.owed) <= 2 * slack + 1e-9
    assert audit(log, slack=math.inf).within_slack is True
    assert audit(log).within_slack is None


def test_a_learners_log_has_the_accounts_that_the_learner_keeps() -> None:
    rng, truth = np.random.default_rng(1), mf.datasets.synthetic(6, seed=1).transitions
    learner = mf.MeritFair(estimate="mean", design="exact", slack=1.0).start(n_arms=6, budget=2, seed=3)
    states, rows = np.zeros(6, np.int64), []
    for r in range(1, 101):
        choice = learner.choose(states=states)
        columns = (choice.exposure.tolist(), choice.actions.tolist(), choice.due.tolist())
        rows += [(r, name, x, int(a), "", e) for name, x, a, e in zip(learner.names, *columns, strict=True)]
        after = (rng.random(6) < truth[np.arange(6), states, choice.actions.astype(int)]).astype(np.int64)
        learner.observe(states, choice.actions, after)
        states = after
    report = audit(make_log(rows), slack=1.0)
    assert report.within_slack is True
    assert accounts(report).now == pytest.approx(choice.account, abs=1e-9)
    assert accounts(report).farthest.max() > 0.5
    assert report.budget.uneven_due == report.budget.uneven == 0


def test_the_evidence_does_not_depend_on_what_was_due() -> None:
    rows = timed_rows(1.0, rounds=50)
    with_due = audit(make_log(rows, grouped=True))
    without = audit(DrawLog(*list(zip(*rows, strict=True))[:5]))
    assert with_due.overall == without.overall
    assert with_due.arms.low.tolist() == without.arms.low.tolist()


def test_one_arm_beyond_the_slack_is_named_with_its_round() -> None:
    rows: list[Row] = [(r, name, 0.5, (r + k) % 2, "", 0.5) for r in range(1, 9) for k, name in enumerate("ab")]
    rows = [(r, arm, 0.1, x, g, e) if (arm, r) in (("b", 3), ("b", 7)) else (r, arm, y, x, g, e)
            for r, arm, y, x, g, e in rows]  # fmt: skip
    report = audit(make_log(rows), slack=0.75)
    assert report.within_slack is False
    assert "1 account of 2 went beyond the slack of 0.75: b was 0.80 pulls behind in round 7, which is 0.05 too" in str(
        report
    )
    assert report.budget[2:6] == (2, 3, 2, 3)
    assert str(report.worst_window) == "rounds 3 to 7, in which b was given 0.80 pulls less than due"


def test_a_window_of_one_round_and_an_arm_that_is_ahead() -> None:
    report = audit(make_log([(4, "a", 0.75, 1, "", 0.5)]))
    assert str(report.worst_window) == "round 4, in which a was given 0.25 pulls more than due"
    assert "The largest account: a was 0.25 pulls ahead in round 4." in str(report)


def test_sums_of_many_accounts_lose_no_digits() -> None:
    # 2,000 arms far behind come before one that is exactly at its slack, and stays there.
    rounds, arms = np.tile(np.arange(64), 2001), np.repeat(np.arange(2001), 64)
    given = np.zeros((2001, 64))
    given[-1, 1:] = 0.1
    due = np.full_like(given, 0.9)
    due[-1] = 0.1
    table = accounts(audit(DrawLog(rounds, arms, given.ravel(), np.zeros(given.size), None, due.ravel())))
    assert table.now[-1] == 0.1


@pytest.mark.parametrize("slack", [-0.1, math.nan, "much", True])
def test_slack_is_a_number_from_0(slack: Any) -> None:
    with pytest.raises(InputError, match=f"slack must be .*, got {slack!r}"):
        audit(make_log(ragged_rows()), slack=slack)


@pytest.mark.parametrize(
    ("due", "message"),
    [
        ([0.5, 1.5], "due must lie between 0 and 1, got 1.5"),
        ([0.5, -0.5], "due must lie between 0 and 1, got -0.5"),
        ([0.5, math.nan], "due must lie between 0 and 1, got nan"),
        ([0.5], "must be lists of the same length"),
        ([0.5, "x"], "due must be an array of numbers"),
    ],
)
def test_due_exposures_that_cannot_be(due: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        DrawLog([1, 2], ["a", "a"], [0.5, 0.5], [0, 1], due=due)


def test_due_exposures_are_a_copy_of_their_own() -> None:
    due = np.array([0.2, 0.8])
    log = DrawLog([1, 2], ["a", "a"], [0.5, 0.5], [0, 1], due=due)
    due[:] = 1
    assert log.due is not None
    assert log.due.tolist() == [0.2, 0.8]
    assert not log.due.flags.writeable


# ---- files

HEADER = "round,due,arm,exposure,drawn,sex\n"


def write(folder: Path, text: str) -> Path:
    file = folder / "draws.csv"
    file.write_text(text)
    return file


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEADER + "1,1.5,a,0.5,0,f\n", "line 2, column due: must lie between 0 and 1, got '1.5'"),
        (HEADER + "1,.5,a,0.5,0,f\n2,half,a,0.5,0,f\n", "line 3, column due: must be a number, got 'half'"),
        (
            HEADER + "1,,a,0.5,0,f\n\n2,0.5,a,0.5,0,f\n",
            "line 2, column due: the cell is empty, but there is a number in line 4",
        ),
        (
            HEADER + "1,0.5,a,0.5,0,f\n2, ,a,0.5,0,f\n",
            "line 3, column due: the cell is empty, but there is a number in line 2",
        ),
        ("due," + HEADER + "1,1,1,a,0.5,0,f\n", "line 1, column due: duplicate column"),
    ],
)
def test_columns_of_due_exposures_that_cannot_be(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(FileError) as raised:
        read_draws(write(tmp_path, text))
    assert str(raised.value).endswith(message)


def test_a_column_of_empty_cells_says_nothing_of_what_was_due(tmp_path: Path) -> None:
    assert read_draws(write(tmp_path, HEADER + "1,,a,0.5,0,f\n2,,a,0.5,0,f\n")).due is None
    empty = pa.table(
        {"round": [1], "arm": ["a"], "exposure": [0.5], "drawn": [0], "due": pa.array([None], pa.float64())}
    )
    pq.write_table(empty, tmp_path / "draws.parquet")
    assert read_draws(tmp_path / "draws.parquet").due is None


def test_a_group_may_be_called_due(tmp_path: Path) -> None:
    log = read_draws(write(tmp_path, HEADER + "1,soon,a,0.5,0,f\n"), group="due")
    assert (log.group_names, log.due) == (("soon",), None)


def test_csv_and_parquet_give_the_same_accounts(tmp_path: Path) -> None:
    rows = ragged_rows()
    names = ["round", "arm", "exposure", "drawn", "sex", "due"]
    with (tmp_path / "draws.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([names, *rows])
    pq.write_table(
        pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))), tmp_path / "draws.parquet"
    )
    expected = audit(make_log(rows, grouped=True))
    for file in ("draws.csv", "draws.parquet"):
        report = audit(read_draws(tmp_path / file, group="sex"))
        assert report.largest_account == expected.largest_account
        assert report.arms.columns("arm") == expected.arms.columns("arm")


def test_tables_have_the_accounts(tmp_path: Path) -> None:
    report = audit(make_log(ragged_rows(), grouped=True))
    files = report.save(tmp_path / "audit.csv")
    for file, table in zip(files, (report.arms, report.groups), strict=True):
        assert table is not None
        assert table.account is not None
        with file.open(newline="") as stream:
            kept = list(csv.DictReader(stream))
        assert [float(row["account"]) for row in kept] == table.account.now.tolist()
        assert [float(row["least_account"]) for row in kept] == table.account.least.tolist()
        assert [float(row["largest_account"]) for row in kept] == table.account.largest.tolist()
        assert [float(row["worst_window"]) for row in kept] == table.account.owed.tolist()
        assert [[int(row["window_first"]), int(row["window_last"])] for row in kept] == table.account.window.tolist()


def test_the_figure_has_a_panel_of_accounts(tmp_path: Path) -> None:
    log = make_log(timed_rows(1.5), grouped=True)
    report = audit(log, slack=1.5)
    figure = report.plot()
    figure.savefig(tmp_path / "audit.png")
    below: Any = figure.axes[2]
    labels = [text.get_text() for text in below.get_legend().get_texts()]
    table = accounts(report)
    behind, ahead = table.names[table.largest.argmax()], table.names[table.least.argmin()]
    assert labels == [
        "all arms of the round",
        f"farthest behind: {behind}",
        f"farthest ahead: {ahead}",
        "slack of 1.5",
    ]
    assert below.lines[0].get_ydata().max() == pytest.approx(table.largest.max())
    without: Any = audit(log).plot().axes[2]
    assert len(without.get_legend().get_texts()) == 3


def test_accounts_need_three_axes() -> None:
    report = audit(make_log(ragged_rows()))
    given_figure = Figure()
    assert report.plot(ax=given_figure.subplots(1, 3)) is given_figure
    with pytest.raises(InputError, match=r"ax must be three Axes.*, got 2 Axes"):
        report.plot(ax=Figure().subplots(1, 2))
    with pytest.raises(InputError, match="figsize is for a new figure"):
        report.plot(ax=Figure().subplots(1, 3), figsize=(6, 3))
