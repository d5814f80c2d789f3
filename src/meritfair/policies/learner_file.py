"""The file of a learner: its format and checksum, and what a save may replace.

**Generations.** A file lists the saves behind its learner: for each program that has saved it, in order, a random token
and a number of saves. Their sum is its *generation*. A save may replace a file only if that is an earlier state of the
same learner, or the same. So of two programs that load one file, learn, and save, the second is refused, and no outcome
is lost silently.

**Formats.** The first had neither departed arms, nor reported rounds, nor generations. The second kept the state of the
generator as "luck", which is "rng" now. The third had neither accounts nor rules. The fourth had no tracks and forgot
nothing. All are upgraded when they are read.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

import meritfair
from meritfair.core.checks import check_whole
from meritfair.core.errors import FileError, InputError
from meritfair.core.sealed import seal, unseal
from meritfair.core.storage import check_readable, locked, write_whole
from meritfair.policies.rows import part
from meritfair.policies.view import Planner

FORMAT = "meritfair-learner-5"
_FOURTH_FORMAT = "meritfair-learner-4"
_THIRD_FORMAT = "meritfair-learner-3"
_SECOND_FORMAT = "meritfair-learner-2"
_FIRST_FORMAT = "meritfair-learner-1"

Saves: TypeAlias = "tuple[tuple[str, int], ...]"  # token of a program, and how many states it has saved


def versions() -> dict[str, str]:
    """Return what a learner was saved by."""
    return {"meritfair": meritfair.__version__, "numpy": np.__version__, "python": platform.python_version()}


def read(file: Path) -> dict[str, Any]:
    """Return what a file holds, in the current format, if it is whole."""
    check_readable(file)
    try:
        values = json.loads(file.read_bytes())
        content = unseal(values, FORMAT, _FOURTH_FORMAT, _THIRD_FORMAT, _SECOND_FORMAT, _FIRST_FORMAT)
        return upgraded({"format": values["format"], **content}, values["digest"])
    except Exception as error:  # damaged bytes can make a reader fail in any way
        raise FileError(file, f"does not hold a whole learner saved by meritfair ({error})") from error


def upgraded(values: Any, digest: str = "") -> dict[str, Any]:
    """Return the description of a learner in the current format; a file of the first one is one generation."""
    if not isinstance(values, Mapping):
        raise InputError(f"a learner is described by a mapping, got {type(values).__name__}")
    if values.get("format") == FORMAT:
        return dict(values)
    if values.get("format") == _FOURTH_FORMAT:
        return {**_with_tracks(values), "format": FORMAT}
    if values.get("format") not in (_SECOND_FORMAT, _THIRD_FORMAT):
        arms = part(values, "arms")
        known = {**arms, "reported": None} if isinstance(arms, Mapping) else arms
        values = {**values, "arms": known, "departed": {}, "saves": [[digest, 1]] if digest else []}
    return {**_with_tracks(_with_accounts(_with_rng(values))), "format": FORMAT}


def _with_tracks(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a description in which nothing is known of single rounds, and nothing is forgotten."""
    return {**_with_rows(values, track=None), "forget": 1.0, "before": 0}


def _with_rows(values: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Return a description in which all arms, those who have left too, have further columns."""
    arms, departed = (part(values, name) for name in ("arms", "departed"))
    if isinstance(departed, Mapping):
        departed = {name: _with(rows, **more) for name, rows in departed.items()}
    return {**values, "arms": _with(arms, **more), "departed": departed}


def _with_accounts(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a description in which nobody has an account yet, there are no rules, and policies have no slack."""
    policy = part(values, "policy")
    if isinstance(policy, Mapping) and policy.get("name") in ("merit-fair", "fair-oracle"):
        policy = _with(policy, slack=0.0)
    return {**_with_rows(values, account=None, joined=None), "policy": policy, "rules": None}


def _with(values: Any, **more: Any) -> Any:
    return {**values, **more} if isinstance(values, Mapping) else values


def _with_rng(values: Any) -> Any:
    """Return a description, and what its plan was made from, with the state of the generator under its new name."""
    if not isinstance(values, Mapping):
        return values
    renamed = {"rng" if name == "luck" else name: value for name, value in values.items()}
    return {name: _with_rng(value) if name == "planned_from" else value for name, value in renamed.items()}


def write(file: Path, values: Mapping[str, Any], overwrite: bool) -> None:
    """Write the description of a learner, unless it would replace anything but an earlier state of the same learner."""
    try:
        text = json.dumps(seal(FORMAT, values))
    except TypeError as error:
        name = values["policy"]["name"]
        raise InputError(f"the settings of the policy {name} must be plain values: {error}") from None
    with locked(file):
        if not overwrite and file.is_file() and file.stat().st_size:
            _check_replaceable(file, values["saves"])
        write_whole(file, lambda temporary: temporary.write_text(text, encoding="utf-8"), private=True)


def _check_replaceable(file: Path, saves: Saves) -> None:
    """Refuse to replace anything but an earlier state of this learner."""
    advice = "give overwrite=True to replace it"
    try:
        there = saves_of(read(file))
    except InputError as error:
        raise FileError(file, f"holds something else, which would be lost ({error}); {advice}") from None
    if _is_earlier(there, saves):
        return
    if not there or there[0][0] != saves[0][0]:
        raise FileError(file, f"holds another learner, which would be lost; {advice}")
    generation = sum(number for _, number in there)
    raise FileError(
        file,
        f"holds generation {generation} of this learner, saved by another program, and what is new in it would be "
        f"lost: load it and observe again, or {advice}",
    )


def _is_earlier(there: Saves, saves: Saves) -> bool:
    """Return whether the one with the first saves is an earlier state of the other, or the same."""
    last = len(there) - 1
    if not 0 <= last < len(saves) or there[:last] != saves[:last]:
        return False
    return there[last][0] == saves[last][0] and there[last][1] <= saves[last][1]


def saved_by(values: Mapping[str, Any]) -> str:
    """Return which version has saved a learner, in words, if it was another one."""
    found = values.get("versions")
    version = found.get("meritfair") if isinstance(found, Mapping) else None
    return "" if version in (None, meritfair.__version__) else f" (saved by meritfair {version})"


def saves_of(values: Any) -> Saves:
    """Return the saves behind a learner."""
    given = part(values, "saves")
    pairs = given if isinstance(given, (list, tuple)) else [given]
    for pair in pairs:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2 or not isinstance(pair[0], str):
            raise InputError(f"saves must hold pairs of a token and a number, got {pair!r}")
        check_whole("the number of saves", pair[1], 1)
    return tuple((token, number) for token, number in pairs)


def next_saves(saves: Saves, token: str) -> Saves:
    """Return the saves after one more by the program with this token.

    Examples
    --------
    >>> next_saves(next_saves((("a", 3),), "b"), "b")
    (('a', 3), ('b', 2))
    """
    if saves and saves[-1][0] == token:
        return (*saves[:-1], (token, saves[-1][1] + 1))
    return (*saves, (token, 1))


def policy_of(values: Any, policy: Planner | None, new_settings: bool) -> Planner:
    """Return the policy of a learner: the one given, if it is the same, or one that is made from its settings."""
    there = part(values, "policy")
    name = part(there, "name")
    if policy is not None:
        _check_same(there, {"name": policy.name, **policy.settings()}, new_settings)
        return policy
    from meritfair.policies.registry import from_settings, names

    if isinstance(name, str) and name not in names():
        raise InputError(f"there is no policy {name!r} that could be made by its name here: give the policy itself")
    try:
        return from_settings(there)
    except (TypeError, KeyError) as error:  # what a setting must not be is for each policy to say
        raise InputError(f"the policy {name!r} cannot be made from its settings: {error}") from None


def _check_same(there: Mapping[str, Any], here: Mapping[str, Any], new_settings: bool) -> None:
    """Refuse another policy than the one that was saved, or other settings unless they are meant."""
    if there["name"] != here["name"]:
        raise InputError(f"this learner has the policy {there['name']!r}, not {here['name']!r}")
    differ = [key for key in {**there, **here} if _text(there.get(key)) != _text(here.get(key))]
    if differ and not new_settings:
        words = (f"{key} {_text(here.get(key))}, not {_text(there.get(key))}" for key in differ)
        raise InputError(
            f"the policy given has other settings than the one saved: {'; '.join(words)}. "
            "Give new_settings=True to resume with them"
        )


def _text(setting: Any) -> str:
    return json.dumps(setting, sort_keys=True, default=repr)
