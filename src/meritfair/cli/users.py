"""`meritfair users`: who may sign in to a server, and what they may do there."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from meritfair.cli.options import JsonOption, text, whole
from meritfair.cli.programme.common import StoreOption
from meritfair.cli.show import print_json, print_note, print_table, say
from meritfair.core.errors import InputError
from meritfair.core.texts import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from meritfair.programme.users import Role, User, Users

EXAMPLES = """A nurse who runs the programme, and a board member who sees sums only:

[cyan]meritfair users add "Nurse Ama" --role coordinator --programme clinic[/]
[cyan]meritfair users link "Nurse Ama" --url https://meritfair.example.org[/]
[cyan]meritfair users add "Dr. Mensah" --role viewer[/]"""

ROLES = """Each may do all that those before may:

[cyan]viewer[/] sees sums, nothing about single participants
[cyan]auditor[/] sees everything, changes nothing
[cyan]coordinator[/] draws, reports, enrols
[cyan]admin[/] changes settings, erases, ends; for all programmes, also manages users"""

app = typer.Typer(
    name="users",
    help="Manage who may sign in to a server ([cyan]meritfair serve[/]), and what they may do there.",
    epilog=EXAMPLES,
    no_args_is_help=True,
    rich_markup_mode="rich",
)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", show_default=False, help="The user's name.")]
ByOption = Annotated[
    str, typer.Option("--by", metavar="NAME", envvar="MERITFAIR_BY", help="Your name, for the log of users.")
]
UrlOption = Annotated[str, text("--url", metavar="URL", help="The server's address, as the person reaches it.")]
_ROLE_HELP = "viewer, auditor, coordinator or admin."
BY = "command line"  # who did it, if nobody says
URL = "http://127.0.0.1:8000"


@app.command("add", epilog=ROLES)
def add(
    name: NameArgument,
    role: Annotated[str, text("--role", metavar="ROLE", help=_ROLE_HELP)],
    programme: Annotated[
        list[str] | None, text("--programme", "-p", help="Where; may be repeated. By default in all programmes.")
    ] = None,
    store: StoreOption = None,
    by: ByOption = BY,
    as_json: JsonOption = False,
) -> None:
    """Add a user, who then needs a one-time link, a password or a token."""
    from meritfair.programme.users import EVERYWHERE, Role

    users = open_users(store)
    users.add(name, dict.fromkeys(programme or [EVERYWHERE], Role.named(role)), by=by)
    user = users.get(name)
    _tell(as_json, user, f"Added {user.name}: {in_words(user.roles)}.")
    if not as_json:
        say(f"Next, a link to sign in with: meritfair users link {user.name!r} --url {URL}")


@app.command("list")
def list_(store: StoreOption = None, as_json: JsonOption = False) -> None:
    """List the users, and their roles."""
    found = open_users(store).all()
    if as_json:
        print_json({"users": [_values(user) for user in found]})
    elif found:
        rows = [[user.name, in_words(user.roles), user.signed_in or "never", _state(user)] for user in found]
        print_table(["user", "roles", "last sign-in", "state"], [list(map(printable, row)) for row in rows], "", "llll")
    else:
        say("There is no user yet: meritfair users add NAME --role admin")


@app.command("role", epilog=ROLES)
def role(
    name: NameArgument,
    role: Annotated[str, typer.Argument(metavar="ROLE", show_default=False, help=f"{_ROLE_HELP[:-1]}; or none.")],
    programme: Annotated[
        list[str] | None, text("--programme", "-p", help="Where; may be repeated. By default in all programmes.")
    ] = None,
    store: StoreOption = None,
    by: ByOption = BY,
    as_json: JsonOption = False,
) -> None:
    """Give a user another role, or none; it counts at once."""
    from meritfair.programme.users import EVERYWHERE, Role

    users = open_users(store)
    for each in programme or [EVERYWHERE]:
        users.set_role(name, each, None if role == "none" else Role.named(role), by=by)
    user = users.get(name)
    _tell(as_json, user, f"{user.name}: {in_words(user.roles)}.")


@app.command("disable")
def disable(name: NameArgument, store: StoreOption = None, by: ByOption = BY, as_json: JsonOption = False) -> None:
    """Keep a user out, at once; the ledger keeps their name, so users are never deleted."""
    users = open_users(store)
    users.disable(name, by=by)
    user = users.get(name)
    _tell(as_json, user, f"{user.name} is disabled: sessions and links have ended, and tokens are refused.")


@app.command("enable")
def enable(name: NameArgument, store: StoreOption = None, by: ByOption = BY, as_json: JsonOption = False) -> None:
    """Let a user in again who was disabled."""
    users = open_users(store)
    users.enable(name, by=by)
    user = users.get(name)
    _tell(as_json, user, f"{user.name} is enabled: {in_words(user.roles)}.")


@app.command("link")
def link(
    name: NameArgument,
    url: UrlOption = URL,
    hours: Annotated[int, whole("--hours", help="How long it can be used.")] = 24,
    store: StoreOption = None,
    by: ByOption = BY,
    as_json: JsonOption = False,
) -> None:
    """Print a link with which a user can sign in once, and then set a password. Older ones end."""
    from meritfair.web.settings import sign_in_link

    if not 1 <= hours <= 24 * 30:
        raise InputError(f"--hours must be between 1 and 720, got {hours}")
    if not url.startswith(("http://", "https://")):
        raise InputError(f"--url must begin with http:// or https://, got {url!r}")
    users = open_users(store)
    address = sign_in_link(url, users.link(name, by=by, hours=hours))
    if as_json:
        print_json({"name": users.get(name).name, "link": address, "hours": hours})
        return
    say(address)
    print_note(f"It can be used once, within {hours} hours, by whoever has it: send it to the person alone.")


@app.command("password")
def password(name: NameArgument, store: StoreOption = None, by: ByOption = BY, as_json: JsonOption = False) -> None:
    """Ask for a new password of a user, at least 10 characters; sessions and links end."""
    users = open_users(store)
    user = users.get(name)
    users.set_password(user.name, _ask(user.name), by=by)
    _tell(as_json, users.get(name), f"{user.name} has a new password; sessions and links have ended.")


def open_users(store: str | None) -> Users:
    """Return the users of a store, which must be there."""
    from meritfair.programme.storage.database import Database
    from meritfair.programme.storage.store import Store
    from meritfair.programme.users import Users

    database = Database(store)
    if database.is_sqlite and not database.file.exists():
        raise InputError(
            f"there is no store {database.file} yet: meritfair serve and meritfair programme create make one; "
            "--store names another"
        )
    return Users(Store(store))


def in_words(roles: Mapping[str, Role]) -> str:
    """Return roles as people say them."""
    texts = [f"{role.word} in {'all programmes' if each == '*' else each}" for each, role in sorted(roles.items())]
    return ", ".join(texts) or "no role"


def _ask(name: str) -> str:
    """Return a new password: hidden and typed twice at a terminal, else a line of the input."""
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    return str(typer.prompt(f"New password of {name}", hide_input=True, confirmation_prompt=True))


def _state(user: User) -> str:
    return "disabled" if user.disabled else "can sign in" if user.has_password or user.signed_in else "new"


def _values(user: User) -> dict[str, Any]:
    roles = {programme: role.word for programme, role in user.roles.items()}
    return {
        "name": user.name,
        "roles": roles,
        "disabled": user.disabled,
        "password": user.has_password,
        "created": user.created,
        "signed_in": user.signed_in or None,
    }


def _tell(as_json: bool, user: User, sentence: str) -> None:
    if as_json:
        print_json(_values(user))
    else:
        say(printable(sentence))
