"""Seeds and public values, against published vectors of drand and of RFC 3797."""

from __future__ import annotations

import hashlib
import hmac
import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from meritfair.core.errors import InputError, MissingExtraError
from meritfair.programme.ledger import randomness
from programme.beacon import RANDOMNESS, SIGNATURES
from reference import rfc3797

RFC_NUMBERS = "9319 / 2 5 12 8 10 / 9 18 26 34 41 45"  # Section 6
RFC_SELECTION = [17, 7, 2, 16, 25, 23, 8, 24, 19, 13, 22, 5, 18, 9, 1, 4]
RFC_DIGESTS = [
    "990DD0A5692A029A98B5E01AA28F3459",
    "3691E55CB63FCC37914430B2F70B5EC6",
    "FE814EDF564C190AC1D25753979990FA",
]
NOMCOM_2022 = "7 8 11 18 28 40 48 / 15 16 21 31 36 65 / 8 12 13 17 21 26 35 42 / 1 5 10 13 14 16 21 25 27"
NOMCOM_2022_SELECTION = [171, 245, 68, 190, 70, 126, 110, 128, 138, 173]  # of 267 volunteers
LOTTERY = {"kind": "named", "name": "the lottery of Saturday"}


def drand(number: int) -> dict[str, Any]:
    return {"kind": "drand-quicknet", "round": number}


@pytest.mark.parametrize("number", sorted(SIGNATURES))
def test_published_rounds_of_drand(number: int) -> None:
    signature = SIGNATURES[number]
    assert hashlib.sha256(bytes.fromhex(signature)).hexdigest() == RANDOMNESS[number]
    assert randomness.parse_value(drand(number), f" {signature.upper()}\n") == bytes.fromhex(signature)
    answer = {"round": number, "randomness": RANDOMNESS[number], "signature": signature}
    assert randomness.parse_value(drand(number), json.dumps(answer)) == bytes.fromhex(signature)


def test_a_signature_of_another_round_is_refused() -> None:
    with pytest.raises(InputError, match="not the value of drand quicknet round 1001: the signature does not fit"):
        randomness.parse_value(drand(1001), SIGNATURES[1000])
    answer = json.dumps({"round": 1000, "signature": SIGNATURES[1000]})
    with pytest.raises(InputError, match="waits for round 1001 of drand, got the value of round 1000"):
        randomness.parse_value(drand(1001), answer)


@pytest.mark.parametrize(
    "made_up",
    [
        "ab" * 48,  # no point of the curve, or not of its group
        "00" * 48,
        "c0" + "00" * 47,  # the point at infinity
        "ff" * 48,
        SIGNATURES[1000][:-2] + "38",
        f"{int(SIGNATURES[1000][:2], 16) ^ 0x20:02x}" + SIGNATURES[1000][2:],  # the negative point
        SIGNATURES[657413],
    ],
)
def test_made_up_signatures_are_refused(made_up: str) -> None:
    with pytest.raises(InputError, match="the signature does not fit its round and the public key"):
        randomness.parse_value(drand(1000), made_up)


def test_the_first_of_many_that_does_not_fit_is_found() -> None:
    right = [(number, bytes.fromhex(signature)) for number, signature in SIGNATURES.items()]
    wrong = (1000, right[1][1])
    assert randomness.first_unfit([]) is None
    assert randomness.first_unfit(right * 3) is None
    assert randomness.first_unfit([*right, wrong, right[0], wrong]) == 2
    assert randomness.first_unfit([right[0], (657413, bytes(48)), wrong]) == 1
    swapped = [(1000, right[1][1]), (657413, right[0][1])]  # whose sums agree without coefficients
    assert randomness.first_unfit(swapped) == 0


def test_the_library_for_signatures_does_not_let_recursion_go_deeper() -> None:
    """With a limit of 100,000, which it sets, JSON from outside could overflow the stack and end a server."""
    script = (
        "import json, sys\n"
        "from meritfair.programme.ledger import randomness\n"
        f"assert randomness.first_unfit([(1000, bytes.fromhex('{SIGNATURES[1000]}'))]) is None\n"
        "assert 'py_ecc' in sys.modules\n"
        "try:\n"
        "    json.loads('[' * 90_000)\n"
        "except RecursionError:\n"
        "    print('refused')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("refused\n", 0), done.stderr


def test_drand_needs_a_library(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in sys.modules if each.split(".")[0] == "py_ecc"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "py_ecc", None)
    assert not randomness.can_check_signatures()
    with pytest.raises(MissingExtraError, match="needs the extra 'beacon'"):
        randomness.parse_value(drand(1000), SIGNATURES[1000])
    with pytest.raises(MissingExtraError, match="needs the extra 'beacon'"):
        randomness.check_can_use("drand after 5 minutes")
    randomness.check_can_use("secret")
    randomness.check_can_use("the lottery")


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
    assert randomness.draw_seed(secret, commitment) == hmac.new(secret, commitment, "sha256").digest()
    joined = hmac.new(secret, commitment + b"value", "sha256").digest()
    assert randomness.draw_seed(secret, commitment, b"value") == joined


def test_seeds_of_the_wrong_size_are_refused() -> None:
    with pytest.raises(InputError, match="a secret has 32 bytes, got 31"):
        randomness.draw_seed(bytes(31), bytes(32))
    with pytest.raises(InputError, match="a commitment has 32 bytes, got 33"):
        randomness.draw_seed(bytes(32), bytes(33), b"value")


def test_settings() -> None:
    assert randomness.check_source(" Drand  AFTER 7 minutes ") == "drand after 7 minutes"
    assert randomness.check_source("drand after 1 minute") == "drand"
    assert randomness.check_source(" Lotto  7 ") == "Lotto  7"
    assert randomness.check_source(" \n") == "secret"
    time = datetime(2026, 4, 20, tzinfo=UTC)
    assert randomness.source_for("secret", time) is None
    assert randomness.source_for("Lotto 7", time) == {"kind": "named", "name": "Lotto 7"}
    for text, minutes in (("drand", 1), ("drand after 90 minutes", 90)):
        found = randomness.source_for(text, time)
        assert found == drand(27946613 + 20 * minutes)
        assert randomness.describe(found) == f"drand quicknet round {found['round']}"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("drand quicknet round 7", "is written as"),
        ("drand after minutes", "is written as"),
        ("drand mainnet", "is written as"),
        ("drand after 0 minutes", "between 1 and 43200, got 0"),
        ("drand after 43201 minutes", "between 1 and 43200, got 43201"),
        ("x" * 301, "at most 300 characters, got 301"),
    ],
)
def test_settings_that_are_refused(text: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        randomness.check_source(text)


def test_when_a_round_of_drand_appears() -> None:
    times = [randomness.appears_at(drand(number)) for number in (1, 2, 27946612)]
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


def test_no_value_before_it_is_published() -> None:
    time = datetime(2026, 4, 20, tzinfo=UTC)
    randomness.check_published(drand(27946612), time)
    randomness.check_published(LOTTERY, time)
    with pytest.raises(InputError, match="published at 2026-04-20 00:00:00 UTC: it can have no value before that"):
        randomness.check_published(drand(27946612), time - timedelta(seconds=1))


@pytest.mark.parametrize(
    "text",
    ["", "ab", "zz" * 48, "ab" * 32, "ab" * 47, "ab" * 49, "0x" + "ab" * 47, "ab" * 47 + "a", "1 2 / 3 4"],
)
def test_values_of_drand_that_are_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"is the signature of its round, 96 hexadecimal digits"):
        randomness.parse_value({"kind": "drand-quicknet", "round": 1}, text)


@pytest.mark.parametrize("text", ["{", "{}", '{"round": 1}', '{"signature": []}', "{" * 9000, '{"a":' * 9000])
def test_answers_of_drand_that_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="an answer of drand has a round and a signature"):
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
