"""How kernels are compiled, and where the result is kept.

Numba notices a change in the file of a cached function, but not in the files of what it calls, and would go on
with wrong machine code. So the cache lies in a directory named by a hash of all the engine's source: another
source, another directory. Where nothing can be written, each process compiles for itself.

Kernels are serial and release the GIL; ``parallel=True`` is never used, as its thread pools do not survive a fork.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numba
from numba.core import cgutils, event
from numba.core.dispatcher import Dispatcher
from numba.extending import intrinsic

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "address",
    "cache_directory",
    "call",
    "call_real",
    "call_void",
    "expect",
    "inlined",
    "kernel",
    "own_stage",
    "part",
    "stage",
]

config: Any = numba.config
_type_of: Any = numba.typeof
_unpack: Any = cgutils.unpack_tuple
_if_unlikely: Any = cgutils.if_unlikely
_unliteral: Any = numba.types.unliteral
_listen: Any = event.register
_Arguments: Any = numba.types.StarArgTuple

_Function = TypeVar("_Function", bound="Callable[..., Any]")

_ENGINE = "meritfair.engine."
_OPTIONS = {
    "nogil": True,
    "error_model": "numpy",  # a division by zero is inf: kernels raise nothing
    "_nrt": False,  # kernels allocate nothing, and need not count references to arrays
}


def _user_cache() -> Path:
    """Return where this system keeps the caches of a user."""
    if os.environ.get("NUMBA_CACHE_DIR"):
        return Path(os.environ["NUMBA_CACHE_DIR"])
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", tempfile.gettempdir()))
    if sys.platform == "darwin":
        return Path("~/Library/Caches").expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()


def _source_hash() -> str:
    """Return a name for this very source of the engine, on this version of Numba."""
    total = hashlib.sha256(f"{numba.__version__} {sys.version}".encode())
    for file in sorted(Path(__file__).parent.glob("*.py")):
        total.update(file.name.encode())
        total.update(file.read_bytes())
    return total.hexdigest()[:20]


def cache_directory() -> Path | None:
    """Return the directory that holds the compiled kernels of this source, or None if it cannot be written to."""
    try:
        directory = _user_cache() / "meritfair" / _source_hash()
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory) as room:
            room.write(bytes(1_000_000))  # about what the kernels take
        return directory
    except (OSError, RuntimeError):  # no such home, no permission, no space
        return None


_CACHE = cache_directory()


def kernel(function: _Function) -> _Function:
    """Compile a function that is called from Python, at its first call, and keep the result."""
    return _kept(function)


def _kept(function: _Function, **options: bool) -> _Function:
    """Compile a function at its first call, and keep the result where that can be done."""
    if _CACHE is None:
        here: _Function = numba.njit(**_OPTIONS, **options)(function)
        return here
    before = config.CACHE_DIR
    config.CACHE_DIR = str(_CACHE)  # read when the function is decorated
    try:
        compiled: Any = numba.njit(cache=True, **_OPTIONS, **options)(function)
    finally:
        config.CACHE_DIR = before
    compiled._cache = _CarefulCache(compiled._cache)
    kept: _Function = compiled
    return kept


class _CarefulCache:
    """Numba's cache of a function, which then survives a damaged file and a full disk: it compiles anew."""

    def __init__(self, cache: Any) -> None:
        self._inner = cache

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def load_overload(self, *signature: Any) -> Any:
        try:
            return self._inner.load_overload(*signature)
        except Exception:  # damaged bytes can make unpickling fail in any way
            return None

    def save_overload(self, *signature_and_code: Any) -> None:
        with suppress(OSError):
            self._inner.save_overload(*signature_and_code)


def stage(function: _Function) -> _Function:
    """Compile a function that kernels call by its address: compiled once, kept, and only if it is used.

    What a kernel calls as such is optimised again inside each kernel that calls it. A stage is not, so
    a large part of an episode that comes in several kinds should be one. Kernels call it by `call`, `call_real` or
    `call_void`, by what it returns.
    """
    return _kept(function, no_cfunc_wrapper=True)


def own_stage(function: Any) -> Any:
    """Return a function that users bring along as a stage, compiled for this process only; it may allocate."""
    if isinstance(function, Dispatcher):
        if function.py_func.__module__.startswith(_ENGINE):
            return function
        function = function.py_func
    return numba.njit(nogil=True, error_model="numpy", no_cfunc_wrapper=True)(function)


_signatures: set[tuple[Any, ...]] = set()  # the types of the arguments of all stages


def expect(*arguments: Any) -> None:
    """Say that kernels may call a stage with arguments of these types, which need not be compiled yet."""
    _signatures.add(tuple(_type_of(argument) for argument in arguments))


def address(function: Any, *arguments: Any, returns: Any = numba.int64) -> int:
    """Return the address of a stage that is compiled for the types of these arguments."""
    expect(*arguments)
    types = tuple(_type_of(argument) for argument in arguments)
    function.compile(types)
    code = function.overloads[types]
    found = _unliteral(code.signature.return_type)
    if found != returns:
        raise TypeError(f"{function.__name__} must return {returns}, not {found}")
    place: int = code.library.get_pointer_to_function(code.fndesc.llvm_func_name)
    return place


def _caller(returns: Any, *, may_raise: bool) -> Any:
    """Return what calls stages of this type at their address; those of users may raise."""

    @intrinsic
    def call_stage(_context: Any, place: Any, *arguments: Any) -> Any:
        types = tuple(arguments)
        if types not in _signatures:
            raise TypeError(f"no stage takes {types}")

        def write(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            given = _unpack(builder, values[1], len(types))
            kind = context.call_conv.get_function_type(signature.return_type, types)
            there = builder.inttoptr(values[0], kind.as_pointer())
            status, result = context.call_conv.call_function(builder, there, signature.return_type, types, given)
            if may_raise:
                with _if_unlikely(builder, status.is_error):
                    context.call_conv.return_status_propagate(builder, status)
            return result

        return returns(place, _Arguments(types)), write

    return call_stage


# Each calls a stage at its address, in a kernel; the arguments must be of just the types it was compiled for.
call = _caller(numba.int64, may_raise=False)
call_real = _caller(numba.float64, may_raise=True)
call_void = _caller(numba.void, may_raise=True)


def part(function: _Function) -> _Function:
    """Compile a function that is called by kernels only."""
    compiled: _Function = numba.njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, **_OPTIONS)(function)
    return compiled


def inlined(function: _Function) -> _Function:
    """Compile a function into what calls it: for tuples of arrays, which are slow to hand over."""
    compiled: _Function = numba.njit(inline="always", **_OPTIONS)(function)
    return compiled


class _SayOnce(event.Listener):
    """Tells the user, once, why the first call takes so long."""

    said = False

    def on_start(self, happened: Any) -> None:
        dispatcher = happened.data["dispatcher"]
        if self.said or not dispatcher.py_func.__module__.startswith(_ENGINE):
            return
        self.said = True
        if _CACHE is None:
            kept = "in every new process, as no cache directory can be written to; NUMBA_CACHE_DIR can name one"
        else:
            kept = "once for this version"
        print(
            f"meritfair: compiling the engine for this machine, {kept}: 10 to 20 seconds ...",
            file=sys.stderr,
            flush=True,
        )

    def on_end(self, happened: Any) -> None:
        pass


_listen("numba:compile", _SayOnce())
