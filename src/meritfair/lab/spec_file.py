"""Specs in files: flat TOML, read with the line, the key and the value of whatever is wrong.

A key has the name of an attribute of `Spec`. A data set, a policy or a merit is a text as on the command line,
``"cpap:noise=0.2"``, or a table, ``{name = "cpap", noise = 0.2}``; or, for a data set, a file of arms beside the spec.
Files of policies, as in ``"mine.py:gain_first"``, are beside the spec, too.
Texts are brought to one form, so that the order of settings, or 3 for 3.0, does not make another setting of it.
"""

from __future__ import annotations

import dataclasses
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from meritfair.core.checks import check_settings
from meritfair.core.errors import FileError, InputError
from meritfair.core.parsing import as_inner, is_own, join_settings, split_inner, split_name, split_settings
from meritfair.core.storage import check_readable, check_suffix
from meritfair.core.tables import SUFFIXES
from meritfair.datasets import read_arms
from meritfair.lab.spec import Setting, Spec, SpecError
from meritfair.model.arms import Arms
from meritfair.policies.own import PolicySource

_NEEDED = ("datasets", "sizes", "policies", "episodes")
_KEYS = (*_NEEDED, *sorted({f.name for f in dataclasses.fields(Spec)} - {*_NEEDED, "own_arms", "own_policies"}))
_TEXTS = ("datasets", "policies", "merits")
_AT_LINE = re.compile(r" \(at line (\d+), column \d+\)$")


def read_spec(path: str | PathLike[str]) -> Spec:
    r"""Read a spec from a .toml file, and play a step of each of its settings, so that mistakes show at once.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "sweep.toml")
    ...     _ = file.write_text('datasets = "cpap"\nsizes = [20, 4]\npolicies = "random"\nepisodes = 100\n')
    ...     read_spec(file).settings()[0].policy
    'random'
    """
    read = SpecFile.read(path)
    read.try_out(read.spec.settings())
    return read.spec


@dataclass(frozen=True)
class SpecFile:
    """A spec as it stands in a file, and what it says."""

    file: Path
    text: str
    spec: Spec

    @classmethod
    def read(cls, path: str | PathLike[str]) -> SpecFile:
        """Read a file; everything is checked but whether policies can be played on these problems."""
        file = Path(path)
        check_suffix(file, "specs", (".toml",))
        check_readable(file)
        try:
            text = file.read_text(encoding="utf-8-sig")
            values = tomllib.loads(text)
        except UnicodeDecodeError as error:
            raise FileError(file, f"is not text in UTF-8: {error}") from None
        except tomllib.TOMLDecodeError as error:
            at = _AT_LINE.search(str(error))
            problem = f"is not TOML: {_AT_LINE.sub('', str(error))}"
            raise FileError(file, problem, line=int(at[1]) if at else None) from None
        except RecursionError:
            raise FileError(file, "lists or tables are nested too deeply", line=_line(text)) from None
        with _at_its_line(file, text):
            return cls(file, text, _make_spec(file, text, values))

    def try_out(self, settings: Iterable[Setting], progress: Callable[[str, int, int], None] | None = None) -> None:
        """Play a step of each setting, and say which line is to blame for one that cannot be played."""
        with _at_its_line(self.file, self.text):
            self.spec.try_out(settings, progress)


@contextmanager
def _at_its_line(file: Path, text: str) -> Iterator[None]:
    """Tell what is wrong with a spec with its file and line."""
    try:
        yield
    except SpecError as error:
        raise FileError(file, str(error), line=_line(text, error.key, error.position)) from error


def _make_spec(file: Path, text: str, values: dict[str, Any]) -> Spec:
    for key in values:
        try:
            check_settings("a spec", [key], _KEYS)
        except InputError as error:
            raise FileError(file, str(error), line=_line(text, key)) from None
    missing = [key for key in _NEEDED if key not in values]
    if missing:
        raise FileError(file, f"lacks {' and '.join(missing)}; a spec needs {', '.join(_NEEDED)}")
    own: dict[str, Arms] = {}
    given = values | {key: _texts(key, values[key], file.parent, own) for key in _TEXTS if key in values}
    return Spec(**given, own_arms=own, own_policies=_policies_beside(file.parent, given["policies"]))


def _policies_beside(folder: Path, texts: Sequence[str]) -> dict[str, PolicySource]:
    """Return where policies in files are defined, by their names in a spec."""
    found = {}
    for position, text in enumerate(texts):
        name, _ = split_name(text)
        try:
            if is_own(name):
                found[name] = PolicySource.read(name, folder)
        except InputError as error:
            raise SpecError("policies", str(error), position) from None
    return found


def _texts(key: str, value: Any, folder: Path, own: dict[str, Arms]) -> list[str]:
    """Return a list of texts from what the file has; arms of your own are read into `own`."""
    texts = []
    for position, each in enumerate(value if isinstance(value, list) else [value]):
        try:
            if key == "datasets" and isinstance(each, str) and Path(each).suffix.lower() in SUFFIXES:
                arms, name = read_arms(folder / each), Path(each).name
                if name in own:
                    raise InputError(f"there are two files of the name {name}: rename one")
                own[name] = arms
                texts.append(name)
            else:
                texts.append(_one_form(each))
        except InputError as error:
            raise SpecError(key, str(error), position) from None
    return texts


def _one_form(given: Any, split: Callable[[str], tuple[str, dict[str, Any]]] = split_settings) -> str:
    """Return the text of a name and its settings, in one form, from a text or a table.

    Examples
    --------
    >>> _one_form("cpap:variant=probfair,noise=0.20"), _one_form({"name": "exponential", "c": 3.0})
    ('cpap:noise=0.2,variant=probfair', 'exponential:c=3')
    >>> _one_form({"name": "fair-oracle", "merit": {"name": "affine", "slope": 1.0, "intercept": 2}})
    'fair-oracle:merit=affine:intercept=2:slope=1'
    """
    if isinstance(given, str):
        name, settings = split(given)
    elif isinstance(given, dict):
        name, settings = given.get("name", ""), {key: value for key, value in given.items() if key != "name"}
    else:
        raise InputError(f"must be text, or a table with a name, got {given!r}")
    if "merit" in settings:
        settings["merit"] = as_inner(_one_form(settings["merit"], split_inner))
    if isinstance(given, dict):
        _check_table(given, name, settings)
    return join_settings(name, settings)


def _check_table(given: dict[str, Any], name: Any, settings: dict[str, Any]) -> None:
    """Refuse what would be another name, or another value, as text."""
    if not name or split_settings(name) != (name, {}):
        raise InputError(f'a table needs a plain name, as {{name = "cpap", noise = 0.2}} has, got {given!r}')
    for key, value in settings.items():
        if split_settings(join_settings(name, {key: value})) != (name, {key: value}):
            raise InputError(f"{name}: {key} must be a plain text, or a number without quotes, got {value!r}")


def _line(text: str, key: str | None = None, position: int | None = None) -> int | None:
    """Return where a key stands, or one element of its list, or what is nested too deeply, counted from 1.

    The first lines of a file are whole TOML by themselves unless they end within a statement, so the statement of a key
    ends with the first lines that have the key, and begins after those before that are whole.
    """
    lines = text.splitlines(keepends=True)
    before = 0
    for number in range(1, len(lines) + 1):
        try:
            values = tomllib.loads("".join(lines[:number]))
        except tomllib.TOMLDecodeError:
            continue
        except RecursionError:
            return before + 1
        if key is not None and key in values:
            inside = 0 if position is None else _line_of_element(lines[before:number], key, position)
            return before + 1 + inside
        before = number
    return None


def _line_of_element(lines: list[str], key: str, position: int) -> int:
    """Return in which line of a statement an element of its list ends, counted from 0.

    The first lines of a list are a shorter list once it is closed after them.
    """
    for number in range(len(lines)):
        with suppress(tomllib.TOMLDecodeError):
            if len(tomllib.loads("".join(lines[: number + 1]) + "\n]")[key]) > position:
                return number
    return len(lines) - 1
