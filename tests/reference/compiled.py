"""Kernels of the tests' own: they call parts of the engine, compiled as the engine is."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numba

from meritfair.engine.compiling import _OPTIONS, CodeFiles, cache_directory

if TYPE_CHECKING:
    from collections.abc import Callable

_Function = TypeVar("_Function", bound="Callable[..., Any]")

__all__ = ["kernel_not_kept", "kernel_of_tests"]


def kernel_not_kept(function: _Function) -> _Function:
    """Compile a function that is called from Python, for this process only."""
    options: dict[str, Any] = _OPTIONS
    compiled: _Function = numba.njit(**options)(function)
    return compiled


def kernel_of_tests(function: _Function) -> _Function:
    """Compile a function that is called from Python; keep the result for this source of the engine and the tests."""
    compiled: Any = kernel_not_kept(function)
    own, engine = sys.modules[function.__module__].__file__, cache_directory()
    if own is not None and engine is not None:
        sources = [Path(own), *sorted(Path(__file__).parent.glob("*.py"))]
        name = hashlib.sha256(b"".join(file.read_bytes() for file in sources)).hexdigest()[:20]
        compiled._cache = CodeFiles(function, engine / name)
    kept: _Function = compiled
    return kept
