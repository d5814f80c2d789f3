"""Processes that play tasks, as an executor of `concurrent.futures`.

Each worker is a Python process that is fed through a pipe by a thread of its own, one call at a time. That is less
than `ProcessPoolExecutor` does, and survives more:

- A worker that dies takes only its own call with it, whose future raises `WorkerDied`; another takes its place.
- A worker ends when its pipe does. So none is left behind, even if this process is killed and can do nothing about it.
- Ctrl-C does not reach the workers: who gets it decides what becomes of them.
- Workers do not import the main script again, which therefore needs no ``if __name__ == "__main__"``.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from typing import IO, Any, ParamSpec, TypeVar, cast

from meritfair.core.checks import check_whole
from meritfair.core.errors import MeritfairError
from meritfair.core.machine import WORKER, available_cores

_P = ParamSpec("_P")
_T = TypeVar("_T")
_PER_CORE = 32  # processes; more would fill the memory and play no faster

_STARTS = 5  # tries to start a worker before giving up
_PATIENCE = 2.0  # seconds in which a process that hung up should have ended
_BOOT = """
import pickle, sys
sys.path[:] = pickle.loads(pickle.load(sys.stdin.buffer))
from meritfair.lab.executors import work
work()
"""
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")


class WorkerDied(BrokenExecutor):
    """The process that carried out a call has died; the others continue."""


def check_workers(workers: Any) -> int:
    """Return how many worker processes to start, if the machine can bear that many."""
    most = _PER_CORE * available_cores()
    return check_whole("workers", workers, 1, most, f"{most} ({_PER_CORE} for each core)")


@contextmanager
def processes(workers: int | None = None) -> Iterator[Processes]:
    """Give processes that carry out calls, one each at a time; by default as many as there are cores.

    At the end, or if anything is raised, they are ended at once.

    Examples
    --------
    >>> with processes(1) as pool:
    ...     pool.submit(divmod, 7, 2).result()
    (3, 1)
    """
    pool = Processes(available_cores() if workers is None else check_workers(workers))
    try:
        yield pool
    finally:
        pool.stop()


class Processes(ThreadPoolExecutor):
    """That many processes, each fed by a thread of its own and started again if it dies."""

    def __init__(self, workers: int) -> None:
        super().__init__(workers, "meritfair-worker")
        self._lock, self._mine = threading.Lock(), threading.local()
        self._stopped = False
        self._workers: set[_Worker] = set()
        self._open: set[Future[Any]] = set()
        for _ in range(workers):
            super().submit(self._worker)  # all start at once

    @property
    def pids(self) -> list[int]:
        """The processes that are there now."""
        with self._lock:
            return sorted(worker.process.pid for worker in self._workers)

    def submit(self, function: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        future = super().submit(self._call, function, args, kwargs)
        self._open.add(future)
        future.add_done_callback(self._open.discard)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        waiting = [*self._open] if cancel_futures else []
        super().shutdown(wait=False, cancel_futures=cancel_futures)
        for future in waiting:
            if future.cancelled():
                future.set_running_or_notify_cancel()  # tells those who wait
        if wait:
            super().shutdown()
            for worker in [*self._workers]:
                self._remove(worker)

    def stop(self) -> None:
        """End all processes at once; calls that wait are cancelled, others raise `WorkerDied`."""
        with self._lock:
            self._stopped = True
        self.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            for worker in self._workers:
                worker.process.kill()
        self.shutdown()

    def _call(self, *call: Any) -> Any:
        """Have a function called by the process of this thread; return what it returns, or raise what it raises."""
        worker = self._worker()
        try:
            succeeded, result = worker.exchange(call)
        except WorkerDied:
            self._mine.worker = None
            self._remove(worker)
            raise
        if succeeded:
            return result
        raise result

    def _worker(self) -> _Worker:
        """Return the process of this thread, started if there is none, and ready for calls."""
        found: _Worker | None = vars(self._mine).get("worker")
        if found is None:
            found = self._mine.worker = self._start()
        return found

    def _start(self) -> _Worker:
        """Start a process that is ready for calls."""
        problem = ""
        for _ in range(_STARTS):
            with self._lock:
                if self._stopped:
                    raise WorkerDied("the workers were stopped")
                try:
                    worker = _Worker()
                except OSError as error:
                    raise MeritfairError(f"a worker process cannot be started: {error.strerror or error}") from error
                self._workers.add(worker)
            try:
                worker.exchange(sys.path)  # answered when it is ready
            except WorkerDied as error:
                self._remove(worker)
                problem = str(error)
            else:
                return worker
        raise MeritfairError(f"a worker process cannot be started: {problem}, {_STARTS} times before it was ready")

    def _remove(self, worker: _Worker) -> None:
        worker.end()
        with self._lock:
            self._workers.discard(worker)


class _Worker:
    """One process, and the pipes to it."""

    def __init__(self) -> None:
        alone: dict[str, Any] = {"process_group": 0}  # not the one that Ctrl-C goes to
        if sys.platform == "win32":
            alone = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", _BOOT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **_ONE_THREAD, WORKER: "1"},
            **alone,
        )
        self._to, self._back = cast("IO[bytes]", self.process.stdin), cast("IO[bytes]", self.process.stdout)

    def exchange(self, message: Any) -> Any:
        """Send something, and wait for the answer."""
        data = pickle.dumps(message)
        try:
            _send(self._to, data)
            answer = pickle.load(self._back)
        except (OSError, EOFError, pickle.UnpicklingError):
            raise WorkerDied(f"a worker process died ({self.end()})") from None
        return pickle.loads(answer)

    def end(self) -> str:
        """Hang up, wait until the process has ended, and say how."""
        for pipe in (self._to, self._back):
            with suppress(OSError):  # what could not be sent is lost
                pipe.close()
        try:
            code = self.process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        if code >= 0:
            return f"exit code {code}"
        return f"killed by signal {-code}" + ", perhaps for lack of memory" * (-code == signal.SIGKILL)


def _send(pipe: IO[bytes], data: bytes) -> None:
    """Send bytes, as a pickle: so the other side can take them whole, before it tries to make something of them."""
    pickle.dump(data, pipe)
    pipe.flush()


def work() -> None:
    """Carry out calls from the standard input till it ends: what a worker process does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    calls, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # what a policy prints must not get among the answers
    waiting: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_listen, args=(calls, waiting), daemon=True).start()
    answer = pickle.dumps("ready")
    with suppress(OSError):  # nobody is there any more
        while True:
            _send(answers, answer)
            answer = _answer(waiting.get())
    os._exit(0)


def _listen(calls: IO[bytes], waiting: SimpleQueue[bytes]) -> None:
    """Hand on calls; when there is nobody left to call, end the process, whatever it is doing."""
    try:
        while True:
            waiting.put(pickle.load(calls))
    finally:
        os._exit(0)


def _answer(call: bytes) -> bytes:
    """Carry out a call; return whether that succeeded, and the result or the error, as bytes."""
    try:
        function, args, kwargs = pickle.loads(call)
        return pickle.dumps((True, function(*args, **kwargs)))
    except BaseException as error:
        with suppress(Exception):  # not every error can be made again
            data = pickle.dumps((False, error))
            if isinstance(pickle.loads(data)[1], Exception):
                return data
        return pickle.dumps((False, RuntimeError(f"{type(error).__name__}: {error}")))
