"""`meritfair tokens`: how programs show whose they are when they use the HTTP API of a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from meritfair.cli.options import JsonOption, text, whole
from meritfair.cli.programme.common import StoreOption
from meritfair.cli.show import print_json, print_note, print_table, say
from meritfair.cli.users import BY, ByOption, open_users
from meritfair.core.errors import InputError
from meritfair.core.texts import printable

if TYPE_CHECKING:
    from meritfair.programme.users import Token

EXAMPLES = """The clinic's own system may draw and report in one programme, for a year:

[cyan]meritfair users add "Clinic system" --role coordinator --programme clinic[/]
[cyan]meritfair tokens add "Clinic system" --label production --days 365[/]

A token goes into the header of requests: [cyan]Authorization: Bearer mf_…[/]"""

app = typer.Typer(
    name="tokens",
    help="Manage the tokens with which programs use the HTTP API of a server.",
    epilog=EXAMPLES,
    no_args_is_help=True,
    rich_markup_mode="rich",
)
_LONGEST = 3650  # days


@app.command("add")
def add(
    user: Annotated[str, typer.Argument(metavar="USER", show_default=False, help="Whose it is; see meritfair users.")],
    label: Annotated[str, text("--label", metavar="TEXT", help="What it is for.")],
    role: Annotated[
        str | None, text("--role", metavar="ROLE", help="The highest role that it gives; by default the user's.")
    ] = None,
    programme: Annotated[
        str | None, text("--programme", "-p", help="The only programme it is for; by default all of the user's.")
    ] = None,
    days: Annotated[int | None, whole("--days", help="How long it can be used; by default until revoked.")] = None,
    store: StoreOption = None,
    by: ByOption = BY,
    as_json: JsonOption = False,
) -> None:
    """Make a token and print it: this once, as only its hash is kept."""
    from meritfair.programme.users import Role

    if days is not None and not 1 <= days <= _LONGEST:
        raise InputError(f"--days must be between 1 and {_LONGEST}, got {days}")
    limit = None if role is None else Role.named(role)
    made, token = open_users(store).new_token(user, label, by=by, role=limit, programme=programme or "", days=days)
    if as_json:
        print_json({**_values(made), "token": token})
        return
    say(token)
    print_note(f"Token {made.id} of {made.user}. Keep it as a password: it is not shown again.")


@app.command("list")
def list_(
    user: Annotated[str | None, text("--user", help="Whose; by default all users'.")] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the tokens: whose, for what, until when."""
    found = open_users(store).tokens(user)
    if as_json:
        print_json({"tokens": [_values(token) for token in found]})
    elif found:
        rows = [[str(each.id), each.user, each.label, _limits(each), each.created, _state(each)] for each in found]
        cells = [list(map(printable, row)) for row in rows]
        print_table(["token", "user", "label", "limited to", "made", "state"], cells, "", "rlllll")
    else:
        say("There is no token yet: meritfair tokens add USER --label TEXT")


@app.command("revoke")
def revoke(
    token: Annotated[int, typer.Argument(metavar="ID", show_default=False, help="The token's number in the list.")],
    store: StoreOption = None,
    by: ByOption = BY,
    as_json: JsonOption = False,
) -> None:
    """Revoke a token: it is refused from now on."""
    found = open_users(store).revoke(token, by=by)
    if as_json:
        print_json(_values(found))
    else:
        say(printable(f"Token {found.id} of {found.user} ({found.label}) is revoked."))


def _limits(token: Token) -> str:
    parts = [token.role.word] if token.role else []
    return " in ".join([*(parts or ["the user's roles"]), *([token.programme] if token.programme else [])])


def _state(token: Token) -> str:
    if token.revoked:
        return f"revoked {token.revoked}"
    return f"until {token.expires}" if token.expires else "until revoked"


def _values(token: Token) -> dict[str, Any]:
    return {
        "id": token.id,
        "user": token.user,
        "label": token.label,
        "role": token.role.word if token.role else None,
        "programme": token.programme or None,
        "created": token.created,
        "expires": token.expires or None,
        "revoked": token.revoked or None,
    }
