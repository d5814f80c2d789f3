"""A dry run checks what the verb checks, says what it would change, and keeps nothing."""

from __future__ import annotations

import pytest

from meritfair.core.errors import InputError
from meritfair.programme import Outcomes, People
from programme.clinics import clinic


def test_a_dry_run_says_what_would_change_and_keeps_nothing(store_url: str) -> None:
    programme = clinic(store_url).programme
    drawn = programme.draw(by="Ada")
    before = programme.status()
    outcomes = Outcomes(drawn.ids, action=[1] * len(drawn.ids))
    tried = programme.report(outcomes, by="Ada", dry_run=True)
    assert (tried.taken, tried.head) == (len(drawn.ids), before.head)
    assert programme.status() == before
    assert programme.report(outcomes, by="Ada").taken == len(drawn.ids)
    again = programme.report(outcomes, by="Ada", dry_run=True)
    assert (again.taken, again.repeated) == (0, len(drawn.ids))


def test_a_dry_run_refuses_what_the_verb_refuses(store_url: str) -> None:
    programme = clinic(store_url).programme
    with pytest.raises(InputError, match="enrolled already"):
        programme.enrol(["p0"], by="Ada", dry_run=True)
    assert programme.enrol(People(["new"]), by="Ada", dry_run=True).taken == 1
    assert programme.status().enrolled == 12
    drawn = programme.draw(by="Ada")
    other = next(each for each in (f"p{n}" for n in range(12)) if each not in drawn.ids)
    with pytest.raises(InputError, match="needs a reason"):
        programme.report(Outcomes([other], action=[1]), by="Ada", dry_run=True)
    with pytest.raises(InputError, match="needs a reason"):
        programme.correct(Outcomes([drawn.ids[0]], action=[1]), by="Ada", dry_run=True)


def test_a_key_is_not_used_up_by_a_dry_run(store_url: str) -> None:
    programme = clinic(store_url).programme
    programme.enrol(["new"], by="Ada", key="k", dry_run=True)
    assert programme.enrol(["other"], by="Ada", key="k").taken == 1
