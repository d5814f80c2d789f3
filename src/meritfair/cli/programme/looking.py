"""How a programme stands: `meritfair programme status`, `list`, `effect`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from meritfair.cli.effect import (
    GroupOption,
    LevelOption,
    OutOption,
    PeriodOption,
    effect_values,
    show_effect,
)
from meritfair.cli.options import HtmlOption, JsonOption, PlotOption, with_options
from meritfair.cli.programme.common import StoreOption, Which, open_programme, place_of, working
from meritfair.cli.show import Files, check_html, check_out, check_plot, print_json, print_table, say
from meritfair.core.progress import progress_bar
from meritfair.core.texts import printable, several

if TYPE_CHECKING:
    from meritfair.programme import Status


@with_options()
def status(which: Which, as_json: JsonOption = False) -> None:
    """Show how a programme stands, and what to do next."""
    programme = which.open()
    found = programme.status()
    if as_json:
        print_json({**asdict(found), "next_step": found.next_step, "store": programme.store.url})
        return
    print_table([printable(found.name), f"in {place_of(programme)}"], _rows(found), align="ll")
    say(f"Head of the ledger: {found.head}")
    say(f"Next: {found.next_step}")


def _rows(found: Status) -> list[list[str]]:
    """Return a status in words."""
    people = f"{found.enrolled:,} enrolled" + f", {found.away:,} of them away" * (found.away > 0)
    people += f"; {found.left:,} have left" * (found.left > 0)
    rows = [["participants", people], ["round", f"{found.round:,}, {found.phase}" if found.round else "none yet"]]
    if found.round and found.phase != "committed":
        rows += [["drawn", f"{found.drawn:,}, {found.reported:,} of them reported"]]
        rows += [["states after it", f"known of {several(found.states, 'participant')}"]]
    if found.overdue:
        rows += [["not reported", f"{several(found.overdue, 'draw')} of closed rounds"]]
    rows += [["largest account", f"{found.largest_account:+.2f} calls"]] if found.round else []
    rows += [["policy", found.policy], ["budget", found.budget], ["rules", found.rules or "none"]]
    return [*rows, ["ledger", f"{several(found.entries, 'entry', 'entries')}, the last at {found.time}"]]


def list_(store: StoreOption = None, as_json: JsonOption = False) -> None:
    """List the programmes of a store."""
    from meritfair.programme.storage.database import Database

    database, rows = Database(store), list[dict[str, Any]]()
    if database.is_sqlite and not database.file.exists():
        _show_list(as_json, database.url, rows)
        return
    opened = open_programme(store, None).store
    for name in opened.names():
        with working(open_programme(store, name)) as work:
            summary = work.state.summary
            phase = "ended" if summary.ended else summary.phase
            number = int(work.state.here.sum())
            rows.append(
                {"name": name, "round": summary.round, "phase": phase, "enrolled": number, "last": summary.time}
            )
    _show_list(as_json, opened.url, rows)


def _show_list(as_json: bool, url: str, rows: list[dict[str, Any]]) -> None:
    where = printable(url.removeprefix("sqlite:///"))
    if as_json:
        print_json({"store": url, "programmes": rows})
    elif rows:
        texts = [[printable(row["name"]), f"{row['round']:,}", row["phase"], f"{row['enrolled']:,}"] for row in rows]
        cells = [[*text, row["last"]] for text, row in zip(texts, rows, strict=True)]
        print_table(["programme", "round", "phase", "enrolled", "last entry"], cells, f"In {where}:", "lrlrl")
    else:
        say(f"There is no programme in {where} yet: meritfair programme create NAME --budget 40")


@with_options()
def effect(
    which: Which,
    group: GroupOption = None,
    level: LevelOption = 0.95,
    period: PeriodOption = None,
    out: OutOption = None,
    plot: PlotOption = None,
    html: HtmlOption = None,
    as_json: JsonOption = False,
) -> None:
    """Estimate how much a call raises the chance of a good next state, from the draws of the programme.

    The main interval holds whenever one looks, and however often. With --group group, also by group.
    """
    from meritfair.core.checks import check_number
    from meritfair.effects import effect as estimate

    check_number("level", level, 0.0, 1.0, open_ends=True)
    check_plot(plot)
    check_html(html)
    check_out(out, "effects")
    programme, files = which.open(), Files(out, plot, html)
    with progress_bar(2) as begin:
        begin("reading the ledger")
        log = programme.log()
        begin("estimating")
        found = estimate(log, group=group, level=level, period=period)
    files.save(out, found.save)
    files.plot(plot, found.plot)
    files.save(html, found.write_page)
    files.report(as_json, lambda: effect_values(found), lambda: show_effect(found))
