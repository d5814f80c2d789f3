"""Q-learning once more, an arm at a time and a formula at a time: nothing is shared with the package."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product

Table = dict[tuple[int, int], float]
PAIRS = tuple(product((0, 1), (0, 1)))  # state and action


def zeros() -> Table:
    """Return a number for each state and action: 0."""
    return dict.fromkeys(PAIRS, 0.0)


def relative(Q: Table, state: int) -> float:
    """Return what a state is worth, above the mean of all values."""
    return max(Q[state, 0], Q[state, 1]) - sum(Q.values()) / 4


@dataclass
class WIQLArm:
    """An arm of WIQL: its values, and how often it was in each state under each action."""

    discount: float
    Q: Table = field(default_factory=zeros)
    seen: Table = field(default_factory=zeros)

    def learn(self, state: int, action: int, following: int) -> None:
        """Learn from a step."""
        here = state, action
        self.Q[here] += (following + self.discount * relative(self.Q, following) - self.Q[here]) / (self.seen[here] + 1)
        self.seen[here] += 1

    def index(self, state: int) -> float:
        """Return what a pull gains."""
        return self.Q[state, 1] - self.Q[state, 0]


@dataclass
class ABWhittleArm:
    """An arm of AB-Whittle: for each state a subsidy and values under it, and how often all was seen."""

    fast: float
    slow: float
    Q: tuple[Table, Table] = field(default_factory=lambda: (zeros(), zeros()))
    subsidy: list[float] = field(default_factory=lambda: [0.0, 0.0])
    seen: Table = field(default_factory=zeros)

    def learn(self, state: int, action: int, following: int) -> None:
        """Learn from a step."""
        here = state, action
        self.seen[here] += 1
        a, b = self.seen[here] ** -self.fast, sum(self.seen.values()) ** -self.slow
        for x, Q in enumerate(self.Q):
            reward = following + (self.subsidy[x] if action == 0 else 0.0)
            Q[here] += a * (reward + relative(Q, following) - Q[here])
            self.subsidy[x] += b * (Q[x, 1] - Q[x, 0])

    def index(self, state: int) -> float:
        """Return the Whittle index as far as it is known."""
        return self.subsidy[state]
