"""Which keys of requests were answered, in memory: so that a new key is known to be new without reading all of them.

That an answer is *not* there is believed only if all answers are known: a row that got lost or changed would else let a
request have a second effect. A process reads and checks all of them once, and then adds those that it keeps itself.
Keys only grow in number. So if as many are known as the programme's row counts, they are all that there are; if not, as
others have written too, all are read again.
"""

from __future__ import annotations

from collections.abc import Iterable
from threading import Lock


class AnsweredKeys:
    """Keys that were answered for certain, by programme; for any thread.

    Examples
    --------
    >>> keys = AnsweredKeys()
    >>> keys.learn("clinic", ["monday"])
    >>> keys.lack("clinic", "tuesday", 1), keys.lack("clinic", "tuesday", 2), keys.lack("clinic", "monday", 1)
    (True, False, False)
    """

    def __init__(self) -> None:
        self._known: dict[str, set[int]] = {}  # hashes: two keys with the same are only read once more
        self._lock = Lock()

    def lack(self, identity: str, key: str, count: int) -> bool:
        """Whether a key is certainly not among the answers of a programme, of which there are `count`."""
        with self._lock:
            known = self._known.get(identity, set())
            return len(known) == count and hash(key) not in known

    def learn(self, identity: str, keys: Iterable[str]) -> None:
        """Note all keys of a programme, as they are on the disk."""
        found = set(map(hash, keys))
        with self._lock:
            self._known[identity] = found

    def add(self, identity: str, keys: Iterable[str]) -> None:
        """Note keys of a programme whose answers are on the disk now."""
        with self._lock:
            if identity in self._known:
                self._known[identity].update(map(hash, keys))
