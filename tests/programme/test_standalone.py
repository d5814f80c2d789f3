"""The verifier that goes with exports passes what is right, and names the entry of everything that is wrong."""

from __future__ import annotations

import ast
import hashlib
import hmac
import json
import random
import re
import shutil
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from meritfair.programme.enrolling import Assignment
from meritfair.programme.ledger import standalone
from meritfair.programme.settings import Part, Settings
from programme import ledgers
from programme.ledgers import FIELDS, MADE, ONE, SECRET, Book, canonical, plain, write_table

SOURCE = Path(standalone.__file__)
BOOKS = {name: make() for name, make in MADE.items()}


def problem(folder: Path, heads: tuple[str, ...] = (), proof: Path | None = None) -> str:
    """Return the problem that the verifier finds; it must find one."""
    problems, found = standalone.check(folder, heads, proof)
    assert len(problems) == 1
    assert found == []
    return problems[0]


def named(said: str) -> int:
    """Return the entry that a problem names."""
    found = re.match(r"entry (\d+)\b", said)
    assert found, said
    return int(found[1])


def read_lines(folder: Path) -> list[bytes]:
    return (folder / "ledger.jsonl").read_bytes().split(b"\n")[:-1]


def write_lines(folder: Path, lines: list[bytes]) -> None:
    (folder / "ledger.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))


# ---- what is right


@pytest.mark.parametrize("name", MADE)
def test_right_ledgers_pass(name: str, tmp_path: Path) -> None:
    book, folder = BOOKS[name], BOOKS[name].write(tmp_path)
    problems, found = standalone.check(folder)
    draws = sum(draft.kind == "draw" for draft in book.drafts)
    rounds = sum(draft.kind == "commit" for draft in book.drafts)
    assert problems == []
    assert found[0] == f"right: {len(book.drafts)} entries, {rounds} rounds, {draws} draws"
    assert found[1] == "head " + (folder / "head.txt").read_text().strip()


def test_what_is_said_of_seeds(tmp_path: Path) -> None:
    found = {name: standalone.check(book.write(tmp_path / name))[1] for name, book in BOOKS.items()}
    assert found["plain"][2:] == ["the seeds of all draws can be checked once the secret is published", standalone.LEFT]
    assert found["ended"][2] == "the seeds of all draws follow from the secret"
    assert found["public"][3] == standalone.LEFT
    assert len(found["public"]) == 6
    for words in ("round 2: compare", "'drand-quicknet', 'round': 34034233", "fe" * 48):
        assert words in found["public"][4]
    assert "the lottery of Saturday" in found["public"][5]


def test_every_head_so_far_is_known(tmp_path: Path) -> None:
    folder = BOOKS["plain"].write(tmp_path)
    heads = tuple(hashlib.sha256(line).hexdigest() for line in read_lines(folder))
    assert standalone.check(folder, heads)[0] == []


def test_tables_without_rows(tmp_path: Path) -> None:
    clinic = ledgers.Clinic([0], people=3)
    clinic.book.add("away", {}, [])
    clinic.play()
    assert standalone.check(clinic.book.settle().write(tmp_path))[0] == []


@pytest.mark.parametrize("people", [1, 2, 3, 4, 5, 8, 9, 31, 64, 65])
def test_trees_of_any_size(people: int, tmp_path: Path) -> None:
    clinic = ledgers.Clinic([1 if people == 1 else 0], people)
    if people > 1:
        clinic = ledgers.Clinic([people // 2], people)
        clinic.play()
    folder = clinic.book.settle().write(tmp_path)
    assert standalone.check(folder)[0] == []
    proof = tmp_path / "proof.json"
    for number in {0, people // 2, people - 1}:
        proof.write_text(json.dumps(clinic.book.proof(number)))
        assert standalone.check(folder, proof=proof)[0] == []


def test_intervals_are_closed_on_the_left_and_open_on_the_right() -> None:
    seed = hashlib.sha256(b"any").digest()
    start, keys = ledgers.word(seed, 0) % ONE, [ledgers.word(seed, 1), ledgers.word(seed, 2)]
    first, second = sorted((0, 1), key=lambda number: keys[number])
    for end, drawn in ((start, second), (start + 1, first)):  # where the interval of the first ends
        chance = {first: end, second: ONE - end}
        rows = [[number, 0, 0, 0, 0, chance[number]] for number in (0, 1)]
        assert list(standalone.draw(seed, rows, 1)) == ledgers.drawn(seed, rows, [1]) == [drawn]


def test_the_draw_of_the_documentation() -> None:
    page = (Path(__file__).parents[2] / "docs" / "ledger.md").read_text(encoding="utf-8")
    seed = bytes.fromhex(re.findall(r"^seed (\w{64})$", page, re.MULTILINE)[0])
    parts = {0: 2, 1: 1, 4: 3, 7: 2}  # quarters
    rows = [[number, 0, 0, 0, 0, quarters * ONE // 4] for number, quarters in parts.items()]
    assert f"drawn {sorted(standalone.draw(seed, rows, 1))}" in page


def test_draws_agree_with_another_way_to_make_them() -> None:
    rng = random.Random(5)
    for _ in range(200):
        budgets, rows = [rng.randrange(4) for _ in range(3)], list[Any]()
        for part, budget in enumerate(budgets):
            people = rng.randint(max(budget, 2), 9)
            rows += [[0, part, 0, 0, 0, chance] for chance in ledgers.chances(rng, people, budget)]
        rng.shuffle(rows)
        rows = [[number, *row[1:]] for number, row in enumerate(rows)]
        seed = rng.randbytes(32)
        found = sorted(standalone.draw(seed, rows, 3))
        assert found == ledgers.drawn(seed, rows, budgets)
        assert len(found) == sum(budgets)


# ---- what was changed after it was written


def edits(value: Any) -> Iterator[Any]:
    """Yield a value with one change in it, for every place in it."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from ({**value, key: edited} for edited in edits(each))
            yield {name: kept for name, kept in value.items() if name != key}
        yield {**value, "new": 0}
    elif isinstance(value, list):
        for place, each in enumerate(value):
            yield from ([*value[:place], edited, *value[place + 1 :]] for edited in edits(each))
        yield [*value, 0]
    elif isinstance(value, bool) or value is None:
        yield not value
    elif isinstance(value, int):
        yield value + 1
    else:
        yield value[:-1] + ("0" if value[-1:] != "0" else "1")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["plain", "public"])
def test_every_edit_of_every_field_is_found(name: str, tmp_path: Path) -> None:
    folder = BOOKS[name].write(tmp_path)
    lines = read_lines(folder)
    tried = 0
    for seq, line in enumerate(lines):
        for edited in edits(json.loads(line)):
            write_lines(folder, [*lines[:seq], canonical(edited), *lines[seq + 1 :]])
            assert named(problem(folder)) == seq, edited
            tried += 1
    assert tried > 300


@pytest.mark.slow
def test_every_edit_of_every_table_is_found(tmp_path: Path) -> None:
    book, folder = BOOKS["plain"], BOOKS["plain"].write(tmp_path)
    for seq, draft in enumerate(book.drafts):
        if draft.rows is None:
            continue
        fields = FIELDS[draft.kind]
        for place, row in enumerate(draft.rows):
            for at, value in enumerate(row):
                changed = bytes(32 * [value[0] ^ 1]) if isinstance(value, bytes) else value ^ 1
                rows = [*draft.rows[:place], [*row[:at], changed, *row[at + 1 :]], *draft.rows[place + 1 :]]
                write_table(folder, seq, fields, rows)
                assert named(problem(folder)) == seq
        for rows in ([*draft.rows[1:], draft.rows[0]], draft.rows[1:], [*draft.rows, draft.rows[0]]):
            if rows != draft.rows:
                write_table(folder, seq, fields, rows)
                assert named(problem(folder)) == seq
        write_table(folder, seq, fields, draft.rows)
    assert standalone.check(folder)[0] == []


@pytest.mark.parametrize("seq", [0, 1, 9, 25, 26])
def test_an_edit_that_only_the_chain_can_tell(seq: int, tmp_path: Path) -> None:
    folder = BOOKS["plain"].write(tmp_path)
    lines = read_lines(folder)
    assert len(lines) == 27
    write_lines(folder, [*lines[:seq], lines[seq].replace("Zoë".encode(), b"Eve"), *lines[seq + 1 :]])
    assert named(problem(folder)) == seq


def test_entries_that_are_taken_out_put_in_or_moved(tmp_path: Path) -> None:
    folder = BOOKS["plain"].write(tmp_path)
    lines = read_lines(folder)
    for seq in range(len(lines)):
        write_lines(folder, lines[:seq] + lines[seq + 1 :])
        assert named(problem(folder)) == min(seq, len(lines) - 2)
        write_lines(folder, [*lines[: seq + 1], *lines[seq:]])
        assert named(problem(folder)) == seq + 1
        if seq:
            write_lines(folder, [*lines[: seq - 1], lines[seq], lines[seq - 1], *lines[seq + 1 :]])
            assert named(problem(folder)) == seq - 1


def test_a_tail_that_was_cut_off(tmp_path: Path) -> None:
    book, folder = plain(), BOOKS["plain"].write(tmp_path / "all")
    published = (folder / "head.txt").read_text().strip()
    del book.drafts[-3:]
    cut = book.write(tmp_path / "cut")
    assert standalone.check(cut)[0] == []  # nothing in it tells that there was more
    assert problem(cut, (published,)) == "the ledger: does not have a head that was published: it was cut or replaced"
    shutil.copy(folder / "head.txt", cut / "head.txt")
    assert "see head.txt" in problem(cut)


def test_a_ledger_that_was_replaced(tmp_path: Path) -> None:
    book, folder = plain(), BOOKS["plain"].write(tmp_path / "first")
    heads = [hashlib.sha256(line).hexdigest() for line in read_lines(folder)]
    book.drafts[2].by = "someone else"
    other = book.write(tmp_path / "second")
    assert standalone.check(other, heads[:2])[0] == []
    assert "cut or replaced" in problem(other, (*heads[:2], heads[2]))


# ---- what is wrong although it is chained anew


def spoil(name: str, change: Callable[[Book], int], folder: Path, settle: bool = True) -> str:
    """Return the problem of a ledger that was changed and chained anew; it must be in the entry that `change` says."""
    book = BOOKS[name].copy()
    seq = change(book)
    said = problem((book.settle() if settle else book).write(folder))
    assert named(said) == seq, said
    return said


def edit(kind: str, nth: int, do: Callable[[Any], Any]) -> Callable[[Book], int]:
    def change(book: Book) -> int:
        seq = book.find(kind, nth)
        do(book.drafts[seq])
        return seq

    return change


def other_draw(draft: ledgers.Draft) -> None:
    numbers = {row[0] for row in draft.rows or []}
    draft.rows = sorted([[max(set(range(7)) - numbers)], *([number] for number in sorted(numbers)[1:])])


@pytest.mark.parametrize("nth", [0, 1, 3])
def test_another_draw(nth: int, tmp_path: Path) -> None:
    assert "others are drawn" in spoil("plain", edit("draw", nth, other_draw), tmp_path, settle=False)


def move(draft: ledgers.Draft, amount: int, one: int, two: int) -> None:
    rows = draft.rows or []
    rows[one][5] -= amount
    rows[two][5] += amount


DRAWS = {
    "nobody": ("plain", lambda draft: draft.rows.clear(), "others are drawn"),
    "one less": ("plain", lambda draft: draft.rows.pop(), "others are drawn"),
    "one more": ("plain", lambda draft: draft.rows.insert(0, [0]), "not in order|others are drawn"),
    "unsorted": ("plain", lambda draft: draft.rows.reverse(), "not in order"),
    "twice": ("plain", lambda draft: draft.rows.append(draft.rows[-1]), "not in order"),
    "another seed": ("plain", lambda draft: draft.body.update(seed="cd" * 32), "others are drawn"),
    "a short seed": ("plain", lambda draft: draft.body.update(seed="ab"), "its commitment is another one"),
    "a seed that is none": ("plain", lambda draft: draft.body.update(seed="xy" * 32), "non-hexadecimal"),
    "another commitment": ("plain", lambda draft: draft.body.update(commitment="ab" * 32), "its commitment is another"),
    "a value": ("plain", lambda draft: draft.body.update(value="ab" * 32), "right after"),
    "another round": ("plain", lambda draft: draft.body.update(round=9), "a wrong round"),
}


@pytest.mark.parametrize("fault", DRAWS)
def test_draws_that_are_wrong(fault: str, tmp_path: Path) -> None:
    name, do, why = DRAWS[fault]
    assert re.search(why, spoil(name, edit("draw", 1, do), tmp_path, settle=False))


def set_chances(draft: ledgers.Draft, *chances: int) -> None:
    for place, row in enumerate(draft.rows or []):
        row[5] = chances[place] if place < len(chances) else 0


COMMITS = {
    "a sum too large": (lambda draft: set_chances(draft, ONE, ONE, 1), "sum to the budgets"),
    "a sum too small": (lambda draft: set_chances(draft, ONE, ONE - 1), "sum to the budgets"),
    "another budget": (lambda draft: draft.body.update(budgets=[3]), "sum to the budgets"),
    "a budget too many": (lambda draft: draft.body.update(budgets=[2, 0]), "sum to the budgets"),
    "a chance above 1": (lambda draft: set_chances(draft, ONE + 1, ONE - 1), "a chance too large"),
    "a chance for someone away": (lambda draft: move(draft, 1, 0, 3), "a chance too large"),
    "someone away who is not": (lambda draft: draft.rows[0].__setitem__(2, 1), "not those enrolled"),
    "someone here who is away": (lambda draft: draft.rows[3].__setitem__(2, 0), "not those enrolled"),
    "someone left out": (lambda draft: draft.rows.pop(0), "not those enrolled"),
    "someone made up": (lambda draft: draft.rows.append([99, 0, 0, 0, 0, 0]), "not those enrolled"),
    "someone in another part": (lambda draft: draft.rows[0].__setitem__(1, 1), "not those enrolled"),
    "rows swapped": (lambda draft: draft.rows.reverse(), "not in order"),
    "a row twice": (lambda draft: draft.rows.insert(0, draft.rows[0]), "not in order"),
    "another design": (lambda draft: draft.body.update(design="pick"), "unknown design"),
    "a later round": (lambda draft: draft.body.update(round=2), "a wrong round"),
}


@pytest.mark.parametrize("fault", COMMITS)
def test_commitments_that_are_wrong(fault: str, tmp_path: Path) -> None:
    do, why = COMMITS[fault]
    assert why in spoil("plain", edit("commit", 0, do), tmp_path)


def test_sums_hold_for_each_part_by_itself(tmp_path: Path) -> None:
    def change(book: Book) -> int:
        seq = book.find("commit", 1)
        rows = book.drafts[seq].rows or []
        move(book.drafts[seq], 5, *(next(k for k, row in enumerate(rows) if row[1] == part) for part in (0, 1)))
        return seq

    assert "sum to the budgets" in spoil("trial", change, tmp_path)


def test_chances_in_a_part_that_there_is_not(tmp_path: Path) -> None:
    def change(book: Book) -> int:
        for draft in book.drafts:
            for row in draft.rows or []:
                if draft.kind in ("enrol", "commit") and row[0] == 8:
                    row[2 if draft.kind == "enrol" else 1] = 3
                if draft.kind == "commit" and row[0] == 8:
                    row[5] = 5
        return book.find("commit")

    assert "a chance too large" in spoil("trial", change, tmp_path)


def insert(before: str, nth: int, kind: str, body: Any, rows: Any = None, after: int = 0) -> Callable[[Book], int]:
    def change(book: Book) -> int:
        seq = book.find(before, nth) + after
        book.drafts.insert(seq, ledgers.Draft(kind, body, rows))
        return seq

    return change


def again(kind: str, before: str) -> Callable[[Book], int]:
    def change(book: Book) -> int:
        draft, seq = book.drafts[book.find(kind)], book.find(before)
        book.drafts.insert(seq, draft)
        return seq

    return change


ORDER = {
    "a second draw": (again("draw", "report"), "when round 1 is drawn"),
    "a second commitment": (again("commit", "draw"), "when round 1 is committed"),
    "a commitment in an open round": (again("commit", "close"), "when round 1 is drawn"),
    "closed before it is drawn": (insert("draw", 0, "close", {"round": 1}), "when round 1 is committed"),
    "closed twice": (insert("close", 0, "close", {"round": 1}, after=1), "when round 1 is closed"),
    "a draw that comes later": (insert("draw", 0, "away", {}, [[0, 0]]), None),
    "changed in an open round": (insert("close", 0, "change", {"parts": [], "rules": {}}), "when round 1 is drawn"),
    "created twice": (again("create", "close"), "when round 1 is drawn"),
    "a report of a round to come": (insert("close", 0, "report", {"round": 2}, []), "a wrong round"),
    "a correction of no round": (insert("close", 0, "correct", {"round": 0}, []), "a wrong round"),
    "withdrawn twice": (again("withdraw", "correct"), "not enrolled"),
    "away without being enrolled": (insert("close", 0, "away", {}, [[50, 1]]), "not enrolled"),
    "a report about nobody": (
        insert("close", 0, "report", {"round": 1}, [[99, 0, 1, 1, bytes(32)]]),
        "a row that is none",
    ),
    "a state that is none": (
        insert("close", 0, "report", {"round": 1}, [[0, 0, 1, 5, bytes(32)]]),
        "a row that is none",
    ),
    "other parts": (insert("close", 0, "change", {"parts": [{}, {}], "source": "secret"}, after=1), "has other parts"),
    "ended in an open round": (insert("close", 0, "end", {"secret": "00"}), "when round 1 is drawn"),
    "a kind that there is not": (insert("close", 0, "dance", {}), "unknown format or kind"),
}


@pytest.mark.parametrize("fault", ORDER)
def test_entries_out_of_order(fault: str, tmp_path: Path) -> None:
    change, why = ORDER[fault]
    if why is None:
        said = spoil("plain", lambda book: change(book) + 1, tmp_path)
        assert "right after" in said
    else:
        assert why in spoil("plain", change, tmp_path)


def test_something_else_at_the_start(tmp_path: Path) -> None:
    def change(book: Book) -> int:
        del book.drafts[0]
        return 0

    assert "is new" in spoil("plain", change, tmp_path)


def test_who_a_number_is(tmp_path: Path) -> None:
    swapped = edit("enrol", 1, lambda draft: draft.rows[0].__setitem__(1, bytes(32)))
    assert "number 1 is not theirs" in spoil("plain", swapped, tmp_path / "another person")
    moved = edit("enrol", 1, lambda draft: draft.rows[0].__setitem__(2, 1))
    assert "number 1 is not theirs" in spoil("plain", moved, tmp_path / "another part")
    unsorted = edit("enrol", 1, lambda draft: draft.rows.reverse())
    assert "not in order" in spoil("plain", unsorted, tmp_path / "unsorted")
    skipped = edit("enrol", 1, lambda draft: draft.rows[2].__setitem__(0, 12))
    assert "number 12 is not theirs" in spoil("plain", skipped, tmp_path / "a gap")


def test_another_programme_in_the_middle(tmp_path: Path) -> None:
    folder, book = tmp_path, BOOKS["plain"]
    seq = book.find("close")
    change = {seq: lambda line: line.replace(book.programme.encode(), b"ab" * 16)}
    assert "another programme" in problem(book.write(folder, change))
    assert named(problem(folder)) == seq


def test_large_numbers_are_canonical(tmp_path: Path) -> None:
    book = plain()
    book.drafts[book.find("commit")].body["versions"] = {"most": 2**53 - 1, "least": 1 - 2**53}
    assert standalone.check(book.settle().write(tmp_path))[0] == []


def test_a_public_value_that_is_empty(tmp_path: Path) -> None:
    spoil("public", edit("draw", 1, lambda draft: draft.body.update(value="")), tmp_path)


@pytest.mark.parametrize("value", ["", None, "zz"])
def test_a_public_value_that_is_none(value: str | None, tmp_path: Path) -> None:
    spoil("public", edit("draw", 1, lambda draft: draft.body.update(value=value)), tmp_path, settle=False)


def test_another_public_value_is_found_once_the_secret_is_published(tmp_path: Path) -> None:
    change = edit("draw", 3, lambda draft: draft.body.update(value="fd" * 32))
    assert "its seed is not from the secret" in spoil("ended", change, tmp_path, settle=False)


SOURCES: dict[str, Any] = {
    "left out": None,
    "another round of drand": {"kind": "drand-quicknet", "round": 34_034_234},
    "another kind": {"kind": "named", "name": "drand"},
}


@pytest.mark.parametrize("fault", SOURCES)
def test_a_source_that_the_settings_do_not_name(fault: str, tmp_path: Path) -> None:
    change = edit("commit", 1, lambda draft: draft.body.update(source=SOURCES[fault]))
    assert "its source is not the one of the settings" in spoil("public", change, tmp_path)


def test_a_source_that_nobody_has_set(tmp_path: Path) -> None:
    named_one = edit("commit", 0, lambda draft: draft.body.update(source={"kind": "named", "name": "my dice"}))
    assert "its source is not the one of the settings" in spoil("plain", named_one, tmp_path)


# ---- times


def dated(time: str) -> Callable[[Any], None]:
    return lambda draft: setattr(draft, "time", time)


def test_a_draw_before_its_commitment(tmp_path: Path) -> None:
    change = edit("draw", 1, dated("2025-11-17T09:00:00Z"))
    assert "is before that of the entry before" in spoil("plain", change, tmp_path)


def test_an_entry_before_the_one_before_it(tmp_path: Path) -> None:
    change = edit("report", 1, dated("2026-11-17T08:59:59Z"))
    assert "is before that of the entry before" in spoil("plain", change, tmp_path)


def test_a_value_of_drand_before_its_round(tmp_path: Path) -> None:
    change = edit("draw", 1, dated("2026-11-17T09:00:59Z"))
    assert "before its value was published" in spoil("public", change, tmp_path)


@pytest.mark.parametrize("time", ["2026-11-17 09:00:00Z", "2026-11-17T09:00:00+00:00", "2026-11-17T9:00:00Z", ""])
def test_times_in_another_form(time: str, tmp_path: Path) -> None:
    spoil("plain", edit("close", 0, dated(time)), tmp_path)


def set_budget(draft: ledgers.Draft, budget: list[int]) -> None:
    draft.body["parts"] = [{**draft.body["parts"][0], "budget": budget}]


def test_budgets_are_those_of_the_settings_or_have_a_reason(tmp_path: Path) -> None:
    def spoiled(change: Callable[[Book], int], folder: str) -> str:
        """Return what is said where the next commitment is, which says nothing of another budget."""
        book, wrong = MADE["plain"](), "has other budgets"
        change(book)
        found = standalone.check(book.settle().write(tmp_path / folder))[0]
        assert [wrong in each for each in found] == [True] * len(found)
        return "".join(found)

    assert "entry 17 (commit)" in spoiled(edit("change", 0, lambda draft: set_budget(draft, [1])), "changed")
    assert spoiled(edit("change", 0, lambda draft: set_budget(draft, [1, 1, 2, 2])), "a list that repeats") == ""
    asked = edit("commit", 1, lambda draft: draft.body.update(asked=[3]))
    assert "(commit)" in spoiled(asked, "asked")
    assert (
        spoiled(edit("commit", 1, lambda draft: draft.body.update(asked=[3], reason="a flood")), "with a reason") == ""
    )
    less = edit("commit", 1, lambda draft: draft.body.update(asked=[1], reason="a flood"))
    assert "(commit)" in spoiled(less, "more than was asked")


def test_numbers_of_a_lottery_are_those_of_the_value(tmp_path: Path) -> None:
    told = "9319./2.5.8.10.12./9.18.26.34.41.45./"
    values = {"value": hashlib.sha256(told.encode()).hexdigest(), "numbers": told}
    book = MADE["public"]()
    book.drafts[book.find("draw", 2)].body.update(values)
    wrong, found = standalone.check(book.settle().write(tmp_path / "right"))
    assert (wrong, told in found[-1]) == ([], True)
    book.drafts[book.find("draw", 2)].body.update(values | {"numbers": "1./2./"})
    wrong, _ = standalone.check(book.settle().write(tmp_path / "wrong"))
    assert "has no value of its public source" in wrong[0]


def test_the_secret(tmp_path: Path) -> None:
    other = edit("end", 0, lambda draft: draft.body.update(secret="ab" * 32))
    assert "has another secret" in spoil("ended", other, tmp_path / "another")
    late = insert("end", 0, "away", {}, [], after=1)
    assert "when round 4 is ended" in spoil("ended", late, tmp_path / "after the end")


@pytest.mark.parametrize("nth", [0, 2])
def test_a_seed_that_does_not_follow_from_the_secret(nth: int, tmp_path: Path) -> None:
    def change(book: Book) -> int:
        seq = book.find("draw", nth)
        commit, draft, seed = book.drafts[seq - 1], book.drafts[seq], hashlib.sha256(b"chosen").digest()
        draft.body["seed"] = seed.hex()
        draft.rows = [[n] for n in ledgers.drawn(seed, commit.rows or [], commit.body["budgets"])]
        return seq

    assert "its seed is not from the secret" in spoil("ended", change, tmp_path, settle=False)


# ---- bytes


def reorder(line: bytes) -> bytes:
    entry = json.loads(line)
    moved = {key: entry[key] for key in reversed(entry)}
    return json.dumps(moved, ensure_ascii=False, separators=(",", ":")).encode()


NOT_CANONICAL: dict[str, Callable[[bytes], bytes]] = {
    "spaces": lambda line: line.replace(b",", b", "),
    "a space at the end": lambda line: line + b" ",
    "a carriage return": lambda line: line + b"\r",
    "other order of keys": reorder,
    "a float": lambda line: line.replace(b'"budgets":[2]', b'"budgets":[2.0]'),
    "an exponent": lambda line: line.replace(b'"round":1', b'"round":1e0'),
    "a minus sign": lambda line: line.replace(b'"seq":4', b'"seq":-4'),
    "a number too large": lambda line: line.replace(b'"meritfair":"1"', b'"meritfair":9007199254740992'),
    "a number too small": lambda line: line.replace(b'"meritfair":"1"', b'"meritfair":-9007199254740992'),
    "a fraction": lambda line: line.replace(b'"meritfair":"1"', b'"meritfair":1.5'),
    "a number that is none": lambda line: line.replace(b'"meritfair":"1"', b'"meritfair":NaN'),
    "infinity": lambda line: line.replace(b'"meritfair":"1"', b'"meritfair":-Infinity'),
    "a key too many": lambda line: line.replace(b'"previous":', b'"new":0,"previous":'),
    "a key twice": lambda line: line.replace(b'"by":', b'"by":"Eve","by":'),
    "a letter escaped": lambda line: line.replace("ë".encode(), b"\\u00eb"),
    "half a character": lambda line: line.replace("ë".encode(), b"\\ud83d"),
    "Latin-1": lambda line: line.replace("ë".encode(), "ë".encode("latin-1")),
    "a byte order mark": lambda line: b"\xef\xbb\xbf" + line,
    "UTF-16": lambda line: line.decode().encode("utf-16-le").replace(b"\n", b""),
    "deep nesting": lambda line: b"[" * 100_000,
    "a list": lambda line: b"[" + line + b"]",
    "a number alone": lambda line: b"7",
    "nothing": lambda line: b"",
    "another format": lambda line: line.replace(b"meritfair-ledger-2", b"meritfair-ledger-3"),
    "no body": lambda line: line.replace(b'"body":{', b'"body":null,"new":{'),
    "a table that is none": lambda line: re.sub(rb'"table":\{.*?\]\].*?\}', b'"table":7', line),
}


@pytest.mark.parametrize("fault", NOT_CANONICAL)
def test_bytes_that_are_not_canonical(fault: str, tmp_path: Path) -> None:
    book = BOOKS["plain"]
    seq = book.find("commit")
    assert seq == 4
    folder = book.write(tmp_path, {seq: NOT_CANONICAL[fault]})
    assert read_lines(folder)[seq] != read_lines(book.write(tmp_path / "right"))[seq]
    assert named(problem(folder)) == seq


def test_damaged_files(tmp_path: Path) -> None:
    folder = BOOKS["plain"].write(tmp_path)
    seq = BOOKS["plain"].find("commit", 1)
    file = folder / "tables" / f"{seq}.z"
    data = file.read_bytes()
    for damaged in (b"", data[:-1], data[: len(data) // 2], b"\0" + data[1:], b"no table at all", zlib.compress(b"")):
        file.write_bytes(damaged)
        assert named(problem(folder)) == seq
    file.unlink()
    assert named(problem(folder)) == seq
    file.mkdir()
    assert named(problem(folder)) == seq


def test_a_ledger_that_is_not_there(tmp_path: Path) -> None:
    assert problem(tmp_path).startswith("the ledger: is damaged: FileNotFoundError")
    folder = BOOKS["plain"].write(tmp_path)
    lines = read_lines(folder)
    (folder / "ledger.jsonl").write_bytes(b"\n".join(lines)[:-9])
    assert named(problem(folder)) == len(lines) - 1
    (folder / "ledger.jsonl").write_bytes(b"")
    assert named(problem(folder)) == 0


def test_a_table_that_is_not_the_one_of_its_entry(tmp_path: Path) -> None:
    book, folder = BOOKS["plain"], BOOKS["plain"].write(tmp_path)
    seq = book.find("report")
    rows = book.drafts[seq].rows or []
    write_table(folder, seq, FIELDS["report"], [[*row[:3], 0, row[4]] for row in rows])
    assert problem(folder) == f"entry {seq} (report): its table was changed"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (rb'"note","h256"', b'"hint","h256"'),
        (rb'"after","i8"', b'"after","u8"'),
        (rb',\["note","h256"\]', b""),
        (rb'"table":.*,"time"', b'"table":null,"time"'),
    ],
)
def test_tables_with_other_fields(old: bytes, new: bytes, tmp_path: Path) -> None:
    book = BOOKS["plain"]
    seq = book.find("report")
    said = problem(book.write(tmp_path, {seq: lambda line: re.sub(old, new, line)}))
    assert said == f"entry {seq} (report): its table has other fields than its kind"


def test_a_table_that_is_said_to_be_huge(tmp_path: Path) -> None:
    book, folder = BOOKS["plain"], tmp_path
    for rows in (b"10000000000000", b"-1", b"true", b"null"):
        change = {1: lambda line, rows=rows: re.sub(rb'"rows":\d+', b'"rows":' + rows, line)}
        assert named(problem(book.write(folder, change))) == 1


@pytest.mark.slow
def test_a_thousand_random_mutations(tmp_path: Path) -> None:
    folder, rng = BOOKS["plain"].write(tmp_path), random.Random(20261117)
    ledger, tables = folder / "ledger.jsonl", sorted((folder / "tables").iterdir())
    kept, missed = 0, list[str]()
    for _ in range(1000):
        file = rng.choice([ledger, rng.choice(tables)])
        data = file.read_bytes()
        at = rng.randrange(len(data))
        changed = data[:at] + bytes([data[at] ^ rng.randrange(1, 256)]) + data[at + 1 :]
        file.write_bytes(changed)
        problems, _ = standalone.check(folder)
        expected = data[:at].count(b"\n") if file == ledger else int(file.stem)
        if file != ledger and unpacked(changed) == unpacked(data):  # spare bits of zlib: the table is as it was
            assert problems == []
            kept += 1
        elif not problems or named(problems[0]) != expected:
            missed.append(f"{file.name} at {at}: {problems}")
        file.write_bytes(data)
    assert missed == []
    assert kept < 50


def unpacked(data: bytes) -> bytes | None:
    try:
        return zlib.decompress(data)
    except zlib.error:
        return None


# ---- the proof of one person


def proved(proof: Any, folder: Path) -> tuple[list[str], list[str]]:
    file = folder / "proof.json"
    file.write_text(json.dumps(proof), encoding="utf-8")
    return standalone.check(folder / "no export is needed", proof=file)


@pytest.mark.parametrize("name", MADE)
def test_a_proof_shows_what_the_ledger_has(name: str, tmp_path: Path) -> None:
    book = BOOKS[name]
    for number, (id_, _) in book.ids.items():
        problems, found = proved(book.proof(number), tmp_path)
        assert problems == []
        assert found[0] == f"{id_}: number {number}"
        assert found[1:] == list(shown_rounds(book, number))


def shown_rounds(book: Book, number: int) -> Iterator[str]:
    for seq, draft in enumerate(book.drafts):
        if draft.kind != "draw":
            continue
        commit = max(at for at in range(seq) if book.drafts[at].kind == "commit")
        mine = [row for row in book.drafts[commit].rows or [] if row[0] == number]
        chance = f"due {mine[0][4] / ONE:.6f}, chance {mine[0][5] / ONE:.6f}" if mine else "chance not shown"
        yield f"round {draft.body['round']}: {chance}, {'drawn' if [number] in (draft.rows or []) else 'not drawn'}"


def test_a_proof_does_not_show_what_is_not_in_it(tmp_path: Path) -> None:
    book = BOOKS["plain"]
    seq = book.find("draw", 1)
    for number in book.ids:
        proof = book.proof(number)
        rows = [row for row in proof["rows"] if row["seq"] == seq]
        for left_out in rows:
            fewer = {**proof, "rows": [row for row in proof["rows"] if row != left_out]}
            assert "whether drawn is not shown" in proved(fewer, tmp_path)[1][2]
        commit = {**proof, "rows": [row for row in proof["rows"] if row["seq"] != seq - 1]}
        assert "chance not shown" in proved(commit, tmp_path)[1][2]


def test_rows_far_apart_do_not_show_that_nobody_is_between(tmp_path: Path) -> None:
    clinic = ledgers.Clinic([5], people=9)
    clinic.play()
    book = clinic.book.settle()
    seq = book.find("draw")
    numbers = [row[0] for row in book.drafts[seq].rows or []]
    packed = [ledgers.row_bytes(FIELDS["draw"], [number]) for number in numbers]
    proof = book.proof(numbers[2])
    ends = [{"seq": seq, "index": at, "row": packed[at].hex(), "path": ledgers.path(packed, at)} for at in (0, 1, 3, 4)]
    hidden = {**proof, "rows": [*(row for row in proof["rows"] if row["seq"] != seq), *ends]}
    assert "whether drawn is not shown" in proved(hidden, tmp_path)[1][1]


def change_row(book: Book, kind: str, **changes: Any) -> dict[str, Any]:
    proof, seq = book.proof(2), book.find(kind)
    rows = [{**row, **changes} if row["seq"] == seq else row for row in proof["rows"]]
    assert rows != proof["rows"]
    return {**proof, "rows": rows}


def proof_lines(book: Book) -> list[str]:
    return [line.decode() for line in book.lines()]


WRONG_PROOFS: dict[str, tuple[Callable[[Book], Any], str]] = {
    "another id": (lambda book: {**book.proof(2), "id": "Eve"}, "whose number it is"),
    "another salt": (lambda book: {**book.proof(2), "salt": "ab" * 16}, "whose number it is"),
    "another number": (lambda book: {**book.proof(2), "number": 3}, "whose number it is"),
    "someone else's rows": (lambda book: {**book.proof(2), "rows": book.proof(3)["rows"]}, "whose number it is"),
    "another chance": (lambda book: change_row(book, "commit", row="00" * 23), "no such row"),
    "another place": (lambda book: change_row(book, "commit", index=3), "no such row|IndexError"),
    "a place before": (lambda book: change_row(book, "commit", index=-1), "no such row"),
    "a place after": (lambda book: change_row(book, "commit", index=7), "no such row|IndexError"),
    "no path": (lambda book: change_row(book, "commit", path=[]), "IndexError"),
    "a row of another table": (lambda book: change_row(book, "commit", seq=1), "no such row"),
    "an entry that there is not": (lambda book: change_row(book, "commit", seq=99), "IndexError"),
    "no rows": (lambda book: {key: value for key, value in book.proof(2).items() if key != "rows"}, "KeyError"),
    "a list": (lambda book: [book.proof(2)], "TypeError"),
    "an entry edited": (
        lambda book: {**book.proof(2), "entries": [line.replace('"seq":5', '"seq":6') for line in proof_lines(book)]},
        "entry 5: has the sequence number 6",
    ),
}


@pytest.mark.parametrize("fault", WRONG_PROOFS)
def test_proofs_that_are_wrong(fault: str, tmp_path: Path) -> None:
    make, why = WRONG_PROOFS[fault]
    problems, found = proved(make(BOOKS["plain"]), tmp_path)
    assert found == []
    assert re.search(why, problems[0]), problems


def test_a_place_that_is_counted_from_the_end(tmp_path: Path) -> None:
    clinic = ledgers.Clinic([2], people=4)
    clinic.play()
    proof = clinic.book.settle().proof(3)
    rows = [{**row, "index": -1} if row["index"] == 3 else row for row in proof["rows"]]
    assert rows != proof["rows"]
    assert "no such row" in proved({**proof, "rows": rows}, tmp_path)[0][0]


def test_a_proof_is_checked_against_heads_too(tmp_path: Path) -> None:
    file = tmp_path / "proof.json"
    file.write_text(json.dumps(BOOKS["plain"].proof(2)))
    head = (BOOKS["plain"].write(tmp_path) / "head.txt").read_text().strip()
    assert standalone.check(tmp_path, (head,), file)[0] == []
    assert "cut or replaced" in problem(tmp_path, ("ab" * 32,), file)
    file.write_text("{")
    assert problem(tmp_path, proof=file).startswith("the ledger: is damaged: JSONDecodeError")


# ---- trials


def test_people_are_randomised_as_it_is_written() -> None:
    settings = Settings((Part(1, name="calls", share=2), Part(0, "none", name="control")))
    strata = [["north", "old"] if number % 3 else ["south", "old"] for number in range(60)]
    found = Assignment(SECRET, settings, {}).next(strata)
    counts, expected = dict[bytes, int](), []
    for stratum in strata:
        key = canonical(stratum)
        block, place = divmod(counts.get(key, 0), 6)
        counts[key] = counts.get(key, 0) + 1
        seed = hmac.new(SECRET, canonical(["block", key.decode(), block]), hashlib.sha256).digest()
        order = sorted((ledgers.word(seed, at), part) for at, part in enumerate([0, 0, 0, 0, 1, 1]))
        expected.append(order[place][1])
    assert found == expected


# ---- the file


def test_it_is_short_and_needs_nothing_but_python_3_9() -> None:
    text = SOURCE.read_text(encoding="utf-8")
    assert len(text.splitlines()) < 220
    tree = ast.parse(text, feature_version=(3, 9))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "." for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.split(".")[0] for name in imported} <= sys.stdlib_module_names


def run(file: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", "-S", "-X", "utf8", str(file), *words]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)


def test_it_runs_alone_in_its_folder(tmp_path: Path) -> None:
    folder = BOOKS["ended"].write(tmp_path / "export")
    shutil.copy(SOURCE, folder / "verify.py")
    (folder / "proof.json").write_text(json.dumps(BOOKS["ended"].proof(3)))
    head = (folder / "head.txt").read_text().strip()
    right = run(folder / "verify.py")
    assert (right.returncode, right.stderr) == (0, "")
    assert right.stdout.startswith("right: 20 entries, 4 rounds, 4 draws\nhead " + head)
    asked = run(folder / "verify.py", str(folder), "--head", head, "--proof", str(folder / "proof.json"))
    assert (asked.returncode, asked.stderr) == (0, "")
    assert asked.stdout.startswith("Pätient 3: number 3\nround 1: due 0.250000, chance ")
    (folder / "tables" / "3.z").write_bytes(b"")
    wrong = run(folder / "verify.py", "--head", head)
    assert (wrong.returncode, wrong.stderr) == (1, "")
    assert wrong.stdout.startswith("entry 3 (draw): is damaged: error(")
