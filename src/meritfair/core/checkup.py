"""What `meritfair doctor` finds out about a machine: libraries, disk, memory, ports.

Each check is a small function that changes nothing and returns a `Check`: what was found, and what to do about it.
"""

from __future__ import annotations

import re
import shutil
import socket
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from importlib import metadata
from pathlib import Path
from typing import Literal

from meritfair.core.errors import InputError
from meritfair.core.machine import available_memory

State = Literal["ok", "warning", "problem", "skipped"]
GIGABYTE = 10**9
PURPOSES = {  # of each extra
    "beacon": "checking values of drand",
    "client": "a client of the server's HTTP API",
    "dask": "sweeps on a cluster",
    "gym": "Gymnasium environments",
    "lab": "reports, data frames",
    "plots": "figures",
    "postgres": "stores on PostgreSQL",
    "web": "meritfair serve, meritfair view",
}


@dataclass(frozen=True)
class Check:
    """What one check has found.

    Attributes
    ----------
    name : str
        What was checked.
    state : {"ok", "warning", "problem", "skipped"}
        A problem keeps something from working; a warning may lead to one; what is skipped was not looked at.
    found : str
        What there is.
    advice : str
        What to do; empty if there is nothing to do.
    """

    name: str
    state: State
    found: str
    advice: str = ""


def check_python() -> Check:
    """Check the version of Python."""
    return Check("Python", "ok", f"{sys.version.split()[0]} at {sys.executable}")  # an older one does not get here


def check_libraries(package: str = "meritfair") -> list[Check]:
    """Check the versions of libraries: of those that are always needed, then of each extra."""
    try:
        requirements = metadata.requires(package) or []
    except metadata.PackageNotFoundError:
        return [Check("libraries", "warning", "unknown, as meritfair itself is not installed", "pip install it")]
    extras = sorted(PURPOSES)
    return [_check_core(requirements), *(_check_extra(extra, requirements) for extra in extras)]


def _check_core(requirements: Iterable[str]) -> Check:
    needed = [each for each in requirements if "extra ==" not in each]
    wrong = [text for text in map(_unmet, needed) if text]
    if wrong:
        return Check("libraries", "problem", "; ".join(wrong), "pip install --upgrade meritfair")
    return Check("libraries", "ok", ", ".join(f"{name} {_version(name)}" for name in map(_name, needed)))


def _check_extra(extra: str, requirements: Iterable[str]) -> Check:
    needed = [each for each in requirements if re.search(rf"extra == ['\"]{extra}['\"]", each)]
    wrong = [text for text in map(_unmet, needed) if text]
    name, purpose = f"extra {extra}", PURPOSES[extra]
    if not wrong:
        return Check(name, "ok", f"installed ({purpose})")
    old = [text for text in wrong if "missing" not in text]
    state: State = "warning" if old else "ok"  # what nobody has installed, nobody misses
    return Check(name, state, f"{'; '.join(old) or 'not installed'} ({purpose})", f"pip install 'meritfair[{extra}]'")


def _name(requirement: str) -> str:
    return re.split(r"[\[<>=!~; ]", requirement, maxsplit=1)[0]


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _unmet(requirement: str) -> str:
    """Return what is wrong with a library, empty if nothing is."""
    name, least = _name(requirement), re.search(r">=([\d.]+)", requirement)
    found = _version(name)
    if found is None:
        return f"{name} is missing"
    if least and _numbers(found) < _numbers(least[1]):
        return f"{name} is {found}, and {least[1]} or newer is needed"
    return ""


def _numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a version.

    Examples
    --------
    >>> _numbers("2.10.1"), _numbers("2024.8.0rc1")
    ((2, 10, 1), (2024, 8, 0))
    """
    return tuple(int(each) for each in re.findall(r"\d+", re.split("[a-z+]", version)[0]))


def check_disk(name: str, folder: Path, needed: int = 0) -> Check:
    """Check the free space of a folder, or of the one that it will be made in; `needed` are bytes on top of usual."""
    there = next((each for each in (folder, *folder.parents) if each.exists()), Path.cwd())
    free = shutil.disk_usage(there).free
    found = f"{free / GIGABYTE:,.1f} GB free at {there}"
    if free < GIGABYTE // 10:
        return Check(name, "problem", found, "Free some space: nothing can be saved without it")
    if free < GIGABYTE + needed:
        return Check(name, "warning", found, f"Free some space: {(GIGABYTE + needed) / GIGABYTE:,.1f} GB are prudent")
    return Check(name, "ok", found)


def check_memory() -> Check:
    """Check the memory that this process can still have."""
    free = available_memory()
    if free is None:
        return Check("memory", "ok", "unknown, as the system does not say")
    found = f"{free / GIGABYTE:,.1f} GB available"
    if free < GIGABYTE // 2:
        return Check("memory", "warning", found, "A server takes about 0.5 GB for each worker: end other programs")
    return Check("memory", "ok", found)


def check_port(port: int = 8000) -> Check:
    """Check whether a server could listen on a port, or is there already."""
    if not 1 <= port <= 65_535:
        raise InputError(f"port must be between 1 and 65535, got {port}")
    name = f"port {port}"
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # else one that was just closed is taken for busy
        try:
            probe.bind(("127.0.0.1", port))
        except PermissionError:
            return Check(name, "warning", "only root may listen there", "meritfair serve --port takes another one")
        except OSError:
            return _check_who_listens(name, port)
    return Check(name, "ok", "free")


def _check_who_listens(name: str, port: int) -> Check:
    connection = HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", "/healthz")
        status = connection.getresponse().status
    except (OSError, HTTPException):
        status = 0
    finally:
        connection.close()
    if status == 200:
        return Check(name, "ok", "a server listens there, and says that it is well")
    return Check(name, "warning", "another program listens there", "meritfair serve --port takes another one")
