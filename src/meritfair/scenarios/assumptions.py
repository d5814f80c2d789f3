r"""Whether the arms of a log are chains at all: posterior predictive checks of what every answer assumes.

The chains say that the next state depends on the state and the action of a round, and on nothing else: not on what was
before (*the state before*, *the pull before*), nor on when it was (*the second half*). For each of these, x, the log
shows how much more often the next state y is good where x is 1, between rounds of the same arm in the same state under
the same action:

.. math:: b = \frac{\sum_k \sum_{t \in k} (x_t - \bar x_k)\, y_t}{\sum_k \sum_{t \in k} (x_t - \bar x_k)^2} ,

where k are the arms, states and actions. It should be 0, but for chance and for a bias of short sequences (where a good
state must come before the next, few are left to follow it). So logs are simulated: the same arms in the same rounds,
each with a draw of its chains from the posterior, with pulls by the chances that the log had, and with states missing
where they are missing in it. How b is spread over these is what chance does, bias included. If the log's own differs
from their mean by more than `SIGNIFICANT` of their standard deviations, and by at least `RELEVANT`, it contradicts the
chains. Logs of many thousand arms show less than that, too, but the answer hardly depends on it.

References
----------
A. Gelman, X.-L. Meng and H. Stern, "Posterior predictive assessment of model fitness", Statistica Sinica 6 (1996).
J. B. Miller and A. Sanjurjo, "Surprised by the hot hand fallacy?", Econometrica 86 (2018), for the bias.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from meritfair.core.arrays import BoolArray, FloatArray, IntArray
from meritfair.core.seeding import stream
from meritfair.datasets.logs import StateLog
from meritfair.scenarios.start import Start

SIGNIFICANT = 3.5  # standard deviations
RELEVANT = 0.02
_LOGS = 60  # that are simulated
_FEWER, _MANY = 30, 200_000  # of a log with more rows
ASSUMED = {
    "state before": "the state before the last",
    "pull before": "whether there was a pull the round before",
    "second half": "whether it was in the second half of the log",
}


@dataclass(frozen=True)
class Assumption:
    """What the log says of one thing that outcomes should not depend on.

    Attributes
    ----------
    name : str
    effect : float
        By how much more often the next state is good where it is so, beyond what chains would show.
    error : float
        The standard deviation of that by chance.
    """

    name: str
    effect: float
    error: float

    @property
    def contradicted(self) -> bool:
        """Whether the log contradicts the chains."""
        return abs(self.effect) > max(SIGNIFICANT * self.error, RELEVANT)

    @property
    def sentence(self) -> str:
        """What the log says, as the reason for a refusal."""
        word = "more" if self.effect > 0 else "less"
        size = f"{100 * abs(self.effect):.1f} ± {196 * self.error:.1f} percentage points {word}"
        return (
            f"in the log outcomes also depend on {ASSUMED[self.name]} (good {size} often), not on state and pull alone"
        )


def assumptions_of(
    log: StateLog, start: Start, draws: FloatArray, chance: FloatArray, seed: int, tell: Callable[[int, int], None]
) -> tuple[Assumption, ...]:
    """Return what the log says of each assumption, for draws (draws, N, 2, 2) of the arms that are there.

    `chance` (N, 2) is the log's chance of a pull by arm and state.
    """
    rows = _Rows.of(log, start)
    found, number = rows.effects(rows.states, rows.actions), _FEWER if len(log) > _MANY else _LOGS
    made = np.empty((number, len(ASSUMED)))
    for k in range(number):
        simulated = rows.simulated(draws[k % len(draws)], chance, stream(seed, "sight", k))
        made[k] = rows.effects(*simulated)
        tell(k + 1, number)
    effects, errors = found - made.mean(axis=0), made.std(axis=0, ddof=1) * np.sqrt(1 + 1 / number)
    return tuple(Assumption(name, *map(float, each)) for name, *each in zip(ASSUMED, effects, errors, strict=True))


@dataclass(frozen=True, eq=False)
class _Rows:
    """The rows of the arms that are there, in order of arms and rounds."""

    arm: IntArray
    states: IntArray
    actions: IntArray
    place: IntArray  # how many rows of the arm come right before it, without a missing round
    late: BoolArray

    @classmethod
    def of(cls, log: StateLog, start: Start) -> _Rows:
        place = np.full(log.n_arms, -1)
        place[start.arms] = np.arange(start.n_arms)
        kept = place[log.arm] >= 0
        follows = np.append(False, log.followed[:-1])[kept]
        since = np.arange(len(follows))
        before = since - np.maximum.accumulate(np.where(follows, 0, since))
        rounds = log.rounds[kept]
        return cls(place[log.arm[kept]], log.states[kept], log.actions[kept], before, rounds > np.median(rounds))

    def simulated(
        self, transitions: FloatArray, chance: FloatArray, rng: np.random.Generator
    ) -> tuple[IntArray, IntArray]:
        """Return states and actions of the same rows if the arms were these chains."""
        coin, pull = rng.random((2, len(self.arm)))
        states = np.where(self.states >= 0, self.states, coin < 0.5)  # where a row follows none, it stays
        actions = np.zeros(len(self.arm), np.int64)
        for now in self._by_place():
            arm, first = self.arm[now], self.place[now[0]] == 0
            if not first:
                states[now] = coin[now] < transitions[arm, states[now - 1], actions[now - 1]]
            actions[now] = pull[now] < chance[arm, states[now]]
        return np.where(self.states < 0, -1, states), np.where(self.actions < 0, -1, actions)

    def _by_place(self) -> Iterator[IntArray]:
        order = np.argsort(self.place, kind="stable")
        yield from np.split(order, np.flatnonzero(np.diff(self.place[order])) + 1)

    def effects(self, states: IntArray, actions: IntArray) -> FloatArray:
        """Return b for each of the assumptions."""
        now = np.flatnonzero((self.place[1:-1] >= 1) & (self.place[2:] == self.place[1:-1] + 1)) + 1
        known = (states[now - 1] >= 0) & (states[now] >= 0) & (states[now + 1] >= 0)
        now = now[known & (actions[now] >= 0) & (actions[now - 1] >= 0)]
        stratum = 4 * self.arm[now] + 2 * states[now] + actions[now]
        good = states[now + 1].astype(np.float64)
        about = (states[now - 1], actions[now - 1], self.late[now])
        return np.array([_slope(stratum, each.astype(np.float64), good) for each in about])


def _slope(stratum: IntArray, x: FloatArray, y: FloatArray) -> float:
    """Return the slope of y on x within strata; 0 where x never varies.

    Examples
    --------
    >>> _slope(np.array([0, 0, 1, 1]), np.array([0.0, 1.0, 0.0, 1.0]), np.array([0.0, 1.0, 1.0, 1.0]))
    0.5
    """
    size, of_x, of_y, both = (np.bincount(stratum, weights) for weights in (None, x, y, x * y))
    size = np.maximum(size, 1)
    spread = float((np.bincount(stratum, x * x) - of_x**2 / size).sum())
    return float((both - of_x * of_y / size).sum()) / spread if spread > 0 else 0.0
