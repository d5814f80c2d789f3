"""A policy for meritfair: those who gain most come first, those in need a little sooner, and nobody waits too long."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from meritfair.core.checks import check_number, check_whole
from meritfair.policies import Policy, StepLearner, View

__all__ = ["Considerate"]

SEEN, GOOD = 0, 4  # four columns each: bad and not pulled, bad and pulled, good and not pulled, good and pulled
WAIT, NEED, PATIENCE, EXPLORATION = 8, 9, 10, 11


def rank(memory, states, last_actions, step, exploring, index):
    for arm in range(len(states)):
        memory[arm, WAIT] = 0 if last_actions[arm] else memory[arm, WAIT] + 1
        if memory[arm, WAIT] >= memory[arm, PATIENCE]:
            index[arm] = 2 + memory[arm, WAIT]  # before all others, whose index is below 2
        elif exploring:
            index[arm] = 0  # all of them level: a lottery
        else:
            at = 2 * states[arm]
            mean = (memory[arm, GOOD + at] + 1) / (memory[arm, SEEN + at] + 2)
            mean_pulled = (memory[arm, GOOD + at + 1] + 1) / (memory[arm, SEEN + at + 1] + 2)
            index[arm] = mean_pulled - mean + memory[arm, NEED] * (1 - states[arm])


def learn(memory, states, actions, next_states):
    for arm in range(len(states)):
        at = 2 * states[arm] + actions[arm]
        memory[arm, SEEN + at] += 1
        memory[arm, GOOD + at] += next_states[arm]


def explore(memory, step):
    return memory[0, EXPLORATION]


@dataclass(frozen=True)
class Considerate(Policy):
    """Pulls those to whom a pull gains most, in need a little sooner; nobody waits much longer than `patience` steps.

    Parameters
    ----------
    need : float
        What being in the bad state adds to a gain, from 0 to 1.
    patience : int
        After that many steps without a pull an arm goes first.
    exploration : float
        The share of steps at which all who are still patient have the same exposure.
    """

    name: ClassVar[str] = "considerate"
    plans_once = True
    need: float = 0.1
    patience: int = 25
    exploration: float = 0.05

    def __post_init__(self) -> None:
        check_number("need", self.need, 0, 1)
        check_whole("patience", self.patience, 1)
        check_number("exploration", self.exploration, 0, 1)

    def plan(self, view: View) -> StepLearner:
        memory = np.zeros((*view.counts.visits.shape[:-2], 12))
        memory[..., NEED], memory[..., PATIENCE] = self.need, self.patience
        memory[..., EXPLORATION] = self.exploration
        return StepLearner(memory, rank, learn, explore)
