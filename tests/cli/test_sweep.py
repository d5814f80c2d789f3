"""`meritfair sweep` and `meritfair results`, as a person or a script uses them."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import meritfair as mf
from meritfair.lab import read_results, sweep
from meritfair.lab.tasks import play_shard
from meritfair.policies import registry
from meritfair.policies.base import Policy
from meritfair.policies.plans import Lottery
from meritfair.policies.view import View

SPEC = """\
# two ways to estimate, for two sizes
datasets = ["cpap", {name = "cpap", noise = 0.2}]
sizes    = [[5, 1], [10, 2]]
policies = ["merit-fair", "merit-fair:estimate=mean"]
episodes = 4
horizon  = 20
runs     = 12
seed     = 5
"""


@contextmanager
def here(workers: int | None = None) -> Iterator[Executor]:
    """Play in this process, which starts faster than others."""
    with ThreadPoolExecutor(1) as pool:
        yield pool


@pytest.fixture
def call(command: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sweep, "processes", here)
    Path("spec.toml").write_text(SPEC)
    return command


@dataclass(frozen=True)
class Fragile(Policy):
    """Fails in its third episode."""

    name: ClassVar[str] = "fragile"

    def plan(self, view: View) -> Lottery:
        if view.episode > 2:
            raise ZeroDivisionError("out of luck")
        return Lottery(np.ones(view.counts.visits.shape[:-2]))


def test_a_sweep_says_what_it_will_do_and_what_it_did(call: Any) -> None:
    answer = call("sweep", "spec.toml", "--out", "found")
    assert answer.code == 0
    first, *_, last = answer.out.splitlines()
    assert first == "8 settings of 12 runs: 16 tasks, 57,600 arm-steps"
    assert "played 16 tasks in " in answer.out
    assert last == "Show the results: meritfair results found; in the browser: meritfair view found"
    assert Path("found/spec.toml").read_text() == SPEC
    assert len(list(Path("found/shards").iterdir())) == 16
    again = call("sweep", "spec.toml", "--out", "found")
    assert "\nall 16 tasks are done already\nplayed 0 tasks in 0 s, kept 16\n" in again.out
    forced = call("sweep", "spec.toml", "--out", "found", "--force")
    assert "played 16 tasks in" in forced.out
    assert ", kept 0\n" in forced.out


def test_json_for_a_script(call: Any) -> None:
    answer = call("sweep", "spec.toml", "--out", "found", "--json")
    told = json.loads(answer.out)
    assert told.pop("seconds") >= 0
    assert told == {
        "folder": "found",
        "settings": 8,
        "tasks": 16,
        "played": 16,
        "kept": 0,
        "failed": [],
        "damaged": [],
        "foreign": 0,
    }
    shown = json.loads(call("results", "found", "--json").out)
    assert len(shown["settings"]) == 8
    assert shown["settings"][0]["good_state"] == read_results("found").rows()[0]["good_state"]
    assert (shown["missing"], shown["damaged"], shown["files"]) == (0, [], [])
    assert shown["versions"]["numpy"] == np.__version__


def test_a_changed_spec_and_a_damaged_shard(call: Any) -> None:
    call("sweep", "spec.toml", "--out", "found")
    kept = read_results("found").manifest.tasks[-1]
    file = Path("found/shards") / f"{kept.key}.parquet"
    file.write_bytes(file.read_bytes()[:-20])
    Path("spec.toml").write_text(SPEC.replace("[5, 1], ", "").replace("runs     = 12", "runs     = 10"))
    answer = call("sweep", "spec.toml", "--out", "found")
    assert answer.out.splitlines()[1] == "all 4 tasks are done already"
    assert "ignored, from other specs or versions: 12 shards" in answer.out
    Path("spec.toml").write_text(SPEC)
    answer = call("sweep", "spec.toml", "--out", "found")
    assert answer.out.splitlines()[1] == "15 of 16 tasks are done already"
    assert f"damaged, played again: {file}\n" in answer.out
    assert call("results", "found").err == ""


def test_tasks_that_fail_are_named_and_the_rest_goes_on(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_POLICIES", {**registry._POLICIES, "fragile": Fragile})
    Path("spec.toml").write_text(SPEC.replace('"merit-fair",', '"fragile",').replace("[5, 1], ", ""))
    answer = call("sweep", "spec.toml", "--out", "found")
    assert answer.code == 1
    assert "played 4 tasks in " in answer.out
    problem = "cpap:noise=0.2, 10 arms, budget 2, merit exponential:c=3, runs 10 to 11: ZeroDivisionError: out of luck"
    assert f"failed: fragile on {problem}" in answer.err
    assert "4 tasks failed; run the same command again to retry\n" in answer.err
    told = json.loads(call("sweep", "spec.toml", "--out", "found", "--json").out)
    assert [(each["setting"]["policy"], each["first"], each["runs"]) for each in told["failed"]] == [
        *[("fragile", 0, 10), ("fragile", 0, 10), ("fragile", 10, 2), ("fragile", 10, 2)]
    ]
    shown = call("results", "found")
    assert shown.code == 0
    assert "4 of 8 tasks are missing: " in shown.err


def test_an_interrupt_says_how_to_go_on(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(ThreadPoolExecutor):
        calls = 0

        def submit(self, *arguments: Any, **options: Any) -> Any:
            Interrupted.calls += arguments[0] is play_shard  # those before are for getting ready
            if Interrupted.calls > 4:
                raise KeyboardInterrupt
            future = super().submit(*arguments, **options)
            future.exception()
            return future

    @contextmanager
    def interrupted(workers: int) -> Iterator[Executor]:
        with Interrupted(1) as pool:
            yield pool

    monkeypatch.setattr(sweep, "processes", interrupted)
    answer = call("sweep", "spec.toml", "--out", "found")
    assert answer.code == 130
    lines = [line for line in answer.err.splitlines() if line.strip()]
    assert lines == ["stopped: 4 of 16 tasks are done; run the same command again to resume"]
    monkeypatch.setattr(sweep, "processes", here)
    assert ", kept 4\n" in call("sweep", "spec.toml", "--out", "found").out


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
def test_a_real_interrupt_and_real_workers(tmp_path: Path) -> None:
    (tmp_path / "spec.toml").write_text(SPEC.replace("episodes = 4", "episodes = 20000").replace("= 20\n", "= 200\n"))
    arguments = [sys.executable, "-m", "meritfair", "sweep", "spec.toml", "--out", "found", "--workers", "2"]
    begun = subprocess.Popen(arguments, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while not list(tmp_path.glob("found/shards/[!.]*.parquet")) and time.monotonic() < deadline:
        time.sleep(0.1)
    os.kill(begun.pid, signal.SIGINT)
    _, complaint = begun.communicate(timeout=30)
    assert begun.returncode == 130
    done = len(list(tmp_path.glob("found/shards/*.parquet")))
    assert 1 <= done < 16
    assert f"stopped: {done} of 16 tasks are done; run the same command again to resume\n" in complaint
    assert "Traceback" not in complaint


def test_a_table_for_people_fits_80_columns(call: Any) -> None:
    call("sweep", "spec.toml", "--out", "found")
    answer = call("results", "found")
    assert answer.code == 0
    assert answer.words.startswith("8 settings · 4 episodes, 20 steps each · merit exponential:c=3 · seed 5 · 12 runs")
    assert max(len(line.rstrip()) for line in answer.out.splitlines()) <= 80
    lines = [line.rstrip() for line in answer.out.splitlines()]
    begin = lines.index("cpap · 10 arms, 2 pulled")
    regret = list(read_results("found").measures.values())[2]["fairness_regret"]
    half = (regret.high - regret.low) / 2
    assert lines[begin + 1].split()[:3] == ["merit-fair", f"{regret.mean:.1f}", f"±{half:.1f}"]
    assert lines[begin + 2].startswith("  merit-fair:estimate=mean ")
    assert lines[begin + 3 : begin + 5] == ["cpap:noise=0.2", "5 arms, 1 pulled"]
    assert "After ±: half the width of the 95 % interval." in answer.words
    assert "Exposure regret" not in answer.words


def test_a_table_with_accounts_fits_80_columns(call: Any) -> None:
    changed = SPEC.replace("[[5, 1], [10, 2]]", "[[5, 1], [10, [2, 0]]]").replace("estimate=mean", "slack=1")
    Path("spec.toml").write_text(changed + 'design = "exact"\nrules = {cooldown = 2}\n')
    assert call("sweep", "spec.toml", "--out", "found").code == 0
    answer = call("results", "found")
    assert "· design exact · cooldown 2 · seed 5 · 12 runs" in answer.words
    assert max(len(line.rstrip()) for line in answer.out.splitlines()) <= 80
    assert "10 arms" in answer.out
    assert "2,0 pulled in turn" in answer.out
    assert "Largest account: most pulls" in answer.words


def test_one_policy_has_no_lines_of_its_own(call: Any) -> None:
    Path("spec.toml").write_text(SPEC.replace(', "merit-fair:estimate=mean"', "").replace("12", "1"))
    call("sweep", "spec.toml", "--out", "found")
    answer = call("results", "found")
    assert answer.words.startswith("4 settings · merit-fair · 4 episodes, 20 steps each")
    assert "\nsetting " in answer.out
    assert "\ncpap · 5 arms, 1 pulled  " in answer.out
    assert "±" not in answer.out
    Path("one.toml").write_text('datasets = "cpap"\nsizes = [5, 1]\npolicies = "random"\nepisodes = 2\nruns = 2\n')
    call("sweep", "one.toml", "--out", "one")
    assert "\nrandom  " in call("results", "one").out


def test_results_that_are_not_all_there(call: Any) -> None:
    call("sweep", "spec.toml", "--out", "found")
    first, _, third, *_ = read_results("found").manifest.tasks
    Path(f"found/shards/{first.key}.parquet").unlink()
    damaged = Path(f"found/shards/{third.key}.parquet")
    damaged.write_bytes(b"")
    answer = call("results", "found")
    assert answer.code == 0
    assert answer.err.startswith(f"damaged: {damaged}\n2 of 16 tasks are missing, 1 shard damaged: ")
    assert answer.words.startswith(
        "8 settings · 4 episodes, 20 steps each · merit exponential:c=3 · seed 5 · 2 to 12 runs"
    )
    lines = answer.out.splitlines()
    assert any(line.split()[:2] == ["policy", "runs"] for line in lines)
    assert [line.split()[1] for line in lines if line.startswith("  merit-fair")] == [*["2"] * 2, *["12"] * 6]
    told = json.loads(call("results", "found", "--json").out)
    assert (told["missing"], told["damaged"]) == (2, [str(damaged)])


def test_results_of_other_versions_are_told(call: Any) -> None:
    call("sweep", "spec.toml", "--out", "found")
    kept = Path("found/sweep.json")
    kept.write_text(kept.read_text().replace(f'"numpy": "{np.__version__}"', '"numpy": "1.0"'))
    answer = call("results", "found")
    assert answer.code == 0
    here_is = f"numpy 1.0 (here {np.__version__})"
    assert answer.err == f"played by other versions, so a new sweep would play it again: {here_is}\n"


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["csv", "parquet", "md", "tex"])
def test_the_table_is_kept(call: Any, suffix: str) -> None:
    call("sweep", "spec.toml", "--out", "found")
    answer = call("results", "found", "--out", f"table.{suffix}")
    assert answer.out.endswith(f"wrote table.{suffix}\n")
    read_results("found").save(f"again.{suffix}")
    assert Path(f"again.{suffix}").read_bytes() == Path(f"table.{suffix}").read_bytes()
    if suffix == "csv":
        with Path("table.csv").open(newline="") as stream:
            assert len(list(csv.DictReader(stream))) == 8


def test_a_file_of_arms(call: Any) -> None:
    mf.datasets.write_arms(mf.datasets.cpap(5, seed=1), "clinic.csv")
    Path("spec.toml").write_text(
        'datasets = "clinic.csv"\nsizes = [5, 1]\npolicies = "random"\nepisodes = 2\nruns = 2\n'
    )
    assert call("sweep", "spec.toml", "--out", "found").code == 0
    Path("clinic.csv").unlink()  # the folder is enough
    assert call("results", "found").words.startswith("1 setting · random · clinic.csv · 5 arms, 1 pulled ·")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sweep", "spec.toml"], "Missing option '--out'"),
        (["sweep", "nowhere.toml", "--out", "found"], "nowhere.toml: there is no such file"),
        (["sweep", "spec.toml", "--out", "spec.toml"], "spec.toml: cannot be written to: "),
        (["sweep", "spec.toml", "--out", "found", "--workers", "0"], "for each core), got 0"),
        (["sweep", "spec.toml", "--out", "found", "--workers", "two"], "must be a whole number, got 'two'"),
        (["sweep", "spec.toml", "--out", "found", "--cluster", "local:2", "--workers", "2"], "together with --cluster"),
        (["sweep", "wrong.toml", "--out", "found"], "wrong.toml, line 2: sizes: budget must be between 1 and the 5"),
        (["sweep", "late.toml", "--out", "found"], "late.toml, line 3: policies: 'fawt-q:window=3' cannot be played"),
        (["results", "nowhere"], "nowhere: there is no such folder"),
        (["results", "."], ".: has no results of a sweep in it"),
        (["results", ".", "--out", "table.xlsx"], "table.xlsx: results are kept in .csv or .parquet or .md or .tex"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_clear_line_and_exit_code_2(call: Any, arguments: list[str], message: str) -> None:
    small = 'datasets = "cpap"\nsizes = [5, 1]\npolicies = "fawt-q:window=3"\nepisodes = 2\n'
    Path("late.toml").write_text(small)
    Path("wrong.toml").write_text(small.replace("[5, 1]", "[5, 7]"))
    before = sorted(Path().rglob("*.*"))
    answer = call(*arguments)
    assert answer.code == 2
    lines = [line for line in answer.err.splitlines() if line.strip()]
    assert len(lines) == 1
    assert lines[0].startswith("meritfair: ")
    assert message in lines[0]
    assert [file for file in Path().rglob("*.*") if file not in before and "found" not in file.parts] == []
