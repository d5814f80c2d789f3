"""The audit of a programme in plain sentences, each written whole so that it can be translated."""

from __future__ import annotations

import math

import numpy as np

from meritfair.auditing.report import in_two_digits
from meritfair.core.arrays import FloatArray
from meritfair.core.language import _, current, ngettext
from meritfair.effects.report import Effect
from meritfair.effects.sensitivity import EffectSensitivity
from meritfair.effects.sequence import LEAST
from meritfair.model.improbable import FEWEST
from meritfair.model.sensitivity import STEP, BenefitSensitivity
from meritfair.programme.showing.report import ProgrammeReport
from meritfair.programme.showing.steering import OVERRIDES, OVERRIDES_PART
from meritfair.programme.showing.steering_words import steering_clause
from meritfair.programme.showing.wording import (
    draws,
    evidence,
    people,
    percent,
    points,
    rounds,
    shortest,
    times,
    two_digits,
    whole,
)

_SHIFT = 0.05  # by how much a group's part of those reached may differ from its part of the draws
_EVEN = 5e-4  # draws
_MOST_NAMES = 10


def verdict_of(report: ProgrammeReport) -> str:
    """Return what was found, in a few sentences: what matters most first."""
    return " ".join([*_ledger(report), first_sentence(report), accounts_words(report), overrides_words(report)])


def first_sentence(report: ProgrammeReport) -> str:
    """Return whether the draws were as stated, and whether anyone could have steered them: clauses of one sentence."""
    steered = steering_clause(report)
    if steered:
        clauses = [_draws(report), steered] if report.audit.overall.violated else [steered, _fits()]
    elif report.audit.overall.violated:
        clauses = [_draws(report)]
    else:
        clauses = [_draws(report), _("nothing that could have steered them needs an explanation")]
    return "; ".join([*clauses, *_unchecked(report)]) + "."


def _unchecked(report: ProgrammeReport) -> list[str]:
    """Return how many rounds rest on values that nobody has checked, as a clause."""
    if not report.unchecked:
        return []
    said = ngettext(
        "{n} of {rounds} rests on a public value that no program can check",
        "{n} of {rounds} rest on public values that no program can check",
        report.unchecked,
    )
    return [said.format(n=whole(report.unchecked), rounds=rounds(report.rounds))]


def _fits() -> str:
    return _("the draws fit the chances that were committed before each of them")


def _ledger(report: ProgrammeReport) -> list[str]:
    found = report.verification
    if found is None or found.whole:
        return []
    said = _("The ledger is not whole: {problem}. Until that is explained, nothing below can be relied on.")
    return [said.format(problem=found.problems[0])]


def _draws(report: ProgrammeReport) -> str:
    """Return whether the draws followed their chances, as a clause."""
    evidence, certain = report.audit.overall, report.audit.certain
    values = {"draws": draws(int(report.total["drawn"])), "rounds": rounds(report.rounds)}
    if not evidence.violated:
        return _(
            "Nothing speaks against the {draws} of {rounds}: they fit the chances that were committed before each of "
            "them"
        ).format(**values)
    if not certain:
        return _(
            "The {draws} of {rounds} did not follow the chances that were stated: since round {found} the evidence is "
            "beyond what fair draws ever reach with a probability of more than {alpha}"
        ).format(**values, found=evidence.found, alpha=percent(report.alpha))
    first = certain[0]
    said = (
        _(
            "The {draws} of {rounds} did not follow the chances that were stated: in round {round}, {who} was drawn "
            "with a chance of 0"
        )
        if first.exposure == 0
        else _(
            "The {draws} of {rounds} did not follow the chances that were stated: in round {round}, {who} was not "
            "drawn with a chance of 1"
        )
    )
    return said.format(**values, round=first.round, who=first.arm)


def accounts_words(report: ProgrammeReport) -> str:
    """Return whether everyone was given what they were due."""
    known = report.standings
    far = int(np.abs(known.farthest).argmax())
    account = float(known.farthest[far])
    if abs(account) < _EVEN:
        return _("In every round everyone who was in the draw was given the chance that they were due.")
    largest = (_("{who} was {draws} behind") if account > 0 else _("{who} was {draws} ahead")).format(
        who=report.people.names[far], draws=draws(abs(account))
    )
    slacks = {slack for round_ in report.happened.slack for slack in round_ if math.isfinite(slack)}
    if not slacks:
        said = _("The account farthest from even: {largest}; the policy sets no bound to it.")
        return said.format(largest=largest)
    bound = _("its slack of {slack}").format(slack=draws(slacks.pop())) if len(slacks) == 1 else _("its slack")
    if report.within_slack:
        said = _(
            "Over time everyone was given what they were due while they were in the draws: no account left {bound} (at "
            "most, {largest})."
        )
        return said.format(bound=bound, largest=largest)
    return _beyond(report, bound, largest)


def _beyond(report: ProgrammeReport, bound: str, largest: str) -> str:
    number, everyone = int((report.standings.beyond > 0).sum()), len(report.standings.number)
    said = ngettext(
        "{n} account of {everyone} left {bound}: {largest}.",
        "{n} accounts of {everyone} left {bound}: {largest}.",
        number,
    ).format(n=whole(number), everyone=whole(everyone), bound=bound, largest=largest)
    if not report.settings.rules.needs_accounts:
        return said
    return f"{said} {_('Rules that keep people out of a draw can do that.')}"


def overrides_words(report: ProgrammeReport) -> str:
    """Return how many were reached without being drawn, and whether that shifts who is reached."""
    number, reached = report.overrides.number, int(report.total["reached"])
    if not number:
        return _("Nobody was reached without being drawn.")
    values = {"n": whole(number), "reached": whole(reached), "part": percent(number / reached)}
    shift = shifts(report)
    place = int(np.abs(shift).argmax())
    if abs(shift[place]) > _SHIFT:
        return _(
            "{n} of the {reached} who were reached ({part}) had not been drawn; together with those who could not be "
            "reached, this moves {points} percentage points of all calls to the group {group}."
        ).format(**values, points=points(float(shift[place])), group=report.groups.names[place])
    if number >= OVERRIDES and number > OVERRIDES_PART * reached:
        return _(
            "{n} of the {reached} who were reached ({part}) had not been drawn; that is much, and the board should ask "
            "why."
        ).format(**values)
    return _("{n} of the {reached} who were reached ({part}) had not been drawn.").format(**values)


def shifts(report: ProgrammeReport) -> FloatArray:
    """Return for each group its part of those reached less its part of the draws that were reported on."""
    drawn, reached = report.groups.drawn - report.groups.not_reported, report.groups.reached
    return np.asarray(reached / max(1, reached.sum()) - drawn / max(1, drawn.sum()))


def evidence_words(report: ProgrammeReport) -> list[str]:
    """Return what the evidence says, and what it means."""
    found, need = report.audit.overall, evidence(-math.log(report.alpha))
    said = _(
        "Before each draw the chance of everyone was written into the ledger. If people are then drawn more or less "
        "often than these chances say, evidence builds up: a number that starts at 1, and that fair draws ever take "
        "to {need} with a probability of {alpha} at most, however often somebody looks. It is {now} now, and was "
        "{most} at most."
    ).format(need=need, alpha=percent(report.alpha), now=evidence(found.log_e), most=evidence(found.log_largest))
    return [f"{said} {_flagged(report)}", power_words(report)]


def power_words(report: ProgrammeReport) -> str:
    """Return how soon it would show that one person is drawn less often than the chances say."""
    count = report.audit.rounds_until_found
    if math.isinf(count):
        return _("That one person is drawn a tenth less often than the chances say would never show.")
    said = _("One person who is drawn a tenth less often than the chances say would show after about {rounds}.")
    return said.format(rounds=rounds(in_two_digits(count)))


def _flagged(report: ProgrammeReport) -> str:
    tables = {_("the people {names}"): report.audit.arms, _("the groups {names}"): report.audit.groups}
    named = []
    for what, table in tables.items():
        names = [] if table is None else [table.names[k] for k in np.flatnonzero(table.flagged)]
        if names and set(names) == {nobody_named()}:
            named.append(people(len(names)))
        elif names:
            named.append(what.format(names=_listed(names)))
    if not named:
        return _("No person and no group stands out.")
    who = named[0] if len(named) == 1 else _("{first} and {second}").format(first=named[0], second=named[1])
    return _("These stand out: {who}.").format(who=who)


def nobody_named() -> str:
    """Return what everyone is called in a report without names."""
    return _("someone")


def _listed(names: list[str]) -> str:
    """Return names, the first few of them."""
    first, more = ", ".join(names[:_MOST_NAMES]), len(names) - _MOST_NAMES
    return _("{names} and {n} more").format(names=first, n=whole(more)) if more > 0 else first


def waits_words(report: ProgrammeReport) -> list[str]:
    """Return how long people waited, and whether that is odd for that many people."""
    known, everyone = report.standings, len(report.people)
    worst, longest = int(report.least_likely_waits(1)[0]), int(known.wait.max())
    if not longest:
        return [_("Nobody has waited for a round yet.")]
    chance = float(known.probability[worst])
    said = _(
        "The longest time that anybody went without being drawn was {longest}. The least likely wait was that of "
        "{who}: {rounds}, which had a probability of {probability} with this person's chances. Of {people}, {expected} "
        "can be expected to have one that is as unlikely."
    ).format(
        longest=rounds(longest),
        who=report.people.names[worst],
        rounds=rounds(int(known.wait[worst])),
        probability=percent(chance),
        people=people(everyone),
        expected=expected(chance, everyone),
    )
    odd = chance * everyone < report.alpha
    return [f"{said} {_('That is hardly by chance.') if odd else _('That is nothing odd.')}"]


def expected(chance: float, everyone: int) -> str:
    """Return how many of some people can be expected to have a wait that is as unlikely.

    Examples
    --------
    >>> expected(0.01, 300), expected(0.0001, 300), expected(1e-9, 300)
    ('3.0', '0.03', 'fewer than 0.001')
    """
    number = chance * everyone
    if number < 0.001:
        return _("fewer than {number}").format(number=current().decimal(0.001, 3))
    return current().decimal(number, 1) if number >= 1 else two_digits(number)


def override_details(report: ProgrammeReport) -> list[str]:
    """Return who has reported overrides, and how many reasons were given; reasons are counted, not quoted."""
    found = report.overrides
    if not found.number:
        return [overrides_words(report), *_absences(report)]
    details = [
        _("They were reported by: {names}.").format(names=_counted(found.by)),
        _reasons(found.reasons, found.different, found.commonest),
        _("The programme learns from what was done, not from what was drawn."),
    ]
    return [overrides_words(report), " ".join(details), *_absences(report)]


def _reasons(kept: int, different: int, commonest: int) -> str:
    if not kept:
        return _("No reason is kept any more.")
    if kept == 1:
        return _("For one of them a reason is kept.")
    if different == 1:
        return _("For {kept} of them a reason is kept, the same each time.").format(kept=whole(kept))
    said = _("For {kept} of them a reason is kept: {n} different ones, of which the commonest was given {times}.")
    return said.format(kept=whole(kept), n=whole(different), times=times(commonest))


def _absences(report: ProgrammeReport) -> list[str]:
    by = {name: number for name, number in report.happened.away_by.items() if number}
    if not by:
        return []
    said = _(
        "Somebody was noted as away {times}, by: {names}. Whoever is away cannot be drawn, which raises the chances of "
        "the others."
    )
    return [said.format(times=times(sum(by.values())), names=_counted(by))]


def _counted(by: dict[str, int]) -> str:
    return ", ".join(f"{name or _('nobody named')} {whole(number)}" for name, number in by.items())


def data_words(report: ProgrammeReport) -> list[str]:
    """Return what is missing, late, corrected or improbable."""
    said = [_missing(report)]
    if report.missing.uneven:
        said.append(
            _(
                "States are missing more often after some states and actions than after others. If they are missing "
                "because of what they are, estimates and effects are biased, and no records can show by how much."
            )
        )
    if report.happened.late:
        said.append(_late(report))
    number = report.happened.corrected
    if number:
        text = ngettext(
            "{n} correction, by: {names}. The old values stay in the ledger.",
            "{n} corrections, by: {names}. The old values stay in the ledger.",
            number,
        )
        said.append(text.format(n=whole(number), names=_counted(report.happened.corrected_by)))
    return [*said, *improbable_words(report)]


def good_of(good: int, outcomes: int) -> str:
    """Return how many outcomes were good."""
    return _("{good} of {n}").format(good=whole(good), n=whole(outcomes))


def improbable_words(report: ProgrammeReport) -> list[str]:
    """Return how many report outcomes that are improbable beside those of the others, without accusing anyone."""
    found = report.improbable
    number = len(found.order)
    if len(found.log_evidence) < FEWEST:
        return [_("There are too few people to say whose outcomes are improbable beside those of the others.")]
    if not number:
        return [_("Nobody's outcomes are improbable beside those of the others.")]
    said = ngettext(
        "The outcomes of {n} person of {everyone} are improbable beside those of the others. If all are alike, that "
        "happens to anyone at all with a probability of {alpha} at most.",
        "The outcomes of {n} people of {everyone} are improbable beside those of the others. If all are alike, that "
        "happens to anyone at all with a probability of {alpha} at most.",
        number,
    ).format(n=whole(number), everyone=whole(len(found.log_evidence)), alpha=percent(found.alpha))
    why = _(
        "This does not say why: someone may really differ from all others, states may have been entered wrongly, or "
        "reported wrongly. What people are due follows from these states, so find out how they came to be known."
    )
    return [said, why]


def _missing(report: ProgrammeReport) -> str:
    total = report.total
    missing, silent = percent(total["missing"] / max(1.0, total["states"])), int(total["not_reported"])
    if not silent:
        return _("The state after a round is missing in {part} of all cases.").format(part=missing)
    said = _("The state after a round is missing in {part} of all cases; of {draws} it was not reported what was done.")
    return said.format(part=missing, draws=draws(silent))


def _late(report: ProgrammeReport) -> str:
    happened = report.happened
    after = [
        _("{n} after {draws}").format(n=whole(number), draws=draws(delay)) for delay, number in happened.delays.items()
    ]
    listed = ", ".join(after[:_MOST_NAMES]) + (f" {_('and so on')}" if len(after) > _MOST_NAMES else "")
    return _(
        "{late} of {reported} reports on a person came after the next draw: {delays}. Each counts for its own round "
        "from then on."
    ).format(late=whole(happened.late), reported=whole(happened.reported), delays=listed)


def learned_words(report: ProgrammeReport) -> list[str]:
    """Return what was learned of how much people gain."""
    said = list[str]()
    for each in report.learned:
        known = each.everyone
        text = (
            _(
                "In the arm {part}, if everyone who is enrolled were reached in every round rather than in none, the "
                "share of rounds in the good state would change by {mean} percentage points, by the mean of all "
                "estimates; for half of the people by {low} to {high}. For {gain} of {people} people it is clear that "
                "it would rise: the 95 % interval of their own is above 0."
            )
            if each.part
            else _(
                "If everyone who is enrolled were reached in every round rather than in none, the share of rounds in "
                "the good state would change by {mean} percentage points, by the mean of all estimates; for half of "
                "the people by {low} to {high}. For {gain} of {people} people it is clear that it would rise: the 95 % "
                "interval of their own is above 0."
            )
        )
        half = {"low": points(known.quantiles[1]), "high": points(known.quantiles[3])}
        who = {"gain": whole(known.gain), "people": whole(known.people)}
        said.append(text.format(part=each.part, mean=points(known.mean), **half, **who))
        said.append(_unseen_benefit(each.sensitivity))
    return said


def _unseen_benefit(known: BenefitSensitivity) -> str:
    """Return what states that are not known could change of the mean of the estimates."""
    visits, missing, mean = int(known.visits.sum()), int(known.missing.sum()), known.mean_benefit()
    if not missing:
        return _all_seen(visits)
    way = 1.0 if mean > 0 else -1.0
    moved = known.mean_benefit(-way * STEP), known.mean_benefit(0.0, way * STEP)
    values = {"step": whole(100 * STEP), "reached": points(moved[0]), "others": points(moved[1])}
    said = [
        _(
            "The state after {missing} of {visits} rounds of a person ({part}) is not known. The estimates take it "
            "that these people were in the good state as often as the others, from the same state and after the same "
            "action; no records can show that."
        ).format(missing=whole(missing), visits=whole(visits), part=percent(missing / visits)),
        (
            _(
                "If those of them who were reached were in the good state {step} percentage points less often than "
                "that, the mean would be {reached}; if those not reached were in it {step} points more often, {others}."
            )
            if way > 0
            else _(
                "If those of them who were reached were in the good state {step} percentage points more often than "
                "that, the mean would be {reached}; if those not reached were in it {step} points less often, {others}."
            )
        ).format(**values),
        _("With {size} points for both, it would be 0.").format(size=whole(100 * known.tipping))
        if math.isfinite(known.tipping)
        else _("Not even 100 points for both would bring it to 0."),
        _(
            "Whatever these states were, the mean lies between {low} and {high}, up to the uncertainty of estimates."
        ).format(low=points(known.bounds[0]), high=points(known.bounds[1])),
    ]
    return " ".join(said)


def _all_seen(number: int) -> str:
    said = _(
        "The state after each of {rows} rounds of a person is known, so nothing here depends on states that are "
        "missing."
    )
    return said.format(rows=whole(number))


def effect_words(report: ProgrammeReport) -> str:
    """Return whether being drawn helps, in a sentence."""
    found = report.effect
    if found is None or not math.isfinite(found.interval[0]):
        return _(
            "It is too early to say whether being drawn helps. It takes at least {least} draws with a known outcome, "
            "and {least} people who were in a draw and not drawn."
        ).format(least=LEAST)
    low, high = found.interval
    level = shortest(100 * found.level)
    if low <= 0 <= high:
        return _(
            "It is not clear whether being drawn helps: the estimate is {estimate} percentage points, and anything "
            "between {low} and {high} fits the records, at {level} % confidence, whenever one looks."
        ).format(estimate=points(found.estimate), low=points(low), high=points(high), level=level)
    text = (
        _(
            "Being drawn raises the chance of a good state after the round by {estimate} percentage points (between "
            "{least} and {most}, at {level} % confidence, whenever one looks)."
        )
        if low > 0
        else _(
            "Being drawn lowers the chance of a good state after the round by {estimate} percentage points (between "
            "{least} and {most}, at {level} % confidence, whenever one looks)."
        )
    )
    least, most = (whole(end) for end in sorted(abs(100 * end) for end in (low, high)))
    return text.format(estimate=whole(100 * abs(found.estimate)), least=least, most=most, level=level)


def unseen_words(found: Effect | None) -> list[str]:
    """Return what states that are not known could change of the effect, once there is one."""
    if found is None:
        return []
    known = found.sensitivity
    if not known.missing:
        return [_all_seen(known.rows)]
    part = percent(known.missing / known.rows)
    counts = {"missing": whole(known.missing), "rows": whole(known.rows), "drawn": whole(known.missing_drawn)}
    said = _(
        "The state after {missing} of {rows} rounds of a person ({part}) is not known; in {drawn} of these the person "
        "was drawn. The effect takes it that these people were in the good state as often as the others, from the same "
        "state and after the same draw; no records can show that."
    ).format(**counts, part=part)
    (low, high), (least, most) = known.bounds, known.outer
    bounds = {"low": points(low), "high": points(high), "least": points(least), "most": points(most)}
    outer = (
        _(
            "Whatever these states were, the effect lies between {low} and {high}; with the uncertainty of the draws, "
            "between {least} and {most}."
        )
        if math.isfinite(least)
        else _("Whatever these states were, the effect lies between {low} and {high}.")
    )
    return [" ".join([said, _unseen_moves(found.estimate, known), *_unseen_tips(known), outer.format(**bounds)])]


def _unseen_moves(estimate: float, known: EffectSensitivity) -> str:
    """Return what differences of ten points would change, in the direction that brings the effect to 0."""
    way = 1.0 if estimate > 0 else -1.0
    moved = estimate + known.shift(-way * STEP), estimate + known.shift(0.0, way * STEP)
    text = (
        _(
            "If those of them who were drawn were in the good state {step} percentage points less often than that, the "
            "effect would be {drawn} instead of {now}; if those not drawn were in it {step} points more often, "
            "{others}."
        )
        if way > 0
        else _(
            "If those of them who were drawn were in the good state {step} percentage points more often than that, the "
            "effect would be {drawn} instead of {now}; if those not drawn were in it {step} points less often, "
            "{others}."
        )
    )
    step = whole(100 * STEP)
    return text.format(step=step, drawn=points(moved[0]), others=points(moved[1]), now=points(estimate))


def _unseen_tips(known: EffectSensitivity) -> list[str]:
    """Return at which difference the conclusion is another one."""
    low, high = known.interval
    worse, better = known.tipping["worse"], known.tipping["better"]
    if not math.isfinite(low):
        return []
    if low > 0 or high < 0:
        size = worse if low > 0 else better
        still = (
            _("Even with 100 points for both, it would still be clear that being drawn helps.")
            if low > 0
            else _("Even with 100 points for both, it would still be clear that being drawn harms.")
        )
        text = (
            _("With {size} points for both, it would no longer be clear that being drawn helps.")
            if low > 0
            else _("With {size} points for both, it would no longer be clear that being drawn harms.")
        )
        return [text.format(size=whole(100 * size)) if math.isfinite(size) else still]
    texts = {
        _(
            "It would be clear that being drawn helps if those drawn were in the good state {size} points more often "
            "than that, and those not drawn {size} points less often."
        ): better,
        _(
            "It would be clear that being drawn harms if those drawn were in the good state {size} points less often "
            "than that, and those not drawn {size} points more often."
        ): worse,
    }
    return [text.format(size=whole(100 * size)) for text, size in texts.items() if math.isfinite(size)]


def effect_notes(found: Effect) -> list[str]:
    """Return on what an effect rests, and what was left out."""
    rests = _("This rests on {rows} rounds of a person, in {drawn} of which the person was drawn.").format(
        rows=whole(int(found.overall.rows[0])), drawn=whole(int(found.overall.pulled[0]))
    )
    left = [f"{whole(number)} {why}" for why, number in zip(_left_out(), found.left_out, strict=True) if number]
    more = f" {_('Left out are {what}.').format(what='; '.join(left))}" if left else ""
    return [
        rests + more,
        _(
            "The effect is that of being drawn, whoever was reached in the end, since chance decided that alone. “At "
            "any time” holds however often one looks; “for one look” only if the time of the look was set beforehand. "
            "Worth: as many rounds with a chance of one half would say as much."
        ),
    ]


def _left_out() -> tuple[str, ...]:
    return (
        _("of the last round, whose next state is not known yet"),
        _("of people who were not in the draw"),
        _("with a chance of exactly 0 or 1, where nothing was left to chance"),
        _("with an unknown state before"),
        _("with an unknown state after"),
        _("without a draw"),
    )
