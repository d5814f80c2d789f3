"""How often honest years are questioned, and steered ones found: `./mf python benchmarks/steering.py [--quick]`.

Years of a simulated clinic of the people of :mod:`meritfair.datasets.clinic` are played with all that happens in an
honest one: vacations of one to three weeks, more of them in summer; illness; people who leave, some of whom come back;
sometimes a ward that is closed for two weeks; weeks without calls around holidays, and weeks of which nobody reports; a
change of the budget; and people who are called without being drawn. Staff enter all of it in batches, with reasons
where they are needed. Each year is asked whether anyone could have steered its draws
(`meritfair.programme.showing.steering`). The first table has the share of the honest years that get another answer than
"nothing to explain", the second the numbers that thresholds are set on, the third the share of years found in which a
coordinator steers the draws, by what they do.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from meritfair.cli.show import print_note, print_table
from meritfair.core.progress import following
from meritfair.core.seeding import stream
from meritfair.datasets.clinic import clinic_people
from meritfair.programme import enrolling, reporting, rounds
from meritfair.programme.inputs import Outcomes, People, ReasonNeededError
from meritfair.programme.ledger.lottery import ONE
from meritfair.programme.programme import Programme
from meritfair.programme.records import records
from meritfair.programme.showing.steering import NOTHING, Steering, statistics, steering_of
from meritfair.programme.storage.store import Store
from meritfair.programme.work import Work

SIZES = {"small": (12, 3), "medium": (60, 6), "large": (400, 40)}
POLICY = "merit-fair:estimate=mean,design=exact,slack=2"
WEEKS = 52
LEAD, MALLORY = "Dr. Osei", "Mallory"
SUMMER, HOLIDAYS = range(27, 34), (51, 52)
VACATIONS, ILLNESS, LEAVES, RETURNS = 0.02, 0.02, 0.002, 0.5  # chances in a week, and of coming back
WARD, NO_CALLS, CHANGES, OVERRIDES = 0.5, 0.02, 0.5, 0.3  # of a closed ward and a change in a year, others in a week
REACHED, SEEN, FORGOTTEN = 0.92, 0.8, 0.03  # called who are reached, states that are seen, weeks not reported
NINE = 9  # rounds that long absences last


@dataclass
class Year:
    """A year of a clinic in one transaction, with a hook for whoever steers its draws."""

    work: Work
    people: int
    budget: int
    seed: int
    weeks: int = WEEKS
    attack: Callable[[Year, int], dict[str, Any]] | None = None
    favourite: bool = False  # whether someone is called each week who was not drawn
    week: int = 0
    state: Any = field(init=False)

    def __post_init__(self) -> None:
        N = self.people
        self.rng = rng = stream(self.seed, "instance", 1)
        self.arms, _ = clinic_people(N, self.seed)
        self.ids = list(self.arms.names)
        self.nurses = [f"Nurse {k + 1}" for k in range(max(3, min(12, N // 15)))]
        self.ward = rng.permutation(N) % len(self.nurses)
        self.state = rng.integers(0, 2, N)
        self.joins = np.where(rng.random(N) < 0.2, rng.integers(2, self.weeks, N), 1)
        self.here, self.until = np.zeros(N, np.bool_), np.zeros(N, np.int64)  # away until; others are there
        self.returns = np.zeros(N, np.int64)
        closes = rng.random() < WARD
        self.closed = int(rng.integers(2, max(3, self.weeks - 2))) if closes else 0
        self.change = self.weeks // 2 if rng.random() < CHANGES else 0
        self.favourites: list[int] = []

    def play(self) -> None:
        """Play all weeks."""
        for week in range(1, self.weeks + 1):
            self.week = week
            self.come_and_go(week)
            more = self.attack(self, week) if self.attack is not None else {}
            if not more and week > 1 and (week in HOLIDAYS or self.rng.random() < NO_CALLS):
                more = {"budget": 0, "reason": "public holiday"}
            self.draw(**more)
            self.report(week)
            self.close()

    def close(self) -> None:
        """Close the open round."""
        self.work.append("close", {"round": self.work.state.summary.round}, None, LEAD)

    def come_and_go(self, week: int) -> None:
        """Let people join, leave, come back, fall ill and go on vacation, entered in batches."""
        rng, N = self.rng, self.people
        back = self.here & (self.until == week)
        for nurse, some in self.by_nurse(back):
            enrolling.set_away(self.work, some, False, "", nurse)
        joining = ((self.joins == week) | (self.returns == week)) & ~self.here
        if joining.any():
            enrolling.enrol(self.work, People(self.named(joining)), LEAD)
            self.here |= joining
        if week == self.change:
            new = self.work.state.settings.changed(budget=self.budget + max(1, self.budget // 5)).body()
            body = {name: new[name] for name in ("parts", "rules", "source")} | {"reason": "a new nurse"}
            self.work.append("change", body, None, LEAD)
        if week == 1:
            return
        leaving = self.here & (self.until <= week) & (rng.random(N) < LEAVES)
        if leaving.any():
            self.take_out(enrolling.leave, leaving, "moved away", LEAD)
            self.here &= ~leaving
            self.returns[leaving & (rng.random(N) < RETURNS)] = week + rng.integers(2, 11)
        there = self.here & (self.until <= week)
        ill = there & (rng.random(N) < ILLNESS * np.where(self.state == 0, 1.5, 0.5))
        gone = there & ~ill & (rng.random(N) < VACATIONS * (3 if week in SUMMER or week in HOLIDAYS else 1))
        shut = there & (self.ward == self.seed % len(self.nurses)) if week == self.closed else np.zeros(N, np.bool_)
        self.until[ill] = week + 1
        self.until[gone] = week + rng.integers(1, 4, int(gone.sum()))
        self.until[shut] = week + 2
        for nurse, some in self.by_nurse(ill | gone | shut):
            self.take_out_ids(some, "the ward is closed" if shut.any() else "holidays", nurse)

    def by_nurse(self, people: Any) -> list[tuple[str, list[str]]]:
        """Return people as each nurse has them."""
        found = [(nurse, self.named(people & (self.ward == k))) for k, nurse in enumerate(self.nurses)]
        return [each for each in found if each[1]]

    def named(self, people: Any) -> list[str]:
        """Return the ids of people."""
        return [self.ids[k] for k in np.flatnonzero(people)]

    def take_out(self, verb: Any, people: Any, reason: str, by: str) -> None:
        """Withdraw people, with a reason where one is needed."""
        try:
            verb(self.work, self.named(people), "", by)
        except ReasonNeededError:
            verb(self.work, self.named(people), reason, by)

    def take_out_ids(self, ids: list[str], reason: str, by: str) -> None:
        """Mark people as away, with a reason where one is needed."""
        try:
            enrolling.set_away(self.work, ids, True, "", by)
        except ReasonNeededError:
            enrolling.set_away(self.work, ids, True, reason, by)

    def draw(
        self,
        budget: int | None = None,
        away: Any = (),
        reason: str = "",
        after: Any = None,
        wanted: Sequence[int] | None = None,
    ) -> None:
        """Draw a round; `after` is called once it is drawn. If none of those wanted is drawn, draw one more."""
        rounds.next_round(self.work, None, budget, None, LEAD, away, reason)
        if after is not None:
            after()
        if wanted is not None:
            drawn = self.work.state.seen(self.work.state.summary.round)[0, self.work.numbers(self.ids_known())]
            places = [k for k in range(self.people) if self.joins[k] <= self.week]
            if not any(drawn[places.index(k)] == 1 for k in wanted):
                self.close()
                rounds.next_round(self.work, None, None, None, LEAD)

    def report(self, week: int) -> None:
        """Let everyone move, and nurses report what was done and seen."""
        rng, N, work = self.rng, self.people, self.work
        numbers = work.numbers(self.ids_known())
        places = np.array([k for k in range(N) if self.joins[k] <= week])
        round_ = work.state.summary.round
        seen = work.state.seen(round_)[0, numbers]
        drawn, enrolled = np.zeros(N, np.int64), np.zeros(N, np.bool_)
        drawn[places], enrolled[places] = seen == 1, seen >= 0
        action = drawn * (rng.random(N) < REACHED)
        others = np.flatnonzero(enrolled & (drawn == 0) & (self.until <= week))
        reasons = {}
        if len(others) and (self.favourite or rng.random() < OVERRIDES * min(1.0, self.budget / 8)):
            other = self.favourites[0] if self.favourite and self.favourites[0] in others else int(rng.choice(others))
            action[other], reasons = 1, {self.ids[other]: "asked to be called"}
        good = self.arms.transitions[np.arange(N), self.state, action]
        self.state = (rng.random(N) < good).astype(np.int64)
        told = np.where(rng.random(N) < SEEN, self.state, -1)
        done = np.where((drawn == 1) | (action == 1), action, -1)
        if rng.random() < FORGOTTEN:
            return
        for k, nurse in enumerate(self.nurses):
            own = np.flatnonzero(enrolled & (self.ward == k) & ((told >= 0) | (done >= 0)))
            if len(own):
                ids = [self.ids[place] for place in own]
                why = {id_: reasons[id_] for id_ in ids if id_ in reasons}
                reporting.report(work, Outcomes(ids, done[own], told[own], reasons=why), round_, nurse)

    def ids_known(self) -> list[str]:
        """Return the ids of those who have ever joined."""
        return [id_ for id_, join in zip(self.ids, self.joins, strict=True) if join <= self.week]

    # ---- for those who steer

    @property
    def there(self) -> list[int]:
        """Who could be drawn now."""
        found = self.here & (self.until <= self.week)
        return [int(k) for k in np.flatnonzero(found)]

    def choose(self, number: int) -> list[int]:
        """Return favourites: those chosen before, while they are there, and others in their place."""
        there = self.there
        self.favourites = [k for k in self.favourites if k in there]
        rest = [k for k in there if k not in self.favourites]
        self.favourites += [int(k) for k in self.rng.permutation(rest)[: max(0, number - len(self.favourites))]]
        return self.favourites

    def chances(self) -> dict[int, float]:
        """Return the chances of everyone, if the draw were now."""
        planned, place = rounds.plan(self.work, None, None), {id_: k for k, id_ in enumerate(self.ids)}
        names = self.work.texts(planned.number.tolist())
        return {place[names[n].id]: c / ONE for n, c in zip(planned.number.tolist(), planned.chance, strict=True)}

    def allowed(self) -> int:
        """Return how many may be taken out without a reason."""
        return min(max(3, int(self.here.sum()) // 10), len(self.there) - 2 * self.budget)

    def back(self, ids: list[str]) -> Callable[[], None]:
        """Return what brings people back."""

        def bring() -> None:
            enrolling.set_away(self.work, ids, False, "", MALLORY)

        return bring


def in_some(year: Year, week: int) -> bool:
    """Whether the few weeks of a short attack are there: every fourth week from the tenth on, five times."""
    return week in range(10, 30, 4) or (year.weeks < 20 and week > 2)


def withdraw_all(year: Year, week: int) -> dict[str, Any]:
    if not in_some(year, week):
        return {}
    kept = year.choose(year.budget)
    out = [year.ids[k] for k in year.there if k not in kept]
    enrolling.leave(year.work, out, "they have left", MALLORY)
    return {"after": lambda: enrolling.enrol(year.work, People(out), MALLORY)}


def away_all(year: Year, week: int) -> dict[str, Any]:
    if not in_some(year, week):
        return {}
    kept = year.choose(year.budget)
    out = [year.ids[k] for k in year.there if k not in kept]
    return {"away": out, "reason": "holidays", "after": year.back(out)}


def away_to_twice(year: Year, week: int) -> dict[str, Any]:
    if not in_some(year, week):
        return {}
    kept = year.choose(2 * year.budget)
    out = [year.ids[k] for k in year.there if k not in kept]
    return {"away": out, "reason": "holidays", "after": year.back(out)} if out else {}


def one_by_one(year: Year, out: list[int]) -> dict[str, Any]:
    """Mark people as away one by one, each by another user in turn."""
    ids = [year.ids[k] for k in out]
    for k, id_ in enumerate(ids):
        year.take_out_ids([id_], "ill", f"{MALLORY} {k % 2 + 1}")
    return {"after": year.back(ids)} if ids else {}


def drip_by_chance(year: Year, week: int) -> dict[str, Any]:
    if week == 1:
        return {}
    kept, chance = year.choose(max(1, year.budget // 2)), year.chances()
    order = sorted((k for k in year.there if k not in kept), key=lambda k: -chance[k])
    return one_by_one(year, order[: max(0, year.allowed())])


def drip_at_random(year: Year, week: int) -> dict[str, Any]:
    if week == 1:
        return {}
    kept = year.choose(max(1, year.budget // 2))
    rest = [k for k in year.there if k not in kept]
    return one_by_one(year, [int(k) for k in year.rng.permutation(rest)[: max(0, year.allowed())]])


def half_away(year: Year, week: int) -> dict[str, Any]:
    if week == 1:
        return {}
    kept = year.choose(max(1, year.budget // 2))
    rest = [k for k in year.there if k not in kept]
    out = [year.ids[int(k)] for k in year.rng.permutation(rest)[: len(year.there) // 3]]
    return {"away": out, "reason": "holidays", "after": year.back(out)}


def one_victim(year: Year, week: int) -> dict[str, Any]:
    year.favourites = year.favourites or [int(k) for k in year.there[:1]]
    return one_by_one(year, [k for k in year.favourites if k in year.there]) if week % 4 else {}


def drip_nine(year: Year, week: int) -> dict[str, Any]:
    """Note as many as need no reason as away, each for nine weeks."""
    if week == 1:
        return {}
    kept = year.choose(max(2, 2 * year.budget))
    rest = [k for k in year.there if k not in kept]
    out = [int(k) for k in year.rng.permutation(rest)[: max(0, min(year.allowed(), len(rest)))]]
    year.until[out] = week + NINE
    for k, place in enumerate(out):
        year.take_out_ids([year.ids[place]], "ill", f"{MALLORY} {k % 2 + 1}")
    return {}


def withdraw_nine(year: Year, week: int) -> dict[str, Any]:
    """Withdraw all but twice the budget for nine weeks, twice."""
    if week not in (year.weeks // 4, 5 * year.weeks // 8):
        return {}
    kept = year.choose(2 * year.budget)
    out = [k for k in year.there if k not in kept]
    enrolling.leave(year.work, [year.ids[k] for k in out], "a break", MALLORY)
    year.here[out], year.returns[out] = False, week + NINE
    return {}


def victim_nine(year: Year, week: int) -> dict[str, Any]:
    """Note one person as away for nine weeks of ten."""
    year.favourites = year.favourites or [int(k) for k in year.there[:1]]
    if week % (NINE + 1) == 2 and year.favourites[0] in year.there:
        year.until[year.favourites] = week + NINE
        year.take_out_ids([year.ids[year.favourites[0]]], "ill", MALLORY)
    return {}


def draw_again(year: Year, week: int) -> dict[str, Any]:
    """Close a round in which no favourite was drawn, report nothing of it, and draw once more."""
    return {"wanted": list(year.choose(max(1, year.budget // 2)))} if week > 1 else {}


def no_calls(year: Year, week: int) -> dict[str, Any]:
    if week == 1:
        return {}
    kept, chance = year.choose(max(1, year.budget // 2)), year.chances()
    mean = sum(chance.values()) / len(chance)
    bad = np.mean([chance[k] for k in kept]) < 0.75 * mean
    return {"budget": 0, "reason": "a nurse is ill"} if bad else {}


def flip_flop(year: Year, week: int) -> dict[str, Any]:
    if week % 10 in (5, 7):
        floor = 1.0 if week % 10 == 5 else 0.25
        new = year.work.state.settings.changed(floor=floor).body()
        body = {name: new[name] for name in ("parts", "rules", "source")} | {"reason": "a try"}
        year.work.append("change", body, None, MALLORY)
    return {}


def call_favourite(year: Year, week: int) -> dict[str, Any]:
    year.favourite = week > 0
    year.choose(1)
    return {}


ATTACKS: dict[str, Callable[[Year, int], dict[str, Any]]] = {
    "withdraw all but the budget, 5 weeks": withdraw_all,
    "away all but the budget, 5 weeks": away_all,
    "away all but twice the budget, 5 weeks": away_to_twice,
    "a third away each week, same favourites": half_away,
    "largest chances away, without a reason": drip_by_chance,
    "others away at random, without a reason": drip_at_random,
    "one victim away 3 weeks in 4": one_victim,
    "as many as need no reason away for 9 weeks each": drip_nine,
    "withdraw all but twice the budget for 9 weeks, twice": withdraw_nine,
    "one victim away 9 weeks in 10": victim_nine,
    "draw once more if no favourite is drawn": draw_again,
    "no calls when favourites are low": no_calls,
    "settings changed and changed back": flip_flop,
    "a favourite called each week": call_favourite,
}


def year_of(folder: Path, people: int, budget: int, seed: int, attack: Any = None, weeks: int = WEEKS) -> Steering:
    """Play a year; return whether anyone could have steered it."""
    store = Store(folder / f"year-{seed}.db")
    name = "year"
    Programme(store, name).create(budget, POLICY, by=LEAD)
    with store.writing(name) as session:
        work = Work(session)
        Year(work, people, budget, seed, weeks, attack).play()
        work.save()
        found = steering_of(work, records(work))
    store.close()
    (folder / f"year-{seed}.db").unlink()
    return found


def honest(folder: Path, size: tuple[int, int], years: int, weeks: int, tell: Callable[[], None]) -> list[Steering]:
    """Play honest years of a clinic."""
    made = []
    for seed in range(1, years + 1):
        made.append(year_of(folder, *size, seed, weeks=weeks))
        tell()
    return made


def share(questioned: int, years: int) -> str:
    """Return a share with the upper end of its 95 % interval (Clopper and Pearson)."""
    from scipy.stats import beta

    high = 1.0 if questioned == years else float(beta.ppf(0.975, questioned + 1, years - questioned))
    return f"{questioned} of {years} ({100 * questioned / years:.1f} %, at most {100 * high:.1f} %)"


def show_honest(name: str, found: list[Steering]) -> None:
    """Print the share of honest years that are questioned, and the numbers that thresholds are set on."""
    odd = [each for each in found if each.answer != NOTHING]
    kinds = sorted({finding.kind for each in odd for finding in each.findings})
    why = ", ".join(f"{kind} {sum(any(f.kind == kind for f in each.findings) for each in odd)}" for kind in kinds)
    print_note(f"{name}: questioned {share(len(odd), len(found))}. {why}", style="bold")
    values = [statistics(each) for each in found]
    rows = []
    for key in values[0]:
        column = np.array([each[key] for each in values])
        rows.append([key, *(f"{q:.3g}" for q in np.quantile(column, (0.5, 0.9, 0.98, 1.0)))])
    print_table(["in a year", "median", "90 %", "98 %", "largest"], rows, "", "lrrrr")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--years", type=int, default=200, help="honest years of each size")
    parser.add_argument("--steered", type=int, default=20, help="years for each attack and size")
    parser.add_argument("--weeks", type=int, default=WEEKS)
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--quick", action="store_true", help="20 honest years of the small size, 2 of each attack")
    given = parser.parse_args()
    if given.quick:
        given.years, given.steered, given.sizes = 20, 2, ["small"]
    total = len(given.sizes) * (given.years + given.steered * len(ATTACKS))
    done = [0]
    power: dict[str, list[str]] = {name: [] for name in ATTACKS}
    with TemporaryDirectory() as folder, following(True, "years") as bar:

        def tell() -> None:
            done[0] += 1
            bar(done[0], total)

        for name in given.sizes:
            size = SIZES[name]
            made = honest(Path(folder), size, given.years, given.weeks, tell)
            show_honest(f"{name} ({size[0]} people, {size[1]} drawn a week)", made)
            for label, attack in ATTACKS.items():
                found = []
                for seed in range(1, given.steered + 1):
                    found.append(year_of(Path(folder), *size, 10_000 + seed, attack, given.weeks).answer != NOTHING)
                    tell()
                power[label].append(f"{100 * sum(found) / len(found):.0f} %" if found else "")
    rows = [[label, *cells] for label, cells in power.items()]
    print_table(["found", *given.sizes], rows, "", "l" + "r" * len(given.sizes))


if __name__ == "__main__":
    main()
