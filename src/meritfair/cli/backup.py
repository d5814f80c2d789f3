"""`meritfair backup` and `meritfair restore`: a store in one file, and back."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from meritfair.cli.options import JsonOption, flag
from meritfair.cli.programme.common import KEEP, StoreOption
from meritfair.cli.show import print_json, print_note, say
from meritfair.core.texts import printable, several

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meritfair.programme.storage.backups import Restored
    from meritfair.programme.storage.looking import Head

EXAMPLES = """Each night, into a folder, under a name with the time; the server may run meanwhile:

[cyan]meritfair backup /var/backups/meritfair[/]"""

RESTORE_EXAMPLES = """Look at what a backup holds, without touching the store:

[cyan]meritfair restore backup.db --store restored.db[/]
[cyan]meritfair programme list --store restored.db[/]"""


def backup(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", show_default=False, help="A new file, or a folder that is there.")
    ],
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write all programmes and users of a store into one file, and check it; others may write meanwhile.

    A backup holds the secrets of the programmes: keep it where only those may read it who may read the store.
    """
    from meritfair.programme.storage.backups import back_up

    made = back_up(store, file)
    if as_json:
        values = {"file": str(made.file), "bytes": made.size, "schema": made.schema}
        print_json({**values, "programmes": [asdict(each) for each in made.heads]})
        return
    say(printable(f"Wrote {made.file} ({made.size / 1e6:,.1f} MB), and read it again: nothing is damaged."))
    _tell_heads(made.heads)


def restore(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", show_default=False, help="What meritfair backup has written.")
    ],
    store: StoreOption = None,
    replace: Annotated[
        bool, flag("--replace", "Put it in the place of the file that is there, which is kept beside it.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Make a store from a backup: a new file, or an empty PostgreSQL database.

    Programmes, users and tokens are then as they were when the backup was made.
    """
    from meritfair.programme.storage.backups import restore as restore_

    found = restore_(file, store, replace=replace)
    if as_json:
        values = {"store": found.store, "kept": None if found.kept is None else str(found.kept)}
        lists = {"programmes": found.heads, "before": found.before}
        print_json({**values, **{name: [asdict(each) for each in heads] for name, heads in lists.items()}})
        return
    say(printable(f"Restored {file} as {found.store.removeprefix('sqlite:///')}, and checked it: nothing is damaged."))
    if found.kept is not None:
        say(printable(f"What was there before is kept as {found.kept}."))
    _tell_heads(found.heads)
    for sentence in _lost(found):
        print_note(sentence, style="yellow")


def _tell_heads(heads: Sequence[Head]) -> None:
    """Show how far each programme goes."""
    if not heads:
        say("There is no programme in it yet.")
        return
    for each in heads:  # a head stands in a line of its own, so that it can be copied whole
        count = several(each.entries, "entry", "entries")
        say(printable(f"{each.name}: {count}, the last at {each.time}. Head of the ledger:"))
        say(printable(each.head))
    print_note(KEEP)


def _lost(found: Restored) -> list[str]:
    """Say which entries a store had before that it no longer has."""
    now = {each.name: each.entries for each in found.heads}
    fewer = [(each, each.entries - now.get(each.name, 0)) for each in found.before]
    return [
        printable(f"{each.name}: the backup lacks {several(number, 'entry', 'entries')} that the store had. ")
        + "Heads that were published since are no longer in the ledger, and verify --head will say so."
        for each, number in fewer
        if number > 0
    ]
