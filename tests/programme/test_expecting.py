"""Writes that a server needs: bound to a head, to a round, made once, and by the number in the ledger."""

from __future__ import annotations

import pytest

import meritfair as mf
from meritfair.core.errors import InputError
from meritfair.programme.programme import HeadMovedError, KeyConflictError
from programme.clinics import clinic


def test_a_change_is_refused_if_the_head_has_moved(store_url: str) -> None:
    calls = clinic(store_url).programme
    head = calls.status().head
    bound = calls.expecting(head)
    first = bound.away("p1", by="Ada", key="k1")
    assert bound.away("p1", by="Ada", key="k1") == first  # a retry is answered, though its own entry moved the head
    with pytest.raises(HeadMovedError, match=head):
        bound.away("p2", by="Ada")
    assert calls.status().away == 1
    calls.away("p2", by="Ada")
    assert calls.status().away == 2


def test_a_programme_is_created_once_for_each_key(store_url: str) -> None:
    first = mf.programme.open(store_url, "calls").create(3, by="Ada", key="k")
    assert mf.programme.open(store_url, "calls").create(3, by="Ada", key="k") == first
    with pytest.raises(KeyConflictError):
        mf.programme.open(store_url, "calls").create(4, by="Ada", key="k")
    with pytest.raises(KeyConflictError):
        mf.programme.open(store_url, "visits").create(3, by="Ada", key="k")
    with pytest.raises(InputError, match="already a programme"):
        mf.programme.open(store_url, "calls").create(3, by="Ada", key="other")
    assert mf.programme.open(store_url).store.names() == ["calls"]


def test_a_round_is_closed_only_if_it_is_the_open_one(store_url: str) -> None:
    calls = clinic(store_url).programme
    calls.draw(by="Ada")
    with pytest.raises(InputError, match="round 1 is open, not round 2"):
        calls.close(round=2, by="Ada")
    assert calls.close(round=1, by="Ada").round == 1


def test_people_are_erased_and_proved_by_number(store_url: str) -> None:
    calls = clinic(store_url).programme
    assert calls.proof(3) == calls.proof("p3")
    calls.withdraw("p3", by="Ada")
    first = calls.erase(3, by="Ada", key="k")
    assert calls.erase(3, by="Ada", key="k") == first
    with pytest.raises(InputError, match="participant 3 was erased"):
        calls.proof(3)
    with pytest.raises(InputError, match="from 0 to 11, got 12"):
        calls.proof(12)
