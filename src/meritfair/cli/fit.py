"""`meritfair fit`: what a record of rounds says of each arm, and which exposure it is due."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from meritfair.cli import options
from meritfair.cli.feature_tables import feature_numbers, show_features
from meritfair.cli.show import Files, check_out, check_plot, print_note, print_table, say
from meritfair.core.progress import progress_bar
from meritfair.core.texts import printable, several

if TYPE_CHECKING:
    from meritfair.datasets.logs import StateLog
    from meritfair.drifting import Drift
    from meritfair.fitting import Fit

EXAMPLES = """From a file with a row for each person and round, with four calls per round:

[cyan]meritfair fit log.csv --budget 4 --out people.csv --plot people.png[/]

Have people changed, and when? [cyan]meritfair fit log.csv --budget 4 --drift[/]

Predict who is like whom from two columns of the file, and show what people are due by a third one:

[cyan]meritfair fit log.csv --budget 4 --features age,district --never gender[/]

Simulate the estimated arms: [cyan]meritfair simulate --arms-file people.csv --budget 4[/]"""

_MOST_ROWS = 20


def fit(
    log: Annotated[
        Path,
        typer.Argument(
            metavar="LOG",
            help="A .csv or .parquet file with columns arm, round, state (empty if not observed), action.",
        ),
    ],
    budget: options.BudgetOption = 1,
    merit: options.MeritOption = "exponential:c=3",
    design: options.DesignOption = "exact",
    floor: options.FloorOption = 0.0,
    cap: options.CapOption = 1.0,
    estimate: Annotated[
        str | None,
        options.text(
            "--estimate",
            help="Estimate each arm by itself ([cyan]mean[/], the default), or pool what arms have in common "
            "([cyan]pooled[/], the default with --features).",
        ),
    ] = None,
    features: Annotated[
        str,
        options.text(
            "--features",
            help="Columns that may tell of which kind an arm is, such as [cyan]age,district[/]: newcomers are then "
            "estimated by those like them. A column that does not help is not used.",
            metavar="COLUMNS",
        ),
    ] = "",
    never: Annotated[
        str,
        options.text(
            "--never",
            help="Columns that must not be used to predict, such as [cyan]gender[/]. What is due is shown by their "
            "values, so that a column that stands in for one shows.",
            metavar="COLUMNS",
        ),
    ] = "",
    absent: options.AbsentOption = "unknown",
    forget: Annotated[
        float,
        options.number(
            "--forget", help="What an outcome is worth one round later: 0.98 halves it in 35 rounds. 1 forgets nothing."
        ),
    ] = 1.0,
    drift: Annotated[
        bool,
        options.flag(
            "--drift",
            "Test whether outcomes have changed over the rounds, and say when: at any time, and for one look.",
        ),
    ] = False,
    level: Annotated[float, options.number("--level", help="Level of the intervals.")] = 0.95,
    seed: Annotated[int, options.whole("--seed", "-s", help="Seed of the draws behind the intervals.")] = 0,
    out: Annotated[
        Path | None, options.out_option("Save all rows: a .csv or .parquet file, which --arms-file can read.")
    ] = None,
    plot: options.PlotOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Estimate from recorded data how much each arm benefits, with intervals, and the exposure it is due.

    State is 0 (bad) or 1 (good), action 0 (not pulled) or 1 (pulled). States that were not observed are empty: the next
    one that was says something of all rounds since the last. Rows can be in any order, rounds can be missing.
    """
    from meritfair.datasets.logs import read_log
    from meritfair.drifting import drift as find_drift
    from meritfair.fitting import check_estimate
    from meritfair.fitting import fit as estimate_arms
    from meritfair.model.improbable import improbable

    predict, forbidden = options.names(features), options.names(never)
    check_estimate(estimate, predict)
    criterion = options.make_criterion(merit, design, floor, cap)
    check_plot(plot)
    check_out(out, "fits")
    with progress_bar(2) as begin:
        begin(f"reading {log.name}")
        seen = read_log(log, [*predict, *forbidden], absent=absent)
        files = Files(out, plot)
        how: Any = {"criterion": criterion, "budget": budget, "estimate": estimate, "level": level, "seed": seed}
        how |= {"forget": forget, "features": predict, "never": forbidden}
        found = estimate_arms(seen, **how, progress=begin("intervals"))
        changed = find_drift(seen, seed=seed) if drift else None
    files.save(out, found.save)
    files.plot(plot, found.plot)
    files.report(
        as_json,
        lambda: {
            "settings": found.settings,
            "log": _log_numbers(seen),
            "arms": found.rows(),
            "improbable": improbable(seen.counts).rows(seen.arms),
            "sensitivity": None if found.sensitivity is None else found.sensitivity.to_dict(),
            **feature_numbers(found),
            **({} if changed is None else {"drift": changed.to_dict()}),
        },
        lambda: _show(log, seen, found, out, changed),
    )


def _log_numbers(log: StateLog) -> dict[str, Any]:
    from meritfair.datasets.missing import missing_states

    first, last = _span(log)
    return {
        "rows": len(log),
        "arms": log.n_arms,
        "transitions": log.transitions,
        "unobserved": log.unobserved,
        "gaps": log.gaps,
        "bridged": len(log.bridged),
        "rows_added": log.added,
        "missing": missing_states(log).to_dict(),
        "first_round": first,
        "last_round": last,
        "round_length": log.round_length or None,
    }


def _span(log: StateLog) -> tuple[int, int] | tuple[str, str]:
    """Return the first round and the last, or their dates."""
    if log.dates is None:
        return int(log.rounds.min()), int(log.rounds.max())
    return str(log.dates.min()), str(log.dates.max())


_LEGEND = (
    "Seen: transitions from one round to the next. Pulled: transitions after a pull. Benefit: long-run share of good "
    "states if always pulled, minus that if never pulled. Exposure: probability of a pull at each step that is due by "
    "merit."
)


def _show(file: Path, log: StateLog, found: Fit, out: Path | None, changed: Drift | None) -> None:
    level = f"{100 * found.assessment.level:g} %"
    columns = ["arm", "seen", "pulled", *(f"{what} and\n{level} interval" for what in ("benefit", "exposure"))]
    rows = sorted(found.rows(), key=lambda row: -row["exposure"])
    digits = max(2, 1 + math.ceil(math.log10(len(rows) / found.settings["budget"])))
    print_table(columns, [_cells(row, digits) for row in rows[:_MOST_ROWS]], found.description)
    if len(rows) > _MOST_ROWS:
        where = "--out FILE keeps all" if out is None else f"all are in {out}"
        say(f"… and {len(rows) - _MOST_ROWS:,} more with no more exposure; {where}.\n")
    print_note(_LEGEND)
    show_features(found, digits)
    print_note(printable(f"{file}: {_about(log)}."))
    _warn_of_missing(log)
    if found.sensitivity is not None:
        print_note(str(found.sensitivity), style="none")
    _name_improbable(log)
    if changed is not None:
        _show_drift(changed)


def _show_drift(found: Drift) -> None:
    """Show whether outcomes have changed, when, and where."""
    columns = ["outcomes after", "number", "e-value", "p-value of\none look"]
    columns += ["likeliest\nchange", "good\nbefore", "good\nsince"]
    rows = [
        [cell["after"], f"{cell['outcomes']:,}", f"{cell['e_value']:.2g}", f"{cell['p_value']:.2g}", *_change(cell)]
        for cell in found.cells
    ]
    say("")
    print_table(columns, rows, "Has anything changed? " + found.description[0].upper() + found.description[1:] + ".")
    print_note(
        f"At any time: the e-value of all is {found.e_values[-1]:.2g}, at most {found.e_values.max():.2g}; there is an "
        f"alarm once it reaches {1 / found.alpha:g}. Without a change that ever happens with a probability of about "
        f"{found.alpha:g} at most, however often one looks. One look: p-values allow for all five rows and all rounds, "
        "and are valid if it was decided beforehand to look now, and only now."
    )
    if found.alarm is None:
        print_note(found.power)
    if found.arms:
        print_note(printable(f"Changed by themselves: {', '.join(found.arms[:_MOST_ROWS])}."))
    if found.alarm is not None:
        print_note("What is old may mislead: --forget 0.95 gives old outcomes less weight.", style="yellow")


def _change(cell: dict[str, Any]) -> list[str]:
    """Return since when outcomes differ, and how; nothing where there is no sign that they do."""
    if cell["e_value"] < 1 and cell["p_value"] > 0.5:
        return ["", "", ""]
    shares = (cell[when] for when in ("before", "now"))
    return [cell["since"], *("" if math.isnan(share) else f"{100 * share:.0f} %" for share in shares)]


def _cells(row: dict[str, Any], digits: int) -> list[str]:
    """Return the cells of an arm; exposures are small where arms are many, and get more digits."""
    benefit, low, high = (f"{row[name]:z5.2f}" for name in ("benefit", "benefit_low", "benefit_high"))
    exposure, least, most = (f"{row[name]:.{digits}f}" for name in ("exposure", "exposure_low", "exposure_high"))
    seen = [printable(row["arm"]), *(f"{row[name]:,.1f}".removesuffix(".0") for name in ("seen", "pulled"))]
    return [*seen, f"{benefit}  {low} to {high}", f"{exposure}  {least} to {most}"]


def _about(log: StateLog) -> str:
    """Return what the file had, and what it lacked."""
    unseen = log.n_arms - len(set(log.arm[log.has_outcome]) | set(log.bridged.arm))
    first, last = _span(log)
    return (
        f"{several(len(log), 'row')} of {several(log.n_arms, 'arm')}; "
        + f"from {first} to {last}, a round is {log.round_length}; " * (log.dates is not None)
        + f"{several(log.unobserved, 'state')} not observed; " * (log.unobserved > 0)
        + f"{several(log.added, 'round')} without a row, taken as not pulled; " * (log.added > 0)
        + _gaps(log)
        + f"; {several(unseen, 'arm')} without transitions"
        + ", estimated by the prior alone" * (unseen > 0)
    )


def _gaps(log: StateLog) -> str:
    """Return how many gaps there are, and what became of them."""
    bridged, gaps = len(log.bridged), several(log.gaps, "gap")
    if not log.gaps or not bridged:
        return gaps + ", across which nothing is counted" * (log.gaps > 0)
    if bridged == log.gaps:
        return f"{gaps}, with known actions: used"
    return f"{gaps}, {bridged:,} with known actions: used; across the others nothing is counted"


def _name_improbable(log: StateLog) -> None:
    """Say whose outcomes are improbable beside those of the others, if anybody's are."""
    from meritfair.model.improbable import improbable

    found = improbable(log.counts)
    rows = found.rows(log.arms)
    if not rows:
        return
    named = ", ".join(
        f"{row['arm']} (good {row['good_pulled']:,} of {row['pulled']:,} times after a pull, "
        f"{row['good_unpulled']:,} of {row['unpulled']:,} times otherwise)"
        for row in rows[:_MOST_ROWS]
    )
    print_note(
        printable(
            f"Outcomes improbable beside those of the others: {named}. If all are alike, anybody is named with a "
            f"probability of at most {100 * found.alpha:g} %. It does not say why: they may differ from all others, or "
            "states may have been entered or reported wrongly."
        ),
        style="yellow",
    )


def _warn_of_missing(log: StateLog) -> None:
    """Say so if states are missing more often after some states or actions than after others."""
    from meritfair.datasets.missing import missing_states

    found = missing_states(log)
    if not found.uneven:
        return
    cells = [(s, a) for s in (0, 1) for a in (0, 1) if found.rounds[s, a]]
    rates = ", ".join(
        f"{100 * found.rates[s, a]:.0f} % after {('bad', 'good')[s]} and {('not pulled', 'pulled')[a]}"
        for s, a in cells
    )
    print_note(
        f"States are not missing evenly: {rates} (p = {found.p_value:.1g}). If they are missing because of what they "
        "are, the estimates are biased.",
        style="yellow",
    )
