"""Policies: what has been seen goes in, a plan for the next episode comes out."""

from meritfair.policies.base import Policy, View
from meritfair.policies.fair_oracle import FairOracle
from meritfair.policies.merit_fair import MeritFair
from meritfair.policies.optimal import Optimal
from meritfair.policies.plans import Lottery, Plan, PriorityTable, Rotation, StepLearner
from meritfair.policies.registry import create, names
from meritfair.policies.simple import NoAction, Random, RoundRobin

__all__ = [
    "FairOracle",
    "Lottery",
    "MeritFair",
    "NoAction",
    "Optimal",
    "Plan",
    "Policy",
    "PriorityTable",
    "Random",
    "Rotation",
    "RoundRobin",
    "StepLearner",
    "View",
    "create",
    "names",
]
