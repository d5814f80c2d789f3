r"""Restless bandits as Gymnasium environments; needs the extra ``gym``.

An observation is the state of each arm, an action a 0 or 1 for each arm with at most K ones, the budget. Arm i then is
good with probability :math:`P_i(s_i, a_i, 1)`, and the reward is how many arms are good after the step, as in
`Run.reward`. An episode ends, truncated, after ``horizon`` steps; it never terminates.

Importing this module registers ``meritfair/RestlessBandit-v0``. `RestlessBanditEnv` is one environment in NumPy,
`RestlessBanditVectorEnv` many of them in one compiled call. Each environment of the second has the random numbers that
it would have alone, so it does, number for number, what Gymnasium's ``SyncVectorEnv`` would do with the first.

An arm that is not always there has an ``availability``, the probability that it can be pulled at a step, independent of
everything else. The mask says who can: 1 may be pulled, 0 may not, as in the masks of Gymnasium's ``Discrete`` (in
those of its ``MultiBinary`` a 1 would have to be pulled).
"""

from __future__ import annotations

from meritfair.core.errors import MissingExtraError

try:
    import gymnasium
except ImportError:
    raise MissingExtraError("the Gymnasium environment", "gym") from None

from meritfair.gym.actions import Pulls
from meritfair.gym.single import RestlessBanditEnv
from meritfair.gym.vector import RestlessBanditVectorEnv

__all__ = ["ENV_ID", "Pulls", "RestlessBanditEnv", "RestlessBanditVectorEnv", "register"]

ENV_ID = "meritfair/RestlessBandit-v0"


def register() -> None:
    """Make the environment known to Gymnasium; more than once is the same as once."""
    if ENV_ID not in gymnasium.registry:
        gymnasium.register(
            ENV_ID,
            entry_point="meritfair.gym:RestlessBanditEnv",
            vector_entry_point="meritfair.gym:RestlessBanditVectorEnv",
        )


register()
