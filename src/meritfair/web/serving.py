"""The processes of a server: workers that answer, one for long work, and a parent that starts, watches and stops them.

The parent listens and hands its socket to the workers, so a connection waits for whichever is free and none is refused
while a worker that died is replaced. A process that dies is started again, later and later if it keeps dying; if no
worker ever comes to answer, the server gives up. All that a run leaves in files is in one private folder, which goes
when it ends.
"""

from __future__ import annotations

import logging
import multiprocessing
import shutil
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from meritfair.web.processes import FINISH_SECONDS, STOPPED, Tls, answer, work
from meritfair.web.settings import ServerSettings

_SPAWN = multiprocessing.get_context("spawn")
_LONGEST_WAIT = 30.0  # seconds until a process that keeps dying is started again
_LONG = 60.0  # seconds after which its death has another reason than its start
_GRACE = 5  # seconds that processes have for what comes after their last request
_log = logging.getLogger("meritfair.web")


@dataclass
class _Process:
    """A process that is always to be there.

    Attributes
    ----------
    target, arguments
        What it does.
    ready : Connection or None
        Where a worker says that it answers.
    failures : int
        How often in a row it has died soon.
    again, started : float
        When it is to be started (again), and when it was.
    """

    target: Callable[..., None]
    arguments: tuple[Any, ...]
    tells: bool = False
    process: BaseProcess | None = None
    ready: Connection | None = None
    failures: int = 0
    again: float = 0.0
    started: float = 0.0

    def start(self) -> None:
        told: tuple[Connection, ...] = ()
        if self.tells:
            self.ready, sender = _SPAWN.Pipe(duplex=False)
            told = (sender,)
        self.process = _SPAWN.Process(target=self.target, args=(*self.arguments, *told))
        self.process.start()
        self.started = time.monotonic()
        for each in told:
            each.close()  # the child has its own

    def died(self) -> None:
        """Note that it is gone, and when to start it again."""
        meant = False
        if self.process is not None:
            self.process.join()
            meant = self.process.exitcode == STOPPED
        self.forget_ready()
        self.process, now = None, time.monotonic()
        self.failures = 0 if meant else 1 if now - self.started > _LONG else self.failures + 1
        self.again = now + min(_LONGEST_WAIT, 0.5 * 2.0 ** max(0, self.failures - 1) - 0.5)

    def forget_ready(self) -> None:
        if self.ready is not None:
            self.ready.close()
        self.ready = None


class Supervisor:
    """Runs the processes of a server until it is told to stop.

    Parameters
    ----------
    settings : ServerSettings
    listening : socket
    tls : Tls, optional
    """

    def __init__(self, settings: ServerSettings, listening: socket.socket, tls: Tls | None = None) -> None:
        self._settings, self._socket = settings, listening
        workers = [_Process(answer, (settings, [listening], tls), tells=True) for _ in range(settings.workers)]
        self._processes, self._later = workers, [_Process(work, (settings,))]
        self._answered, self._signals = False, 0
        self._woken, self._wake = _SPAWN.Pipe(duplex=False)

    def run(self, when_ready: Callable[[], None]) -> bool:
        """Serve; return whether it was stopped in good order. `when_ready` is called once the first worker answers."""
        with self._heeding_signals():
            try:
                self._watch(when_ready)
            finally:
                self._stop()
        return self._signals > 0

    def _watch(self, when_ready: Callable[[], None]) -> None:
        while not self._signals:
            self._start_what_is_due()
            events = wait([self._woken, *self._sentinels(), *self._unready()], self._until_next_start())
            for each in self._processes:
                if each.ready in events:
                    self._note_answer(each, when_ready)
                if each.process is not None and each.process.exitcode is not None:
                    if each.process.exitcode != STOPPED:
                        _log.error("a process of the server has died (exit code %s)", each.process.exitcode)
                    each.died()
                    if each.tells and not self._answered:
                        return  # it will not get better: what is wrong has been written down

    def _note_answer(self, each: _Process, when_ready: Callable[[], None]) -> None:
        assert each.ready is not None
        try:
            each.ready.recv_bytes()
        except EOFError:  # it has died instead
            each.forget_ready()
            return
        each.forget_ready()
        each.failures = 0
        if not self._answered:
            self._answered = True
            self._processes = [*self._processes, *self._later]  # which would have slowed the start
            when_ready()

    def _start_what_is_due(self) -> None:
        now = time.monotonic()
        for each in self._processes:
            if each.process is None and each.again <= now:
                each.start()

    def _until_next_start(self) -> float | None:
        waiting = [each.again for each in self._processes if each.process is None]
        return max(0.0, min(waiting) - time.monotonic()) if waiting else None

    def _sentinels(self) -> list[int]:
        return [each.process.sentinel for each in self._processes if each.process is not None]

    def _unready(self) -> list[Connection]:
        return [each.ready for each in self._processes if each.ready is not None]

    def _stop(self) -> None:
        """Let requests finish, for a while; then end every process, whatever it does."""
        self._socket.close()
        alive = [each.process for each in self._processes if each.process is not None]
        for each in alive:
            each.terminate()
        until, asked = time.monotonic() + FINISH_SECONDS + _GRACE, self._signals
        while (left := [each.sentinel for each in alive if each.exitcode is None]) and time.monotonic() < until:
            wait([self._woken, *left], until - time.monotonic())
            if self._woken.poll():
                self._woken.recv_bytes()
            if self._signals > max(1, asked):  # told twice: at once
                break
        for each in alive:
            each.kill()
            each.join()
        shutil.rmtree(self._settings.run_folder, ignore_errors=True)

    @contextmanager
    def _heeding_signals(self) -> Iterator[None]:
        def note(_number: int, _frame: Any) -> None:
            self._signals += 1
            self._wake.send_bytes(b"stop")

        names = [name for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
        heeded = [number for name in names if signal.getsignal(number := signal.Signals[name]) != signal.SIG_IGN]
        before = {number: signal.signal(number, note) for number in heeded}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
