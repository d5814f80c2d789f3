"""What a sweep leaves behind, and how it is read: tables, DataFrames, folders that are not whole."""

from __future__ import annotations

import copy as copies
import csv
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import meritfair as mf
from meritfair.lab import load, read_results, read_spec, run_spec, run_sweep, store
from meritfair.lab import tasks as tasks_module
from meritfair.lab.results import Wording
from meritfair.lab.spec import Setting, Spec, SpecError
from meritfair.lab.store import Manifest, Store, keep_manifest
from meritfair.lab.sweep import SweepSummary
from meritfair.lab.tasks import CURVES, Task, curve_episodes, play, tasks
from meritfair.simulation.bootstrap import interval

SPEC = Spec(
    datasets=("cpap", "cpap:noise=0.2"),
    sizes=((5, 1), (6, 2)),
    policies=("random", "none"),
    episodes=3,
    horizon=20,
    runs=12,
    seed=4,
)


@contextmanager
def here() -> Iterator[Executor]:
    """Play in this process."""
    with ThreadPoolExecutor(1) as pool:
        yield pool


def run(spec: Spec, folder: Path) -> SweepSummary:
    return run_spec(spec, folder, executor=here())


def small(**changes: Any) -> Spec:
    same: Any = {"datasets": ("cpap",), "sizes": ((5, 1),), "policies": ("random",), "episodes": 2, "horizon": 10}
    return Spec(**{**same, "runs": 12, **changes})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a finished sweep; tests leave it as it is."""
    place = tmp_path_factory.mktemp("sweep") / "found"
    assert run(SPEC, place).played == 16
    return place


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    """Return a folder of the same contents, to be broken."""
    for name in ("shards", ""):
        (tmp_path / "found" / name).mkdir(parents=True, exist_ok=True)
        for file in (folder / name).glob("[!.]*.*"):
            (tmp_path / "found" / name / file.name).write_bytes(file.read_bytes())
    return tmp_path / "found"


# --- what is found -----------------------------------------------------------


def test_t0_and_g_that_are_not_known_are_marked_in_every_table(folder: Path, tmp_path: Path) -> None:
    # In 3 episodes of 20 steps with nobody pulled t0 is at least 3, and G at least 4, in every run.
    found = read_results(folder)
    for row in found.rows():
        if row["policy"] == "none":
            assert (row["first_valid_episode"], row["coverage_gap"]) == (3, 4)
            assert row["first_valid_episode_censored"] == row["coverage_gap_censored"] == 1
    found.save(tmp_path / "found.md")
    text = (tmp_path / "found.md").read_text()
    assert "| ≥ 3 (3 to 3) | ≥ 4 (4 to 4) |" in text
    assert "≥: a lower bound" in text
    found.save(tmp_path / "found.csv")
    with (tmp_path / "found.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    assert {row["coverage_gap_censored"] for row in rows if row["policy"] == "none"} == {"1.0"}


def test_a_single_run_that_knows_its_g_is_not_marked(tmp_path: Path) -> None:
    run(small(policies=("merit-fair",), episodes=300, horizon=200, runs=1), tmp_path)
    found = read_results(tmp_path)
    (row,) = found.rows()
    assert row["first_valid_episode_censored"] == row["coverage_gap_censored"] == 0
    found.save(tmp_path / "found.md")
    assert "≥" not in (tmp_path / "found.md").read_text()


def test_measures_are_means_of_the_runs_with_the_intervals_of_simulate(folder: Path) -> None:
    found = read_results(folder)
    assert tuple(found.outcomes) == SPEC.settings()
    for setting in SPEC.settings()[2:4]:
        direct = play(Task(setting, 0, 12)).measures
        assert set(found.measures[setting]) == set(direct)
        for name, values in direct.items():
            np.testing.assert_array_equal(found.outcomes[setting].measures[name], values)
            np.testing.assert_allclose(found.measures[setting][name], interval(values, seed=4), rtol=1e-12, atol=1e-12)


def test_a_table_has_settings_runs_and_measures(folder: Path) -> None:
    rows = read_results(folder).rows()
    assert list(rows[0])[:8] == [*("dataset", "n_arms", "budget", "policy", "merit", "episodes", "horizon", "design")]
    assert [(row["dataset"], row["n_arms"], row["policy"]) for row in rows[2:5]] == [
        *[("cpap", 6, "random"), ("cpap", 6, "none"), ("cpap:noise=0.2", 5, "random")]
    ]
    assert {(row["runs"], row["seed"], row["delta"]) for row in rows} == {(12, 4, 0.01)}
    assert all(row["good_state_low"] <= row["good_state"] <= row["good_state_high"] for row in rows)


def test_tables_are_data_frames_of_settings_runs_or_curves(folder: Path) -> None:
    found = read_results(folder)
    settings, runs, curves = (found.table(what) for what in ("settings", "runs", "curves"))
    assert str(settings.to_dict("records")) == str(found.rows())  # as text, as some numbers are NaN
    assert (len(settings), len(runs)) == (len(found.outcomes), 12 * len(found.outcomes))
    assert runs.equals(load(folder))
    assert curves.equals(load(folder, curves=True))
    with pytest.raises(mf.InputError, match="what must be one of settings, runs, curves, got 'arms'"):
        found.table("arms")  # type: ignore[arg-type]


def test_files_have_the_columns_that_are_asked_for(folder: Path, tmp_path: Path) -> None:
    found = read_results(folder)
    found.save(tmp_path / "table.csv", columns=["jain", "largest_eta"])
    with (tmp_path / "table.csv").open(newline="") as stream:
        kept = list(csv.DictReader(stream))
    ends = ("", "_low", "_high")
    assert list(kept[0])[-7:] == ["runs", *(name + end for name in ("jain", "largest_eta") for end in ends)]
    found.save(tmp_path / "table.md", columns=["jain", "largest_eta"])
    text = (tmp_path / "table.md").read_text(encoding="utf-8")
    assert "| policy | Jain | largest eta |\n" in text
    for suffix in ("csv", "parquet", "md", "tex"):
        with pytest.raises(mf.InputError, match="there is no measure 'jian', did you mean 'jain'"):
            found.save(tmp_path / f"other.{suffix}", columns=["jian"])


def test_files_of_numbers_have_all_of_it(folder: Path, tmp_path: Path) -> None:
    found = read_results(folder)
    rows = found.rows()
    found.save(tmp_path / "table.csv")
    with (tmp_path / "table.csv").open(newline="") as stream:
        kept = list(csv.DictReader(stream))
    assert list(kept[0]) == list(rows[0])
    assert [float(row["fairness_regret_high"]) for row in kept] == [row["fairness_regret_high"] for row in rows]
    assert kept[1]["gini"] == ""  # nobody is pulled
    found.save(tmp_path / "table.parquet")
    table = pq.read_table(tmp_path / "table.parquet")
    assert table.column("good_state").to_pylist() == [row["good_state"] for row in rows]
    about = json.loads(table.schema.metadata[b"meritfair"])
    assert about == {"versions": tasks_module.versions(), "missing": 0}


def test_files_for_people_have_what_differs_and_what_people_look_at(folder: Path, tmp_path: Path) -> None:
    found = read_results(folder)
    assert found.description == ("8 settings · 3 episodes, 20 steps each · merit exponential:c=3 · seed 4 · 12 runs")
    found.save(tmp_path / "table.md")
    remark, _, head, _, first, *_ = (tmp_path / "table.md").read_text().splitlines()
    assert remark.startswith('<!-- meritfair {"missing": 0, "versions"')
    assert head.startswith("| data set | arms | budget | policy | fairness regret | good state | Gini |")
    regret = found.measures[SPEC.settings()[0]]["fairness_regret"]
    assert first.startswith(f"| cpap | 5 | 1 | random | {regret.mean:.1f} ({regret.low:.1f} to {regret.high:.1f}) |")
    assert "with 95 % bootstrap intervals" in (tmp_path / "table.md").read_text()
    found.save(tmp_path / "table.tex")
    text = (tmp_path / "table.tex").read_text()
    assert r"cpap:noise=0.2 & 6 & 2 & none & " in text
    assert r"\begin{tabular}{lrrrrrrrrrr}" in text
    with pytest.raises(mf.FileError, match=r"table.xlsx: results are kept in .csv or .parquet or .md or .tex files"):
        found.save(tmp_path / "table.xlsx")


def test_regret_on_exposures_is_shown_where_it_was_measured(tmp_path: Path, folder: Path) -> None:
    assert "exposure_regret" not in read_results(folder).shown
    run(small(sizes=((5, 2),), exposure_regret=True, runs=2), tmp_path / "asked")
    found = read_results(tmp_path / "asked")
    assert "exposure_regret" in found.shown
    assert load(tmp_path / "asked")["exposure_regret"].dtype == np.float64  # the measure, not the question


def test_a_single_run_has_no_interval(tmp_path: Path) -> None:
    run(small(runs=1), tmp_path / "one")
    found = read_results(tmp_path / "one")
    assert np.isnan(found.measures[small().settings()[0]]["good_state"].low)
    found.save(tmp_path / "table.md")
    assert "interval" not in (tmp_path / "table.md").read_text()
    assert found.description.endswith("· 1 run")


# --- as DataFrames -----------------------------------------------------------


def test_load_has_a_row_for_each_run(folder: Path) -> None:
    frame = load(folder)
    assert len(frame) == 8 * 12
    assert list(frame.columns[:5]) == ["dataset", "n_arms", "budget", "policy", "merit"]
    chosen = frame[(frame.dataset == "cpap:noise=0.2") & (frame.n_arms == 6) & (frame.policy == "random")]
    assert list(chosen.run) == list(range(12))
    setting = next(s for s in SPEC.settings() if (s.dataset, s.n_arms, s.policy) == ("cpap:noise=0.2", 6, "random"))
    for name, values in play(Task(setting, 0, 12)).measures.items():
        np.testing.assert_array_equal(chosen[name], values)


def test_load_curves_has_a_row_for_each_run_and_episode(folder: Path) -> None:
    frame = load(folder, curves=True)
    points = curve_episodes(3)
    assert len(frame) == 8 * 12 * len(points)
    setting = SPEC.settings()[0]
    direct = play(Task(setting, 0, 12))
    chosen = frame.iloc[: 12 * len(points)]
    for name in CURVES:
        np.testing.assert_array_equal(chosen.pivot(index="run", columns="episode", values=name), direct.curves[name])
    whole = load(folder)
    last = frame[frame.episode == 3].reset_index()
    np.testing.assert_allclose(last.fairness_regret, whole.fairness_regret)


def test_load_needs_pandas(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(mf.MissingExtraError, match=r"needs the extra 'lab': pip install 'meritfair\[lab\]'"):
        load(folder)


# --- folders that are not whole, or of others --------------------------------


def test_missing_tasks_are_told_and_the_rest_is_used(copy: Path) -> None:
    first, *_ = Manifest.read(copy).tasks
    Store(copy).path(first).unlink()
    found = read_results(copy)
    assert (found.missing, found.damaged) == (1, ())
    assert found.warning.startswith("1 of 16 tasks are missing: ")
    assert list(found.outcomes[first.setting].runs) == [10, 11]
    assert found.description.endswith("· 2 to 12 runs")
    with pytest.warns(UserWarning, match="found: 1 of 16 tasks are missing"):
        assert len(load(copy)) == 8 * 12 - 10


def test_damaged_shards_are_named_and_played_again(copy: Path) -> None:
    kept = Manifest.read(copy).tasks[3]
    file = Store(copy).path(kept)
    data = file.read_bytes()
    file.write_bytes(data[:-9] + bytes([data[-9] ^ 1]) + data[-8:])
    found = read_results(copy)
    assert (found.missing, found.damaged) == (1, (file,))
    assert "1 of 16 tasks are missing, 1 shard damaged" in found.warning
    tally = run(SPEC, copy)
    assert (tally.played, tally.kept, tally.damaged) == (1, 15, (file,))
    assert file.read_bytes() == data
    assert read_results(copy).warning == ""


@contextmanager
def unreadable(file: Path) -> Iterator[None]:
    """Take all rights to a file from everyone, also from root, who has them anyway."""
    mode, user = file.stat().st_mode, os.geteuid()
    file.chmod(0)
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        if user == 0:
            os.seteuid(user)
        file.chmod(mode)


@pytest.mark.skipif(os.name != "posix", reason="there are no such rights")
@pytest.mark.parametrize("part", ["sweep.json", "shards", "a shard", "spec.toml"])
def test_what_cannot_be_read_is_named_and_not_taken_for_damage(folder: Path, part: str) -> None:
    with TemporaryDirectory() as outer:  # pytest's own folders cannot be read by others than root
        Path(outer).chmod(0o755)
        found = Path(shutil.copytree(folder, Path(outer, "found")))
        (found / "spec.toml").write_text("")
        shard = Store(found).path(Manifest.read(found).tasks[0])
        locked, named = {"shards": (shard.parent, shard), "a shard": (shard, shard)}.get(part, (found / part,) * 2)
        ways: list[Any] = [read_spec] if part == "spec.toml" else [read_results, load]
        ways += [lambda place: run(SPEC, place)] * (named == shard)  # which would be played again if it were damaged
        for way in ways:
            with (
                unreadable(locked),
                pytest.raises(mf.FileError, match=f"^{re.escape(str(named))}: cannot be read: Permission denied$"),
            ):
                way(named if part == "spec.toml" else found)


def test_a_sweep_of_which_nothing_is_done(tmp_path: Path) -> None:
    (tmp_path / "begun").mkdir()
    keep_manifest(tasks([SPEC]), tmp_path / "begun")
    found = read_results(tmp_path / "begun")
    assert (found.outcomes, found.missing, found.rows()) == ({}, 16, [])
    assert found.description == "no settings"
    with pytest.raises(mf.FileError, match="begun: has no results yet: 16 of 16 tasks are missing"):
        load(tmp_path / "begun")
    with pytest.raises(mf.FileError, match=r"there are no results in .*begun yet"):
        found.save(tmp_path / "table.csv")


def test_results_of_other_versions_can_be_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = read_results(folder)
    now = {**tasks_module.versions(), "numpy": "99.0"}
    for module in (tasks_module, store):
        monkeypatch.setattr(module, "versions", lambda: now)
    assert not Store(folder).path(tasks([SPEC])[0]).exists()  # today's shards would have other names
    found = read_results(folder)
    np.testing.assert_equal(found.rows(), before.rows())  # also where there is no number
    assert found.manifest.changed == {"numpy": (np.__version__, "99.0")}
    assert before.manifest.versions == found.manifest.versions


def test_results_of_tasks_that_were_played_without_a_spec(tmp_path: Path) -> None:
    some = small(runs=12, floor=0.1, design="exact")
    run_sweep(tasks([some, small(runs=3)]), tmp_path, executor=here())
    found = read_results(tmp_path)
    assert tuple(found.outcomes) == (*some.settings(), *small().settings())
    assert [len(each.runs) for each in found.outcomes.values()] == [12, 3]


VALUES: list[Any] = [
    None,
    True,
    -1,
    10**30,
    2.5,
    float("nan"),
    "",
    "x",
    "a\x00b",
    "\ud800",
    "../x",
    [],
    [None],
    [[]],
    {},
    {"a": 1},
]


def places(content: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Give every place in a content, of lists only the first."""
    yield at
    if isinstance(content, (dict, list)):
        for key in content if isinstance(content, dict) else range(min(len(content), 1)):
            yield from places(content[key], (*at, key))


def changed(content: Any, at: tuple[Any, ...], *value: Any) -> Any:
    """Return a content with another value in a place, or with none."""
    if not at:
        return value[0]
    other = copies.deepcopy(content)
    inner = other
    for key in at[:-1]:
        inner = inner[key]
    if value:
        inner[at[-1]] = value[0]
    else:
        del inner[at[-1]]
    return other


def test_a_manifest_with_anything_in_it_is_read_or_refused(copy: Path) -> None:
    file = copy / "sweep.json"
    whole = json.loads(file.read_text())
    texts = [json.dumps(changed(whole, at, value)) for at in places(whole) for value in VALUES]
    texts += [json.dumps(changed(whole, at)) for at in places(whole) if at]
    texts.append("[" * 100_000)
    refused = 0
    for text in texts:
        file.write_text(text)
        try:
            told = Manifest.read(copy)
        except mf.FileError:
            refused += 1
            continue
        assert isinstance(told.changed, dict)
        assert all(Store(copy).path(task).parent == copy / "shards" for task in told.tasks)
        assert Wording(tuple(task.setting for task in told.tasks) or SPEC.settings()).same
    assert 0.5 < refused / len(texts) < 1


def test_folders_without_results(tmp_path: Path, copy: Path) -> None:
    with pytest.raises(mf.FileError, match="nowhere: there is no such folder"):
        read_results(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(mf.FileError, match="file: is not a folder"):
        read_results(tmp_path / "file")
    (tmp_path / "empty").mkdir()
    with pytest.raises(mf.FileError, match="empty: has no results of a sweep in it"):
        read_results(tmp_path / "empty")
    for text in ("{", "[]", '{"format": "meritfair-sweep-99"}', '{"format": "meritfair-sweep-1"}'):
        (copy / "sweep.json").write_text(text)
        with pytest.raises(
            mf.FileError, match=r"sweep.json: cannot be read \(.+\): the sweep's command writes it again"
        ):
            read_results(copy)
    assert run(SPEC, copy).kept == 16
    assert read_results(copy).missing == 0


# --- what is written down ----------------------------------------------------


def test_a_changed_spec_uses_what_is_still_part_of_it(copy: Path) -> None:
    changed = Spec(**{**vars(SPEC), "policies": ("none", "round-robin"), "runs": 20, "sizes": ((6, 2),)})
    before = {file: file.stat().st_mtime_ns for file in (copy / "shards").iterdir()}
    tally = run(changed, copy)
    assert (tally.played, tally.kept, tally.foreign) == (6, 2, 14)  # of 12 runs, the first ten are used
    assert all(file.stat().st_mtime_ns == then for file, then in before.items())
    found = read_results(copy)
    assert tuple(found.outcomes) == changed.settings()
    assert len(load(copy)) == 4 * 20


def test_nothing_is_written_of_a_spec_that_cannot_be_played(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="'fawt-q:window=3' cannot be played on cpap with 5 arms and a budget of 1"):
        run(small(policies=("random", "fawt-q:window=3")), tmp_path / "found")
    assert not (tmp_path / "found").exists()


def test_a_folder_in_which_another_sweep_is_running_stays_as_it_is(copy: Path) -> None:
    before = (copy / "sweep.json").read_bytes()
    with Store(copy).claim(), pytest.raises(mf.FileError, match="found: another sweep is running in this folder"):
        run(small(), copy)
    assert (copy / "sweep.json").read_bytes() == before


def test_arms_of_your_own_are_written_down_and_named_in_short(tmp_path: Path) -> None:
    arms = mf.datasets.cpap(5, seed=1)
    spec = small(datasets=("cpap", "clinic.csv"), own_arms={"clinic.csv": arms}, runs=2)
    run(spec, tmp_path)
    kept = json.loads((tmp_path / "sweep.json").read_text())["own_arms"][spec.datasets[1]]
    assert mf.Arms(kept["transitions"], kept["names"]) == arms
    found = read_results(tmp_path)
    assert [found.wording.problem(setting) for setting in found.outcomes] == [["cpap"], ["clinic.csv"]]
    direct = mf.simulate(arms, mf.Random(), budget=1, episodes=2, horizon=10, runs=2, seed=0)
    np.testing.assert_array_equal(load(tmp_path).query("dataset != 'cpap'").good_state, direct.measures()["good_state"])


def test_files_of_the_same_name_are_told_apart_by_their_checksums() -> None:
    same: Any = {"n_arms": 5, "budget": 1, "policy": "random", "episodes": 1}
    one, other = (Setting(dataset="clinic", own_arms=mf.datasets.cpap(5, seed=seed), **same) for seed in (1, 2))
    wording = Wording((one, other))
    assert wording.texts(one) == [one.dataset, "random"]
    assert wording.problem(one) != wording.problem(other)
    assert Wording((one,)).dataset(one) == "clinic"


def test_accounts_rules_and_several_budgets_are_shown_where_there_are_any(tmp_path: Path, folder: Path) -> None:
    spec = small(
        sizes=((6, 2), (6, (2, 1))),
        policies=("merit-fair:slack=1", "whittle"),
        design="exact",
        rules={"cooldown": 1},
        runs=3,
    )
    run(spec, tmp_path)
    found = read_results(tmp_path)
    assert found.shown[-2:] == ["largest_account", "worst_window"]
    assert "largest_account" not in read_results(folder).shown
    assert "· cooldown 1 ·" in found.description
    rows = found.rows()
    assert [(row["budget"], row["budgets"], row["rules"]) for row in rows[1:3]] == [
        (2, "", "cooldown 1"),
        (2, "2,1", "cooldown 1"),
    ]
    for row, (setting, outcome) in zip(rows, found.outcomes.items(), strict=True):
        direct = setting.play(range(3)).measures()
        np.testing.assert_array_equal(outcome.measures["largest_account"], direct["largest_account"])
        np.testing.assert_array_equal(outcome.measures["worst_window"], direct["worst_window"])
        assert np.isnan(row["largest_account"]) == (setting.policy == "whittle")
    assert set(load(tmp_path).budgets) == {"", "2,1"}
    found.save(tmp_path / "table.parquet")
    assert pq.read_table(tmp_path / "table.parquet")["rules"].to_pylist() == ["cooldown 1"] * 4


def test_wording_has_rules_and_several_budgets() -> None:
    same: Any = {"dataset": "cpap", "policy": "random", "n_arms": 5, "episodes": 10}
    plain = Setting(budget=2, **same)
    changing = Setting(budget=2, budgets=(2, 0), rules=mf.Rules(once=True), **same)
    wording = Wording((plain, changing))
    assert wording.headings == ["budget", "rules", "policy"]
    assert [wording.texts(each) for each in (plain, changing)] == [["2", "none", "random"], ["2,0", "once", "random"]]
    assert wording.problem(plain) == ["2 pulled", "no rules"]
    assert wording.problem(changing) == ["2,0 pulled in turn", "once"]
    assert "rules" not in Wording((plain,)).same
    assert "5 arms, 2,0 pulled in turn · " in Wording((changing,)).same


def test_wording_says_what_differs_and_no_more() -> None:
    same: Any = {"dataset": "cpap", "policy": "random", "horizon": 50}
    settings = (
        Setting(n_arms=5, budget=1, episodes=10, **same),
        Setting(n_arms=5, budget=2, episodes=20, carry_states=True, seed=3, **same),
    )
    wording = Wording(settings)
    assert wording.headings == ["budget", "episodes", "carry states", "seed", "policy"]
    assert wording.texts(settings[1]) == ["2", "20", "yes", "3", "random"]
    assert wording.problem(settings[0]) == ["1 pulled", "10 episodes", "carry states: no", "seed 0"]
    assert wording.problem(settings[1]) == ["2 pulled", "20 episodes", "carry states", "seed 3"]
    assert wording.same == "random · cpap · 5 arms · 50 steps each · merit exponential:c=3"
    assert not wording.several_policies
