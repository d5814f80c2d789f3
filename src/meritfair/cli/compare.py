"""`meritfair compare`: many policies on the same arms, reward against fairness."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from meritfair.cli.options import (
    AuthorsOption,
    BallOption,
    BudgetOption,
    CapOption,
    CarryStatesOption,
    ClipOption,
    DatasetOption,
    DeltaOption,
    DesignOption,
    EpisodesOption,
    FileOption,
    FloorOption,
    HorizonOption,
    JsonOption,
    MeritOption,
    NumberOption,
    PlotOption,
    PoliciesOption,
    RunsOption,
    SameArmsOption,
    SeedOption,
    WorkersOption,
    make_arms,
    make_confidence,
    make_criterion,
    make_policies,
    out_option,
)
from meritfair.cli.show import (
    Files,
    check_out,
    check_plot,
    policy_cell,
    print_json,
    print_note,
    print_table,
    say,
)
from meritfair.core.progress import bar

if TYPE_CHECKING:
    from meritfair.simulation.comparison import Comparison

__all__ = ["EXAMPLES", "compare"]

EXAMPLES = """All policies on twenty patients, four calls a day, drawn and as a table for a paper:

[cyan]meritfair compare -d cpap -n 20 -k 4 --plot compare.png --out compare.tex[/]

Three of them, one with settings of its own, in a table with all measures:

[cyan]meritfair compare -d cpap -n 20 -k 4 -p whittle -p merit-fair:estimate=mean -p random --out compare.csv[/]"""


def compare(
    dataset: DatasetOption = None,
    arms_file: FileOption = None,
    arms: NumberOption = None,
    clip: ClipOption = None,
    authors: AuthorsOption = False,
    same_arms: SameArmsOption = False,
    policy: PoliciesOption = None,
    budget: BudgetOption = 1,
    episodes: EpisodesOption = 200,
    horizon: HorizonOption = 200,
    merit: MeritOption = "exponential:c=3",
    design: DesignOption = "sequential",
    floor: FloorOption = 0.0,
    cap: CapOption = 1.0,
    ball: BallOption = "paper",
    delta: DeltaOption = 0.01,
    carry_states: CarryStatesOption = False,
    runs: RunsOption = 30,
    seed: SeedOption = None,
    workers: WorkersOption = None,
    out: Annotated[
        Path | None,
        out_option("Keep the table: all measures as .csv or .parquet, those shown as .md or .tex."),
    ] = None,
    plot: PlotOption = None,
    as_json: JsonOption = False,
) -> None:
    """Play many policies on the same arms with the same seeds, and weigh reward against fairness.

    Without --policy: all there are, the most rewarding first; those that
    cannot be played with these arms and this budget are told below the table.
    """
    from meritfair.core.seeding import fresh_seed
    from meritfair.simulation.comparison import SUFFIXES
    from meritfair.simulation.comparison import compare as play

    root = fresh_seed(seed)
    criterion, confidence = make_criterion(merit, design, floor, cap), make_confidence(ball, delta)
    players = make_policies(policy, criterion, confidence) if policy else None
    check_plot(plot)
    check_out(out, "comparisons", SUFFIXES)
    instances = make_arms(
        dataset,
        arms_file,
        arms,
        runs=runs,
        budget=budget,
        episodes=episodes,
        horizon=horizon,
        policies=len(players or [1]),
        authors=authors,
        same=same_arms,
        clip=clip,
        seed=root,
    )
    files = Files(out, plot)
    with bar("getting ready", keep=False) as tell:
        found = play(
            instances,
            players,
            budget=budget,
            episodes=episodes,
            horizon=horizon,
            seed=root,
            carry_states=carry_states,
            criterion=criterion,
            confidence=confidence,
            workers=workers,
            progress=tell,
        )
    if players is None:
        found = found.by_reward()
    files.save(out, found.save)
    files.plot(plot, found.plot)
    if as_json:
        print_json(
            {
                "settings": found.settings,
                "policies": found.table(),
                "oracles": found.oracles,
                "skipped": found.skipped,
                "files": files.written,
            }
        )
    else:
        _show(found)
    files.tell(quiet=as_json)


_HEADINGS = {
    "intervention_benefit": "benefit",
    "price_of_fairness": "price of\nfairness",
    "fairness_regret": "fairness\nregret",
    "gini": "Gini",
    "smallest_exposure": "smallest\nexposure",
    "longest_wait": "longest\nwait",
}
_WITH_INTERVAL = ("intervention_benefit", "fairness_regret")
_LEGEND = (
    "Benefit: the part of what can be won by pulling that was won (intervention benefit); none is 0, whittle is 1. "
    "Price of fairness: the part of whittle's reward that was gone without. Fairness regret: distance of the shares of "
    "merit from the fair ones, added up over episodes (0 is perfect, at most 2 an episode). Gini of the pulls: 0 is "
    "equal. Smallest exposure: of the arm that was pulled least, the share of steps. Longest wait: steps that some arm "
    "went without a pull.{interval}{oracle}"
)


def _show(found: Comparison) -> None:
    from meritfair.simulation.comparison import COLUMNS, ORACLE

    rows = []
    for label, measures in found.measures.items():
        cells = [policy_cell(label) + f" {ORACLE}" * (label in found.oracles)]
        for name in _HEADINGS:
            show, value = COLUMNS[name], measures[name]
            cells.append(show.in_short(value) if name in _WITH_INTERVAL else show.number(value.mean))
        rows.append(cells)
    headings = [("policy", "left"), *((heading, "right") for heading in _HEADINGS.values())]
    print_table(headings, rows, found.description)
    interval = " After ±: half of the 95 % interval." if found.none.runs > 1 else ""
    oracle = f" {ORACLE}: knows the true arms." if found.oracles else ""
    print_note(_LEGEND.format(interval=interval, oracle=oracle))
    for label, reason in found.skipped.items():
        say(f"left out: {label}: {reason}")
