"""`meritfair programme heads`: where the heads of ledgers are kept by themselves, and the last ones."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from meritfair.cli.options import JsonOption, flag, text
from meritfair.cli.programme.common import StoreOption, open_programme
from meritfair.cli.show import print_json, print_note, print_table, say
from meritfair.core.errors import InputError
from meritfair.core.texts import printable, several

if TYPE_CHECKING:
    from meritfair.programme.keeping import Places
    from meritfair.programme.ledger.heads import KeptHead
    from meritfair.programme.storage.store import Store

EXAMPLES = """After each draw, a line in a file that others have, too (a shared or versioned folder):

[cyan]meritfair programme heads --append /srv/board/heads.tsv[/]

Was anything before them ever changed?

[cyan]meritfair programme verify --heads /srv/board/heads.tsv[/]"""

_WHERE = "Where (for the whole store)"


def heads(
    append: Annotated[
        Path | None,
        text("--append", metavar="FILE", help="After each draw, append the head to this file.", panel=_WHERE),
    ] = None,
    post: Annotated[
        str | None,
        text("--post", metavar="URL", help="After each draw, post the head to this address, as JSON.", panel=_WHERE),
    ] = None,
    off: Annotated[bool, flag("--off", "Keep heads nowhere any more.", panel=_WHERE)] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show where heads of the ledgers are kept by themselves, and the last ones; or say where.

    Whoever has a head can later tell whether anything before it was changed. Keep them where whoever runs the database
    cannot change them.
    """
    from meritfair.programme.keeping import Places, places_of, set_places

    opened = open_programme(store, None).store
    if off and (append is not None or post is not None):
        raise InputError("--off goes with neither --append nor --post")
    if off:
        set_places(opened, Places())
    elif append is not None or post is not None:
        before = places_of(opened)
        file = before.file if append is None else str(append.expanduser().absolute())
        set_places(opened, replace(before, file=file, address=before.address if post is None else post))
    _show(opened, places_of(opened), as_json)


def _show(store: Store, places: Places, as_json: bool) -> None:
    from meritfair.programme.keeping import failure_of, head_of_draw

    last = [head for name in store.names() if (head := head_of_draw(store, name)) is not None]
    kept, problem = _in_file(places, last)
    warnings = {head.programme: failure_of(store, head.identity) for head in last} if places else {}
    if as_json:
        rows = [
            {**asdict(head), "in_file": kept.get(head.head), "warning": warnings.get(head.programme, "")}
            for head in last
        ]
        print_json({"store": store.url, **asdict(places), "heads": rows, "problem": problem})
        return
    _tell_places(places)
    if problem:
        say(f"Warning: {printable(problem)}", err=True)
    for warning in filter(None, warnings.values()):
        say(f"Warning: {printable(warning)}", err=True)
    _tell_last(last, kept)


def _in_file(places: Places, last: list[KeptHead]) -> tuple[dict[str, bool], str]:
    """Return which heads are in the file, and what is wrong with it."""
    from meritfair.programme.ledger.heads import read_heads

    if not places.file:
        return {}, ""
    try:
        content = Path(places.file).read_text(encoding="utf-8")
        return {
            each.head: each.head in read_heads(content, each.programme, each.identity, places.file) for each in last
        }, ""
    except (OSError, UnicodeDecodeError, InputError) as error:
        return {}, f"{places.file} cannot be read: {error}"


def _tell_places(places: Places) -> None:
    if not places:
        say(
            "Heads are not kept by themselves. --append FILE or --post URL says where, for all programmes of the store."
        )
    if places.file:
        say(printable(f"After each draw, the head is appended to {places.file}"))
    if places.address:
        say(printable(f"After each draw, the head is posted to {places.address}"))


def _tell_last(last: list[KeptHead], kept: dict[str, bool]) -> None:
    from meritfair.programme.ledger.heads import short_code

    if not last:
        say("There was no draw yet.")
        return
    words = {True: "in the file", False: "not in the file", None: ""}
    rows: list[list[Any]] = []
    for each in last:
        numbers = [f"{each.round:,}", f"{each.entry:,}", each.time]
        rows.append([printable(each.programme), *numbers, short_code(each.head), words[kept.get(each.head)]])
    headings = ["programme", "round", "entry", "time", "short code", "kept"]
    print_table(headings, rows, f"The last {several(len(last), 'draw')}, one of each programme:", "lrrlll")
    print_note("meritfair programme verify --heads FILE checks a ledger against all heads in a file.")
