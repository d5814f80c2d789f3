"""Check, move and end a programme: `meritfair programme verify`, `export`, `import`, `proof`, `end`."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from meritfair.cli.options import JsonOption, flag, out_option, text, with_options
from meritfair.cli.programme.common import (
    StoreOption,
    Which,
    Who,
    YesOption,
    confirm,
    open_programme,
    tell_head,
    tell_receipt,
    working,
)
from meritfair.cli.show import Files, print_json, print_note, say
from meritfair.core.errors import FileError
from meritfair.core.progress import bar
from meritfair.core.texts import printable, several

if TYPE_CHECKING:
    from meritfair.programme import Programme

EXAMPLES = """Is the ledger whole, and does it still hold the head that was noted in March?

[cyan]meritfair programme verify --head 5c1e...[/]

And all that were kept in a file? [cyan]meritfair programme verify --heads heads.tsv[/]"""

EXPORT_EXAMPLES = """For anyone who wants to check the draws, without saying who took part:

[cyan]meritfair programme export ledger --anonymous[/]
[cyan]python ledger/verify.py[/]"""

IMPORT_EXAMPLES = """From a file to a database server:

[cyan]meritfair programme export moving --store clinic.db[/]
[cyan]meritfair programme import moving --store postgresql://clinic@server/meritfair[/]"""


@with_options()
def verify(
    which: Which,
    head: Annotated[
        list[str] | None,
        text("--head", metavar="HASH", help="A head that was noted before, or a short code; repeat for several."),
    ] = None,
    heads: Annotated[
        Path | None,
        text("--heads", metavar="FILE", help="A file of heads: as meritfair keeps them, or one in each line."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check everything: the chain of entries, every draw, and that exposures follow from what was recorded.

    Exit code 1 says that something is wrong.
    """
    programme = which.open()
    noted = [*(head or ()), *_heads_in(heads, programme)]
    with bar(keep=False) as tell:
        found = programme.verify(heads=noted, progress=partial(tell, "verifying"))
    if as_json:
        print_json({"programme": programme.name, **asdict(found), "whole": found.whole, "verdict": str(found)})
    else:
        say(printable(str(found)))
        say(f"Head of the ledger: {found.head}")
    if not found.whole:
        raise typer.Exit(1)


def _heads_in(file: Path | None, programme: Programme) -> list[str]:
    """Return the heads of a programme in a file; those of others are passed over, but there must be one."""
    from meritfair.core.storage import check_readable
    from meritfair.programme.ledger.heads import read_heads

    if file is None:
        return []
    check_readable(file)
    try:
        content = file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise FileError(file, "this is not a file of heads: it is not a text in UTF-8") from None
    with working(programme) as work:
        found = read_heads(content, programme.name, work.identity, str(file))
    if not found:
        raise FileError(file, f"there is no head of {programme.name} in it, so nothing can be compared")
    return found


@with_options()
def export(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", show_default=False, help="A folder that is new.")],
    which: Which,
    anonymous: Annotated[
        bool, flag("--anonymous", "Leave out who the participants are, why some were called undrawn, and the secret.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Write the whole ledger with a verifier that needs nothing but Python."""
    programme = which.open()
    programme.export(folder, anonymous=anonymous)
    head = (folder / "head.txt").read_text(encoding="utf-8").strip()
    if as_json:
        print_json({"programme": programme.name, "folder": str(folder), "anonymous": anonymous, "head": head})
        return
    say(
        printable(f"Wrote the ledger of {programme.name} into {folder}; anyone can check it: python {folder}/verify.py")
    )
    if anonymous:
        print_note("Nothing in it says who the participants are.")
    else:
        print_note("private.json in it has ids, reasons and the secret: keep it to yourself.", style="yellow")
    say(f"Head of the ledger: {head}")


def import_(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", show_default=False, help="An export that is not anonymous.")
    ],
    name: Annotated[str | None, text("--name", help="What it is called here; by default as it was.")] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a programme from an export, with the same entries and so the same head."""
    from meritfair.core.storage import check_readable

    check_readable(folder / "ledger.jsonl")
    programme = open_programme(store, name, new=True)
    with bar("importing", keep=False):
        receipt = programme.import_(folder)
    programme = open_programme(store, name or _name_in(folder))
    entries = several(receipt.entries, "entry", "entries")
    tell_receipt(as_json, programme, receipt, f"Imported {programme.name}: {entries}.")
    if not as_json:
        say(f"Head of the ledger: {receipt.head}")


def _name_in(folder: Path) -> str:
    return str(json.loads((folder / "private.json").read_text(encoding="utf-8"))["name"])


@with_options()
def proof(
    id_: Annotated[str, typer.Argument(metavar="ID", show_default=False, help="Whose.")],
    which: Which,
    out: Annotated[Path, out_option("Where it is written: a .json file.")],
    as_json: JsonOption = False,
) -> None:
    """Write what one person needs to prove their own rows of the ledger, and nothing of anyone else."""
    from meritfair.core.storage import check_suffix, write_whole
    from meritfair.programme.exporting import proof as proof_of

    check_suffix(out, "proofs", (".json",))
    programme, files = which.open(), Files(out)
    with working(programme) as work:
        made = proof_of(work, id_)
    content = json.dumps(made)
    files.save(
        out, lambda path: write_whole(path, lambda file: file.write_text(content, encoding="utf-8"), private=True)
    )
    values: dict[str, Any] = {"programme": programme.name, "number": made["number"], "rows": len(made["rows"])}

    def show() -> None:
        rows, entries = several(len(made["rows"]), "row"), several(len(made["entries"]), "entry", "entries")
        say(printable(f"{id_} has {rows} in {entries}."))
        say("The verifier of an export checks it: python verify.py --proof FILE")

    files.report(as_json, lambda: values, show)


@with_options()
def end(who: Who, yes: YesOption = False, as_json: JsonOption = False) -> None:
    """End the programme and publish the secret, so that anyone can check the seeds of all draws."""
    by = who.named("to end a programme")
    programme = who.open()
    confirm(yes, f"This ends {programme.name} for good.")
    receipt = programme.end(by=by, key=who.key)
    with working(programme) as work:
        secret = work.secret.hex()
    tell_receipt(as_json, programme, receipt, f"{programme.name} has ended. Its secret: {secret}", secret=secret)
    if not as_json:
        tell_head(receipt.head)
