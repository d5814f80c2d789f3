"""Seeds of draws: from the secret of a programme and, if it has one, the value of a public source.

The seed of a draw is HMAC(secret, C ‖ value). C is the commitment to everything that decides the draw, so the seed
cannot exist before that is fixed. Nobody without the secret can compute a seed, whatever they know of the rest; the
secret's hash is published at the start, so the owner cannot exchange it. Who does not trust even the owner gives the
programme a public *source*, whose value does not exist yet at the time of the commitment. Then the owner cannot foresee
a draw, or search for one, either. Without a source the value is empty.

The source is a setting of the programme:

``secret``
    None: the seed is made from the secret alone.
``drand``, ``drand after 60 minutes``
    The first round of the drand network that is published this long after the commitment, by default a minute. Its
    value is a BLS signature that anyone can check under the public key of the network, and that nobody can choose.
anything else
    The name of something that is published once for everybody, such as the numbers of a lottery, written as in RFC
    3797. Whether a value is really that of its source cannot be checked by a program.

References
----------
D. Eastlake, "Publicly Verifiable Nominations Committee (NomCom) Random Selection", RFC 3797, 2004, Section 4.
The drand network: https://docs.drand.love. Its chain quicknet has the hash
52db9ba70e0cc0f6eaf7803dd07447a1f5477735fd3f661792ba94600c84e971; a round r is signed as SHA-256(r), r in eight bytes,
with signatures in G1 and keys in G2 of BLS12-381, hashed to the curve as in RFC 9380.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from typing import Any

from meritfair.core.checks import check_whole
from meritfair.core.errors import InputError, MissingExtraError
from meritfair.programme.ledger.canonical import canonical

Source = dict[
    str, Any
]  # as in the ledger: {"kind": "drand-quicknet", "round": 12345} or {"kind": "named", "name": "…"}

SECRET = "secret"  # the setting of a programme without a public source
DRAND, NAMED = "drand-quicknet", "named"
ADDRESS = "https://api.drand.sh/52db9ba70e0cc0f6eaf7803dd07447a1f5477735fd3f661792ba94600c84e971/public/{round}"
_PUBLIC_KEY = bytes.fromhex(
    "83cf0f2896adee7eb8b5f01fcad3912212c437e0073e911fb90022d3e760183c8c4b450b6a0a6c3ac6a5776a2d106451"
    "0d1fec758c921cc22b0e17e63aaf4bcb5ed66304de9cf809bd274ca73bab4af5a6e9c76a4bc09e76eae8991ef5ece45a"
)
_DOMAIN = b"BLS_SIG_BLS12381G1_XMD:SHA-256_SSWU_RO_NUL_"  # separates these hashes from all others
_GENESIS, _PERIOD = datetime.fromtimestamp(1692803367, UTC), timedelta(seconds=3)  # of quicknet: round 1, and each next
_SETTING = re.compile(r"drand(?:\s+after\s+([0-9]{1,6})\s+minutes?)?", re.IGNORECASE)
_LONGEST_WAIT = 30 * 24 * 60  # minutes
_LONGEST_NAME = 300  # characters
_HEX = re.compile(r"(?:[0-9a-fA-F]{2})+")
_LEAST_BYTES, _MOST_BYTES = 16, 1024
_LEAST_DIGITS, _MOST_DIGITS = 6, 1000  # of numbers, in all: those of a lottery have more than 6
_SIZE = 32  # of secrets and commitments, in bytes
_SIGNATURE = 48  # of drand
_COEFFICIENT = 128  # bits


def new_secret() -> bytes:
    """Return a new secret of 256 bits."""
    return secrets.token_bytes(_SIZE)


def secret_hash(secret: bytes) -> str:
    """Return the hash of a secret, which is published at the start."""
    return hashlib.sha256(_checked("secret", secret)).hexdigest()


def draw_seed(secret: bytes, commitment: bytes, value: bytes = b"") -> bytes:
    """Return the seed of a draw; the value is that of the public source, empty if there is none.

    Examples
    --------
    >>> draw_seed(bytes(32), bytes(32)).hex()[:16]
    '33ad0a1c607ec03b'
    """
    return hmac.digest(_checked("secret", secret), _checked("commitment", commitment) + value, "sha256")


def _checked(name: str, data: bytes) -> bytes:
    if len(data) != _SIZE:
        raise InputError(f"a {name} has {_SIZE} bytes, got {len(data)}")
    return data


def check_source(text: str) -> str:
    """Return the setting that says which public source a programme has, in its usual form.

    Examples
    --------
    >>> check_source(" Drand "), check_source("drand after 60 minutes"), check_source("")
    ('drand', 'drand after 60 minutes', 'secret')
    >>> check_source("drand quicknet round 12345")
    Traceback (most recent call last):
    ...
    meritfair.core.errors.InputError: the source drand is written as 'drand' or 'drand after 60 minutes', got \
'drand quicknet round 12345'
    """
    name = text.strip()
    if name.lower() in ("", SECRET):
        return SECRET
    if not name.lower().startswith("drand"):
        if len(name) > _LONGEST_NAME:
            raise InputError(f"the name of a source has at most {_LONGEST_NAME} characters, got {len(name)}")
        canonical(name)
        return name
    found = _SETTING.fullmatch(name)
    if not found:
        raise InputError(f"the source drand is written as 'drand' or 'drand after 60 minutes', got {_cut(text)}")
    minutes = check_whole("the minutes until drand's value", int(found[1] or 1), 1, _LONGEST_WAIT)
    return "drand" if minutes == 1 else f"drand after {minutes} minutes"


def is_drand(setting: str) -> bool:
    """Return whether a setting names the drand network, whose values can be checked."""
    return _SETTING.fullmatch(setting) is not None


def source_for(setting: str, time: datetime) -> Source | None:
    """Return the source of a draw that is committed at this time, as the ledger has it; None if there is none.

    Examples
    --------
    >>> source_for("drand", datetime(2026, 4, 20, tzinfo=UTC))
    {'kind': 'drand-quicknet', 'round': 27946633}
    >>> source_for("Lotto 6 aus 49, next Saturday", datetime(2026, 4, 20, tzinfo=UTC))
    {'kind': 'named', 'name': 'Lotto 6 aus 49, next Saturday'}
    """
    if setting == SECRET:
        return None
    found = _SETTING.fullmatch(setting)
    if not found:
        return {"kind": NAMED, "name": setting}
    return {"kind": DRAND, "round": next_round(time + timedelta(minutes=int(found[1] or 1)))}


def describe(source: Mapping[str, Any]) -> str:
    """Return a source in words.

    Examples
    --------
    >>> describe({"kind": "drand-quicknet", "round": 12345})
    'drand quicknet round 12345'
    """
    return f"drand quicknet round {source['round']}" if source["kind"] == DRAND else str(source["name"])


def appears_at(source: Mapping[str, Any]) -> datetime | None:
    """Return when the value of a source is published; None if that is not known.

    Examples
    --------
    >>> appears_at({"kind": "drand-quicknet", "round": 27946612})
    datetime.datetime(2026, 4, 20, 0, 0, tzinfo=datetime.timezone.utc)
    """
    return _GENESIS + (source["round"] - 1) * _PERIOD if source["kind"] == DRAND else None


def address_of(source: Mapping[str, Any]) -> str:
    """Return the address at which the value of a source is published; empty if that is not known."""
    return ADDRESS.format(round=source["round"]) if source["kind"] == DRAND else ""


def next_round(after: datetime) -> int:
    """Return the first round of drand that is published after a time."""
    return max(0, (after - _GENESIS) // _PERIOD + 1) + 1


def check_published(source: Mapping[str, Any], now: datetime) -> None:
    """Refuse a value of drand before the time at which it is published."""
    time = appears_at(source)
    if time is not None and now < time:
        raise InputError(f"{describe(source)} is published at {_shown(time)}: it can have no value before that")


def _shown(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S} UTC"


def parse_value(source: Mapping[str, Any], text: str) -> bytes:
    """Return the bytes of a public value.

    Of drand it is the signature of the round, 96 hexadecimal digits, or all that drand answers, which has it; it must
    fit the public key of the network. Of other sources it is hexadecimal of 16 bytes or more; or, if there is a slash
    in it, numbers as in RFC 3797, whose value is the SHA-256 hash of their `key_string`.

    Examples
    --------
    >>> parse_value({"kind": "named", "name": "two lotteries"}, "9319 / 2 5 12 8 10 / 9 18 26 34 41 45").hex()[:16]
    '0d42a5bded1bfc58'
    """
    given = text.strip()
    if source["kind"] == DRAND:
        signature = _parse_signature(given, source["round"])
        if first_unfit([(source["round"], signature)]) is not None:
            raise InputError(
                f"this is not the value of {describe(source)}: the signature does not fit its round and the public key "
                "of the network"
            )
        return signature
    if "/" in given:
        return hashlib.sha256(key_string(given).encode("ascii")).digest()
    if not _HEX.fullmatch(given) or not _LEAST_BYTES <= len(given) // 2 <= _MOST_BYTES:
        raise InputError(
            f"the value of {describe(source)!r} must be hexadecimal of {_LEAST_BYTES} to {_MOST_BYTES} bytes, or "
            f"numbers with a slash after those of each source, as in '9319 / 2 5 12 8 10 /', got {_cut(text)}"
        )
    return bytes.fromhex(given)


def _parse_signature(given: str, round_: int) -> bytes:
    """Return the signature in what drand publishes of a round: an object of JSON, or the signature alone."""
    text = given
    if given.startswith("{"):
        try:
            answer = json.loads(given)
            text, found = str(answer["signature"]), answer["round"]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise InputError(f"an answer of drand has a round and a signature, got {_cut(given)}") from None
        if found != round_:
            raise InputError(f"the draw waits for round {round_} of drand, got the value of round {found!r:.20}")
    if len(text) == 2 * _SIGNATURE and _HEX.fullmatch(text):
        return bytes.fromhex(text)
    raise InputError(
        f"a value of drand quicknet is the signature of its round, {2 * _SIGNATURE} hexadecimal digits (the randomness "
        f"alone, of 64 digits, cannot be checked), got {_cut(given)}"
    )


def can_check_signatures() -> bool:
    """Return whether the library that checks signatures of drand is installed."""
    try:
        return find_spec("py_ecc") is not None
    except ValueError:  # what stands in its place is none
        return False


def check_can_use(setting: str) -> None:
    """Refuse the source drand where its values cannot be checked, since no round could be drawn."""
    if is_drand(setting) and not can_check_signatures():
        raise MissingExtraError("a programme with the source drand", "beacon")


def _import_py_ecc() -> None:
    """Import the library, and keep the limit of recursion, which it raises so that JSON can overflow the stack."""
    limit = sys.getrecursionlimit()
    try:
        import py_ecc  # noqa: F401
    except ImportError:
        raise MissingExtraError("checking a value of drand", "beacon") from None
    finally:
        sys.setrecursionlimit(limit)


def first_unfit(signatures: Sequence[tuple[int, bytes]]) -> int | None:
    """Return the place of the first of some rounds and signatures of drand that do not fit; None if all do.

    One equation with random coefficients holds for all of them if they fit, and with a probability of at most 2^-128 if
    one does not, so that many take little longer than one: sum of c·signature against the generator of G2 is the sum of
    c·hash against the public key.
    """
    _import_py_ecc()
    from py_ecc.bls.g2_primitives import pubkey_to_G1, signature_to_G2, subgroup_check
    from py_ecc.bls.hash_to_curve import hash_to_G1
    from py_ecc.optimized_bls12_381 import FQ12, G2, Z1, add, final_exponentiate, multiply, neg, pairing

    total, hashes, points = Z1, Z1, []
    for place, (round_, signature) in enumerate(signatures):
        try:
            points.append(pubkey_to_G1(signature))
        except (ValueError, AssertionError):
            return place
        if not subgroup_check(points[-1]):
            return place
        factor = secrets.randbits(_COEFFICIENT) | 1 << _COEFFICIENT
        message = hashlib.sha256(round_.to_bytes(8, "big")).digest()
        total = add(total, multiply(points[-1], factor))
        hashes = add(hashes, multiply(hash_to_G1(message, _DOMAIN, hashlib.sha256), factor))
    left = pairing(G2, total, final_exponentiate=False)
    right = pairing(signature_to_G2(_PUBLIC_KEY), neg(hashes), final_exponentiate=False)
    if not signatures or final_exponentiate(left * right) == FQ12.one():
        return None
    return 0 if len(signatures) == 1 else next(k for k, each in enumerate(signatures) if first_unfit([each]) == 0)


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
