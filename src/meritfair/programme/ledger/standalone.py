"""Check a meritfair ledger with nothing but Python 3.9: ``python verify.py [FOLDER] [--head HEX ...] [--proof FILE]``.

FOLDER is an export, by default that of this file. --head takes heads that were published, --proof the proof of one
person. The first wrong entry is named, with exit code 1; what is not checked here is told. See docs/ledger.md.
"""

from __future__ import annotations

import argparse
import hmac
import json
import re
import struct
import zlib
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta, timezone
from hashlib import sha256
from pathlib import Path
from typing import Any

ONE, GONE = 2**40, -1  # a chance of 1; neither here (0) nor away (1), but withdrawn
PERIOD = timedelta(seconds=3)  # from one round of drand to the next; the first one:
FIRST = datetime(2023, 8, 23, 15, 9, 27, tzinfo=timezone.utc)  # noqa: UP017 (Python 3.9)
CODES = {"u8": "B", "u16": "H", "u32": "I", "u64": "Q", "i8": "b", "i32": "i", "h256": "32s"}  # of struct
KEYS = ["body", "by", "format", "kind", "previous", "programme", "seq", "table", "time"]  # of an entry
NUMBER, SEEN = "number:u32 ", "number:u32 before:i8 action:i8 after:i8 note:h256"
FIELDS = {"create": "", "change": "", "close": "", "end": "", "report": SEEN, "correct": SEEN}  # of tables, by kind
FIELDS |= {"withdraw": NUMBER, "erase": NUMBER, "draw": NUMBER, "enrol": NUMBER + "who:h256 part:u8"}
FIELDS |= {"away": NUMBER + "away:u8", "history": NUMBER + "round:i32 before:i8 action:i8 after:i8"}
FIELDS |= {"commit": NUMBER + "part:u8 away:u8 state:i8 due:u64 chance:u64"}
STEPS = {"create": ("new", "closed"), "commit": ("closed", "committed"), "draw": ("committed", "drawn")}
STEPS |= {"close": ("drawn", "closed"), "change": ("closed", "closed"), "end": ("closed", "ended")}
LEFT = "not checked here: whether chances, and who is in which part of a trial, follow from what was entered before"
DAMAGE = (AttributeError, LookupError, OSError, RecursionError, TypeError, ValueError, struct.error, zlib.error)
canonical = json.JSONEncoder(ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")).encode


def need(right: object, why: str) -> None:  # noqa: D103
    if not right:
        raise ValueError(why)


def read_table(file: Path, fields: list[list[str]], rows: int, root: str) -> list[Any]:
    """Return the rows of a table, which is stored column by column; check it against the root of its Merkle tree."""
    codes, data = [CODES[kind] for _, kind in fields], zlib.decompress(file.read_bytes())
    row = struct.Struct("<" + "".join(codes))
    need(len(data) == rows * row.size, "its table has another length")
    values = struct.unpack("<" + "".join(code * rows if code == "32s" else f"{rows}{code}" for code in codes), data)
    table = [values[i::rows] for i in range(rows)]
    nodes = [sha256(b"\0" + row.pack(*each)).digest() for each in table] or [sha256().digest()]
    while len(nodes) > 1:  # an odd last node moves up as it is
        pairs = [nodes[i : i + 2] for i in range(0, len(nodes), 2)]
        nodes = [sha256(b"\1" + b"".join(pair)).digest() if pair[1:] else pair[0] for pair in pairs]
    need(nodes[0].hex() == root, "its table was changed")
    return table


def draw(seed: bytes, rows: list[Any], parts: int) -> Iterator[int]:
    """Yield the numbers that are drawn: in each part, systematic sampling in an order by random keys."""
    words = (word for j in range(2**64) for word in struct.unpack(">4Q", sha256(seed + j.to_bytes(8, "big")).digest()))
    for part in range(parts):
        some = [(number, chance) for number, of, _, _, _, chance in rows if of == part and chance]
        point, end = next(words) % ONE if some else 0, 0
        for _, number, chance in sorted((next(words), *each) for each in some):
            end += chance
            if point < end:
                yield number
                point += ONE


class Ledger:
    """What follows from the entries that were read; `at` is what is being read."""

    def __init__(self, folder: Path | None) -> None:
        self.folder, self.at, self.round, self.phase, self.hashes = folder, "the ledger", 0, "new", ["0" * 64]
        self.entries, self.commit, self.rows = list[dict[str, Any]](), dict[str, Any](), list[Any]()
        self.people, self.here = dict[int, tuple[bytes, int]](), dict[int, int]()  # who and part; here, away or gone
        self.time, self.source, self.parts, self.seeds, self.left = FIRST, "", list[Any](), list[Any](), list[str]()

    def add(self, line: bytes, following: bytes) -> None:
        """Check the next entry, by itself and against the one before."""
        seq, self.at = len(self.entries), f"entry {len(self.entries)}"
        entry = json.loads(line.decode(), parse_int=lambda n: int(n) if abs(int(n)) < 2**53 else n, parse_float=str)
        need(canonical(entry).encode() == line and list(entry) == KEYS, "is not an entry in canonical form")
        need(entry["format"] == "meritfair-ledger-2" and entry["kind"] in FIELDS, "is of an unknown format or kind")
        need(entry["seq"] == seq, f"has the sequence number {entry['seq']}: entries are missing, added or moved")
        self.hashes.append(sha256(line).hexdigest())
        if entry["previous"] != self.hashes[seq]:  # if the next entry knows this one, the one before was changed
            self.at = f"entry {max(0, seq - (self.hashes[-1].encode() in following))}"
            raise ValueError("was changed: the chain of hashes breaks here")
        self.entries.append(entry)
        self.at += f" ({entry['kind']})"
        before, self.time = self.time, datetime.fromisoformat(entry["time"].replace("Z", "+00:00"))
        need(f"{self.time:%Y-%m-%dT%H:%M:%SZ}" == entry["time"], "has a time in another form")
        need(seq == 0 or self.time >= before, f"its time, {entry['time']}, is before that of the entry before")
        need(entry["programme"] == self.entries[0]["programme"], "belongs to another programme")
        fields = [field.split(":") for field in FIELDS[entry["kind"]].split()]
        fields += [[name, "u32"] for name in sorted(entry["body"].get("levels", []))]
        need(fields == (entry["table"] or {"fields": []})["fields"], "its table has other fields than its kind")
        if self.folder:
            self.follow(entry, read_table(self.folder / f"tables/{seq}.z", **entry["table"]) if fields else [])

    def follow(self, entry: dict[str, Any], rows: list[Any]) -> None:
        """Check an entry against what follows from all before it."""
        kind, body, numbers = entry["kind"], entry["body"], [row[0] for row in rows]
        (before, after), now = STEPS.get(kind, (self.phase, self.phase)), self.round + (kind == "commit")
        need(before == self.phase != "ended" and after != "new", f"comes when round {self.round} is {self.phase}")
        need(kind == "history" or numbers == sorted(set(numbers)), "its rows are not in order, each once")
        need(body.get("round", now) in range(1 if kind in ("report", "correct") else now, now + 1), "has a wrong round")
        self.round, self.phase = now, after
        if kind in ("create", "change"):
            need(kind == "create" or len(body["parts"]) == len(self.parts), "has other parts")
            self.source, self.parts = body["source"], body["parts"]
        elif kind in ("report", "correct"):
            need(all(row[0] in self.people and {*row[1:4]} <= {-2, -1, 0, 1} for row in rows), "has a row that is none")
        elif kind == "enrol":
            for number, who, part, *_ in rows:
                self.here[number], known = 0, self.people.setdefault(number, (who, part))
                need(known == (who, part) and number < len(self.people), f"number {number} is not theirs")
        elif kind in ("withdraw", "away"):
            need(all(self.here.get(number, GONE) != GONE for number in numbers), "is about someone not enrolled")
            self.here.update(rows if kind == "away" else dict.fromkeys(numbers, GONE))
        elif kind == "commit":
            self.check_commit(entry, rows)
        elif kind == "draw":
            self.check_draw(body, numbers)
        elif kind == "end":
            secret = bytes.fromhex(body["secret"])
            need(sha256(secret).hexdigest() == self.entries[0]["body"]["secret"], "has another secret")
            for at, message, seed in self.seeds:
                self.at = at
                need(hmac.new(secret, message, "sha256").hexdigest() == seed, "its seed is not from the secret")

    def check_commit(self, entry: dict[str, Any], rows: list[Any]) -> None:
        body, parts, self.commit, self.rows = entry["body"], self.parts, entry, rows
        roster = [(number, self.people[number][1], away) for number, away in sorted(self.here.items()) if away != GONE]
        need(body["design"] == "systematic-sha256-1", "has an unknown design")
        public: Any = None if self.source == "secret" else {"kind": "named", "name": self.source}
        if drand := re.fullmatch("drand(?: after ([0-9]+) minutes)?", self.source):  # its first round after that
            later = self.time + timedelta(minutes=int(drand[1] or 1))
            public = {"kind": "drand-quicknet", "round": (later - FIRST) // PERIOD + 2}
        need(body["source"] == public, "its source is not the one of the settings")
        need([row[:3] for row in rows] == roster, "its rows are not those enrolled, with their parts, away or not")
        need(all(row[5] <= (0 if row[2] or row[1] >= len(parts) else ONE) for row in rows), "has a chance too large")
        sums = [sum(row[5] for row in rows if row[1] == part) for part in range(len(parts))]
        need(sums == [ONE * budget for budget in body["budgets"]], "its chances do not sum to the budgets")
        asked, own = body["asked"], [part["budget"][(self.round - 1) % len(part["budget"])] for part in parts]
        need((asked == own or body["reason"]) and all(map(int.__le__, body["budgets"], asked)), "has other budgets")

    def check_draw(self, body: dict[str, Any], numbers: list[int]) -> None:
        planned, seed, value = self.commit["body"], bytes.fromhex(body["seed"]), bytes.fromhex(body["value"] or "")
        decides = canonical({key: self.commit[key] for key in ("body", "programme", "table")})
        source, told, commitment = planned["source"], body.get("numbers"), sha256(decides.encode()).digest()
        need(body["commitment"] == commitment.hex() and len(seed) == 32, "its commitment is another one")
        self.seeds.append((self.at, commitment + value, body["seed"]))
        if source is None:
            need(self.entries[-2] is self.commit and body["value"] is None, "does not come right after its commitment")
        else:
            need(value and (not told or value == sha256(told.encode()).digest()), "has no value of its public source")
            need(self.time >= FIRST + PERIOD * (source.get("round", 1) - 1), "comes before its value was published")
            self.left.append(f"round {self.round}: compare {source} with the value {told or body['value']}")
        need(numbers == sorted(draw(seed, self.rows, len(planned["budgets"]))), "others are drawn by its seed")

    def person(self, proof: dict[str, Any]) -> list[str]:
        """Check the proof of one person; return what it shows."""
        shown, told, chance = [dict[int, Any]() for _ in self.entries], [f"{proof['id']}: number {proof['number']}"], ""
        for row in proof["rows"]:
            self.at, table, data = f"entry {row['seq']}", self.entries[row["seq"]]["table"], bytes.fromhex(row["row"])
            others, node = [bytes.fromhex(other) for _, other in row["path"]], sha256(b"\0" + data).digest()
            place, rows, code = row["index"], table["rows"], "<" + "".join(CODES[kind] for _, kind in table["fields"])
            while rows > 1:
                if place ^ 1 < rows:
                    node = sha256(b"\1" + (others.pop(0) + node if place % 2 else node + others.pop(0))).digest()
                place, rows = place // 2, (rows + 1) // 2
            need(0 <= row["index"] < table["rows"] and node.hex() == table["root"], "has no such row in its table")
            shown[row["seq"]][row["index"]] = struct.unpack(code, data)
        who = sha256(bytes.fromhex(proof["salt"]) + proof["id"].encode()).digest()
        me, self.at = proof["number"], "the proof"
        need((me, who) in [row[:2] for rows in shown for row in rows.values()], "does not show whose number it is")
        for entry, rows in zip(self.entries, shown):  # noqa: B905 (Python 3.9)
            mine = next((row for row in rows.values() if row[0] == me), None)
            if entry["kind"] == "commit":
                chance = f"due {mine[4] / ONE:.6f}, chance {mine[5] / ONE:.6f}" if mine else "chance not shown"
            elif entry["kind"] == "draw":  # its rows are in order: nobody is between two that are side by side
                near = {-1: -1, entry["table"]["rows"]: 2**32, **{place: row[0] for place, row in rows.items()}}
                absent = any(near[place] < me < near.get(place + 1, me) for place in near)
                drawn = "drawn" if mine else "not drawn" if absent else "whether drawn is not shown"
                told.append(f"round {entry['body']['round']}: {chance}, {drawn}")
        return told


def check(folder: Path, heads: Iterable[str] = (), proof: Path | None = None) -> tuple[list[str], list[str]]:
    """Return the first problem, if there is one, and otherwise what was found."""
    ledger = Ledger(None if proof else folder)
    try:
        given = json.loads(proof.read_bytes()) if proof else {}
        text = "\n".join(given["entries"]).encode() if proof else (folder / "ledger.jsonl").read_bytes()
        lines = [*text.removesuffix(b"\n").split(b"\n"), b"" if proof else (folder / "head.txt").read_bytes().strip()]
        for place, line in enumerate(lines[:-1]):
            ledger.add(line, lines[place + 1])
        need(lines[-1] in (b"", ledger.hashes[-1].encode()), "was changed, or cut off after: see head.txt")
        ledger.at = "the ledger"
        need(set(heads) <= set(ledger.hashes[1:]), "does not have a head that was published: it was cut or replaced")
        tied = "follow from the secret" if ledger.phase == "ended" else "can be checked once the secret is published"
        found = [f"right: {len(lines) - 1} entries, {ledger.round} rounds, {len(ledger.seeds)} draws"]
        found += [f"head {ledger.hashes[-1]}", f"the seeds of all draws {tied}", LEFT, *ledger.left]
        return [], ledger.person(given) if proof else found
    except DAMAGE as error:
        return [f"{ledger.at}: {error if type(error) is ValueError else f'is damaged: {error!r:.99}'}"], []


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path(__file__).parent)
    parser.add_argument("--head", nargs="+", action="extend", dest="heads", default=[])
    parser.add_argument("--proof", type=Path)
    wrong, found = check(**vars(parser.parse_args()))
    print(*wrong, *found, sep="\n")
    raise SystemExit(bool(wrong))
