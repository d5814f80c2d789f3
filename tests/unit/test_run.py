from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import meritfair as mf
from meritfair.simulation.plots import exposure_bars, plot_runs, regret_curve

DATA = Path(__file__).parents[1] / "data"


@pytest.fixture(scope="module")
def run() -> mf.Run:
    sets = mf.datasets.instances("cpap", 6, 4, seed=2)
    return mf.simulate(sets, mf.MeritFair(estimate="mean"), budget=2, episodes=30, horizon=20, seed=3)


@pytest.mark.parametrize("suffix", [".parquet", ".npz"])
def test_a_saved_run_comes_back_whole(run: mf.Run, tmp_path: Path, suffix: str) -> None:
    run.save(tmp_path / f"run{suffix}")
    back = mf.Run.load(tmp_path / f"run{suffix}")
    for field in dataclasses.fields(mf.Run):
        before, after = getattr(run, field.name), getattr(back, field.name)
        if field.name == "settings":
            assert before == after
        else:
            np.testing.assert_array_equal(before, after)
            assert before.dtype == after.dtype
    assert str(back.summary()) == str(run.summary())  # as text, as some numbers may be NaN
    assert [f.name for f in tmp_path.iterdir()] == [f"run{suffix}"]


@pytest.mark.parametrize("suffix", [".parquet", ".npz"])
def test_a_file_of_an_earlier_version_comes_back(suffix: str) -> None:
    # Saved by version 0.1.0, before its reader and writer became those of shards.
    back = mf.Run.load(DATA / f"run-2{suffix}")
    arms = mf.datasets.cpap(5, seed=1)
    same = mf.simulate(arms, mf.MeritFair(), budget=1, episodes=10, horizon=20, runs=3, seed=2)
    for name in ("transitions", "fair_merit"):
        np.testing.assert_array_equal(getattr(back, name), getattr(same, name))
    for name in ("fairness_regret", "fairness_regret_authors", "exposure_regret", "eta", "omega"):
        np.testing.assert_array_equal(getattr(back, name)[:, 0], getattr(same, name)[:, 0])  # before luck comes in
    assert back.reward[0].tolist() == [86, 81, 82, 81, 79, 87, 86, 85, 85, 81]
    assert back.visits.sum(axis=(0, 1)).tolist() == [[465, 114], [1935, 486]]
    assert back.good.sum(axis=(0, 1)).tolist() == [[242, 56], [1745, 431]]
    assert back.longest_wait.tolist() == [[26, 14, 15, 16, 23], [26, 22, 16, 21, 24], [16, 19, 26, 17, 13]]
    assert (back.coverage_gap.tolist(), back.fairness_regret.sum()) == ([6, 11, 11], pytest.approx(4.190629797852591))
    assert back.coverage_gap_censored.tolist() == [False, True, True]  # 11 with 10 episodes: some arm was never covered
    assert (back.settings["seed"], back.settings["problem"]["horizon"], back.runs) == (2, 20, 3)


@pytest.mark.parametrize("suffix", [".parquet", ".npz"])
def test_bounds_for_each_arm_come_back_and_are_kept(tmp_path: Path, suffix: str) -> None:
    arms, floor = mf.datasets.synthetic(4, seed=1), (0.1, 0.2, 0.0, 0.3)
    policy = mf.MeritFair(design="exact", floor=floor, cap=(1.0, 1.0, 0.5, 1.0), estimate="mean")
    run = mf.simulate(arms, policy, budget=2, episodes=3, horizon=20, seed=1)
    run.save(tmp_path / f"run{suffix}")
    back = mf.Run.load(tmp_path / f"run{suffix}")
    assert back.settings == run.settings
    assert list(back.settings["problem"]["floor"]) == list(back.settings["policy"]["floor"]) == list(floor)
    np.testing.assert_array_equal(back.fair_exposure, run.fair_exposure)
    np.testing.assert_array_equal(back.exposure_regret, run.exposure_regret)
    assert (back.fair_exposure >= floor).all()
    assert back.fair_exposure[0, 2] <= 0.5
    back.save(tmp_path / f"again{suffix}")
    assert (tmp_path / f"again{suffix}").read_bytes() == (tmp_path / f"run{suffix}").read_bytes()


@pytest.mark.parametrize("suffix", [".parquet", ".npz"])
def test_a_file_of_an_older_format_is_named(run: mf.Run, tmp_path: Path, suffix: str) -> None:
    # The format before had no exposure regret, and no design but in the policy.
    file = tmp_path / f"old{suffix}"
    run.save(file)
    if suffix == ".npz":
        with np.load(file) as stored:
            arrays = {name: stored[name] for name in stored.files if name != "exposure_regret"}
        arrays["meritfair"] = np.array(str(arrays["meritfair"]).replace("meritfair-run-2", "meritfair-run-1"))
        np.savez_compressed(file, **arrays)
    else:
        table = pq.read_table(file)
        meta = {
            name: value.replace(b"meritfair-run-2", b"meritfair-run-1") for name, value in table.schema.metadata.items()
        }
        pq.write_table(table.drop_columns("exposure_regret").replace_schema_metadata(meta), file)
    with pytest.raises(mf.FileError, match=f"old{suffix}: does not hold a whole run saved by meritfair") as raised:
        mf.Run.load(file)
    assert len(str(raised.value).splitlines()) == 1


@pytest.mark.parametrize("suffix", [".parquet", ".npz"])
def test_the_same_run_is_the_same_bytes(run: mf.Run, tmp_path: Path, suffix: str) -> None:
    run.save(tmp_path / f"a{suffix}")
    run.save(tmp_path / f"b{suffix}")
    assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()


def test_the_file_says_how_to_make_it_again(run: mf.Run, tmp_path: Path) -> None:
    run.save(tmp_path / "run.parquet")
    table = pq.read_table(tmp_path / "run.parquet")
    assert table.num_rows == 4
    assert len(table.column("fairness_regret")[0].as_py()) == 30
    meta = json.loads(table.schema.metadata[b"meritfair"])
    assert meta["seed"] == 3
    assert meta["versions"]["meritfair"] == mf.__version__
    assert meta["policy"] == {
        "name": "merit-fair",
        "merit": {"kind": "exponential", "c": 3.0},
        "delta": 0.01,
        "estimate": "mean",
        "design": "sequential",
        "floor": 0.0,
        "cap": 1.0,
        "ball": "paper",
        "slack": 0.0,
    }
    fair = {"design": "sequential", "floor": 0.0, "cap": 1.0, "ball": "paper", "delta": 0.01}
    assert {name: meta["problem"][name] for name in fair} == fair
    assert meta["problem"]["names"][0] == "non-adherer-1"


@pytest.mark.parametrize("suffix", [".parquet", ".npz"])
def test_damaged_files_are_named(run: mf.Run, tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"run{suffix}"
    run.save(file)
    whole = file.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"", b"nonsense"):
        file.write_bytes(damaged)
        with pytest.raises(mf.FileError, match=f"run{suffix}: does not hold a whole run"):
            mf.Run.load(file)


@pytest.mark.parametrize("suffix", [".parquet", ".npz"])
def test_flipped_bits_are_noticed_wherever_they_matter(run: mf.Run, tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"run{suffix}"
    run.save(file)
    whole = bytearray(file.read_bytes())
    rng = np.random.default_rng(1)
    noticed = 0
    for _ in range(150):
        place, bit = int(rng.integers(len(whole))), int(rng.integers(8))
        damaged = whole.copy()
        damaged[place] ^= 1 << bit
        file.write_bytes(damaged)
        try:
            back = mf.Run.load(file)
        except mf.FileError:
            noticed += 1
            continue
        assert back.settings == run.settings  # what is not noticed changed nothing
        for field in dataclasses.fields(mf.Run)[1:]:
            np.testing.assert_array_equal(getattr(back, field.name), getattr(run, field.name))
    assert noticed > 75


def test_other_files_are_refused(tmp_path: Path) -> None:
    mf.datasets.write_arms(mf.datasets.synthetic(3, seed=1), tmp_path / "arms.parquet")
    np.savez(tmp_path / "other.npz", x=np.ones(3))
    for name in ("arms.parquet", "other.npz"):
        with pytest.raises(mf.FileError, match="does not hold a whole run"):
            mf.Run.load(tmp_path / name)
    with pytest.raises(mf.FileError, match="there is no such file"):
        mf.Run.load(tmp_path / "none.npz")
    with pytest.raises(mf.FileError, match=r"\.parquet or \.npz"):
        mf.Run.load(tmp_path / "run.csv")


def test_saving_where_it_cannot_be_saved(run: mf.Run, tmp_path: Path) -> None:
    with pytest.raises(mf.FileError, match=r"\.parquet or \.npz"):
        run.save(tmp_path / "run.csv")
    with pytest.raises(mf.FileError, match="cannot be written"):
        run.save(tmp_path / "nowhere" / "run.npz")


def test_summary_holds_the_numbers_of_the_arrays(run: mf.Run) -> None:
    summary = run.summary()
    total = run.fairness_regret.sum(axis=1)
    assert summary["fairness_regret"].mean == pytest.approx(total.mean())
    assert summary["fairness_regret"].low < total.mean() < summary["fairness_regret"].high
    assert summary["good_state"].mean == pytest.approx(run.reward.sum() / (4 * 6 * 30 * 20))
    assert summary["longest_wait"].mean == pytest.approx(run.longest_wait.max(axis=1).mean())
    np.testing.assert_array_equal(run.t0, run.first_valid_episode)
    assert set(summary) >= {"jain", "gini", "hhi", "first_valid_episode", "coverage_gap"}
    assert np.isnan(summary["exposure_regret"].mean)  # several arms, one after another, and nobody asked
    exact = mf.simulate(run.arms, mf.MeritFair(design="exact"), budget=2, episodes=30, horizon=20, seed=3)
    total = exact.exposure_regret.sum(axis=1)
    found = exact.summary()["exposure_regret"]
    assert found.mean == pytest.approx(total.mean())
    assert found.low < total.mean() < found.high


def test_a_custom_merit_keeps_its_name(tmp_path: Path) -> None:
    merit = mf.CustomMerit(lambda mu: 2 + mu, lipschitz=1.0, name="two plus")
    arms = mf.datasets.synthetic(3, seed=1)
    run = mf.simulate(arms, mf.MeritFair(merit=merit), budget=1, episodes=2, horizon=3, seed=1)
    run.save(tmp_path / "run.npz")
    assert mf.Run.load(tmp_path / "run.npz").merit_label == "two plus"


def test_curve_and_bars_are_the_numbers_of_the_run(run: mf.Run) -> None:
    curve = regret_curve(run)
    assert curve.steps[-1] == 30 * 20
    assert curve.mean[-1] == pytest.approx(run.fairness_regret.sum(axis=1).mean())
    assert (curve.low <= curve.high).all()
    bars = exposure_bars([run])
    assert bars.given[0].sum() == pytest.approx(2)
    assert bars.fair.sum() == pytest.approx(2)
    assert (np.diff(bars.fair) > 0).all()


def test_long_runs_are_thinned_for_the_figure() -> None:
    arms = mf.datasets.synthetic(2, seed=1)
    long = mf.simulate(arms, mf.Random(), budget=1, episodes=3000, horizon=1, seed=1)
    curve = regret_curve(long)
    assert len(curve.steps) == 1000
    assert curve.steps[[0, -1]].tolist() == [1, 3000]


def test_episodes_as_a_data_frame(run: mf.Run) -> None:
    frame = run.table()
    assert list(frame)[:2] == ["run", "episode"]
    assert list(zip(frame["run"], frame["episode"], strict=True)) == [(r, t) for r in range(4) for t in range(1, 31)]
    for name in ("fairness_regret", "fairness_regret_authors", "exposure_regret", "reward", "eta", "omega"):
        np.testing.assert_array_equal(frame[name].to_numpy().reshape(4, 30), getattr(run, name))
    assert frame.groupby("run")["reward"].sum().tolist() == run.reward.sum(axis=1).tolist()


def test_arms_as_a_data_frame(run: mf.Run) -> None:
    frame = run.table("arms")
    assert frame["arm"].tolist() == list(run.arms[0].names) * 4
    np.testing.assert_array_equal(frame["benefit"].to_numpy().reshape(4, 6), [arms.benefit for arms in run.arms])
    for name in ("pulls", "exposure", "fair_exposure", "longest_wait"):
        np.testing.assert_array_equal(frame[name].to_numpy().reshape(4, 6), getattr(run, name))
    later = mf.simulate(run.arms, mf.Random(), budget=2, episodes=1, horizon=2, seed=3, first_run=20)
    assert later.table("arms")["run"].unique().tolist() == [20, 21, 22, 23]
    with pytest.raises(mf.InputError, match="what must be one of episodes, arms, got 'steps'"):
        run.table("steps")  # type: ignore[arg-type]


def test_a_table_is_a_data_frame_everywhere_and_needs_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    programme = mf.datasets.clinic(n_arms=12, rounds=30, budget=3, seed=1)
    arms = mf.datasets.cpap(n_arms=4, seed=1)
    short: Any = {"budget": 1, "episodes": 2, "horizon": 3, "seed": 1}
    found: list[Any] = [
        mf.simulate(arms, "random", **short),
        mf.compare(arms, ["random"], **short),
        mf.fit(programme),
        mf.effect(programme),
        mf.whatif(programme, ["random"], rounds=4, draws=20),
        mf.audit(mf.DrawLog([1, 1, 2, 2], ["Ada", "Bo"] * 2, [0.5] * 4, [1, 0, 0, 1])),
    ]
    tables = [each.table() for each in found]
    assert {type(table) for table in tables} == {pd.DataFrame}
    for each, table in zip(found[1:5], tables[1:5], strict=True):
        assert str(table.to_dict("records")) == str(each.rows())  # as text, as some numbers are NaN
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    for each in found:
        with pytest.raises(mf.MissingExtraError, match=r"a DataFrame needs .* pip install 'meritfair\[lab\]'"):
            each.table()


def test_a_notebook_shows_the_main_measures(run: mf.Run) -> None:
    page = ET.fromstring(f"<div>{run._repr_html_()}</div>".replace("<br>", "<br/>"))  # well-formed
    rows = [["".join(cell.itertext()) for cell in row] for row in page.iter("tr")]
    mean, low, high = run.summary()["gini"]
    assert ["Gini", f"{mean:.2f}{low:.2f} to {high:.2f}"] in rows
    assert rows[1][0] == "fairness regret"
    assert repr(run) in run._repr_html_()
    assert "exposure regret" not in dict(rows)  # several arms drawn one after another: not known
    assert "largest account" not in dict(rows)


def test_figure_has_both_panels_with_labels(run: mf.Run, tmp_path: Path) -> None:
    other = mf.simulate(run.arms, mf.Optimal(), budget=2, episodes=30, horizon=20, seed=3)
    figure = plot_runs([run, other], ["ours", "$\\frac{$"])  # no mathematics
    left, right = figure.axes
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["ours", r"\$\frac{\$", "fair exposure"]
    assert len(right.patches) == 2 * 6  # a bar for each policy and arm
    assert left.get_xlabel() == "steps"
    assert len(left.lines) == 2
    assert len(left.collections) == 2  # a band for each
    for suffix in ("png", "svg", "pdf"):
        figure.savefig(tmp_path / f"figure.{suffix}")
    assert len(run.plot().axes) == 2


def test_figure_refuses_runs_that_do_not_belong_together(run: mf.Run) -> None:
    other = mf.simulate(mf.datasets.synthetic(2, seed=1), mf.Random(), budget=1, episodes=2, horizon=2, seed=1)
    for runs in ([], [run, other]):
        with pytest.raises(mf.InputError, match="same number of arms and budget"):
            plot_runs(runs)


def test_figures_without_matplotlib_say_what_to_install(run: mf.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.style", None)
    with pytest.raises(mf.MissingExtraError, match=r"pip install 'meritfair\[plots\]'"):
        run.plot()
