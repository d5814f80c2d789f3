"""A programme in live use: participants, rounds, reports, and a ledger that anyone can check.

Each verb is one transaction: it is done whole and kept, or not at all. Every verb that changes something takes `by`,
who does it, and `key`, any text that stands for the request: if an answer was lost on the way, the same call with the
same key has no second effect and returns the same answer.
"""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import asdict, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from meritfair.core.checks import check_known
from meritfair.core.errors import InputError
from meritfair.core.progress import Progress
from meritfair.datasets.logs import StateLog
from meritfair.model.rules import Rules
from meritfair.policies.registry import RECOMMENDED
from meritfair.programme import enrolling, reporting, rounds
from meritfair.programme.inputs import Outcomes, People, check_ids
from meritfair.programme.keeping import keep_head, kept_head
from meritfair.programme.ledger import randomness
from meritfair.programme.ledger.canonical import canonical, sha256
from meritfair.programme.ledger.heads import KeptHead
from meritfair.programme.planning import PlannedRound
from meritfair.programme.reporting import Receipt, receipt
from meritfair.programme.rounds import Drawn, Round
from meritfair.programme.settings import FLOOR, Part, Settings, Trial
from meritfair.programme.state import CLOSED, State
from meritfair.programme.status import Status, status_of
from meritfair.programme.storage.names import check_name
from meritfair.programme.storage.store import Session, Store
from meritfair.programme.work import Work, check_by, versions

if TYPE_CHECKING:
    from meritfair.programme.showing.person import PersonReport
    from meritfair.programme.showing.report import ProgrammeReport
    from meritfair.programme.verifying import Verification


class KeyConflictError(InputError):
    """A key was used before, for another request."""


class HeadMovedError(InputError):
    """Something was entered since the head that a change was meant for."""


class Programme:
    """One programme of a store.

    Parameters
    ----------
    store : Store
    name : str, optional
        Which programme; by default the only one that there is.
    known : callable, optional
        Gives what follows from the entries that a session shows, if that is in memory, so that it need not be read; for
        servers (`meritfair.programme.reading.Reader`).

    Examples
    --------
    >>> import meritfair as mf
    >>> from tempfile import TemporaryDirectory
    >>> folder = TemporaryDirectory()
    >>> calls = mf.programme.open(f"{folder.name}/calls.db", "calls")
    >>> _ = calls.create(budget=1, by="Dr. Osei")
    >>> _ = calls.enrol(mf.programme.People(["Ada", "Bo", "Cy"]), by="Dr. Osei")
    >>> drawn = calls.draw(by="Dr. Osei")
    >>> len(drawn.ids), round(drawn.people[0].chance, 9)
    (1, 0.333333333)
    >>> _ = calls.report(mf.programme.Outcomes(drawn.ids, action=[1], after=[1]), by="Dr. Osei")
    >>> calls.close(by="Dr. Osei").round
    1
    >>> print(calls.verify())
    The ledger is whole: 6 entries, 1 round, 1 draw checked.
    >>> folder.cleanup()
    """

    def __init__(
        self, store: Store, name: str | None = None, *, known: Callable[[Session], State | None] | None = None
    ) -> None:
        self.store, self._name, self._known = store, None if name is None else name.strip(), known
        self._expected = ""

    @property
    def name(self) -> str:
        """The name of the programme."""
        if self._name is None:
            names = self.store.names()
            if len(names) != 1:
                found = "there is none yet: create one" if not names else "say which: " + ", ".join(names)
                raise InputError(f"no programme was named, and {found}")
            self._name = names[0]
        return self._name

    def expecting(self, head: str) -> Programme:
        """Return the programme such that changes are refused if its head is another one when they are made."""
        same = copy(self)
        same._expected = head
        return same

    def __repr__(self) -> str:
        return f"Programme({self._name or 'the only one'} in {self.store.url})"

    # ---- making one

    def create(
        self,
        budget: int | Sequence[int] = 1,
        policy: Any = RECOMMENDED,
        *,
        floor: float = FLOOR,
        rules: Rules | None = None,
        forget: float = 1.0,
        features: Sequence[str] = (),
        history: StateLog | None = None,
        trial: Trial | None = None,
        parts: Sequence[Part] | None = None,
        source: str = randomness.SECRET,
        pseudonymise: bool = False,
        by: str = "",
        key: str | None = None,
    ) -> Receipt:
        """Create the programme.

        Parameters
        ----------
        budget : int or sequence of int
            People drawn in a round, or one number for each of some rounds, which repeat.
        policy : Policy or str
            Who is due what; by default merit-fair, pooled, exact, with a slack of 2.
        floor : float
            The least that everyone is due, as a part of an equal share.
        rules : Rules, optional
            Cool-down, warm-up, once, accrue.
        forget : float
            What an outcome is worth one round later.
        features : sequence of str
            What is known of people at enrolment and may be looked at.
        history : StateLog, optional
            Records from before: those in it are enrolled, and what was seen of them is taken in. Its features ``group``
            and ``staff``, if it has them, are the group and the member of staff of each.
        trial : Trial, optional
            Makes it a trial: people are randomised into the `parts`.
        parts : sequence of Part, optional
            The arms of the trial, each with a name, a budget and a policy.
        source : str
            Public randomness that no draw is made without: ``drand``, ``drand after 60 minutes``, or the name of
            another source, such as a lottery. By default ``secret``: draws are made at once, from the secret alone.
        pseudonymise : bool
            Keep pseudonyms instead of ids.
        by, key : str
        """
        if self._name is None:
            raise InputError("a new programme needs a name")
        self._name = check_name(self._name)
        if (trial is None) != (parts is None):
            raise InputError("a trial has parts, and parts are those of a trial")
        own = (Part(budget, policy, floor),) if parts is None else tuple(parts)
        known = () if history is None else [name for name in history.features if name not in ("group", "staff")]
        used = tuple(features) or tuple(known)
        settings = Settings(own, Rules() if rules is None else rules, forget, used, trial, source)
        randomness.check_can_use(settings.source)
        for name in trial.strata if trial is not None else ():
            check_known("feature", name, used, where="strata")
        request = [self._name, canonical(settings.body()).decode(), pseudonymise, by]
        if key is not None and (before := self._created(key, request)) is not None:
            return before
        try:
            return self._create(settings, history, pseudonymise, by, key, request)
        except InputError:  # someone else may have done the same meanwhile
            if key is None or (before := self._created(key, request)) is None:
                raise
            return before

    def _create(
        self,
        settings: Settings,
        history: StateLog | None,
        pseudonymise: bool,
        by: str,
        key: str | None,
        request: list[Any],
    ) -> Receipt:
        """Make the programme in one transaction."""
        secret, identity = randomness.new_secret(), secrets.token_hex(16)
        names = secrets.token_bytes(32) if pseudonymise else b""
        with self.store.creating(str(self._name), identity, secret + names) as session:
            work = Work(session)
            said = {"name": self._name, "secret": randomness.secret_hash(secret), "versions": versions()}
            work.append("create", {**settings.body(), **said}, None, by)
            if history is not None:
                _take_in_history(work, history, by)
            work.save()
            made = receipt(work, "create", 0, entries=session.length)
            if key is not None:
                session.keep_answer(key, _asked(session, "create", request), json.dumps(asdict(made)))
            return made

    def _created(self, key: str, request: list[Any]) -> Receipt | None:
        """Return what came of a creation with this key, in whichever programme of the store; None if there was none."""
        for name in self.store.names():
            with self.store.reading(name) as session:
                if (found := _answered(session, "create", request, key)) is not None:
                    return found
        return None

    def change(
        self,
        *,
        budget: Any = None,
        policy: Any = None,
        floor: float | None = None,
        rules: Rules | None = None,
        source: str | None = None,
        part: str = "",
        reason: str = "",
        by: str = "",
        key: str | None = None,
    ) -> Receipt:
        """Change settings from the next round on; in a trial those of one part. It needs a reason and a name."""
        check_by(by, needed="a change of settings")
        if not reason.strip():
            raise InputError("a change of settings needs a reason")

        def do(work: Work) -> Receipt:
            new = work.state.settings.changed(
                part, budget=budget, policy=policy, floor=floor, rules=rules, source=source
            )
            randomness.check_can_use(new.source)
            body = new.body()
            said = {name: body[name] for name in ("parts", "rules", "source")} | {"reason": reason.strip()}
            work.append("change", said, None, by)
            return receipt(work, "change", work.state.summary.round)

        named = policy if isinstance(policy, str) or policy is None else repr(policy)
        request = [
            budget,
            named,
            None if floor is None else repr(floor),
            None if rules is None else rules.settings(),
            source,
            part,
            reason,
            by,
        ]
        return self._write("change", request, key, do)

    # ---- who takes part

    def enrol(
        self, people: People | Sequence[str], *, by: str = "", key: str | None = None, dry_run: bool = False
    ) -> Receipt:
        """Let people join; those who were there before come back with all that is known of them.

        A `dry_run` of this verb, of `report` or of `correct` checks all and returns the receipt, and keeps nothing.
        """
        given = people if isinstance(people, People) else People(people)

        def do(work: Work) -> Receipt:
            enrolling.enrol(work, given, by)
            return receipt(work, "enrol", work.state.summary.round, len(given))

        request = [given.ids, given.group, given.staff, given.features, by]
        return self._write("enrol", request, key, do, dry_run=dry_run)

    def withdraw(self, ids: str | Sequence[str], *, reason: str = "", by: str = "", key: str | None = None) -> Receipt:
        """Let people leave; what is known of them stays, for when they come back.

        Whoever leaves, or is away, raises the chances of the others. So a `reason` is needed, and kept in the ledger,
        once more than a tenth of those enrolled (and more than 3) are taken out between two draws, or so many that
        fewer than twice the budget are left.
        """
        given, why = check_ids(ids), reason.strip()

        def do(work: Work) -> Receipt:
            enrolling.leave(work, given, why, by)
            return receipt(work, "withdraw", work.state.summary.round, len(given))

        return self._write("withdraw", [given, why, by], key, do)

    def away(
        self,
        ids: str | Sequence[str],
        *,
        back: bool = False,
        reason: str = "",
        by: str = "",
        key: str | None = None,
    ) -> Receipt:
        """Note that people cannot be drawn for now, or are back; it needs the name of who says so.

        Many who are away need a `reason`, as with `withdraw`.
        """
        given, why = check_ids(ids), reason.strip()
        check_by(by, needed="a change of who is away")

        def do(work: Work) -> Receipt:
            entry = enrolling.set_away(work, given, not back, why, by)
            taken = 0 if entry is None or entry.table is None else int(entry.table["rows"])
            return receipt(work, "away", work.state.summary.round, taken, len(given) - taken, entries=int(taken > 0))

        return self._write("away", [given, back, why, by], key, do)

    def erase(self, id_: str | int, *, by: str = "", key: str | None = None) -> Receipt:
        """Delete who someone is, for good: id, salt, group, staff and reasons. They must have left before.

        They are named by their id, or by their number in the ledger.
        """
        check_by(by, needed="to erase someone")

        def do(work: Work) -> Receipt:
            enrolling.erase(work, id_, by)
            return receipt(work, "erase", work.state.summary.round, 1)

        named = id_ if isinstance(id_, int) else sha256(id_.encode()).hex()
        return self._write("erase", [named, by], key, do)

    # ---- rounds

    def draw(
        self,
        *,
        states: Outcomes | None = None,
        budget: Any = None,
        away: str | Sequence[str] = (),
        value: str | None = None,
        reason: str = "",
        by: str = "",
        key: str | None = None,
    ) -> Round:
        """Draw the next round: who is there, what each is due, the chances and the draw are recorded at once.

        There is one draw for each round: while a round is open, the same call returns the same draw. Then its head is
        kept elsewhere, if the store says where (`meritfair.programme.keeping`).

        Parameters
        ----------
        states : Outcomes, optional
            States observed now, in its column `before`.
        budget : int or mapping, optional
            How many are drawn in this round alone; in a trial by part.
        away : str or sequence of str
            Those who cannot be drawn from now on, until they are back; as by the verb `away`, in the same transaction.
        value : str, optional
            If the programme has a public source of randomness, a round is committed first, and drawn when the value
            that it waits for is given.
        reason : str
            Why the budget is another than that of the settings, or why so many are away; it is kept in the ledger.
        by, key : str
        """
        absent, why = check_ids(away), reason.strip()
        if absent:
            check_by(by, needed="a change of who is away")

        new: KeptHead | None = None  # if this call adds entries

        def do(work: Work) -> Receipt:
            nonlocal new
            before = work.session.length
            rounds.next_round(work, states, budget, value, by, absent, why)
            added = work.session.length - before
            new = kept_head(work) if added else None
            return receipt(work, "draw", work.state.summary.round, entries=added)

        seen = None if states is None else [states.ids, states.before.tolist()]
        asked = None if budget is None else repr(budget)
        found = self._write("draw", [seen, asked, absent, value, why, by], key, do)
        unkept = "" if new is None else keep_head(self.store, new)
        return replace(self.round(found.round), warning=" ".join(filter(None, (found.warning, unkept))))

    def preview(self, *, states: Outcomes | None = None, budget: Any = None) -> tuple[PlannedRound, tuple[Drawn, ...]]:
        """Return what the next draw would be committed to, for everyone enrolled; nothing is drawn, nothing is kept."""
        with self.store.reading(self.name) as session:
            return rounds.preview(self._work(session), states, budget)

    def round(self, number: int | None = None) -> Round:
        """Return a round, by default the last one."""
        with self.store.reading(self.name) as session:
            return rounds.read_round(self._work(session), number)

    def report(
        self,
        outcomes: Outcomes,
        *,
        round: int | None = None,  # noqa: A002
        by: str = "",
        key: str | None = None,
        dry_run: bool = False,
    ) -> Receipt:
        """Take in what was done and seen in a round, by default the last one: whole or in part, now or later."""

        def do(work: Work) -> Receipt:
            return reporting.report(work, outcomes, round, by)

        return self._write("report", _request(outcomes, round, by), key, do, dry_run=dry_run)

    def correct(
        self,
        outcomes: Outcomes,
        *,
        round: int | None = None,  # noqa: A002
        reason: str = "",
        by: str = "",
        key: str | None = None,
        dry_run: bool = False,
    ) -> Receipt:
        """Correct what was reported of a round; it needs a reason and a name."""
        check_by(by, needed="a correction")

        def do(work: Work) -> Receipt:
            return reporting.correct(work, outcomes, round, reason, by)

        return self._write("correct", [*_request(outcomes, round, by), reason], key, do, dry_run=dry_run)

    def close(
        self,
        *,
        round: int | None = None,  # noqa: A002
        by: str = "",
        key: str | None = None,
    ) -> Receipt:
        """End the open round, if it is this one; what comes later can still be reported."""

        def do(work: Work) -> Receipt:
            summary = work.state.summary
            if summary.phase == CLOSED:
                raise InputError("no round is open")
            if round not in (None, summary.round):
                raise InputError(f"round {summary.round} is open, not round {round}")
            work.append("close", {"round": summary.round}, None, by)
            return receipt(work, "close", summary.round)

        return self._write("close", [by] if round is None else [round, by], key, do)

    def end(self, *, by: str = "", key: str | None = None) -> Receipt:
        """End the programme and publish the secret, so that anyone can check the seeds of all draws."""
        check_by(by, needed="to end a programme")

        def do(work: Work) -> Receipt:
            if work.state.summary.phase != CLOSED:
                raise InputError(f"round {work.state.summary.round} must be closed before the programme ends")
            work.append("end", {"secret": work.secret.hex()}, None, by)
            return receipt(work, "end", work.state.summary.round)

        return self._write("end", [by], key, do)

    # ---- looking

    def status(self) -> Status:
        """Return how the programme stands."""
        with self.store.reading(self.name) as session:
            return status_of(self._work(session))

    def log(self) -> StateLog:
        """Return all that happened as a log, as `fit`, `effect` and `whatif` read it."""
        from meritfair.programme.records import names_of, records, state_log

        with self.store.reading(self.name) as session:
            work = self._work(session)
            return state_log(work, records(work), names_of(work))

    def person(self, id_: str, *, round: int | None = None) -> PersonReport:  # noqa: A002
        """Return why someone was drawn or not: what was seen, what they are due, their account, every round.

        Parameters
        ----------
        id_ : str
        round : int, optional
            As it was known after this round; by default as it is known now.
        """
        from meritfair.programme.showing.person import person_of

        with self.store.reading(self.name) as session:
            return person_of(self._work(session), id_, round=round)

    def audit(self, *, alpha: float = 0.05) -> ProgrammeReport:
        """Return for a board whether the programme was fair: due, given, drawn and reached, accounts, waits, effect.

        Parameters
        ----------
        alpha : float
            The probability that fair draws ever raise an alarm.
        """
        from meritfair.programme.showing.report import report_of

        with self.store.reading(self.name) as session:
            return report_of(self._work(session), alpha=alpha)

    def proof(self, id_: str | int) -> dict[str, Any]:
        """Return what one person needs to prove what was recorded of them, as plain values.

        They are named by their id, or by their number in the ledger.
        """
        from meritfair.programme.exporting import proof

        with self.store.reading(self.name) as session:
            return proof(Work(session), id_)

    def verify(self, *, heads: Sequence[str] = (), progress: Progress = None) -> Verification:
        """Check the whole ledger: its chain, every draw, and that exposures follow from what was recorded.

        Parameters
        ----------
        heads : sequence of str
            Heads that were kept elsewhere, or short codes of them; each must be in the ledger.
        progress : bool or callable, optional
        """
        from meritfair.programme.verifying import verify

        with self.store.reading(self.name) as session:
            return verify(session, heads, progress)

    def export(self, folder: str | PathLike[str], *, anonymous: bool = False) -> Path:
        """Write the ledger with a verifier of its own into a folder; without `anonymous`, what is private too."""
        from meritfair.programme.exporting import write_export

        with self.store.reading(self.name) as session:
            return write_export(session, Path(folder), anonymous)

    def import_(self, folder: str | PathLike[str]) -> Receipt:
        """Make the programme from an export that is not anonymous, with the same head."""
        from meritfair.programme.exporting import read_export

        return read_export(self.store, self._name, Path(folder))

    # ---- once

    def _work(self, session: Session) -> Work:
        return Work(session, None if self._known is None else self._known(session))

    def _write(
        self,
        verb: str,
        request: list[Any],
        key: str | None,
        do: Callable[[Work], Receipt],
        *,
        dry_run: bool = False,
    ) -> Receipt:
        """Do something in one transaction, and once for each key; a dry run undoes it again."""
        if dry_run:
            return self._undone(do)
        with self.store.writing(self.name) as session:
            if key is not None and (before := _answered(session, verb, request, key)) is not None:
                return before
            if self._expected and self._expected != session.head.hex():
                raise HeadMovedError(f"something was entered since the head {self._expected}: look again before you do")
            work = self._work(session)
            found = do(work)
            work.save()
            if key is not None:
                session.keep_answer(key, _asked(session, verb, request), json.dumps(asdict(found)))
            return found

    def _undone(self, do: Callable[[Work], Receipt]) -> Receipt:
        """Do something in a transaction that is rolled back: what it refuses and what it would change is then known."""
        try:
            with self.store.writing(self.name) as session:
                head = session.head.hex()
                raise _UndoneError(replace(do(self._work(session)), head=head))
        except _UndoneError as undone:
            return undone.receipt


def _asked(session: Session, verb: str, request: list[Any]) -> bytes:
    """Return what stands for a request, and tells nothing of it to those who do not know the secret."""
    return hmac.digest(session.secret, canonical([verb, request]), "sha256")


def _answered(session: Session, verb: str, request: list[Any], key: str) -> Receipt | None:
    """Return what a request with this key was answered, None if there was none; refuse another request."""
    kept = session.answer(key)
    if kept is None:
        return None
    if kept[0] != _asked(session, verb, request):
        raise KeyConflictError(f"the key {key!r} was used before, for another request")
    return Receipt(**json.loads(kept[1]))


class _UndoneError(Exception):
    """Ends the transaction of a dry run."""

    def __init__(self, receipt: Receipt) -> None:
        super().__init__()
        self.receipt = receipt


def _request(outcomes: Outcomes, round_: int | None, by: str) -> list[Any]:
    columns = [getattr(outcomes, name).tolist() for name in ("before", "action", "after")]
    return [outcomes.ids, *columns, dict(outcomes.reasons), round_, by]


def _take_in_history(work: Work, history: StateLog, by: str) -> None:
    """Enrol those of a log, and take in its rounds as those before the first."""
    features = {name: history.features[name] for name in work.state.settings.features if name in history.features}
    group, staff = (history.features.get(name) for name in ("group", "staff"))
    enrolling.enrol(work, People(list(history.arms), group, staff, features), by)
    rounds_ = history.rounds - history.rounds.max()
    after = np.where(history.followed, np.append(history.states[1:], -1), -1)
    columns = {"number": history.arm, "round": rounds_, "before": history.states, "action": history.actions}
    body = {"rounds": int(1 - rounds_.min())}
    order = np.lexsort((history.arm, rounds_))
    table = {name: np.asarray(column)[order] for name, column in {**columns, "after": after}.items()}
    work.append("history", body, table, by)


def open(url: str | None = None, name: str | None = None) -> Programme:  # noqa: A001
    """Open a programme.

    Parameters
    ----------
    url : str, optional
        Where it is kept: ``sqlite:///calls.db``, the path of an SQLite file, or ``postgresql://user@host/name``. By
        default the environment variable MERITFAIR_STORE or, if that is not set, an SQLite file in the user's data
        folder.
    name : str, optional
        Which programme of the store; by default the only one. A new one needs a name.
    """
    return Programme(Store(url), name)
