"""A worker that is busy: heavy requests beyond a few are told when to ask again, and all others are served."""

from __future__ import annotations

from pathlib import Path
from threading import Event, Thread

import pytest

from meritfair.core.sharing import WorkSlots
from meritfair.programme.users import Role
from programme.clinics import clinic
from programme.quick_hashes import quick_hashes as quick_hashes
from web.clients import serving

pytestmark = pytest.mark.slow


def test_a_person_after_a_past_round_waits_and_is_told_when_to_ask_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = clinic(str(tmp_path / "calls.db"), people=6, budget=2)
    for _ in range(3):
        calls.play()
    slots, begun, done = WorkSlots(slots=1, patience=0.05), Event(), Event()
    monkeypatch.setattr("meritfair.programme.reading.WorkSlots", lambda: slots)
    web = serving(calls.programme.store.url, tmp_path / "run")
    browser, program = web.browser("Kofi", {"calls": Role.AUDITOR}), web.program("Kofi")
    web.frame.reader.prepare("calls")

    def work() -> None:
        with slots.request():
            slots.take("something else")
            begun.set()
            done.wait(60)

    other = Thread(target=work)
    other.start()
    assert begun.wait(60)
    page, api = "/p/calls/people/1?round=1", "/api/v1/programmes/calls/participants/1/report?round=1"
    try:
        for client, address in ((browser, page), (program, api)):
            refused = client.get(address)
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "10")
            assert "Much is being worked out for others now: try again in 10 seconds." in refused.text
            assert client.get(address.partition("?")[0]).status_code == 200  # as it is known now
        assert program.get(api).json()["status"] == 503
    finally:
        done.set()
        other.join(60)
    assert browser.get(page).status_code == program.get(api).status_code == 200
