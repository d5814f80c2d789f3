"""What this machine has, and whether a simulation fits it.

The estimates are lower ones, so that only what is plainly impossible is refused: memory is that of the results alone,
and time that of an engine three times as fast as any that was measured.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from meritfair.core.checks import check_whole
from meritfair.core.errors import InputError
from meritfair.core.texts import several

WORKER = "MERITFAIR_WORKER"  # a variable that is set in processes which work for another one
_ARM_STEPS = 10_000_000_000  # more than a core plays in a second
_LONGEST = 30 * 86_400  # seconds
_MOST_STEPS = 2**53  # up to here a run's counts are exact
_LITTLE = 10**8  # bytes: less is there for sure, and asking the system would take longer than playing
_PER_EPISODE, _PER_ARM = 48, 136  # bytes of a `Run` for each run
_PER_INSTANCE = 80  # bytes of an arm and its name
_BYTES = {"PB": 10**15, "TB": 10**12, "GB": 10**9, "MB": 10**6}
_SECONDS = {"years": 31_557_600, "days": 86_400}
_CONTAINER_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def available_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def available_memory() -> int | None:
    """Return about how many bytes this process can still have, or None where the system does not say."""
    limits = [int(text) for text in map(_text, _CONTAINER_LIMITS) if text.strip().isdigit()]  # else it is "max"
    free = re.findall(r"^(?:MemAvailable|SwapFree): +(\d+) kB$", _text("/proc/meminfo"), re.MULTILINE)
    if free:
        limits.append(1024 * sum(map(int, free)))
    elif "SC_PHYS_PAGES" in getattr(os, "sysconf_names", ()):
        limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min(limits, default=None)


def _text(file: str) -> str:
    try:
        return Path(file).read_text()
    except OSError:  # another system
        return ""


def check_memory(what: str, needed: int, lower: str) -> None:
    """Refuse what needs more bytes than there are, and say what to lower."""
    available = available_memory() if needed > _LITTLE else None
    if available is not None and needed > available:
        found = f"at least {_in_words(needed, _BYTES)} of memory, and {_in_words(available, _BYTES)} are available"
        raise InputError(f"{what} would take {found}: lower {lower}")


def check_arms(n_arms: Any, runs: int = 1) -> int:
    """Return the number of arms as an int, if there is memory for that many in each run."""
    N = check_whole("n_arms", n_arms, 1)
    check_memory(f"the arms (n_arms = {N:,}, runs = {runs:,})", _PER_INSTANCE * N * runs, "arms or runs")
    return N


def check_size(
    n_arms: int, *, runs: Any, episodes: Any, horizon: Any, policies: int = 1, workers: int | None = None
) -> None:
    """Refuse a simulation that this machine cannot hold or play, before anything is made for it.

    Examples
    --------
    >>> check_size(5, runs=1, episodes=1, horizon=10**18, workers=1)
    Traceback (most recent call last):
    ...
    meritfair.core.errors.InputError: 1 run of 1 episode of 1,000,000,000,000,000,000 steps of 5 arms would take \
at least 15 years on 1 core: lower horizon, episodes, runs or arms
    """
    R, T, H = check_whole("runs", runs, 1), check_whole("episodes", episodes, 1), check_whole("horizon", horizon, 1)
    what = f"{several(R, 'run')} of {several(T, 'episode')} of {several(H, 'step')} of {several(n_arms, 'arm')}"
    if policies > 1:
        what = f"{policies} policies with {what}"
    cores = min(available_cores() if workers is None else workers, R)
    seconds = policies * R * T * H * n_arms // (cores * _ARM_STEPS)
    if seconds > _LONGEST:
        found = f"at least {_in_words(seconds, _SECONDS)} on {several(cores, 'core')}"
        raise InputError(f"{what} would take {found}: lower horizon, episodes, runs or arms")
    check_memory(what, policies * R * (_PER_EPISODE * T + _PER_ARM * n_arms), "episodes, runs or arms")
    if T * H > _MOST_STEPS:
        raise InputError(f"{what}: a run must have at most {_MOST_STEPS:,} steps, as counts are exact up to there")


def _in_words(number: int, units: dict[str, int]) -> str:
    """Return a number in the largest unit of which there are several."""
    name = next((name for name, unit in units.items() if number >= 2 * unit), list(units)[-1])
    return f"{number // units[name]:,} {name}"
