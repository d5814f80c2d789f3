"""Whether anyone could have steered the draws, in plain sentences, each written whole so that it can be translated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from meritfair.core.language import _, ngettext
from meritfair.programme.showing import steering
from meritfair.programme.showing.report import ProgrammeReport
from meritfair.programme.showing.steering import Finding
from meritfair.programme.showing.wording import day, draws, people, rounds, times, whole

_MOST_NAMES, _MOST_ROUNDS = 10, 12


def steering_clause(report: ProgrammeReport) -> str:
    """Return what was found as a part of a sentence; empty if there is nothing to explain."""
    found = report.steering
    values = {"draws": draws(int(report.total["drawn"])), "rounds": rounds(report.rounds)}
    if found.answer == steering.NOT_CHANCE:
        return _(
            "{n} of the {draws} of {rounds} were not left to chance, since absences had left no more people than were "
            "drawn"
        ).format(n=whole(found.emptied), **values)
    if found.answer == steering.EXPLAIN:
        number = len(found.findings)
        return ngettext(
            "{n} thing that could have steered the {draws} of {rounds} needs an explanation",
            "{n} things that could have steered the {draws} of {rounds} need an explanation",
            number,
        ).format(n=whole(number), **values)
    return ""


def answer_words(report: ProgrammeReport) -> str:
    """Return the answer in a sentence."""
    return {
        steering.NOTHING: _(
            "Nothing to explain: what was entered has moved chances by no more than it does in honest programmes."
        ),
        steering.EXPLAIN: _(
            "What is listed here could have steered the draws, and honest programmes hardly ever show as much. It may "
            "have a good reason: ask those who entered it."
        ),
        steering.NOT_CHANCE: _(
            "Some draws were not left to chance: whoever took the others out has decided who was drawn. Ask those who "
            "entered it, and why those who were taken out came back."
        ),
    }[report.steering.answer]


def finding_words(report: ProgrammeReport, found: Finding) -> str:
    """Return what was found, in a sentence."""
    value, of = found.value, found.of
    match found.kind:
        case "emptied":
            said = _(
                "{n} of {of} draws had a chance of 1: those who were taken out left no more people than were drawn, "
                "and came back later."
            )
        case "left":
            said = _("Within {most}, {n} of {of} people left, and have not come back.")
            return said.format(most=rounds(steering.SOON), n=whole(value), of=whole(of))
        case "brief":
            said = _("{n} of {of} people joined and left for good after {most} in the draws, or fewer.")
            return said.format(most=rounds(steering.BRIEF_ROUNDS), n=whole(value), of=whole(of))
        case "hurried":
            said = _("{n} of {of} rounds came in less than a tenth of the usual time after the one before.")
        case "unused":
            said = _(
                "After {n} of {of} rounds nobody of those drawn was reported as reached, nor how they were: whoever "
                "draws again and again, and calls only those whom they like, would look the same."
            )
        case "regrouped":
            said = _(
                "The group of {n} of {of} people was changed after they had been in a draw. Figures by group use the "
                "last one, for all rounds."
            )
        case "moved":
            said = _("Absences moved {n} of {of} of these rounds from those who were absent to the others.")
            return said.format(n=_number(value), of=draws(of))
        case "gained":
            said = _("{n} of {of} that were given to {who} came from the absences of others.")
            return said.format(n=_number(value), of=draws(of), who=_who(report, found.people))
        case "lost":
            said = _("Absences of their own took {n} of {of} from {who}.")
            return said.format(n=_number(value), of=draws(of), who=_who(report, found.people))
        case "chosen":
            said = _(
                "Those who were taken out had larger chances than the others when they were: {n} draws together, where "
                "{of} would be expected."
            )
            return said.format(n=_number(value), of=_number(of))
        case "budgets":
            said = _("{n} of {of} rounds had a budget of their own, not that of the settings.")
        case "flipped":
            return _("Settings were changed and soon changed back, with draws in between: {times}.").format(
                times=times(int(value))
            )
        case "overrides":
            said = _("{n} of the {of} who were reached had not been drawn.")
        case _:
            said = _("{n} of the {of} calls that reached {who} were made without a draw.")
            return said.format(who=_who(report, found.people), of=whole(of), n=whole(value))
    return said.format(n=whole(value), of=whole(of))


def finding_details(report: ProgrammeReport, found: Finding) -> str:
    """Return what was found, with its rounds, when and by whom it was entered, and why."""
    said = _("{what} Rounds {rounds}, first entered on {day} by {by}. Reasons given: {reasons}.")
    return said.format(
        what=finding_words(report, found),
        rounds=listed_rounds(found.rounds),
        day=day(found.time),
        by=names_of_users(found.by) or _("nobody named"),
        reasons=listed_reasons(found.reasons),
    )


def _who(report: ProgrammeReport, numbers: Sequence[int]) -> str:
    """Return people by name, or how many where nobody is named."""
    places = {int(number): place for place, number in enumerate(report.numbers)}
    names = [report.people.names[places[number]] for number in numbers if number in places]
    if len(set(names)) < len(names) or len(names) > _MOST_NAMES or names == [_("someone")]:
        return people(len(names))
    return ", ".join(names)


def _number(value: float) -> str:
    return draws(value).partition(" ")[0]


def listed_rounds(numbers: Sequence[int]) -> str:
    """Return rounds, the first few of them.

    Examples
    --------
    >>> listed_rounds((3, 4, 5, 9)), listed_rounds(range(1, 60, 2))
    ('3–5, 9', '1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23 …')
    """
    spans = list[list[int]]()
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    texts = [str(first) if first == last else f"{first}–{last}" for first, last in spans]
    return ", ".join(texts[:_MOST_ROUNDS]) + (" …" if len(texts) > _MOST_ROUNDS else "")


def names_of_users(names: Sequence[str]) -> str:
    """Return users, the first few of them."""
    shown = [name or _("nobody named") for name in names[:_MOST_NAMES]]
    return ", ".join(shown) + (" …" if len(names) > _MOST_NAMES else "")


def listed_reasons(reasons: Sequence[str]) -> str:
    """Return reasons in quotes, the first few of them."""
    shown = "; ".join(f"“{each}”" for each in reasons[:_MOST_NAMES])
    return shown + (" …" if len(reasons) > _MOST_NAMES else "") if reasons else _("none was needed or given")


def steering_words(report: ProgrammeReport) -> list[str]:
    """Return what was looked at, and what it showed."""
    about = (_absences, _certain, _turnover, _rounds, _budgets, _settings, _reporters)
    return [*(look(report) for look in about), _unseen()]


def _absences(report: ProgrammeReport) -> str:
    found = report.steering
    if not found.rounds:
        return _("Absences: nobody was taken out of a draw and came back, or may.")
    said = _(
        "Absences: {n} with people who were taken out and came back, or may, were planned again as if all of them had "
        "stayed. The absences moved {moved} of {budget} to others."
    ).format(n=rounds(len(found.rounds)), moved=_number(found.moved), budget=draws(found.budget))
    if not found.gains:
        return said
    best = found.gains[0]
    more = _("Nobody gained more than {gain} by it, of {given} that they were given.")
    return f"{said} {more.format(gain=draws(best.gain), given=draws(best.given))}"


def _certain(report: ProgrammeReport) -> str:
    found = report.steering
    if not found.certain and not found.thin:
        return _("Draws without chance: none. In every round there were at least twice as many people as were drawn.")
    said = ngettext(
        "Draws without chance: {certain} with a chance of 1, as no more people were left than were to be drawn; in {n} "
        "round there were fewer than twice as many.",
        "Draws without chance: {certain} with a chance of 1, as no more people were left than were to be drawn; in {n} "
        "rounds there were fewer than twice as many.",
        found.thin,
    ).format(certain=whole(found.certain), n=whole(found.thin))
    if found.emptied:
        return said
    small = _("Where no more are enrolled, that is the size of the programme and nobody's doing.")
    return f"{said} {small}"


def _turnover(report: ProgrammeReport) -> str:
    found = report.steering.turnover
    said = _("Who came and went: {fewest} to {most} people could be drawn in a round.")
    more = _(
        "{late} joined after the first draw; {left} left for good, {brief} of these after at most {few} in the draws."
    )
    group = _("The group of {n} was changed after they had been in a draw; figures by group use the last one.")
    values = {"late": people(found.late), "left": whole(found.left), "brief": whole(found.brief)}
    texts = [
        said.format(fewest=whole(found.fewest), most=whole(found.most)),
        more.format(few=rounds(steering.BRIEF_ROUNDS), **values),
        group.format(n=people(found.regrouped)) if found.regrouped else "",
    ]
    return " ".join(filter(None, texts))


def _rounds(report: ProgrammeReport) -> str:
    found = report.steering
    return _(
        "Rounds: {n}, which can be compared with the calendar. {hurried} came much sooner after the one before than "
        "usual. After {unused}, not counting the newest {newest}, nobody of those drawn was reported as reached."
    ).format(
        n=whole(report.rounds),
        hurried=whole(len(found.hurried)),
        unused=whole(len(found.unused)),
        newest=whole(steering.NEWEST),
    )


def _budgets(report: ProgrammeReport) -> str:
    own = report.steering.budgets
    if not own:
        return _("Budgets: every round had that of the settings.")
    each = [
        _("round {round} on {day}: {asked} in place of {settings}, by {by}: “{reason}”").format(
            round=one.round,
            day=day(one.time),
            asked=", ".join(map(str, one.asked)),
            settings=", ".join(map(str, one.settings)),
            by=names_of_users([one.by]),
            reason=one.reason,
        )
        for one in own[:_MOST_NAMES]
    ]
    said = _("Budgets: {n} had one of their own: {list}.")
    return said.format(n=rounds(len(own)), list="; ".join(each) + (" …" if len(own) > _MOST_NAMES else ""))


def _settings(report: ProgrammeReport) -> str:
    changes = len(report.happened.changes)
    if not changes:
        return _("Settings: they were never changed.")
    return _(
        "Settings: changed {times}; within a day before the next draw: {hasty}; changed and soon changed back, with "
        "draws in between: {flips}."
    ).format(times=times(changes), hasty=times(report.steering.hasty), flips=times(len(report.steering.flips)))


def _reporters(report: ProgrammeReport) -> str:
    found = report.steering.reporters
    said = _(
        "Outcomes: what is entered feeds the estimates, and these what someone is due. Whoever enters outcomes, or "
        "tells states for a draw, can raise or lower that by what is not true, and no draw shows it."
    )
    if found.alone:
        said += " " + _(
            "For {n} of {people} one user alone has entered all of it ({names}). Where each nurse has their own "
            "patients it is usual; let a second person enter some of them now and then."
        ).format(n=whole(sum(found.alone.values())), people=people(found.people), names=_counts(found.alone))
    if found.told:
        told = _("States told for draws: {names}.")
        said += " " + told.format(names=_counts(found.told))
    return said


def _counts(by: Mapping[str, int]) -> str:
    """Return users with a number for each, the first few of them."""
    listed = [f"{name or _('nobody named')} {whole(number)}" for name, number in by.items()]
    return ", ".join(listed[:_MOST_NAMES]) + (" …" if len(listed) > _MOST_NAMES else "")


def _unseen() -> str:
    return _(
        "Not visible here: someone who was enrolled again under another id, people who do not exist, who was enrolled "
        "late or never for the sake of others, and outcomes, states and calls that are not true."
    )
