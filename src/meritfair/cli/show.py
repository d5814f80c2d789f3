"""What several commands show: a progress bar, a table, JSON."""

from __future__ import annotations

import json
import math
import sys
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from meritfair.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

__all__ = [
    "check_out",
    "check_plot",
    "finite",
    "named_progress_bar",
    "policy_cell",
    "print_json",
    "print_note",
    "print_table",
    "progress_bar",
    "save_figure",
    "save_results",
]


def print_json(value: Any) -> None:
    """Print a value as JSON; what is not a finite number becomes null, as JSON knows no other way."""
    json.dump(finite(value), sys.stdout, indent=2, allow_nan=False)
    sys.stdout.write("\n")


def finite(value: Any) -> Any:
    """Return a value with null in place of what is not a finite number."""
    if isinstance(value, dict):
        return {key: finite(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def print_table(columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[str]], title: str = "") -> None:
    """Print a table; a column is its heading and "left" or "right", and only text to the left may wrap."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for heading, side in columns:
        right = side == "right"
        table.add_column(heading, justify="right" if right else "left", no_wrap=right, overflow="fold")
    for row in rows:
        table.add_row(*row)
    console = Console(markup=False)
    if title:
        console.print(title, highlight=False)
    console.print()
    console.print(table)
    console.print()


def print_note(text: str) -> None:
    """Print a remark below a table."""
    from rich.console import Console

    Console(markup=False).print(text, style="dim", highlight=False)


def policy_cell(text: str) -> str:
    """Return a policy's text for a cell: a line for each setting."""
    return text.replace(":", "\n", 1).replace(",", ",\n")


@contextmanager
def progress_bar(parts: int = 1) -> Iterator[Callable[[str], Callable[[int, int], None]]]:
    """Show a bar with the time left on the error stream, for something of several parts of the same length.

    Call it with the name of the next part; that returns a function to be told how many of how many steps are done.
    """
    with named_progress_bar() as tell:
        begun = -1

        def begin(name: str) -> Callable[[int, int], None]:
            nonlocal begun
            begun += 1
            before = begun
            tell(name, before, parts)
            return lambda done, total: tell(name, before * total + done, parts * total)

        yield begin


@contextmanager
def named_progress_bar() -> Iterator[Callable[[str, int, int], None]]:
    """Show a bar as `progress_bar`, that is told what is going on, and how many of how many steps are done in all."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("·"),
        TimeRemainingColumn(),
        TextColumn("left"),
        console=Console(stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task("", total=1)
        yield lambda name, done, total: bar.update(task, description=name, completed=done / total)


def check_plot(plot: Path | None) -> None:
    """Refuse a figure that could not be drawn, before time is spent."""
    if plot is None:
        return
    if plot.suffix.lower() not in (".png", ".pdf", ".svg"):
        raise InputError(f"--plot {plot}: a figure is a .png, .pdf or .svg file")
    if find_spec("matplotlib") is None:
        raise MissingExtraError("--plot", "plots")
    _check_folder("--plot", plot)


def check_out(out: Path | None, what: str, suffixes: tuple[str, ...] = ()) -> None:
    """Refuse a table of `what`, in the plural, that could not be written, before anything is read."""
    from meritfair.storage import check_suffix
    from meritfair.tables import SUFFIXES

    if out is not None:
        check_suffix(out, what, suffixes or SUFFIXES)
        _check_folder("--out", out)


def _check_folder(option: str, file: Path) -> None:
    """Refuse a file whose folder is not there."""
    if not file.parent.is_dir():
        raise InputError(f"{option} {file}: there is no folder {file.parent}")


def save_figure(figure: Any, path: Path) -> None:
    """Write a figure, whole or not at all."""
    from meritfair.storage import write_whole

    write_whole(path, lambda temporary: figure.savefig(temporary, dpi=160))


def save_results(found: Any, out: Path | None, plot: Path | None) -> list[str]:
    """Write what was found as a table and as a figure, where that is asked for; return the names of the files."""
    if out is not None:
        found.save(out)
    if plot is not None:
        save_figure(found.plot(), plot)
    return [str(file) for file in (out, plot) if file is not None]
