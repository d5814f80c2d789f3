"""`meritfair theory`: the constants and bounds of the paper for an instance, and the information limit."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from meritfair.cli.options import JsonOption, ProblemOptions, make_criterion, with_options
from meritfair.cli.show import print_json, print_note, print_table
from meritfair.core.progress import progress_bar
from meritfair.simulation.columns import BOUND_MEANING

if TYPE_CHECKING:
    from meritfair.model.arms import Arms
    from meritfair.model.criterion import Criterion
    from meritfair.simulation.run import Run

EXAMPLES = "For example: [cyan]meritfair theory -d synthetic --authors --merit exponential:c=1[/]"


@with_options(episodes=1000)
def theory(options: ProblemOptions, as_json: JsonOption = False) -> None:
    """Show the paper's constants and bounds for one instance, and the least regret of any unbiased estimate.

    t0, G, eta and omega are known only from a run, so one run of merit-fair is simulated. They are those of its length:
    in longer runs G is larger, so bounds that contain it do not say how regret grows.
    """
    from meritfair.core.seeding import fresh_seed
    from meritfair.policies import MeritFair
    from meritfair.simulation.simulate import simulate

    root = fresh_seed(options.seed)
    criterion = make_criterion(options.merit, options.design)
    policy = MeritFair(merit=criterion.merit, delta=options.delta, design=criterion.design)
    (instance,) = options.instances(root)
    length: Any = {"budget": options.one_budget("theory"), "episodes": options.episodes, "horizon": options.horizon}
    with progress_bar() as begin:
        run = simulate(instance, policy, **length, seed=root, progress=begin("one run of merit-fair"))
    rows = _rows(instance, run, criterion, options.delta)
    if as_json:
        values = {key: value for key, _, value, _ in rows} | {f"{key}_censored": each for key, each in _censored(run)}
        print_json({"seed": root, "settings": run.settings["problem"], "values": values})
    else:
        _show(rows, run)


def _censored(run: Run) -> list[tuple[str, bool]]:
    """Return of which constants the run gives only a lower bound, as it ended too early."""
    found = {"first_valid_episode": run.first_valid_episode_censored, "coverage_gap": run.coverage_gap_censored}
    return [(key, bool(each[0])) for key, each in found.items()]


def _rows(arms: Arms, run: Run, criterion: Criterion, delta: float) -> list[tuple[str, str, float, str]]:
    """Return (key, symbol, value, what it is) for each line of the table."""
    from meritfair.model import theory as formulas

    merit, design = criterion.merit, criterion.design
    T, H, K = run.episodes, run.horizon, run.budget
    t0, G = int(run.first_valid_episode[0]), int(run.coverage_gap[0])
    eta, omega = float(run.largest_eta[0]), float(run.largest_omega[0])
    bound = exposure_bound = math.inf
    if t0 < T:
        found = {"first_valid_episode": t0, "coverage_gap": G, "eta": eta}
        known: Any = {**found, "delta": delta, "n_arms": arms.n_arms, "merit": merit}
        bound = float(formulas.regret_bound(T, omega=omega, **known))
        if K == 1 or design != "sequential":
            exposure_bound = float(formulas.exposure_regret_bound(T, budget=K, **known))
    on = "shares" if design == "sequential" else "exposures"
    regret = run.fairness_regret if design == "sequential" else run.exposure_regret
    gap_limit = formulas.coverage_gap_limit(arms.epsilon, arms.n_arms, K, H, merit)
    limit = float(formulas.information_limit(arms, K, T, H, merit, design))
    margin = formulas.saturation_margin(merit(arms.benefit), K) if K == 1 or design != "sequential" else math.nan
    return [
        ("epsilon", "epsilon", arms.epsilon, "probabilities stay this far from 0 and 1"),
        ("gamma", "gamma", merit.gamma, "least merit (Condition 3.1)"),
        ("lipschitz", "L", merit.lipschitz, "largest slope of merit (Condition 3.2)"),
        ("first_valid_episode", "t0", t0, "measured: every eta is below 1 after it (Assumption 4.1)"),
        ("coverage_gap", "G", G, "measured: most episodes until one visits all (s, a)"),
        ("coverage_gap_limit", "mean wait", gap_limit, "upper bound by Lemma 5.1; a mean, so G can be larger"),
        ("eta", "eta", eta, "measured: largest after t0 (Definition 5.2)"),
        ("omega", "omega", omega, "measured: largest after t0 (Definition 5.2)"),
        ("regret_bound", "bound", bound, f"on regret after {T:,} episodes, given G (Theorem 5.5, for K = 1)"),
        ("exposure_regret_bound", "on exposures", exposure_bound, "for any K, with an exact design, given G"),
        ("saturation_margin", "margin", margin, "of arms from saturation; above 0, O(sqrt(T ln T)) is proved"),
        ("trivial_bound", "2 T", 2.0 * T, "largest possible regret on shares"),
        ("fairness_regret", "regret", float(regret.sum()), f"on {on}, measured in this run of merit-fair"),
        ("information_limit", "limit", limit, "about the least regret of any unbiased estimate"),
    ]


def _show(rows: list[tuple[str, str, float, str]], run: Run) -> None:
    bounds = [key for key, censored in _censored(run) if censored]
    cells = [(symbol, "≥ " * (key in bounds) + _readable(value), text) for key, symbol, value, text in rows]
    print_table(["", "value", "what it is"], cells, run.description, "lrl")
    values = {key: value for key, _, value, _ in rows}
    if bounds:
        print_note(BOUND_MEANING)
    if math.isnan(values["eta"]):
        print_note("Some eta is still 1 or more at the last episode, so the theorem does not apply: try more episodes.")
        return
    if run.budget > 1:
        print_note("Theorem 5.5 is proved for one pull per step; for more it is only indicative.")
    if values["regret_bound"] >= values["trivial_bound"]:
        print_note("The theorem's bound is above 2 T, so it is vacuous at this length.")


def _readable(value: float) -> str:
    if math.isnan(value):
        return "–"
    whole = math.isfinite(value) and value == int(value)
    return f"{value:,.0f}" if whole else f"{value:,.4g}"
