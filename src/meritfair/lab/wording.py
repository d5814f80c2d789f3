"""Settings in words: what is the same for all of them is said once, what differs tells them apart."""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from meritfair.core.texts import several
from meritfair.lab.spec import Setting

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["Wording", "duration"]

_HEADINGS = {"dataset": "data set", "n_arms": "arms", "budget": "budget", "merit": "merit"}  # these first
_USUAL = {each.name: each.default for each in dataclasses.fields(Setting)}
_SIZE, _LENGTH = ("n_arms", "budget"), ("episodes", "horizon")
_ALWAYS = ("dataset", *_SIZE, *_LENGTH, "merit", "seed")  # said whatever their value


@dataclass(frozen=True)
class Wording:
    """How to tell some settings apart.

    Examples
    --------
    >>> same = {"dataset": "cpap", "n_arms": 20, "budget": 4, "episodes": 100}
    >>> wording = Wording((Setting(policy="random", **same), Setting(policy="random", delta=0.1, **same)))
    >>> wording.same
    'random · cpap · 20 arms, 4 pulled · 100 episodes, 200 steps each · merit exponential:c=3 · seed 0'
    >>> wording.problem(wording.settings[1]), wording.headings
    (['delta 0.1'], ['delta', 'policy'])
    """

    settings: tuple[Setting, ...]

    @cached_property
    def varying(self) -> tuple[str, ...]:
        """The names of what differs between settings, and always the policy, at the end."""
        rows = [setting.settings() for setting in self.settings]
        names = [*_HEADINGS, *(name for name in _USUAL if name not in (*_HEADINGS, "policy", "own_arms"))]
        return (*(name for name in names if len({row[name] for row in rows}) > 1), "policy")

    @property
    def several_policies(self) -> bool:
        """Whether policies differ."""
        return len({setting.policy for setting in self.settings}) > 1

    @property
    def headings(self) -> list[str]:
        """What is above `texts`."""
        return [_HEADINGS.get(name, name.replace("_", " ")) for name in self.varying]

    def texts(self, setting: Setting) -> list[str]:
        """Return the values of what differs, for one setting."""
        values = {**setting.settings(), "dataset": self.dataset(setting)}
        plain = {True: "yes", False: "no"}
        return [plain[x] if isinstance(x := values[name], bool) else str(x) for name in self.varying]

    @property
    def same(self) -> str:
        """What is the same for all, in one line."""
        one = self.settings[0]
        shared = [name for name in _USUAL if name not in (*self.varying, "own_arms")]
        return " · ".join([*[one.policy] * (not self.several_policies), *self._words(one, shared)])

    def problem(self, setting: Setting) -> list[str]:
        """Return what differs but for the policy, in words, for one setting."""
        return self._words(setting, [name for name in self.varying if name != "policy"])

    def dataset(self, setting: Setting) -> str:
        """Return the data set: arms of your own without their checksum, unless that tells two apart."""
        name = setting.dataset.partition("@")[0]
        return name if self._names[name] == 1 else setting.dataset

    @cached_property
    def _names(self) -> Counter[str]:
        return Counter(text.partition("@")[0] for text in {setting.dataset for setting in self.settings})

    def _words(self, setting: Setting, names: Collection[str]) -> list[str]:
        """Return what a setting says under these names; of those that are seldom changed, only if they are."""
        values = {name: value for name, value in setting.settings().items() if name in names}
        words = {
            "dataset": self.dataset(setting),
            "n_arms": several(setting.n_arms, "arm"),
            "budget": f"{setting.budget} pulled",
            "episodes": several(setting.episodes, "episode"),
            "horizon": f"{setting.horizon} steps each",
            "merit": f"merit {setting.merit}",
        }
        groups = [["dataset"], _SIZE, _LENGTH, ["merit"]]
        parts = [", ".join(words[name] for name in group if name in values) for group in groups]
        seldom = [name for name in values if name not in (*_ALWAYS, "policy")]
        parts += [_rule(name, values[name]) for name in seldom if name in self.varying or values[name] != _USUAL[name]]
        parts += [f"seed {setting.seed}"] * ("seed" in values)
        return [part for part in parts if part]


def _rule(name: str, value: Any) -> str:
    words = name.replace("_", " ")
    return f"{words} {value}" if not isinstance(value, bool) else words if value else f"{words}: no"


def duration(seconds: float) -> str:
    """Return a time as people say it.

    Examples
    --------
    >>> duration(4.2), duration(252), duration(7322)
    ('4 s', '4 min 12 s', '2 h 2 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60} min"
