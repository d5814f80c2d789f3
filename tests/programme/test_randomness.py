"""Seeds and public values, against published vectors of drand and of RFC 3797."""

from __future__ import annotations

import hashlib
import hmac
from datetime import UTC, datetime, timedelta

import pytest

from meritfair.core.errors import InputError
from meritfair.programme.ledger import randomness
from reference import rfc3797

# Rounds of quicknet as api.drand.sh serves them, and as public repositories quote them: 1000 in several of drand's
# clients in Rust, TypeScript and Solidity, 657413 in the README of mcdcam/python-drand-verify.
QUICKNET = {
    1000: (
        "b44679b9a59af2ec876b1a6b1ad52ea9b1615fc3982b19576350f93447cb1125e342b73a8dd2bacbe47e4b6b63ed5e39",
        "fe290beca10872ef2fb164d2aa4442de4566183ec51c56ff3cd603d930e54fdd",
    ),
    657413: (
        "b713718a38ae728dfd477991af2822e08d2f305e47718cef9f7848ce4050e7be41076862b98fad56e91a6b85b89cd97b",
        "fc1873a13f3545aeade8401532ef5519920652eee6b0d2b19ca12643b87b3587",
    ),
}
RFC_NUMBERS = "9319 / 2 5 12 8 10 / 9 18 26 34 41 45"  # Section 6
RFC_SELECTION = [17, 7, 2, 16, 25, 23, 8, 24, 19, 13, 22, 5, 18, 9, 1, 4]
RFC_DIGESTS = [
    "990DD0A5692A029A98B5E01AA28F3459",
    "3691E55CB63FCC37914430B2F70B5EC6",
    "FE814EDF564C190AC1D25753979990FA",
]
NOMCOM_2022 = "7 8 11 18 28 40 48 / 15 16 21 31 36 65 / 8 12 13 17 21 26 35 42 / 1 5 10 13 14 16 21 25 27"
NOMCOM_2022_SELECTION = [171, 245, 68, 190, 70, 126, 110, 128, 138, 173]  # of 267 volunteers
LOTTERY = randomness.parse_source("the lottery of Saturday")


@pytest.mark.parametrize("number", sorted(QUICKNET))
def test_published_rounds_of_drand(number: int) -> None:
    source = randomness.parse_source(f"drand quicknet round {number}")
    signature, value = QUICKNET[number]
    assert hashlib.sha256(bytes.fromhex(signature)).hexdigest() == value
    assert randomness.parse_value(source, signature) == bytes.fromhex(value)
    assert randomness.parse_value(source, f" {value.upper()}\n") == bytes.fromhex(value)


def test_the_worked_example_of_rfc_3797() -> None:
    key = randomness.key_string(RFC_NUMBERS)
    assert key == "9319./2.5.8.10.12./9.18.26.34.41.45./"
    assert rfc3797.digests(key, 3) == RFC_DIGESTS
    assert rfc3797.selection(key, 25, 16) == RFC_SELECTION
    assert randomness.parse_value(LOTTERY, RFC_NUMBERS) == hashlib.sha256(key.encode()).digest()


def test_a_committee_of_the_ietf() -> None:
    assert rfc3797.selection(randomness.key_string(NOMCOM_2022), 267, 10) == NOMCOM_2022_SELECTION


def test_order_matters_between_sources_but_not_within() -> None:
    value = randomness.parse_value(LOTTERY, RFC_NUMBERS)
    assert randomness.parse_value(LOTTERY, "09319/10 2 5 8 12/ 45 9 18 26 34 41 /") == value
    assert randomness.parse_value(LOTTERY, "2 5 12 8 10 / 9319 / 9 18 26 34 41 45") != value


def test_seeds() -> None:
    secret, commitment = randomness.new_secret(), bytes(range(32))
    assert len(secret) == 32
    assert randomness.new_secret() != secret
    assert randomness.secret_hash(secret) == hashlib.sha256(secret).hexdigest()
    assert randomness.seed_from_secret(secret, commitment) == hmac.new(secret, commitment, "sha256").digest()
    joined = b"meritfair-draw" + commitment + b"value"
    assert randomness.seed_from_value(commitment, b"value") == hashlib.sha256(joined).digest()


def test_seeds_of_the_wrong_size_are_refused() -> None:
    with pytest.raises(InputError, match="a secret has 32 bytes, got 31"):
        randomness.seed_from_secret(bytes(31), bytes(32))
    with pytest.raises(InputError, match="a commitment has 32 bytes, got 33"):
        randomness.seed_from_value(bytes(33), b"value")
    with pytest.raises(InputError, match="must not be empty"):
        randomness.seed_from_value(bytes(32), b"")


def test_sources() -> None:
    assert randomness.parse_source(" Drand  quicknet ROUND 7 ") == {"kind": "drand-quicknet", "round": 7}
    assert randomness.parse_source(" Lotto  7 ") == {"kind": "named", "name": "Lotto  7"}
    for text in ("drand quicknet round 7", "Lotto 7"):
        assert randomness.describe(randomness.parse_source(text)) == text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it is empty"),
        (" \n", "it is empty"),
        ("drand", "is written as"),
        ("drand quicknet round -1", "is written as"),
        ("drand quicknet round 7, 8", "is written as"),
        ("drand mainnet round 7", "is written as"),
        ("drand quicknet round 0", "between 1 and 10000000000, got 0"),
        ("drand quicknet round 99999999999", "between 1 and 10000000000, got 99999999999"),
    ],
)
def test_sources_that_are_refused(text: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        randomness.parse_source(text)


def test_when_a_round_of_drand_appears() -> None:
    times = [randomness.appears_at(randomness.parse_source(f"drand quicknet round {n}")) for n in (1, 2, 27946612)]
    genesis = datetime(2023, 8, 23, 15, 9, 27, tzinfo=UTC)
    assert times == [genesis, genesis + timedelta(seconds=3), datetime(2026, 4, 20, tzinfo=UTC)]
    assert genesis.timestamp() == 1692803367
    assert randomness.appears_at(LOTTERY) is None


@pytest.mark.parametrize("seconds", [-10, -1, 0, 1, 2, 3, 4, 3_000_000])
def test_the_next_round_is_the_first_one_later(seconds: int) -> None:
    now = datetime(2023, 8, 23, 15, 9, 27, tzinfo=UTC) + timedelta(seconds=seconds)
    number = randomness.next_round(now)
    times = [randomness.appears_at({"kind": "drand-quicknet", "round": each}) for each in (number, number - 1)]
    assert times[0] is not None
    assert times[1] is not None
    assert times[0] > now
    assert number == 1 or times[1] <= now


def test_rounds_must_be_in_the_future_but_not_far() -> None:
    source = randomness.parse_source("drand quicknet round 27946612")
    time = datetime(2026, 4, 20, tzinfo=UTC)
    for early in (timedelta(seconds=1), timedelta(days=30)):
        randomness.check_future(source, time - early)
    with pytest.raises(InputError, match="published at 2026-04-20 00:00:00 UTC: name one from round 27946613 on"):
        randomness.check_future(source, time)
    with pytest.raises(InputError, match="more than 30 days ahead: name one up to round 27946611"):
        randomness.check_future(source, time - timedelta(days=30, seconds=1))
    with pytest.raises(InputError, match="name one from round"):
        randomness.check_future(randomness.parse_source("drand quicknet round 1"))  # by today's clock
    randomness.check_future(LOTTERY, time)


@pytest.mark.parametrize(
    "text",
    ["", "ab", "zz" * 32, "ab" * 31, "ab" * 33, "ab" * 47, "ab" * 49, "0x" + "ab" * 32, "ab" * 31 + "a", "1 2 / 3 4"],
)
def test_values_of_drand_that_are_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"64 hexadecimal digits, or its signature, 96 digits, got"):
        randomness.parse_value({"kind": "drand-quicknet", "round": 1}, text)


def test_values_of_named_sources() -> None:
    assert randomness.parse_value(LOTTERY, "AB" * 16) == b"\xab" * 16
    assert randomness.parse_value(LOTTERY, "12" * 20) == b"\x12" * 20  # digits without a slash are hexadecimal


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "16 to 1024 bytes"),
        ("ab" * 15, "16 to 1024 bytes"),
        ("ab" * 16 + "a", "16 to 1024 bytes"),
        ("ab" * 1025, r"16 to 1024 bytes, .*2050 characters"),
        ("1 2 3 4 5 6 7", "16 to 1024 bytes"),
        ("1 2 3 / 4 5", "6 to 1000 digits"),
        ("1" * 999 + " / 22", "6 to 1000 digits"),
        ("/", "whole numbers"),
        ("1 2 3 // 4 5 6", "whole numbers"),
        ("1 2 3 / -4 5 6", "whole numbers"),
        ("1 2 3 / 4.5 6 7", "whole numbers"),
        ("1 2 3 / ٤ 5 6", "whole numbers"),
    ],
)
def test_values_of_named_sources_that_are_refused(text: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        randomness.parse_value(LOTTERY, text)
