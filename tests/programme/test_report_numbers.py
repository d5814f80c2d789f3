"""The numbers of a report do not depend on how they are worked out: each against a plain way to the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from meritfair.auditing import evidence
from meritfair.auditing.log import DrawLog
from meritfair.core.tables import Labels, numbered
from meritfair.datasets.logs import StateLog
from meritfair.model.benefit import benefit
from meritfair.model.counts import Counts
from meritfair.model.posterior import Prior, fit_prior
from meritfair.programme.records import draw_log, names_of, records, state_log
from meritfair.programme.showing import learned
from meritfair.programme.showing.estimating import PartEstimates
from meritfair.programme.work import Work
from programme.clinics import Clinic, clinic


@pytest.fixture
def played(tmp_path: Path) -> Clinic:
    """A programme in which a third of the states were not seen."""
    made = clinic(str(tmp_path / "calls.db"), people=40, budget=12)
    for _ in range(6):
        made.play(seen=0.7)
    made.programme.withdraw(["p3"], by="Ada")
    made.programme.erase("p3", by="Ada")
    made.programme.draw(by="Ada")
    return made


def test_logs_by_number_are_those_by_name(played: Clinic) -> None:
    with played.programme.store.reading("calls") as session:
        work = Work(session)
        found, names = records(work), names_of(work)
        log, draws = state_log(work, found, names), draw_log(work, found, names)
        texts = np.array(work.state.texts("group"), dtype=object)
    name = np.array(names, dtype=object)
    rows, last = found.number, int(found.round.max())
    after = np.flatnonzero((found.round == last) & (found.after >= 0))
    here = np.concatenate([rows, rows[after]])
    plain = StateLog(
        name[here].tolist(),
        np.concatenate([found.round, np.full(len(after), last + 1)]),
        np.concatenate([found.before, found.after[after]]),
        np.concatenate([found.done, np.full(len(after), -1)]),
        features={"group": texts[here].tolist()},
    )
    assert (log.arms, log.features) == (plain.arms, plain.features)
    for column in ("arm", "rounds", "states", "actions"):
        np.testing.assert_array_equal(vars(log)[column], vars(plain)[column])
    by_name = DrawLog(found.round, name[rows].tolist(), found.given, found.drawn, texts[rows].tolist())
    assert (draws.names, draws.group_names) == (by_name.names, by_name.group_names)
    for column in ("arm", "round", "group", "rounds", "exposure", "drawn"):
        np.testing.assert_array_equal(vars(draws)[column], vars(by_name)[column])


def test_labels_are_numbered_as_texts_are() -> None:
    rng = np.random.default_rng(1)
    names, numbers = [f"n{k}" for k in range(50)], rng.integers(0, 40, 300)
    texts, places = numbered([names[k] for k in numbers])
    found = numbered(Labels(names, numbers))
    assert found[0] == texts
    np.testing.assert_array_equal(found[1], places)


def test_who_surely_gains_is_found_without_all_draws(played: Clinic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("meritfair.model.gaps._TOGETHER", 7)
    with played.programme.store.reading("calls") as session:
        work = Work(session)
        known = PartEstimates.of(work.state, 0, np.flatnonzero(work.state.here))
    monkeypatch.setattr(learned, "_HOPELESS", 0.0)
    share = (benefit(known.posterior.draw(np.random.default_rng(5), 5_000)) > 0).mean(axis=0)
    monkeypatch.setattr(learned, "_AT_ONCE", 4 * 3 * len(known.members))
    for sure in (0.9, 0.55):
        monkeypatch.setattr(learned, "_SURE", sure)
        found = learned._gain(known)
        assert not found[share < sure - 0.12].any()
        assert found[share > sure + 0.09].all()
    assert 0 < found.sum() < len(found)


@pytest.mark.parametrize("seed", range(5))
def test_who_is_hopeless_is_far_from_sure(seed: int) -> None:
    rng = np.random.default_rng(seed)
    visits = rng.integers(0, rng.choice([2, 5, 30, 300], (2_000, 1, 1)), (2_000, 2, 2))
    seen = Counts(visits, rng.binomial(visits, rng.beta(0.5, 0.5, visits.shape)))
    prior = Prior.uniform() if seed == 0 else fit_prior(seen)
    known = prior.posterior(seen)
    share = (benefit(np.clip(known.draw(rng, 2_000), 1e-12, 1 - 1e-12)) > 0).mean(axis=0)
    hopeless = learned._standing(known) < learned._HOPELESS
    assert hopeless.mean() > 0.3
    assert share[hopeless].max() < learned._SURE - 0.05


def test_bounds_do_not_depend_on_how_many_units_are_worked_out_at_once(
    played: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    with played.programme.store.reading("calls") as session:
        work = Work(session)
        log = draw_log(work, records(work), names_of(work))
    units = evidence.histories(log, log.arm, fixed_budget=False)
    level = np.full(len(units.starts), 0.05 / 40)
    at_once = evidence.shortfall_bounds(units, level)
    for rows in (1, 10, 50):
        monkeypatch.setattr(evidence, "_AT_ONCE", rows)
        for found, right in zip(evidence.shortfall_bounds(units, level), at_once, strict=True):
            np.testing.assert_array_equal(found, right)
