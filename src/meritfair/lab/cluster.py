"""A sweep on many machines: a dask cluster as an `Executor`, for `run_sweep` and whatever else submits calls.

A call travels to a worker as a pickle, and its result comes back the same way through the scheduler. So workers need
neither the folder of the sweep nor a way to reach this machine, only the same code: a cluster whose workers have other
versions is refused before anything is played. Results are fetched as they come, and the cluster keeps none.

- *A worker dies.* Dask starts its calls on another one. A call that was at a dying worker more often than the scheduler
  allows comes back as ``KilledWorker``; so do innocent ones that only waited there. Hence each gets a second chance,
  one suspect at a time. If its workers die again it fails, with `WorkersDied`, and the others continue.
- *The connection is lost, or the cluster restarted.* Dask gives up all calls of a client that it loses, and the client
  tries to reach the scheduler again for some seconds. If it does, unfinished calls are submitted once more, else
  each fails with `ClusterError`. A scheduler that says nothing for `SILENCE` seconds counts as lost.

When this process ends, by an interrupt or in whichever way, the scheduler drops the calls that wait; those under way
end by themselves. A cluster that was started here ends too; one that was found is never shut down.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import signal
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError, Executor, Future
from concurrent.futures import wait as wait_for_all
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from meritfair.core.errors import FileError, InputError, MeritfairError, MissingExtraError
from meritfair.core.machine import WORKER
from meritfair.core.storage import naming
from meritfair.lab.executors import check_workers
from meritfair.lab.tasks import differences, versions

if TYPE_CHECKING:
    _Say = Callable[[str], None]

CONNECT = 10.0  # seconds to reach a scheduler, at first or again
PATIENCE = 300.0  # seconds to wait for a first worker
ANSWER = 30.0  # seconds for workers to say which versions they have
SILENCE = 60.0  # seconds for a scheduler to answer: a busy one may take some
_BEAT = 5.0  # seconds between questions to the scheduler
_IDLE = 6  # answers without any worker before that is reported
_GLANCE = 0.1  # seconds between looks at the connection
_SUBMISSIONS = 5  # of one call, if connections are lost on the way
# those to which dask gives a handler that writes to standard error
_LOGGERS = ("distributed", "distributed.client", "distributed.gc", "tornado", "tornado.application", "bokeh")

_P = ParamSpec("_P")
_R = TypeVar("_R")


class ClusterError(MeritfairError):
    """A cluster cannot be used, or is lost: nothing more can be played there."""


class WorkersDied(Exception):  # noqa: N818
    """A call took all its workers down, each time it was tried: that is its own failure, and others continue."""


def cluster(address: str, *, patience: float = PATIENCE, say: _Say | None = None) -> AbstractContextManager[Executor]:
    """Return a context manager that gives an `Executor` on a dask cluster.

    Parameters
    ----------
    address : str
        ``local:4`` starts a cluster of 4 worker processes on this machine, which ends with the context.
        ``tcp://host:8786`` (also ``tls``, ``ucx``, ``ws``) is a scheduler that is running already, and so is
        ``scheduler.json``, the file that ``dask scheduler --scheduler-file`` writes.
    patience : float
        Seconds to wait for a first worker.
    say : callable, optional
        Takes lines that a person who waits should read; by default they go to standard error.

    Raises
    ------
    InputError
        If this is no such address.
    MissingExtraError
        Without the extra ``dask``.
    ClusterError
        On entering, if no scheduler answers, no worker comes, or workers have other versions than this process.

    Examples
    --------
    >>> with cluster("local:1") as executor:
    ...     executor.submit(divmod, 17, 5).result()
    (3, 2)
    """
    place = _place(address)
    _dask()
    return _connected(place, patience, say or _say)


@contextmanager
def _connected(place: int | str, patience: float, say: _Say) -> Iterator[Executor]:
    """Connect to a cluster, see that it can be used, and leave nothing behind."""
    with _quiet(), _client(place) as client:
        shown = place if isinstance(place, str) else f"local:{place}"
        _await_worker(client, shown, patience, say)
        _check_versions(_answers(client, shown, say), versions(), shown)
        executor = _ClusterExecutor(client, shown, say)
        try:
            yield executor
        finally:
            executor.shutdown(wait=False, cancel_futures=True)


def _say(line: str) -> None:
    print(f"meritfair: {line}", file=sys.stderr, flush=True)


def _dask() -> Any:
    """Return dask's own package for clusters, whose types are incomplete."""
    try:
        import distributed
    except ImportError:
        raise MissingExtraError("a cluster", "dask") from None
    return distributed


def _place(address: str) -> int | str:
    """Return how many workers to start here, or where there is a scheduler.

    Examples
    --------
    >>> _place("local:4"), _place("tls://10.0.0.7:8786"), _place("node7:8786")
    (4, 'tls://10.0.0.7:8786', 'tcp://node7:8786')
    """
    if address.endswith(".json"):
        address = _address_in(Path(address))
    kind, _, number = address.partition(":")
    if kind == "local":
        if not re.fullmatch(r"\d{1,9}", number, re.ASCII):
            raise InputError(f"a local cluster is local:N, where N is the number of workers, got {address!r}")
        return check_workers(int(number))
    parts = re.fullmatch(r"(?:([a-z]+)://)?([^\s/:]+|\[[0-9a-fA-F:.]+\]):(\d{1,5})/?", address)
    if parts is None:
        known = "local:N, the address of a scheduler such as tcp://host:8786, or its scheduler.json"
        raise InputError(f"a cluster is {known}, got {address!r}")
    return f"{parts[1] or 'tcp'}://{parts[2]}:{parts[3]}"


def _address_in(path: Path) -> str:
    """Return the address in a file that a scheduler has written."""
    with naming(path, "cannot be read (is the scheduler running?)"):
        content = path.read_bytes()
    try:
        address = json.loads(content)["address"]
    except (ValueError, KeyError, TypeError, RecursionError):
        address = None
    if not isinstance(address, str) or "://" not in address:
        raise FileError(path, "is no file of a dask scheduler: it must be JSON with an address")
    return address


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep dask's log off the terminal: what matters of it is said in our words. Handlers of users stay."""
    loggers = map(logging.getLogger, _LOGGERS)
    handlers = [handler for each in loggers for handler in each.handlers if type(handler) is logging.StreamHandler]
    levels = [handler.level for handler in handlers]
    for handler in handlers:
        handler.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for handler, level in zip(handlers, levels, strict=True):
            handler.setLevel(level)


@contextmanager
def _client(place: int | str) -> Iterator[Any]:
    """Connect to a cluster, which is started first if it is a number of workers."""
    dask = _dask()
    if isinstance(place, str):
        _knock(place)
        try:
            found = dask.Client(place, timeout=CONNECT, set_as_default=False)  # warns if versions of dask do not match
        except OSError as error:
            raise ClusterError(f"no dask scheduler answers at {place}: {error}") from None
        with found as client:
            yield client
        return
    from dask import config

    options = {
        "threads_per_worker": 1,
        "memory_limit": 0,  # none, as for other processes
        "silence_logs": logging.CRITICAL,
        "dashboard_address": "127.0.0.1:0",  # any free port: its web server cannot be left out, only the dashboard
        "scheduler_kwargs": {"dashboard": False, "allowed_failures": 1},
    }
    settings = {
        "distributed.deploy.lost-worker-timeout": "1 day",  # on a busy machine it takes time to start again
        "distributed.nanny.pre-spawn-environ.DASK_LOGGING__DISTRIBUTED": "critical",
        f"distributed.nanny.environ.{WORKER}": "1",  # the other kind stays in this process, too
    }
    with (
        config.set(settings),
        dask.LocalCluster(n_workers=place, **options) as started,
        dask.Client(started, set_as_default=False) as client,
    ):
        try:
            yield client
        finally:
            for nanny in started.workers.values():  # nobody waits for what is under way
                nanny.close_gracefully()  # it would start the worker again
                if nanny.pid:
                    with suppress(ProcessLookupError):
                        os.kill(nanny.pid, signal.SIGTERM)


def _knock(address: str) -> None:
    """See whether there is a scheduler: a client would wait forever for an answer from anything else."""
    dask = _dask()

    async def come_and_go() -> None:
        security = dask.Security().get_connection_args("client")
        await (await dask.comm.connect(address, timeout=CONNECT, **security)).close()

    runner = dask.utils.LoopRunner()
    runner.start()
    try:
        dask.utils.sync(runner.loop, come_and_go, callback_timeout=CONNECT)
    except OSError:
        hint = "is it running, and open to this machine?"
        raise ClusterError(f"no dask scheduler answers at {address} within {CONNECT:g} s; {hint}") from None
    except (ValueError, TypeError, RuntimeError, ImportError) as error:
        raise InputError(f"{address} cannot be the address of a scheduler: {error}") from None
    finally:
        runner.stop()


def _await_worker(client: Any, shown: str, patience: float, say: _Say) -> None:
    """Wait until there is somebody to work."""
    with suppress(TimeoutError):
        client.wait_for_workers(1, timeout=min(1.0, patience))
        return
    say(f"waiting up to {patience:g} s for a worker at {shown} (dask worker {shown}) ...")
    try:
        client.wait_for_workers(1, timeout=patience)
    except TimeoutError:
        raise ClusterError(f"no worker came to the cluster at {shown} within {patience:g} s") from None


def _answers(client: Any, shown: str, say: _Say) -> Mapping[str, Any]:
    """Return the versions of each worker, or why it cannot say them."""

    async def ask() -> Mapping[str, Any]:
        found: Mapping[str, Any] = await client.run(versions, on_error="return")
        return found

    asked = asyncio.run_coroutine_threadsafe(ask(), client.loop.asyncio_loop)
    try:
        return asked.result(ANSWER)
    except TimeoutError:
        asked.cancel()
        say(f"not all workers at {shown} answer; whether they have the same versions shows when they play")
        return {}


def _check_versions(found: Mapping[str, Any], ours: Mapping[str, str], shown: str) -> None:
    """Refuse workers that would play differently, with a table of who has what."""
    groups: dict[str, list[str]] = defaultdict(list)
    here: dict[str, str] = {}
    for worker, answer in found.items():
        if isinstance(answer, OSError):  # it has gone in the meantime
            continue
        if isinstance(answer, Exception):
            groups[f"cannot load meritfair ({answer})"].append(worker)
        elif different := differences(answer, ours):
            here |= {name: ours_is for name, (_, ours_is) in different.items()}
            groups[_listed({name: has for name, (has, _) in different.items()})].append(worker)
    if groups:
        there = "".join(f"\n  {_named(workers)}: {has};" for has, workers in groups.items())
        ours_are = f"\n  here: {_listed(here or {'meritfair': ours['meritfair']})};"
        advice = "\ninstall the same everywhere, and start those workers again"
        raise ClusterError(f"workers at {shown} have other versions than this process:{ours_are}{there}{advice}")


def _listed(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))


def _named(workers: list[str]) -> str:
    """Return a few of many addresses.

    Examples
    --------
    >>> _named(["tcp://a:1", "tcp://b:1", "tcp://c:1", "tcp://d:1", "tcp://e:1"])
    'tcp://a:1, tcp://b:1, tcp://c:1 and 2 more'
    """
    few = ", ".join(workers[:3])
    return few if len(workers) <= 3 else f"{few} and {len(workers) - 3} more"


class _ClusterExecutor(Executor):
    """Submits calls to a cluster, and sees each of them through."""

    def __init__(self, client: Any, shown: str, say: _Say) -> None:
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
        for future in pending if cancel_futures else ():
            future.cancel()
        if wait:
            wait_for_all(pending)
        self._watch.cancel()

    async def _see_through(self, call: Callable[[], _R]) -> _R:
        """Return what a call returns; one that is suspected to kill its workers is tried again, one at a time."""
        from distributed.scheduler import KilledWorker

        with suppress(KilledWorker):
            return await self._carry_out(call)
        async with self._one_suspect:
            try:
                return await self._carry_out(call)
            except KilledWorker as error:
                died = f"{2 * (error.allowed_failures + 1)} workers died with this task"
                last = f"the last at {error.last_worker.address}, perhaps for lack of memory"
                raise WorkersDied(f"{died}, {last}") from None

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
        raise self._lost("dropped a task again and again")

    async def _reconnected(self) -> None:
        """Wait while dask tries to reach the scheduler again."""
        await asyncio.sleep(_GLANCE)
        while self._client.status == "connecting":
            await asyncio.sleep(_GLANCE)
        self._check_connection()

    def _check_connection(self) -> None:
        if self._client.status in ("closing", "closed"):
            raise self._lost("does not answer any more")

    def _lost(self, how: str) -> ClusterError:
        return ClusterError(f"the cluster at {self._shown} {how}; what is finished is kept; run again to resume")

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
