"""Settings as text, as people type them: "cpap:noise=0.2,variant=probfair".

A policy of your own is named by a file, or a module in a package, and what is defined there: the name in
"mine.py:gain_first:need=0.5" is "mine.py:gain_first".

A setting may itself be a name with settings, as a policy's merit is. Colons separate these, as commas separate those of
the policy: "merit-fair:estimate=mean,merit=affine:slope=1:intercept=1.5".
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from meritfair.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

_WORDS = {"true": True, "false": False, "none": None}
_OWN = re.compile(r"(.*\.py(?::[^:=,]*)?|\w+(?:\.\w+)+:[^:=,]+)(?::(.*))?", re.DOTALL)


def is_own(name: object) -> bool:
    """Return whether this is the name of a policy in a file or a module, or of a file.

    Examples
    --------
    >>> is_own("policies/mine.py:gain_first"), is_own("clinic.policies:gain_first"), is_own("merit-fair")
    (True, True, False)
    """
    found = _OWN.fullmatch(name) if isinstance(name, str) else None
    return found is not None and found[2] is None


def split_name(text: str) -> tuple[str, str]:
    """Split a text into a name and its settings, as they are typed.

    Examples
    --------
    >>> split_name("merit-fair:estimate=mean,slack=2"), split_name("mine.py:gain_first:need=0.5")
    (('merit-fair', 'estimate=mean,slack=2'), ('mine.py:gain_first', 'need=0.5'))
    """
    found = _OWN.fullmatch(text)
    if found is not None and "=" not in found[1]:
        return found[1], found[2] or ""
    name, _, settings = text.partition(":")
    return name, settings


def split_settings(text: str, separators: str = ",") -> tuple[str, dict[str, Any]]:
    """Split "name:key=value,key=value" into the name and its settings.

    Examples
    --------
    >>> split_settings("cpap:noise=0.2,variant=probfair")
    ('cpap', {'noise': 0.2, 'variant': 'probfair'})
    """
    if not isinstance(text, str):
        raise InputError(f"must be text, got {text!r}")
    name, rest = split_name(text)
    settings: dict[str, Any] = {}
    for part in filter(None, re.split(f"[{separators}]", rest)):
        key, equals, value = part.partition("=")
        if not equals or not key.strip():
            raise InputError(f"settings are written name:key=value,key=value, got {text!r}")
        if key.strip() in settings:
            raise InputError(f"duplicate setting {key.strip()!r} in {text!r}")
        settings[key.strip()] = _value(value.strip())
    return name.strip(), settings


def split_inner(text: str) -> tuple[str, dict[str, Any]]:
    """Split a name with settings that may stand inside others: colons and commas separate them.

    Examples
    --------
    >>> split_inner("affine:slope=1:intercept=1.5")
    ('affine', {'slope': 1, 'intercept': 1.5})
    """
    return split_settings(text, ":,")


def join_settings(name: str, settings: Mapping[str, Any]) -> str:
    """Return the text that `split_settings` splits into these; keys are in order of the alphabet.

    Examples
    --------
    >>> join_settings("cpap", {"variant": "probfair", "noise": 0.2, "authors": True})
    'cpap:authors=true,noise=0.2,variant=probfair'
    """
    words = {True: "true", False: "false", None: "none"}
    parts = []
    for key, value in sorted(settings.items()):
        if not isinstance(value, (str, int, float)) and value is not None:
            raise InputError(f"{name}: {key} must be a number, a text, true or false, got {value!r}")
        shown = words[value] if isinstance(value, bool) or value is None else str(value)
        if isinstance(value, float):
            shown = shown.removesuffix(".0")  # 3 and 3.0 are the same setting
        if "," in shown:
            raise InputError(f"{name}: {key} must be a text without a comma, got {value!r}")
        parts.append(f"{key}={shown}")
    return f"{name}:{','.join(parts)}" if parts else name


def as_inner(text: str) -> str:
    """Return the text of a name with settings as it is written inside the settings of another.

    Examples
    --------
    >>> as_inner("affine:intercept=1.5,slope=1")
    'affine:intercept=1.5:slope=1'
    """
    return text.replace(",", ":")


def _value(text: str) -> Any:
    for convert in (int, float):
        try:
            return convert(text)
        except ValueError:
            continue
    return _WORDS.get(text.lower(), text)
