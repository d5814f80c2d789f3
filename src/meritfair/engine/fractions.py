r"""Step by step: an index by arm and state, and a least fraction of steps at which each arm is pulled in the long run.

*Debts.* An arm's debt grows by its minimum :math:`m_i` at each step, this one included, and falls by 1 when the arm is
pulled: :math:`d_i(t+1) = d_i(t) + m_i - u_i(t)`, where :math:`u_i(t)` is 1 for the K arms that are pulled at t. Arms
whose debt is above :math:`\tau` = 3 are *overdue*: they come first, whatever their state, the largest debt before all
others. An arm whose debt is above 1 is *owed* a pull: it comes next, but only in a state in which its index is
positive, so there is time to wait for a state in which pulling is of use. All others follow by index.

*Debts are bounded* if no minimum is above 1 and their sum is at most K, equal to K or less:

.. math:: d_i(t) \le \tau + 1 + \sum_{n=1}^{N-1} \Delta_n', \qquad \Delta_n' = 1 + \min(n, K) ,

for all arms, steps and indices. So after t steps an arm was pulled at least :math:`m_i t` times less a constant, and
its fraction of pulls is at least :math:`m_i` in the long run. For a proof, let :math:`x_i = d_i - \tau - 1`, let
:math:`T_n(t)` be the sum of the n largest :math:`\max(x_i(t), 0)`, and :math:`C_n = \Delta_1 + \dots + \Delta_n`
with :math:`\Delta_N = 0` and :math:`\Delta_n = \Delta_{n+1} + \Delta_n'`. Then :math:`T_n(t) \le C_n` for all n and
t, which for n = 1 is the claim. It holds at the start, where all debts are at most 1. If it holds at t but not at
t + 1, let n be the smallest that fails, and S the n arms of the largest debts at t + 1.

1. All of S is overdue at t. As n - 1 does not fail, every i in S has :math:`x_i(t+1) > C_n - C_{n-1} = \Delta_n`, so
   :math:`x_i(t) > \Delta_n - 1 \ge -1`.
2. All of S has larger debts at t than any k outside. The minimums of S add up to at most :math:`\min(n, K)`, so
   :math:`\sum_S x_i(t) \ge \sum_S x_i(t+1) - \min(n, K) > C_n - \min(n, K)`; and as :math:`T_{n+1}(t) \le C_{n+1}`,
   :math:`x_k(t) < \Delta_{n+1} + \min(n, K) = \Delta_n - 1`.
3. Hence :math:`\min(n, K)` arms of S are pulled at t, and :math:`T_n(t+1) = \sum_S x_i(t+1) \le \sum_S x_i(t) \le
   T_n(t) \le C_n`, which contradicts the choice of n.

In simulations debts hardly pass :math:`\tau + 1`.
"""

from __future__ import annotations

import numpy as np

from meritfair.core.arrays import FloatArray, IntArray
from meritfair.engine.compiling import stage

_MINIMUM, _DEBT, _COLUMNS = 2, 3, 4  # the first two columns are the index by state
_OWED, _OVERDUE = 1.0, 3.0
_BEFORE = 2.0  # more than any two indices differ by


def new_debts(index: FloatArray, minimum: FloatArray, before: FloatArray | None) -> FloatArray:
    """Return a memory, shape (..., N, 4), of an index of shape (..., N, 2) between -0.5 and 1.5, and minimums.

    Debts are taken over from a memory of before, or are 0.
    """
    memory = np.zeros((*index.shape[:-1], _COLUMNS))
    memory[..., :_MINIMUM], memory[..., _MINIMUM] = index, minimum
    if before is not None:
        memory[..., _DEBT] = before[..., _DEBT]
    return memory


@stage
def rank_by_debt(
    memory: FloatArray, states: IntArray, last_actions: IntArray, _step: int, _exploring: bool, index: FloatArray
) -> None:
    """Bring the debts up to date, and set the index of each arm: by debt if overdue, else by state."""
    for arm in range(len(states)):
        debt = memory[arm, _DEBT] + memory[arm, _MINIMUM] - last_actions[arm]
        memory[arm, _DEBT] = debt
        here = memory[arm, states[arm]]
        if debt > _OVERDUE:
            here = 2 * _BEFORE + debt
        elif debt > _OWED and here > 0.0:
            here += _BEFORE
        index[arm] = here
