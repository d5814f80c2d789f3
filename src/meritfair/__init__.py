"""meritfair: share a scarce intervention fairly, among people whose state drifts, while learning who benefits.

The names below are the public ones. They are loaded when first used, so that `import meritfair` and
`meritfair --help` stay quick.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from meritfair import datasets as datasets
    from meritfair import lab as lab
    from meritfair import metrics as metrics
    from meritfair import model as model
    from meritfair import plots as plots
    from meritfair import policies as policies
    from meritfair import testing as testing
    from meritfair.auditing import DrawLog as DrawLog
    from meritfair.auditing import audit as audit
    from meritfair.auditing import read_draws as read_draws
    from meritfair.comparison import Comparison as Comparison
    from meritfair.comparison import compare as compare
    from meritfair.datasets.logs import Log as Log
    from meritfair.datasets.logs import read_log as read_log
    from meritfair.errors import FileError as FileError
    from meritfair.errors import InputError as InputError
    from meritfair.errors import MeritfairError as MeritfairError
    from meritfair.errors import MissingExtraError as MissingExtraError
    from meritfair.fitting import fit as fit
    from meritfair.model import theory as theory
    from meritfair.model.allocation import Allocation as Allocation
    from meritfair.model.allocation import allocate as allocate
    from meritfair.model.arms import Arms as Arms
    from meritfair.model.benefit import benefit as benefit
    from meritfair.model.benefit import steady_state as steady_state
    from meritfair.model.confidence import Ball as Ball
    from meritfair.model.confidence import confidence_radius as confidence_radius
    from meritfair.model.counts import Counts as Counts
    from meritfair.model.draws import draw as draw
    from meritfair.model.draws import draw_exposures as draw_exposures
    from meritfair.model.draws import joint_exposure as joint_exposure
    from meritfair.model.exposure import fair_exposure as fair_exposure
    from meritfair.model.exposure import merit_share as merit_share
    from meritfair.model.merit import Affine as Affine
    from meritfair.model.merit import CustomMerit as CustomMerit
    from meritfair.model.merit import Exponential as Exponential
    from meritfair.model.merit import Logistic as Logistic
    from meritfair.model.merit import Merit as Merit
    from meritfair.model.merit import Power as Power
    from meritfair.model.posterior import Posterior as Posterior
    from meritfair.model.posterior import Prior as Prior
    from meritfair.model.posterior import fit_prior as fit_prior
    from meritfair.model.theory import information_limit as information_limit
    from meritfair.model.uncertainty import assess as assess
    from meritfair.model.whittle import whittle_index as whittle_index
    from meritfair.policies import WIQL as WIQL
    from meritfair.policies import ABWhittle as ABWhittle
    from meritfair.policies import Equitable as Equitable
    from meritfair.policies import FairOracle as FairOracle
    from meritfair.policies import FairUCRL as FairUCRL
    from meritfair.policies import FaWT as FaWT
    from meritfair.policies import FaWTQ as FaWTQ
    from meritfair.policies import MeritFair as MeritFair
    from meritfair.policies import Myopic as Myopic
    from meritfair.policies import NoAction as NoAction
    from meritfair.policies import Optimal as Optimal
    from meritfair.policies import Policy as Policy
    from meritfair.policies import ProbFair as ProbFair
    from meritfair.policies import Random as Random
    from meritfair.policies import RoundRobin as RoundRobin
    from meritfair.policies import SoftFair as SoftFair
    from meritfair.policies import ThompsonWhittle as ThompsonWhittle
    from meritfair.policies import UCWhittle as UCWhittle
    from meritfair.policies import Whittle as Whittle
    from meritfair.policies.learner import Choice as Choice
    from meritfair.policies.learner import Learner as Learner
    from meritfair.run import Run as Run
    from meritfair.simulation import simulate as simulate


__version__ = "0.1.0"

_HOMES = {
    "meritfair": ["datasets", "lab", "metrics", "model", "plots", "policies", "testing"],
    "meritfair.auditing": ["DrawLog", "audit", "read_draws"],
    "meritfair.comparison": ["Comparison", "compare"],
    "meritfair.datasets.logs": ["Log", "read_log"],
    "meritfair.errors": ["FileError", "InputError", "MeritfairError", "MissingExtraError"],
    "meritfair.fitting": ["fit"],
    "meritfair.model": ["theory"],
    "meritfair.model.allocation": ["Allocation", "allocate"],
    "meritfair.model.arms": ["Arms"],
    "meritfair.model.benefit": ["benefit", "steady_state"],
    "meritfair.model.confidence": ["Ball", "confidence_radius"],
    "meritfair.model.counts": ["Counts"],
    "meritfair.model.draws": ["draw", "draw_exposures", "joint_exposure"],
    "meritfair.model.exposure": ["fair_exposure", "merit_share"],
    "meritfair.model.merit": ["Affine", "CustomMerit", "Exponential", "Logistic", "Merit", "Power"],
    "meritfair.model.posterior": ["Posterior", "Prior", "fit_prior"],
    "meritfair.model.theory": ["information_limit"],
    "meritfair.model.uncertainty": ["assess"],
    "meritfair.model.whittle": ["whittle_index"],
    "meritfair.policies": [
        "ABWhittle",
        "Equitable",
        "FaWT",
        "FaWTQ",
        "FairOracle",
        "FairUCRL",
        "MeritFair",
        "Myopic",
        "NoAction",
        "Optimal",
        "Policy",
        "ProbFair",
        "Random",
        "RoundRobin",
        "SoftFair",
        "ThompsonWhittle",
        "UCWhittle",
        "WIQL",
        "Whittle",
    ],
    "meritfair.policies.learner": ["Choice", "Learner"],
    "meritfair.run": ["Run"],
    "meritfair.simulation": ["simulate"],
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'meritfair' has no attribute {name!r}")
    home = _HOME_OF[name]
    if home in ("meritfair", "meritfair.model"):
        value: Any = import_module(f"{home}.{name}")
    else:
        value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])


if sys.modules.get("gymnasium") is not None:  # then its environments are wanted, and it is not slow any more
    import_module("meritfair.gym")
