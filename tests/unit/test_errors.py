"""Errors travel between processes whole."""

from __future__ import annotations

import pickle

import pytest

from meritfair.core.errors import FileError, InputError, MeritfairError, MissingExtraError


@pytest.mark.parametrize(
    "error",
    [
        MeritfairError("nobody is there"),
        InputError("budget must be at least 1, got 0"),
        FileError("arms.csv", "must be between 0 and 1, got '1.2'", line=3, column="p01"),
        FileError("arms.csv", "there is no such file"),
        MissingExtraError("drawing figures", "plots"),
    ],
    ids=str,
)
def test_an_error_is_the_same_after_a_journey(error: MeritfairError) -> None:
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is type(error)
    assert str(back) == str(error)
