"""What a folder of results says of itself, so that they can be read without the spec, and by later versions.

Beside the shards there are ``sweep.json``, every setting of the last sweep into the folder, which shard has which of
its runs, versions, and arms of your own; and ``spec.toml``, the spec as it was given, if it was a file.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from meritfair.core.errors import FileError
from meritfair.core.storage import write_whole
from meritfair.lab.spec import Setting
from meritfair.lab.tasks import Task, versions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

__all__ = ["KeptTask", "Manifest", "keep_manifest"]

MANIFEST, SPEC = "sweep.json", "spec.toml"
_FORMAT = "meritfair-sweep-1"
_SHARD = re.compile("[0-9a-f]{32}")
_DAMAGED = (ValueError, LookupError, TypeError, RecursionError)  # what readers raise


@dataclass(frozen=True)
class KeptTask(Task):
    """A task whose shard has the name that it was given then, whichever versions there are now."""

    kept_as: str

    @property
    def key(self) -> str:
        """The name of the shard."""
        return self.kept_as


def keep_manifest(tasks: Sequence[Task], folder: Path, spec: str | None = None) -> None:
    """Write down in a folder what is to be played there, and the spec as it was given, if it comes from a file."""
    _write(folder / MANIFEST, json.dumps(_content(tasks), indent=1))
    if spec is not None:
        _write(folder / SPEC, spec)
        return
    try:
        (folder / SPEC).unlink(missing_ok=True)  # that of an earlier sweep
    except OSError as error:
        raise FileError(folder / SPEC, f"cannot be removed: {error.strerror or error}") from None


def _content(tasks: Sequence[Task]) -> dict[str, Any]:
    settings = {setting: number for number, setting in enumerate(dict.fromkeys(task.setting for task in tasks))}
    own = {setting.dataset: setting.own_arms for setting in settings if setting.own_arms is not None}
    return {
        "format": _FORMAT,
        "versions": versions(),
        "settings": [setting.settings() for setting in settings],
        "tasks": [
            {"setting": settings[task.setting], "first": task.first, "runs": task.runs, "shard": task.key}
            for task in tasks
        ],
        "own_arms": {
            name: {"names": list(arms.names), "transitions": arms.transitions.tolist()} for name, arms in own.items()
        },
    }


def _write(file: Path, text: str) -> None:
    write_whole(file, lambda temporary: temporary.write_text(text, encoding="utf-8", newline=""))


@dataclass(frozen=True)
class Manifest:
    """What was to be played in a folder, done or not, and by which versions."""

    tasks: tuple[KeptTask, ...]
    versions: Mapping[str, str]

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """Return what a folder says of itself."""
        file = folder / MANIFEST
        try:
            return _from_content(json.loads(file.read_text(encoding="utf-8")))
        except NotADirectoryError:
            raise FileError(folder, "is not a folder") from None
        except FileNotFoundError:
            problem = "has no results of a sweep in it" if folder.exists() else "there is no such folder"
            raise FileError(folder, problem) from None
        except OSError as error:
            raise FileError(file, f"cannot be read: {error.strerror or error}") from None
        except _DAMAGED as error:
            again = "the sweep's command writes it again, and keeps all shards"
            raise FileError(file, f"cannot be read ({_words(error)}): {again}") from None

    @property
    def changed(self) -> dict[str, tuple[str, str]]:
        """Which versions are others than here: then and now, by name."""
        here = versions()
        return {name: (then, here.get(name, "none")) for name, then in self.versions.items() if then != here.get(name)}


def _from_content(content: Any) -> Manifest:
    if content["format"] != _FORMAT:
        raise ValueError(f"its format is {content['format']}, not {_FORMAT}")
    settings = [Setting(**each) for each in content["settings"]]
    for each in content["tasks"]:
        if not _SHARD.fullmatch(each["shard"]):
            raise ValueError(f"{each['shard']!r} is not the name of a shard")
    kept = (
        KeptTask(settings[each["setting"]], each["first"], each["runs"], each["shard"]) for each in content["tasks"]
    )
    return Manifest(tuple(kept), dict(content["versions"]))


def _words(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
