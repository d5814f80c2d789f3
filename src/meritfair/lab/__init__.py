"""The lab: sweeps over many settings, and the whole paper in one command.

The names below are loaded when first used, so that a worker loads only what it plays with.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from meritfair.lab.results import Results as Results
    from meritfair.lab.results import load as load
    from meritfair.lab.results import read_results as read_results
    from meritfair.lab.running import run_spec as run_spec
    from meritfair.lab.spec import Setting as Setting
    from meritfair.lab.spec import Spec as Spec
    from meritfair.lab.spec_file import read_spec as read_spec
    from meritfair.lab.sweep import run_sweep as run_sweep

_HOME_OF = {
    "Results": "results",
    "Setting": "spec",
    "Spec": "spec",
    "load": "results",
    "read_results": "results",
    "read_spec": "spec_file",
    "run_spec": "running",
    "run_sweep": "sweep",
}

__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'meritfair.lab' has no attribute {name!r}")
    return getattr(import_module(f"meritfair.lab.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
