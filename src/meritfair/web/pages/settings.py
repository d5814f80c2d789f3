"""Settings of a programme: what is in force, what a change would do, and its entry; and the end of the programme."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from meritfair.core.errors import InputError
from meritfair.core.language import _, ngettext
from meritfair.model.rules import Rules, budget_text
from meritfair.policies.merit_fair import MeritFair
from meritfair.programme.ledger.randomness import SECRET, is_drand
from meritfair.programme.reading import Snapshot
from meritfair.programme.settings import Part, Settings
from meritfair.programme.showing.change_preview import ChangePreview
from meritfair.programme.showing.happenings import differences
from meritfair.programme.showing.person import all_within
from meritfair.programme.showing.wording import shortest
from meritfair.programme.state import State
from meritfair.web.access import Admin, Here, Viewer
from meritfair.web.charts import Chart, Curve
from meritfair.web.job_table import Job
from meritfair.web.pages.forms import Text, new_key, parse_number, parse_whole
from meritfair.web.pages.responses import go
from meritfair.web.pages.whatif import whatif_chart
from meritfair.web.quota import QuotaError
from meritfair.web.rendering import group_word, number, page, path, percent, signed

router = APIRouter()
_MANY = 20_000  # people for whom a plan of the next round takes a while
_AHEAD = 26  # rounds that a what-if plays
_LONGEST = 300  # characters of a field


@dataclass(frozen=True)
class Wanted:
    """What a form asks for, as it was typed.

    Attributes
    ----------
    part, budget, floor, slack, policy, cooldown, warmup : str
        Empty where nothing is to change.
    once, accrue : str
        ``on`` or empty.
    source : str
        Empty for none.
    """

    part: str = ""
    budget: str = ""
    floor: str = ""
    slack: str = ""
    policy: str = ""
    cooldown: str = ""
    warmup: str = ""
    once: str = ""
    accrue: str = ""
    source: str = ""

    def settings(self, now: Settings) -> Settings:
        """Return the settings with this change."""
        part = _part(now, self.part)
        return now.changed(
            part.name,
            budget=_cycle(self.budget),
            policy=self._policy(part),
            floor=parse_number(_("floor"), self.floor),
            rules=self._rules(now.rules),
            source=self.source,
        )

    def _rules(self, now: Rules) -> Rules:
        cooldown, warmup = parse_whole(_("cool-down"), self.cooldown), parse_whole(_("warm-up"), self.warmup)
        return Rules(
            now.cooldown if cooldown is None else cooldown,
            now.warmup if warmup is None else warmup,
            bool(self.once),
            bool(self.accrue),
        )

    def _policy(self, part: Part) -> Any:
        if self.policy.strip() and self.policy.strip() != part.policy.name:
            return self.policy.strip()
        slack = parse_number(_("slack"), self.slack)
        if slack is None or not isinstance(part.policy, MeritFair) or slack == part.policy.slack:
            return None
        return dataclasses.replace(part.policy, slack=slack)


async def _wanted(request: Request) -> Wanted:
    """Return what a form asks for, whether it stands in the address or was sent."""
    sent = request.query_params if request.method == "GET" else await request.form()
    typed: dict[str, str] = {}
    for each in dataclasses.fields(Wanted):
        value = sent.get(each.name, "")
        if not isinstance(value, str) or len(value) > _LONGEST:
            raise InputError(f"{each.name} must be a text of at most {_LONGEST} characters")
        typed[each.name] = value
    return Wanted(**typed)


Asked = Annotated[Wanted, Depends(_wanted)]


@router.get("/p/{programme}/settings")
def show_settings(here: Viewer, did: str = "") -> Response:
    """Show what is in force, and how it came to be."""
    return _show(here, here.look(), did=did)


@router.get("/p/{programme}/settings/preview")
def preview(here: Admin, wanted: Asked) -> Response:
    """Show what a change would do, before it is made."""
    return _preview(here, wanted)


@router.post("/p/{programme}/settings/change")
def change(here: Admin, wanted: Asked, key: Text, reason: Text = "") -> Response:
    """Enter a change of settings."""
    if not reason.strip():
        return _preview(here, wanted, _("A change needs a reason: it is kept in the ledger, with your name."))
    new = wanted.settings(here.look().settings)
    part = _part(new, wanted.part)
    here.programme.change(
        budget=list(part.budget),
        policy=part.policy,
        floor=part.floor,
        rules=new.rules,
        source=new.source,
        part=part.name,
        reason=reason,
        by=here.by,
        key=key,
    )
    return go(here, "p", here.name, "settings", did="changed")


@router.post("/p/{programme}/settings/end")
def end(here: Admin, key: Text, typed: Text = "") -> Response:
    """End the programme, and publish its secret."""
    if typed.strip() != here.name:
        problem = _("The programme has not ended: what you typed is not its name.")
        return _show(here, here.look(), problem=problem, status=422)
    here.programme.end(by=here.by, key=key)
    return go(here, "p", here.name, "settings", did="ended")


def _show(here: Here, look: Snapshot, *, did: str = "", problem: str = "", status: int = 200) -> Response:
    said = {
        "changed": _("The change is entered. It holds from the next round on."),
        "ended": _("The programme has ended. Its secret is in the ledger now, so anyone can check all draws."),
    }
    return page(
        here,
        "settings.html",
        status=status,
        look=look,
        parts=[part_facts(look.state, place) for place in range(len(look.settings.parts))],
        rules=rule_words(look.settings.rules),
        source=source_words(look.settings.source),
        changes=look.changes()[::-1],
        said=said.get(did, ""),
        problem=problem,
        new_key=new_key,
        budget_text=budget_text,
        is_merit_fair=[isinstance(each.policy, MeritFair) for each in look.settings.parts],
    )


def _preview(here: Here, wanted: Wanted, problem: str = "") -> Response:
    look = here.look()
    try:
        new = wanted.settings(look.settings)
        shown = _shown(here, look, new)
    except InputError as error:
        return _show(here, look, problem=str(error), status=422)
    if isinstance(shown, Job):
        return page(here, "settings_planning.html", job=shown, stale=False, back=path("p", here.name, "settings"))
    ids = look.ids([number for number, _now, _then in shown.people])
    return page(
        here,
        "settings_preview.html",
        status=422 if problem else 200,
        look=look,
        shown=shown,
        wanted=dataclasses.asdict(wanted),
        chart=groups_chart(shown) if len(shown.groups) > 1 else None,
        people=[(number, ids[number], now, then) for number, now, then in shown.people],
        job=_whatif(here, look.settings, new, wanted.part) if shown.what and look.status.round else None,
        problem=problem,
        whatif_chart=whatif_chart,
        new_key=new_key,
        back=path("p", here.name, "settings"),
    )


def _shown(here: Here, look: Snapshot, new: Settings) -> ChangePreview | Job:
    """Return what other settings would do, or the job that works it out if there are many people."""
    if look.status.enrolled <= _MANY:
        return look.preview_change(new)
    job = here.frame.jobs.ask("preview", here.name, {"settings": new.body()}, by=here.by)
    return job if job.result is None else ChangePreview.from_dict(job.result, differences(look.settings, new))


def _whatif(here: Here, old: Settings, new: Settings, name: str) -> Job | None:
    """Return the job that says what would come of a change; None where only rules change, in a trial, or if busy."""
    before, after = _part(old, name), _part(new, name)
    if before == after or len(old.parts) > 1:
        return None
    budgets = sorted({max(1, round(sum(each.budget) / len(each.budget))) for each in (before, after)})
    arguments: dict[str, Any] = {"budgets": budgets, "rounds": _AHEAD, "extrapolate": True}
    if dataclasses.replace(after, budget=before.budget) != before:
        arguments["change"] = after.body()
    try:
        return here.frame.jobs.ask("whatif", here.name, arguments, by=here.by)
    except QuotaError:  # the change can be decided without it
        return None


# ---- words


def part_facts(state: State, place: int) -> dict[str, Any]:
    """Return the settings of a part, as a page shows them: words by what they are."""
    part = state.settings.parts[place]
    facts = {_("Calls in a round"): budget_text(part.budget), _("Policy"): part.policy.name}
    if isinstance(part.policy, MeritFair):
        facts[_("Who gets more")] = _(
            "In proportion to merit, which follows from what a call is estimated to change for a person ({merit})"
        ).format(merit=str(part.policy.merit))
        facts[_("Slack")] = _slack_words(state, place).format(slack=shortest(part.policy.slack))
    if part.policy.criterion is not None:
        facts[_("Floor")] = _("Everyone is due at least {part} of an equal share").format(part=percent(part.floor, 0))
    return {"name": part.name, "part": part, "facts": facts, "slack": slack_of(part)}


def _slack_words(state: State, place: int) -> str:
    """Return how far accounts of a part may be from even."""
    if math.isinf(state.settings.parts[place].slack):
        return _("There is no bound on accounts")
    if state.settings.rules.needs_accounts:
        return _(
            "An account may be off by {slack} draws, either way; as rules keep people out of draws, it can be more"
        )
    if not all_within(state, place):
        return _(
            "An account may be off by {slack} draws, either way; some are off by more, from a time with other settings"
        )
    return _("An account may be off by {slack} draws at most, either way")


def source_words(source: str) -> str:
    """Return in words where draws take their randomness from."""
    if source == SECRET:
        return _("A secret of this programme, whose hash is in the first entry; published when the programme ends")
    if is_drand(source):
        return _("A secret of this programme, and a value of the public network drand that comes after the commitment")
    return _("A secret of this programme, and a value that no program can check: {source}").format(source=source)


def slack_of(part: Part) -> float | None:
    """Return the slack of a part; None for policies that keep none."""
    return part.policy.slack if isinstance(part.policy, MeritFair) else None


def rule_words(rules: Rules) -> list[str]:
    """Return the rules in words."""
    said = []
    if rules.cooldown:
        words = ngettext(
            "Whoever was called is not drawn in the next round.",
            "Whoever was called is not drawn in the next {n} rounds.",
            rules.cooldown,
        )
        said.append(words.format(n=rules.cooldown))
    if rules.warmup:
        words = ngettext("Newcomers wait for one round.", "Newcomers wait for {n} rounds.", rules.warmup)
        said.append(words.format(n=rules.warmup))
    if rules.once:
        said.append(_("Everyone is called once at most."))
    if rules.accrue:
        said.append(_("Those who are away are still due what they would be if they were there."))
    return said


def groups_chart(shown: ChangePreview) -> Chart:
    """Return what groups would be due in the next round, before and after a change."""
    return Chart(
        "shift",
        _("Due in round {round}, by group, in draws").format(round=shown.round),
        x=list(range(len(shown.groups))),
        names=[group_word(each.name) for each in shown.groups],
        curves=[
            Curve(_("as it is"), [each.now for each in shown.groups], color=6),
            Curve(_("after the change"), [each.then for each in shown.groups], color=1),
        ],
        headings=[_("group"), _("people"), _("as it is"), _("after the change"), _("difference")],
        rows=[
            [
                group_word(each.name),
                number(each.people),
                number(each.now, 2),
                number(each.then, 2),
                signed(each.then - each.now),
            ]
            for each in shown.groups
        ],
        kind="bars",
    )


# ---- what was typed


def _part(settings: Settings, name: str) -> Part:
    for part in settings.parts:
        if part.name == name:
            return part
    raise InputError(_("There is no part {name} in this programme.").format(name=repr(name)))


def _cycle(text: str) -> list[int] | None:
    """Return a budget, or those of rounds that repeat; None if nothing was typed."""
    words = text.replace(",", " ").split()
    if not all(each.isdecimal() and len(each) < 10 for each in words):
        raise InputError(_("The number of calls is a whole number, such as 20, got {text}").format(text=repr(text)))
    return [int(each) for each in words] or None
