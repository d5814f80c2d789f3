"""A round: plan, commit, draw; what is committed is in the ledger before the seed of the draw is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from meritfair.core.arrays import BoolArray, IntArray
from meritfair.core.checks import check_whole
from meritfair.core.errors import InputError
from meritfair.core.language import _
from meritfair.programme.enrolling import set_away
from meritfair.programme.inputs import Outcomes, ReasonNeededError
from meritfair.programme.ledger import randomness
from meritfair.programme.ledger.entries import Entry, format_time, make_table, parse_time
from meritfair.programme.ledger.lottery import DESIGN, ONE, Stream, draw_once
from meritfair.programme.ledger.rowtable import RowTable
from meritfair.programme.planning import PlannedRound, plan_round, unknown_states
from meritfair.programme.state import CLOSED, COMMITTED, OPEN
from meritfair.programme.view import ProgrammeView, Texts
from meritfair.programme.work import Work, versions


@dataclass(frozen=True)
class Drawn:
    """Someone in a draw.

    Attributes
    ----------
    id, group, staff : str
    number : int
    due, chance : float
        What they were due in the round, and with which chance they were drawn.
    state : int
        The state that was observed at the start of the round; -1 if none was.
    """

    id: str
    number: int
    group: str
    staff: str
    due: float
    chance: float
    state: int


@dataclass(frozen=True)
class Round:
    """A round of a programme.

    Attributes
    ----------
    number : int
        From 1.
    phase : {"committed", "open", "closed"}
        It is ``committed`` while it waits for a public random value.
    people : tuple of Drawn
        Who is drawn, in order of their numbers; nobody while it is committed only.
    enrolled, away : int
        How many took part in the draw, and how many of them were away.
    commitment, seed, head : str
        Hexadecimal. The head is the hash of the last entry: keep it elsewhere, and nobody can change what was before it
        without that being found.
    source : str
        The public source of randomness; empty if the seed is made from the secret alone.
    address : str
        Where the value of that source is published, and `appears` from when on; empty if that is not known.
    time : str
        When it was drawn, or committed.
    warning : str
        What was noticed when it was entered, such as a clock that is behind; empty if nothing was.
    """

    number: int
    phase: str
    people: tuple[Drawn, ...]
    enrolled: int
    away: int
    commitment: str
    seed: str
    head: str
    source: str = ""
    address: str = ""
    appears: str = ""
    time: str = ""
    warning: str = ""

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of those who are drawn."""
        return tuple(each.id for each in self.people)


def plan(work: Work, states: Outcomes | None, budget: Any) -> PlannedRound:
    """Return the next round as it would be committed; nothing is drawn."""
    state = work.state
    if state.summary.ended:
        raise InputError("the programme has ended")
    if not state.here.any():
        raise InputError("nobody is enrolled: enrol participants before the first draw")
    now = unknown_states(state.people)
    if states is not None:
        now[work.numbers(states.ids, enrolled=True)] = states.before
    return plan_round(state, work.session.identity, now, _budgets(work, budget))


def _budgets(work: Work, budget: Any) -> tuple[int | None, ...]:
    """Return the budget that is asked for each part, None for that of the settings."""
    parts = work.state.settings.parts
    if budget is None:
        return (None,) * len(parts)
    if len(parts) > 1 and not isinstance(budget, Mapping):
        names = ", ".join(part.name for part in parts)
        raise InputError(f"in a trial a budget is given by part, as in {{'{parts[0].name}': 10}}; the parts: {names}")
    given = budget if isinstance(budget, Mapping) else {parts[0].name: budget}
    return tuple(check_whole("budget", given[part.name], 0, 2**31) if part.name in given else None for part in parts)


def commit(work: Work, states: Outcomes | None, budget: Any, reason: str, by: str) -> Entry:
    """Plan the next round and commit to it; a budget other than that of the settings needs a reason."""
    number = work.state.summary.round + 1
    settings, time = work.state.settings, work.next_time()
    own = [part.budget_in(number) for part in settings.parts]
    asked = [mine if given is None else given for mine, given in zip(own, _budgets(work, budget), strict=True)]
    if asked != own and not reason:
        said = _("the budget for round {number} alone is {new}, and that of the settings {own}")
        texts = {"own": ", ".join(map(str, own)), "new": ", ".join(map(str, asked))}
        raise ReasonNeededError(said.format(number=number, **texts))
    planned = plan(work, states, budget)
    body = {
        "round": number,
        "asked": asked,
        "reason": reason,
        "budgets": list(planned.budgets),
        "design": DESIGN,
        "source": randomness.source_for(settings.source, parse_time(time)),
        "versions": versions(),
    }
    return work.append("commit", body, planned.columns(), by, time=time)


def draw(work: Work, value: str | None, by: str) -> Entry:
    """Make the draw of the round that is committed."""
    entry, table = committed(work)
    named, commitment = entry.body["source"], entry.commitment
    data = None
    if named is not None:
        randomness.check_published(named, parse_time(work.next_time()))
        data = randomness.parse_value(named, value or "")
    seed = randomness.draw_seed(work.secret, commitment, data or b"")
    body = {
        "round": entry.body["round"],
        "commitment": commitment.hex(),
        "seed": seed.hex(),
        "value": None if data is None else data.hex(),
    }
    if named is not None and named["kind"] == randomness.NAMED and "/" in (value or ""):
        body["numbers"] = randomness.key_string(value or "")  # so that nobody must guess how they were written
    return work.append("draw", body, {"number": table["number"][drawn_rows(entry, table, seed)]}, by)


def committed(view: ProgrammeView, round_: int | None = None) -> tuple[Entry, RowTable]:
    """Return the entry that commits to a round, by default the last one, and its table."""
    number = view.state.summary.round if round_ is None else round_
    entry, table = view.entry(view.state.summary.commits[number - 1])
    assert table is not None
    return entry, table


def drawn_rows(entry: Entry, table: RowTable, seed: bytes) -> BoolArray:
    """Return which rows of a commitment are drawn with this seed: each part in turn."""
    stream, drawn = Stream(seed), np.zeros(len(table), np.bool_)
    chance, part = table["chance"].astype(np.int64), table["part"]
    for place in range(len(entry.body["budgets"])):
        own = np.flatnonzero(part == place)
        drawn[own] = draw_once(chance[own], stream)
    return drawn


def next_round(
    work: Work,
    states: Outcomes | None,
    budget: Any,
    value: str | None,
    by: str,
    away: Sequence[str] = (),
    reason: str = "",
) -> None:
    """Draw the next round, or finish the one that is committed; a round that is open stays as it was drawn.

    Those who are said to be `away` are noted as such before, for the same reason as the draw has.
    """
    phase = work.state.summary.phase
    if phase != CLOSED and away:
        _check_away(work, away)
    if phase == OPEN:
        _check_same(work, states, budget, value)
        return
    if phase == CLOSED:
        if value is not None:
            raise InputError("a public value finishes a draw that was committed to its source; there is none")
        if away:
            set_away(work, away, True, reason, by)
        if commit(work, states, budget, reason, by).body["source"] is None:
            draw(work, None, by)
        return
    if value is None:
        _check_same(work, states, budget, None)
        return
    draw(work, value, by)


def _check_same(work: Work, states: Outcomes | None, budget: Any, value: str | None) -> None:
    """Refuse to draw a round again that is drawn already, with anything else than it was drawn with."""
    number = work.state.summary.round
    entry, table = committed(work)
    if work.state.summary.phase == COMMITTED:
        again = _("round {number} is committed already, and there is one draw for each round").format(number=number)
    else:
        again = _("round {number} is drawn already, and there is one draw for each round").format(number=number)
    asked = [own if new is None else new for own, new in zip(entry.body["asked"], _budgets(work, budget), strict=True)]
    if asked != entry.body["asked"]:
        said = _("its budget was {own}, not {new}; close it before the next").format(own=entry.body["asked"], new=asked)
        raise InputError(f"{again}: {said}")
    if states is not None:
        place = np.searchsorted(table["number"], work.numbers(states.ids))
        if (table["state"][np.minimum(place, len(table) - 1)] != states.before).any():
            raise InputError(f"{again}: {_('report states that were seen later, and close it before the next')}")
    if value is not None:
        drawn = draw_entry(work, number)
        data = None if entry.body["source"] is None else randomness.parse_value(entry.body["source"], value).hex()
        if data is None or drawn.body["value"] != data:
            raise InputError(f"{again}: {_('its value was another one')}")


def _check_away(work: Work, away: Sequence[str]) -> None:
    """Refuse to change who is away in a round that is committed."""
    _, table = committed(work)
    place = np.searchsorted(table["number"], work.numbers(away))
    here = np.flatnonzero(table["away"][np.minimum(place, len(table) - 1)] == 0)
    if len(here):
        number = work.state.summary.round
        raise InputError(f"round {number} is committed already, and {away[here[0]]!r} was not away in it")


def draw_entry(view: ProgrammeView, round_: int) -> Entry:
    """Return the entry with the draw of a round."""
    first = view.state.summary.commits[round_ - 1]
    for entry, _digest in view.heads(first + 1):
        if entry.kind == "draw":
            return entry
    raise InputError(f"round {round_} is not drawn yet")


def check_round(view: ProgrammeView, round_: int | None = None) -> tuple[int, str]:
    """Return the number of a round that there was, by default the last one, and its phase."""
    summary = view.state.summary
    if not summary.round:
        raise InputError("there was no round yet")
    number = summary.round if round_ is None else round_
    check_whole("round", number, 1, summary.round, f"{summary.round}, the last one")
    return number, summary.phase if number == summary.round else CLOSED


def read_round(view: ProgrammeView, round_: int | None = None) -> Round:
    """Return a round as it is in the ledger, by default the last one."""
    round_, phase = check_round(view, round_)
    entry, table = committed(view, round_)
    named = entry.body["source"]
    appears = None if named is None else randomness.appears_at(named)
    found = Round(
        round_,
        phase,
        (),
        len(table),
        int(table["away"].sum()),
        entry.commitment.hex(),
        "",
        view.head.hex(),
        "" if named is None else randomness.describe(named),
        "" if named is None else randomness.address_of(named),
        "" if appears is None else format_time(appears),
        entry.time,
    )
    if phase == COMMITTED:
        return found
    made = draw_entry(view, round_)
    _, numbers = view.entry(made.seq)
    assert numbers is not None
    places = np.searchsorted(table["number"], numbers["number"])
    return replace(found, people=_people(view, table, places), seed=made.body["seed"], time=made.time)


def _people(view: ProgrammeView, table: RowTable, places: IntArray) -> tuple[Drawn, ...]:
    """Return the people of some rows of a commitment; who was erased has no id any more."""
    numbers = table["number"][places].tolist()
    known, erased = view.texts(numbers), Texts("", "", "")
    rows = zip(numbers, table["due"][places] / ONE, table["chance"][places] / ONE, table["state"][places], strict=True)
    made = []
    for number, due, chance, state in rows:
        who = known.get(number, erased)
        made.append(Drawn(who.id, number, who.group, who.staff, float(due), float(chance), int(state)))
    return tuple(made)


def preview(work: Work, states: Outcomes | None, budget: Any) -> tuple[PlannedRound, tuple[Drawn, ...]]:
    """Return what a draw would be committed to now, for everyone enrolled; nothing is drawn or kept."""
    if work.state.summary.phase != CLOSED:
        raise InputError(f"round {work.state.summary.round} is {work.state.summary.phase}: close it before the next")
    planned = plan(work, states, budget)
    table = make_table("commit", {}, planned.columns())
    assert table is not None
    return planned, _people(work, table, np.arange(len(table)))
