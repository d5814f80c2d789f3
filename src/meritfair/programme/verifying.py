"""Verification: everything is worked out anew from the ledger, and compared with what it says.

Checked are the form and the chain of all entries, the roots of their tables, that each entry fits what was before, the
seed of every draw and who is drawn by it, that due exposures and chances follow from what was recorded (bit for bit
with the versions that made them, otherwise within 10^-9), the ids and reasons that are kept beside the ledger, and the
columns that are kept so that the ledger need not be read anew.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from meritfair.core.errors import InputError, MeritfairError
from meritfair.core.progress import Progress, following
from meritfair.core.texts import several
from meritfair.programme.columns import Columns, StoredColumns
from meritfair.programme.enrolling import Assignment, strata_of
from meritfair.programme.ledger import randomness
from meritfair.programme.ledger.canonical import sha256
from meritfair.programme.ledger.entries import NO_HASH, Entry
from meritfair.programme.ledger.lottery import DESIGN, ONE
from meritfair.programme.ledger.rowtable import RowTable
from meritfair.programme.planning import plan_round, unknown_states
from meritfair.programme.reporting import note_hash
from meritfair.programme.rounds import drawn_rows
from meritfair.programme.state import State
from meritfair.programme.storage.store import Session
from meritfair.programme.work import versions

_NEAR = 1e-9  # of exposures that another version works out
_DECIDING = ("meritfair", "numpy", "scipy", "numba", "machine")  # versions that numbers depend on


@dataclass(frozen=True)
class Problem:
    """What is wrong, and where: the place of the entry, or -1 if it is beside the ledger."""

    entry: int
    text: str

    def __str__(self) -> str:
        return self.text if self.entry < 0 else f"entry {self.entry}: {self.text}"


@dataclass(frozen=True)
class Verification:
    """What came of a verification.

    Attributes
    ----------
    entries, rounds, draws : int
    exact, near : int
        Rounds whose exposures were found bit for bit, and within 10^-9 as another version has made them.
    tied : bool
        Whether all seeds are tied to the secret or to public values.
    head : str
    problems : tuple of Problem
        The first is the first entry that is wrong; what follows an entry that is wrong is not looked at.
    """

    entries: int
    rounds: int
    draws: int
    exact: int
    near: int
    tied: bool
    head: str
    problems: tuple[Problem, ...]

    @property
    def whole(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def __str__(self) -> str:
        if self.problems:
            return "The ledger is not whole. " + " ".join(f"{problem}." for problem in self.problems)
        counts = f"{several(self.entries, 'entry', 'entries')}, {several(self.rounds, 'round')}"
        text = f"The ledger is whole: {counts}, {several(self.draws, 'draw')} checked."
        if self.near:
            text += f" The exposures of {several(self.near, 'round')} were made by another version, and agree to 1e-9."
        return text


def verify(session: Session, heads: Sequence[str] = (), progress: Progress = None) -> Verification:
    """Check the ledger of a programme and all that is kept beside it."""
    replay = _Replay(session)
    problems: list[Problem] = []
    with following(progress, "verifying") as tell, ThreadPoolExecutor(max(1, os.cpu_count() or 1)) as pool:
        try:
            for done, _ in enumerate(replay.entries(pool), start=1):
                tell(done, session.length)
        except _BrokenEntryError as broken:
            problems.append(Problem(broken.entry, str(broken)))
    problems = sorted([*problems, *replay.failures()], key=lambda each: each.entry)[:1]
    if not problems:
        problems = [*replay.beside(), *replay.missing(heads)]
    counts = replay.seq, replay.state.summary.round, replay.draws, replay.exact, replay.near
    return Verification(*counts, replay.tied, replay.head.hex(), tuple(problems))


class _BrokenEntryError(MeritfairError):
    def __init__(self, entry: int, problem: str) -> None:
        super().__init__(problem)
        self.entry = entry


class _Replay:
    """The ledger from its first entry on."""

    def __init__(self, session: Session) -> None:
        self.session, self.state = session, State(Columns())
        self.seq, self.head, self.draws, self.exact, self.near = 0, NO_HASH, 0, 0, 0
        self.hashes = set[bytes]()
        self.who: dict[int, bytes] = {}
        self.notes: dict[tuple[int, int], bytes] = {}
        self.erased = set[int]()
        self.public, self._secret_hash = True, ""
        self._committed: tuple[Entry, RowTable] | None = None
        self._plans: list[Future[Problem | int]] = []
        self.secret: bytes | None = session.secret[:32] or None

    @property
    def tied(self) -> bool:
        """Whether every seed follows from something that is known now."""
        return self.public or self.secret is not None

    def entries(self, pool: ThreadPoolExecutor) -> Iterator[int]:
        """Check one entry after another."""
        for seq, data, _ in self._stored():
            try:
                entry = Entry.from_bytes(data)
                self._check_chain(entry)
                rows = self.session.rows(seq)
                table = None if entry.table is None else RowTable.from_bytes(entry.table, rows or b"")
                self._check(entry, table, pool)
                self.state.apply(entry, table)
                self._note(entry, table)
            except _BrokenEntryError:
                raise
            except (MeritfairError, KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
                raise _BrokenEntryError(seq, str(error) or type(error).__name__) from None
            self.seq, self.head = seq + 1, sha256(data)
            self.hashes.add(self.head)
            yield seq
        if self.seq != self.session.length or self.head != self.session.head:
            raise _BrokenEntryError(self.seq, f"there are {self.seq} entries, and {self.session.length} were kept")

    def _stored(self) -> Iterator[tuple[int, bytes, bytes]]:
        try:
            yield from self.session.entries()
        except MeritfairError as error:
            raise _BrokenEntryError(self.seq, str(error)) from None

    def _check_chain(self, entry: Entry) -> None:
        if entry.seq != self.seq:
            raise InputError(f"an entry is missing or out of place: it is numbered {entry.seq}, not {self.seq}")
        if entry.previous != self.head:
            raise InputError("the chain is broken: it does not have the hash of the entry before")
        if entry.programme != self.session.identity:
            raise InputError("it belongs to another programme")

    def _check(self, entry: Entry, table: RowTable | None, pool: ThreadPoolExecutor) -> None:
        """Check what an entry says before it is taken in."""
        if entry.kind == "create":
            self._secret_hash = entry.body["secret"]
        elif entry.kind == "commit" and table is not None:
            self._check_commit(entry, table, pool)
        elif entry.kind == "draw" and table is not None:
            self._check_draw(entry, table)
        elif entry.kind == "enrol" and table is not None:
            self._check_parts(entry, table)
        elif entry.kind == "end":
            self.secret = bytes.fromhex(entry.body["secret"])
        known = entry.kind in ("create", "end") and self.secret is not None
        if known and sha256(self.secret or b"").hex() != self._secret_hash:
            raise InputError("the secret is not the one whose hash was published when the programme was created")

    def _check_commit(self, entry: Entry, table: RowTable, pool: ThreadPoolExecutor) -> None:
        chance, part = table["chance"].astype(np.int64), table["part"]
        if entry.body["design"] != DESIGN:
            raise InputError(f"there is no design {entry.body['design']!r}")
        if (len(chance) and chance.max() > ONE) or chance[table["away"] == 1].any():
            raise InputError("a chance is above 1, or that of someone who is away is above 0")
        for place, budget in enumerate(entry.body["budgets"]):
            if int(chance[part == place].sum()) != budget * ONE:
                raise InputError("the chances do not sum to the number drawn")
        if entry.body["source"] is not None:
            randomness.check_future(entry.body["source"], datetime.fromisoformat(entry.time))
        self._committed = entry, table
        self._plans.append(pool.submit(_recomputed, self.state.copy(), entry, table))

    def _check_draw(self, entry: Entry, table: RowTable) -> None:
        assert self._committed is not None
        committed, rows = self._committed
        commitment, named = committed.commitment, committed.body["source"]
        if entry.body["commitment"] != commitment.hex():
            raise InputError("the draw is not the one that was committed to")
        seed = bytes.fromhex(entry.body["seed"])
        if named is not None:
            expected = randomness.seed_from_value(commitment, bytes.fromhex(entry.body["value"]))
            randomness.check_published(named, datetime.fromisoformat(entry.time))
            numbers = entry.body.get("numbers")
            if numbers is not None and sha256(numbers.encode()).hex() != entry.body["value"]:
                raise InputError("the public value is not that of the numbers that are told")
        else:
            self.public = False
            expected = seed if self.secret is None else randomness.seed_from_secret(self.secret, commitment)
        if seed != expected:
            raise InputError("the seed does not follow from the commitment")
        drawn = rows["number"][drawn_rows(committed, rows, seed)]
        if not np.array_equal(drawn, table["number"]):
            raise InputError("other participants are drawn than follow from the seed")
        self.draws += 1

    def _check_parts(self, entry: Entry, table: RowTable) -> None:
        """Check that a trial has randomised as its secret says."""
        trial = self.state.settings.trial
        new = table["number"] >= self.state.people
        if trial is None or self.secret is None:
            if trial is None and table["part"].any():
                raise InputError("someone is in a part that there is not")
            return
        levels = [np.array(entry.body["levels"][name], dtype=object)[table[name][new]] for name in trial.strata]
        strata = list(zip(*levels, strict=True)) if levels else [()] * int(new.sum())
        assigned = Assignment(self.secret, self.state.settings, strata_of(self.state)).next(strata)
        if assigned != table["part"][new].tolist():
            raise InputError("someone is in another part of the trial than follows from the secret")

    def _note(self, entry: Entry, table: RowTable | None) -> None:
        """Keep what is compared later with what is beside the ledger."""
        if table is None:
            return
        numbers = table["number"].tolist()
        if entry.kind == "enrol":
            known = [bytes(each) for each in table["who"]]
            for number, who in zip(numbers, known, strict=True):
                if self.who.setdefault(number, who) != who:
                    raise InputError(f"participant {number} has come back as someone else")
        elif entry.kind == "erase":
            self.erased |= set(numbers)
        elif "note" in table.columns:
            notes = [bytes(each) for each in table["note"]]
            self.notes |= {(entry.seq, n): note for n, note in zip(numbers, notes, strict=True) if note != NO_HASH}

    # ---- at the end

    def failures(self) -> list[Problem]:
        """Return where exposures do not follow from what was recorded, and count where they do."""
        found = [plan.result() for plan in self._plans if not plan.cancelled()]
        self.exact, self.near = (sum(1 for each in found if each == kind) for kind in (0, 1))
        return [each for each in found if isinstance(each, Problem)]

    def missing(self, heads: Sequence[str]) -> Iterator[Problem]:
        """Yield heads that were published and are not in the ledger."""
        for head in heads:
            if head.strip().lower() not in {each.hex() for each in self.hashes}:
                yield Problem(
                    -1,
                    f"the head {head} is not in the ledger: entries were cut off or replaced since, or an "
                    "old backup was restored",
                )

    def beside(self) -> Iterator[Problem]:
        """Yield what is wrong with what is kept beside the ledger."""
        yield from self._beside_people()
        stored = StoredColumns(self.session)
        if self.session.summary != self.state.to_dict():
            yield Problem(-1, "the summary that is kept beside the ledger does not follow from it")
        for name, round_ in self.state.columns.names():
            try:
                same = np.array_equal(stored.get(name, round_), self.state.columns.get(name, round_))
            except MeritfairError as error:
                yield Problem(-1, str(error))
                continue
            if not same:
                where = f" of round {round_}" if name == "seen" else ""
                yield Problem(-1, f"the column {name!r}{where} that is kept beside the ledger does not follow from it")

    def _beside_people(self) -> Iterator[Problem]:
        people = {each.number: each for each in self.session.people()}
        for number, who in self.who.items():
            each = people.get(number)
            if number in self.erased:
                continue
            if each is None or not each.salt or sha256(each.salt, (each.id or "").encode()) != who:
                yield Problem(-1, f"the id of participant {number} is not the one that was enrolled")
        kept = {(seq, number): text for seq, number, text in self.session.notes()}
        for (seq, number), note in self.notes.items():
            if number in self.erased:
                continue
            salt = people[number].salt if number in people else b""
            if note_hash(salt or b"", kept.get((seq, number), "")) != note:
                yield Problem(-1, f"the reason for participant {number} in entry {seq} is not the one that was given")


def _recomputed(state: State, entry: Entry, table: RowTable) -> Problem | int:
    """Return 0 if the exposures of a round are found bit for bit, 1 if by another version and nearly so."""
    try:
        states = unknown_states(state.people)
        states[table["number"]] = table["state"]
        planned = plan_round(state, entry.programme, states, tuple(entry.body["asked"]))
    except Exception as error:  # whatever a policy may raise, it is this entry that could not be worked out
        return Problem(entry.seq, f"its exposures could not be worked out: {error}")
    off = {
        name: int(np.abs(getattr(planned, name) - table[name].astype(np.int64)).max(initial=0))
        for name in ("due", "chance")
    }
    if list(planned.budgets) != entry.body["budgets"]:
        return Problem(entry.seq, "the number drawn does not follow from what was recorded")
    mine = versions()
    same = all(entry.body["versions"].get(name) == mine[name] for name in _DECIDING)
    if not any(off.values()):
        return 0
    if same or max(off.values()) > _NEAR * ONE:
        worst = max(off, key=lambda name: off[name])
        words = {"due": "what is due", "chance": "the chances"}[worst]
        return Problem(
            entry.seq, f"{words} do not follow from what was recorded: they differ by {off[worst] / ONE:.2g}"
        )
    return 1
