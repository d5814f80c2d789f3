from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import meritfair as mf
from meritfair.datasets.logs import StateLog, read_log

HEADER = "arm,round,state,action\n"
Row = tuple[str, int, int, int]


def plain_counts(rows: list[Row]) -> dict[tuple[str, int, int, int], int]:
    """Count (arm, state, action, next state) in a plain loop over all pairs of rows."""
    counted: Counter[tuple[str, int, int, int]] = Counter()
    for arm, when, state, action in rows:
        for other, then, following, _ in rows:
            if other == arm and then == when + 1:
                counted[arm, state, action, following] += 1
    return dict(counted)


def told_counts(log: StateLog) -> dict[tuple[str, int, int, int], int]:
    """Return the counts of a log in the same form."""
    good, visits = log.counts.good, log.counts.visits
    both = {1: good, 0: visits - good}
    return {
        (name, s, a, then): int(both[then][i, s, a])
        for i, name in enumerate(log.arms)
        for s in (0, 1)
        for a in (0, 1)
        for then in (0, 1)
        if both[then][i, s, a]
    }


def log_of(rows: list[Row]) -> StateLog:
    arms, rounds, states, actions = zip(*rows, strict=True)
    return StateLog(arms, rounds, states, actions)


rows_of_logs = st.dictionaries(
    st.tuples(st.sampled_from(["Ada", "Bo", "Cy", "10"]), st.integers(-3, 12)),
    st.tuples(st.integers(0, 1), st.integers(0, 1)),
    min_size=1,
).flatmap(lambda cells: st.permutations([(*key, *value) for key, value in cells.items()]))


def test_the_old_name_still_works() -> None:
    with pytest.warns(DeprecationWarning, match=r"meritfair\.Log is now StateLog"):
        assert mf.Log is StateLog  # type: ignore[attr-defined]


@given(rows_of_logs)
def test_counts_are_those_of_a_plain_loop(rows: list[Row]) -> None:
    log = log_of(rows)
    assert told_counts(log) == plain_counts(rows)
    assert log.transitions == log.counts.visits.sum() == sum(plain_counts(rows).values())
    assert log.arms == tuple(dict.fromkeys(row[0] for row in rows))
    assert len(log) == len(rows)
    gaps = 0
    for i, name in enumerate(log.arms):
        rounds = sorted(row[1] for row in rows if row[0] == name)
        gaps += sum(b - a > 1 for a, b in pairwise(rounds))
        assert log.first_rounds[i] == rounds[0]
        assert log.last_rounds[i] == rounds[-1]
    assert log.gaps == gaps


@given(rows_of_logs, st.randoms())
def test_the_order_of_rows_does_not_matter(rows: list[Row], random: Any) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)
    assert told_counts(log_of(shuffled)) == told_counts(log_of(rows))


def test_late_joiners_leavers_and_gaps(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    file.write_text(
        "group,action,state,round,arm\n"
        "north,1,0,5,Ada\n"  # joins with round 5
        "south,0,1,2,Bo\n"
        "north,0,1,7,Ada\n"
        "south,1,1,1,Bo\n"
        "north,1,1,6,Ada\n"
        "south,,0,3,Bo\n"  # the last of Bo: no action yet
        "north,1,0,9,Ada\n"  # round 8 is missing
        "north,,1,10,Ada\n"
        "east,,1,4,Cy\n"  # seen once
    )
    log = read_log(file)
    assert log.arms == ("Ada", "Bo", "Cy")
    assert told_counts(log) == {
        ("Ada", 0, 1, 1): 2,
        ("Ada", 1, 1, 1): 1,
        ("Bo", 1, 1, 1): 1,
        ("Bo", 1, 0, 0): 1,
    }
    assert (log.transitions, log.gaps, len(log)) == (5, 1, 9)
    assert log.first_rounds.tolist() == [5, 1, 4]
    assert log.last_rounds.tolist() == [10, 3, 4]
    assert repr(log) == "StateLog(9 rows of 3 arms: 5 transitions, 1 gap)"
    assert log.actions.tolist() == [1, 1, 0, 1, -1, 1, 0, -1, -1]


def test_an_action_may_be_empty_before_a_gap(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    file.write_text(HEADER + "Ada,1,0,\nAda,3,1,\n")
    assert read_log(file).transitions == 0
    assert read_log(file).counts.visits.shape == (1, 2, 2)


def test_ways_to_write_0_and_1(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    file.write_text(HEADER + "Ada,1.0,1.0,0.0\nAda,2,True, false\nAda,3e0, TRUE ,1\nAda,4,0,nan\n")
    log = read_log(file)
    assert log.states.tolist() == [1, 1, 1, 0]
    assert log.actions.tolist() == [0, 0, 1, -1]
    assert log.rounds.tolist() == [1, 2, 3, 4]


def test_what_spreadsheets_write_is_read(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    file.write_bytes(b"\xef\xbb\xbfarm, round ,state,action\r\n Ada ,1,0,1\r\n\r\nAda,2,1,\r\n,,,\r\n")
    assert told_counts(read_log(file)) == {("Ada", 0, 1, 1): 1}


def test_parquet_is_as_csv(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    cells = rng.permutation(400)[:300]
    columns: dict[str, Any] = {
        "arm": [f"p{i}" for i in cells // 20],
        "round": cells % 20,
        "state": rng.integers(0, 2, 300),
        "action": rng.integers(0, 2, 300),
    }
    lines = (",".join(map(str, row)) for row in zip(*columns.values(), strict=True))
    (tmp_path / "log.csv").write_text(HEADER + "\n".join(lines))
    log = read_log(tmp_path / "log.csv")
    for state, action in [(bool, bool), (float, np.int8), (np.int8, float), (str, str)]:
        typed = {**columns, "state": columns["state"].astype(state), "action": columns["action"].astype(action)}
        pq.write_table(pa.table(typed), tmp_path / "log.parquet")
        other = read_log(tmp_path / "log.parquet")
        assert other.arms == log.arms
        np.testing.assert_array_equal(other.counts.visits, log.counts.visits)
        np.testing.assert_array_equal(other.counts.good, log.counts.good)


def test_empty_cells_and_numbers_as_names_in_parquet(tmp_path: Path) -> None:
    for missing in (None, float("nan")):
        columns = {"arm": [7, 7, 8], "round": [1, 2, 1], "state": [0, 1, 1], "action": [1.0, missing, missing]}
        pq.write_table(pa.table(columns), tmp_path / "log.parquet")
        log = read_log(tmp_path / "log.parquet")
        assert log.arms == ("7", "8")
        assert log.actions.tolist() == [1, -1, -1]
        assert log.transitions == 1


def test_huge_round_numbers(tmp_path: Path) -> None:
    file, last = tmp_path / "log.csv", 2**53 - 1
    file.write_text(HEADER + f"Ada,{last},1,\nAda,{last - 1},0,1\nAda,{-last},1,1\n")
    log = read_log(file)
    assert told_counts(log) == {("Ada", 0, 1, 1): 1}
    assert log.gaps == 1
    file.write_text(HEADER + f"Ada,{2**53 + 1},1,\nAda,{2**53},0,1\n")  # as floats they would be the same
    with pytest.raises(mf.FileError, match="line 2, column round: must lie between"):
        read_log(file)
    ends = np.iinfo(np.int64)
    far = StateLog(["Ada"] * 3, [ends.max, ends.min, ends.max - 1], [1, 1, 0], [0, 0, 0])  # the distance overflows
    assert (far.transitions, far.gaps) == (1, 1)


WEEKLY = [("Ada", 0), ("Ada", 1), ("Ada", 3), ("Bo", 1), ("Bo", 2), ("Ada", 4)]  # Ada's week 2 is missing
WRITTEN = {
    "numbers": lambda k: str(k + 5),
    "dates": lambda k: str(np.datetime64("2026-02-16") + 7 * k),
    "times": lambda k: f"{np.datetime64('2026-02-16') + 7 * k} 00:00:00",
    "compact": lambda k: str(np.datetime64("2026-02-16") + 7 * k).replace("-", ""),
    "weeks": lambda k: f"2026-W{k + 8:02}",
    "months": lambda k: str(np.datetime64("2025-11") + k),
    "days of months": lambda k: f"{np.datetime64('2025-11') + k}-15",
    "quarters": lambda k: str(np.datetime64("2025-11") + 3 * k),
    "days": lambda k: str(np.datetime64("2026-02-26") + k),
}


@pytest.mark.parametrize("kind", WRITTEN)
def test_rounds_may_be_written_as_dates(tmp_path: Path, kind: str) -> None:
    rng, file = np.random.default_rng(2), tmp_path / "log.csv"
    cells = [(name, k, rng.integers(2), rng.integers(2)) for name, k in WEEKLY]
    file.write_text(HEADER + "".join(f"{name},{WRITTEN[kind](k)},{s},{a}\n" for name, k, s, a in cells))
    log = read_log(file)
    assert told_counts(log) == plain_counts([(name, k, int(s), int(a)) for name, k, s, a in cells])
    assert (log.transitions, log.gaps) == (3, 1)
    lengths = {"numbers": "", "months": "1 month", "days of months": "1 month", "quarters": "3 months", "days": "1 day"}
    assert log.round_length == lengths.get(kind, "7 days")
    assert (log.rounds - log.rounds.min()).tolist() == [0, 1, 3, 4, 1, 2]
    assert (log.dates is None) == (kind == "numbers")


def test_dates_of_parquet_files_and_arrays(tmp_path: Path) -> None:
    days = np.array(["2026-03-30", "2026-04-06", "2026-04-20"], "datetime64[D]")
    numbers = [20260330, 20260406, 20260420]
    columns = {"arm": ["a"] * 3, "state": [0, 1, 1], "action": [1, 1, 0]}
    for dates in (
        days,
        days.astype("datetime64[ns]"),
        pa.array(days.tolist(), pa.date32()),
        numbers,
        np.array(numbers) + 0.0,
    ):
        pq.write_table(pa.table({**columns, "round": dates}), tmp_path / "log.parquet")
        assert repr(read_log(tmp_path / "log.parquet")) == "StateLog(3 rows of 1 arm: 1 transition, 1 gap)"
    for rounds in (days, days.astype("datetime64[ns]"), numbers):
        log = StateLog(["a"] * 3, rounds, [0, 1, 1], [1, 1, 0])
        assert log.rounds.tolist() == [0, 1, 3]
        assert log.dates is not None
        np.testing.assert_array_equal(log.dates, days)
    assert StateLog(["a", "a"], [20260330, 20260331], [0, 1], [1, 1]).transitions == 1
    assert StateLog(["a", "a"], [20260331, 20260401], [0, 1], [1, 1]).transitions == 1  # the next day
    assert StateLog(["a", "a"], [20260331, 20260332], [0, 1], [1, 1]).dates is None  # no date: numbers, as ever


def test_arms_with_weekdays_of_their_own() -> None:
    monday = np.datetime64("2026-03-02") + 7 * np.arange(4)
    log = StateLog(["a"] * 4 + ["b"] * 4, np.r_[monday, monday + 2], [0, 1] * 4, [1] * 8)
    assert (log.transitions, log.gaps, log.round_length) == (6, 0, "7 days")


def test_rounds_that_step_by_more_than_one_are_refused_by_a_fit() -> None:
    weekly = StateLog(["a", "a", "a", "b"], [1, 8, 22, 3], [0, 1, 1, 0], [1, 1, 0, 1])
    with pytest.raises(mf.InputError, match=r"no transitions: .* one more, but rounds step by 7"):
        mf.fit(weekly)
    alone = StateLog(["a", "b"], [1, 8], [0, 1], [1, 1])
    assert mf.fit(alone).seen.tolist() == [0, 0]  # nothing was seen yet


@pytest.mark.parametrize(
    ("rounds", "message"),
    [
        (np.array(["2026-03-02T09:30", "2026-03-03"], "datetime64[m]"), "without a time of day, got 2026-03-02T09:30"),
        (np.array(["2026-03-02", "NaT"], "datetime64[D]"), "rounds must be dates, got NaT"),
        (
            np.array(["2026-03-02", "2026-03-02"], "datetime64[D]"),
            "the arm 'a' already has round 2026-03-02 in row 0",
        ),
    ],
)
def test_dates_that_are_refused(rounds: Any, message: str) -> None:
    with pytest.raises(mf.InputError, match=message):
        StateLog(["a", "a"], rounds, [0, 1], [1, 1])


SOME = "Ada,1,0,1\nAda,2,1,0\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "log.csv: is empty"),
        (HEADER, "log.csv: has no observations in it, only a header"),
        ("arm,round,state\nAda,1,1\n", "log.csv, line 1: lacks the column action; it has arm, round, state"),
        ("arm,round,state,action,state\n", "log.csv, line 1, column state: duplicate column"),
        (HEADER + SOME + "Ada,3,1\n", "line 4: has 3 of the 4 columns of the header"),
        (HEADER + SOME + ",3,1,0\n", "line 4, column arm: the cell is empty"),
        (HEADER + SOME + "Ada,3.5,1,0\n", "line 4, column round: must be a whole number, got '3.5'"),
        (HEADER + SOME + "Ada,,1,0\n", "line 4, column round: must be a number, got ''"),
        (HEADER + SOME + "Ada,2024-01-31,1,0\n", "line 4, column round: must be a number, got '2024-01-31'"),
        (
            HEADER + "Ada,02.03.2026,1,0\n",
            "line 2, column round: must be a whole number, or a date such as 2026-03-02, without a time of day, "
            "got '02.03.2026'",
        ),
        (HEADER + "Ada,2026-03-02,1,0\nAda,9,1,0\n", "line 3, column round: must be a date such as 2026-03-02"),
        (HEADER + "Ada,2026-03,1,0\nAda,2026-04-01,1,0\n", "line 3, column round: must be a month such as 2026-03"),
        (HEADER + "Ada,2026-02-28,1,0\nAda,2026-02-29,1,0\n", "as in line 2, got '2026-02-29'"),
        (
            HEADER + "Ada,2026-03-02,1,0\nAda,2026-03-09,1,0\nAda,2026-03-17,1,0\nAda,2026-03-24,1,0\n",
            "line 4, column round: rounds are mostly 7 days apart (weeks can be written 2026-W10, months 2026-03), "
            "but 'Ada' is here 8 days after line 3",
        ),
        (
            HEADER + "Ada,2026-03-02,1,\nAda,2026-03-09,1,0\n",
            "line 2, column action: is empty, but the arm 'Ada' has its next round, 2026-03-09, in line 3",
        ),
        ("round,state,action,arm\n1,0,1,Smith, Ann\n1,0,1,Smith, Bob\n", "line 2: has 5 cells, but the header has 4"),
        (HEADER + SOME + "Ada,inf,1,0\n", "line 4, column round: must lie between"),
        (
            HEADER + SOME + "Ada,3,2,0\n",
            "line 4, column state: must be 0 (bad) or 1 (good), or false or true, or empty if not observed, got '2'",
        ),
        (HEADER + SOME + "Ada,3,good,0\n", "or empty if not observed, got 'good'"),
        (
            HEADER + SOME + "Ada,3,1,-1\n",
            "line 4, column action: must be 0 (not pulled) or 1 (pulled), or false or true, "
            "or empty if the arm has no row for the next round, got '-1'",
        ),
        (HEADER + SOME + "Ada,3,1,call\n", "line 4, column action: must be 0 (not pulled)"),
        (
            HEADER + "\nAda,3,1,\nBo,3,1,\nAda,4,1,0\n",
            "line 3, column action: is empty, but the arm 'Ada' has its next round, 4, in line 5",
        ),
        (
            HEADER + "Ada,4,1,0\nBo,3,1,\nBo,4,1,1\nAda,3,1,\n",
            "line 3, column action: is empty, but the arm 'Bo' has its next round, 4, in line 4",
        ),
        (
            HEADER + "Ada,4,1,0\nBo,2,1,1\nAda,3,1,1\n\nAda,4,1,0\n",
            "line 6, column round: the arm 'Ada' already has round 4 in line 2",
        ),
        (
            HEADER + "Ada,4,1,0\nBo,2,1,1\nBo,2,0,1\nAda,4,1,0\nAda,4,1,0\n",
            "line 4, column round: the arm 'Bo' already has round 2 in line 3",
        ),
    ],
)
def test_bad_csv_is_refused_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "log.csv"
    file.write_text(text)
    with pytest.raises(mf.FileError) as caught:
        read_log(file)
    assert message in str(caught.value)


def test_bad_parquet_is_refused_with_its_row(tmp_path: Path) -> None:
    file = tmp_path / "log.parquet"
    columns = {"arm": ["a", "b"], "round": [1, 1], "state": [[0], [1]], "action": [0, 1]}
    pq.write_table(pa.table(columns), file)
    with pytest.raises(mf.FileError, match=r"line 1, column state: must be 0 \(bad\) or 1 \(good\).*got \[0\]"):
        read_log(file)
    pq.write_table(pa.table({**columns, "state": [0, 1], "arm": ["a", "a"]}), file)
    with pytest.raises(mf.FileError, match=r"line 2, column round: .* 'a' .* round 1 .* line 1"):
        read_log(file)
    pq.write_table(pa.table({name: pa.array([], pa.int64()) for name in columns}), file)
    with pytest.raises(mf.FileError, match="has no observations in it"):
        read_log(file)


def test_files_that_are_not_what_they_seem(tmp_path: Path) -> None:
    (tmp_path / "latin.csv").write_bytes(HEADER.encode() + b"Ren\xe9,1,1,0\n")
    with pytest.raises(mf.FileError, match="is not text in UTF-8"):
        read_log(tmp_path / "latin.csv")
    with pytest.raises(mf.FileError, match="there is no such file"):
        read_log(tmp_path / "none.csv")
    with pytest.raises(mf.FileError, match=r"observations are kept in \.csv or \.parquet files"):
        read_log(tmp_path / "log.xlsx")


def test_a_log_from_arrays() -> None:
    log = StateLog([2, 2, 1], np.array([1.0, 2.0, 1.0]), [True, False, True], [1, None, float("nan")])
    assert log.arms == ("2", "1")
    assert log.actions.tolist() == [1, -1, -1]
    assert log.counts.visits[0].tolist() == [[0, 0], [0, 1]]
    with pytest.raises(ValueError, match="read-only"):
        log.states[0] = 0


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ((["a"], [1], [2], [0]), "states must be 0 or 1, or -1 if not observed, got 2 in row 0"),
        ((["a", "a"], [1, 2], [0, 1], [0, 3]), "actions must be 0 or 1, or -1 if not recorded, got 3 in row 1"),
        ((["a"], [1.5], [0], [0]), "rounds must hold whole numbers below 2^53, got 1.5"),
        ((["a"], [np.nan], [0], [0]), "rounds must hold whole numbers below 2^53, got nan"),
        ((["a"], [2.0**60], [0], [0]), "rounds must hold whole numbers below 2^53, got 1.15"),
        ((["a"], ["x"], [0], [0]), "rounds must be an array of numbers"),
        ((["a"], [1, 2], [0], [0]), "one value for each row, got shapes (1,), (2,), (1,), (1,)"),
        (([], [], [], []), "one value for each row, got shapes (0,), (0,), (0,), (0,)"),
        ((["a"], [[1]], [0], [0]), "one value for each row, got shapes (1,), (1, 1), (1,), (1,)"),
        ((["a", "b", "a"], [2, 2, 2], [0] * 3, [0] * 3), "row 2, round: the arm 'a' already has round 2 in row 0"),
        (
            (["a", "a"], [2, 1], [0] * 2, [0, -1]),
            "row 1, action: is empty, but the arm 'a' has its next round, 2, in row 0",
        ),
    ],
)
def test_bad_arrays_are_refused(columns: tuple[Any, Any, Any, Any], message: str) -> None:
    with pytest.raises(mf.InputError) as caught:
        StateLog(*columns)
    assert message in str(caught.value)


def test_states_that_were_not_observed_leave_gaps_with_known_actions() -> None:
    log = StateLog(
        ["a"] * 6 + ["b"] * 4 + ["c"] * 3,
        [1, 2, 3, 4, 5, 6, 1, 2, 4, 5, 1, 2, 3],
        [None, 0, None, None, 1, 1, 1, None, None, 0, None, 1, None],
        [1, 1, 0, 1, 0, 1, 0, 1, 0, 1, 1, 0, 1],
    )
    assert (log.transitions, log.gaps, log.unobserved) == (1, 2, 7)  # that of b has a round without a row
    gaps = log.bridged
    assert (gaps.arm.tolist(), gaps.start.tolist(), gaps.end.tolist()) == ([0], [0], [1])
    assert (gaps.actions.tolist(), gaps.lengths.tolist()) == ([1, 0, 1], [3])
    assert repr(log) == "StateLog(13 rows of 3 arms: 1 transition, 2 gaps, 1 of them bridged)"
    assert log.counts.visits.sum() == 1


def test_rounds_without_a_row_can_mean_that_an_arm_was_not_pulled() -> None:
    days = np.array(["2026-03-02", "2026-03-09", "2026-03-30"], "datetime64[D]")
    log = StateLog(["a"] * 3, days, [0, 1, 1], [1, 1, 0], exposure=[0.2, 0.3, 0.4], absent="not-pulled")
    assert (log.added, log.transitions, len(log)) == (2, 1, 5)
    assert log.bridged.actions.tolist() == [1, 0, 0]
    assert np.isnan(log.exposure[2:4]).all()
    assert log.dates is not None
    assert str(log.dates[3]) == "2026-03-23"
    same = StateLog(["a"] * 3, [0, 1, 4], [0, 1, 1], [1, 1, 0], absent="not-pulled")
    assert same.rounds.tolist() == log.rounds.tolist()
    with pytest.raises(mf.InputError, match="row 1, action: is empty, but the arm 'a' has its next round, 4, in row 2"):
        StateLog(["a"] * 3, [0, 1, 4], [0, 1, 1], [1, None, 0], absent="not-pulled")
    with pytest.raises(mf.InputError, match="absent must be"):
        StateLog(["a"], [0], [0], [1], absent="none")


def test_columns_of_draws_and_features(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    head = "arm,round,state,action,exposure,drawn,due,district,age\n"
    file.write_text(head + "a,1,0,1,0.5,0,.4,north,30\na,2,1,0,,,,north,30\nb,1,,0,.5,0,.6,,41\n")
    log = read_log(file, ["district", "age"])
    assert log.exposure is not None
    assert log.due is not None
    assert log.drawn is not None
    assert log.exposure[[0, 2]].tolist() == [0.5, 0.5]
    assert np.isnan(log.exposure[1])
    assert log.due[0] == 0.4
    assert log.drawn.tolist() == [0, -1, 0]
    assert log.features == {"district": ("north", ""), "age": ("30", "41")}
    for text, message in (
        ("a,1,0,1,1.5,0,.4,north,30\n", "line 2, column exposure: must lie between 0 and 1, got '1.5'"),
        ("a,1,0,1,x,0,.4,north,30\n", "line 2, column exposure: must be a number, got 'x'"),
        ("a,1,0,1,.5,2,.4,north,30\n", "line 2, column drawn: must be 0 or 1, or false or true, got '2'"),
        (
            "a,1,0,1,.5,1,.4,north,30\na,2,0,1,.5,1,.4,south,30\n",
            "line 3, column district: the arm 'a' has 'south' here, but 'north' in line 2",
        ),
    ):
        file.write_text(head + text)
        with pytest.raises(mf.FileError) as caught:
            read_log(file, ["district"])
        assert message in str(caught.value)
    with pytest.raises(mf.InputError, match="features must be columns of their own, got 'state'"):
        read_log(file, ["state"])
    assert StateLog(["a"], [1], [0], [1]).exposure is None
