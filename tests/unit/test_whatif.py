"""What other policies would do after a log: chains, rounds ahead, importance weights by hand, refusals, tables."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import meritfair as mf
from meritfair.core.errors import InputError
from meritfair.policies.plans import PriorityTable
from meritfair.scenarios.answer import WhatIf
from meritfair.scenarios.chains import Chains, chains_of
from meritfair.scenarios.checking import Windows, check, effective_size, windows_of
from meritfair.scenarios.figure import axis_of, lines_of
from meritfair.scenarios.known import as_known
from meritfair.scenarios.playing import Ahead, expected, follow, without_noise
from meritfair.scenarios.start import budget_of, logged_chance, longest_waits, start_of
from meritfair.scenarios.wording import lead

CHAIN = np.array([[[0.2, 0.6], [0.5, 0.9]]])


def lottery_log(
    n_arms: int = 40, budget: int = 8, rounds: int = 40, seed: int = 1, arms: mf.Arms | None = None, **more: Any
) -> mf.StateLog:
    """Return a log of a fair lottery, on CPAP patients by default; the last row of each is the state at the end."""
    rng, arms = np.random.default_rng(seed), arms or mf.datasets.cpap(n_arms=n_arms, seed=seed)
    states, rows = rng.integers(0, 2, n_arms), list[Any]()
    for t in range(rounds):
        actions = np.isin(np.arange(n_arms), rng.choice(n_arms, budget, replace=False)).astype(int)
        rows += [(f"p{i}", t, s, a, budget / n_arms) for i, (s, a) in enumerate(zip(states, actions, strict=True))]
        states = (rng.random(n_arms) < arms.transitions[np.arange(n_arms), states, actions]).astype(int)
    rows += [(f"p{i}", rounds, s, None, None) for i, s in enumerate(states)]
    name, number, state, action, exposure = zip(*rows, strict=True)
    given: Any = {"exposure": np.array(exposure, float)} | more
    return mf.StateLog(name, number, state, action, **{k: v for k, v in given.items() if v is not None})


@pytest.fixture(scope="module")
def answer() -> WhatIf:
    return mf.whatif(lottery_log(), ["random", "none"], budget=[8, 12, 40], rounds=12, draws=30)


# ---- where the log ends


def test_beliefs_follow_the_actions_since_the_last_state() -> None:
    names, rounds = ["Ada"] * 3 + ["Bo"] * 3 + ["Cy"] * 3, [1, 2, 3] * 3
    log = mf.StateLog(names, rounds, [0, 1, 1, 1, -1, -1, -1, -1, -1], [1, 0, -1, 1, 0, -1, 0, 1, -1])
    start = start_of(log)
    assert start.names == ("Ada", "Bo", "Cy")
    assert start.since.tolist() == [0, 2, 2]
    pulled = 0.9
    then = pulled * 0.5 + (1 - pulled) * 0.2
    unknown = 0.5 * 0.5 + 0.5 * 0.2
    unknown = unknown * 0.9 + (1 - unknown) * 0.6
    belief = start.belief(np.repeat(CHAIN, 3, axis=0)[None])
    np.testing.assert_allclose(belief, [[1.0, then, unknown]])


def test_a_last_action_moves_everyone_and_who_has_no_row_has_left() -> None:
    log = mf.StateLog(["Ada", "Ada", "Bo", "Bo"], [8, 9, 1, 2], [0, 1, 0, 1], [1, 1, 0, 0])
    start = start_of(log)
    assert start.names == ("Ada",)
    np.testing.assert_allclose(start.belief(CHAIN), [0.9])


def test_what_the_log_did() -> None:
    log = lottery_log(n_arms=10, budget=3, rounds=20)
    assert budget_of(log) == 3
    np.testing.assert_allclose(logged_chance(log, start_of(log)), 0.3)
    waits = longest_waits(
        mf.StateLog(["A"] * 5 + ["B"] * 3, [0, 1, 2, 3, 4, 0, 1, 2], [0] * 8, [1, 0, 0, 1, 0, 0, 0, -1])
    )
    assert waits.tolist() == [2, 2]
    without = lottery_log(n_arms=10, budget=3, rounds=40, exposure=None)
    chance = logged_chance(without, start_of(without))
    assert 0.2 < chance.mean() < 0.4
    assert ((chance > 0) & (chance < 1)).all()


def test_a_log_without_pulls_has_no_budget() -> None:
    log = mf.StateLog(["A"] * 3, [1, 2, 3], [0, 1, 0], [0, 0, 0])
    with pytest.raises(InputError, match="no pulls: say how many"):
        mf.whatif(log)


# ---- the rounds ahead


def ahead_of_one(rounds: int, belief: float = 1.0) -> Ahead:
    seen = mf.Counts.none(1)
    return Ahead(Chains(seen, CHAIN, CHAIN[None]), np.array([[belief]]), rounds, 1, 2, 0)


def test_follow_is_the_product_of_matrices() -> None:
    chance = np.array([[0.8, 0.4]])
    good = np.array([0.2 * 0.2 + 0.8 * 0.6, 0.6 * 0.5 + 0.4 * 0.9])
    matrix = np.stack([1 - good, good], axis=1)
    at = [np.linalg.matrix_power(matrix, k)[1] for k in range(4)]
    share, exposure = follow(ahead_of_one(3), chance)
    np.testing.assert_allclose(share, np.mean([x[1] for x in at[1:]]))
    np.testing.assert_allclose(exposure, np.mean([x @ chance[0] for x in at[:3]]))


def test_noise_is_taken_away_and_nothing_else() -> None:
    """The control variate has mean 0: with it the mean is that of `follow`, with a fraction of the noise."""
    n_arms, runs, rounds = 30, 400, 24
    arms = mf.datasets.cpap(n_arms=n_arms, seed=3)
    belief = np.full(n_arms, 0.3)
    states = (np.random.default_rng(1).random((runs, n_arms)) < belief).astype(int)
    how: Any = {"budget": 6, "episodes": 2, "horizon": 12, "carry_states": True, "runs": runs, "seed": 2}
    run = mf.simulate(arms, "random", **how, states=states)
    found = without_noise(run, states, np.broadcast_to(belief, states.shape))
    raw = run.reward.sum(axis=1) / (n_arms * rounds)
    ahead = Ahead(
        Chains(mf.Counts.none(n_arms), arms.transitions, arms.transitions[None]), belief[None], rounds, 1, 2, 0
    )
    truth = follow(ahead, np.full((n_arms, 2), 0.2))[0][0]
    assert found.std() < 0.35 * raw.std()
    assert abs(found.mean() - truth) < 4 * found.std() / np.sqrt(runs)


def test_intervals_leave_out_the_noise_of_the_simulation() -> None:
    rng = np.random.default_rng(1)
    chains = 0.5 + 0.01 * rng.standard_normal(4000)
    first, again = (chains + 0.03 * rng.standard_normal(4000) for _ in range(2))
    found = expected(first, again)
    assert (found.high - found.low) / 3.92 == pytest.approx(0.01, rel=0.15)


def test_policies_that_know_the_arms_get_the_estimates() -> None:
    log = lottery_log(n_arms=12, budget=2, rounds=60)
    found = chains_of(log, start_of(log), "pooled", 20, 1, lambda *_: None)
    view = mf.policies.View(mf.Counts.none(12), 1, 2, np.full((12, 2, 2), np.nan))
    plan = as_known(mf.Whittle(), found.mean).plan(view)
    assert isinstance(plan, PriorityTable)
    np.testing.assert_array_equal(plan.index, mf.whittle_index(found.mean))
    assert as_known(mf.Random(), found.mean) == mf.Random()


@pytest.mark.parametrize("estimate", ["mean", "pooled"])
def test_chains_are_drawn_around_their_mean(estimate: str) -> None:
    log = lottery_log(n_arms=30, budget=6, rounds=60)
    found = chains_of(log, start_of(log), estimate, 200, 1, lambda *_: None)
    assert found.draws.shape == (200, 30, 2, 2)
    assert abs(found.draws.mean() - found.mean.mean()) < 0.02
    np.testing.assert_array_equal(found.counts.visits, log.counts.visits)


# ---- importance weights


def two_windows() -> Windows:
    arm, states, actions = np.array([0, 1]), np.array([[0, 1, 1], [1, 0, 0]]), np.array([[1, 0], [0, 0]])
    return Windows(arm, states, actions, np.full((2, 2), 0.5), np.array([0, 1]), np.ones(2))


def test_weights_by_hand() -> None:
    found = check(two_windows(), np.full((2, 2, 2), [0.8, 0.4]), np.repeat(CHAIN, 2, axis=0))
    # w: 0.8/0.5 * 0.6/0.5 = 1.92 with end 1, and 0.6/0.5 * 0.2/0.5 = 0.48 with end 0
    assert found.ips == pytest.approx(1.92 / 2)
    assert found.snips == pytest.approx(1.92 / 2.4)
    assert found.effective == pytest.approx(2.4**2 / (1.92**2 + 0.48**2))
    assert found.effective_pulls == 1.0
    assert found.ips_error == pytest.approx(0.96)  # sqrt(2 * 0.96^2 * 2/1) / 2
    # V_1 = (0.52, 0.66), V_0 = (0.5928, 0.6124)
    assert found.model == pytest.approx((0.5928 + 0.6124) / 2)
    first = 0.5928 + 1.6 * (0.66 - 0.604) + 1.92 * (1 - 0.5)
    second = 0.6124 + 1.2 * (0.52 - 0.59) + 0.48 * (0 - 0.2)
    assert found.robust == pytest.approx((first + second) / 2)
    assert found.difference == pytest.approx(found.robust - found.model)
    assert found.refusal == "the log has 2 windows of rounds with known states and chances, fewer than 100"


def test_arms_may_be_relabelled() -> None:
    rng = np.random.default_rng(1)
    n, arms = 300, 7
    windows = Windows(
        rng.integers(0, arms, n),
        rng.integers(0, 2, (n, 4)),
        rng.integers(0, 2, (n, 3)),
        rng.uniform(0.1, 0.9, (n, 3)),
        rng.integers(0, 2, n),
        rng.uniform(0.5, 1.5, n),
    )
    chance, chains, new = rng.random((2, arms, 2)), rng.random((arms, 2, 2)), rng.permutation(arms)
    order = rng.permutation(n)
    moved = Windows(
        new[windows.arm][order],
        windows.states[order],
        windows.actions[order],
        windows.exposure[order],
        windows.half[order],
        windows.weight[order],
    )
    one, other = check(windows, chance, chains), check(moved, chance[:, np.argsort(new)], chains[np.argsort(new)])
    for name, value in vars(one).items():
        assert vars(other)[name] == (value if isinstance(value, str) else pytest.approx(value)), name


def test_the_logged_policy_has_weights_of_one() -> None:
    log = lottery_log()
    windows = windows_of(log, start_of(log), 3)
    found = check(windows, np.full((2, 40, 2), 0.2), mf.fit(log, estimate="pooled").estimate, windows.exposure)
    assert len(windows) == 40 * 13
    assert found.ips == found.snips == pytest.approx(windows.states[:, -1].mean())
    assert found.effective == pytest.approx(len(windows))
    assert found.verdict == "agrees"


def test_windows_leave_out_what_is_not_known() -> None:
    base: Any = {"arms": ["A"] * 7, "rounds": range(7)}
    exposure, actions = [0.5, 0.5, 0.5, 0.5, 0.5, 0.5, np.nan], [1, 0, 1, 0, 1, 0, -1]
    states = [0, 1, 0, 1, 0, 1, 0]

    def starts(states: Any = states, exposure: Any = exposure, drawn: Any = None) -> int:
        log = mf.StateLog(**base, states=states, actions=actions, exposure=exposure, drawn=drawn)
        return len(windows_of(log, start_of(log), 2))

    assert starts() == 3
    assert starts(states=[0, 1, 0, -1, 0, 1, 0]) == 2
    assert starts(exposure=[np.nan, *exposure[1:]]) == 2
    assert starts(exposure=[0.0, *exposure[1:]]) == 2  # pulled against its exposure: no weight can be given
    assert starts(drawn=[1, 0, 1, 0, 1, 1, -1]) == 2


def test_states_that_are_missing_after_bad_ones_do_not_mislead() -> None:
    """After a bad state every second next one is missing: windows with all states known are too good to be true."""
    truth = np.broadcast_to([[0.2, 0.3], [0.7, 0.8]], (100, 2, 2))
    log, rng = lottery_log(n_arms=100, budget=20, rounds=60, arms=mf.Arms(truth)), np.random.default_rng(5)
    before = np.r_[1, log.states[:-1]]
    states = np.where((before == 0) & (log.rounds > 0) & (rng.random(len(log)) < 0.5), -1, log.states)
    thinned = mf.StateLog([log.arms[i] for i in log.arm], log.rounds, states, log.actions, exposure=log.exposure)
    windows, chance = windows_of(thinned, start_of(thinned), 3), np.full((2, 100, 2), 0.2)
    assert windows_of(log, start_of(log), 3).weight.tolist() == [1.0] * 2000
    assert check(windows, chance, truth).verdict == "agrees"
    assert check(replace(windows, weight=np.ones(len(windows))), chance, truth).verdict == "disagrees"


def test_a_model_that_is_wrong_is_contradicted() -> None:
    log = lottery_log(n_arms=60, budget=12)
    windows, chance = windows_of(log, start_of(log), 3), np.full((2, 60, 2), 0.2)
    right = mf.fit(log, estimate="pooled").estimate
    assert check(windows, chance, right).verdict == "agrees"
    assert check(windows, chance, np.clip(right - 0.15, 0.01, 0.99)).verdict == "disagrees"


def test_effective_sizes() -> None:
    assert effective_size(np.ones(7)) == 7
    assert effective_size(np.array([1.0, 3.0])) == pytest.approx(1.6)
    assert effective_size(np.zeros(0)) == 0


# ---- answers


def test_rows(answer: WhatIf) -> None:
    assert [each.name for each in answer.outlooks] == [
        "as logged",
        "random, budget 8",
        "random, budget 12",
        "random, budget 40",
        "none",
    ]
    assert repr(answer).startswith("WhatIf(4 scenarios: 40 arms · the next 12 rounds · 30 draws")
    logged, more = answer.logged, answer["random, budget 12"]
    assert logged.budget == pytest.approx(8)
    assert logged.difference == (0, 0, 0)
    assert more.share.low < more.share.mean < more.share.high
    assert more.difference.mean == pytest.approx(more.share.mean - logged.share.mean)
    assert answer["none"].budget == 0
    assert np.isnan(answer["none"].gain_per_pull.mean)
    assert answer.difference("none", "as logged").mean == pytest.approx(answer["none"].difference.mean)
    with pytest.raises(InputError, match="there is no scenario 'nobody'"):
        answer["nobody"]


def test_the_logged_lottery_is_its_own_answer(answer: WhatIf) -> None:
    """Random with the budget of the log is what was logged: the same share up to the noise that is left."""
    same = answer["random, budget 8"]
    assert abs(same.difference.mean) < 0.004
    assert same.check.snips == pytest.approx(answer.logged.check.snips, abs=0.01)
    assert same.check.effective > 0.95 * same.check.windows


def test_what_the_log_never_did_is_refused(answer: WhatIf) -> None:
    refused = answer["random, budget 40"]
    assert refused.verdict == "refused"
    assert not refused.answered
    assert "windows are worth" in refused.check.refusal
    row = refused.row()
    assert np.isnan([row[name] for name in ("share", "share_low", "difference", "gain_per_pull")]).all()
    shown = mf.whatif(lottery_log(), ["random"], budget=40, rounds=4, draws=20, extrapolate=True).asked[0]
    assert shown.verdict == "model alone"
    assert np.isfinite(shown.row()["share"])


def test_rare_pulls_are_refused() -> None:
    log = lottery_log(n_arms=100, budget=1, rounds=40)
    found = mf.whatif(log, ["whittle"], rounds=4, draws=20).asked[0]
    assert found.verdict == "refused"
    assert "pulls are worth" in found.check.refusal


def test_logs_without_chances_are_refused() -> None:
    log = lottery_log(exposure=None)
    found = mf.whatif(log, ["random"], rounds=4, draws=20)
    assert found.refused
    assert "does not state the chances of its draws (exposure)" in found.asked[0].check.refusal
    assert lead(found).startswith("The log cannot answer this: random, budget 8: the log does not state")
    assert not mf.whatif(log, ["random"], rounds=4, draws=20, extrapolate=True).refused


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"budget": 41}, "budget must be between 1 and the 40 arms, got 41"),
        ({"budget": [8, 8]}, "duplicate budget: 8, 8"),
        ({"slack": 1}, "none of these policies has a setting 'slack': random"),
        ({"against": "nobody"}, "there is no scenario 'nobody'"),
        ({"draws": 3}, "draws must be at least 20, got 3"),
        ({"rounds": 0}, "rounds must be at least 1, got 0"),
        ({"window": 0}, "window must be at least 1, got 0"),
        ({"estimate": "best"}, "estimate must be"),
        ({"floor": 2}, "floor must lie between 0 and 1, got 2"),
    ],
)
def test_mistakes(settings: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        mf.whatif(lottery_log(rounds=5), ["random"], **settings)


def test_other_mistakes() -> None:
    with pytest.raises(InputError, match="log must be a StateLog"):
        mf.whatif("log.csv")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="merit-fair cannot be played here: slack needs another design"):
        mf.whatif(lottery_log(rounds=5), ["merit-fair"], slack=[0, 2])
    with pytest.raises(InputError, match="label 'as logged' is that of the log"):
        mf.whatif(lottery_log(rounds=5), {"as logged": "random"})


def test_combinations() -> None:
    policies = ["merit-fair:estimate=mean,design=exact", "random"]
    log = lottery_log(rounds=20)
    found = mf.whatif(log, policies, budget=[8, 10], floor=[0.0, 0.15], rounds=8, draws=60, merit="exponential:c=5")
    assert [each.varied for each in found.asked[:2]] == [
        {"floor": "0", "merit": "exponential:c=5"},
        {"floor": "0.15", "merit": "exponential:c=5"},
    ]
    assert len(found.asked) == 2 * 2 + 2
    low, high = found.asked[0], found.asked[1]
    assert high.smallest_exposure > low.smallest_exposure
    assert found.settings["merit"] == "exponential:c=5"
    assert axis_of(found) == "budget"
    assert [len(line.places) for line in lines_of(found, "floor")] == [2, 2]


def test_the_same_seed_gives_the_same_numbers() -> None:
    log = lottery_log(rounds=12)
    one, other = (mf.whatif(log, ["random"], rounds=4, draws=20, workers=w).rows() for w in (1, 2))
    assert json.dumps(one) == json.dumps(other)
    assert json.dumps(one) != json.dumps(mf.whatif(log, ["random"], rounds=4, draws=20, seed=1).rows())


def test_progress_is_told() -> None:
    told: list[tuple[str, int, int]] = []
    mf.whatif(lottery_log(rounds=5), ["random"], rounds=2, draws=20, progress=lambda *now: told.append(now))
    assert told[0][0] == "fitting"
    assert told[-1][0] == "random, budget 8"
    assert told[-1][1] == told[-1][2]


def test_sentences(answer: WhatIf) -> None:
    words = lead(answer)
    assert words.startswith("With random, budget 8, ")
    assert "of the 40 arms would be in the good state over the next 12 rounds, against" in words
    assert "4 more pulls a round (12 instead of 8):" in words


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".md", ".tex"])
def test_tables_are_saved(answer: WhatIf, tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"found{suffix}"
    answer.save(file)
    if suffix == ".csv":
        assert pd.read_csv(file)["policy"].tolist() == [each.policy for each in answer.outlooks]
    elif suffix == ".parquet":
        assert pd.read_parquet(file)["share"].isna().sum() == 1
    else:
        assert "refused" in file.read_text(encoding="utf-8")


def test_frames_figures_and_pages(answer: WhatIf, tmp_path: Path) -> None:
    assert len(answer.table()) == 5
    left, right = answer.plot().axes
    assert left.get_xlabel() == right.get_xlabel() == "pulls in a round"
    legend = left.get_legend()
    assert legend is not None
    labels = [text.get_text() for text in legend.get_texts()]
    assert labels[0].startswith("as logged: ")
    assert labels[-1] == "no answer"
    by_row = mf.whatif(lottery_log(rounds=12), ["random", "none"], rounds=4, draws=20)
    assert [tick.get_text() for tick in by_row.plot().axes[0].get_yticklabels()] == [
        "as logged",
        "random, budget 8",
        "none",
    ]
    answer.write_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<h1>What if?</h1>" in page
    assert "No answer for random, budget 40" in page
    assert "doubly robust" in page


def test_a_policy_may_differ_by_budget() -> None:
    log = lottery_log(n_arms=10, budget=3, rounds=20)
    floors = {2: mf.MeritFair(design="exact", floor=0.2), 6: mf.MeritFair(design="exact", floor=0.5)}
    how: Any = {"rounds": 4, "draws": 20, "extrapolate": True}
    both = mf.whatif(log, {"fair": floors}, budget=[2, 6], **how).rows()
    alone = [mf.whatif(log, {"fair": floors}, budget=budget, **how).rows() for budget in (2, 6)]
    assert repr(both) == repr([alone[0][0], alone[0][1], alone[1][1]])
    with pytest.raises(InputError, match="fair has no policy for the budget 3, it has one for 2, 6"):
        mf.whatif(log, {"fair": floors}, budget=[2, 3], **how)
