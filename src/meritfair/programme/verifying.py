"""Verification: everything is worked out anew from the ledger, and compared with what it says.

Checked are the form and the chain of all entries, the roots of their tables, that each entry fits what was before, the
seed of every draw and who is drawn by it, that due exposures and chances follow from what was recorded, the ids and
reasons that are kept beside the ledger, and the columns that are kept so that the ledger need not be read anew.

Exposures are found bit for bit where they are worked out on the same kind of processor with the same versions. Another
one rounds logarithms and exponentials otherwise; what iterates until it is near enough then ends some 10^-9 elsewhere.
So exposures within 10^-6 count as found, and are counted apart.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from meritfair.core.errors import InputError, MeritfairError
from meritfair.core.json_values import DAMAGE
from meritfair.core.progress import Progress, following
from meritfair.core.texts import several
from meritfair.programme.columns import Columns, StoredColumns
from meritfair.programme.enrolling import Assignment, strata_of
from meritfair.programme.ledger import randomness
from meritfair.programme.ledger.canonical import sha256
from meritfair.programme.ledger.entries import NO_HASH, Entry, parse_time
from meritfair.programme.ledger.heads import SHORT, WHOLE, check_head, matching
from meritfair.programme.ledger.lottery import DESIGN, ONE
from meritfair.programme.ledger.rowtable import RowTable
from meritfair.programme.planning import plan_round, unknown_states
from meritfair.programme.reporting import note_hash
from meritfair.programme.rounds import drawn_rows
from meritfair.programme.state import State
from meritfair.programme.storage.store import Session

_NEAR = 1e-6  # of exposures that another processor or version works out


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
        Rounds whose exposures were found bit for bit, and within 10^-6, as another processor or version finds them.
    tied : bool
        Whether the secret is known here, so that all seeds were worked out again.
    signed : int
        Draws on values of drand whose signatures were checked.
    unsigned : int
        Draws on values of drand whose signatures were not checked, as the library for it is not installed here.
    unchecked : int
        Draws on values of other public sources, which no program can check.
    head : str
    problems : tuple of Problem
        The first is the first entry that is wrong; what follows an entry that is wrong is not looked at.
    kept, short : int
        Heads that were kept elsewhere and looked for, and how many of them were short codes.
    """

    entries: int
    rounds: int
    draws: int
    exact: int
    near: int
    tied: bool
    signed: int
    unsigned: int
    unchecked: int
    head: str
    problems: tuple[Problem, ...]
    kept: int = 0
    short: int = 0

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
            text += (
                f" The exposures of {several(self.near, 'round')} agree to 1e-6, not bit for bit: they were worked out "
                "on another processor or by another version."
            )
        return " ".join([text, *self.values_words(), *self.heads_words()])

    def heads_words(self) -> list[str]:
        """Return what heads that were kept elsewhere say of a ledger that is whole."""
        if not self.kept:
            return []
        said = [f"It holds {several(self.kept, 'head')} that {'was' if self.kept == 1 else 'were'} kept elsewhere."]
        if self.short:
            said.append(
                f"{self.short:,} of them {'was a short code' if self.short == 1 else 'were short codes'} of as little "
                f"as {4 * SHORT} bits, which is weaker than a whole head: who has days on a large machine could make "
                "another ledger with the same code."
            )
        return said

    def values_words(self) -> list[str]:
        """Return what is known of the public values that draws rest on."""
        said = []
        if self.signed:
            fit = "fits the signature of its round" if self.signed == 1 else "fit the signatures of their rounds"
            said.append(f"{several(self.signed, 'value')} of drand {fit}.")
        if self.unsigned:
            rest = "rests on a value" if self.unsigned == 1 else "rest on values"
            signatures = "signature was" if self.unsigned == 1 else "signatures were"
            said.append(
                f"{several(self.unsigned, 'draw')} of {self.draws} {rest} of drand whose {signatures} not checked "
                "here: that needs pip install 'meritfair[beacon]'."
            )
        if self.unchecked:
            rest = "rests on a public value" if self.unchecked == 1 else "rest on public values"
            said.append(
                f"{several(self.unchecked, 'draw')} of {self.draws} {rest} that no program can check: compare with the "
                "source."
            )
        return said


def verify(session: Session, heads: Sequence[str] = (), progress: Progress = None) -> Verification:
    """Check the ledger of a programme and all that is kept beside it."""
    replay, wanted = _Replay(session), list(dict.fromkeys(map(check_head, heads)))
    problems: list[Problem] = []
    with following(progress, "verifying") as tell, ThreadPoolExecutor(max(1, os.cpu_count() or 1)) as pool:
        try:
            for done, _ in enumerate(replay.entries(pool), start=1):
                tell(done, session.length)
        except _BrokenEntryError as broken:
            problems.append(Problem(broken.entry, str(broken)))
    problems = sorted([*problems, *replay.failures(), *replay.unfit()], key=lambda each: each.entry)[:1]
    if not problems:
        problems = [*replay.beside(), *replay.missing(wanted)]
    counts = replay.seq, replay.state.summary.round, replay.draws, replay.exact, replay.near
    values = replay.signed, replay.unsigned, replay.unchecked
    return Verification(
        *counts,
        replay.secret is not None,
        *values,
        replay.head.hex(),
        tuple(problems),
        len(wanted),
        sum(len(head) < WHOLE for head in wanted),
    )


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
        self.signed, self.unsigned, self.unchecked = 0, 0, 0
        self._signatures: list[tuple[int, bytes]] = []  # rounds of drand
        self._signed_entries: list[int] = []
        self._secret_hash = ""
        self._committed: tuple[Entry, RowTable] | None = None
        self._plans: list[Future[Problem | int]] = []
        self.secret: bytes | None = session.secret[:32] or None

    def entries(self, pool: ThreadPoolExecutor) -> Iterator[int]:
        """Check one entry after another."""
        for seq, data, _ in self._stored():
            try:
                entry = Entry.from_bytes(data)
                entry.check_follows(self.seq, self.head, self.session.identity)
                rows = self.session.rows(seq)
                table = None if entry.table is None else RowTable.from_bytes(entry.table, rows or b"")
                self._check(entry, table, pool)
                self.state.apply(entry, table)
                self._note(entry, table)
            except _BrokenEntryError:
                raise
            except DAMAGE as error:
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
        self._committed = entry, table
        self._plans.append(pool.submit(_recomputed, self.state.copy(), entry, table))

    def _check_draw(self, entry: Entry, table: RowTable) -> None:
        assert self._committed is not None
        committed, rows = self._committed
        commitment, named = committed.commitment, committed.body["source"]
        if entry.body["commitment"] != commitment.hex():
            raise InputError("the draw is not the one that was committed to")
        seed = bytes.fromhex(entry.body["seed"])
        value = self._check_value(entry, named)
        if self.secret is not None and seed != randomness.draw_seed(self.secret, commitment, value):
            raise InputError("the seed does not follow from the commitment")
        drawn = rows["number"][drawn_rows(committed, rows, seed)]
        if not np.array_equal(drawn, table["number"]):
            raise InputError("other participants are drawn than follow from the seed")
        self.draws += 1

    def _check_value(self, entry: Entry, named: Mapping[str, Any] | None) -> bytes:
        """Return the public value of a draw, empty if it has none; signatures are checked together, at the end."""
        if named is None:
            if entry.body["value"] is not None or entry.seq != self._committed[0].seq + 1:  # type: ignore[index]
                raise InputError("a draw without a public value comes right after its commitment")
            return b""
        value = bytes.fromhex(entry.body["value"])
        randomness.check_published(named, parse_time(entry.time))
        numbers = entry.body.get("numbers")
        if numbers is not None and sha256(numbers.encode()).hex() != entry.body["value"]:
            raise InputError("the public value is not that of the numbers that are told")
        if named["kind"] != randomness.DRAND:
            self.unchecked += 1
        elif randomness.can_check_signatures():
            self._signatures.append((named["round"], value))
            self._signed_entries.append(entry.seq)
        else:
            self.unsigned += 1
        return value

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

    def unfit(self) -> list[Problem]:
        """Return the first draw whose value is not the signature of its round of drand, and count those that are."""
        wrong = randomness.first_unfit(self._signatures) if self._signatures else None
        self.signed = len(self._signatures) if wrong is None else wrong
        if wrong is None:
            return []
        problem = f"its value is not the signature of round {self._signatures[wrong][0]} of drand"
        return [Problem(self._signed_entries[wrong], problem)]

    def missing(self, heads: Sequence[str]) -> Iterator[Problem]:
        """Yield heads that were published and are not in the ledger, and short codes that do not say which they are."""
        hashes = {each.hex() for each in self.hashes}
        for head in heads:
            found = [head] if head in hashes else matching(head, hashes if len(head) < WHOLE else ())
            if not found:
                yield Problem(
                    -1,
                    f"the head {head} is not in the ledger: entries were cut off or replaced since, an old backup was "
                    "restored, or another programme of this name was put in its place",
                )
            elif len(found) > 1:
                yield Problem(-1, f"the short code {head} begins {len(found)} hashes in the ledger: give more digits")

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
    """Return 0 if the exposures of a round are found bit for bit, 1 if nearly so."""
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
    if not any(off.values()):
        return 0
    if max(off.values()) > _NEAR * ONE:
        worst = max(off, key=lambda name: off[name])
        words = {"due": "what is due", "chance": "the chances"}[worst]
        return Problem(
            entry.seq, f"{words} do not follow from what was recorded: they differ by {off[worst] / ONE:.2g}"
        )
    return 1
