"""Long work: one job for one question, room for everyone, progress, errors in words, and processes that die."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from meritfair.core.errors import InputError
from meritfair.programme.storage.store import Store
from meritfair.programme.storage.temporary_rows import TemporaryRows
from meritfair.web import job_kinds, job_table, job_worker, jobs
from meritfair.web.job_kinds import JobContext, JobResult
from meritfair.web.job_table import Job, JobTable
from meritfair.web.job_worker import Worker
from meritfair.web.jobs import Jobs
from meritfair.web.processes import STOPPED
from meritfair.web.quota import QuotaError
from meritfair.web.rendering import templates
from meritfair.web.settings import ServerSettings
from programme.clinics import Clinic, clinic

pytestmark = pytest.mark.slow
PATIENCE = 120.0


@pytest.fixture
def calls(store_url: str) -> Clinic:
    """A programme with two rounds."""
    made = clinic(store_url)
    made.play()
    made.play()
    return made


@pytest.fixture
def table(calls: Clinic) -> JobTable:
    return JobTable(calls.programme.store)


@pytest.fixture
def worker(table: JobTable, calls: Clinic, tmp_path: Path) -> Worker:
    return Worker(table, calls.programme.store, "Wim", tmp_path / "work")


@pytest.fixture
def asking(calls: Clinic, tmp_path: Path) -> Jobs:
    """The jobs of a server without a process for them."""
    return Jobs(ServerSettings(run_folder=str(tmp_path / "run")), calls.programme.store)


@pytest.fixture
def resting(calls: Clinic, tmp_path: Path) -> Jobs:
    """The jobs of a server whose process for them does nothing."""
    return Jobs(ServerSettings(run_folder=str(tmp_path / "run"), job_process=True), calls.programme.store)


def claim(table: JobTable, job: Job, worker: str) -> Job:
    """Have a worker claim a job."""
    claimed = table.claim(worker)
    assert claimed is not None
    assert claimed.id == job.id
    return claimed


def wait(asked: Jobs, job: Job, until: Callable[[Job], bool] = lambda job: job.is_over) -> Job:
    """Return a job once it is as it should be."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found = asked.get(job.id)
        if found is not None and until(found):
            return found
        time.sleep(0.02)
    raise AssertionError(f"waited in vain for {asked.get(job.id)}")


def content(asked: Jobs, job: Job) -> bytes:
    """Return the file that a job has made."""
    size, parts = asked.file(job)
    data = b"".join(parts)
    assert len(data) == size
    return data


def test_the_same_question_is_one_job(resting: Jobs) -> None:
    first, second = resting.ask("report", "calls"), resting.ask("report", "calls", {})
    assert first.id == second.id
    assert first.state == "waiting"
    assert resting.ask("verify", "calls").id != first.id
    assert resting.ask("whatif", "calls", {"budgets": [1]}).id != resting.ask("whatif", "calls", {"budgets": [2]}).id


def test_a_job_that_waits_serves_a_newer_head(resting: Jobs, calls: Clinic, worker: Worker) -> None:
    first = resting.ask("verify", "calls")
    calls.play()
    second = resting.ask("verify", "calls")
    assert second.id == first.id
    assert worker.step()
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


def test_a_report_has_the_numbers_of_the_core_and_names_nobody(asking: Jobs, calls: Clinic) -> None:
    done = asking.ask("report", "calls", now=True)
    assert done.result is not None
    report = calls.programme.audit()
    assert done.result["total"] == report.total
    assert [row["drawn"] for row in done.result["groups"]] == report.groups.drawn.tolist()
    assert set(done.result["words"]) == {"en", "de"}
    text = str(done.result) + content(asking, done).decode()
    assert not [name for name in calls.ids if f"'{name}'" in text or f" {name} " in text or f"{name}," in text]
    assert content(asking, done).count(b"\n") == 1 + len(calls.ids)


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


@pytest.mark.parametrize("change", [False, True])
def test_a_whatif_answers_for_a_budget_as_it_does_alone(tmp_path: Path, change: bool) -> None:
    made = clinic(f"sqlite:///{tmp_path / 'floors.db'}", floor=0.8)  # of an equal share, which differs by budget
    made.play()
    made.play()
    part = replace(made.programme.audit().settings.parts[0], floor=0.9)
    more = {"rounds": 4, "extrapolate": True} | ({"change": part.body()} if change else {})
    floors = Jobs(ServerSettings(run_folder=str(tmp_path / "run")), made.programme.store)

    def rows(budgets: list[int]) -> list[dict[str, Any]]:
        done = floors.ask("whatif", "calls", {"budgets": budgets, **more}, now=True)
        assert done.error == ""
        assert done.result is not None
        found: list[dict[str, Any]] = done.result["rows"]
        return [row for row in found if row["budget"] == 2]

    alone = rows([2])
    assert len(alone) == 1 + change
    assert rows([2, 10]) == alone
    assert rows([10, 3, 2]) == alone


@pytest.mark.parametrize(
    ("verdict", "contradicted", "words"),
    [
        ("refused", False, "too few of them fit what is asked"),
        ("disagrees", True, "There is no answer, unless you ask for one that rests on the model alone"),
        ("model alone", False, "too few to check this"),
        ("model alone", True, "is a rough guide at most"),
        ("agrees", False, ""),
    ],
)
def test_a_whatif_says_why_there_is_no_answer(verdict: str, contradicted: bool, words: str) -> None:
    refused = verdict in ("refused", "disagrees")
    result = {"rows": [{"verdict": verdict}], "refused": refused, "contradicted": contradicted}
    page = templates().get_template("parts/whatif.html")
    shown = page.render(job=SimpleNamespace(result=result), draw=lambda chart: "", whatif_chart=lambda job: "")
    assert words in shown
    assert ("banner" in shown) == bool(words)


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


def test_two_who_begin_at_once_do_it_once(resting: Jobs, table: JobTable, worker: Worker) -> None:
    job = resting.ask("verify", "calls", by="Ada")
    claim(table, job, "first")
    assert table.claim("second") is None
    assert not worker.step()
    joined = resting.ask("verify", "calls", by="Bob")
    assert (joined.id, joined.state, joined.askers) == (job.id, "running", ("Ada", "Bob"))


def test_what_is_no_longer_claimed_is_dropped(resting: Jobs, table: JobTable, monkeypatch: pytest.MonkeyPatch) -> None:
    job = claim(table, resting.ask("verify", "calls"), "slow")
    monkeypatch.setattr(job_table, "LEASE", -1)
    assert table.update(job, "slow"), "whose lease has run out, and nobody has noticed"
    monkeypatch.undo()
    claim(table, job, "quick")
    assert not table.update(replace(job, done=3), "slow")
    assert not table.finish(replace(job, state="done", result={"whole": False}), "slow")
    found = resting.get(job.id)
    assert found is not None
    assert (found.state, found.done, found.tries) == ("running", 0, 2)
    assert table.finish(replace(found, state="done", result={"whole": True}), "quick")
    assert wait(resting, job).result == {"whole": True}


def test_old_results_are_deleted(resting: Jobs, table: JobTable, monkeypatch: pytest.MonkeyPatch) -> None:
    model = resting.ask("verify", "calls")
    for number in range(9):
        table.keep(replace(model, id=f"{number:032x}", arguments={"heads": [str(number)]}, state="done", result={}))
        time.sleep(0.002)  # times are whole milliseconds
    left = [number for number in range(9) if resting.get(f"{number:032x}") is not None]
    assert left == list(range(9 - job_table.KEPT, 9))
    assert resting.get(model.id) is not None, "what waits is not deleted"
    monkeypatch.setattr(job_table, "_AGE", -1)
    table.prune()
    assert not any(resting.get(f"{number:032x}") for number in range(9))
    assert [each.id for each in table.live()] == [model.id]


def test_files_that_are_too_large_are_not_kept(asking: Jobs, table: JobTable, monkeypatch: pytest.MonkeyPatch) -> None:
    first = asking.ask("report", "calls", now=True)
    size = len(content(asking, first))
    monkeypatch.setattr(job_table, "_MOST_BYTES_IN_ALL", size - 1)
    table.prune()
    assert asking.get(first.id) is None
    monkeypatch.setattr(job_table, "MOST_BYTES", 10)
    failed = asking.ask("export", "calls", now=True)
    assert failed.state == "failed"
    assert "keeps files of at most 0 MB" in failed.error
    assert "meritfair programme export" in failed.error


# Room for everyone


def fill(asked: Jobs, by: str, n: int) -> list[Job]:
    """Have someone ask as often as they may."""
    return [asked.ask("whatif", "calls", {"budgets": [k], "by": by}, by=by) for k in range(1, n + 1)]


def claim_next(table: JobTable) -> str:
    """Return which job is next."""
    job = table.claim("Wim")
    assert job is not None
    return job.id


def test_one_user_cannot_fill_the_queue(resting: Jobs) -> None:
    first = fill(resting, "Ada", jobs.MOST_OF_ONE)[0]
    for kind, arguments in (("whatif", {"budgets": [99]}), ("verify", {"heads": []})):
        with pytest.raises(QuotaError, match="6 things that you have asked for are still being worked out"):
            resting.ask(kind, "calls", arguments, by="Ada")
    assert resting.ask("whatif", "calls", first.arguments, by="Ada").id == first.id, "what is there can be asked for"
    assert resting.ask("verify", "calls", by="Bob").state == "waiting"


def test_places_are_kept_for_what_everyone_relies_on(resting: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "MOST_WAITING", 14)
    for name in ("Ada", "Bob"):
        fill(resting, name, 2)
    with pytest.raises(QuotaError, match="4 other things are waiting"):
        resting.ask("whatif", "calls", {"budgets": [99]}, by="Cai")
    with pytest.raises(QuotaError, match="4 other things are waiting"):
        resting.ask("export", "calls", by="Cai")
    for kind in ("verify", "report", "board", "learning"):
        assert resting.ask(kind, "calls", by="Cai").state == "waiting"
    monkeypatch.setattr(jobs, "MOST_WAITING", 8)
    with pytest.raises(QuotaError, match="8 other things are waiting"):
        resting.ask("verify", "calls", {"heads": ["0"]}, by="Dee")


def test_what_is_running_counts_for_its_user(resting: Jobs, table: JobTable) -> None:
    claim(table, fill(resting, "Ada", jobs.MOST_OF_ONE)[0], "Wim")
    with pytest.raises(QuotaError):
        resting.ask("verify", "calls", by="Ada")


def test_whose_turn_it_is(resting: Jobs, table: JobTable, monkeypatch: pytest.MonkeyPatch) -> None:
    many = fill(resting, "Ada", 3)
    one, check = fill(resting, "Bob", 1)[0], resting.ask("verify", "calls", by="Cai")
    assert [claim_next(table) for _ in range(5)] == [each.id for each in (check, many[0], one, *many[1:])]
    monkeypatch.setattr(jobs, "HEAD_START", -1.0)  # as if it were asked that long after the other
    resting.ask("verify", "calls", {"heads": ["0"]}, by="Dee")
    old = fill(resting, "Eve", 1)[0]
    assert claim_next(table) == old.id, "what has waited long is not put off for ever"


def test_what_everyone_relies_on_comes_before_hours_of_the_rest(
    resting: Jobs, table: JobTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four users ask for as much as they may; after hours of it somebody wants the ledger verified."""
    for name in ("Ada", "Bob", "Cai", "Dee"):
        fill(resting, name, 5)
    later = int(time.time() * 1000) + 5 * 3_600_000
    monkeypatch.setattr(TemporaryRows, "now", lambda rows: later)
    assert claim_next(table) != (check := resting.ask("verify", "calls", by="Eve")).id
    assert claim_next(table) == check.id


def test_asking_and_cancelling_again_and_again_fills_nothing(resting: Jobs, table: JobTable) -> None:
    done = [resting.ask("verify", "calls", {"heads": [word]}) for word in ("a", "b")]
    for job in done:
        claim(table, job, "Wim")
        assert table.finish(replace(job, state="done", result={"whole": True}), "Wim")
    for number in range(40):
        resting.cancel(resting.ask("verify", "calls", {"heads": [str(number)]}, by="Mallory"), "Mallory")
    with table._store.temporary() as rows:
        assert len(rows.ended_jobs()) == job_table.KEPT + 2
    assert all(wait(resting, job).result == {"whole": True} for job in done), "results are not pushed out"


def test_work_that_is_damaged_in_the_store_is_begun_anew(resting: Jobs, table: JobTable) -> None:
    first, second = (resting.ask("verify", "calls", {"heads": [word]}) for word in ("a", "b"))
    for job in (first, second):
        claim(table, job, "Wim")
        assert table.finish(replace(job, state="done", result={"whole": True}), "Wim")
    with table._store.temporary(writing=True) as rows:
        rows._connection.exec_driver_sql(f"UPDATE job SET words = 'zz' WHERE id = '{first.id}'")
        rows._connection.exec_driver_sql(f"UPDATE temporary_part SET data = digest WHERE owner = '{second.id} result'")
    assert resting.recent("verify", "calls") is None
    assert resting.latest("verify", "calls", {"heads": ["b"]}) is None
    for job in (first, second):
        assert resting.get(job.id) is None
        assert resting.ask("verify", "calls", job.arguments).state == "waiting"
        claim(table, job, "Wim")


def test_one_who_waits_can_cancel_it(resting: Jobs, worker: Worker) -> None:
    job = resting.ask("verify", "calls", by="Ada")
    resting.ask("verify", "calls", by="Bob")
    assert resting.cancel(job, "Cai").askers == ("Ada", "Bob")
    assert resting.cancel(job, "Ada").state == "waiting", "another one still asks for it"
    assert resting.cancel(job, "Bob").state == "cancelled"
    assert not worker.step()
    assert resting.ask("verify", "calls", by="Ada").state == "cancelled", "it is not begun unasked"
    begun = resting.ask("verify", "calls", by="Ada", again=True)
    assert (begun.id, begun.state, begun.askers) == (job.id, "waiting", ("Ada",))
    assert resting.cancel(begun, None).state == "cancelled", "as an admin"
    assert worker.step() is False


def test_what_is_worked_on_can_be_cancelled(asking: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = threading.Event()

    def slow(task: JobContext) -> JobResult:
        try:
            for k in range(10_000):
                task.tell("playing", k, 10_000)
                time.sleep(0.01)
        finally:
            stopped.set()
        return JobResult({})

    monkeypatch.setitem(job_kinds.KINDS, "whatif", slow)
    monkeypatch.setattr(job_worker, "_EVERY", 0.2)
    job = asking.ask("whatif", "calls", {"budgets": [1]}, by="Ada")
    wait(asking, job, lambda job: job.total > 0)
    asking.cancel(job, "Ada")
    assert stopped.wait(PATIENCE)
    done = wait(asking, asking.ask("verify", "calls"))
    assert done.state == "done", "the worker goes on with what is next"
    found = asking.get(job.id)
    assert found is not None
    assert found.state == "cancelled"


def test_what_takes_too_long_is_stopped(asking: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(task: JobContext) -> JobResult:
        while True:
            task.tell("playing", 1, 2)
            time.sleep(0.01)

    monkeypatch.setitem(job_kinds.KINDS, "whatif", slow)
    monkeypatch.setitem(job_kinds.MOST_SECONDS, "whatif", 0.5)
    failed = wait(asking, asking.ask("whatif", "calls", {"budgets": [1]}, by="Ada"))
    assert failed.state == "failed"
    assert failed.error.startswith("This took longer than")


def test_progress_is_written_once_a_second_at_most(
    asking: Jobs, monkeypatch: pytest.MonkeyPatch, table: JobTable
) -> None:
    writes = []
    kept = table.update

    def update(self: JobTable, job: Job, worker: str) -> bool:
        writes.append(time.monotonic())
        return kept(job, worker)

    def quick(task: JobContext) -> JobResult:
        for k in range(250):
            task.tell("playing", k, 250)
            time.sleep(0.01)
        return JobResult({})

    monkeypatch.setattr(JobTable, "update", update)
    monkeypatch.setitem(job_kinds.KINDS, "whatif", quick)
    wait(asking, asking.ask("whatif", "calls", {"budgets": [1]}))
    assert 1 <= len(writes) <= 5
    assert all(late - early >= 1.0 for early, late in pairwise(writes))


def test_results_are_forgotten_with_a_person(asking: Jobs) -> None:
    job = asking.ask("report", "calls", now=True)
    assert content(asking, job)
    asking.forget("calls")
    assert asking.get(job.id) is None
    assert content(asking, job) == b""


@pytest.mark.parametrize("id_", ["", ".", "..", "../jobs", "a/b", "é", "0" * 32])
def test_an_id_that_is_none_finds_nothing(asking: Jobs, id_: str) -> None:
    assert asking.get(id_) is None


def test_the_folder_is_for_nobody_else(asking: Jobs, tmp_path: Path) -> None:
    asking.ask("report", "calls", now=True)
    assert (tmp_path / "run" / "now").stat().st_mode & 0o077 == 0
    assert not any((tmp_path / "run" / "now").iterdir()), "nothing of the work is left there"


def test_an_export_names_nobody_and_has_its_verifier(asking: Jobs, calls: Clinic, tmp_path: Path) -> None:
    import io
    import subprocess
    import sys
    import zipfile

    done = asking.ask("export", "calls", now=True)
    with zipfile.ZipFile(io.BytesIO(content(asking, done))) as file:
        names = file.namelist()
        file.extractall(tmp_path / "out")
    assert not [name for name in names if "private" in name]
    ledger = tmp_path / "out" / "ledger-calls"
    found = subprocess.run([sys.executable, "verify.py"], cwd=ledger, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
    with calls.programme.store.reading("calls") as session:
        hidden = session.secret.hex().encode()
    assert not [file for file in ledger.rglob("*") if file.is_file() and hidden in file.read_bytes()]


def test_a_job_whose_worker_died_is_taken_over_once(
    resting: Jobs, table: JobTable, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = resting.ask("verify", "calls")
    monkeypatch.setattr(job_table, "LEASE", -1)
    claim(table, job, "dead")
    monkeypatch.undo()
    assert worker.step()
    done = resting.get(job.id)
    assert done is not None
    assert (done.state, done.tries) == ("done", 2)


def test_a_job_whose_worker_died_twice_has_failed(
    resting: Jobs, table: JobTable, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = resting.ask("verify", "calls")
    monkeypatch.setattr(job_table, "LEASE", -1)
    for name in ("dead", "dead, too"):
        claim(table, job, name)
    monkeypatch.undo()
    assert not worker.step()
    failed = resting.get(job.id)
    assert failed is not None
    assert failed.state == "failed"
    assert failed.error.startswith("The process that worked on this ended twice")


def test_a_job_that_someone_works_on_is_left_to_them(resting: Jobs, table: JobTable, worker: Worker) -> None:
    job = resting.ask("verify", "calls")
    claim(table, job, "another")
    table.put_back("Wim")
    assert not worker.step()
    kept = resting.get(job.id)
    assert kept is not None
    assert kept.state == "running"
    table.put_back("another")
    back = resting.get(job.id)
    assert back is not None
    assert (back.state, back.tries) == ("waiting", 1)


def _run_with_a_slow_verification(settings: ServerSettings, first: bool) -> None:
    from meritfair.web import job_process

    if first:

        def never(task: JobContext) -> JobResult:
            task.tell("checking", 1, 10)
            time.sleep(PATIENCE)
            return JobResult({})

        job_kinds.KINDS["verify"] = never
    job_process.run(settings)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_process_that_is_ended_loses_no_job(
    calls: Clinic, store_url: str, tmp_path: Path, how: signal.Signals
) -> None:
    settings = ServerSettings(store=store_url, run_folder=str(tmp_path / "run"), job_process=True)
    asked = Jobs(settings, Store(settings.store))
    job, spawn = asked.ask("verify", "calls"), multiprocessing.get_context("spawn")
    first = spawn.Process(target=_run_with_a_slow_verification, args=(settings, True))
    first.start()
    wait(asked, job, lambda job: job.state == "running" and job.done == 1)
    assert first.pid is not None
    (tmp_path / "run" / "jobs" / "left").touch()
    os.kill(first.pid, how)
    first.join()
    second = spawn.Process(target=_run_with_a_slow_verification, args=(settings, False))
    second.start()
    try:
        done = wait(asked, job)
        assert (done.state, done.tries) == ("done", 2 if how == signal.SIGKILL else 1)
        assert done.result is not None
        assert done.result["whole"]
        assert not (tmp_path / "run" / "jobs" / "left").exists(), "a copy of the store may be there"
    finally:
        second.terminate()
        second.join()


def _run_what_does_not_listen(settings: ServerSettings) -> None:
    from meritfair.web import job_process

    def deaf(task: JobContext) -> JobResult:
        task.tell("playing", 1, 10)
        time.sleep(PATIENCE)
        return JobResult({})

    job_kinds.KINDS["whatif"] = deaf
    job_worker._EVERY, job_worker._GRACE = 0.2, 0.5
    job_process.run(settings)


def test_a_process_ends_to_stop_what_does_not_listen(calls: Clinic, store_url: str, tmp_path: Path) -> None:
    settings = ServerSettings(store=store_url, run_folder=str(tmp_path / "run"), job_process=True)
    asked = Jobs(settings, calls.programme.store)
    job = asked.ask("whatif", "calls", {"budgets": [1]}, by="Ada")
    process = multiprocessing.get_context("spawn").Process(target=_run_what_does_not_listen, args=(settings,))
    process.start()
    try:
        wait(asked, job, lambda job: job.done == 1)
        asked.cancel(job, "Ada")
        process.join(PATIENCE)
        assert process.exitcode == STOPPED
    finally:
        process.kill()
        process.join()
    found = asked.get(job.id)
    assert found is not None
    assert found.state == "cancelled"
