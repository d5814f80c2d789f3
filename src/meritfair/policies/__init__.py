"""Policies: what has been seen goes in, a plan for the next episode comes out."""

from meritfair.policies.ab_whittle import ABWhittle
from meritfair.policies.base import Policy, View
from meritfair.policies.equitable import Equitable
from meritfair.policies.fair_oracle import FairOracle
from meritfair.policies.fair_ucrl import FairUCRL
from meritfair.policies.fawt import FaWT
from meritfair.policies.fawt_q import FaWTQ
from meritfair.policies.learner import Choice, Learner
from meritfair.policies.merit_fair import MeritFair
from meritfair.policies.optimal import Optimal
from meritfair.policies.own import policy_from_function
from meritfair.policies.plans import Lottery, Plan, PriorityTable, Rotation, StepLearner
from meritfair.policies.prob_fair import ProbFair
from meritfair.policies.registry import create, names, register
from meritfair.policies.simple import NoAction, Random, RoundRobin
from meritfair.policies.soft_fair import SoftFair
from meritfair.policies.thompson_whittle import ThompsonWhittle
from meritfair.policies.uc_whittle import UCWhittle
from meritfair.policies.whittle import Myopic, Whittle
from meritfair.policies.wiql import WIQL

__all__ = [
    "WIQL",
    "ABWhittle",
    "Choice",
    "Equitable",
    "FaWT",
    "FaWTQ",
    "FairOracle",
    "FairUCRL",
    "Learner",
    "Lottery",
    "MeritFair",
    "Myopic",
    "NoAction",
    "Optimal",
    "Plan",
    "Policy",
    "PriorityTable",
    "ProbFair",
    "Random",
    "Rotation",
    "RoundRobin",
    "SoftFair",
    "StepLearner",
    "ThompsonWhittle",
    "UCWhittle",
    "View",
    "Whittle",
    "create",
    "names",
    "policy_from_function",
    "register",
]
