"""Long work: one job for one question, progress, errors in words, old results deleted, and processes that die."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from meritfair.core.errors import InputError
from meritfair.programme.storage.store import Store
from meritfair.web import job_files, job_kinds, jobs
from meritfair.web.job_files import Job, JobFiles
from meritfair.web.job_kinds import JobContext, JobResult
from meritfair.web.job_worker import Worker
from meritfair.web.jobs import Jobs
from meritfair.web.settings import ServerSettings
from programme.clinics import Clinic, clinic

pytestmark = pytest.mark.slow
PATIENCE = 120.0


@pytest.fixture
def calls(tmp_path: Path) -> Clinic:
    """A programme with two rounds."""
    made = clinic(f"sqlite:///{tmp_path / 'programmes.db'}")
    made.play()
    made.play()
    return made


@pytest.fixture
def asking(calls: Clinic, tmp_path: Path) -> Jobs:
    """The jobs of a server without a process for them."""
    return Jobs(ServerSettings(run_folder=str(tmp_path / "run")), calls.programme.store)


@pytest.fixture
def resting(calls: Clinic, tmp_path: Path) -> Jobs:
    """The jobs of a server whose process for them does nothing."""
    return Jobs(ServerSettings(run_folder=str(tmp_path / "run"), job_process=True), calls.programme.store)


def files_of(tmp_path: Path) -> JobFiles:
    return JobFiles(tmp_path / "run" / "jobs")


def wait(asked: Jobs, job: Job, until: Callable[[Job], bool] = lambda job: job.is_over) -> Job:
    """Return a job once it is as it should be."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found = asked.get(job.id)
        if found is not None and until(found):
            return found
        time.sleep(0.02)
    raise AssertionError(f"waited in vain for {asked.get(job.id)}")


def test_the_same_question_is_one_job(resting: Jobs) -> None:
    first, second = resting.ask("report", "calls"), resting.ask("report", "calls", {})
    assert first.id == second.id
    assert first.state == "waiting"
    assert resting.ask("verify", "calls").id != first.id
    assert resting.ask("whatif", "calls", {"budgets": [1]}).id != resting.ask("whatif", "calls", {"budgets": [2]}).id


def test_a_job_that_waits_serves_a_newer_head(resting: Jobs, calls: Clinic, tmp_path: Path) -> None:
    first = resting.ask("verify", "calls")
    calls.play()
    second = resting.ask("verify", "calls")
    assert second.id == first.id
    assert Worker(files_of(tmp_path), calls.programme.store).step()
    done = resting.get(first.id)
    assert done is not None
    assert done.result is not None
    assert done.head == calls.programme.status().head == done.result["head"]
    assert done.entries == calls.programme.status().entries


def test_a_new_head_is_a_new_job_and_the_old_result_stays(asking: Jobs, calls: Clinic) -> None:
    first = asking.ask("report", "calls", now=True)
    assert first.state == "done"
    calls.play()
    second = asking.ask("report", "calls", now=True)
    assert second.id != first.id
    latest = asking.latest("report", "calls")
    assert latest is not None
    assert latest.id == second.id
    assert asking.get(first.id) is not None


def test_a_thread_does_the_work_without_a_process(asking: Jobs, calls: Clinic) -> None:
    done = wait(asking, asking.ask("verify", "calls", {"heads": [calls.programme.status().head]}))
    assert (done.state, done.error) == ("done", "")
    assert done.result is not None
    assert done.result["whole"] is True
    assert done.result["rounds"] == 2


def test_a_report_has_the_numbers_of_the_core_and_names_nobody(asking: Jobs, calls: Clinic, tmp_path: Path) -> None:
    done = asking.ask("report", "calls", now=True)
    assert done.result is not None
    report = calls.programme.audit()
    assert done.result["total"] == report.total
    assert [row["drawn"] for row in done.result["groups"]] == report.groups.drawn.tolist()
    assert set(done.result["words"]) == {"en", "de"}
    text = "".join(file.read_text() for file in (tmp_path / "run").rglob("*") if file.is_file())
    assert not [name for name in calls.ids if f'"{name}"' in text or f" {name} " in text or f"{name}," in text]
    assert asking.path(done).read_text().count("\n") == 1 + len(calls.ids)


def test_an_error_of_the_core_is_told_in_its_words(tmp_path: Path) -> None:
    made = clinic(f"sqlite:///{tmp_path / 'programmes.db'}")
    asked = Jobs(ServerSettings(run_folder=str(tmp_path / "run")), made.programme.store)
    failed = asked.ask("report", "calls", now=True)
    assert (failed.state, failed.error) == ("failed", "there was no draw yet, so there is nothing to report on")
    assert asked.ask("report", "calls", now=True).ended == failed.ended, "it is not tried again unasked"
    assert asked.ask("report", "calls", now=True, again=True).ended > failed.ended


def test_an_error_of_ours_is_told_without_its_values(asking: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(task: JobContext) -> JobResult:
        raise KeyError("Ada Lovelace")

    monkeypatch.setitem(job_kinds.KINDS, "verify", broken)
    failed = asking.ask("verify", "calls", now=True)
    assert failed.state == "failed"
    assert failed.error == "That did not work. The server's log says more."


def test_an_unknown_kind_is_refused(asking: Jobs) -> None:
    with pytest.raises(InputError, match="kind of job"):
        asking.ask("everything", "calls")
    with pytest.raises(InputError, match="no programme 'other'"):
        asking.ask("report", "other")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"budgets": []}, "takes 1 to 8 budgets, got 0"),
        ({"budgets": [1] * 9}, "takes 1 to 8 budgets, got 9"),
        ({"budgets": [3], "rounds": 521}, "rounds ahead must be between 1 and 520, got 521"),
        ({"budgets": [99], "rounds": 4}, "budget"),
    ],
)
def test_a_whatif_refuses_what_it_cannot_answer(asking: Jobs, arguments: dict[str, Any], error: str) -> None:
    failed = asking.ask("whatif", "calls", arguments, now=True)
    assert failed.state == "failed"
    assert error in failed.error


def test_progress_can_be_seen_while_someone_works(asking: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()

    def slow(task: JobContext) -> JobResult:
        task.tell("checking", 3, 10)
        assert go_on.wait(PATIENCE)
        return JobResult({"whole": True})

    monkeypatch.setitem(job_kinds.KINDS, "verify", slow)
    job = asking.ask("verify", "calls")
    seen = wait(asking, job, lambda job: job.total > 0)
    assert (seen.state, seen.words, seen.done, seen.total) == ("running", "checking", 3, 10)
    assert asking.ask("verify", "calls").id == job.id, "who asks meanwhile joins in"
    recent = asking.recent("verify", "calls")
    assert recent is not None
    assert recent.id == job.id
    go_on.set()
    assert wait(asking, job).result == {"whole": True}


def test_two_who_begin_at_once_do_it_once(resting: Jobs, calls: Clinic, tmp_path: Path) -> None:
    job, files = resting.ask("verify", "calls"), files_of(tmp_path)
    assert files.claim(job)
    assert not Worker(files, calls.programme.store).work(job)
    other = replace(job, id="f" * 32)
    files.add(other)
    files.add(replace(other, words="late"))
    kept = files.read(other.id)
    assert kept is not None
    assert kept.words == "", "what is there stays"


def test_old_results_are_deleted(resting: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, model = files_of(tmp_path), resting.ask("verify", "calls")
    for number in range(9):
        job = replace(model, id=f"{number:032x}", arguments={"heads": [str(number)]}, result={})
        files.add(job)
        files.finish(replace(job, state="done"))
    files.prune()
    left = sorted(each.id for each in files.all() if each.is_over)
    assert left == [f"{number:032x}" for number in range(9 - job_files.KEPT, 9)]
    assert files.read(model.id) is not None, "what waits is not deleted"
    monkeypatch.setattr(job_files, "_AGE", -1.0)
    files.prune()
    assert [each.id for each in files.all()] == [model.id]


def test_too_many_that_wait_are_refused(resting: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "MOST_WAITING", 2)
    first = resting.ask("whatif", "calls", {"budgets": [1]})
    resting.ask("whatif", "calls", {"budgets": [2]})
    with pytest.raises(InputError, match="2 other things are waiting"):
        resting.ask("whatif", "calls", {"budgets": [3]})
    assert resting.ask("whatif", "calls", {"budgets": [1]}).id == first.id


def test_many_of_one_kind_leave_room_for_others(resting: Jobs) -> None:
    for budget in range(1, jobs.MOST_ALIKE + 1):
        resting.ask("whatif", "calls", {"budgets": [budget]})
    with pytest.raises(InputError, match="10 other things are waiting"):
        resting.ask("whatif", "calls", {"budgets": [100]})
    assert resting.ask("verify", "calls", {"heads": []}).state == "waiting"


def test_results_are_forgotten_with_a_person(asking: Jobs) -> None:
    job = asking.ask("report", "calls", now=True)
    assert asking.path(job).exists()
    asking.forget("calls")
    assert asking.get(job.id) is None
    assert not asking.path(job).exists()


@pytest.mark.parametrize("id_", ["", ".", "..", "../jobs", "a/b", "é", "0" * 32])
def test_an_id_that_is_none_finds_nothing(asking: Jobs, id_: str) -> None:
    assert asking.get(id_) is None


def test_the_folder_is_for_nobody_else(asking: Jobs, tmp_path: Path) -> None:
    assert (tmp_path / "run" / "jobs").stat().st_mode & 0o077 == 0


def test_an_export_names_nobody_and_has_its_verifier(asking: Jobs, calls: Clinic, tmp_path: Path) -> None:
    import subprocess
    import sys
    import zipfile

    done = asking.ask("export", "calls", now=True)
    with zipfile.ZipFile(asking.path(done)) as file:
        names = file.namelist()
        file.extractall(tmp_path / "out")
    assert not [name for name in names if "private" in name]
    ledger = tmp_path / "out" / "ledger-calls"
    found = subprocess.run([sys.executable, "verify.py"], cwd=ledger, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
    with calls.programme.store.reading("calls") as session:
        hidden = session.secret.hex().encode()
    assert not [file for file in ledger.rglob("*") if file.is_file() and hidden in file.read_bytes()]


def test_a_job_whose_process_died_is_put_back_once(resting: Jobs, calls: Clinic, tmp_path: Path) -> None:
    files, job = files_of(tmp_path), resting.ask("verify", "calls")
    dead = multiprocessing.get_context("spawn").Process(target=int)
    dead.start()
    dead.join()
    assert files.claim(job)
    (files.folder / job.id / "claim").write_text(str(dead.pid))
    files.update(replace(job, state="running", tries=1))
    files.put_back()
    back = resting.get(job.id)
    assert back is not None
    assert (back.state, back.tries) == ("waiting", 1)
    assert Worker(files, calls.programme.store).step()
    done = resting.get(job.id)
    assert done is not None
    assert (done.state, done.tries) == ("done", 2)


def test_a_job_whose_process_died_twice_has_failed(resting: Jobs, tmp_path: Path) -> None:
    files, job = files_of(tmp_path), resting.ask("verify", "calls")
    assert files.claim(job)
    (files.folder / job.id / "claim").write_text("999999999")
    files.update(replace(job, state="running", tries=2))
    files.put_back()
    failed = resting.get(job.id)
    assert failed is not None
    assert failed.state == "failed"
    assert failed.error.startswith("The process that worked on this ended twice")


def test_a_job_that_someone_works_on_is_left_to_them(resting: Jobs, tmp_path: Path) -> None:
    files, job = files_of(tmp_path), resting.ask("verify", "calls")
    assert files.claim(job)
    files.update(replace(job, state="running", tries=1))
    files.put_back()
    kept = resting.get(job.id)
    assert kept is not None
    assert kept.state == "running"


def _run_with_a_slow_verification(settings: ServerSettings, first: bool) -> None:
    from meritfair.web import job_process

    if first:

        def never(task: JobContext) -> JobResult:
            task.tell("checking", 1, 10)
            time.sleep(PATIENCE)
            return JobResult({})

        job_kinds.KINDS["verify"] = never
    job_process.run(settings)


def test_a_process_that_is_killed_loses_no_job(calls: Clinic, tmp_path: Path) -> None:
    settings = ServerSettings(
        store=f"sqlite:///{tmp_path / 'programmes.db'}", run_folder=str(tmp_path / "run"), job_process=True
    )
    asked = Jobs(settings, Store(settings.store))
    job, spawn = asked.ask("verify", "calls"), multiprocessing.get_context("spawn")
    first = spawn.Process(target=_run_with_a_slow_verification, args=(settings, True))
    first.start()
    wait(asked, job, lambda job: job.state == "running" and job.done == 1)
    assert first.pid is not None
    os.kill(first.pid, signal.SIGKILL)
    first.join()
    second = spawn.Process(target=_run_with_a_slow_verification, args=(settings, False))
    second.start()
    try:
        done = wait(asked, job)
        assert (done.state, done.tries) == ("done", 2)
        assert done.result is not None
        assert done.result["whole"]
    finally:
        second.terminate()
        second.join()


def test_what_is_on_the_disk_is_whole_at_any_time(resting: Jobs, tmp_path: Path) -> None:
    files, job = files_of(tmp_path), resting.ask("verify", "calls")
    stop, broken = threading.Event(), list[str]()

    def read() -> None:
        while not stop.is_set():
            try:
                json.loads((files.folder / job.id / "status.json").read_text())
            except ValueError as error:
                broken.append(str(error))

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(300):
        files.update(replace(job, state="running", done=number, words="x" * number))
    stop.set()
    reader.join()
    assert not broken
