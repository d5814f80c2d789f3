"""The command line: shows and asks, computes nothing. Heavy imports wait until a command needs them."""

from __future__ import annotations

import codecs
import io
import os
import sys
from typing import Annotated

import typer

import meritfair
from meritfair.cli.show import say
from meritfair.core.errors import MeritfairError

__all__ = ["app", "main"]

app = typer.Typer(
    name="meritfair",
    help="Share a scarce intervention fairly among people whose state drifts, while learning who benefits.",
    epilog="Start with: meritfair simulate --dataset cpap --arms 20 --budget 4 --plot regret.png",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
)


def _version(wanted: bool) -> None:
    if wanted:
        say(f"meritfair {meritfair.__version__}")
        raise typer.Exit


@app.callback()
def _top(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which version this is, and stop.")
    ] = False,
) -> None: ...


from meritfair.cli import (  # noqa: E402
    audit,
    backup,
    bench,
    catalogue,
    compare,
    doctor,
    effect,
    fit,
    programme,
    reproduce,
    serve,
    simulate,
    sweep,
    theory,
    tokens,
    users,
    view,
    whatif,
)

app.command("simulate", epilog=simulate.EXAMPLES)(simulate.simulate)
app.command("compare", epilog=compare.EXAMPLES)(compare.compare)
app.command("reproduce", epilog=reproduce.EXAMPLES)(reproduce.reproduce)
app.command("sweep", epilog=sweep.EXAMPLES)(sweep.sweep)
app.command("results", epilog=sweep.RESULTS_EXAMPLES)(sweep.results)
app.command("view", epilog=view.EXAMPLES)(view.view)
app.command("theory", epilog=theory.EXAMPLES)(theory.theory)
app.command("fit", epilog=fit.EXAMPLES)(fit.fit)
app.command("audit", epilog=audit.EXAMPLES)(audit.audit)
app.command("effect", epilog=effect.EXAMPLES)(effect.effect)
app.command("whatif", epilog=whatif.EXAMPLES)(whatif.whatif)
app.add_typer(programme.app)
app.command("serve", epilog=serve.EXAMPLES)(serve.serve)
app.add_typer(users.app)
app.add_typer(tokens.app)
app.command("backup", epilog=backup.EXAMPLES)(backup.backup)
app.command("restore", epilog=backup.RESTORE_EXAMPLES)(backup.restore)
app.command("doctor", epilog=doctor.EXAMPLES)(doctor.doctor)
app.command("datasets")(catalogue.datasets)
app.command("policies")(catalogue.policies)
app.command("bench", epilog=bench.EXAMPLES)(bench.bench)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; a user's mistake is one clear line and exit code 2."""
    _prepare_terminal()
    try:
        code = app(arguments, prog_name="meritfair", standalone_mode=False)
        sys.stdout.flush()
    except MeritfairError as error:
        _complain(str(error), 2)
    except typer.TyperException as error:
        _complain(error.format_message(), error.exit_code)
    except BrokenPipeError:
        sys.stderr.close()  # the reader has gone: there is no one to complain to
        sys.exit(1)
    except OSError as error:
        sys.stdout = None  # what is left in it would fail once more at exit
        _complain(f"{error.filename}: " * bool(error.filename) + (error.strerror or str(error)), 1)
    except Exception as error:  # a policy in a file may raise anything
        _complain_of_own_policy(error)
        raise
    if code == 130:  # interrupted
        _complain("stopped", 130)
    sys.exit(code if isinstance(code, int) else 0)


def _complain_of_own_policy(error: Exception) -> None:
    """Say in which line of a file of policies something went wrong, if it was there."""
    from meritfair.policies.own import failure

    if problem := failure(error):
        _complain(problem, 2)


def _prepare_terminal() -> None:
    """Replace what the output's encoding does not have, and ignore a width of 0, as shells do."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        codecs.register_error("meritfair", _in_ascii)
        sys.stdout.reconfigure(errors="meritfair")
    if os.environ.get("COLUMNS", "").strip("0") == "":
        os.environ.pop("COLUMNS", None)


_ASCII = {"−": "-", "–": "-", "…": "...", "∞": "inf", "≥": ">=", "≤": "<=", "×": "x", "·": "-", "±": "+-", "→": "->"}


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    """Return what to write instead of characters that cannot be encoded, as `codecs.register_error` wants it."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    plain = (_ASCII.get(c) or c.encode("ascii", "backslashreplace").decode() for c in text)
    return "".join(plain), error.end


def _complain(message: str, code: int) -> None:
    if message:
        say(f"meritfair: {' '.join(message.split())}", err=True)
    sys.exit(code)
