"""Calls on a dask cluster as an `Executor`, and what is done when workers or the scheduler are lost.

- *A worker dies.* Dask starts its calls on another one. A call that was at a dying worker more often than the scheduler
  allows comes back as ``KilledWorker``; so do innocent ones that only waited there. Hence each gets a second chance,
  one suspect at a time. If its workers die again it fails, with `WorkersDied`, and the others go on.
- *The connection is lost, or the cluster restarted.* Dask gives up all calls of a client that it loses, and the client
  tries to reach the scheduler again for some seconds. If it does, unfinished calls are submitted once more, else
  each fails with `ClusterError`. A scheduler that says nothing for `SILENCE` seconds counts as lost.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import CancelledError, Executor, Future
from concurrent.futures import wait as wait_for_all
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from meritfair.core.errors import MeritfairError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["ClusterError", "ClusterExecutor", "WorkersDied"]

SILENCE = 60.0  # seconds for a scheduler to answer: a busy one may take some
_BEAT = 5.0  # seconds between questions to the scheduler
_IDLE = 6  # answers without any worker before that is told
_GLANCE = 0.1  # seconds between looks at the connection
_SUBMISSIONS = 5  # of one call, if connections are lost on the way

_P = ParamSpec("_P")
_R = TypeVar("_R")


class ClusterError(MeritfairError):
    """A cluster cannot be used, or is lost: nothing more can be played there."""


class WorkersDied(Exception):  # noqa: N818
    """A call took all its workers down, each time it was tried: that is its own failure, and others go on."""


class ClusterExecutor(Executor):
    """Submits calls to a cluster, and sees each of them through."""

    def __init__(self, client: Any, shown: str, say: Callable[[str], None]) -> None:
        self._client, self._shown, self._say = client, shown, say
        self._loop: asyncio.AbstractEventLoop = client.loop.asyncio_loop
        self._pending: set[Future[Any]] = set()
        self._one_suspect = asyncio.Lock()
        self._closed = False
        self._loop.set_exception_handler(_log)
        self._watch = asyncio.run_coroutine_threadsafe(self._watch_over(), self._loop)

    def submit(self, fn: Callable[_P, _R], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_R]:
        if self._closed:
            raise RuntimeError("cannot submit to a cluster after its shutdown")
        self._check_connection()
        call = partial(fn, *args, **kwargs)  # dask would look for keys and futures among arguments of its own
        future = asyncio.run_coroutine_threadsafe(self._see_through(call), self._loop)
        self._pending.add(future)
        future.add_done_callback(self._pending.discard)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._closed = True
        pending = list(self._pending)
        if cancel_futures:
            for future in pending:
                future.cancel()
        if wait:
            wait_for_all(pending)
        self._watch.cancel()

    async def _see_through(self, call: Callable[[], _R]) -> _R:
        """Return what a call returns; one that is suspected to kill its workers is tried again, one at a time."""
        from distributed.scheduler import KilledWorker

        try:
            return await self._carry_out(call)
        except KilledWorker:
            pass
        async with self._one_suspect:
            try:
                return await self._carry_out(call)
            except KilledWorker as error:
                deaths, last = 2 * (error.allowed_failures + 1), error.last_worker.address
                raise WorkersDied(
                    f"{deaths} workers died with this task, the last at {last}, perhaps for lack of memory"
                ) from None

    async def _carry_out(self, call: Callable[[], _R]) -> _R:
        """Return what a call returns, over losses of the connection."""
        for _ in range(_SUBMISSIONS):
            future = self._client.submit(call, pure=False)
            try:
                result: _R = await future
                return result
            except (CancelledError, OSError):  # of dask, unless the call itself raised it
                if future.status == "error":
                    raise
                await self._reconnected()
            finally:
                future.release()
        raise ClusterError(self._lost("dropped a task again and again"))

    async def _reconnected(self) -> None:
        """Wait while dask tries to reach the scheduler again."""
        await asyncio.sleep(_GLANCE)
        while self._client.status == "connecting":
            await asyncio.sleep(_GLANCE)
        self._check_connection()

    def _check_connection(self) -> None:
        if self._client.status in ("closing", "closed"):
            raise ClusterError(self._lost("does not answer any more"))

    def _lost(self, how: str) -> str:
        return f"the cluster at {self._shown} {how}; what is finished is kept, and the same command goes on from there"

    async def _watch_over(self) -> None:
        """Ask the scheduler now and then: give it up if it is silent, and tell if no worker is left."""
        idle = 0
        while True:
            await asyncio.sleep(_BEAT)
            try:
                workers = await asyncio.wait_for(self._client.nthreads(), SILENCE)
            except TimeoutError:
                await self._client.close()  # ends all that waits
                return
            except (OSError, AttributeError):  # the connection is being lost: whoever waits will notice
                continue
            idle = 0 if workers or not self._pending else idle + 1
            if idle == _IDLE:  # those that only start again are back before
                self._say(f"the cluster at {self._shown} has no worker left; waiting for one ...")


def _log(_: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
    """Put what asyncio would tell everyone, as of calls that are cancelled in dask's midst, where dask's log goes."""
    logging.getLogger("distributed").error(context["message"], exc_info=context.get("exception"))
