"""The directive ``command-help``: what ``meritfair COMMAND --help`` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from docutils import nodes
from docutils.parsers.rst import Directive
from typer.testing import CliRunner

from meritfair.cli import app

if TYPE_CHECKING:
    from sphinx.application import Sphinx

WIDTH = 90  # as wide as a page


class CommandHelp(Directive):
    """Show the help of one command, or of all of them without an argument."""

    optional_arguments = 2  # a command, and one of its own

    def run(self) -> list[nodes.Node]:
        """Return the text as it is printed to a terminal without colours."""
        terminal = {"COLUMNS": str(WIDTH), "TERM": "dumb", "NO_COLOR": "1"}
        words = [*self.arguments, "--help"]
        answer = CliRunner().invoke(app, words, prog_name="meritfair", env=terminal)
        if answer.exit_code:
            raise self.error(f"meritfair has no command {' '.join(self.arguments)!r}")
        lines = (line.rstrip().removeprefix(" ") for line in answer.output.splitlines())
        text = "\n".join(lines).strip("\n")
        return [nodes.literal_block(text, text, language="text")]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("command-help", CommandHelp)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
