"""Entries of the ledger: what each kind holds, its bytes, and the hash that chains it to the one before.

The ledger of a programme is a list of entries that only grows. Each has the hash of the one before it, so that none can
be changed, taken out or put in between without changing all that follow; the hash of the last one, the *head*, stands
for the whole ledger. `docs/ledger.md` describes the format for readers in other languages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from meritfair.core.errors import InputError
from meritfair.programme.ledger.canonical import canonical, from_canonical, sha256
from meritfair.programme.ledger.rowtable import Fields, RowTable

FORMAT = "meritfair-ledger-2"
_TIME = "%Y-%m-%dT%H:%M:%SZ"
_TOLERANCE = timedelta(seconds=5)  # between clocks of machines that share a store
NO_HASH = bytes(32)
_KEYS = {"format", "programme", "seq", "previous", "kind", "time", "by", "body", "table"}
_SEEN: Fields = (("number", "u32"), ("before", "i8"), ("action", "i8"), ("after", "i8"), ("note", "h256"))

FIELDS: Mapping[str, Fields | None] = {
    "create": None,
    "history": (("number", "u32"), ("round", "i32"), ("before", "i8"), ("action", "i8"), ("after", "i8")),
    "enrol": (("number", "u32"), ("who", "h256"), ("part", "u8")),  # and a u32 for each key of its levels
    "withdraw": (("number", "u32"),),
    "away": (("number", "u32"), ("away", "u8")),
    "commit": (("number", "u32"), ("part", "u8"), ("away", "u8"), ("state", "i8"), ("due", "u64"), ("chance", "u64")),
    "draw": (("number", "u32"),),
    "report": _SEEN,
    "correct": _SEEN,
    "close": None,
    "change": None,
    "erase": (("number", "u32"),),
    "end": None,
}


@dataclass(frozen=True)
class Entry:
    """One entry.

    Attributes
    ----------
    programme : str
        The identity of the programme, 32 hexadecimal digits.
    seq : int
        Its place in the ledger, from 0.
    previous : bytes
        The hash of the entry before; zeros at the first.
    kind : str
        One of `FIELDS`.
    time : str
        When it was made, such as ``2026-11-17T09:00:00Z``, by the clock of the machine; never before the entry before.
    by : str
        Who has made it; empty if nobody said.
    body : dict
    table : dict, or None
        What `RowTable.describe` says of its table.
    """

    programme: str
    seq: int
    previous: bytes
    kind: str
    time: str
    by: str
    body: dict[str, Any]
    table: dict[str, Any] | None = None

    def to_bytes(self) -> bytes:
        """Return its canonical bytes."""
        return canonical({"format": FORMAT, **vars(self), "previous": self.previous.hex()})

    @property
    def digest(self) -> bytes:
        """Its hash."""
        return sha256(self.to_bytes())

    @classmethod
    def from_bytes(cls, data: bytes) -> Entry:
        """Return the entry of these bytes; refuse what is not one."""
        values = from_canonical(data)
        if not isinstance(values, dict) or values.keys() != _KEYS or values.pop("format") != FORMAT:
            raise InputError(f"not an entry in the format {FORMAT}")
        if values["kind"] not in FIELDS:
            raise InputError(f"there is no kind of entry {values['kind']!r}")
        entry = cls(**{**values, "previous": bytes.fromhex(values["previous"])})
        parse_time(entry.time)
        wanted = fields_of(entry.kind, entry.body)
        found = None if entry.table is None else tuple(map(tuple, entry.table["fields"]))
        if found != wanted:
            raise InputError(f"the table of an entry of the kind {entry.kind!r} has other fields")
        return entry

    def check_follows(self, seq: int, previous: bytes, programme: str) -> None:
        """Refuse an entry that is not the one at this place of this programme, after the entry with this hash."""
        if self.seq != seq:
            raise InputError(f"an entry is missing or out of place: it is numbered {self.seq}, not {seq}")
        if self.previous != previous:
            raise InputError("the chain is broken: it does not have the hash of the entry before")
        if self.programme != programme:
            raise InputError("it belongs to another programme")

    @property
    def commitment(self) -> bytes:
        """The hash of all that decides a draw, for an entry of the kind ``commit``."""
        return sha256(canonical({"body": self.body, "programme": self.programme, "table": self.table}))


def fields_of(kind: str, body: Mapping[str, Any]) -> Fields | None:
    """Return the fields of the table of an entry, None if it has none."""
    fields = FIELDS[kind]
    if kind == "enrol" and fields is not None:
        return fields + tuple((name, "u32") for name in sorted(body["levels"]))
    return fields


def make_table(kind: str, body: Mapping[str, Any], columns: Mapping[str, Any] | None) -> RowTable | None:
    """Return the table of an entry from its columns."""
    fields = fields_of(kind, body)
    return None if fields is None or columns is None else RowTable.of(fields, columns)


def format_time(time: datetime) -> str:
    """Return a time as entries have it: in UTC, to the second, so that texts are in the order of times."""
    return time.astimezone(UTC).strftime(_TIME)


def parse_time(text: str) -> datetime:
    """Return the time of an entry.

    Examples
    --------
    >>> parse_time("2026-11-17T09:00:00Z")
    datetime.datetime(2026, 11, 17, 9, 0, tzinfo=datetime.timezone.utc)
    """
    try:
        time = datetime.strptime(text, _TIME).replace(tzinfo=UTC)
    except (TypeError, ValueError):
        time = None
    if time is None or format_time(time) != text:
        raise InputError(f"a time is written as 2026-11-17T09:00:00Z, got {text!r}")
    return time


def now() -> str:
    """Return the time, as entries have it."""
    return format_time(datetime.now(UTC))


def clock_behind(last: str, clock: str) -> str:
    """Return what to say if a clock is behind the time of the last entry; empty if it is not.

    Examples
    --------
    >>> clock_behind("2026-11-17T09:00:00Z", "2026-11-17T08:59:58Z")  # a few seconds between two machines
    ''
    >>> clock_behind("2026-11-17T09:00:00Z", "2026-11-17T08:00:00Z")[:52]
    'The clock of this machine says 2026-11-17T08:00:00Z,'
    """
    if not last or parse_time(last) - parse_time(clock) <= _TOLERANCE:
        return ""
    return (
        f"The clock of this machine says {clock}, which is before the last entry, of {last}. Until it is later, new "
        "entries have that time. Set the clock, and find out which of the two is right."
    )
