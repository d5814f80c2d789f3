from __future__ import annotations

import csv
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import meritfair as mf
from meritfair.core.arrays import AnyArray
from meritfair.datasets.logs import StateLog
from meritfair.fitting import Fit, fit
from meritfair.model.posterior import Prior
from meritfair.model.uncertainty import assess

COLUMNS = ["arm", "seen", "pulled", "p00", "p01", "p10", "p11"]
COLUMNS += ["benefit", "benefit_low", "benefit_high", "exposure", "exposure_low", "exposure_high"]


def recorded(arms: mf.Arms, rounds: int, seed: int = 1) -> StateLog:
    """Return the log of arms that are pulled with probability 1/2 in each round."""
    rng, who = np.random.default_rng(seed), np.arange(arms.n_arms)
    states, actions = np.zeros((2, rounds, arms.n_arms), dtype=np.int64)
    for t in range(rounds):
        actions[t] = rng.integers(0, 2, arms.n_arms)
        if t + 1 < rounds:
            states[t + 1] = rng.random(arms.n_arms) < arms.transitions[who, states[t], actions[t]]
    when, which = np.indices(states.shape)
    return StateLog([arms.names[i] for i in which.ravel()], when.ravel(), states.ravel(), actions.ravel())


def counts_of(n_arms: int, visits: int = 20, seed: int = 1) -> mf.Counts:
    rng = np.random.default_rng(seed)
    seen = rng.integers(0, visits, (n_arms, 2, 2))
    return mf.Counts(seen, rng.binomial(seen, rng.random((n_arms, 2, 2))))


def test_a_fit_is_the_posterior_and_its_assessment() -> None:
    seen = counts_of(6)
    found = fit(seen, "abcdef", criterion=mf.Criterion(mf.Affine(), "exact", 0.1, 0.7), budget=2, level=0.8, seed=5)
    posterior = Prior.uniform().posterior(seen)
    direct = assess(posterior, mf.Criterion(mf.Affine(), "exact", 0.1, 0.7), 2, level=0.8, rng=5)
    assert found.names == tuple("abcdef")
    assert found.classes is None
    assert found.counts is seen
    np.testing.assert_array_equal(found.estimate, posterior.mean)
    np.testing.assert_array_equal(found.estimate, seen.mean)
    for name in ("benefit", "benefit_low", "exposure_low", "exposure_high"):
        np.testing.assert_array_equal(getattr(found.assessment, name), getattr(direct, name))
    assert found.arms == mf.Arms(seen.mean, tuple("abcdef"))
    assert found.settings == {
        "budget": 2,
        "merit": {"kind": "affine", "slope": 1.0, "intercept": 1.5},
        "design": "exact",
        "estimate": "mean",
        "forget": 1.0,
        "level": 0.8,
        "method": "draws",
        "seed": 5,
        "floor": 0.1,
        "cap": 0.7,
        "versions": {"meritfair": mf.__version__, "numpy": np.__version__},
    }


def test_design_and_method_reach_the_assessment() -> None:
    seen = counts_of(5)
    found = fit(seen, budget=2, criterion=mf.Criterion(), method="delta")
    assert found.names[4] == "arm-5"
    merit = mf.Exponential(3.0)(mf.benefit(seen.mean))
    np.testing.assert_array_equal(found.assessment.exposure, mf.fair_exposure(merit, 2, "sequential"))
    direct = assess(Prior.uniform().posterior(seen), mf.Criterion(), 2, method="delta")
    np.testing.assert_array_equal(found.assessment.exposure_high, direct.exposure_high)


def test_a_long_log_leads_to_the_arms_behind_it() -> None:
    arms = mf.Arms(np.random.default_rng(2).uniform(0.2, 0.8, (4, 2, 2)), names=["Ada", "Bo", "Cy", "Di"])
    log = recorded(arms, 40_000)
    found = fit(log, method="delta")
    assert found.names == arms.names
    assert found.seen.tolist() == [39_999] * 4
    # Each of the four cells has about a quarter of the rounds: sd < 0.5 / sqrt(5000); 5 sd are 1e-5 for 16 cells
    np.testing.assert_allclose(found.estimate, arms.transitions, atol=5 * 0.5 / np.sqrt(5000))
    due = mf.fair_exposure(mf.Exponential(3.0)(arms.benefit))
    np.testing.assert_allclose(found.assessment.exposure, due, atol=0.1)
    few = fit(recorded(arms, 100), method="delta")
    assert (few.assessment.benefit_high - few.assessment.benefit_low > 0.2).all()


def test_the_table_has_a_row_for_each_arm() -> None:
    log = StateLog(["Ada"] * 4 + ["Bo"], [1, 2, 3, 4, 1], [0, 1, 1, 1, 0], [1, 0, 0, 0, 0])
    found = fit(log, seed=1)
    ada, bo = found.rows()
    assert list(ada) == COLUMNS
    assert (ada["arm"], ada["seen"], ada["pulled"]) == ("Ada", 3, 1)
    assert (bo["arm"], bo["seen"], bo["pulled"]) == ("Bo", 0, 0)
    assert (ada["p00"], ada["p01"], ada["p10"]) == (1 / 2, 2 / 3, 3 / 4)
    assert [bo[p] for p in COLUMNS[3:7]] == [0.5] * 4  # the prior alone
    assert bo["benefit"] == 0
    assert bo["benefit_high"] - bo["benefit_low"] > 1
    assert ada["exposure"] + bo["exposure"] == pytest.approx(1)
    assert all(type(value) in (str, int, float) for row in (ada, bo) for value in row.values())
    json.dumps(found.rows())


def test_the_same_seed_gives_the_same_fit() -> None:
    first, again, other = (fit(counts_of(3), seed=s) for s in (1, 1, 2))
    assert first.rows() == again.rows()
    assert first.rows() != other.rows()
    assert fit(counts_of(3)).settings["seed"] == 0


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_what_is_saved_can_be_read_as_a_table_and_as_arms(tmp_path: Path, suffix: str) -> None:
    found = fit(counts_of(3), ["Ada", 'Bo, "the" second', "Çelik"], budget=2)
    file = tmp_path / f"people{suffix}"
    found.save(file)
    if suffix == ".csv":
        with file.open(newline="", encoding="utf-8") as stream:
            rows: list[dict[str, Any]] = list(csv.DictReader(stream))
        rows = [{key: type(found.rows()[0][key])(value) for key, value in row.items()} for row in rows]
    else:
        rows = pq.read_table(file).to_pylist()
        assert json.loads(pq.read_schema(file).metadata[b"meritfair"]) == found.settings
    assert rows == found.rows()
    assert mf.datasets.read_arms(file) == found.arms
    assert [f.name for f in tmp_path.iterdir()] == [file.name]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_failed_write_leaves_the_old_file(tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / f"people{suffix}"
    found = fit(counts_of(3))
    found.save(file)
    before = file.read_bytes()

    def fail(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(mf.FileError, match=r"people\.\w+: cannot be written: No space left on device"):
        fit(counts_of(5)).save(file)
    monkeypatch.undo()
    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]
    with pytest.raises(mf.FileError, match=r"fits are kept in \.csv or \.parquet files"):
        found.save(tmp_path / "people.xlsx")


def test_the_description_names_what_matters() -> None:
    assert repr(fit(counts_of(1, 3))).startswith("Fit(1 arm, 1 pulled at each step · ")
    told = fit(
        counts_of(4), budget=2, criterion=mf.Criterion(design="systematic", floor=0.1, cap=[1, 1, 1, 0.9]), level=0.9
    ).description
    assert told.endswith(
        " · merit exponential:c=3 · design systematic · floor 0.1 · cap of its own for each arm · 90 % intervals"
    )
    own = mf.CustomMerit(lambda mu: 2 + mu, lipschitz=1.0, name="two plus")
    assert "merit two plus" in fit(counts_of(2), criterion=mf.Criterion(own)).description


def two_classes(n_arms: int) -> tuple[mf.Counts, AnyArray]:
    """Return counts of arms of two kinds, and which kind each is."""
    kind = np.arange(n_arms) % 2
    chances = np.where(kind[:, None, None] == 1, [[0.2, 0.9], [0.3, 0.9]], [[0.7, 0.7], [0.8, 0.8]])
    seen = np.full(chances.shape, 12)
    return mf.Counts(seen, np.random.default_rng(3).binomial(seen, chances)), kind


def test_pooling_tells_classes_apart_and_narrows_intervals(tmp_path: Path) -> None:
    seen, kind = two_classes(80)
    alone, pooled = fit(seen), fit(seen, estimate="pooled")
    assert pooled.classes is not None
    np.testing.assert_allclose(pooled.classes.sum(axis=1), 1)
    likeliest = pooled.classes.argmax(axis=1)
    assert len(set(likeliest)) > 1
    for c in set(likeliest):
        assert len(set(kind[likeliest == c])) == 1
    width = [np.mean(x.assessment.benefit_high - x.assessment.benefit_low) for x in (alone, pooled)]
    assert width[1] < 0.7 * width[0]
    assert f" · {pooled.classes.shape[1]} pooled classes · " in pooled.description
    pooled.save(tmp_path / "people.csv")
    row = pooled.rows()[0]
    assert [name for name in row if name.startswith("class_")] == [
        f"class_{c + 1}" for c in range(pooled.classes.shape[1])
    ]


@pytest.mark.parametrize(
    ("seen", "options", "message"),
    [
        (counts_of(3), {"names": ["a", "b"]}, "names must give one name for each of the 3 arms, got 2"),
        (counts_of(2), {"names": ["a", "a"]}, "arms 0 and 1 have the same name, 'a'"),
        (StateLog(["a"], [1], [0], [0]), {"names": ["a"]}, "names are for counts: a log has its own"),
        ([[1, 2]], {}, "a fit needs a StateLog or Counts, got list"),
        (
            mf.Counts(np.ones((2, 3, 2, 2)), np.ones((2, 3, 2, 2))),
            {},
            "counts must have shape (N, 2, 2) for a fit, got (2, 3, 2, 2)",
        ),
        (
            counts_of(3),
            {"estimate": "pool"},
            "estimate must be one of mean, pooled, got 'pool', did you mean 'pooled'?",
        ),
        (counts_of(3), {"budget": 4}, "budget must be between 1 and the 3 arms, got 4"),
        (counts_of(3), {"level": 0}, "level must lie strictly between 0 and 1, got 0"),
        (counts_of(3), {"seed": -1}, "seed must be at least 0, got -1"),
        (
            counts_of(3),
            {"criterion": mf.Criterion(design="exact", cap=[0.5, 0.5])},
            "cap must be one number, or one for each of the 3 arms, got shape (2,)",
        ),
    ],
)
def test_mistakes_are_named(seen: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(mf.InputError) as caught:
        fit(seen, **options)
    assert message in str(caught.value)


def test_a_table_is_also_a_data_frame() -> None:
    found = fit(counts_of(3), budget=2)
    assert found.table().to_dict("records") == found.rows()


def drawn(found: Fit) -> list[Any]:
    """Return the panels of a figure, drawn once so that nothing is left to fail."""
    figure = found.plot()
    figure.canvas.draw()
    return list(figure.axes)


def test_a_figure_of_few_arms_names_them_by_benefit() -> None:
    names = ["Ada", "$\\frac{$", "somebody with a name that is far too long", "Di", "Ed"]
    found = fit(counts_of(5), names)
    left, right = drawn(found)
    labels = [label.get_text() for label in left.get_yticklabels()]
    order = np.argsort(found.assessment.benefit)
    shown = ["Ada", r"\$\frac{\$", "somebody with a name th…", "Di", "Ed"]  # no mathematics
    assert labels == [shown[i] for i in order]
    for axes, what in ((left, "benefit"), (right, "exposure")):
        dots = axes.lines[-1]
        np.testing.assert_array_equal(dots.get_xdata(), getattr(found.assessment, what)[order])
        ends = np.array([segment[:, 0] for segment in axes.collections[0].get_segments()])
        np.testing.assert_array_equal(ends[:, 0], getattr(found.assessment, what + "_low")[order])
        np.testing.assert_array_equal(ends[:, 1], getattr(found.assessment, what + "_high")[order])


def test_figures_of_one_and_of_many_arms() -> None:
    (left, _) = drawn(fit(counts_of(1)))
    assert [label.get_text() for label in left.get_yticklabels()] == ["arm-1"]
    (left, right) = drawn(fit(counts_of(200), budget=10))
    assert len(left.get_yticklabels()) < 20
    assert left.get_ylabel() == "arms, from least to most benefit"
    assert right.lines[0].get_xdata()[0] == 10 / 200
    assert left.figure.get_size_inches()[1] < 10


def test_a_figure_needs_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.style", None)
    with pytest.raises(mf.MissingExtraError, match="drawing figures needs the extra 'plots'"):
        fit(counts_of(2)).plot()
