from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import meritfair as mf
from meritfair.cli import main
from meritfair.simulation import bench


@pytest.mark.slow
def test_the_compiled_loop_has_the_law_of_the_engine() -> None:
    # Else the ratio would compare two different things. Means over runs, z-tests at five standard errors.
    arms, runs, rng = mf.datasets.synthetic(6, seed=3), 300, np.random.default_rng(5)
    policy = mf.MeritFair(merit=mf.Exponential(2.0))
    run = mf.simulate(arms, policy, budget=2, episodes=15, horizon=40, runs=runs, seed=1)
    fair = mf.merit_share(run.fair_merit[0])
    plain = [bench._compiled_loop(arms.transitions, fair, 2, 2.0, 0.01, 40, rng, 15) for _ in range(runs)]
    for ours, theirs in (
        (run.fairness_regret[:, 1:], np.array([p[0][1:] for p in plain])),
        (run.reward, np.array([p[1] for p in plain])),
    ):
        error = np.sqrt((ours.var(axis=0) + theirs.var(axis=0)) / runs)
        assert np.abs((ours - theirs).mean(axis=0) / error).max() < 5
        assert np.abs((ours - 1.1 * theirs).mean(axis=0) / error).max() > 5  # an error of 10 % would be found


def test_the_compiled_loop_is_the_same_compiled_and_in_python() -> None:
    arms = mf.datasets.synthetic(6, seed=3)
    fair = mf.merit_share(mf.Exponential(2.0)(arms.benefit))
    (regret, reward), (same_regret, same_reward) = (
        loop(arms.transitions, fair, 2, 2.0, 0.01, 40, np.random.default_rng(5), 4)
        for loop in (bench._compiled_loop, bench._plain_loop)
    )
    assert np.allclose(regret, same_regret, rtol=1e-12)
    assert reward.tolist() == same_reward.tolist()


@pytest.mark.slow
def test_bench_shows_three_tables_and_writes_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(bench, "CASES", [("merit-fair", 5, 1, 3)])
    out = tmp_path / "bench.json"
    with pytest.raises(SystemExit, match="0"):
        main(["bench", "--quick", "--out", str(out)])
    shown = capsys.readouterr().out
    for words in ("arm-step", "priority table", "10,000", "workers", "× one worker"):
        assert words in shown
    results = json.loads(out.read_text())
    first, table = results["policies"]
    assert first["ratio_to_plain"] > 0  # how much is for people to look at: a timing decides no test
    assert first["ratio_to_python"] > 0
    assert table["policy"] == "priority table"
    assert first["ns_per_arm_step"] == pytest.approx(first["seconds"] * 1e9 / (1000 * 200 * 5))
    assert [row["arms"] for row in results["sizes"]] == [100, 1000, 10_000]
    assert results["workers"][0]["times_one_worker"] == 1
    assert results["machine"]["cores"] >= 1
