"""Why this person, in plain sentences: first the last round, then all rounds together."""

from __future__ import annotations

from meritfair.core.texts import several
from meritfair.programme.showing.person import NextDraw, PersonReport
from meritfair.programme.showing.person_history import PersonRound
from meritfair.programme.showing.wording import day, draws, percent, points, times

_TOLERANCE = 5e-4  # of chances that are shown alike

_KEPT_OUT = {
    "away": "was marked as away",
    "cool-down": "had been reached shortly before, and the rules leave some rounds after that",
    "warm-up": "had joined shortly before, and the rules let newcomers wait for some rounds",
    "once": "had been reached already, and the rules allow that once",
}
_BOUNDS = {
    "none": "Neither floor nor cap changes that.",
    "floor": "By merit alone it would be less: the floor, which everyone is due, raises it to this.",
    "cap": "A cap limits it to this, so that it is also seen how they fare when they are not reached.",
    "cool-down share": "It cannot be more: with a cool-down nobody can be reached more often.",
    "saturated": "It cannot be more.",
    "away": "That is because they are away.",
    "cool-down": "They were reached shortly before and cannot be drawn now; what they are due stays in the account.",
    "warm-up": "They joined shortly before: newcomers wait for some rounds.",
    "once": "They were reached already, and the rules allow that once.",
    "budget": "Nobody is drawn in it.",
}
_WITHOUT_MERIT = ("away", "warm-up", "once", "budget")


def sentences_of(person: PersonReport) -> list[str]:
    """Return why a participant was called in the last round or not, and how they fare in general."""
    return [*last_round(person), *(each for paragraph in paragraphs(person) for each in paragraph)]


def last_round(person: PersonReport) -> list[str]:
    """Return why a participant was drawn in the last round or not."""
    who = person.id
    if not person.rounds:
        return [f"There was no draw yet since {who} joined."]
    last, said = person.rounds[-1], []
    missed = person.round - last.round
    if missed:
        said.append(f"{who} was not enrolled in the last {several(missed, 'round')}.")
    if last.drawn is None:
        return [*said, f"Round {last.round} is committed and not drawn yet: it waits for its public random value."]
    when = f"In round {last.round}, drawn on {day(last.time)},"
    if last.drawn:
        return [*said, f"{when} {who} was drawn{_outcome(last)}.", *_chance(person, last)]
    said.append(f"{when} {who} was not drawn{_override(last)}.")
    if last.kept_out:
        return [*said, f"The reason: {who} {_KEPT_OUT[last.kept_out]}. Nobody can be drawn while that is so."]
    return [*said, *_chance(person, last)]


def _outcome(last: PersonRound) -> str:
    return {1: ", and was reached", 0: ", and was not reached"}.get(last.action, "; what was done is not reported yet")


def _override(last: PersonRound) -> str:
    if not last.override:
        return ""
    return ", but was reached all the same" + (f" ({last.reason})" if last.reason else "")


def _chance(person: PersonReport, last: PersonRound) -> list[str]:
    """Return what chance somebody had, and why it was not what they were due."""
    were = "was" if last.budget == 1 else "were"
    draw = f"Of {several(last.people, 'person', 'people')} {last.budget:,} {were} drawn"
    if last.chance == 0:
        chance = f"{draw}, and {person.id} had no chance in this round."
    elif last.chance >= 1:
        chance = f"{draw}, and {person.id} was certain to be among them."
    else:
        odds = f"{percent(last.chance)}, about 1 in {1 / last.chance:.0f}"
        chance = f"{draw}. The chance of {person.id} was {odds}: a lottery with these chances decided."
    if abs(last.due - last.chance) <= _TOLERANCE:
        return [chance]
    word = "less" if last.chance < last.due else "more"
    bound = "" if person.account.slack is None else f", which may be off by {draws(person.account.slack)} at most"
    return [
        chance,
        f"That is {word} than the {percent(last.due)} that were due: chances go first to those whom a call seems to "
        f"help most at the time, and the difference is kept in the account{bound}.",
    ]


def paragraphs(person: PersonReport) -> list[list[str]]:
    """Return sentences on all rounds by what they are about: the account, waits, what is due, what was seen."""
    due = [_benefit(person), *_next(person)]
    if not person.rounds:
        return [due]
    found = [_sums(person), _balance(person)], _wait(person), due, _seen(person)
    return [each for each in found if each]


def _sums(person: PersonReport) -> str:
    beyond = f" ({times(person.overrides)} without being drawn)" if person.overrides else ""
    return (
        f"In {several(len(person.rounds), 'round')} {person.id} was due to be drawn {person.account.due:.1f} times, "
        f"had chances that add up to {person.account.given:.1f}, was {_often('drawn', person.drawn)}, and was "
        f"{_often('reached', person.reached)}{beyond}."
    )


def _often(verb: str, number: int) -> str:
    return f"{verb} {times(number)}" if number else f"never {verb}"


def _balance(person: PersonReport) -> str:
    balance, slack = person.account.balance, person.account.slack
    if abs(balance) < _TOLERANCE:
        return f"The account of {person.id} is even: all that was due was given."
    word = "behind what was due" if balance > 0 else "ahead of what was due"
    bound = "" if slack is None else f" It may be off by {draws(slack)} at most, either way."
    return f"The account of {person.id} is {draws(abs(balance))} {word}.{bound}"


def _wait(person: PersonReport) -> list[str]:
    wait = person.wait
    if not wait.longest:
        return []
    span = f"rounds {wait.first} to {wait.last}" if wait.first != wait.last else f"round {wait.first}"
    said = [
        f"The longest time without being drawn was {several(wait.longest, 'round')} ({span}). With the chances that "
        f"were recorded, a wait of that length or more had a probability of {percent(wait.probability)}."
    ]
    if wait.waiting:
        length = several(wait.waiting, "round")
        now = "It still lasts" if wait.last == person.rounds[-1].round else f"Now it has been {length}"
        said.append(
            f"{now}; not to be drawn in these {length} had a probability of {percent(wait.waiting_probability)}."
        )
    return said


def _benefit(person: PersonReport) -> str:
    known = person.estimate
    own = f"{several(round(known.worth), 'outcome')} of their own" if known.worth >= 0.5 else "no outcome of their own"
    others = " and on what is known of everyone" if known.pooled else ""
    return (
        f"If {person.id} were reached in every round rather than in none, the share of rounds in the good state would "
        f"change by an estimated {points(known.benefit)} percentage points ({100 * known.level:g} % interval: "
        f"{points(known.low)} to {points(known.high)}). This rests on {own}{others}."
    )


def _next(person: PersonReport) -> list[str]:
    draw = person.next
    if draw is not None:
        return [*_merit(person, draw), _due(person, draw)]
    if not person.enrolment.here:
        return [f"{person.id} does not take part any more, so nothing is due now."]
    if person.ended:
        return ["The programme has ended, so nothing more is due."]
    return [f"{person.id} joined after round {person.round} was drawn, and can be drawn from the next one on."]


def _merit(person: PersonReport, draw: NextDraw) -> list[str]:
    known = person.estimate
    if known.merit is None or known.mean_merit is None or draw.bound.kind in _WITHOUT_MERIT:
        return []
    ratio = f"{known.merit / known.mean_merit:.2f} times the mean of all"
    return [f"From this follows a merit of {known.merit:.3g}, {ratio}."]


def _due(person: PersonReport, draw: NextDraw) -> str:
    which = f"the open round {draw.round}" if draw.open else f"round {draw.round}, the next one,"
    equal = f" An equal share would be {percent(draw.equal)}." if draw.budget else ""
    timed = abs(draw.due - draw.chance) > _TOLERANCE and not draw.open
    now = f" If it were drawn now, the chance would be {percent(draw.chance)}." if timed else ""
    return f"In {which} {person.id} is due a chance of {percent(draw.due)}. {_BOUNDS[draw.bound.kind]}{equal}{now}"


def _seen(person: PersonReport) -> list[str]:
    """Return what was seen of somebody, and what came late or was corrected."""
    seen, said = person.seen, []
    known = seen.good + seen.bad
    if known + seen.missing:
        missing = f", and missing for {seen.missing:,}" if seen.missing else ""
        states = f" ({seen.good:,} good, {seen.bad:,} bad)" if known else ""
        said.append(f"The state afterwards is known for {several(known, 'round')}{states}{missing}.")
    late = [f"{several(seen.late, 'report')} came after the next draw"] if seen.late else []
    changed = [f"{several(seen.corrected, 'round')} {'was' if seen.corrected == 1 else 'were'} corrected"]
    words = " and ".join(late + (changed if seen.corrected else []))
    return [*said, f"{words}: each draw has used what was known when it was made."] if words else said
