"""How kernels are compiled, and where the result is kept.

Numba notices a change in the file of a cached function, but not in the files of what it calls, and would use
wrong machine code; and it runs whatever bytes its cache holds. So the engine keeps its machine code itself: in a
directory named by a hash of all its source (another source, another directory), a file for each function, signature
and processor, with a checksum. Where nothing can be written, each process compiles for itself.

Kernels are serial and release the GIL; ``parallel=True`` is never used, as its thread pools do not survive a fork.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np
from numba.core import cgutils, event
from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.dispatcher import Dispatcher
from numba.core.serialize import dumps
from numba.extending import intrinsic

from meritfair.core.errors import FileError, MeritfairError
from meritfair.core.machine import WORKER
from meritfair.core.storage import write_whole

config: Any = numba.config
_type_of: Any = numba.typeof
_unpack: Any = cgutils.unpack_tuple
_if_unlikely: Any = cgutils.if_unlikely
_unliteral: Any = numba.types.unliteral
_listen: Any = event.register
_Arguments: Any = numba.types.StarArgTuple
_Code: Any = CompileResult
_pickled: Any = dumps

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
    """Return a name for this very source of the engine, on these versions of what compiles it."""
    total = hashlib.sha256(f"{numba.__version__} {np.__version__} {sys.version}".encode())
    for file in sorted(Path(__file__).parent.glob("*.py")):
        total.update(file.name.encode())
        total.update(file.read_bytes())
    return total.hexdigest()[:20]


def _directory() -> Path | None:
    """Return where the machine code of this source belongs, whether it is there or not; None without a home."""
    try:
        return _user_cache() / "meritfair" / _source_hash()
    except RuntimeError:
        return None


def cache_directory() -> Path | None:
    """Return the directory that holds the compiled kernels of this source, or None if it cannot be written to."""
    directory = _directory()
    try:
        if directory is not None:
            directory.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=directory) as room:
                room.write(bytes(1_000_000))  # about what the kernels take
    except OSError:  # no permission, no space
        return None
    return directory


_CACHE = _directory()


def _compile(function: _Function, **options: Any) -> Any:
    """Have Numba compile a function when it is first called."""
    if config.DISABLE_JIT:
        raise MeritfairError("NUMBA_DISABLE_JIT is set, but the engine works only when Numba compiles it: unset it")
    return numba.njit(**options)(function)


def kernel(function: _Function) -> _Function:
    """Compile a function that is called from Python, at its first call, and keep the result."""
    return _kept(function)


def _kept(function: _Function, **options: bool) -> _Function:
    """Compile a function at its first call; keep the result if the directory's name tells its source."""
    compiled = _compile(function, **_OPTIONS, **options)
    if _CACHE is not None and function.__module__.startswith(_ENGINE):
        compiled._cache = CodeFiles(function, _CACHE)
    kept: _Function = compiled
    return kept


class CodeFiles(NullCache):
    """The kept machine code of a function, in the place of Numba's cache.

    One wrong bit in machine code can crash the process. So a file begins with a SHA-256 checksum of the rest and of
    whose code it is, and nothing else of it is looked at before they agree. If they do not, the function is compiled
    and the file written again. Files are replaced in one step, and two processes that write one write the same code.
    """

    def __init__(self, function: Callable[..., Any], directory: Path) -> None:
        self._directory = directory
        self._function = function

    @property
    def cache_path(self) -> str:
        """The directory, for Numba's statistics."""
        return str(self._directory)

    def _place(self, signature: Any, codegen: Any) -> tuple[Path, bytes]:
        """Return the file for this signature on this processor, and what its checksum begins with."""
        name = f"{self._function.__module__}.{self._function.__qualname__}"
        key = f"{name} {signature} {codegen.magic_tuple()} ".encode()
        return self._directory / f"{self._function.__name__}-{hashlib.sha256(key).hexdigest()[:20]}.code", key

    def load_overload(self, signature: Any, target: Any) -> Any:
        """Return the code that is kept for a signature, or None if there is none that can be used."""
        target.refresh()  # as Numba does, so that the code finds what it is linked with
        file, key = self._place(signature, target.codegen())
        try:
            content = file.read_bytes()
        except OSError:  # not there, or not for us
            return None
        checksum, code = content[:_CHECKSUM], content[_CHECKSUM:]
        if checksum != hashlib.sha256(key + code).digest():
            _tell(f"damaged machine code in {self._directory} is not used; compiling it again", once="damage")
            return None
        return _Code._rebuild(target, *pickle.loads(code))

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Keep the code of a signature, if there is room."""
        file, key = self._place(signature, compiled.codegen)
        code: bytes = _pickled(compiled._reduce())
        content = hashlib.sha256(key + code).digest() + code
        with suppress(OSError, FileError):
            self._directory.mkdir(parents=True, exist_ok=True)
            write_whole(file, lambda temporary: temporary.write_bytes(content))


_CHECKSUM = hashlib.sha256().digest_size
_NOWHERE = "no cache directory can be written to; NUMBA_CACHE_DIR can name one"
_told: set[str] = set()


def _tell(what: str, once: str = "compiling") -> None:
    """Tell the user, once, why a call takes so long; a process that works for another leaves that to the other."""
    if once not in _told:
        _told.update({once, "compiling"})
        if WORKER not in os.environ:
            print(f"meritfair: {what} ...", file=sys.stderr, flush=True)


def _is_cold(directory: Path | None) -> bool:
    """Return whether nothing of this source is compiled yet, or nothing can be kept."""
    return directory is None or next(directory.glob("*.code"), None) is None


def _about_to_compile() -> str:
    """Return what is about to happen, and how often it will."""
    directory = cache_directory()
    if not _is_cold(directory):
        return "compiling a part of the engine that was not used before: up to a minute"
    kept = "once for this version" if directory is not None else f"in every new process, as {_NOWHERE}"
    return f"compiling the engine for this machine, {kept}: 10 to 40 seconds"


def tell_if_cold() -> None:
    """Tell the user that processes which work for this one will have to compile the engine, if that is so."""
    if _is_cold(cache_directory()):
        _tell(_about_to_compile())


class _Listener(event.Listener):
    """Notices when Numba compiles a function of the engine."""

    def on_start(self, happened: Any) -> None:
        if happened.data["dispatcher"].py_func.__module__.startswith(_ENGINE):
            _tell(_about_to_compile())

    def on_end(self, happened: Any) -> None:
        pass


_listen("numba:compile", _Listener())


def stage(function: _Function) -> _Function:
    """Compile a function that kernels call by its address: compiled once, kept, and only if it is used.

    What a kernel calls as such is optimised again inside each kernel that calls it. A stage is not, so
    a large part of an episode that comes in several kinds should be one. Kernels call it by `call`, `call_user`,
    `call_real` or `call_void`, by what it returns.
    """
    return _kept(function, no_cfunc_wrapper=True)


def own_stage(function: Any) -> Any:
    """Return a function that users bring along as a stage, compiled for this process only; it may allocate."""
    if isinstance(function, Dispatcher):
        if function.py_func.__module__.startswith(_ENGINE):
            return function
        function = function.py_func
    return _compile(function, nogil=True, error_model="numpy", no_cfunc_wrapper=True)


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
call_user = _caller(numba.int64, may_raise=True)  # a stage that itself calls what users bring along
call_real = _caller(numba.float64, may_raise=True)
call_void = _caller(numba.void, may_raise=True)


def part(function: _Function) -> _Function:
    """Compile a function that is called by kernels only."""
    compiled: _Function = _compile(function, no_cpython_wrapper=True, no_cfunc_wrapper=True, **_OPTIONS)
    return compiled


def summing(function: _Function) -> _Function:
    """Compile a part whose sums may be added up in any order, so that its loops become vector instructions.

    It must change no array: then the order is the same each time. A loop that writes, too, would be played one by one
    where arrays happen to lie close together in memory.
    """
    compiled: _Function = _compile(
        function, no_cpython_wrapper=True, no_cfunc_wrapper=True, fastmath={"reassoc", "nsz"}, **_OPTIONS
    )
    return compiled


def inlined(function: _Function) -> _Function:
    """Compile a function into what calls it: for tuples of arrays, which are slow to hand over."""
    compiled: _Function = _compile(function, inline="always", **_OPTIONS)
    return compiled
