"""Why this person, in plain sentences: first the last round, then all rounds together.

Every sentence is written whole, with names for what is put in, so that it can be translated.
"""

from __future__ import annotations

from meritfair.core.language import _, current, ngettext
from meritfair.programme.showing.person import Account, NextDraw, PersonReport
from meritfair.programme.showing.person_history import PersonRound
from meritfair.programme.showing.wording import day, draws, outcomes, people, percent, points, rounds, times, whole

_EVEN = 0.005  # draws that are shown as 0
_WITHOUT_MERIT = ("away", "warm-up", "once", "budget")


def sentences_of(person: PersonReport) -> list[str]:
    """Return why a participant was called in the last round or not, and how they fare in general."""
    return [*last_round(person), *(each for paragraph in paragraphs(person) for each in paragraph)]


def last_round(person: PersonReport) -> list[str]:
    """Return why a participant was drawn in the last round or not."""
    who = person.id
    if not person.rounds:
        return [_("There was no draw yet since {who} joined.").format(who=who)]
    last, said = person.rounds[-1], []
    missed = person.round - last.round
    if missed:
        said.append(_("{who} was not enrolled in the last {rounds}.").format(who=who, rounds=rounds(missed)))
    if last.drawn is None:
        waits = _("Round {round} is committed and not drawn yet: it waits for its public random value.")
        return [*said, waits.format(round=last.round)]
    drawn = (_was_drawn(last) if last.drawn else _was_not_drawn(last)).format(
        round=last.round, day=day(last.time), who=who, reason=last.reason
    )
    if last.kept_out and not last.drawn:
        return [*said, drawn, _kept_out(last.kept_out).format(who=who)]
    return [*said, drawn, *_chance(person, last)]


def _was_drawn(last: PersonRound) -> str:
    if last.action == 1:
        return _("In round {round}, drawn on {day}, {who} was drawn, and was reached.")
    if last.action == 0:
        return _("In round {round}, drawn on {day}, {who} was drawn, and was not reached.")
    return _("In round {round}, drawn on {day}, {who} was drawn; what was done is not reported yet.")


def _was_not_drawn(last: PersonRound) -> str:
    if not last.override:
        return _("In round {round}, drawn on {day}, {who} was not drawn.")
    if last.reason:
        return _("In round {round}, drawn on {day}, {who} was not drawn, but was reached all the same ({reason}).")
    return _("In round {round}, drawn on {day}, {who} was not drawn, but was reached all the same.")


def _kept_out(rule: str) -> str:
    said = {
        "away": _("The reason: {who} was marked as away. Nobody can be drawn while that is so."),
        "cool-down": _(
            "The reason: {who} had been reached shortly before, and the rules leave some rounds after that. Nobody can "
            "be drawn while that is so."
        ),
        "warm-up": _(
            "The reason: {who} had joined shortly before, and the rules let newcomers wait for some rounds. Nobody can "
            "be drawn while that is so."
        ),
        "once": _(
            "The reason: {who} had been reached already, and the rules allow that once. Nobody can be drawn while that "
            "is so."
        ),
    }
    return said[rule]


def _chance(person: PersonReport, last: PersonRound) -> list[str]:
    """Return what chance somebody had, and why it was not what they were due."""
    said = _chance_words(last).format(
        people=people(last.people),
        n=whole(last.budget),
        who=person.id,
        chance=percent(last.chance),
        odds=whole(1 / last.chance) if last.chance else "",
    )
    return [said] if percent(last.due) == percent(last.chance) else [said, _timed(person, last)]


def _chance_words(last: PersonRound) -> str:
    if last.chance == 0:
        return ngettext(
            "Of {people} {n} was drawn, and {who} had no chance in this round.",
            "Of {people} {n} were drawn, and {who} had no chance in this round.",
            last.budget,
        )
    if last.chance >= 1:
        return ngettext(
            "Of {people} {n} was drawn, and {who} was certain to be among them.",
            "Of {people} {n} were drawn, and {who} was certain to be among them.",
            last.budget,
        )
    if last.chance > 0.5:  # "about 1 in 1" would say less than the chance does
        return ngettext(
            "Of {people} {n} was drawn. The chance of {who} was {chance}: a lottery with these chances decided.",
            "Of {people} {n} were drawn. The chance of {who} was {chance}: a lottery with these chances decided.",
            last.budget,
        )
    return ngettext(
        "Of {people} {n} was drawn. The chance of {who} was {chance}, about 1 in {odds}: a lottery with these chances "
        "decided.",
        "Of {people} {n} were drawn. The chance of {who} was {chance}, about 1 in {odds}: a lottery with these chances "
        "decided.",
        last.budget,
    )


def _timed(person: PersonReport, last: PersonRound) -> str:
    """Return why a chance was not what was due."""
    known, less = person.account, last.chance < last.due
    if known.slack == 0 and known.rules:
        said = (
            _(
                "That is less than the {due} that were due: rules keep people out of some draws, chances go first to "
                "those who are owed most, and the difference is kept in the account."
            )
            if less
            else _(
                "That is more than the {due} that were due: rules keep people out of some draws, chances go first to "
                "those who are owed most, and the difference is kept in the account."
            )
        )
    elif known.slack is None or not known.bounded:
        said = (
            _(
                "That is less than the {due} that were due: chances go first to those whom a call seems to help most "
                "at the time, or who are owed most, and the difference is kept in the account."
            )
            if less
            else _(
                "That is more than the {due} that were due: chances go first to those whom a call seems to help most "
                "at the time, or who are owed most, and the difference is kept in the account."
            )
        )
    elif less:
        said = _(
            "That is less than the {due} that were due: chances go first to those whom a call seems to help most at "
            "the time, and the difference is kept in the account, which may be off by {slack} at most."
        )
    else:
        said = _(
            "That is more than the {due} that were due: chances go first to those whom a call seems to help most at "
            "the time, and the difference is kept in the account, which may be off by {slack} at most."
        )
    return said.format(due=percent(last.due), slack="" if known.slack is None else draws(known.slack))


def paragraphs(person: PersonReport) -> list[list[str]]:
    """Return sentences on all rounds by what they are about: the account, waits, what is due, what was seen."""
    due = [_benefit(person), *_next(person)]
    if not person.rounds:
        return [due]
    found = [_sums(person), _balance(person)], _wait(person), due, _seen(person)
    return [each for each in found if each]


def _sums(person: PersonReport) -> str:
    language, known = current(), person.account
    return _(
        "In {rounds} {who} was due to be drawn {due} times, had chances that add up to {given}, was {drawn}, and was "
        "{reached}."
    ).format(
        rounds=rounds(len(person.rounds)),
        who=person.id,
        due=language.decimal(known.due, 1),
        given=language.decimal(known.given, 1),
        drawn=_("drawn {times}").format(times=times(person.drawn)) if person.drawn else _("never drawn"),
        reached=_reached(person),
    )


def _reached(person: PersonReport) -> str:
    if not person.reached:
        return _("never reached")
    if not person.overrides:
        return _("reached {times}").format(times=times(person.reached))
    said = _("reached {times} ({overrides} without being drawn)")
    return said.format(times=times(person.reached), overrides=times(person.overrides))


def _balance(person: PersonReport) -> str:
    balance = person.account.balance
    if abs(balance) < _EVEN:
        said = _("The account of {who} is even: all that was due was given.").format(who=person.id)
    else:
        said = (
            _("The account of {who} is {draws} behind what was due.")
            if balance > 0
            else _("The account of {who} is {draws} ahead of what was due.")
        ).format(who=person.id, draws=draws(abs(balance)))
    if person.account.slack is None or (person.account.bounded and abs(balance) < _EVEN):
        return said
    return f"{said} {_limits(person.account).format(slack=draws(person.account.slack))}"


def _limits(account: Account) -> str:
    """Return how far an account may be from even, as far as that is certain."""
    if account.bounded:
        return _("It may be off by {slack} at most, either way.")
    if account.rules and account.beyond:
        return _(
            "That is beyond the slack of {slack}, as rules keep people out of some draws: what they are due meanwhile "
            "is added to their accounts, and others are drawn ahead of time. Whose account is farthest beyond it comes "
            "back first."
        )
    if account.rules:
        return _(
            "Its slack is {slack}, either way. As rules keep people out of some draws, accounts can go beyond it for a "
            "time: what is due meanwhile is added, and others are drawn ahead of time."
        )
    if account.beyond:
        return _(
            "That is beyond the slack of {slack}, from a time with other settings. Whose account is farthest beyond it "
            "comes back first."
        )
    return _(
        "Its slack is {slack}, either way. Other accounts are beyond it, from a time with other settings; until they "
        "are back, this one can go beyond it as well."
    )


def _wait(person: PersonReport) -> list[str]:
    wait = person.wait
    if not wait.longest:
        return []
    span = (
        _("rounds {first} to {last}").format(first=wait.first, last=wait.last)
        if wait.first != wait.last
        else _("round {first}").format(first=wait.first)
    )
    said = _(
        "The longest time without being drawn was {rounds} ({span}). With the chances that were recorded, a wait of "
        "that length or more had a probability of {probability}."
    ).format(rounds=rounds(wait.longest), span=span, probability=percent(wait.probability))
    if not wait.waiting:
        return [said]
    now = (
        _("It still lasts; not to be drawn in these {rounds} had a probability of {probability}.")
        if wait.last == person.rounds[-1].round
        else _("Now it has been {rounds}; not to be drawn in these {rounds} had a probability of {probability}.")
    )
    return [said, now.format(rounds=rounds(wait.waiting), probability=percent(wait.waiting_probability))]


def _benefit(person: PersonReport) -> str:
    known = person.estimate
    said = _(
        "If {who} were reached in every round rather than in none, the share of rounds in the good state would change "
        "by an estimated {benefit} percentage points ({level} % interval: {low} to {high})."
    ).format(
        who=person.id,
        benefit=points(known.benefit),
        level=f"{100 * known.level:g}",
        low=points(known.low),
        high=points(known.high),
    )
    return f"{said} {_rests_on(known.worth, known.pooled)}"


def _rests_on(worth: float, pooled: bool) -> str:
    """Return on what an estimate rests."""
    if worth >= 0.5:
        own = outcomes(round(worth))
        said = (
            _("This rests on {outcomes} of their own and on what is known of everyone.")
            if pooled
            else _("This rests on {outcomes} of their own.")
        )
        return said.format(outcomes=own)
    if pooled:
        return _("This rests on no outcome of their own and on what is known of everyone.")
    return _("This rests on no outcome of their own.")


def _next(person: PersonReport) -> list[str]:
    draw = person.next
    if draw is not None:
        return [*_merit(person, draw), _due(person, draw)]
    if not person.enrolment.here:
        return [_("{who} does not take part any more, so nothing is due now.").format(who=person.id)]
    if person.ended:
        return [_("The programme has ended, so nothing more is due.")]
    said = _("{who} joined after round {round} was drawn, and can be drawn from the next one on.")
    return [said.format(who=person.id, round=person.round)]


def _merit(person: PersonReport, draw: NextDraw) -> list[str]:
    known = person.estimate
    if known.merit is None or known.mean_merit is None or draw.bound.kind in _WITHOUT_MERIT:
        return []
    said = _("From this follows a merit of {merit}, {ratio} times the mean of all.")
    ratio = current().decimal(known.merit / known.mean_merit, 2)
    return [said.format(merit=_three_digits(known.merit), ratio=ratio)]


def _three_digits(value: float) -> str:
    """Return a number with three digits that tell something."""
    text = f"{value:.3g}"
    if "e" in text:
        return text
    return current().decimal(float(text), len(text.partition(".")[2])) if value < 1000 else text


def _due(person: PersonReport, draw: NextDraw) -> str:
    said = (
        _("In the open round {round} {who} is due a chance of {due}.")
        if draw.open
        else _("In round {round}, the next one, {who} is due a chance of {due}.")
    ).format(round=draw.round, who=person.id, due=percent(draw.due))
    more = [_bound(draw)]
    if draw.budget:
        more.append(_("An equal share would be {share}.").format(share=percent(draw.equal)))
    if percent(draw.due) != percent(draw.chance) and not draw.open:
        more.append(_("If it were drawn now, the chance would be {chance}.").format(chance=percent(draw.chance)))
    return " ".join([said, *more])


def _bound(draw: NextDraw) -> str:
    """Return what decides how much is due."""
    if draw.budget == 0:
        return _("Nobody is drawn in it.")
    if draw.bound.kind == "away" and draw.due > 0:
        return _("They are away and cannot be drawn now; what they are due stays in the account.")
    said = {
        "none": _("It is at neither floor nor cap."),
        "floor": _("The floor, which everyone is due, keeps it from being less."),
        "cap": _("The cap, which holds for everyone, keeps it from being more."),
        "learning cap": _("A cap limits it to this, so that it is also seen how they fare when they are not reached."),
        "cool-down share": _("It cannot be more: with a cool-down nobody can be reached more often."),
        "saturated": _("It cannot be more."),
        "away": _("That is because they are away."),
        "cool-down": _(
            "They were reached shortly before and cannot be drawn now; what they are due stays in the account."
        ),
        "warm-up": _("They joined shortly before: newcomers wait for some rounds."),
        "once": _("They were reached already, and the rules allow that once."),
    }
    return said[draw.bound.kind]


def _seen(person: PersonReport) -> list[str]:
    """Return what was seen of somebody, and what came late or was corrected."""
    seen = person.seen
    said = [_states(person)] if seen.good + seen.bad + seen.missing else []
    late = ngettext("{n} report came after the next draw", "{n} reports came after the next draw", seen.late)
    changed = ngettext("{n} round was corrected", "{n} rounds were corrected", seen.corrected)
    words = [text.format(n=whole(number)) for text, number in ((late, seen.late), (changed, seen.corrected)) if number]
    if not words:
        return said
    what = words[0] if len(words) == 1 else _("{first} and {second}").format(first=words[0], second=words[1])
    return [*said, _("{what}: each draw has used what was known when it was made.").format(what=what)]


def _states(person: PersonReport) -> str:
    seen = person.seen
    known = seen.good + seen.bad
    if known and seen.missing:
        said = _("The state afterwards is known for {rounds} ({good} good, {bad} bad), and missing for {missing}.")
    elif known:
        said = _("The state afterwards is known for {rounds} ({good} good, {bad} bad).")
    else:
        said = _("The state afterwards is known for {rounds}, and missing for {missing}.")
    numbers = {"good": whole(seen.good), "bad": whole(seen.bad), "missing": whole(seen.missing)}
    return said.format(rounds=rounds(known), **numbers)
