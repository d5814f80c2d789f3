"""Small ledgers made from the written format alone, to try verifiers on: nothing is shared with the package.

What the package does with arrays is done here one value at a time. A `Book` holds drafts of entries, which can be
spoiled before they are chained and written; `settle` makes commitments, seeds and draws again, so that what was spoiled
is the only thing that is wrong.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import random
import zlib
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ONE = 1 << 40
SECRET = hashlib.sha256(b"a secret").digest()
WIDTHS = {"u8": 1, "u16": 2, "u32": 4, "u64": 8, "i8": 1, "i32": 4, "h256": 32}
OUTCOME = [["number", "u32"], ["before", "i8"], ["action", "i8"], ["after", "i8"], ["note", "h256"]]
FIELDS: dict[str, list[list[str]]] = {
    "history": [["number", "u32"], ["round", "i32"], ["before", "i8"], ["action", "i8"], ["after", "i8"]],
    "enrol": [["number", "u32"], ["who", "h256"], ["part", "u8"], ["age", "u32"], ["group", "u32"]],
    "withdraw": [["number", "u32"]],
    "away": [["number", "u32"], ["away", "u8"]],
    "commit": [["number", "u32"], ["part", "u8"], ["away", "u8"], ["state", "i8"], ["due", "u64"], ["chance", "u64"]],
    "draw": [["number", "u32"]],
    "report": OUTCOME,
    "correct": OUTCOME,
    "erase": [["number", "u32"]],
}
Row = list[Any]


def canonical(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode("utf-8")


def value_bytes(kind: str, value: Any) -> bytes:
    if kind == "h256":
        assert len(value) == 32
        return bytes(value)
    return int(value).to_bytes(WIDTHS[kind], "little", signed=kind[0] == "i")


def row_bytes(fields: list[list[str]], row: Row) -> bytes:
    return b"".join(value_bytes(kind, value) for (_, kind), value in zip(fields, row, strict=True))


def root(rows: list[bytes]) -> bytes:
    """Return the hash of a tree as RFC 6962 defines it: split at the largest power of two below the number of rows."""
    if len(rows) < 2:
        return hashlib.sha256(b"\0" + rows[0] if rows else b"").digest()
    half = 1 << ((len(rows) - 1).bit_length() - 1)
    return hashlib.sha256(b"\1" + root(rows[:half]) + root(rows[half:])).digest()


def path(rows: list[bytes], index: int) -> list[list[str]]:
    """Return the hashes beside the way from a row up to the root."""
    if len(rows) < 2:
        return []
    half = 1 << ((len(rows) - 1).bit_length() - 1)
    if index < half:
        return [*path(rows[:half], index), ["right", root(rows[half:]).hex()]]
    return [*path(rows[half:], index - half), ["left", root(rows[:half]).hex()]]


def word(seed: bytes, place: int) -> int:
    block = hashlib.sha256(seed + (place // 4).to_bytes(8, "big")).digest()
    return int.from_bytes(block[place % 4 * 8 : place % 4 * 8 + 8], "big")


def drawn(seed: bytes, rows: list[Row], budgets: list[int]) -> list[int]:
    """Return who is drawn: whoever holds one of the points u, u + 1, u + 2 … of their part."""
    place, chosen = 0, []
    for part, budget in enumerate(budgets):
        some = [row for row in rows if row[1] == part and row[5] > 0]
        if budget == 0 or not some:
            continue
        start, keys = word(seed, place) % ONE, [word(seed, place + 1 + k) for k in range(len(some))]
        order = [k for _, _, k in sorted((keys[k], some[k][0], k) for k in range(len(some)))]
        place += 1 + len(some)
        for m in range(budget):
            left = start + m * ONE
            for k in order:
                if left < some[k][5]:
                    chosen.append(some[k][0])
                    break
                left -= some[k][5]
    return sorted(chosen)


@dataclass
class Draft:
    """An entry before it is chained."""

    kind: str
    body: dict[str, Any]
    rows: list[Row] | None = None
    time: str = "2026-11-17T09:00:00Z"
    by: str = "Zoë"

    def table(self) -> dict[str, Any] | None:
        if self.rows is None:
            return None
        packed = [row_bytes(FIELDS[self.kind], row) for row in self.rows]
        return {"fields": FIELDS[self.kind], "rows": len(packed), "root": root(packed).hex()}


@dataclass
class Book:
    """The drafts of a ledger."""

    drafts: list[Draft] = field(default_factory=list)
    programme: str = "0123456789abcdef" * 2
    ids: dict[int, tuple[str, bytes]] = field(default_factory=dict)  # by number: external id and salt
    secret: bytes = SECRET
    clock: str = "2026-11-17T09:00:00Z"

    def add(self, kind: str, body: Mapping[str, Any], rows: list[Row] | None = None) -> None:
        self.drafts.append(Draft(kind, dict(body), rows, self.clock))

    def copy(self) -> Book:
        return deepcopy(self)

    def find(self, kind: str, nth: int = 0) -> int:
        return [seq for seq, draft in enumerate(self.drafts) if draft.kind == kind][nth]

    def commitment(self, seq: int) -> bytes:
        draft = self.drafts[seq]
        whole = {"body": draft.body, "programme": self.programme, "table": draft.table()}
        return hashlib.sha256(canonical(whole)).digest()

    def settle(self) -> Book:
        """Make commitments, seeds and draws follow from what was committed."""
        for seq, draft in enumerate(self.drafts):
            if draft.kind != "draw":
                continue
            commit = max(at for at in range(seq) if self.drafts[at].kind == "commit")
            what, digest, value = self.drafts[commit], self.commitment(commit), draft.body["value"]
            seed = hmac.new(self.secret, digest + bytes.fromhex(value or ""), hashlib.sha256).digest()
            draft.body |= {"commitment": digest.hex(), "seed": seed.hex()}
            draft.rows = [[number] for number in drawn(seed, what.rows or [], what.body["budgets"])]
        return self

    def lines(self, spoil: Mapping[int, Callable[[bytes], bytes]] | None = None) -> list[bytes]:
        """Return the chained entries; some can be spoiled before they are hashed."""
        lines, previous = list[bytes](), "0" * 64
        for seq, draft in enumerate(self.drafts):
            entry = {"format": "meritfair-ledger-2", "programme": self.programme, "seq": seq, "previous": previous}
            entry |= {"kind": draft.kind, "time": draft.time, "by": draft.by, "body": draft.body}
            line = canonical({**entry, "table": draft.table()})
            lines.append((spoil or {}).get(seq, bytes)(line))
            previous = hashlib.sha256(lines[-1]).hexdigest()
        return lines

    def write(self, folder: Path, spoil: Mapping[int, Callable[[bytes], bytes]] | None = None) -> Path:
        """Write an export."""
        lines = self.lines(spoil)
        (folder / "tables").mkdir(parents=True, exist_ok=True)
        (folder / "ledger.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
        (folder / "head.txt").write_text(hashlib.sha256(lines[-1]).hexdigest() + "\n")
        for seq, draft in enumerate(self.drafts):
            if draft.rows is not None:
                write_table(folder, seq, FIELDS[draft.kind], draft.rows)
        return folder

    def proof(self, number: int) -> dict[str, Any]:
        """Return the proof of one person: their rows; for a draw without them, the rows beside their place."""
        given = []
        for seq, draft in enumerate(self.drafts):
            rows = draft.rows or []
            packed = [row_bytes(FIELDS[draft.kind], row) for row in rows]
            for index in places(draft.kind, [row[0] for row in rows], number):
                shown = {"seq": seq, "index": index, "row": packed[index].hex(), "path": path(packed, index)}
                given.append(shown)
        name, salt = self.ids[number]
        entries = [line.decode() for line in self.lines()]
        whole = {"programme": self.programme, "id": name, "salt": salt.hex(), "number": number}
        return {**whole, "entries": entries, "rows": given}


def places(kind: str, numbers: list[int], number: int) -> list[int]:
    if kind != "draw" or number in numbers:
        return [index for index, each in enumerate(numbers) if each == number]
    after = sum(each < number for each in numbers)
    return [index for index in (after - 1, after) if 0 <= index < len(numbers)]


def write_table(folder: Path, seq: int, fields: list[list[str]], rows: list[Row]) -> None:
    columns = (value_bytes(kind, row[place]) for place, (_, kind) in enumerate(fields) for row in rows)
    (folder / "tables" / f"{seq}.z").write_bytes(zlib.compress(b"".join(columns)))


def chances(rng: random.Random, people: int, total: int) -> list[int]:
    """Return chances that sum to this many, each at most 1."""
    parts = [total * ONE // people + (k < total * ONE % people) for k in range(people)]
    for _ in range(3 * people):
        one, two = rng.sample(range(people), 2)
        move = rng.randint(0, min(parts[one], ONE - parts[two]))
        parts[one], parts[two] = parts[one] - move, parts[two] + move
    return parts


class Clinic:
    """Plays a programme for some rounds, and writes it down in a book."""

    def __init__(self, budgets: list[int], people: int, seed: int = 1) -> None:
        self.book, self.rng, self.budgets = Book(), random.Random(seed), budgets
        self.part, self.away, self.round = dict[int, int](), dict[int, int](), 0
        parts = [{"name": str(k), "policy": "{}", "budget": [K], "share": 1} for k, K in enumerate(budgets)]
        rules = {"cooldown": 0, "warmup": 0, "once": False, "accrue": True}
        self.settings: dict[str, Any] = {"parts": parts, "rules": rules, "source": "secret"}
        body = {"name": "calls", "forget": "1.0", "features": ["age"], **self.settings}
        digest = hashlib.sha256(SECRET).hexdigest()
        self.book.add("create", {**body, "secret": digest, "versions": {"meritfair": "1"}, "trial": None})
        self.enrol(list(range(people)))

    def enrol(self, numbers: list[int]) -> None:
        rows = list[Row]()
        for number in numbers:
            name, salt = f"Pätient {number}", hashlib.sha256(b"salt%d" % number).digest()[:16]
            self.book.ids[number] = (name, salt)
            self.part.setdefault(number, number % len(self.budgets))
            self.away[number] = 0
            who = hashlib.sha256(salt + name.encode()).digest()
            rows.append([number, who, self.part[number], number % 2, 0])
        self.book.add("enrol", {"levels": {"group": ["north"], "age": ["old", "young"]}}, rows)

    def withdraw(self, number: int) -> None:
        del self.away[number]
        self.book.add("withdraw", {}, [[number]])

    def set_away(self, changes: dict[int, int]) -> None:
        self.away |= changes
        self.book.add("away", {}, [[number, changes[number]] for number in sorted(changes)])

    def change(self, **settings: Any) -> None:
        """Change some settings; `source` is what later commitments wait for."""
        self.settings |= settings
        self.book.add("change", {**self.settings, "reason": "as was agreed"})

    def source(self) -> dict[str, Any] | None:
        """Return what a commitment that is made now waits for."""
        setting = self.settings["source"]
        if not setting.startswith("drand"):
            return None if setting == "secret" else {"kind": "named", "name": setting}
        minutes = 1 if setting == "drand" else int(setting.split()[2])
        now = datetime.strptime(self.book.clock, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
        return {"kind": "drand-quicknet", "round": 2 + int(now.timestamp() + 60 * minutes - 1692803367) // 3}

    def commit(self) -> None:
        self.round += 1
        rows = list[Row]()
        for part, budget in enumerate(self.budgets):
            free = [n for n in sorted(self.away) if self.part[n] == part and not self.away[n]]
            given = dict(zip(free, chances(self.rng, len(free), budget), strict=True))
            for number in sorted(n for n in self.away if self.part[n] == part):
                state = self.rng.choice([-1, 0, 1])
                rows.append([number, part, self.away[number], state, ONE // 4, given.get(number, 0)])
        asked = {"asked": list(self.budgets), "reason": "", "budgets": list(self.budgets)}
        body = {"round": self.round, **asked, "design": "systematic-sha256-1"}
        self.book.add("commit", {**body, "source": self.source(), "versions": {"meritfair": "1"}}, sorted(rows))

    def draw(self, value: str | None = None) -> None:
        self.book.add("draw", {"round": self.round, "commitment": "", "seed": "", "value": value}, [])

    def report(self, kind: str = "report", round_: int | None = None) -> None:
        body = {"round": self.round if round_ is None else round_}
        some = [number for number in (0, 2) if number in self.part]
        rows = [[number, self.rng.randint(-1, 1), 1, self.rng.randint(-1, 1), bytes(32)] for number in some]
        self.book.add(kind, {**body, "reason": "seen late"} if kind == "correct" else body, rows)

    def close(self) -> None:
        self.book.add("close", {"round": self.round})

    def play(self, value: str | None = None) -> None:
        self.commit()
        self.draw(value)
        self.report()
        self.close()


def plain() -> Book:
    """One part, with people who leave, come back and are away."""
    clinic = Clinic([2], people=7)
    clinic.book.add("history", {"rounds": 2}, [[0, -1, 0, 1, 1], [0, 0, 1, 0, 0]])
    clinic.set_away({3: 1})
    clinic.play()
    clinic.withdraw(1)
    clinic.set_away({3: 0, 5: 1})
    clinic.play()
    clinic.report("correct", round_=1)
    clinic.enrol([1, 7, 8])
    clinic.change()
    clinic.play()
    clinic.withdraw(4)
    clinic.book.add("erase", {}, [[4]])
    clinic.play()
    return clinic.book.settle()


def trial() -> Book:
    """Three parts, of which one is never drawn from."""
    clinic = Clinic([1, 0, 3], people=17)
    clinic.book.drafts[0].body["trial"] = {"protocol": "ab" * 32, "strata": ["age"]}
    for _ in range(3):
        clinic.play()
    return clinic.book.settle()


def public() -> Book:
    """Values that were not there yet, with something between commitment and draw."""
    clinic = Clinic([3], people=9)
    clinic.play()
    clinic.change(source="drand")
    clinic.commit()
    clinic.report(round_=1)
    clinic.book.clock = "2026-11-17T09:01:03Z"
    clinic.draw("fe" * 48)
    clinic.close()
    clinic.change(source="the lottery of Saturday")
    clinic.play("0123456789abcdef" * 2)
    clinic.change(source="drand after 90 minutes")
    clinic.commit()
    return clinic.book.settle()


def ended() -> Book:
    """A trial of two parts whose secret is published."""
    clinic = Clinic([2, 1], people=10)
    for _ in range(3):
        clinic.play()
    clinic.change(source="the lottery of Saturday")
    clinic.play("fe" * 32)
    clinic.book.add("end", {"secret": SECRET.hex()})
    return clinic.book.settle()


MADE = {"plain": plain, "trial": trial, "public": public, "ended": ended}
