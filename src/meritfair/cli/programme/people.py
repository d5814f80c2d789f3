"""Who takes part: `meritfair programme enrol`, `withdraw`, `away`, `erase`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from meritfair.cli.options import JsonOption, flag, text, with_options
from meritfair.cli.programme.common import (
    EncodingOption,
    Who,
    YesOption,
    confirm,
    from_file,
    next_command,
    tell_ignored,
    tell_receipt,
    working,
)
from meritfair.core.errors import InputError
from meritfair.core.texts import several

if TYPE_CHECKING:
    from meritfair.core.tables import Table

EXAMPLES = """A file with a row for each person; only the column id is needed:

[cyan]id,group,staff,age[/]
[cyan]P001,north,Nurse Ama,34[/]
[cyan]P002,south,Nurse Kofi,61[/]"""

AWAY_EXAMPLES = """Two people are on holiday, and later one is back:

[cyan]meritfair programme away P001 P002 --by "Nurse Ama"[/]
[cyan]meritfair programme away P001 --back --by "Nurse Ama"[/]"""

_IdsArgument = Annotated[list[str] | None, typer.Argument(metavar="ID...", show_default=False, help="Their ids.")]
_ReasonOption = Annotated[
    str,
    text(
        "--reason",
        metavar="TEXT",
        help="Why; needed if many are taken out between two draws: more than a tenth of those enrolled (and more than "
        "3), or so many that fewer than twice the budget are left. The ledger keeps it.",
    ),
]
_FileOption = Annotated[
    Path | None, text("--file", "-f", metavar="FILE", help="Instead: a .csv or .parquet file with a column id.")
]


@with_options()
def enrol(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            show_default=False,
            help="A .csv or .parquet file with the column id; group and staff if you like; and a column for each "
            "feature of the programme.",
        ),
    ],
    who: Who,
    encoding: EncodingOption = "utf-8",
    as_json: JsonOption = False,
) -> None:
    """Let people join; those who were there before come back with all that is known of them.

    All of the file is taken, or nothing.
    """
    from meritfair.programme.files import locating, read_people

    programme = who.open()
    with working(programme) as work:
        features = work.state.settings.features
    with from_file(file, "enrolling") as read:
        found = read(partial(read_people, features=features, encoding=encoding))
        with locating(found.table):
            receipt = programme.enrol(found.value, by=who.by, key=who.key)
    tell_ignored(found.table)
    number, next_ = several(receipt.taken, "participant"), next_command("draw", who.store, programme)
    tell_receipt(as_json, programme, receipt, f"Enrolled {number} in {programme.name}.", f"Next: {next_}")


@with_options()
def withdraw(
    who: Who,
    ids: _IdsArgument = None,
    file: _FileOption = None,
    reason: _ReasonOption = "",
    encoding: EncodingOption = "utf-8",
    as_json: JsonOption = False,
) -> None:
    """Let people leave; what is known of them stays, for when they come back."""
    from meritfair.programme.files import locating

    named, table = _named(ids, file, encoding)
    programme = who.open()
    with locating(table):
        receipt = programme.withdraw(named, reason=reason, by=who.by, key=who.key)
    number = several(receipt.taken, "participant")
    tell_receipt(as_json, programme, receipt, f"{number} left {programme.name}.")


@with_options()
def away(
    who: Who,
    ids: _IdsArgument = None,
    file: _FileOption = None,
    back: Annotated[bool, flag("--back", "They are back.")] = False,
    reason: _ReasonOption = "",
    encoding: EncodingOption = "utf-8",
    as_json: JsonOption = False,
) -> None:
    """Note that people cannot be called for now, or are back. It needs your name: it changes the chances of others."""
    from meritfair.programme.files import locating

    by = who.named("a change of who is away")
    named, table = _named(ids, file, encoding)
    programme = who.open()
    with locating(table):
        receipt = programme.away(named, back=back, reason=reason, by=by, key=who.key)
    word = "back" if back else "away"
    known = f" {several(receipt.repeated, 'other')} already {'was' if receipt.repeated == 1 else 'were'}."
    sentence = f"{several(receipt.taken, 'participant')} {'is' if receipt.taken == 1 else 'are'} {word} from now on."
    tell_receipt(as_json, programme, receipt, sentence + known * (receipt.repeated > 0))


@with_options()
def erase(
    id_: Annotated[str, typer.Argument(metavar="ID", show_default=False, help="Whom.")],
    who: Who,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Delete who someone is, for good: id, group, staff and reasons. They must have left before.

    Their rows stay in the ledger as those of nobody, so it can still be checked.
    """
    by = who.named("to erase someone")
    programme = who.open()
    confirm(yes, f"This deletes who {id_!r} is in {programme.name}.")
    receipt = programme.erase(id_, by=by, key=who.key)
    tell_receipt(as_json, programme, receipt, f"Erased. Nobody can tell any more which rows were those of {id_}.")


def _named(ids: list[str] | None, file: Path | None, encoding: str) -> tuple[list[str], Table | None]:
    """Return those who are named on the command line, or in a file."""
    from meritfair.programme.files import read_ids

    if bool(ids) == (file is not None):
        raise InputError("say who: ids, or a file of them with --file" + ", not both" * bool(ids))
    if file is None:
        return list(ids or ()), None
    with from_file(file, "checking") as read:
        found = read(partial(read_ids, encoding=encoding))
    return found.value, found.table
