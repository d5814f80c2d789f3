"""What happened in a programme besides its draws: late reports, corrections, overrides, and changes of settings."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from meritfair.core.language import _, current, ngettext
from meritfair.model.rules import Rules, budget_text
from meritfair.programme.ledger.entries import Entry
from meritfair.programme.ledger.rowtable import RowTable
from meritfair.programme.settings import Part, Settings
from meritfair.programme.showing.wording import shortest
from meritfair.programme.view import ProgrammeView
from meritfair.programme.work import Work


@dataclass(frozen=True)
class Change:
    """A change of settings: when, by whom and why, from which round on, and what has changed, in words."""

    time: str
    by: str
    reason: str
    first_round: int
    what: tuple[str, ...]


@dataclass(frozen=True)
class Happenings:
    """What the entries of a ledger say besides its draws.

    Attributes
    ----------
    times : tuple of str
        By round, when it was drawn, or committed if it is not drawn yet.
    slack : tuple of tuple of float
        By round, the slack of each part.
    asked : tuple of tuple of int
        By round, how many were to be drawn in each part.
    public : int
        Draws whose seeds come from a public source.
    reported, late : int
        Values that were reported, a row for each participant and round; and those that came after the next draw.
    delays : dict of int to int
        How many of these came after how many draws.
    corrected : int
        Values that were corrected, and `corrected_by` by whom.
    away_by : dict
        How often someone was noted as away, by whom.
    overrides : dict
        By round and participant, who has reported that someone was reached without being drawn, and in which entry.
    changes : tuple of Change
    joined, left, erased : dict
        By participant: the times at which they first joined and last left, and when they were erased.
    created : Entry
        The first entry.
    """

    times: tuple[str, ...]
    slack: tuple[tuple[float, ...], ...]
    asked: tuple[tuple[int, ...], ...]
    public: int
    reported: int
    late: int
    delays: dict[int, int]
    corrected: int
    corrected_by: dict[str, int]
    away_by: dict[str, int]
    overrides: dict[tuple[int, int], tuple[str, int]]
    changes: tuple[Change, ...]
    joined: dict[int, str]
    left: dict[int, str]
    erased: dict[int, str]
    created: Entry

    @classmethod
    def of(cls, work: Work) -> Happenings:
        """Return what the ledger of a programme says."""
        found = _Reader(work)
        for entry, table in work.entries():
            found.take(entry, table)
        return found.result()


@dataclass
class _Reader:
    """Goes through the entries."""

    work: Work
    parts: list[Part] = field(default_factory=list)
    bodies: dict[str, Any] = field(default_factory=dict)
    times: list[str] = field(default_factory=list)
    slack: list[tuple[float, ...]] = field(default_factory=list)
    asked: list[tuple[int, ...]] = field(default_factory=list)
    public: int = 0
    reported: int = 0
    delays: Counter[int] = field(default_factory=Counter)
    corrected_by: Counter[str] = field(default_factory=Counter)
    away_by: Counter[str] = field(default_factory=Counter)
    overrides: dict[tuple[int, int], tuple[str, int]] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    joined: dict[int, str] = field(default_factory=dict)
    left: dict[int, str] = field(default_factory=dict)
    erased: dict[int, str] = field(default_factory=dict)
    created: Entry | None = None

    def result(self) -> Happenings:
        assert self.created is not None
        corrected = dict(self.corrected_by.most_common())
        return Happenings(
            times=tuple(self.times),
            slack=tuple(self.slack),
            asked=tuple(self.asked),
            public=self.public,
            reported=self.reported,
            late=self.delays.total(),
            delays=dict(sorted(self.delays.items())),
            corrected=sum(corrected.values()),
            corrected_by=corrected,
            away_by=dict(self.away_by.most_common()),
            overrides=self.overrides,
            changes=tuple(self.changes),
            joined=self.joined,
            left=self.left,
            erased=self.erased,
            created=self.created,
        )

    def take(self, entry: Entry, table: RowTable | None) -> None:
        match entry.kind:
            case "create":
                self.created = entry
                self._settings(entry.body)
            case "change":
                self._change(entry)
            case "commit":
                self.times.append(entry.time)
                self.slack.append(tuple(part.slack for part in self.parts))
                self.asked.append(tuple(map(int, entry.body["asked"])))
            case "draw":
                self.times[-1] = entry.time
                self.public += entry.body["value"] is not None
            case "report" | "correct" if table is not None:
                self._seen(entry, table)
            case "away" if table is not None:
                self.away_by[entry.by] += int((table["away"] == 1).sum())
            case "enrol" | "withdraw" | "erase" if table is not None:
                self._people(entry, table)

    def _settings(self, body: dict[str, Any]) -> None:
        self.parts, self.bodies = [Part.from_body(each) for each in body["parts"]], dict(body)

    def _people(self, entry: Entry, table: RowTable) -> None:
        numbers = table["number"].tolist()
        if entry.kind == "enrol":
            for number in numbers:
                self.joined.setdefault(number, entry.time)
                self.left.pop(number, None)
        else:
            (self.left if entry.kind == "withdraw" else self.erased).update(dict.fromkeys(numbers, entry.time))

    def _change(self, entry: Entry) -> None:
        old = Settings.from_body(self.bodies)
        self._settings({**self.bodies, **entry.body})
        self.changes.append(_change(entry, old, Settings.from_body(self.bodies), len(self.times) + 1))

    def _seen(self, entry: Entry, table: RowTable) -> None:
        round_, numbers = int(entry.body["round"]), table["number"].astype(np.int64)
        if entry.kind == "report":
            self.reported += len(table)
            if round_ < len(self.times):
                self.delays[len(self.times) - round_] += len(table)
        else:
            self.corrected_by[entry.by] += len(table)
        drawn = self.work.state.seen(round_)[0, numbers]
        for number in numbers[(table["action"] == 1) & (drawn == 0)].tolist():
            self.overrides[round_, number] = entry.by, entry.seq


def changes_of(view: ProgrammeView) -> list[Change]:
    """Return all changes of settings, from the first on."""
    found, body, round_ = list[Change](), dict[str, Any](), 0
    for entry, _digest in view.heads():
        if entry.kind == "create":
            body = dict(entry.body)
        elif entry.kind == "commit":
            round_ = int(entry.body["round"])
        elif entry.kind == "change":
            old, body = Settings.from_body(body), {**body, **entry.body}
            found.append(_change(entry, old, Settings.from_body(body), round_ + 1))
    return found


def _change(entry: Entry, old: Settings, new: Settings, first_round: int) -> Change:
    what = tuple(differences(old, new) or [_("nothing")])
    return Change(entry.time, entry.by, str(entry.body["reason"]), first_round, what)


def differences(old: Settings, new: Settings) -> list[str]:
    """Return what differs between settings of one programme, in words; nothing if they are the same."""
    what = [text for mine, other in zip(old.parts, new.parts, strict=True) for text in _differences(mine, other)]
    if old.rules != new.rules:
        what.append(_("rules: {old} → {new}").format(old=rules_text(old.rules), new=rules_text(new.rules)))
    if old.source != new.source:
        what.append(_("randomness: {old} → {new}").format(old=old.source, new=new.source))
    return what


def _differences(old: Part, new: Part) -> list[str]:
    """Return what a change has changed in a part, in words."""
    name = f"{old.name}: " if old.name else ""
    found = []
    if old.budget != new.budget:
        values = {"old": budget_text(old.budget), "new": budget_text(new.budget)}
        found.append(name + _("budget {old} → {new}").format(**values))
    if old.policy != new.policy:
        found.append(name + _("policy {change}").format(change=_policies(old, new)))
    if old.floor != new.floor:
        values = {"old": shortest(old.floor), "new": shortest(new.floor)}
        found.append(name + _("floor {old} → {new} of an equal share").format(**values))
    return found


def _policies(old: Part, new: Part) -> str:
    """Return what has changed of a policy: its name, or those of its settings that differ."""
    if old.policy.name != new.policy.name:
        return f"{old.policy.name} → {new.policy.name}"
    mine, other = old.policy.settings(), new.policy.settings()
    return ", ".join(f"{key} {_value(mine[key])} → {_value(other[key])}" for key in mine if mine[key] != other[key])


def plain_change(change: Change) -> dict[str, Any]:
    """Return a change as plain values."""
    return {**asdict(change), "what": list(change.what)}


def policy_words(part: Part) -> str:
    """Return the policy and budget of a part in one line.

    Examples
    --------
    >>> policy_words(Part(40, "random"))
    'policy random, 40 people a round'
    """
    budget = ngettext("{budget} person a round", "{budget} people a round", 1 if part.budget == (1,) else 2)
    settings, names = part.policy.settings(), {"estimate": _("estimate"), "design": _("design"), "slack": _("slack")}
    shown = [f"{name} {_value(settings[key])}" for key, name in names.items() if key in settings]
    floor = _("floor {part} of an equal share").format(part=shortest(part.floor))
    said = [_("policy {name}").format(name=part.policy.name), budget.format(budget=budget_text(part.budget)), *shown]
    return ", ".join([*said, *([floor] if part.policy.criterion is not None else [])])


def rules_text(rules: Rules) -> str:
    """Return rules in one line, such as ``cooldown 2, once``; "none" if there are none."""
    names = {"cooldown": _("cooldown"), "warmup": _("warmup"), "once": _("once"), "accrue": _("accrue")}
    settings = {name: value for name, value in rules.settings().items() if value}
    said = [names[key] if value is True else f"{names[key]} {value}" for key, value in settings.items()]
    return ", ".join(said) or _("none")


def _value(value: Any) -> str:
    return str(value).replace(".", current().decimal(0.5, 1)[1]) if isinstance(value, float) else str(value)
