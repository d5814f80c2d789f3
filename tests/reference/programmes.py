"""Made-up programmes whose effects are known: plain loops over rounds, with draws by the designs of meritfair.

Merits follow what was seen before, so exposures depend on past outcomes; with `timed` above 1 they depend on states
too, as with slack. Nothing here is used by the package.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import meritfair as mf
from meritfair.core.arrays import BoolArray, FloatArray, IntArray

MERIT = mf.Exponential(3.0)


@dataclass(frozen=True)
class Settings:
    """What a programme is like.

    Attributes
    ----------
    n_arms, budget, rounds : int
    design : str
    helps : bool
        Whether pulls have an effect, which differs between arms and states; otherwise all effects are 0.
    timed : float
        How many times the merit of an arm in the bad state counts.
    missing : float
        The part of the states that is not observed.
    replan : int
        Merits are learned after that many rounds.
    """

    n_arms: int = 20
    budget: int = 4
    rounds: int = 40
    design: str = "exact"
    helps: bool = True
    timed: float = 1.0
    missing: float = 0.0
    replan: int = 1


@dataclass(frozen=True)
class Programme:
    """What happened, each of shape (rounds, arms), and the effect of a pull in each arm-round."""

    states: IntArray
    drawn: BoolArray
    exposure: FloatArray
    effect: FloatArray
    seen: BoolArray

    def log(self, state: int | None = None) -> mf.StateLog:
        """Return the log; with a state, that of draws in which only arms in this state took part."""
        T, N = self.drawn.shape
        chances = self.exposure if state is None else np.where(self.states[:T] == state, self.exposure, np.nan)
        return mf.StateLog(
            np.tile(np.arange(N), T + 1),
            np.repeat(np.arange(1, T + 2), N),
            np.where(self.seen, self.states, -1).ravel(),
            np.r_[self.drawn.ravel(), np.full(N, -1)],
            exposure=np.r_[chances.ravel(), np.full(N, np.nan)],
        )

    def truth(self, state: int | None = None) -> FloatArray:
        """Return the mean effect over all arm-rounds up to each round that can be used; NaN before the first."""
        T = len(self.drawn)
        used = self.seen[:-1] & self.seen[1:] & (self.exposure > 0) & (self.exposure < 1)
        if state is not None:
            used &= self.states[:T] == state
        rows = np.cumsum(used.sum(axis=1))
        with np.errstate(invalid="ignore"):
            mean = np.cumsum((self.effect * used).sum(axis=1)) / rows
        return np.asarray(mean[used.any(axis=1)])


def make_arms(settings: Settings, rng: np.random.Generator) -> FloatArray:
    """Return transition probabilities, shape (N, 2, 2), in which the good state helps."""
    never = np.sort(rng.beta(2, 3, (settings.n_arms, 2)), axis=1)
    gain = rng.uniform(-0.05, 0.4, never.shape) * (1 - never) if settings.helps else np.zeros_like(never)
    return np.stack([never, np.clip(never + gain, 0, 1)], axis=-1)


def play(settings: Settings, rng: np.random.Generator) -> Programme:
    """Play a programme."""
    N, K, T = settings.n_arms, settings.budget, settings.rounds
    P, everyone = make_arms(settings, rng), np.arange(N)
    visits, good = np.zeros((2, N, 2, 2))
    states, drawn, exposure, effect = np.zeros((T + 1, N), np.int64), np.zeros((T, N), bool), *np.zeros((2, T, N))
    states[0] = rng.random(N) < 0.5
    learned = np.ones(N)
    for t in range(T):
        s = states[t]
        if t % settings.replan == 0:
            mean = (good + 1) / (visits + 2)
            learned = MERIT((mean[..., 1] - mean[..., 0]).mean(axis=1))
        merit = learned * np.where(s == 0, settings.timed, 1.0)
        if t % settings.replan == 0 or settings.timed != 1:
            chances = mf.fair_exposure(merit, K, settings.design)
        exposure[t], drawn[t] = chances, _draw(merit, chances, settings, rng)
        states[t + 1] = rng.random(N) < P[everyone, s, drawn[t].astype(int)]
        effect[t] = P[everyone, s, 1] - P[everyone, s, 0]
        visits[everyone, s, drawn[t].astype(int)] += 1
        good[everyone, s, drawn[t].astype(int)] += states[t + 1]
    seen = rng.random(states.shape) >= settings.missing
    return Programme(states, drawn, exposure, effect, seen)


def _draw(merit: FloatArray, chances: FloatArray, settings: Settings, rng: np.random.Generator) -> BoolArray:
    if settings.design == "sequential":
        return np.asarray(mf.draw(merit, settings.budget, rng=rng)[0])
    return np.asarray(mf.draw_exposures(chances, rng=rng, design=settings.design)[0])
