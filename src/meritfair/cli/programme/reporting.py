"""What came of a round: `meritfair programme report`, `correct`, `close`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from meritfair.cli.options import JsonOption, text, whole, with_options
from meritfair.cli.programme.common import EncodingOption, Who, from_file, tell_ignored, tell_receipt
from meritfair.core.texts import several

if TYPE_CHECKING:
    from meritfair.programme import Receipt

EXAMPLES = """The list of a draw, filled in: action is 1 (reached) or 0, state is 0 (bad) or 1 (good).

[cyan]meritfair programme report calls.csv[/]

States of others can be reported in the same way, with a file of the columns id and state."""

CORRECT_EXAMPLES = """A file with the columns id and state; the word unknown takes a value back.

[cyan]meritfair programme correct wrong.csv --round 7 --reason "mixed up two files" --by "Nurse Ama"[/]"""

_FileArgument = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        show_default=False,
        help="A .csv or .parquet file with the column id, and action, state, before or reason.",
    ),
]
_RoundOption = Annotated[
    int | None, whole("--round", "-r", help="Which round; by default the file's column round, else the last one.")
]


@with_options()
def report(
    file: _FileArgument,
    who: Who,
    round_: _RoundOption = None,
    encoding: EncodingOption = "utf-8",
    as_json: JsonOption = False,
) -> None:
    """Hand in what was done and seen in a round: whole or in part, now or weeks later.

    Who was reached without being drawn needs a reason, and your name. All of the file is taken, or nothing.
    """
    from meritfair.programme.files import LIST, locating, read_outcomes, the_round

    programme = who.open()
    with from_file(file, "reporting") as read:
        found = read(partial(read_outcomes, encoding=encoding))
        with locating(found.table):
            receipt = programme.report(found.value, round=the_round(found, round_), by=who.by, key=who.key)
    tell_ignored(found.table, LIST)
    tell_receipt(as_json, programme, receipt, *_taken_in(receipt, "took in what was seen of", "said nothing new"))


@with_options()
def correct(
    file: _FileArgument,
    who: Who,
    round_: _RoundOption = None,
    reason: Annotated[
        str, text("--reason", metavar="TEXT", help="Why. It is kept in the ledger, so name nobody.")
    ] = "",
    encoding: EncodingOption = "utf-8",
    as_json: JsonOption = False,
) -> None:
    """Correct what was reported of a round. It needs a reason and your name, and what was reported stays in the ledger.

    An empty cell leaves a value as it is, and the word unknown takes it back.
    """
    from meritfair.programme.files import LIST, locating, read_outcomes, the_round

    by, programme = who.named("a correction"), who.open()
    with from_file(file, "correcting") as read:
        found = read(partial(read_outcomes, correcting=True, encoding=encoding))
        with locating(found.table):
            given: Any = {"round": the_round(found, round_), "reason": reason, "by": by, "key": who.key}
            receipt = programme.correct(found.value, **given)
    tell_ignored(found.table, LIST)
    tell_receipt(as_json, programme, receipt, *_taken_in(receipt, "corrected what is known of", "changed nothing"))


def _taken_in(receipt: Receipt, done: str, repeated: str) -> list[str]:
    """Return in words what came of a report."""
    rows = several(receipt.repeated, "row")
    if not receipt.taken:
        return [f"Round {receipt.round}: {rows} {repeated}; the ledger stays as it was."]
    sentence = f"Round {receipt.round}: {done} {several(receipt.taken, 'participant')}"
    sentence += f"; {rows} {repeated}" * (receipt.repeated > 0)
    overrides = f"{several(receipt.overrides, 'override')}: reached without being drawn, with a reason."
    return [f"{sentence}.", *[overrides] * (receipt.overrides > 0)]


@with_options()
def close(who: Who, as_json: JsonOption = False) -> None:
    """End the open round; what comes later can still be reported."""
    programme = who.open()
    receipt = programme.close(by=who.by, key=who.key)
    tell_receipt(as_json, programme, receipt, f"Round {receipt.round} of {programme.name} is closed.")
