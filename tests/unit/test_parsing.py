"""Settings as text: split and joined again."""

from __future__ import annotations

from typing import Any

import pytest

import meritfair as mf
from meritfair.parsing import join_settings, split_settings


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("optimal", {}),
        ("merit-fair:estimate=mean", {"estimate": "mean"}),
        ("cpap:noise=0.2,reseed=false", {"noise": 0.2, "reseed": False}),
        ("merit-fair:delta=1e-05,prior=none", {"delta": 1e-5, "prior": None}),
        ("fawt-q:window=30", {"window": 30}),
    ],
)
def test_text_and_settings_say_the_same(text: str, settings: dict[str, Any]) -> None:
    name = text.split(":")[0]
    assert split_settings(text) == (name, settings)
    assert join_settings(name, settings) == text


def test_blanks_and_the_order_of_keys_do_not_matter() -> None:
    name, settings = split_settings(" cpap : variant = kang , noise = 0.1 ")
    assert join_settings(name, settings) == "cpap:noise=0.1,variant=kang"


def test_numbers_keep_all_their_digits() -> None:
    third = 1 / 3
    assert split_settings(join_settings("cpap", {"noise": third}))[1] == {"noise": third}


@pytest.mark.parametrize("text", ["cpap:noise", "cpap:=2", "cpap:noise=1,2"])
def test_what_is_no_setting_is_refused(text: str) -> None:
    with pytest.raises(mf.InputError, match="settings are written name:key=value"):
        split_settings(text)


@pytest.mark.parametrize("value", [[1, 2], {"a": 1}, "a,b"])
def test_what_cannot_be_written_as_text_is_refused(value: Any) -> None:
    with pytest.raises(mf.InputError, match="equitable: groups must be a"):
        join_settings("equitable", {"groups": value})
