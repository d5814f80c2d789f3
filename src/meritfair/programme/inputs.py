"""What users hand in: people who enrol, and what was seen of them; as columns, checked once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from meritfair.core.arrays import IntArray
from meritfair.core.checks import check_known
from meritfair.core.errors import InputError
from meritfair.core.texts import printable, quoted
from meritfair.programme.columns import UNKNOWN

_LONGEST = 200  # characters of an id or a name


class ParticipantError(InputError):
    """What was handed in of one participant cannot be used; `row` counts from 0 in the order given.

    Examples
    --------
    >>> try:
    ...     People(["Ada", ""])
    ... except ParticipantError as error:
    ...     error.row, error.column
    (1, 'ids')
    """

    def __init__(self, problem: str, row: int = 0, column: str = "ids") -> None:
        super().__init__(problem)
        self.row, self.column = int(row), column


class ReasonNeededError(InputError):
    """Something can be done only for a reason that the ledger keeps; `problem` says what, for forms that ask for it.

    Examples
    --------
    >>> print(ReasonNeededError("35 of 40 participants would be taken out"))
    35 of 40 participants would be taken out: give a reason, which the ledger keeps (reason, or --reason)
    """

    def __init__(self, problem: str) -> None:
        super().__init__(f"{problem}: give a reason, which the ledger keeps (reason, or --reason)")
        self.problem = problem


@dataclass(frozen=True, eq=False)
class People:
    """Those who enrol, a value for each in every column.

    Parameters
    ----------
    ids : sequence of str
        What the programme calls each of them, all different.
    group, staff : sequence of str, optional
        To which group each belongs, and which member of staff calls them; empty where not known.
    features : mapping of str to sequence of str
        What is known of them; empty where a value is missing.

    Examples
    --------
    >>> People(["Ada", "Bo"], group=["north", "south"], features={"age": [34, 61]}).features
    {'age': ['34', '61']}
    >>> People(["Ada", "Ada"])
    Traceback (most recent call last):
    ...
    meritfair.core.errors.InputError: each participant needs an id of their own, got 'Ada' twice
    """

    ids: Sequence[str]
    group: Sequence[str] | None = None
    staff: Sequence[str] | None = None
    features: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "ids", check_ids(self.ids))
        for name in ("group", "staff"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, _texts(name, getattr(self, name), len(self.ids)))
        features = {str(name): _texts(str(name), values, len(self.ids)) for name, values in self.features.items()}
        if "group" in features:
            raise InputError("a feature cannot be called 'group': give group=…")
        object.__setattr__(self, "features", features)

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, eq=False)
class Outcomes:
    """What was done and seen in a round, a value for each of some participants in every column.

    Parameters
    ----------
    ids : sequence of str
    action : sequence of int, optional
        1 if the participant was reached, 0 if not; -1 or None where it is not said.
    after : sequence of int, optional
        The state that was seen after the round, 0 (bad) or 1 (good); -1 or None where it was not.
    before : sequence of int, optional
        The state at the start of the round, likewise.
    reasons : mapping of str to str
        By id, why someone was reached who was not drawn.

    Examples
    --------
    >>> Outcomes(["Ada", "Bo"], action=[1, 0], after=[1, None]).after
    array([ 1, -1])
    >>> Outcomes(["Ada"], after=[2])
    Traceback (most recent call last):
    ...
    meritfair.programme.inputs.ParticipantError: after must be 0 or 1, or missing, got 2 for 'Ada'
    """

    ids: Sequence[str]
    action: Any = None
    after: Any = None
    before: Any = None
    reasons: Mapping[str, str] = field(default_factory=dict)
    forgets: bool = False  # whether -2 may stand for what is not known after all

    def __post_init__(self) -> None:
        object.__setattr__(self, "ids", check_ids(self.ids))
        for name in ("action", "after", "before"):
            object.__setattr__(self, name, self._codes(name, getattr(self, name)))
        for name in self.reasons.keys() - set(self.ids):
            check_known("participant", name, self.ids, where="reasons")

    def _codes(self, name: str, values: Any) -> IntArray:
        if values is None:
            return np.full(len(self.ids), UNKNOWN)
        missing = [UNKNOWN if value is None or value != value else value for value in values]
        codes = np.asarray(missing)
        if len(codes) != len(self.ids):
            raise InputError(f"{name} must have a value for each of the {len(self.ids)} participants, got {len(codes)}")
        wrong = ~np.isin(codes, [-2, UNKNOWN, 0, 1] if self.forgets else [UNKNOWN, 0, 1])
        if wrong.any():
            place = int(np.flatnonzero(wrong)[0])
            problem = f"{name} must be 0 or 1, or missing, got {codes[place]} for {self.ids[place]!r}"
            raise ParticipantError(problem, place, name)
        return codes.astype(np.int64)

    def __len__(self) -> int:
        return len(self.ids)


def check_ids(ids: Any) -> list[str]:
    """Return the ids of participants, if they are texts, not empty and all different."""
    given = [ids] if isinstance(ids, str) else list(ids)
    for row, each in enumerate(given):
        if not isinstance(each, str) or not each.strip() or len(each) > _LONGEST:
            raise ParticipantError(f"an id is a text of 1 to {_LONGEST} printable characters, got {quoted(each)}", row)
    if printable("".join(given)) != "".join(given):  # one look at all is quick
        row, each = next((row, each) for row, each in enumerate(given) if printable(each) != each)
        raise ParticipantError(f"an id is a text of 1 to {_LONGEST} printable characters, got {quoted(each)}", row)
    if len(set(given)) < len(given):
        seen = set[str]()
        twice = next(each for each in given if each in seen or seen.add(each))  # type: ignore[func-returns-value]
        raise InputError(f"each participant needs an id of their own, got {twice!r} twice")
    return given


def _texts(name: str, values: Sequence[Any], number: int) -> list[str]:
    """Return a column of texts; None is empty."""
    texts = ["" if value is None else str(value).strip() for value in values]
    if len(texts) != number:
        raise InputError(f"{name} must have a value for each of the {number} participants, got {len(texts)}")
    for text in dict.fromkeys(texts):
        if len(text) > _LONGEST or printable(text) != text:
            problem = f"{name} must be at most {_LONGEST} printable characters, got {text[:_LONGEST]!r}"
            raise ParticipantError(problem, texts.index(text), name)
    return texts
