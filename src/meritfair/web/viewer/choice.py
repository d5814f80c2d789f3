"""What a reader has picked: one problem (data set, N, K and whatever else differs) and some policies on it.

What was played need not be every combination. So values are taken one after another, and one that was not played with
those before it is replaced by one that was, which the page says.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlencode

from meritfair.lab.results import Wording
from meritfair.lab.side_by_side import REGRETS
from meritfair.lab.spec import Setting

MOST = 8  # policies that are shown unless others are asked for: more cannot be told apart
_FIRST = ("dataset", "n_arms", "budget", "horizon", "merit")  # asked for in this order, then the rest


class Query(Protocol):
    """The query of an address: one value by name, or all of them."""

    def get(self, key: str, default: str) -> str:
        """Return one value."""

    def getlist(self, key: str) -> Sequence[str]:
        """Return all values."""


@dataclass(frozen=True)
class Field:
    """One thing that can be picked.

    Attributes
    ----------
    name : str
        As `Setting` has it.
    options : tuple of str
        All its values, as text.
    possible : frozenset of str
        Those that were played with what was picked before.
    value : str
        What is shown.
    refused : str
        What was asked for instead, if that was not played.
    """

    name: str
    options: tuple[str, ...]
    possible: frozenset[str]
    value: str
    refused: str = ""


@dataclass(frozen=True)
class Selection:
    """What is shown.

    Attributes
    ----------
    fields : tuple of Field
    policies : tuple of Setting
        All settings of the problem, one for each policy.
    shown : tuple of Setting
        Those that were picked.
    regret : str
        Which regret.
    """

    fields: tuple[Field, ...]
    policies: tuple[Setting, ...]
    shown: tuple[Setting, ...]
    regret: str

    @property
    def query(self) -> str:
        """The query that asks for it again."""
        fields = [(field.name, field.value) for field in self.fields]
        regret = [("regret", self.regret)] if self.regret != REGRETS[0] else []
        return urlencode([*fields, *(("policy", each.policy) for each in self.shown), *regret])


def choose(wording: Wording, asked: Query) -> Selection:
    """Return what a query asks for, or comes closest to it."""
    left, fields = list(wording.settings), []
    texts = {setting: dict(zip(wording.varying, wording.texts(setting), strict=True)) for setting in left}
    for name in sorted((name for name in wording.varying if name != "policy"), key=_place):
        field = _pick(
            name,
            _unique(texts[each][name] for each in wording.settings),
            _unique(texts[each][name] for each in left),
            asked.get(name, ""),
        )
        left = [each for each in left if texts[each][name] == field.value]
        fields.append(field)
    wanted = set(asked.getlist("policy"))
    shown = tuple(each for each in left if each.policy in wanted) or tuple(left[:MOST])
    regret = asked.get("regret", "")
    return Selection(tuple(fields), tuple(left), shown, regret if regret in REGRETS else REGRETS[0])


def _pick(name: str, options: tuple[str, ...], possible: tuple[str, ...], wanted: str) -> Field:
    value = wanted if wanted in possible else possible[0]
    return Field(name, options, frozenset(possible), value, wanted if wanted in options and wanted != value else "")


def _place(name: str) -> int:
    return _FIRST.index(name) if name in _FIRST else len(_FIRST)


def _unique(texts: Iterable[str]) -> tuple[str, ...]:
    """Return each text once, numbers in order of size."""
    found = tuple(dict.fromkeys(texts))
    return tuple(sorted(found, key=int)) if all(text.isdecimal() for text in found) else found
