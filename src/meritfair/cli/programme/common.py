"""What the commands of `meritfair programme` share: which programme, who does it, and how answers are shown."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from meritfair.cli.options import text
from meritfair.cli.show import print_json, print_note, say
from meritfair.core.errors import InputError
from meritfair.core.progress import progress_bar
from meritfair.core.texts import listed, printable

if TYPE_CHECKING:
    from meritfair.core.tables import Table
    from meritfair.programme import Programme, Receipt
    from meritfair.programme.work import Work

_WHICH, _WHO = "Which programme", "Who does it"
KEEP = (
    "Keep this hash elsewhere, in a mail or in the minutes: if anything before it is ever changed, "
    "meritfair programme verify --head HASH will tell."
)

StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        envvar="MERITFAIR_STORE",
        help="Where programmes are kept: the path of a file, or [cyan]postgresql://user@host/database[/]. By default a "
        "file in your data folder.",
        rich_help_panel=_WHICH,
    ),
]
EncodingOption = Annotated[
    str, text("--encoding", help="Of a .csv file that is not in UTF-8: [cyan]cp1252[/], for example.")
]


@dataclass(frozen=True)
class Which:
    """The options that say which programme."""

    store: StoreOption = None
    programme: Annotated[
        str | None,
        text("--programme", "-p", help="Which programme of the store; by default the only one.", panel=_WHICH),
    ] = None

    def open(self) -> Programme:
        """Open the programme, in a store that must be there."""
        return open_programme(self.store, self.programme)


@dataclass(frozen=True)
class Who(Which):
    """The options of what changes something: which programme, who does it, and what stands for the request."""

    by: Annotated[
        str, typer.Option("--by", metavar="NAME", envvar="MERITFAIR_BY", help="Your name.", rich_help_panel=_WHO)
    ] = ""
    key: Annotated[
        str | None,
        text(
            "--key",
            metavar="TEXT",
            help="Stands for this request: with the same key it is done once, however often it is sent.",
            panel=_WHO,
        ),
    ] = None

    def named(self, what: str) -> str:
        """Return the name of who does something that needs one."""
        if not self.by.strip():
            raise InputError(f"{what} needs the name of who does it: --by NAME, or the variable MERITFAIR_BY")
        return self.by


def open_programme(store: str | None, name: str | None, *, new: bool = False) -> Programme:
    """Open a programme; only a new one may make its store."""
    from meritfair.programme import open as open_
    from meritfair.programme.storage.database import Database
    from meritfair.programme.storage.names import check_name

    if new:
        name = None if name is None else check_name(name)
    else:
        database = Database(store)
        if database.is_sqlite and not database.file.exists():
            raise InputError(
                f"there is no store {database.file} yet: meritfair programme create makes one; --store names another"
            )
    return open_(store, name)


def place_of(programme: Programme) -> str:
    """Return where a programme is kept, as people say it: a file, or the URL of a database."""
    return programme.store.url.removeprefix("sqlite:///")


def next_command(words: str, store: str | None, programme: Programme) -> str:
    """Return a command that someone can copy: for the same store, and the same programme if there are several."""
    usual = store in (None, os.environ.get("MERITFAIR_STORE"))
    where = "" if usual else f" --store {shlex.quote(place_of(programme))}"  # which never shows a password
    which = f" -p {shlex.quote(programme.name)}" if len(programme.store.names()) > 1 else ""
    return f"meritfair programme {words}{where}{which}"


@contextmanager
def working(programme: Programme) -> Iterator[Work]:
    """Look into a programme."""
    from meritfair.programme.work import Work

    with programme.store.reading(programme.name) as session:
        yield Work(session)


@contextmanager
def from_file(file: Any, what: str) -> Iterator[Callable[[Callable[..., Any]], Any]]:
    """Show a bar while a file is read and what is in it is done; say which option helps with its encoding.

    It gives a function that calls a reader of files, telling it how to tell how far it is.
    """
    from meritfair.core.csv_files import EncodingError

    with progress_bar(2) as begin:
        try:
            tell = begin(f"reading {file.name}")

            def read(reader: Callable[..., Any]) -> Any:
                found = reader(file, tell=tell)
                begin(what)
                return found

            yield read
        except EncodingError as error:
            raise InputError(f"{error}, or say which encoding it has, such as --encoding cp1252") from None


def tell_receipt(as_json: bool, programme: Programme, found: Receipt, *sentences: str, **more: Any) -> None:
    """Show what came of a change: in words, or as JSON."""
    tell_warning(found.warning)
    if as_json:
        print_json({"programme": programme.name, **asdict(found), **more})
        return
    for sentence in sentences:
        say(printable(sentence))


def tell_warning(warning: str) -> None:
    """Show what was noticed on the error stream, so that it is seen wherever the answer goes."""
    if warning:
        say(f"Warning: {printable(warning)}", err=True)


def tell_head(head: str) -> None:
    """Show the head of the ledger, its short code, and what it is for."""
    from meritfair.programme.ledger.heads import short_code

    say(f"Head of the ledger: {head}")
    say(f"Short code: {short_code(head)}")
    print_note(KEEP)


def tell_ignored(table: Table, known: tuple[str, ...] = ()) -> None:
    """Name the columns of a file that are not read, as one of them may be misspelt."""
    others = [name for name in table.ignored if name.lower() not in known]
    if others:
        say(f"Ignored {'column' if len(others) == 1 else 'columns'}: {listed(others)}.", err=True)


def confirm(yes: bool, question: str) -> None:
    """Ask before something that cannot be undone."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise InputError(f"{question} It cannot be undone: say --yes to do it")
    if not typer.confirm(f"{question} It cannot be undone. Do it?"):
        say("Nothing was done.")
        raise typer.Exit(1)


YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
