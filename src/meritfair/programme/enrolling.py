r"""Who takes part: enrolling, leaving, being away, and being erased.

**Ids.** The ledger does not hold an id but its hash together with a random salt. The salts are in the database alone.
Whoever is given an id and its salt can check which participant it is; when the salt is deleted, nobody can any more,
and the ledger stays as it was.

**Trials.** In a trial everyone is randomised into a part when they first enrol, in *permuted blocks*: within a stratum,
each block of twice the sum of all shares has exactly the stated shares, in an order that follows from the secret. So
parts stay balanced whenever people enrol, and when the secret is published anyone can check all of them. Nobody without
the secret can foresee an assignment, but for the last ones of a block: whoever sees in which parts the others are can
tell what is left of it. Who enrols others first, such as people who do not exist, can bring someone into the part that
they want; the audit shows people who joined and left after few rounds or none.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from meritfair.core.arrays import BoolArray, IntArray
from meritfair.core.errors import InputError
from meritfair.core.language import _
from meritfair.programme.columns import level_column
from meritfair.programme.inputs import ParticipantError, People, ReasonNeededError
from meritfair.programme.ledger.canonical import canonical, sha256
from meritfair.programme.ledger.entries import Entry
from meritfair.programme.ledger.lottery import Stream
from meritfair.programme.settings import Settings
from meritfair.programme.state import State
from meritfair.programme.work import Work

_SALT = 16  # bytes
_BLOCK = 2  # times the sum of all shares
_FEW, _PART = 3, 10  # people who may be taken out between two draws without a reason: so few, or one in so many


def enrol(work: Work, people: People, by: str) -> Entry:
    """Let people join, or come back."""
    state, names = work.state, work.names(people.ids)
    if not len(people):
        raise InputError("nobody is named who should enrol")
    known = work.session.numbers_of(names)
    again = [known[name] for name in names if name in known]
    here = state.here
    for row, (id_, name) in enumerate(zip(people.ids, names, strict=True)):
        if name in known and here[known[name]]:
            raise ParticipantError(f"the participant {id_!r} is enrolled already", row)
    order = sorted(range(len(names)), key=lambda place: known.get(names[place], len(here) + place))
    new = [place for place in order if names[place] not in known]
    numbers = np.array([*sorted(again), *range(state.people, state.people + len(new))], np.int64)
    salts = {each.number: each.salt for each in work.session.people(again)} if again else {}
    made = [secrets.token_bytes(_SALT) for _ in new]
    all_salts = [salts[number] for number in sorted(again)] + made
    who = [sha256(salt, names[place].encode()) for salt, place in zip(all_salts, order, strict=True)]
    levels, codes = _levels(work, people, order, numbers)
    parts = _parts(work, numbers, levels, codes)
    entry = work.append("enrol", {"levels": levels}, {"number": numbers, "who": who, "part": parts, **codes}, by)
    group, staff = (_in_order(column, order) for column in (people.group, people.staff))
    _keep_people(work, [names[place] for place in order], numbers, made, group, staff)
    return entry


def _in_order(column: Sequence[str] | None, order: list[int]) -> list[str] | None:
    return None if column is None else [column[place] for place in order]


def _keep_people(
    work: Work,
    names: list[str],
    numbers: IntArray,
    salts: list[bytes],
    group: list[str] | None,
    staff: list[str] | None,
) -> None:
    """Write who these people are, outside of the ledger."""
    back = len(numbers) - len(salts)
    empty = [""] * len(numbers)
    if back:
        work.session.update_people(numbers[:back].tolist(), group and group[:back], staff and staff[:back])
    if salts:
        rest = (group or empty)[back:], (staff or empty)[back:]
        work.session.add_people(numbers[back:].tolist(), names[back:], salts, *rest)


def _levels(
    work: Work, people: People, order: list[int], numbers: IntArray
) -> tuple[dict[str, list[str]], dict[str, list[int]]]:
    """Return for the group and each feature the values in this entry, and for each participant the place of theirs."""
    state, wanted = work.state, work.state.settings.features
    for name in people.features:
        if name not in wanted:
            raise InputError(
                f"the programme has no feature {name!r}; it was created with " + (", ".join(wanted) or "no features")
            )
    columns = {"group": people.group, **{name: people.features.get(name) for name in wanted}}
    levels, codes = dict[str, list[str]](), dict[str, list[int]]()
    for name, column in columns.items():
        if column is None and name == "group" and "group" not in state.summary.levels:
            continue
        before = [""] * len(order) if column is None else [column[place] for place in order]
        levels[name], codes[name] = level_column([], _kept(state, name, before, numbers))
    return levels, codes


def _kept(state: State, name: str, values: list[str], numbers: IntArray) -> list[str]:
    """Return values in which those who come back, and of whom nothing new is said, have what they had."""
    back = [place for place, number in enumerate(numbers) if number < state.people and not values[place]]
    if back:
        known = state.texts(name)
        for place in back:
            values[place] = known[numbers[place]]
    return values


def _parts(work: Work, numbers: IntArray, levels: Mapping[str, list[str]], codes: Mapping[str, list[int]]) -> IntArray:
    """Return to which part each belongs: those who come back to theirs, the others as the trial assigns them."""
    state = work.state
    parts = np.zeros(len(numbers), np.int64)
    back = numbers < state.people
    parts[back] = state.part[numbers[back]]
    if state.settings.trial is None:
        return parts
    strata = state.settings.trial.strata
    new = [[levels[name][codes[name][place]] for name in strata] for place in np.flatnonzero(~back)]
    parts[~back] = Assignment(work.secret, state.settings, strata_of(state)).next(new)
    return parts


def strata_of(state: State) -> dict[bytes, int]:
    """Return how many of each stratum were assigned so far."""
    counts = dict[bytes, int]()
    if state.settings.trial is None or not state.people:
        return counts
    names = state.settings.trial.strata
    columns: list[Any] = [state.texts(name) for name in names]
    for values in zip(*columns, strict=True) if columns else [()] * state.people:
        key = canonical(list(values))
        counts[key] = counts.get(key, 0) + 1
    return counts


class Assignment:
    """Randomises people into the parts of a trial, one after another.

    Parameters
    ----------
    secret : bytes
    settings : Settings
    assigned : mapping of bytes to int
        How many of each stratum were assigned before.

    Examples
    --------
    >>> from meritfair.programme.settings import Part
    >>> two = Settings((Part(1, name="calls"), Part(0, "none", name="control")))
    >>> Assignment(bytes(32), two, {}).next([["north"]] * 8)
    [0, 1, 1, 0, 0, 0, 1, 1]
    """

    def __init__(self, secret: bytes, settings: Settings, assigned: Mapping[bytes, int]) -> None:
        self._secret, self._assigned = secret, dict(assigned)
        shares = [part.share for part in settings.parts]
        self._block = np.repeat(np.arange(len(shares)), [_BLOCK * share for share in shares])

    def next(self, strata: Sequence[Sequence[str]]) -> list[int]:
        """Return the parts of the next people, of these strata."""
        parts = []
        for values in strata:
            key = canonical(list(values))
            place = self._assigned.get(key, 0)
            self._assigned[key] = place + 1
            block, within = divmod(place, len(self._block))
            parts.append(int(self._shuffled(key, block)[within]))
        return parts

    def _shuffled(self, stratum: bytes, block: int) -> IntArray:
        """Return the order of a block, which follows from the secret."""
        message = canonical(["block", stratum.decode(), block])
        seed = hmac.new(self._secret, message, hashlib.sha256).digest()
        keys = Stream(seed).take(len(self._block))
        return np.asarray(self._block[np.argsort(keys, kind="stable")])


def leave(work: Work, ids: Sequence[str], reason: str, by: str) -> Entry:
    """Let people leave; what is known of them stays."""
    numbers = np.sort(work.numbers(ids, enrolled=True))
    _check_taken_out(work, numbers, reason)
    return work.append("withdraw", {"reason": reason}, {"number": numbers}, by)


def set_away(work: Work, ids: Sequence[str], away: bool, reason: str, by: str) -> Entry | None:
    """Note that people are away, or back; None if that was known already."""
    numbers = np.sort(work.numbers(ids, enrolled=True))
    numbers = numbers[work.state.away[numbers] != away]
    if not len(numbers):
        return None
    if away:
        _check_taken_out(work, numbers, reason)
    columns = {"number": numbers, "away": np.full(len(numbers), int(away))}
    return work.append("away", {"reason": reason}, columns, by)


def _check_taken_out(work: Work, numbers: IntArray, reason: str) -> None:
    """Refuse to take out more people between two draws than may be without a reason."""
    if reason:
        return
    state = work.state
    before, left = _before(work), state.here & ~state.away
    before |= left
    left[numbers] = False
    out, enrolled = int((before & ~left).sum()), int((before | state.here).sum())
    most = max(_FEW, enrolled // _PART)
    if out > most:
        said = _(
            "{out} of {enrolled} participants would be taken out since the last draw, more than the {most} who may be "
            "without a reason (a tenth of those enrolled, or {few})"
        )
        raise ReasonNeededError(said.format(out=out, enrolled=enrolled, most=most, few=_FEW))
    for place, part in enumerate(state.settings.parts):
        twice, own = 2 * part.budget_in(state.summary.round + 1), state.part == place
        had, rest = int((before & own).sum()), int((left & own).sum())
        if rest < twice <= had:
            said = _(
                "{rest} of {had} participants who could be drawn would be left, fewer than twice the budget of {budget}"
            )
            raise ReasonNeededError(said.format(rest=rest, had=had, budget=twice // 2))


def _before(work: Work) -> BoolArray:
    """Return who could be drawn in the last draw, or has joined or come back since."""
    state = work.state
    there = np.zeros(state.people, np.bool_)
    last = state.summary.commits[-1] if state.summary.commits else 0
    for entry, _digest in work.heads(last):
        if entry.kind not in ("commit", "enrol", "away"):
            continue
        _, table = work.entry(entry.seq)
        assert table is not None
        there[table["number"] if entry.kind == "enrol" else table["number"][table["away"] == 0]] = True
    return there


def erase(work: Work, id_: str | int, by: str) -> Entry:
    """Delete who a participant is; their rows stay in the ledger, as those of nobody."""
    number = work.number(id_)
    entry = work.append("erase", {}, {"number": [number]}, by)
    work.session.erase(number)
    return entry
