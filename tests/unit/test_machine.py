"""Whether a simulation fits this machine: what cannot be held or played is refused before anything is made for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import meritfair as mf
from meritfair.core import machine
from meritfair.lab.spec import Spec
from meritfair.lab.tasks import tasks

ARMS = mf.datasets.synthetic(5, seed=1)
USUAL: dict[str, Any] = {"budget": 1, "episodes": 10, "horizon": 200, "runs": 2}
TOO_LARGE = [
    ({"episodes": 10**11}, r"100,000,000,000 episodes .* TB of memory, and 8 GB are available: lower episodes, runs"),
    ({"runs": 10**11}, r"100,000,000,000 runs .* TB of memory"),
    ({"runs": 10**400}, r"years on 2 cores: lower"),
    ({"horizon": 10**20}, r"100,000,000,000,000,000,000 steps of 5 arms would take at least .* years on 2 cores"),
    ({"horizon": 2**63}, r"years on 2 cores: lower horizon, episodes, runs or arms"),
]


@pytest.fixture(autouse=True)
def two_cores_and_8_gigabytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "available_cores", lambda: 2)
    monkeypatch.setattr("meritfair.simulation.simulate.available_cores", lambda: 2)
    monkeypatch.setattr(machine, "available_memory", lambda: 8 * 10**9)


@pytest.mark.parametrize(("changes", "message"), TOO_LARGE)
@pytest.mark.parametrize("play", [mf.simulate, mf.compare])
def test_what_is_too_large_is_refused_before_it_is_played(play: Any, changes: dict[str, int], message: str) -> None:
    policies = "random" if play is mf.compare else mf.Random()
    with pytest.raises(mf.InputError, match=message):
        play(ARMS, [policies] if play is mf.compare else policies, **{**USUAL, **changes})


def test_a_run_is_not_longer_than_its_counts_are_exact() -> None:
    with pytest.raises(mf.InputError, match="a run must have at most 9,007,199,254,740,992 steps"):
        machine.check_size(1, runs=1, episodes=10, horizon=10**15)


def test_a_comparison_counts_all_its_policies() -> None:
    long = {**USUAL, "episodes": 10**7, "runs": 4}  # 2 GB each
    machine.check_size(5, runs=4, episodes=10**7, horizon=200)
    with pytest.raises(mf.InputError, match=r"5 policies with 4 runs .* at least 9 GB of memory, and 8 GB"):
        mf.compare(ARMS, ["random", "optimal", "merit-fair"], **long)


def test_no_arms_are_made_for_runs_that_memory_cannot_hold() -> None:
    for n_arms, runs in ((5, 10**11), (10**13, 1)):
        with pytest.raises(mf.InputError, match=rf"n_arms = {n_arms:,}, runs = {runs:,}\) .* lower arms or runs"):
            mf.datasets.instances("synthetic", n_arms, runs)
    for make in (mf.datasets.synthetic, mf.datasets.synthetic_alternate, mf.datasets.cpap):
        with pytest.raises(mf.InputError, match=r"10,000,000,000,000, runs = 1\) .* TB of memory, and 8 GB"):
            make(10**13)


@pytest.mark.parametrize("policy", ["fawt", "fawt-q"])
def test_windows_fit_into_memory(policy: str) -> None:
    with pytest.raises(mf.InputError, match=r"1,000,000,000,000 pulls of 5 arms in every window .* lower least"):
        mf.simulate(ARMS, f"{policy}:least=1000000000000", **USUAL)


def test_what_fits_is_not_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    machine.check_size(5, runs=30, episodes=10_000, horizon=200)  # the paper's own
    machine.check_size(1_000_000, runs=1, episodes=1000, horizon=1000)
    machine.check_size(5, runs=1, episodes=10**8, horizon=200)
    monkeypatch.setattr(machine, "available_memory", lambda: None)  # a system that does not say
    machine.check_size(5, runs=1, episodes=10**12, horizon=20)


def test_the_memory_of_a_run_is_not_overestimated() -> None:
    run = mf.simulate(ARMS, mf.Random(), **{**USUAL, "runs": 3})
    held = sum(value.nbytes for value in vars(run).values() if isinstance(value, np.ndarray))
    estimate = 3 * (machine._PER_EPISODE * 10 + machine._PER_ARM * 5)
    assert 0.9 * held < estimate <= held


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"/proc/meminfo": "MemTotal: 9 kB\nMemAvailable:   4 kB\nSwapFree:  1 kB\n"}, 5 * 1024),
        ({"/proc/meminfo": "MemAvailable:   4 kB\n", "/sys/fs/cgroup/memory.max": "3000\n"}, 3000),
        ({"/proc/meminfo": "MemAvailable:   4 kB\n", "/sys/fs/cgroup/memory.max": "max\n"}, 4096),
        ({"/proc/meminfo": "MemAvailable: 4 kB\n", "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9999"}, 4096),
    ],
)
def test_memory_is_what_the_system_and_the_container_leave(
    files: dict[str, str], expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(machine, "_text", lambda file: files.get(file, ""))
    assert machine.available_memory() == expected


def test_memory_may_be_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(machine, "_text", lambda file: "")
    monkeypatch.setattr("os.sysconf_names", {})
    assert machine.available_memory() is None


def test_a_spec_that_nobody_can_play_is_refused() -> None:
    usual: dict[str, Any] = {"datasets": "cpap", "sizes": [(5, 1)], "policies": "random"}
    with pytest.raises(mf.InputError, match=r"sizes: 1 run .* years on 1 core"):
        Spec(**usual, episodes=10, horizon=10**20)
    with pytest.raises(mf.InputError, match=r"sizes: 1 run .* TB of memory"):
        Spec(**usual, episodes=10**11)
    with pytest.raises(mf.InputError, match=r"a list of 100,000,000,000 tasks .* lower runs"):
        tasks([Spec(**usual, episodes=10, runs=10**12)])
