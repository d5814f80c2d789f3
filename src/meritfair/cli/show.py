"""What several commands show, a progress bar, a table, JSON, and the files that they write.

Text may have come from users, so all of it passes through `printable` on its way to the terminal.
"""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import typer

from meritfair.core.errors import InputError, MissingExtraError
from meritfair.core.json_values import finite
from meritfair.core.parsing import split_name
from meritfair.core.texts import printable
from meritfair.simulation.columns import BOUND_MEANING, COLUMNS, has_bounds, marked

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from rich.console import Console

    from meritfair.simulation.bootstrap import Interval

_WITH_INTERVAL = ("intervention_benefit", "fairness_regret", "exposure_regret")


def say(text: str, *, err: bool = False) -> None:
    """Print a line."""
    typer.echo(_lines(text), err=err)


def print_json(value: Any) -> None:
    """Print a value as JSON; what is not a finite number becomes null, as JSON knows no other way."""
    json.dump(finite(value), sys.stdout, indent=2, allow_nan=False)
    sys.stdout.write("\n")


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]], title: str = "", align: str = "") -> None:
    """Print a table.

    Columns are aligned as in LaTeX: "lrr" is one to the left and two to the right. By default the first is to the left
    and all others to the right. Only text to the left may wrap.
    """
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for heading, side in zip(headings, align or "l" + "r" * (len(headings) - 1), strict=True):
        right = side == "r"
        table.add_column(_lines(heading), justify="right" if right else "left", no_wrap=right, overflow="fold")
    for row in rows:
        table.add_row(*map(_lines, row))
    if title:
        print_note(title, style="none")
    console = _console()
    needed = console.measure(table, options=console.options.update(max_width=10_000)).minimum
    console.width = max(console.width, needed)  # rather lines that wrap than numbers without their last digits
    console.print()
    console.print(table)
    console.print()


def print_note(text: str, style: str = "dim") -> None:
    """Print a remark below a table."""
    _console().print(_lines(text), style=style, highlight=False)


def measure_cells(measures: Mapping[str, Interval], names: Sequence[str]) -> list[str]:
    """Return the cells of some measures of a policy: means, for the main ones with half of their interval."""

    def cell(name: str) -> str:
        column, value = COLUMNS[name], measures[name]
        return column.in_short(value) if name in _WITH_INTERVAL else column.number(value.mean)

    return [marked(cell(name), name, measures) for name in names]


def print_measures(
    names: Sequence[str], rows: Sequence[Sequence[str]], title: str, *first: str, intervals: bool, more: str = ""
) -> None:
    """Print a table of measures, after columns with the headings `first`, and below it what they mean."""
    print_table([*first, *(COLUMNS[name].heading for name in names)], rows, title)
    half = ["After ±: half the width of the 95 % interval."] * intervals
    bound = [BOUND_MEANING] * has_bounds(rows)
    print_note(" ".join([*(COLUMNS[name].meaning for name in names), *bound, *half, more]).rstrip())


def _console() -> Console:
    from rich.console import Console

    return Console(markup=False, emoji=False)


def _lines(text: str) -> str:
    """Return lines of text with all else written out that would control a terminal."""
    return "\n".join(map(printable, text.split("\n")))


def policy_cell(text: str) -> str:
    """Return a policy's text for a cell: a line for each setting."""
    name, settings = split_name(text)
    return "\n".join(filter(None, [name, settings.replace(",", ",\n")]))


def check_plot(plot: Path | None) -> None:
    """Refuse a figure that could not be drawn, before time is spent."""
    if plot is None:
        return
    if plot.suffix.lower() not in (".png", ".pdf", ".svg"):
        raise InputError(f"--plot {plot}: a figure is a .png, .pdf or .svg file")
    if find_spec("matplotlib") is None:
        raise MissingExtraError("--plot", "plots")


def check_html(html: Path | None) -> None:
    """Refuse a report that could not be written, before time is spent."""
    if html is None:
        return
    if html.suffix.lower() != ".html":
        raise InputError(f"--html {html}: a report is an .html file")
    if find_spec("jinja2") is None or find_spec("matplotlib") is None:
        raise MissingExtraError("--html", "lab")


def check_out(out: Path | None, what: str, suffixes: tuple[str, ...] = ()) -> None:
    """Refuse a table of `what`, in the plural, that could not be written, before anything is read."""
    from meritfair.core.storage import check_suffix
    from meritfair.core.tables import SUFFIXES

    if out is not None:
        check_suffix(out, what, suffixes or SUFFIXES)


class Files:
    """The files that a command writes: their folders are made before the work, and failures reported after the results.

    Parameters
    ----------
    files : paths, or None
        Where the command will write, if anywhere.
    """

    def __init__(self, *files: Path | None) -> None:
        for folder in [file.parent for file in files if file is not None]:
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise InputError(f"the folder {folder} cannot be made: {error.strerror or error}") from None
        self.written: list[str] = []
        self._failures: list[Exception] = []

    def save(self, file: Path | None, write: Callable[[Path], Any]) -> None:
        """Let `write` write a file that was asked for, or others that it returns; keep what goes wrong for later."""
        if file is None:
            return
        try:
            self.written += [str(each) for each in write(file) or [file]]
        except Exception as error:  # whatever it is, the results are shown first
            self._failures.append(error)

    def plot(self, file: Path | None, draw: Callable[[], Any]) -> None:
        """Write a figure that was asked for, whole or not at all."""
        from meritfair.core.storage import write_whole

        def write(path: Path) -> None:
            figure = draw()
            write_whole(path, lambda temporary: figure.savefig(temporary, dpi=160))

        self.save(file, write)

    def report(self, as_json: bool, values: Callable[[], dict[str, Any]], show: Callable[[], None]) -> None:
        """Show the results, or print them as JSON, and name the files; then raise what went wrong, if anything did."""
        if as_json:
            print_json({**values(), "files": self.written})
        else:
            show()
            for file in self.written:
                say(f"wrote {printable(file)}")
        for failure in self._failures[:-1]:
            say(f"meritfair: {failure}", err=True)
        if self._failures:
            raise self._failures[-1]
