"""From a log to an answer: `whatif` plays policies in the rounds after it, and checks them against it."""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

import meritfair
from meritfair.core.arrays import FloatArray
from meritfair.core.checks import check_choice, check_flag, check_kind, check_known, check_number, check_whole
from meritfair.core.machine import check_memory
from meritfair.core.progress import Progress, following, in_parts
from meritfair.core.seeding import fresh_seed
from meritfair.datasets.logs import StateLog
from meritfair.fitting import ESTIMATES
from meritfair.model.benefit import benefit
from meritfair.model.criterion import Criterion
from meritfair.model.exposure import fair_exposure
from meritfair.model.merit import Exponential, Merit
from meritfair.scenarios.answer import Outlook, WhatIf, difference
from meritfair.scenarios.assumptions import assumptions_of
from meritfair.scenarios.chains import Half, chains_of, halves_of
from meritfair.scenarios.checking import Check, Windows, check, middle_of, windows_of
from meritfair.scenarios.options import AS_LOGGED, Players, Scenario, merit_of, scenarios_of, several_of
from meritfair.scenarios.playing import Ahead, Played, ahead_of, chance_of, expected, follow, play
from meritfair.scenarios.start import Start, budget_of, logged_chance, longest_waits, start_of
from meritfair.simulation.bootstrap import Interval
from meritfair.simulation.players import Notes

_MOST_ROUNDS = 52
_DRAWS, _FEWER_DRAWS, _MANY_ARMS = 200, 100, 2000
_FEWEST_DRAWS = 20
_PER_ARM = 160  # bytes of a draw


def whatif(
    log: StateLog,
    policies: Players | None = None,
    *,
    budget: int | Sequence[int] | None = None,
    floor: float | Sequence[float] | None = None,
    slack: float | Sequence[float] | None = None,
    merit: Merit | str | Sequence[Merit | str] | None = None,
    rounds: int | None = None,
    window: int = 3,
    against: str = AS_LOGGED,
    estimate: str = "pooled",
    draws: int | None = None,
    extrapolate: bool = False,
    seed: int = 0,
    workers: int | None = None,
    progress: Progress = None,
) -> WhatIf:
    """Say what other policies, budgets, floors, slacks and merits would do in the rounds after a log.

    The arms that are there at the end of the log are played on from where it left them, by many draws of the chains
    that it leaves possible. A policy plans from what the log has seen, and learns on, in a few plans. Each answer is
    checked against the log itself by importance weights over a few rounds, and so is the assumption that arms are
    chains; where the log cannot answer, or contradicts the chains, the answer is refused.

    Parameters
    ----------
    log : StateLog
        What was recorded, with exposures.
    policies : mapping or sequence, optional
        Policies, their names (also with settings, as for `simulate`), or functions that plan, by label. By default
        merit-fair with estimate pooled, design exact and slack 2. Those that look at the true arms get the estimates.
        A mapping of budgets to policies in place of a policy gives each budget its own, such as one with another floor.
    budget : int or sequence of int, optional
        Arms pulled in a round; by default as many as in the log.
    floor, slack, merit : one or several, optional
        Play each policy that has such a setting once with each of these; all combinations.
    rounds : int, optional
        How many rounds ahead; by default as many as the log has, but at most 52, and a multiple of 4.
    window : int
        Rounds of a window of the check.
    against : str
        The scenario that others are held against, by its name; by default what was logged.
    estimate : {"pooled", "mean"}
        What is known of arms beforehand, as for `fit`. With ``mean``, the prior's pull towards 1/2 adds up over arms.
    draws : int, optional
        Draws of the chains: by default 200, of more than 2,000 arms 100.
    extrapolate : bool
        Also give answers that the log cannot check or contradicts: they rest on the chains alone, and are marked.
    seed : int
        Fixes every random number.
    workers : int, optional
        As for `simulate`.
    progress : bool or callable
        True shows a bar. A function is told now and then what is played, and how much of how much is done.

    Returns
    -------
    WhatIf

    Examples
    --------
    Twenty patients of whom four are called each day for sixty days, by lot; and what eight calls would do.

    >>> import meritfair as mf
    >>> rng, arms = np.random.default_rng(1), mf.datasets.cpap(n_arms=20, seed=1)
    >>> states, rows = np.zeros(20, int), []
    >>> for day in range(60):
    ...     actions = np.isin(np.arange(20), rng.choice(20, 4, replace=False)).astype(int)
    ...     rows += [(i, day, s, a, 0.2) for i, (s, a) in enumerate(zip(states, actions))]
    ...     states = (rng.random(20) < arms.transitions[np.arange(20), states, actions]).astype(int)
    >>> name, day, state, action, exposure = zip(*rows)
    >>> log = mf.StateLog(name, day, state, action, exposure=exposure)
    >>> found = mf.whatif(log, ["random"], budget=[4, 8], rounds=20)
    >>> found
    WhatIf(2 scenarios: 20 arms · the next 20 rounds · 200 draws of chains, estimate pooled · merit exponential:c=3 \
· seed 0)
    >>> [(each.name, each.verdict) for each in found.asked]
    [('random, budget 4', 'agrees'), ('random, budget 8', 'agrees')]
    """
    check_kind("log", log, StateLog).check_transitions()
    check_choice("estimate", estimate, ESTIMATES)
    check_whole("window", window, 1)
    root, start = fresh_seed(seed), start_of(log)
    settings = {
        "floor": several_of("floor", floor, lambda x: check_number("floor", x, 0, 1)),
        "slack": several_of("slack", slack, float),
        "merit": several_of("merit", merit, merit_of),
    }
    budgets = several_of("budget", budget, lambda x: check_whole("budget", x, 1)) or [budget_of(log)]
    asked = scenarios_of(policies, budgets, start.n_arms, settings)
    check_known("scenario", against, [AS_LOGGED, *(each.name for each in asked)])
    length = _length_of(log) if rounds is None else check_whole("rounds", rounds, 1)
    number = _number_of_draws(start) if draws is None else check_whole("draws", draws, _FEWEST_DRAWS)
    check_memory(f"{number:,} draws of {start.n_arms:,} arms", _PER_ARM * number * start.n_arms, "draws")
    yardstick = settings["merit"][0] if settings["merit"] else Exponential()
    with following(progress) as tell:
        begin = in_parts(tell, len(asked) + 2)
        chains = chains_of(log, start, estimate, number, root, begin("fitting"))
        assumptions = assumptions_of(log, start, chains.draws, logged_chance(log, start), root, begin("checking"))
        halves = halves_of(log, start, estimate, middle_of(log, window))
        maker = _Maker(
            ahead_of(start, chains, length, root),
            windows_of(log, start, window),
            halves,
            yardstick,
            "; ".join(each.sentence for each in assumptions if each.contradicted),
            check_flag("extrapolate", extrapolate),
        )
        made = [maker.logged(log, start)]
        made += [maker.outlook(each, workers, begin(each.name)) for each in asked]
    base = next(each for each in made if each.name == against)
    made = [dataclasses.replace(each, difference=difference(each, base)) for each in made]
    about: dict[str, Any] = {"rounds": length, "plans": maker.ahead.plans, "window": int(window), "draws": number}
    about |= {
        "estimate": estimate,
        "merit": str(yardstick),
        "extrapolate": extrapolate,
        "against": against,
        "seed": root,
    }
    left = log.n_arms - start.n_arms
    return WhatIf(tuple(made), against, start.n_arms, left, assumptions, about | {"versions": _versions()})


def _versions() -> dict[str, str]:
    return {"meritfair": meritfair.__version__, "numpy": np.__version__, "python": platform.python_version()}


@dataclasses.dataclass(frozen=True, eq=False)
class _Maker:
    """What all scenarios have in common."""

    ahead: Ahead
    windows: Windows
    halves: tuple[Half, Half]
    merit: Merit
    contradiction: str
    extrapolate: bool

    def logged(self, log: StateLog, start: Start) -> Outlook:
        """Return what comes of doing as the log did."""
        chance = logged_chance(log, start)
        share, exposure = follow(self.ahead, chance)
        wait = float(longest_waits(log)[start.arms].max())
        played = Played(share, share[: self.ahead.again], exposure, wait)
        checked = check(self.windows, np.stack([chance] * 2), self.ahead.chains.mean, self.windows.exposure)
        return self._made(AS_LOGGED, AS_LOGGED, {}, played, checked)

    def outlook(self, of: Scenario, workers: int | None, tell: Any) -> Outlook:
        """Play a scenario."""
        fair = Criterion(self.merit, "exact")
        how = self.ahead, of.policy, of.budget, fair, workers
        with Notes(may_skip=False).about(of.label):
            played = play(*how, tell)
            chance = np.stack([chance_of(*how, other) for other in self.halves[::-1]])
        checked = check(self.windows, chance, self.ahead.chains.mean)
        return self._made(of.name, of.label, of.varied, played, checked)

    def _made(self, name: str, policy: str, varied: dict[str, str], played: Played, checked: Check) -> Outlook:
        pulls = float(played.exposure.sum())
        checked = checked.refused(self.contradiction) if self.contradiction else checked
        gain = [(each - self._nobody[: len(each)]) * len(played.exposure) for each in (played.share, played.again)]
        return Outlook(
            name=name,
            policy=policy,
            budget=round(pulls, 6),
            varied=varied,
            share=expected(played.share, played.again),
            difference=Interval(0.0, 0.0, 0.0),
            gain_per_pull=expected(*(each / pulls for each in gain)) if pulls > 0 else Interval(*[np.nan] * 3),
            misplaced=self._misplaced(played.exposure) if pulls > 0 else np.nan,
            smallest_exposure=float(played.exposure.min()),
            longest_wait=played.longest_wait,
            check=checked,
            answered=self.extrapolate or not checked.refusal,
            draws=played.share,
            again=played.again,
        )

    @cached_property
    def _nobody(self) -> FloatArray:
        """The share in the good state of each draw, if nobody is pulled."""
        return follow(self.ahead, np.zeros((self.ahead.belief.shape[1], 2)))[0]

    def _misplaced(self, exposure: FloatArray) -> float:
        """Return the part of pulls that is not where merit says, by the estimated chains."""
        total = float(exposure.sum())
        whole = max(1, min(len(exposure), round(total)))
        due = fair_exposure(self.merit(benefit(self.ahead.chains.mean)), whole, design="exact")
        return float(np.abs(exposure / total - due / whole).sum() / 2)


def _length_of(log: StateLog) -> int:
    """Return how many rounds the log has, but not too many, and a multiple of 4 if it is more than that."""
    rounds = min(_MOST_ROUNDS, int((log.rounds + (log.actions >= 0)).max() - log.rounds.min()))
    return rounds - rounds % 4 if rounds > 4 else max(rounds, 1)


def _number_of_draws(start: Start) -> int:
    return _DRAWS if start.n_arms <= _MANY_ARMS else _FEWER_DRAWS
