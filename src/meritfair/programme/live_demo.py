"""A simulated clinic that goes on round by round, with a visitor in it: what the visitor leaves out is simulated.

Nothing is kept of the simulated world but the ledger. How people truly are follows from a seed, from what was done for
them and from what was reported of them: if a visitor says that someone is well, they are. So any process can go on
with the clinic at any time, whatever happened in between.

The weeks behind the clinic were played once and are shipped with the package, so that a visitor need not wait for
machine code to be compiled: ``python -m meritfair.programme.live_demo`` plays and packs them anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np

from meritfair.core.arrays import BoolArray, FloatArray, IntArray
from meritfair.core.errors import InputError
from meritfair.core.seeding import stream
from meritfair.datasets.clinic import clinic_people
from meritfair.programme.demo import LEAD, REACHED, SEEN, make_demo
from meritfair.programme.inputs import Outcomes
from meritfair.programme.programme import Programme
from meritfair.programme.state import COMMITTED, OPEN
from meritfair.programme.storage.people import Person
from meritfair.programme.storage.store import Store
from meritfair.programme.work import Work

NAME = "clinic"
PEOPLE, WEEKS, SEED = 150, 12, 1
PLAYED = Path(__file__).parent / "clinic.zip"
_STATES, _REACHED, _SEEN = 2, 3, 4  # streams of random numbers of a round; others have made the clinic


def open_clinic(store: Store) -> None:
    """Set the clinic up, with some weeks behind it and the first round of the visitor drawn; unless it is there."""
    if NAME in store.names():
        return
    with TemporaryDirectory() as folder, ZipFile(PLAYED) as packed:
        packed.extractall(folder)
        try:
            Programme(store, NAME).import_(folder)
        except InputError:
            if NAME not in store.names():  # another process was faster
                raise


def pack_clinic(file: Path = PLAYED) -> None:
    """Play the weeks behind the clinic, and pack them."""
    with TemporaryDirectory() as folder:
        programme = Programme(Store(Path(folder) / "clinic.db"), NAME)
        make_demo(programme, PEOPLE, WEEKS, SEED)
        programme.draw(by=LEAD)
        made = programme.export(Path(folder) / "export")
        with ZipFile(file, "w", ZIP_DEFLATED) as packed:
            for each in sorted(made.rglob("*")):
                packed.write(each, each.relative_to(made))


def play(programme: Programme, rounds: int = 1) -> int:
    """Play rounds: fill in what is missing of the open one, close it, and draw the next; return how many were closed.

    If no round is open, the first step is to draw one.
    """
    return sum(_finish(programme) for _ in range(rounds))


def _finish(programme: Programme) -> bool:
    """Finish the open round, if there is one, and draw the next; return whether there was one."""
    status = programme.status()
    if status.phase == COMMITTED:
        raise InputError(f"round {status.round} waits for its public value: give it before the clinic goes on")
    if status.phase == OPEN:
        for each in _missing(programme, status.round):
            programme.report(each.outcomes, round=status.round, by=each.by)
        programme.close(by=LEAD)
    programme.draw(by=LEAD)
    return status.phase == OPEN


@dataclass(frozen=True)
class _Report:
    """What a nurse reports."""

    by: str
    outcomes: Outcomes


def _missing(programme: Programme, round_: int) -> list[_Report]:
    """Return what would be reported of a round besides what was, for each nurse."""
    with programme.store.reading(programme.name) as session:
        work = Work(session)
        people = {each.number: each for each in session.people() if each.id}
        transitions = _transitions(people, work.state.people)
        drawn, before, action, after = work.state.seen(round_)
        told = np.where((drawn == 1) & (action < 0), _uniform(round_, _REACHED, len(drawn)) < REACHED, action)
        start = np.where(before >= 0, before, _states(work, transitions, round_ - 1))
        state = _next(transitions, start, told == 1, round_)
        noticed = (drawn >= 0) & (_uniform(round_, _SEEN, len(drawn)) < SEEN) & (after < 0)
        seen = np.where(noticed, state, -1)
        new = np.flatnonzero(noticed | (told != action))
    return _by_nurse(people, new, np.where(action < 0, told, -1), seen)


def _by_nurse(people: dict[int, Person], numbers: IntArray, told: IntArray, seen: IntArray) -> list[_Report]:
    """Return the reports on some people, one for each nurse."""
    lists: dict[str, list[int]] = {}
    for number in numbers.tolist():
        if number in people:
            lists.setdefault(people[number].staff or LEAD, []).append(number)
    return [
        _Report(by, Outcomes([str(people[number].id) for number in own], told[own], seen[own]))
        for by, own in sorted(lists.items())
    ]


def _transitions(people: dict[int, Person], number: int) -> FloatArray:
    """Return how the people of the clinic drift; those whom a visitor has enrolled drift as one of the others does."""
    arms, _ = clinic_people(PEOPLE, SEED)
    place = {name: at for at, name in enumerate(arms.names)}
    places = [place.get(people[each].id or "", each % PEOPLE) if each in people else 0 for each in range(number)]
    return np.asarray(arms.transitions[places])


def _states(work: Work, transitions: FloatArray, last: int) -> IntArray:
    """Return how everyone is after a round: as it was reported or, if it was not, as the simulation has it."""
    state = (_uniform(0, _STATES, len(transitions)) < 0.5).astype(np.int64)
    for number in range(1, last + 1):
        _, before, action, after = work.state.seen(number)
        start = np.where(before >= 0, before, state)
        state = np.where(after >= 0, after, _next(transitions, start, action == 1, number))
    return state


def _next(transitions: FloatArray, state: IntArray, reached: BoolArray, round_: int) -> IntArray:
    """Return how everyone is after a round, from how they were before."""
    everyone = np.arange(len(transitions))
    good = transitions[everyone, state, reached.astype(np.int64)]
    return (_uniform(round_, _STATES, len(transitions)) < good).astype(np.int64)


def _uniform(round_: int, what: int, number: int) -> FloatArray:
    """Return random numbers of a round; those of the first people stay the same when others join."""
    return stream(SEED, "instance", 3 * round_ + what).random(number)


if __name__ == "__main__":
    pack_clinic()
