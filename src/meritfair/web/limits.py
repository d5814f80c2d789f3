"""How often someone may try: guessing passwords, links and tokens is answered with 429.

Tries are counted in the memory of each worker, so its share of what is allowed is divided by the number of workers. A
try is counted before it is checked, so that many at once do not slip through, and taken back if it was right.

Somebody's guessing must not keep others out. Few wrong passwords are allowed for a user from one address; many more
from all addresses together, because that limit would be reached by strangers, and it does not hold for an address from
which that user has signed in before. A token that is right always serves.
"""

from __future__ import annotations

import ipaddress
import math
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock

from fastapi import HTTPException, Request

from meritfair.core.language import _

_MOST_KEYS = 20_000  # that are kept in memory; then the oldest are forgotten


@dataclass
class Limit:
    """So many tries for each key in so many seconds.

    Examples
    --------
    >>> limit = Limit(2, 60, clock=lambda: 0.0)
    >>> limit.take("Ada"), limit.take("Ada"), limit.take("Ada"), limit.take("Bob")
    (0, 0, 60, 0)
    >>> limit.forget("Ada")
    >>> limit.take("Ada")
    0
    """

    most: int
    seconds: float
    clock: Callable[[], float] = time.monotonic
    _tries: OrderedDict[str, deque[float]] = field(default_factory=OrderedDict, init=False, repr=False)
    _lock: Lock = field(default_factory=Lock, init=False, repr=False)

    def take(self, key: str) -> int:
        """Count a try; return 0, or the seconds to wait if it is one too many."""
        now = self.clock()
        with self._lock:
            tries = self._tries.setdefault(key, deque())
            self._tries.move_to_end(key)
            while tries and tries[0] <= now - self.seconds:
                tries.popleft()
            if len(tries) >= self.most:
                return max(1, math.ceil(tries[0] + self.seconds - now))
            tries.append(now)
            while len(self._tries) > _MOST_KEYS:
                self._tries.popitem(last=False)
            return 0

    def give_back(self, key: str) -> None:
        """Take back a try that was right."""
        with self._lock:
            tries = self._tries.get(key)
            if tries:
                tries.pop()

    def forget(self, key: str) -> None:
        """Forget all tries of a key."""
        with self._lock:
            self._tries.pop(key, None)


class Limits:
    """What the workers of a server allow.

    Parameters
    ----------
    workers : int
        How many share the tries.
    """

    def __init__(self, workers: int = 1, clock: Callable[[], float] = time.monotonic) -> None:
        def limit(most: int, seconds: float) -> Limit:
            return Limit(max(1, most // workers), seconds, clock)

        self._name_here = limit(10, 300)  # a user's name from one address
        self._name = limit(100, 900)  # a user's name from anywhere
        self._address = limit(60, 300)  # all sign-ins from one address
        self._tokens = limit(60, 60)  # tokens and sessions that are not known, from one address
        self._known: OrderedDict[str, None] = OrderedDict()  # where users have signed in

    def try_to_sign_in(self, request: Request, name: str = "") -> None:
        """Count a try to sign in, by a password or, without a name, by a link; refuse it if it is one too many."""
        address = address_of(request)
        here = _pair(name, address)
        wait = self._address.take(address)
        if name and not wait:
            wait = self._name_here.take(here)
        if name and not wait and here not in self._known:
            wait = self._name.take(_folded(name))
        if wait:
            raise too_many(wait)

    def signed_in(self, request: Request, name: str = "") -> None:
        """Note that a try to sign in was right."""
        address = address_of(request)
        self._address.give_back(address)
        if name:
            here = _pair(name, address)
            self._name_here.forget(here)
            if here not in self._known:
                self._name.give_back(_folded(name))
            self._known[here] = None
            while len(self._known) > _MOST_KEYS:
                self._known.popitem(last=False)

    def not_known(self, request: Request) -> None:
        """Count a token or a session that is not known; refuse the address if there were too many."""
        wait = self._tokens.take(address_of(request))
        if wait:
            raise too_many(wait)


def address_of(request: Request) -> str:
    """Return where a request comes from; of an IPv6 address the network, of which one person has all addresses.

    The address is the client's own if the server trusts the proxy before it.
    """
    host = request.client.host if request.client is not None else ""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if address.version == 4:
        return host
    return str(ipaddress.ip_network((address, 64), strict=False))


def too_many(seconds: int) -> HTTPException:
    """Return the answer to someone who tries too often."""
    said = _("too many attempts: try again in {seconds} seconds").format(seconds=seconds)
    return HTTPException(429, said, {"Retry-After": str(seconds)})


def _pair(name: str, address: str) -> str:
    return f"{address} {_folded(name)}"


def _folded(name: str) -> str:
    return name.strip().casefold()[:200]
