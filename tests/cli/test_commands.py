"""The command line, as a person or a script uses it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import meritfair as mf
from meritfair.model.theory import saturation_margin

QUICK = ["--episodes", "4", "--horizon", "10", "--runs", "2", "--seed", "1"]


@pytest.fixture
def call(command: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("COLUMNS", "200")
    return command


def test_version_and_help(call: Any) -> None:
    assert call("--version").out == f"meritfair {mf.__version__}\n"
    for words in ([], ["--help"]):
        answer = call(*words)
        assert answer.code in (0, 2)
        assert "simulate" in answer.out + answer.err
    assert "repeat for several" in " ".join(call("simulate", "--help").out.split())


def test_simulate_shows_a_table(call: Any) -> None:
    answer = call("simulate", "--dataset", "cpap", "--arms", "6", "--budget", "2", *QUICK)
    assert answer.code == 0
    assert "6 arms, 2 pulled at each step" in answer.out
    for word in ("merit-fair", "optimal", "fairness", "longest", "merit exponential:c=3 · seed 1"):
        assert word in answer.out


def test_what_a_run_that_ended_too_early_does_not_know_is_marked(call: Any) -> None:
    # Nobody is pulled, so no episode has all (s, a): after 4 episodes t0 is at least 4, G at least 5.
    cut = call("simulate", "-d", "synthetic", *QUICK, "-p", "none").out
    assert "≥ 4   ≥ 5" in cut
    assert "≥: a lower bound" in cut
    known = call("simulate", "-d", "cpap", "--runs", "1", "--episodes", "300", "--seed", "1", "-p", "merit-fair").out
    assert "≥" not in known
    values = json.loads(call("theory", "-d", "synthetic", *QUICK[:4], "--seed", "1", "--json").out)["values"]
    assert values["first_valid_episode_censored"] is values["coverage_gap_censored"] is True
    shown = call("theory", "-d", "synthetic", *QUICK[:4], "--seed", "1").out
    assert "≥ 4" in shown
    assert "≥ 5" in shown


def test_the_commands_numbers_are_those_of_the_library(call: Any) -> None:
    answer = call("simulate", "--dataset", "cpap", "--arms", "6", "--budget", "2", *QUICK, "--json", "-p", "random")
    told = json.loads(answer.out)["policies"]["random"]
    sets = mf.datasets.instances("cpap", 6, 2, seed=1)
    run = mf.simulate(sets, mf.Random(), budget=2, episodes=4, horizon=10, seed=1)
    assert told["summary"]["fairness_regret"]["mean"] == run.summary()["fairness_regret"].mean
    assert told["settings"]["seed"] == 1


def test_rules_and_a_budget_that_changes(call: Any, tmp_path: Path) -> None:
    arguments = ["--dataset", "cpap", "--arms", "6", "--budget", "2,1e0,0", "--warmup", "2", "--once", *QUICK]
    answer = call("simulate", *arguments, "--json", "-p", "random", "--out", str(tmp_path / "run.npz"))
    told = json.loads(answer.out)["policies"]["random"]
    assert told["settings"]["problem"]["budget"] == [2, 1, 0]
    rules = mf.Rules(warmup=2, once=True)
    assert told["settings"]["problem"]["rules"] == rules.settings()
    sets = mf.datasets.instances("cpap", 6, 2, seed=1)
    run = mf.simulate(sets, mf.Random(), budget=[2, 1, 0], rules=rules, episodes=4, horizon=10, seed=1)
    assert told["summary"]["good_state"]["mean"] == run.summary()["good_state"].mean
    assert mf.Run.load(tmp_path / "run.npz").rules == rules
    shown = call("simulate", *arguments, "-p", "random").words
    assert shown.startswith("6 arms, 2,1,0 pulled at steps in turn · warmup 2, once · 4 episodes of 10 steps")


def test_not_every_state_needs_to_be_seen(call: Any) -> None:
    for text, shown in (("0.5", "50 % of states seen"), ("pulled", "states seen of those pulled")):
        answer = call("simulate", "-d", "cpap", "-n", "6", "-k", "2", *QUICK, "-p", "whittle", "--observed", text)
        assert answer.code == 0
        assert shown in answer.words


def test_accounts_are_in_the_table_if_there_are_any(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    arguments = ["--dataset", "cpap", "--arms", "6", "--budget", "2", "--design", "exact", "--cooldown", "1", *QUICK]
    answer = call("simulate", *arguments, "-p", "merit-fair:estimate=mean,slack=2", "-p", "whittle")
    assert answer.code == 0
    assert "cooldown 1 · 4 episodes" in answer.words
    assert "Largest account: most pulls" in answer.words
    assert "Worst window: most pulls" in answer.words
    assert "estimate=mean," in answer.out  # in one line
    assert max(len(line.rstrip()) for line in answer.out.splitlines()) <= 80
    assert "Largest account" not in call("simulate", *arguments, "-p", "whittle").words


@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
def test_a_slack_may_be_infinite(call: Any, tmp_path: Path, suffix: str) -> None:
    arguments = ["-d", "cpap", "-p", "merit-fair:slack=inf,design=exact", *QUICK, "--out", str(tmp_path / f"a{suffix}")]
    told = json.loads(call("simulate", *arguments, "--json").out)["policies"]["merit-fair:slack=inf,design=exact"]
    assert told["settings"]["policy"]["slack"] == "inf"
    assert mf.Run.load(tmp_path / f"a{suffix}").settings == told["settings"]


def test_results_and_figure_are_kept(call: Any, tmp_path: Path) -> None:
    out, plot = tmp_path / "new" / "results", tmp_path / "figure.png"
    policies = ["-p", "merit-fair:estimate=mean", "-p", "none"]
    answer = call("simulate", "-d", "synthetic", *QUICK, *policies, "--out", str(out), "--plot", str(plot))
    assert answer.code == 0
    assert sorted(f.name for f in out.iterdir()) == ["merit-fair-estimate-mean.parquet", "none.parquet"]
    run = mf.Run.load(out / "merit-fair-estimate-mean.parquet")
    assert run.settings["policy"]["estimate"] == "mean"
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert f"wrote {plot}" in answer.out
    one = tmp_path / "one.npz"
    assert call("simulate", "-d", "synthetic", *QUICK, "-p", "random", "--out", str(one)).code == 0
    assert mf.Run.load(one).policy == "random"


def test_settings_reach_data_set_policy_and_merit(call: Any) -> None:
    answer = call(
        *["simulate", "-d", "cpap:noise=0,variant=probfair", "-n", "10", "-k", "3", *QUICK],
        *["-p", "merit-fair:delta=0.2", "--merit", "affine:slope=0.5,intercept=2", "--carry-states", "--json"],
    )
    settings = json.loads(answer.out)["policies"]["merit-fair:delta=0.2"]["settings"]
    assert settings["policy"]["delta"] == 0.2
    assert settings["policy"]["merit"] == {"kind": "affine", "slope": 0.5, "intercept": 2.0}
    assert settings["problem"]["carry_states"] is True
    assert settings["problem"]["names"][2:4] == ["non-adherer-3", "general-1"]


@pytest.mark.parametrize("name", ["simulate", "compare"])
def test_a_policy_may_have_a_merit_of_its_own(call: Any, name: str) -> None:
    text = "merit-fair:merit=affine:slope=1:intercept=1.5,estimate=mean"
    told = json.loads(call(name, "-d", "cpap", *QUICK, "-p", text, "--json").out)
    settings = told["policies"][text]["settings"] if name == "simulate" else told["settings"]
    policy = settings["policy"] if name == "simulate" else settings["policies"][text]
    assert policy["merit"] == {"kind": "affine", "slope": 1.0, "intercept": 1.5}
    assert policy["estimate"] == "mean"
    assert settings["problem"]["merit"] == {"kind": "exponential", "c": 3.0}  # by which fairness is measured
    wrong = call(name, "-d", "cpap", *QUICK, "-p", "merit-fair:merit=affine:slop=1")
    assert wrong.code == 2
    assert "affine merit has no setting 'slop', did you mean 'slope'?" in wrong.err


def test_arms_from_a_file_and_from_the_authors(call: Any, tmp_path: Path) -> None:
    arms = mf.datasets.synthetic(3, seed=4)
    mf.datasets.write_arms(arms, tmp_path / "arms.csv")
    out = tmp_path / "run.npz"
    arguments = ["-p", "random", "--out", str(out), *QUICK]
    assert call("simulate", "--arms-file", str(tmp_path / "arms.csv"), *arguments).code == 0
    assert mf.Run.load(out).arms == (arms, arms)
    assert call("simulate", "-d", "synthetic", "--authors", *arguments).code == 0
    assert mf.Run.load(out).arms[1] == mf.datasets.synthetic(5, 2, authors=True, budget=1)
    assert call("simulate", "-d", "synthetic", "--same-arms", *arguments).code == 0
    assert len(set(mf.Run.load(out).arms)) == 1


def test_a_seed_is_taken_and_shown(call: Any) -> None:
    first = json.loads(call("simulate", "-d", "synthetic", "-p", "random", *QUICK[:-2], "--json").out)
    second = json.loads(call("simulate", "-d", "synthetic", "-p", "random", *QUICK[:-2], "--json").out)
    seeds = [x["policies"]["random"]["settings"]["seed"] for x in (first, second)]
    assert seeds[0] != seeds[1]


def test_theory_shows_constants_and_bounds(call: Any) -> None:
    arguments = ["theory", "-d", "synthetic", "--authors", "--episodes", "60", "--seed", "1"]
    answer = call(*arguments)
    assert answer.code == 0
    for word in ("gamma", "Lemma 5.1", "Theorem 5.5", "above 2 T"):
        assert word in answer.out
    (line,) = (line for line in answer.out.splitlines() if "Lemma 5.1" in line)
    assert line.startswith("mean wait")  # not a limit on G, which is the longest
    values = json.loads(call(*arguments, "--json").out)["values"]
    arms = mf.datasets.synthetic(5, 1, authors=True, budget=1)
    assert values["epsilon"] == arms.epsilon
    assert values["information_limit"] == float(mf.information_limit(arms, 1, 60))
    assert values["coverage_gap_limit"] is None  # infinite
    run = mf.simulate(arms, mf.MeritFair(), budget=1, episodes=60, seed=1)
    assert values["fairness_regret"] == run.fairness_regret.sum()


def test_theory_before_the_assumption_holds_and_for_more_pulls(call: Any) -> None:
    answer = call("theory", "-d", "synthetic", "-k", "2", "--episodes", "1", "--seed", "1")
    assert answer.code == 0
    assert "does not apply: try more episodes" in answer.out
    assert "inf" in answer.out
    more = call("theory", "-d", "synthetic", "--authors", "-k", "2", "--episodes", "60", "--seed", "1")
    assert "proved for one pull" in more.out


def test_theory_says_how_far_arms_are_from_saturation_where_exposures_follow_merit(call: Any) -> None:
    arguments = ["theory", "-d", "synthetic", "-k", "2", "--episodes", "10", "--seed", "1", "--json"]
    values = json.loads(call(*arguments, "--design", "exact").out)["values"]
    assert values["saturation_margin"] == saturation_margin(mf.Exponential()(mf.datasets.synthetic(5, 1).benefit), 2)
    assert json.loads(call(*arguments).out)["values"]["saturation_margin"] is None  # the sequential draw


def test_catalogues(call: Any) -> None:
    assert "non_adherers" in call("datasets").out
    assert "exponential:c=3" in call("policies").out
    assert [row["name"] for row in json.loads(call("policies", "--json").out)] == mf.policies.names()
    names = [row["name"] for row in json.loads(call("datasets", "--json").out)]
    assert names == ["synthetic", "synthetic-alternate", "cpap"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["simulate"], "say which arms: --dataset synthetic, or --arms-file arms.csv"),
        (["simulate", "-d", "synthetic", "-k", "0"], "budget must be between 1 and the 5 arms, got 0"),
        (["simulate", "-d", "synthetic", "-k", "6"], "budget must be between 1 and the 5 arms, got 6"),
        (
            ["simulate", "-d", "synthetic", "-k", "1.5"],
            "'-k': must be a whole number, or several as in 4,4,0, got '1.5'",
        ),
        (
            ["simulate", "-d", "synthetic", "-k", "1e-1"],
            "'-k': must be a whole number, or several as in 4,4,0, got '1e-1'",
        ),
        (
            ["simulate", "-d", "synthetic", "-k", "1e999"],
            "'-k': must be a whole number, or several as in 4,4,0, got '1e999'",
        ),
        (["simulate", "-d", "synthetic", "-k", "1,x"], "whole number, or several as in 4,4,0, got '1,x'"),
        (["simulate", "-d", "synthetic", "-k", "1,"], "whole number, or several as in 4,4,0, got '1,'"),
        (["simulate", "-d", "synthetic", "-k", "1,6"], "budget must be between 0 and the 5 arms in each round, got 6"),
        (["simulate", "-d", "synthetic", "-k", "0,0"], "budget must be above 0 in some round, got (0, 0)"),
        (
            ["simulate", "-d", "synthetic", "-k", "1,0", "--authors"],
            "--authors needs one budget for all steps, got --b",
        ),
        (["theory", "-d", "synthetic", "-k", "1,0"], "theory needs one budget for all steps, got --budget 1,0"),
        (["simulate", "-d", "synthetic", "--cooldown", "1"], "cooldown needs the design 'exact' or 'systematic'"),
        (
            ["simulate", "-d", "synthetic", "--cooldown", "5"],
            "6 different arms are pulled in 6 rounds, but there are 5",
        ),
        (["simulate", "-d", "synthetic", "--observed", "called"], "must be a number, or pulled, got 'called'"),
        (["simulate", "-d", "synthetic", "--observed", "1.2"], "observed must lie between 0 and 1, got 1.2"),
        (["simulate", "-d", "synthetic", "--cooldown", "-1"], "cooldown must be between 0 and 1000000000, got -1"),
        (["simulate", "-d", "synthetic", "--warmup", "2.5"], "'--warmup': must be a whole number, got '2.5'"),
        (["theory", "-d", "synthetic", "--cooldown", "1"], "No such option"),
        (["simulate", "-d", "synthetic", "-n", "0"], "arms must be at least 1, got 0"),
        (["simulate", "-d", "synthetic", "--runs", "0"], "runs must be at least 1, got 0"),
        (["simulate", "-d", "synthetic", "--horizon", "0"], "horizon must be at least 1, got 0"),
        (["simulate", "-d", "synthetic", "--episodes", "-3"], "episodes must be at least 1, got -3"),
        (["simulate", "-d", "synthetic", "--delta", "1"], "delta must lie strictly between 0 and 1, got 1.0"),
        (["simulate", "-d", "synthetic", "--delta", "nan"], "delta must lie strictly between 0 and 1, got nan"),
        (["simulate", "-d", "synthetic", "-p", "merit-fare"], "no policy 'merit-fare', did you mean 'merit-fair'?"),
        (["simulate", "-d", "synthetic", "-p", "optimal", "-p", "optimal"], "duplicate policy"),
        (["simulate", "-d", "synthetic", "-p", "merit-fair:estimate"], "settings are written name:key=value"),
        (["simulate", "-d", "synthetic", "-p", "random:c=1"], "random has no setting 'c'; it has none"),
        (["simulate", "-d", "sintetic"], "no data set 'sintetic', did you mean 'synthetic'?"),
        (["simulate", "-d", "cpap:nois=1"], "cpap has no setting 'nois', did you mean 'noise'?"),
        (["simulate", "-d", "synthetic", "--merit", "exponential:c=900"], "c must lie between 0 and 700, got 900"),
        (["simulate", "-d", "synthetic", "--seed", "-1"], "seed must be at least 0, got -1"),
        (["simulate", "-d", "synthetic", "--plot", "x.gif"], "a figure is a .png, .pdf or .svg file"),
        (["simulate", "-d", "synthetic", "--out", "x.npz"], "is one file, but there are 2 policies"),
        (["simulate", "--arms-file", "none.csv"], "none.csv: there is no such file"),
        (["simulate", "--arms-file", "none.csv", "-d", "cpap"], "--arms-file cannot go together with --dataset"),
        (["simulate", "--datset", "cpap"], "No such option"),
        (["simulat"], "No such command"),
        (["theory", "-d", "synthetic", "--episodes", "0"], "episodes must be at least 1, got 0"),
        *(
            ([command, "-d", "synthetic", option, value], f"{number} {option[2:]}")
            for command in ("simulate", "compare")
            for option, value, number in (
                ("--episodes", "1e15", "1,000,000,000,000,000"),
                ("--runs", "1e15", "1,000,000,000,000,000"),
                ("--arms", "1e15", "1,000,000,000,000,000"),
            )
        ),
        (["simulate", "-d", "synthetic", "--horizon", "1e20"], "100,000,000,000,000,000,000 steps of 5 arms would"),
        (["compare", "-d", "synthetic", "--horizon", "1e20"], "100,000,000,000,000,000,000 steps of 5 arms would"),
        (["simulate", "-d", "synthetic", "--same-arms", "--runs", "1e15"], "1,000,000,000,000,000 runs"),
        (["theory", "-d", "synthetic", "--episodes", "1e15"], "1,000,000,000,000,000 episodes"),
        (["simulate", "-d", "synthetic", "--clip", "0.6"], "epsilon must lie between 0 and 0.5, got 0.6"),
    ],
)
def test_a_mistake_is_one_clear_line_and_exit_code_2(
    call: Any, arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = call(*arguments)
    assert answer.code == 2
    assert message in answer.err
    lines = [line for line in answer.err.splitlines() if line.strip()]
    assert len(lines) == 1
    assert lines[0].startswith("meritfair: ")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["simulate", "compare", "theory"])
def test_the_advice_for_arms_without_a_steady_state_can_be_followed(call: Any, name: str, tmp_path: Path) -> None:
    file = tmp_path / "arms.csv"
    file.write_text("arm,p00,p01,p10,p11\nAda,0,0.2,1,0.9\nBo,0.2,0.3,0.4,0.5\n")
    arguments = [name, "--arms-file", str(file), "--episodes", "3", "--horizon", "5", "--json"]
    refused = call(*arguments)
    assert refused.code == 2
    assert "arm 0 ('Ada') has no steady state" in refused.err
    assert "--clip 0.01" in refused.err
    assert call(*arguments, "--clip", "0.01").code == 0


def test_clipped_arms_are_those_of_the_library(call: Any) -> None:
    told = json.loads(call("theory", "-d", "synthetic", "--clip", "0.2", "--episodes", "3", "--json").out)
    assert told["values"]["epsilon"] == 1 - 0.8


def test_a_large_number_may_be_written_short(call: Any) -> None:
    told = json.loads(call("simulate", "-d", "synthetic", "-p", "random", *QUICK, "--horizon", "1e1", "--json").out)
    assert told["policies"]["random"]["settings"]["problem"]["horizon"] == 10


def test_a_bad_file_is_named_with_its_line(call: Any, tmp_path: Path) -> None:
    (tmp_path / "arms.csv").write_text("arm,p00,p01,p10,p11\nAda,0.1,0.2,0.3,1.4\n")
    answer = call("simulate", "--arms-file", str(tmp_path / "arms.csv"))
    assert answer.code == 2
    assert "line 2, column p11: must lie between 0 and 1, got '1.4'" in answer.err


def test_a_missing_extra_is_told_before_anything_is_played(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("meritfair.cli.show.find_spec", lambda _: None)
    answer = call("simulate", "-d", "synthetic", "--episodes", "1000000", "--plot", "x.png")
    assert answer.code == 2
    assert "--plot needs the extra 'plots': pip install 'meritfair[plots]'" in answer.err


def test_an_out_folder_that_is_a_file(call: Any, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    answer = call("simulate", "-d", "synthetic", *QUICK, "--out", str(tmp_path / "taken"))
    assert answer.code == 2
    assert "taken" in answer.err


def test_a_reader_that_goes_away_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "meritfair", "policies", "--json"], stdout=writing, stderr=subprocess.PIPE, text=True
    )
    os.close(writing)
    assert "Traceback" not in done.stderr
