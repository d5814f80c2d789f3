"""Seeds of draws: from the secret of a programme, or from public randomness that nobody can choose.

A seed is made from the commitment C to everything that decides a draw, so it cannot exist before that is fixed. By
default it is HMAC(secret, C): nobody without the secret can foresee it, and the secret's hash, which is published at
the start, ties the owner down. Whoever trusts not even the owner names a public *source* whose value does not exist yet
at the time of the commitment: a round of the drand network, or anything else that is published once for everybody, such
as the numbers of a lottery, written as RFC 3797 does. The seed is then SHA-256("meritfair-draw", C, value).

Whether a value is really that of its source cannot be told from the ledger: it names both, so anyone can compare.

References
----------
D. Eastlake, "Publicly Verifiable Nominations Committee (NomCom) Random Selection", RFC 3797, 2004, Section 4.
The drand network: https://docs.drand.love; its chain quicknet has the hash
52db9ba70e0cc0f6eaf7803dd07447a1f5477735fd3f661792ba94600c84e971.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from meritfair.core.checks import check_whole
from meritfair.core.errors import InputError

Source = dict[
    str, Any
]  # {"kind": "drand-quicknet", "round": 12345} or {"kind": "named", "name": "…"}, as in the ledger

DRAND, NAMED = "drand-quicknet", "named"
FARTHEST = timedelta(days=30)  # ahead of now
_GENESIS, _PERIOD = datetime.fromtimestamp(1692803367, UTC), timedelta(seconds=3)  # of quicknet: round 1, and each next
_LAST_ROUND = 10**10
_DRAND = re.compile(r"drand\s+quicknet\s+round\s+([0-9]{1,12})", re.IGNORECASE)
_HEX = re.compile(r"(?:[0-9a-fA-F]{2})+")
_LEAST_BYTES, _MOST_BYTES = 16, 1024
_LEAST_DIGITS, _MOST_DIGITS = 6, 1000  # of numbers, in all: those of a lottery have more than 6
_SIZE = 32  # of secrets, commitments and values of drand, in bytes
_SIGNATURE = 48  # of drand


def new_secret() -> bytes:
    """Return a new secret of 256 bits."""
    return secrets.token_bytes(_SIZE)


def secret_hash(secret: bytes) -> str:
    """Return the hash of a secret, which is published at the start."""
    return hashlib.sha256(_checked("secret", secret)).hexdigest()


def seed_from_secret(secret: bytes, commitment: bytes) -> bytes:
    """Return the seed of a draw that is made with the secret.

    Examples
    --------
    >>> seed_from_secret(bytes(32), bytes(32)).hex()[:16]
    '33ad0a1c607ec03b'
    """
    return hmac.digest(_checked("secret", secret), _checked("commitment", commitment), "sha256")


def seed_from_value(commitment: bytes, value: bytes) -> bytes:
    """Return the seed of a draw that is made with the value of a public source."""
    if not value:
        raise InputError("the value of a public source must not be empty")
    return hashlib.sha256(b"meritfair-draw" + _checked("commitment", commitment) + value).digest()


def _checked(name: str, data: bytes) -> bytes:
    if len(data) != _SIZE:
        raise InputError(f"a {name} has {_SIZE} bytes, got {len(data)}")
    return data


def parse_source(text: str) -> Source:
    """Return the public source that a text names, as the ledger has it.

    Examples
    --------
    >>> parse_source("drand quicknet round 12345")
    {'kind': 'drand-quicknet', 'round': 12345}
    >>> parse_source("Lotto 6 aus 49, 21 November 2026")
    {'kind': 'named', 'name': 'Lotto 6 aus 49, 21 November 2026'}
    >>> parse_source("drand round 12345")
    Traceback (most recent call last):
    ...
    meritfair.core.errors.InputError: a source of drand is written as 'drand quicknet round 12345', got \
'drand round 12345'
    """
    name = text.strip()
    if not name:
        raise InputError(
            "source must say which public value is used, such as 'drand quicknet round 12345'; it is empty"
        )
    found = _DRAND.fullmatch(name)
    if found:
        return {"kind": DRAND, "round": check_whole("the round of drand", int(found[1]), 1, _LAST_ROUND)}
    if name.lower().startswith("drand"):
        raise InputError(f"a source of drand is written as 'drand quicknet round 12345', got {text!r}")
    return {"kind": NAMED, "name": name}


def describe(source: Mapping[str, Any]) -> str:
    """Return a source in words, which `parse_source` understands.

    Examples
    --------
    >>> describe({"kind": "drand-quicknet", "round": 12345})
    'drand quicknet round 12345'
    """
    return f"drand quicknet round {source['round']}" if source["kind"] == DRAND else str(source["name"])


def appears_at(source: Mapping[str, Any]) -> datetime | None:
    """Return when the value of a source is published; None if that cannot be told.

    Examples
    --------
    >>> appears_at(parse_source("drand quicknet round 27946612"))
    datetime.datetime(2026, 4, 20, 0, 0, tzinfo=datetime.timezone.utc)
    """
    return _GENESIS + (source["round"] - 1) * _PERIOD if source["kind"] == DRAND else None


def next_round(after: datetime) -> int:
    """Return the first round of drand that is published after a time."""
    return max(0, (after - _GENESIS) // _PERIOD + 1) + 1


def check_future(source: Mapping[str, Any], now: datetime | None = None) -> None:
    """Refuse a round of drand that exists already, or is more than 30 days ahead; of other sources nothing is known."""
    time, today = appears_at(source), datetime.now(UTC) if now is None else now
    if time is None:
        return
    if time <= today:
        first = next_round(today)
        raise InputError(f"{describe(source)} was published at {_shown(time)}: name one from round {first} on")
    if time > today + FARTHEST:
        last = next_round(today + FARTHEST) - 1
        problem = f"{describe(source)} is published at {_shown(time)}, more than {FARTHEST.days} days ahead"
        raise InputError(f"{problem}: name one up to round {last}")


def check_published(source: Mapping[str, Any], now: datetime | None = None) -> None:
    """Refuse a value of drand before the time at which it is published."""
    time, today = appears_at(source), datetime.now(UTC) if now is None else now
    if time is not None and today < time:
        raise InputError(f"{describe(source)} is published at {_shown(time)}: it can have no value before that")


def _shown(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S} UTC"


def parse_value(source: Mapping[str, Any], text: str) -> bytes:
    """Return the bytes of a public value.

    Of drand it is the randomness in hexadecimal, 64 digits, or the signature, 96 digits, whose SHA-256 hash is the
    randomness. Of other sources it is hexadecimal of 16 bytes or more; or, if there is a slash in it, numbers as in RFC
    3797, whose value is the SHA-256 hash of their `key_string`.

    Examples
    --------
    >>> parse_value(parse_source("two lotteries"), "9319 / 2 5 12 8 10 / 9 18 26 34 41 45").hex()[:16]
    '0d42a5bded1bfc58'
    """
    given = text.strip()
    if source["kind"] == DRAND:
        return _drand_value(given)
    if "/" in given:
        return hashlib.sha256(key_string(given).encode("ascii")).digest()
    if not _HEX.fullmatch(given) or not _LEAST_BYTES <= len(given) // 2 <= _MOST_BYTES:
        raise InputError(
            f"the value of {describe(source)!r} must be hexadecimal of {_LEAST_BYTES} to {_MOST_BYTES} bytes, or "
            f"numbers with a slash after those of each source, as in '9319 / 2 5 12 8 10 /', got {_cut(text)}"
        )
    return bytes.fromhex(given)


def _drand_value(given: str) -> bytes:
    data = bytes.fromhex(given) if _HEX.fullmatch(given) else b""
    if len(data) == _SIGNATURE:
        return hashlib.sha256(data).digest()
    if len(data) != _SIZE:
        raise InputError(
            f"a value of drand quicknet is its randomness, {2 * _SIZE} hexadecimal digits, or its signature, "
            f"{2 * _SIGNATURE} digits, got {_cut(given)}"
        )
    return data


def key_string(text: str) -> str:
    """Return numbers of several sources as RFC 3797, Section 4, writes them.

    Sources are separated by slashes and keep their order; the numbers of a source are sorted, as the order in which
    those of a lottery come does not matter, and lose leading zeros.

    Examples
    --------
    >>> key_string("9319 / 2 5 12 8 10 / 9 18 26 34 41 45")
    '9319./2.5.8.10.12./9.18.26.34.41.45./'
    """
    sources = [part.split() for part in text.strip().removesuffix("/").split("/")]
    words = [word for each in sources for word in each]
    if not all(sources) or not all(word.isascii() and word.isdecimal() for word in words):
        raise InputError(
            f"whole numbers with spaces between them, a slash between sources, were expected: {_cut(text)}"
        )
    if not _LEAST_DIGITS <= len("".join(words)) <= _MOST_DIGITS:
        raise InputError(f"numbers must have {_LEAST_DIGITS} to {_MOST_DIGITS} digits in all, got {_cut(text)}")
    return "".join("".join(f"{number}." for number in sorted(map(int, each))) + "/" for each in sources)


def _cut(text: str) -> str:
    """Return a text as an error shows it."""
    return repr(text) if len(text) <= 120 else f"{text[:120]!r}… ({len(text)} characters)"
