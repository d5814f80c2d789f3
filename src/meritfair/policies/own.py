"""A policy of your own: from a function, or by its name in a file or a module.

A function ``plan(view, setting=default, ...)`` is a policy with these settings. A file is named with what it defines,
``mine.py:gain_first``: a function, a class derived from `Policy`, or a policy. It is run by itself, so all that it
imports must be installed. A module of a package is named in the same way, ``clinic.policies:gain_first``.

Whoever reads such a name has code run. So they are read only where the user of this process says which policy to play
(`meritfair.policy`, `simulate`, `compare`, `whatif`, specs of sweeps), never in what programmes and learners say.
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import linecache
import sys
import traceback
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

from meritfair.core.checks import check_known
from meritfair.core.errors import FileError, InputError
from meritfair.core.storage import check_readable, naming
from meritfair.policies.base import Policy, check_name
from meritfair.policies.plans import Plan, check_kind_of_plan
from meritfair.policies.view import View

_MAIN = "__main__"
_HASH = 16  # hexadecimal digits
_FILES: dict[str, tuple[str, str]] = {}  # name and text of those that were run, by the name of the module they made


class FunctionPolicy(Policy):
    """A policy that plans by a function; its fields are what the function takes besides the view."""

    function: ClassVar[Callable[..., Plan]]

    def plan(self, view: View) -> Plan:
        settings = {each.name: getattr(self, each.name) for each in dataclasses.fields(self)}
        return check_kind_of_plan(type(self).function(view, **settings), f"the policy {self.name!r}")


def policy_from_function(function: Callable[..., Plan], name: str | None = None) -> type[Policy]:
    """Return the class of policies that plan by a function.

    Parameters
    ----------
    function : callable
        ``function(view, setting=default, ...)`` returns the plan for the next episode. What it takes besides the view
        are the settings of the policy; each needs a default.
    name : str, optional
        The policy's name; by default the function's, with hyphens.

    Examples
    --------
    >>> from meritfair.policies import PriorityTable
    >>> def by_gain(view, weight=1.0):
    ...     gain = view.counts.mean[..., 1] - view.counts.mean[..., 0]
    ...     return PriorityTable(weight * gain)
    >>> ByGain = policy_from_function(by_gain)
    >>> ByGain(weight=2.0)
    by-gain(weight=2.0)
    """
    called = getattr(function, "__name__", type(function).__name__).replace("_", "-") if name is None else name
    return (_class_of if isinstance(function, Hashable) else _class_of.__wrapped__)(function, called)


@lru_cache(maxsize=256)  # policies of one function are of one class
def _class_of(function: Callable[..., Plan], called: str) -> type[Policy]:
    """Return the class of policies that plan by a function, under this name."""
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters:
        raise InputError(f"the policy {called!r} must take the view as its first argument")
    taken = parameters[1:]
    for parameter in taken:
        if parameter.name in {*dir(FunctionPolicy), "name", "function"} or parameter.kind == parameter.POSITIONAL_ONLY:
            raise InputError(f"a setting of the policy {called!r} cannot be called {parameter.name!r}")
        if parameter.default is parameter.empty:
            raise InputError(
                f"the setting {parameter.name!r} of the policy {called!r} needs a default: the function is called with "
                "the view alone"
            )
    fields = [(p.name, Any, dataclasses.field(default=p.default)) for p in taken]
    doc = inspect.getdoc(function) or f"Plans by {called}."
    body = {"name": called, "function": staticmethod(function), "__doc__": doc}
    try:
        made: type[Policy] = dataclasses.make_dataclass(
            called, fields, bases=(FunctionPolicy,), namespace=body, frozen=True
        )
    except ValueError as error:  # a list or an array as a default
        raise InputError(
            f"the settings of the policy {called!r} must be plain values, such as tuples: {error}"
        ) from None
    made.__module__ = getattr(function, "__module__", __name__)
    return made


def as_policy(policy: Any) -> Policy:
    """Return a policy, or one that plans by a function, with its defaults."""
    if isinstance(policy, Policy):
        check_name(policy)
        return policy
    if callable(policy) and not isinstance(policy, type):
        return policy_from_function(policy)()
    raise InputError(
        f"policy must be a Policy, such as MeritFair(), or its name, or a function that plans, got {policy!r}"
    )


# ---- where it is defined, for other processes


@dataclass(frozen=True)
class PolicySource:
    """Where a policy of your own is defined: all that another process needs to make it.

    Attributes
    ----------
    home : str
        The name of a file, without its folder; or of a module that can be imported.
    attribute : str
        What it is called there.
    text : str
        What the file holds; None for a module.
    """

    home: str
    attribute: str
    text: str | None = None

    @classmethod
    def read(cls, name: str, folder: Path | None = None) -> PolicySource:
        """Return that of a name such as ``mine.py:gain_first``, from a file in a folder, by default the current one."""
        place, _, attribute = name.rpartition(":") if not name.endswith(".py") else (name, "", "")
        if not place.endswith(".py"):
            return cls(place, attribute)
        file = Path(place) if folder is None else folder / place
        check_readable(file)
        with naming(file, "cannot be read"):
            try:
                return cls(file.name, attribute, file.read_text(encoding="utf-8"))
            except UnicodeDecodeError as error:
                raise FileError(file, f"is not text in UTF-8: {error}") from None

    @classmethod
    def of(cls, policy: Policy) -> PolicySource:
        """Return that of a policy whose function, or class, stands at the top level of a module with a file."""
        found: Any = type(policy).function if isinstance(policy, FunctionPolicy) else type(policy)
        home, attribute = (getattr(found, name, "") for name in ("__module__", "__qualname__"))
        module = sys.modules.get(home)
        if home != _MAIN and module is not None and vars(module).get(attribute) is found:
            if home in _FILES:
                return cls(_FILES[home][0], attribute, _FILES[home][1])
            if "." in home:
                return cls(home, attribute)  # of a package, which is installed
            if not module.__package__ and module.__file__:
                return cls.read(f"{module.__file__}:{attribute}")
        raise InputError(
            f"workers cannot make the policy {policy.name!r}, {attribute or 'without a name'} in {home}: put it at "
            "the top level of a file of its own, and name both, as in 'mine.py:gain_first'"
        )

    @property
    def name(self) -> str:
        """Its name, as it can be typed if it is in a file."""
        return f"{self.home}:{self.attribute}"

    @property
    def version(self) -> str:
        """Where it is, with a hash of the source there: with another source it may be another policy."""
        return f"{self.home} {_hash(inspect.getsource(self.module()) if self.text is None else self.text)}"

    def load(self) -> type[Policy] | Policy:
        """Return the class, or the policy, that has this name."""
        return _loaded(self)

    def module(self) -> ModuleType:
        """Return the module in which it is."""
        return _imported(self.home) if self.text is None else _run(self.home, self.text)


def _imported(home: str) -> ModuleType:
    try:
        return import_module(home)
    except (Exception, SystemExit) as error:
        raise InputError(f"the module {home} cannot be imported: {type(error).__name__}: {error}") from error


@cache  # one class for one name
def _loaded(source: PolicySource) -> type[Policy] | Policy:
    """Return what a source says, if it is a policy or can become one."""
    module = source.module()
    there = {name: each for name, each in vars(module).items() if _may_plan(each, module.__name__)}
    if not source.attribute:
        named = ", ".join(f"{source.home}:{name}" for name in there) or "it defines none"
        raise InputError(f"say which policy of {source.home}: {named}")
    if source.attribute not in vars(module):
        check_known("policy", source.attribute, there, source.home)
    found = vars(module)[source.attribute]
    if isinstance(found, Policy) or (isinstance(found, type) and issubclass(found, Policy)):
        check_name(found)
        return found
    if not callable(found) or isinstance(found, type):
        raise InputError(f"{source.name} must be a policy, or a function that plans, got {found!r}")
    return policy_from_function(found)


def _may_plan(found: Any, module: str) -> bool:
    """Return whether something in a module looks like a policy that is defined there."""
    if isinstance(found, Policy):
        return True
    own = getattr(found, "__module__", None) == module
    return own and (inspect.isfunction(found) or (isinstance(found, type) and issubclass(found, Policy)))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_HASH]


@cache  # a function that is defined once more would be compiled once more
def _run(home: str, text: str) -> ModuleType:
    """Return the module that a file makes, under a name that no import has."""
    name = f"{home}@{_hash(text)}"
    module = ModuleType(name)
    _FILES[name] = (home, text)
    sys.modules[name] = module  # where dataclasses look for the names in annotations
    linecache.cache[home] = (len(text), None, text.splitlines(keepends=True), home)  # for tracebacks
    try:
        exec(compile(text, home, "exec"), vars(module))
    except SyntaxError as error:
        raise FileError(home, f"is not Python: {error.msg}", line=error.lineno) from None
    except (Exception, SystemExit) as error:
        raise InputError(failure(error) or f"{home} cannot be run: {type(error).__name__}: {error}") from error
    return module


def failure(error: BaseException) -> str:
    """Return what went wrong in a file of policies, and in which line of it; empty if it was not in one."""
    homes, frames = {home for home, _ in _FILES.values()}, traceback.extract_tb(error.__traceback__)
    places = [f"{each.filename}, line {each.lineno}" for each in frames if each.filename in homes]
    return f"{places[-1]}: {type(error).__name__}: {error}" if places else ""
