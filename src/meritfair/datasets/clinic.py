r"""Records of a clinic that never was: 200 people over 40 weeks, with all that real records have and lack.

People are of three kinds, whom a weekly call helps little (*steady*), much (*responsive*) or hardly (*hard to help*).
The kind depends on age group and language, and so on the district, where languages differ; gender has nothing to do
with it, but districts differ in gender. Each week the clinic calls some by a merit-fair lottery with a floor, whose
exposures follow from what it has seen. States are not always observed; some people join late or leave early; now and
then staff call someone else than was drawn. Everything follows from the seed.
"""

from __future__ import annotations

import numpy as np

from meritfair.core.arrays import FloatArray, IntArray
from meritfair.core.checks import check_budget, check_number, check_whole
from meritfair.core.machine import check_arms
from meritfair.core.seeding import fresh_seed, stream
from meritfair.datasets.logs import StateLog
from meritfair.model.arms import Arms
from meritfair.model.benefit import benefit
from meritfair.model.counts import Counts
from meritfair.model.criterion import Criterion
from meritfair.model.draws import draw_exposures
from meritfair.model.merit import Exponential

_KINDS = np.array([[[0.62, 0.72], [0.88, 0.92]], [[0.15, 0.62], [0.55, 0.85]], [[0.08, 0.14], [0.45, 0.52]]])
_AGES, _LANGUAGES, _DISTRICTS = ("18-24", "25-34", "35 and over"), ("A", "B", "C"), ("north", "south", "harbour")
_KIND_BY_AGE = np.array([[0.15, 0.6, 0.25], [0.4, 0.4, 0.2], [0.6, 0.15, 0.25]])
_TILT_BY_LANGUAGE = np.array([[1.0, 1.0, 1.0], [0.6, 1.8, 1.0], [1.0, 0.4, 2.5]])
_LANGUAGE_BY_DISTRICT = np.array([[0.7, 0.2, 0.1], [0.2, 0.7, 0.1], [0.3, 0.2, 0.5]])
_WOMEN_BY_DISTRICT = np.array([0.5, 0.65, 0.4])
_SPREAD = 0.35  # standard deviation of log-odds within a kind
_LATE, _EARLY = 0.2, 0.12  # shares of those who join late, and who leave early
_OVERRIDDEN = 0.02
_FLOOR = 0.25  # of equal shares


def clinic(n_arms: int = 200, rounds: int = 40, budget: int = 30, observed: float = 0.8, seed: int = 0) -> StateLog:
    """Return made-up records of a clinic, with exposures, features and states that were not observed.

    Parameters
    ----------
    n_arms, rounds : int
        People and weeks.
    budget : int
        Calls in a week.
    observed : float
        The chance that a state is observed.
    seed : int
        Fixes everything.

    Examples
    --------
    >>> log = clinic(seed=1)
    >>> log
    StateLog(7,386 rows of 200 arms: 4,563 transitions, 1,107 gaps, 1,107 of them bridged)
    >>> sorted(log.features)
    ['age', 'district', 'gender', 'language']
    """
    check_arms(n_arms)
    K = check_budget(budget, n_arms)
    weeks = check_whole("rounds", rounds, 2)
    seen = check_number("observed", observed, 0.0, 1.0)
    rng = stream(fresh_seed(seed), "instance")
    features, transitions = _people(n_arms, rng)
    joined = np.where(rng.random(n_arms) < _LATE, rng.integers(1, max(2, weeks // 2), n_arms), 0)
    left = np.where(rng.random(n_arms) < _EARLY, rng.integers(max(1, weeks // 2), weeks, n_arms), weeks)
    columns = _play(transitions, joined, left, weeks, K, seen, rng)
    names = np.array(_names(n_arms))
    arm, week, states, actions, exposure, drawn = columns
    values = {name: np.array(column)[arm].tolist() for name, column in features.items()}
    return StateLog(names[arm], week + 1, states, actions, exposure=exposure, drawn=drawn, features=values)


def clinic_arms(n_arms: int = 200, seed: int = 0) -> Arms:
    """Return the people behind `clinic`, whom nobody knows in practice."""
    return clinic_people(n_arms, seed)[0]


def clinic_people(n_arms: int = 200, seed: int = 0) -> tuple[Arms, dict[str, list[str]]]:
    """Return the people behind `clinic` together with their features."""
    features, transitions = _people(check_arms(n_arms), stream(fresh_seed(seed), "instance"))
    return Arms(transitions, _names(n_arms)), features


def _names(n_arms: int) -> list[str]:
    return [f"P{i + 1:0{len(str(n_arms))}d}" for i in range(n_arms)]


def _people(n_arms: int, rng: np.random.Generator) -> tuple[dict[str, list[str]], FloatArray]:
    """Return features and transitions."""
    age, district = rng.choice(3, n_arms, p=[0.3, 0.4, 0.3]), rng.choice(3, n_arms, p=[0.4, 0.4, 0.2])
    language = _chosen(_LANGUAGE_BY_DISTRICT[district], rng)
    women = rng.random(n_arms) < _WOMEN_BY_DISTRICT[district]
    chances = _KIND_BY_AGE[age] * _TILT_BY_LANGUAGE[language]
    kind = _chosen(chances / chances.sum(axis=1, keepdims=True), rng)
    centre = _KINDS[kind]
    odds = np.log(centre / (1 - centre)) + rng.normal(0.0, _SPREAD, centre.shape)
    features = {
        "age": [_AGES[i] for i in age],
        "language": [_LANGUAGES[i] for i in language],
        "district": [_DISTRICTS[i] for i in district],
        "gender": ["f" if woman else "m" for woman in women],
    }
    return features, 1 / (1 + np.exp(-odds))


def _chosen(chances: FloatArray, rng: np.random.Generator) -> IntArray:
    """Return a choice for each row of probabilities."""
    return np.asarray((rng.random((len(chances), 1)) > chances.cumsum(axis=1)[:, :-1]).sum(axis=1))


def _play(
    transitions: FloatArray,
    joined: IntArray,
    left: IntArray,
    weeks: int,
    budget: int,
    observed: float,
    rng: np.random.Generator,
) -> tuple[IntArray, IntArray, IntArray, IntArray, FloatArray, IntArray]:
    """Play the weeks; return columns: arm, week, state, action, exposure, drawn."""
    N, rows = len(transitions), []
    visits, good = np.zeros((2, N, 2, 2), np.int64)
    state, last = rng.integers(0, 2, N), np.full((2, N), -1)
    for week in range(weeks):
        here = np.flatnonzero((joined <= week) & (week < left))
        seen = np.where(rng.random(len(here)) < observed, state[here], -1)
        before, done = last[:, here]
        whole = (before >= 0) & (seen >= 0)
        visits[here[whole], before[whole], done[whole]] += 1
        good[here[whole], before[whole], done[whole]] += seen[whole]
        exposure = _exposures(Counts(visits[here], good[here]), min(budget, len(here)))
        drawn = draw_exposures(exposure, rng=rng)[0].astype(np.int64)
        action = _overridden(drawn, rng)
        rows.append((here, np.full(len(here), week), seen, action, exposure, drawn))
        last[:] = -1
        last[:, here] = seen, action
        state[here] = rng.random(len(here)) < transitions[here, state[here], action]
    arm, week_, states, actions, exposures, draws = (np.concatenate(column) for column in zip(*rows, strict=True))
    return arm, week_, states, actions, exposures, draws


def _exposures(counts: Counts, budget: int) -> FloatArray:
    """Return the exposures of a week by merit, with a floor."""
    floor = _FLOOR * budget / counts.n_arms
    return Criterion(Exponential(3.0), "exact", floor).exposure(Exponential(3.0)(benefit(counts.mean)), budget)


def _overridden(drawn: IntArray, rng: np.random.Generator) -> IntArray:
    """Return what was done: now and then someone else is called instead of one who was drawn."""
    action, pulled, others = drawn.copy(), np.flatnonzero(drawn), np.flatnonzero(drawn == 0)
    for arm in pulled[rng.random(len(pulled)) < _OVERRIDDEN]:
        if len(others):
            instead = rng.choice(others)
            action[arm], action[instead] = 0, 1
            others = others[others != instead]
    return action
