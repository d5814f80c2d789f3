"""Settings as text: split and joined again."""

from __future__ import annotations

import re
from typing import Any

import pytest

import meritfair as mf
from meritfair.core.parsing import as_inner, join_settings, split_inner, split_settings


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


def test_a_setting_may_have_settings_of_its_own() -> None:
    name, settings = split_settings("merit-fair:delta=0.1,merit=affine:slope=1:intercept=1.5")
    assert (name, settings["delta"]) == ("merit-fair", 0.1)
    assert split_inner(settings["merit"]) == ("affine", {"slope": 1, "intercept": 1.5})
    assert split_inner("affine:slope=1,intercept=1.5") == split_inner(settings["merit"])
    assert as_inner(join_settings("affine", {"slope": 1.0, "intercept": 1.5})) == "affine:intercept=1.5:slope=1"


@pytest.mark.parametrize("split", [split_settings, split_inner])
@pytest.mark.parametrize("value", [None, 3, ["cpap"]])
def test_what_is_no_text_is_refused(split: Any, value: Any) -> None:
    with pytest.raises(mf.InputError, match=re.escape(f"must be text, got {value!r}")):
        split(value)


@pytest.mark.parametrize("text", ["cpap:noise", "cpap:=2", "cpap:noise=1,2"])
def test_what_is_no_setting_is_refused(text: str) -> None:
    with pytest.raises(mf.InputError, match="settings are written name:key=value"):
        split_settings(text)


@pytest.mark.parametrize(
    ("split", "text"),
    [(split_settings, "cpap:noise=1,noise=2"), (split_inner, "exponential:c=1:c=1"), (split_inner, "power:a=1,a =2")],
)
def test_a_setting_is_there_once(split: Any, text: str) -> None:
    with pytest.raises(mf.InputError, match=rf"duplicate setting '(noise|c|a)' in '{text}'"):
        split(text)


@pytest.mark.parametrize("value", [[1, 2], {"a": 1}, "a,b"])
def test_what_cannot_be_written_as_text_is_refused(value: Any) -> None:
    with pytest.raises(mf.InputError, match="equitable: groups must be a"):
        join_settings("equitable", {"groups": value})
