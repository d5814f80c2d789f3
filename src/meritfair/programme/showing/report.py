"""The audit of a programme for its board: what people were due, given, drawn and reached, and what came of it.

Everything is worked out from the ledger: the draws against the chances that were committed before them, with evidence
that may be looked at at any time; accounts and waits; overrides; data that are missing, late or corrected; what was
learned, and whether being drawn helps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from meritfair.auditing.report import Audit
from meritfair.auditing.weighing import audit
from meritfair.core.arrays import FloatArray, IntArray
from meritfair.core.checks import check_number
from meritfair.core.errors import InputError
from meritfair.datasets.logs import StateLog
from meritfair.datasets.missing import MissingStates, missing_states, unseen_states
from meritfair.effects.estimate import effect
from meritfair.effects.report import Effect
from meritfair.model.improbable import Improbable, improbable
from meritfair.programme.records import Records, draw_log, names_of, records, state_log
from meritfair.programme.settings import Settings
from meritfair.programme.showing.happenings import Happenings, plain_change
from meritfair.programme.showing.learned import Learned, learned_of
from meritfair.programme.showing.steering import Steering, steering_of
from meritfair.programme.showing.tallying import Standings, Tally
from meritfair.programme.showing.trial_tables import TrialTables, trial_tables
from meritfair.programme.showing.waits import allowing_for
from meritfair.programme.state import CLOSED
from meritfair.programme.verifying import Verification
from meritfair.programme.view import NO_GROUP, ProgrammeView
from meritfair.programme.work import Work, versions


@dataclass(frozen=True)
class Overrides:
    """Who was reached without being drawn.

    Attributes
    ----------
    number : int
    by : dict of str to int
        Who has reported them, and how many.
    reasons, different, commonest : int
        How many reasons are still kept, how many different ones, and how often the commonest was given.
    """

    number: int
    by: dict[str, int]
    reasons: int
    different: int
    commonest: int


@dataclass(frozen=True, eq=False)
class ProgrammeReport:
    """What a board is shown of a programme; made by `report_of`.

    Attributes
    ----------
    name, identity, head, time : str
        Of the programme, and the hash and time of its last entry.
    entries, rounds, enrolled, away, left, erased : int
    settings : Settings
        Those in force.
    alpha : float
        The probability with which fair draws are ever accused of anything.
    audit : Audit
        Whether the draws followed the chances.
    people, groups : Tally
        Sums for everyone who was ever in a draw, and by group of these people; one group of all if nobody has one.
    numbers : ndarray of int
        In the ledger, of those in `people`.
    group : tuple of str
        Of those in `people`.
    standings : Standings
        Their accounts and waits.
    overrides : Overrides
    happened : Happenings
        Late reports, corrections, and changes of settings.
    unchecked : int
        Rounds that were drawn with public values that no program can check.
    steering : Steering
        Whether anyone could have steered the draws.
    missing : MissingStates
        How often states are missing after what.
    improbable : Improbable
        Whose outcomes are improbable beside those of the others.
    seen : tuple of int
        The numbers in the ledger of those in `improbable`.
    learned : tuple of Learned
        By part, of those in which somebody was reached.
    effect : Effect or None
        Whether being drawn helps; None while that cannot be said, `no_effect` says why.
    no_effect : str
    trial : TrialTables or None
    verification : Verification or None
        What came of a verification, if one was made.
    """

    name: str
    identity: str
    head: str
    time: str
    entries: int
    rounds: int
    enrolled: int
    away: int
    left: int
    erased: int
    settings: Settings
    alpha: float
    audit: Audit
    people: Tally
    groups: Tally
    numbers: IntArray
    group: tuple[str, ...]
    standings: Standings
    overrides: Overrides
    happened: Happenings
    unchecked: int
    steering: Steering
    missing: MissingStates
    improbable: Improbable
    seen: tuple[int, ...]
    learned: tuple[Learned, ...]
    effect: Effect | None
    no_effect: str
    trial: TrialTables | None
    verification: Verification | None

    @property
    def has_groups(self) -> bool:
        """Whether people have groups."""
        return self.audit.groups is not None

    @cached_property
    def within_slack(self) -> bool:
        """Whether every account stayed within the slack of its policy in every round."""
        return not self.standings.beyond.any()

    @cached_property
    def total(self) -> dict[str, float]:
        """The sums over everyone."""
        names = ("due", "given", "drawn", "reached", "not_reached", "not_reported", "overrides", "states", "missing")
        return {name: float(vars(self.groups)[name].sum()) for name in names}

    @property
    def verdict(self) -> str:
        """What was found, in a few sentences."""
        from meritfair.programme.showing.report_words import verdict_of

        return verdict_of(self)

    def least_likely_waits(self, most: int) -> IntArray:
        """Return the places of those whose longest wait was least likely, the least likely first."""
        found = self.standings
        return np.lexsort((-found.wait, found.probability))[:most]

    def improbable_people(self) -> list[dict[str, Any]]:
        """Return a row for each whose outcomes are improbable beside those of the others, by number in the ledger."""
        rows = self.improbable.rows(self.seen)
        return [{"number": row.pop("arm"), **row} for row in rows]

    def farthest_behind(self, most: int) -> IntArray:
        """Return the places of people, those first who were drawn least often compared with what they were due."""
        return np.argsort(-(self.people.due - self.people.drawn), kind="stable")[:most]

    def to_dict(self, *, people: bool = True) -> dict[str, Any]:
        """Return all of it as plain values; without a row for everyone if it is not wanted."""
        flat = ("name", "identity", "head", "time", "entries", "rounds", "enrolled", "away", "left", "erased", "alpha")
        return {
            "verdict": self.verdict,
            **{name: vars(self)[name] for name in flat},
            "settings": self.settings.body(),
            "evidence": self.audit.overall.values() | {"alpha": self.alpha, "power": self.audit.power},
            "within_slack": self.within_slack,
            "total": self.total,
            "groups": self._groups(),
            **({"people": self._people()} if people else {}),
            "overrides": asdict(self.overrides),
            "late": {
                "reported": self.happened.reported,
                "late": self.happened.late,
                "after_draws": self.happened.delays,
            },
            "corrections": {"number": self.happened.corrected, "by": self.happened.corrected_by},
            "noted_as_away_by": self.happened.away_by,
            "changes": [plain_change(each) for each in self.happened.changes],
            "unchecked": self.unchecked,
            "steering": self.steering.to_dict(),
            "missing": self.missing.to_dict(),
            "improbable": {"alpha": self.improbable.alpha, "people": self.improbable_people()},
            "learned": [each.to_dict() for each in self.learned],
            "effect": None if self.effect is None else _plain_effect(self.effect),
            "no_effect": self.no_effect,
            "trial": None if self.trial is None else self.trial.to_dict(),
            "verification": None if self.verification is None else _plain(self.verification),
            "versions": versions(),
        }

    def _groups(self) -> list[dict[str, Any]]:
        rows, table = self.groups.rows("group"), self.audit.groups
        if table is None:
            return rows
        weighed = zip(table.low.tolist(), table.high.tolist(), table.flagged.tolist(), strict=True)
        found = dict(zip(table.names, weighed, strict=True))
        return [row | dict(zip(("low", "high", "flagged"), found[row["group"]], strict=True)) for row in rows]

    def _people(self) -> list[dict[str, Any]]:
        """Return a row for everyone, with account and wait."""
        known, arms = self.standings, self.audit.arms
        flagged = dict(zip(arms.names, arms.flagged.tolist(), strict=True))
        more = {name: vars(known)[name].tolist() for name in ("account", "farthest", "beyond", "wait", "wait_end")}
        rows = self.people.rows("id")
        for k, row in enumerate(rows):
            row |= {"number": int(self.numbers[k]), "group": self.group[k], "flagged": flagged[row["id"]]}
            row |= {name: values[k] for name, values in more.items()}
            row["wait_probability"] = float(known.probability[k])
            row["allowing_for_all"] = allowing_for(row["wait_probability"], len(rows))
        return rows


def report_of(work: Work, *, alpha: float = 0.05, verification: Verification | None = None) -> ProgrammeReport:
    """Return the audit of a programme, for its board.

    Parameters
    ----------
    work : Work
    alpha : float
        The probability with which fair draws may ever be accused of anything, however often the report is made.
    verification : Verification, optional
        What `verify` has found, to be shown.
    """
    level = check_number("alpha", alpha, 0.0, 1.0, open_ends=True)
    state, session = work.state, work.session
    found = records(work)
    if not len(found.number):
        raise InputError("there was no draw yet, so there is nothing to report on")
    happened = Happenings.of(work)
    names, (groups, group) = names_of(work), groups_of(work)
    drawn_from = np.unique(group[found.number])  # a newcomer's group may not have been in a draw yet
    ended = np.full(len(found.number), state.summary.phase == CLOSED) | (found.round < state.summary.round)
    there, place = np.flatnonzero(np.bincount(found.number)), np.full(state.people, -1)
    place[there] = np.arange(len(there))
    slack = np.array(happened.slack)[found.round - 1, found.part]
    log, number_of = state_log(work, found, names), {name: number for number, name in enumerate(names)}
    learned = learned_of(state, groups, group, _unseen(log, names))
    helps, why = _effect(log, len(drawn_from) > 1)
    return ProgrammeReport(
        name=session.name,
        identity=session.identity,
        head=session.head.hex(),
        time=state.summary.time,
        entries=session.length,
        rounds=int(found.round.max()),
        enrolled=int(state.here.sum()),
        away=int((state.here & state.away).sum()),
        left=int(state.people - state.here.sum()),
        erased=len(happened.erased),
        settings=state.settings,
        alpha=level,
        audit=audit(draw_log(work, found, names), level, fixed_budget=True, slack=_one_slack(slack)),
        people=Tally.of([names[number] for number in there], place, found, ended),
        groups=Tally.of([groups[k] for k in drawn_from], np.searchsorted(drawn_from, group), found, ended),
        numbers=there,
        group=tuple(groups[group[number]] for number in there),
        standings=Standings.of(found, slack),
        overrides=_overrides(work, found, happened),
        happened=happened,
        unchecked=state.summary.unchecked,
        steering=steering_of(work, found),
        missing=missing_states(log),
        improbable=improbable(log.counts, level),
        seen=tuple(number_of[name] for name in log.arms),
        learned=learned.result(),
        effect=helps,
        no_effect=why,
        trial=None if state.settings.trial is None else trial_tables(work, found, happened, ended),
        verification=verification,
    )


def groups_of(view: ProgrammeView) -> tuple[list[str], IntArray]:
    """Return the groups that there are, and which of them each participant belongs to; one of all if there are none."""
    if not view.state.summary.levels.get("group"):
        return ["all"], np.zeros(view.state.people, np.int64)
    texts = [text or NO_GROUP for text in view.state.texts("group")]
    names = sorted(set(texts), key=lambda text: (text == NO_GROUP, text))
    places = {name: place for place, name in enumerate(names)}
    return names, np.array([places[text] for text in texts], np.int64)


def _unseen(log: StateLog, names: Sequence[str]) -> tuple[IntArray, IntArray]:
    """Return by participant how often state and action were known, and how often then not the state after."""
    place = {name: number for number, name in enumerate(names)}
    who = [place[name] for name in log.arms]
    visits, missing = np.zeros((2, len(names), 2, 2), np.int64)
    visits[who], missing[who] = unseen_states(log)
    return visits, missing


def _plain_effect(found: Effect) -> dict[str, Any]:
    return {"verdict": str(found), "table": found.rows(), "sensitivity": found.sensitivity.to_dict()}


def _one_slack(slack: FloatArray) -> float | None:
    """Return the slack of all parts and rounds that have one, if it is the same."""
    found = np.unique(slack[np.isfinite(slack)])
    return float(found[0]) if len(found) == 1 else None


def _effect(log: StateLog, by_group: bool) -> tuple[Effect | None, str]:
    """Return whether being drawn helps; or None, and why that cannot be said."""
    try:
        return effect(log, group="group" if by_group else None), ""
    except InputError as error:
        return None, str(error)


def _overrides(work: Work, found: Records, happened: Happenings) -> Overrides:
    """Return who was reached without being drawn, as it is known now."""
    rows = np.flatnonzero((found.drawn == 0) & (found.action == 1))
    made = [(int(found.round[row]), int(found.number[row])) for row in rows]
    entries = [happened.overrides[each] for each in made]
    notes = {(seq, number): text for seq, number, text in work.session.notes()}
    kept = [notes.get((seq, number)) for (_, number), (_, seq) in zip(made, entries, strict=True)]
    reasons = Counter(text.strip().casefold() for text in kept if text)
    by = dict(Counter(by for by, _ in entries).most_common())
    return Overrides(len(made), by, reasons.total(), len(reasons), max(reasons.values(), default=0))


def _plain(found: Verification) -> dict[str, Any]:
    return {**asdict(found), "problems": [str(each) for each in found.problems], "whole": found.whole}
