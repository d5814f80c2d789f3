"""Words and numbers of the viewer's pages, in the reader's language."""

from __future__ import annotations

import math

from meritfair.core.language import _
from meritfair.simulation.bootstrap import Interval
from meritfair.simulation.columns import COLUMNS
from meritfair.web.rendering import number, percent


def field_label(name: str) -> str:
    """Return what something that can be picked is called."""
    known = {
        "dataset": _("Data set"),
        "n_arms": _("Arms (N)"),
        "budget": _("Budget (K)"),
        "horizon": _("Steps in an episode"),
        "episodes": _("Episodes"),
        "merit": _("Merit"),
        "design": _("Design"),
        "floor": _("Floor"),
        "cap": _("Cap"),
        "ball": _("Ball"),
        "delta": _("Delta"),
        "authors": _("The authors’ instances"),
        "same_arms": _("Same arms in all runs"),
        "carry_states": _("States carry over"),
        "rules": _("Rules"),
        "observed": _("Observed"),
        "exposure_regret": _("Exposure regret"),
        "seed": _("Seed"),
        "policy": _("Policy"),
    }
    return known.get(name, name.replace("_", " "))


def measure_label(name: str) -> str:
    """Return the heading of a measure."""
    known = {
        "intervention_benefit": _("Intervention benefit"),
        "fairness_regret": _("Fairness regret"),
        "exposure_regret": _("Exposure regret"),
        "good_state": _("Good state"),
        "gini": _("Gini"),
        "smallest_exposure": _("Smallest exposure"),
        "longest_wait": _("Longest wait"),
        "largest_account": _("Largest account"),
        "worst_window": _("Worst window"),
        "first_valid_episode": _("t0"),
        "coverage_gap": _("G"),
    }
    return known[name]


def measure_meaning(name: str) -> str:
    """Return what a measure means, in a sentence."""
    known = {
        "intervention_benefit": _("Reward on a scale where none is 0 and whittle is 1."),
        "fairness_regret": _("L1 distance of the policy’s shares from the fair ones, added up over episodes."),
        "exposure_regret": _("The same for exposures, which sum to the budget."),
        "good_state": _("Share of arms in the good state."),
        "gini": _("Inequality of the pulls: 0 if all arms get the same number."),
        "smallest_exposure": _("Share of steps at which the least pulled arm was pulled."),
        "longest_wait": _("Most steps that any arm went without a pull."),
        "largest_account": _("Most pulls that any arm was ever ahead of or behind what it was due."),
        "worst_window": _("Most pulls by which given and due differed for any arm, over any run of steps."),
        "first_valid_episode": _(
            "The last episode at which some eta was 1 or more; the bound applies after it. "
            "With ≥ it is a lower bound: some run ended before."
        ),
        "coverage_gap": _(
            "Most episodes between two in which an arm was seen in both states under both actions. "
            "With ≥ it is a lower bound: some run ended before the longest wait was over."
        ),
    }
    return known[name]


def value_text(name: str, value: float, like: float | None = None) -> str:
    """Return a value of a measure, with as many digits as another one of it has."""
    column = COLUMNS[name]
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if column.percent:
        return percent(value, column.digits)
    digits = 0 if abs(value if like is None else like) >= 100 else column.digits
    return number(value, digits)


def interval_text(name: str, found: Interval) -> str:
    """Return the interval of a measure, empty if there is none."""
    if math.isnan(found.low):
        return ""
    low, high = (value_text(name, end, found.mean) for end in (found.low, found.high))
    return _("{low} to {high}").format(low=low, high=high)


def verdict_text(words: str) -> str:
    """Return how a claim stands."""
    known = {"holds": _("holds"), "does not hold": _("does not hold"), "inconclusive": _("inconclusive")}
    return known.get(words, words)
