r"""What every policy must do, as checks that you can run on your own.

All policies of meritfair pass these checks. With pytest, each is a test of its own::

    import pytest
    from meritfair.testing import CHECKS

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_my_policy(check):
        check(MyPolicy())

and `check_policy` runs them all and reports everything that fails. A policy may be given as a `Policy`, as a function
that plans, or by its name. A check that fails raises a `ConformanceError`, which says what must hold, what was seen
instead, and with which seed.

Seeds are fixed, so a policy passes a check always or never; :mod:`meritfair.testing.judging` says how what is random is
judged.
"""

from __future__ import annotations

from meritfair.testing.accounts import check_accounts, check_rules
from meritfair.testing.cases import AnyPolicy, Case, Check
from meritfair.testing.fairness import check_exposures, check_pulls, check_relabelling, check_ties
from meritfair.testing.judging import ConformanceError
from meritfair.testing.live import (
    check_join_and_leave,
    check_learner_and_simulation,
    check_missing,
    check_sizes,
    check_unseen_states,
)
from meritfair.testing.planning import check_constant, check_no_secrets, check_runs_together
from meritfair.testing.repeating import check_restart, check_runs, check_seeds

__all__ = [
    "CHECKS",
    "Check",
    "ConformanceError",
    "check_accounts",
    "check_constant",
    "check_exposures",
    "check_join_and_leave",
    "check_learner_and_simulation",
    "check_missing",
    "check_no_secrets",
    "check_policy",
    "check_pulls",
    "check_relabelling",
    "check_restart",
    "check_rules",
    "check_runs",
    "check_runs_together",
    "check_seeds",
    "check_sizes",
    "check_ties",
    "check_unseen_states",
]

CHECKS: tuple[Check, ...] = (
    check_pulls,
    check_exposures,
    check_ties,
    check_relabelling,
    check_seeds,
    check_runs,
    check_restart,
    check_runs_together,
    check_no_secrets,
    check_constant,
    check_sizes,
    check_missing,
    check_unseen_states,
    check_join_and_leave,
    check_accounts,
    check_rules,
    check_learner_and_simulation,
)


def check_policy(policy: AnyPolicy, n_arms: int = 6, budget: int = 2) -> None:
    """Run all checks on a policy, and report what fails.

    Parameters
    ----------
    policy : Policy, callable or str
        A policy, a function that plans, or the name of a registered policy with its defaults.
    n_arms, budget : int
        How many arms it is tried on, and how many are pulled at a step. If a setting has one entry for each arm, it
        must have `n_arms` of them. Other sizes are tried too; a policy whose settings do not suit them may refuse by an
        `InputError`.

    Raises
    ------
    ConformanceError
        If some check fails; its text has a line for each reason.

    Examples
    --------
    >>> import numpy as np
    >>> from meritfair.policies import PriorityTable
    >>> def first_come(view):
    ...     return PriorityTable.of(-np.arange(float(view.n_arms)))
    >>> check_ties("random")
    >>> check_policy(first_come)
    Traceback (most recent call last):
    ...
    meritfair.testing.judging.ConformanceError: first-come fails 2 of 17 checks:
    check_ties: arms that are alike must be pulled alike: in 120 first rounds arm 0 was pulled 120 times, ...
    check_relabelling: exposures must not depend on the order of arms: after the same history ...
    """
    name = Case.of(policy, n_arms, budget).policy.name
    failed: dict[str, list[str]] = {}  # which checks fail for the same reason
    for check in CHECKS:
        try:
            check(policy, n_arms, budget)
        except ConformanceError as error:
            failed.setdefault(str(error), []).append(check.__name__)
    if failed:
        number, lines = sum(map(len, failed.values())), [f"\n{', '.join(who)}: {why}" for why, who in failed.items()]
        raise ConformanceError(f"{name} fails {number} of {len(CHECKS)} checks:{''.join(lines)}")
