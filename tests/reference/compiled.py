"""Kernels of the tests' own: they call parts of the engine, compiled as the engine is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numba

from meritfair.engine.compiling import _OPTIONS

if TYPE_CHECKING:
    from collections.abc import Callable

_Function = TypeVar("_Function", bound="Callable[..., Any]")

__all__ = ["kernel_not_kept"]


def kernel_not_kept(function: _Function) -> _Function:
    """Compile a function that is called from Python, for this process only."""
    options: dict[str, Any] = _OPTIONS
    compiled: _Function = numba.njit(**options)(function)
    return compiled
