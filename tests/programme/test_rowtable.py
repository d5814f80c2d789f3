from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meritfair import InputError
from meritfair.programme.ledger.canonical import canonical, from_canonical
from meritfair.programme.ledger.rowtable import RowTable, proves

FIELDS = (("number", "u32"), ("state", "i8"), ("who", "h256"))


def table(rows: int) -> RowTable:
    who = [hashlib.sha256(bytes([row % 256])).digest() for row in range(rows)]
    return RowTable.of(FIELDS, {"number": range(rows), "state": [row % 3 - 1 for row in range(rows)], "who": who})


def plain_root(leaves: list[bytes]) -> bytes:
    """Return the root by the recursive definition of RFC 6962."""
    if len(leaves) == 1:
        return leaves[0]
    split = 1
    while 2 * split < len(leaves):
        split *= 2
    return hashlib.sha256(b"\1" + plain_root(leaves[:split]) + plain_root(leaves[split:])).digest()


@pytest.mark.parametrize("rows", [0, 1, 2, 3, 4, 5, 7, 8, 9, 33])
def test_the_root_is_that_of_rfc_6962_and_every_row_can_be_proved(rows: int) -> None:
    made = table(rows)
    if rows:
        assert made.root == plain_root([hashlib.sha256(b"\0" + row).digest() for row in made.rows()])
    else:
        assert made.root == hashlib.sha256().digest()
    for index in range(rows):
        assert made.row(index) == made.rows()[index]
        assert proves(made.root, made.row(index), made.path(index))
        assert not proves(made.root, made.row(index)[:-1] + b"x", made.path(index))


def test_tables_come_back_and_any_other_bytes_are_refused() -> None:
    made = table(5)
    data = made.to_bytes()
    again = RowTable.from_bytes(made.describe(), data)
    assert again.rows() == made.rows()
    for wrong in (data[:-1], data + b"x", bytes([data[0] ^ 1]) + data[1:], b""):
        with pytest.raises(InputError, match="not the one"):
            RowTable.from_bytes(made.describe(), wrong)


def test_numbers_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InputError, match="state must be between -128 and 127, got 200"):
        RowTable.of((("state", "i8"),), {"state": [1, 200]})
    with pytest.raises(InputError, match=r"whole numbers, got .*0\.5"):
        RowTable.of((("state", "i8"),), {"state": [0.5]})
    with pytest.raises(InputError, match="same length"):
        RowTable.of((("state", "i8"), ("away", "u8")), {"state": [1], "away": [1, 0]})


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(max_codepoint=127)), inner),
)


@given(PLAIN)
def test_canonical_bytes_come_back(value: object) -> None:
    assert from_canonical(canonical(value)) == value


@pytest.mark.parametrize(
    "data", [b'{"a": 1}', b'{"b":1,"a":2}', b'{"a":1,"a":2}', b"1.0", b'"\\u0041"', b"\xff", b"[1"]
)
def test_other_forms_are_refused(data: bytes) -> None:
    with pytest.raises(InputError):
        from_canonical(data)


@pytest.mark.parametrize("value", [0.5, float("nan"), 2**53, {"😀": 1}, {1: 1}, b"x", "\ud800"])
def test_what_has_no_canonical_form_is_refused(value: object) -> None:
    with pytest.raises(InputError):
        canonical(value)
