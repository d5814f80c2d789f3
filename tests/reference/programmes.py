"""Made-up programmes whose effects are known: plain loops over rounds, with draws by the designs of meritfair.

Merits follow what was seen before, so exposures depend on past outcomes; with `timed` above 1 they depend on states
too, as with slack. Nothing here is used by the package.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtr

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
    shared : float
        How much of what happens in a round is the same for all arms, from 0 to 1.
    slack : float
        If above 0, a learner of meritfair with this slack says who is pulled, with the exposures that it states.
    lasting : float
        How much of what is shared is still there a round later, from 0 to 1.
    sites : int
        If above 0, `budget` whole sites of that many are drawn, all with one chance; arm i is of site i modulo `sites`,
        and what is shared in a round is shared by the arms of a site alone.
    one_by_one : bool
        Arms are drawn, not whole sites, also where there are sites.
    """

    n_arms: int = 20
    budget: int = 4
    rounds: int = 40
    design: str = "exact"
    helps: bool = True
    timed: float = 1.0
    missing: float = 0.0
    replan: int = 1
    shared: float = 0.0
    slack: float = 0.0
    lasting: float = 0.0
    sites: int = 0
    one_by_one: bool = False

    @property
    def site(self) -> IntArray:
        """Which site each arm is of; all of one, if there are no sites."""
        return np.arange(self.n_arms) % max(1, self.sites)


@dataclass(frozen=True)
class Programme:
    """What happened, each of shape (rounds, arms), the effect of a pull in each arm-round, and the site of each arm."""

    states: IntArray
    drawn: BoolArray
    exposure: FloatArray
    effect: FloatArray
    seen: BoolArray
    site: IntArray

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
            features={"site": [f"site {k + 1}" for k in np.tile(self.site, T + 1)]},
        )

    def mean_effect(self) -> float:
        """Return the mean effect over all arm-rounds that were left to chance with a known state, seen after or not."""
        known = self.seen[:-1] & (self.exposure > 0) & (self.exposure < 1)
        return float(self.effect[known].mean())

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


def silenced(programme: Programme, chances: FloatArray, rng: np.random.Generator) -> Programme:
    """Return the programme in which states are missing because of what they are.

    `chances[a, y]` is the probability that the next state is not observed if the draw was a and that state is y.
    """
    missing = rng.random(programme.drawn.shape) < np.asarray(chances)[programme.drawn.astype(int), programme.states[1:]]
    return replace(programme, seen=np.vstack([np.ones((1, missing.shape[1]), bool), ~missing]))


def unseen_shift(programme: Programme) -> float:
    """Return by how much the effect is off because those who were not seen differ from those who were.

    By the definition: for each state and draw, the share of good next states of those who were not seen less that of
    those who were, times the part of the mean that they make up, all with weights of 1 over the probability.
    """
    T = len(programme.drawn)
    known = programme.seen[:-1] & (programme.exposure > 0) & (programme.exposure < 1)
    after, seen = programme.states[1:], programme.seen[1:]
    chance = np.where(programme.drawn, programme.exposure, 1 - programme.exposure)
    weight = known / np.where(known, chance, 1.0)
    total = 0.0
    for state in (0, 1):
        for drawn in (0, 1):
            here = weight * ((programme.states[:T] == state) & (programme.drawn == drawn))
            lost, found = here * ~seen, here * seen
            if lost.sum() > 0 and found.sum() > 0:
                differ = (lost * after).sum() / lost.sum() - (found * after).sum() / found.sum()
                total += (2 * drawn - 1) * lost.sum() / known.sum() * differ
    return float(total)


def make_arms(settings: Settings, rng: np.random.Generator) -> FloatArray:
    """Return transition probabilities, shape (N, 2, 2), in which the good state helps."""
    never = np.sort(rng.beta(2, 3, (settings.n_arms, 2)), axis=1)
    gain = rng.uniform(-0.05, 0.4, never.shape) * (1 - never) if settings.helps else np.zeros_like(never)
    return np.stack([never, np.clip(never + gain, 0, 1)], axis=-1)


def play(settings: Settings, rng: np.random.Generator) -> Programme:
    """Play a programme."""
    N, T = settings.n_arms, settings.rounds
    P, everyone = make_arms(settings, rng), np.arange(N)
    states, drawn, exposure, effect = np.zeros((T + 1, N), np.int64), np.zeros((T, N), bool), *np.zeros((2, T, N))
    states[0] = rng.random(N) < 0.5
    chooser, coins = _chooser(settings, rng), Coins(settings, rng)
    for t in range(T):
        s = states[t]
        exposure[t], drawn[t] = chooser.choose(s)
        action = drawn[t].astype(int)
        states[t + 1] = coins.toss() < P[everyone, s, action]
        effect[t] = P[everyone, s, 1] - P[everyone, s, 0]
        chooser.observe(s, action, states[t + 1])
    return Programme(states, drawn, exposure, effect, rng.random(states.shape) >= settings.missing, settings.site)


def _chooser(settings: Settings, rng: np.random.Generator) -> ByMerit | Live | BySite:
    if settings.sites and not settings.one_by_one:
        return BySite(settings, rng)
    return Live(settings, rng) if settings.slack else ByMerit(settings, rng)


class ByMerit:
    """Draws by the merits that were learned, after the definition."""

    def __init__(self, settings: Settings, rng: np.random.Generator) -> None:
        self.settings, self.rng, self.round = settings, rng, 0
        self.visits, self.good = np.zeros((2, settings.n_arms, 2, 2))
        self.learned = self.chances = np.ones(settings.n_arms)

    def choose(self, states: IntArray) -> tuple[FloatArray, BoolArray]:
        settings, begins = self.settings, self.round % self.settings.replan == 0
        self.round += 1
        if begins:
            mean = (self.good + 1) / (self.visits + 2)
            self.learned = MERIT((mean[..., 1] - mean[..., 0]).mean(axis=1))
        merit = self.learned * np.where(states == 0, settings.timed, 1.0)
        if begins or settings.timed != 1:
            self.chances = mf.fair_exposure(merit, settings.budget, settings.design)
        return self.chances, _draw(merit, self.chances, settings, self.rng)

    def observe(self, states: IntArray, actions: IntArray, outcomes: IntArray) -> None:
        where = np.arange(len(states)), states, actions
        self.visits[where] += 1
        self.good[where] += outcomes


class Live:
    """Draws as a learner of meritfair says."""

    def __init__(self, settings: Settings, rng: np.random.Generator) -> None:
        policy = mf.MeritFair(estimate="mean", design=settings.design, slack=settings.slack)
        self.learner = policy.start(settings.n_arms, settings.budget, seed=int(rng.integers(2**31)))

    def choose(self, states: IntArray) -> tuple[FloatArray, BoolArray]:
        choice = self.learner.choose(states)
        return choice.exposure, np.asarray(choice.actions) == 1

    def observe(self, states: IntArray, actions: IntArray, outcomes: IntArray) -> None:
        self.learner.observe(states, actions, outcomes)


class BySite:
    """Draws whole sites, all with one chance."""

    def __init__(self, settings: Settings, rng: np.random.Generator) -> None:
        self.settings, self.rng = settings, rng

    def choose(self, states: IntArray) -> tuple[FloatArray, BoolArray]:
        sites, number = self.settings.sites, self.settings.budget
        drawn = np.isin(self.settings.site, self.rng.choice(sites, number, replace=False))
        return np.full(len(states), number / sites), drawn

    def observe(self, states: IntArray, actions: IntArray, outcomes: IntArray) -> None:
        """Learn nothing."""


class Coins:
    """Uniform numbers of all arms; those of one round, or one site, depend on each other if something is shared."""

    def __init__(self, settings: Settings, rng: np.random.Generator) -> None:
        self.settings, self.rng, self.common = settings, rng, np.zeros(0)

    def toss(self) -> FloatArray:
        settings = self.settings
        if not settings.shared:
            return self.rng.random(settings.n_arms)
        own, fresh = self.rng.normal(size=settings.n_arms), self.rng.normal(size=max(1, settings.sites))
        kept = settings.lasting if len(self.common) else 0.0
        self.common = np.sqrt(1 - kept**2) * fresh + (kept * self.common if kept else 0.0)
        shared = self.common[settings.site]
        return np.asarray(ndtr(np.sqrt(1 - settings.shared) * own + np.sqrt(settings.shared) * shared))


def _draw(merit: FloatArray, chances: FloatArray, settings: Settings, rng: np.random.Generator) -> BoolArray:
    if settings.design == "sequential":
        return np.asarray(mf.draw(merit, settings.budget, rng=rng)[0])
    return np.asarray(mf.draw_exposures(chances, rng=rng, design=settings.design)[0])
