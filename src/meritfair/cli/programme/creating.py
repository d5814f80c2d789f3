"""`meritfair programme create` and `change`: the settings of a programme."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from meritfair.cli.options import JsonOption, cycle, flag, names, number, text, whole, with_options
from meritfair.cli.programme.common import (
    StoreOption,
    Who,
    next_command,
    open_programme,
    place_of,
    tell_head,
    tell_receipt,
    working,
)
from meritfair.cli.show import print_note, print_table, say
from meritfair.core.errors import InputError
from meritfair.core.parsing import join_settings, split_inner, split_settings
from meritfair.core.texts import printable

if TYPE_CHECKING:
    from meritfair.datasets.logs import StateLog
    from meritfair.programme import Part, Programme
    from meritfair.programme.settings import Settings
    from meritfair.programme.work import Work

EXAMPLES = """Forty calls a week, nobody called again in the two weeks after, and age may be looked at:

[cyan]meritfair programme create clinic --budget 40 --cooldown 2 --features age --by "Dr. Osei"[/]

With what was recorded before: a file with columns arm, round, state, action, and group if you like.

[cyan]meritfair programme create clinic --budget 40 --history log.csv --by "Dr. Osei"[/]

A trial, in which people are randomised into two arms, within each district:

[cyan]meritfair programme create trial --trial protocol.pdf --features district --strata district
    --arm calls:budget=40 --arm control:policy=none,budget=0 --by "Dr. Osei"[/]"""

CHANGE_EXAMPLES = """Fifty calls a week from now on:

[cyan]meritfair programme change --budget 50 --reason "a new nurse" --by "Dr. Osei"[/]"""

_RULES, _TRIAL, _START = "Rules", "A trial", "What is known before"
_ARM_SETTINGS = ("budget", "policy", "floor", "share")

_Budget = Annotated[
    Any,  # a tuple of whole numbers, which would else be an option with several values
    cycle(
        "--budget",
        "-k",
        help="People drawn in a round; or a number for each of some rounds, which repeat: [cyan]40,40,0[/].",
    ),
]
_Policy = Annotated[
    str | None,
    text(
        "--policy",
        metavar="TEXT",
        help="Who is due what; by default [cyan]merit-fair:estimate=pooled,design=exact,slack=2[/]. See "
        "[cyan]meritfair policies[/].",
    ),
]
_SOURCE = (
    "Public randomness that no draw is made without: [cyan]drand[/], [cyan]drand after 60 minutes[/], or the name of "
    "another source, such as a lottery, which no program can check; [cyan]secret[/]: none."
)
_FLOOR = "The least that everyone is due, as a part of an equal share."


@dataclass(frozen=True)
class CreateOptions:
    """The options that say what a programme is like."""

    budget: _Budget = None
    policy: _Policy = None
    floor: Annotated[float, number("--floor", help=_FLOOR)] = 0.25
    cooldown: Annotated[
        int, whole("--cooldown", help="Rounds after a draw in which one is not drawn again.", panel=_RULES)
    ] = 0
    warmup: Annotated[int, whole("--warmup", help="Rounds before a newcomer is drawn.", panel=_RULES)] = 0
    once: Annotated[bool, flag("--once", "Draw everyone at most once.", _RULES)] = False
    accrue: Annotated[bool, flag("--accrue", "Those who are away are due what they would be if not.", _RULES)] = False
    forget: Annotated[
        float, number("--forget", help="What an outcome is worth one round later; 1 forgets nothing.", panel=_START)
    ] = 1.0
    features: Annotated[
        str,
        text(
            "--features",
            metavar="COLUMNS",
            help="What is known of people at enrolment and may be looked at, such as [cyan]age,language[/].",
            panel=_START,
        ),
    ] = ""
    history: Annotated[
        Path | None,
        text(
            "--history",
            metavar="LOG",
            help="Start from records: a .csv or .parquet file with columns arm, round, state, action; group, staff.",
            panel=_START,
        ),
    ] = None
    trial: Annotated[
        Path | None,
        text(
            "--trial", metavar="PROTOCOL", help="Make it a trial; the file's hash is in the first entry.", panel=_TRIAL
        ),
    ] = None
    arm: Annotated[
        list[str] | None,
        text(
            "--arm",
            metavar="TEXT",
            help="An arm of the trial: [cyan]calls:budget=40[/]; also policy, floor, and share (2: twice as many "
            "people). Repeat for each.",
            panel=_TRIAL,
        ),
    ] = None
    strata: Annotated[
        str, text("--strata", metavar="FEATURES", help="Randomise within the values of these.", panel=_TRIAL)
    ] = ""
    source: Annotated[str, text("--source", metavar="TEXT", help=_SOURCE)] = "secret"
    pseudonymise: Annotated[bool, flag("--pseudonymise", "Keep pseudonyms instead of ids.")] = False

    def settings(self) -> dict[str, Any]:
        """Return what `Programme.create` is told."""
        from meritfair.model.rules import Rules
        from meritfair.policies.registry import RECOMMENDED

        shared: dict[str, Any] = {"features": names(self.features), "forget": self.forget}
        shared |= {"rules": Rules(self.cooldown, self.warmup, self.once, self.accrue)}
        shared |= {"source": self.source, "pseudonymise": self.pseudonymise, "history": self._history()}
        if self.trial is not None:
            return {**shared, **self._trial(self.trial)}
        if self.arm or self.strata:
            raise InputError("--arm and --strata are of a trial: name its protocol with --trial FILE")
        if self.budget is None:
            raise InputError("say how many are drawn in a round: --budget 40")
        return {**shared, "budget": self.budget, "policy": self.policy or RECOMMENDED, "floor": self.floor}

    def _trial(self, protocol: Path) -> dict[str, Any]:
        """Return the arms of a trial, and what is fixed of it."""
        from meritfair.core.storage import check_readable
        from meritfair.programme.ledger.canonical import sha256
        from meritfair.programme.settings import Trial

        if not self.arm or len(self.arm) < 2:
            raise InputError("a trial has two arms or more: --arm calls:budget=40 --arm control:policy=none,budget=0")
        if self.budget is not None or self.policy is not None:
            raise InputError("in a trial each arm has its own budget and policy: --arm calls:budget=40")
        check_readable(protocol)
        fixed = Trial(sha256(protocol.read_bytes()).hex(), tuple(names(self.strata)))
        return {"trial": fixed, "parts": [arm_of_trial(each) for each in self.arm]}

    def _history(self) -> StateLog | None:
        """Return a log, with groups and staff if it has such columns."""
        from meritfair.core.tables import column_names
        from meritfair.datasets.logs import read_log

        if self.history is None:
            return None
        there = column_names(self.history, "observations")
        return read_log(self.history, [*names(self.features), *(each for each in ("group", "staff") if each in there)])


@with_options()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", show_default=False, help="What it is called.")],
    given: CreateOptions,
    store: StoreOption = None,
    by: Annotated[str, typer.Option("--by", metavar="NAME", envvar="MERITFAIR_BY", help="Your name.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Create a programme: a budget for each round, a policy, and rules."""
    settings = given.settings()
    programme = open_programme(store, name, new=True)
    receipt = programme.create(**settings, by=by)
    with working(programme) as work:
        secret = work.entry(0)[0].body["secret"]
        rows = _rows(work.state.settings, work.state.people)
    tell_receipt(as_json, programme, receipt, secret_hash=secret, store=programme.store.url)
    if not as_json:
        _show(programme, rows, secret, receipt.head)
        next_ = "enrol people.csv" if given.history is None else "draw"
        say(f"Next: {next_command(next_, store, programme)}")


def _show(programme: Programme, rows: list[list[str]], secret: str, head: str) -> None:
    print_table(["setting", "value"], rows, printable(f"Created {programme.name} in {place_of(programme)}."), "ll")
    say(f"Hash of the secret: {secret}")
    print_note("Publish it: when the programme ends the secret is told, and everyone can check all draws with it.")
    tell_head(head)


def _rows(settings: Settings, people: int) -> list[list[str]]:
    """Return the settings in words."""
    from meritfair.model.rules import budget_text
    from meritfair.programme.ledger.randomness import SECRET

    rows = []
    for part in settings.parts:
        of_part = f" of {part.name}" if part.name else ""
        rows += [[f"budget{of_part}", budget_text(part.budget)]]
        rows += [[f"policy{of_part}", _policy_text(part)]]
        if part.policy.criterion is not None:
            rows += [[f"floor{of_part}", f"{part.floor:g} of an equal share"]]
    rows += [["rules", str(settings.rules) or "none"], ["features", ", ".join(settings.features) or "none"]]
    rows += [["source", settings.source]] * (settings.source != SECRET)
    if settings.forget < 1:
        rows += [["forget", f"{settings.forget:g}"]]
    if settings.trial is not None:
        rows += [["protocol", settings.trial.protocol], ["strata", ", ".join(settings.trial.strata) or "none"]]
    return rows + [["enrolled", f"{people:,}"]] * (people > 0)


def _policy_text(part: Part) -> str:
    """Return a policy with those settings that are not the usual ones."""
    kept = {key: value for key, value in part.policy.settings().items() if isinstance(value, (str, int, float))}
    usual = type(part.policy)().settings()
    shown = {key: value for key, value in kept.items() if value != usual.get(key)}
    return join_settings(part.policy.name, shown)


def arm_of_trial(text: str) -> Part:
    """Return an arm of a trial.

    Examples
    --------
    >>> arm = arm_of_trial("calls:budget=40:40:0,policy=merit-fair:estimate=mean:design=exact,share=2")
    >>> arm.name, arm.budget, arm.policy.estimate, arm.share
    ('calls', (40, 40, 0), 'mean', 2)
    """
    from meritfair.core.checks import check_settings
    from meritfair.programme.settings import Part

    name, given = split_settings(text)
    check_settings("an arm of a trial", given, _ARM_SETTINGS)
    if not name or "budget" not in given:
        raise InputError(f"an arm of a trial has a name and a budget, as in calls:budget=40, got {text!r}")
    settings: dict[str, Any] = {**given, "budget": _budgets(given["budget"])}
    if "policy" in given:  # the word none is a policy here, and settings of a policy have colons between them
        settings["policy"] = "none" if given["policy"] is None else join_settings(*split_inner(str(given["policy"])))
    return Part(**settings, name=name)


def _budgets(value: Any) -> Any:
    try:
        return [int(each) for each in value.split(":")] if isinstance(value, str) else value
    except ValueError:
        raise InputError(f"a budget is a whole number, or several as in 40:40:0, got {value!r}") from None


@with_options()
def change(
    who: Who,
    reason: Annotated[
        str, text("--reason", metavar="TEXT", help="Why. It is kept in the ledger, so name nobody.")
    ] = "",
    part: Annotated[str, text("--part", help="In a trial: of which arm.")] = "",
    budget: _Budget = None,
    policy: _Policy = None,
    floor: Annotated[float | None, number("--floor", help=_FLOOR)] = None,
    cooldown: Annotated[int | None, whole("--cooldown", help="As of create.", panel=_RULES)] = None,
    warmup: Annotated[int | None, whole("--warmup", help="As of create.", panel=_RULES)] = None,
    once: Annotated[bool | None, typer.Option("--once/--no-once", rich_help_panel=_RULES)] = None,
    accrue: Annotated[bool | None, typer.Option("--accrue/--no-accrue", rich_help_panel=_RULES)] = None,
    source: Annotated[str | None, text("--source", metavar="TEXT", help=_SOURCE)] = None,
    as_json: JsonOption = False,
) -> None:
    """Change settings from the next round on. It needs a reason and your name."""
    by = who.named("a change of settings")
    programme = who.open()
    rules = {"cooldown": cooldown, "warmup": warmup, "once": once, "accrue": accrue}
    if all(each is None for each in (budget, policy, floor, source, *rules.values())):
        raise InputError("say what changes: --budget, --policy, --floor, --source, or a rule such as --cooldown")
    with working(programme) as work:
        new = _changed_rules(work, rules)
    receipt = programme.change(
        budget=budget,
        policy=policy,
        floor=floor,
        rules=new,
        source=source,
        part=part,
        reason=reason,
        by=by,
        key=who.key,
    )
    tell_receipt(as_json, programme, receipt)
    if not as_json:
        with working(programme) as work:
            rows = _rows(work.state.settings, 0)
        print_table(["setting", "value"], rows, printable(f"{programme.name} from round {receipt.round + 1} on:"), "ll")


def _changed_rules(work: Work, rules: dict[str, Any]) -> Any:
    given = {name: value for name, value in rules.items() if value is not None}
    return dataclasses.replace(work.state.settings.rules, **given) if given else None
