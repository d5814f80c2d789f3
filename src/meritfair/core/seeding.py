"""One seed for everything: named, independent random streams for each run.

A stream is fixed by (seed, name, run) alone. So run 7 sees the same random numbers whether it is
simulated alone or among a thousand, and changing how a policy draws never changes the arms it meets.
"""

from __future__ import annotations

import secrets
from typing import Any, Literal, TypeAlias

import numpy as np

from meritfair.core.checks import check_whole

StreamName: TypeAlias = Literal["instance", "environment", "policy", "bootstrap", "sight"]

_STREAMS: dict[StreamName, int] = {"instance": 0, "environment": 1, "policy": 2, "bootstrap": 3, "sight": 4}


def fresh_seed(seed: Any = None) -> int:
    """Return the seed, checked; or, for None, a new one from the system that can be written down."""
    return secrets.randbits(32) if seed is None else check_whole("seed", seed, 0)


def sequence(seed: int, name: StreamName, run: int = 0) -> np.random.SeedSequence:
    """Return the seeds of one named stream of one run, for the engine's own generator."""
    return np.random.SeedSequence(seed, spawn_key=(_STREAMS[name], run))


def stream(seed: int, name: StreamName, run: int = 0) -> np.random.Generator:
    """Return the generator of one named stream of one run.

    Examples
    --------
    >>> float(stream(1, "policy").random()) == float(stream(1, "policy").random())
    True
    >>> float(stream(1, "policy").random()) == float(stream(1, "environment").random())
    False
    """
    return np.random.default_rng(sequence(seed, name, run))
