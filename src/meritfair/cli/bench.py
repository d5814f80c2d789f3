"""`meritfair bench`: how fast the engine is on this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from meritfair.cli.options import JsonOption
from meritfair.cli.show import Files, finite, print_json, print_note, print_table, progress_bar

__all__ = ["EXAMPLES", "bench"]

EXAMPLES = "For example: [cyan]meritfair bench --quick[/], or [cyan]meritfair bench --out bench.json[/]"

_SIZE = {"arms": ("arms", ","), "budget": ("budget", ",")}
_SPEED = {"ns_per_arm_step": ("ns per\narm-step", ".2f")}
_POLICIES = {
    "policy": ("policy", ""),
    **_SIZE,
    "c": ("c", "g"),
    "seconds": ("seconds", ".3f"),
    **_SPEED,
    "ratio_to_plain": ("× plain\nloop", ".1f"),
    "ratio_to_python": ("× in\nPython", ",.0f"),
}
_SIZES = {
    **_SIZE,
    "seconds_per_episode": ("seconds per\nepisode", ".4f"),
    **_SPEED,
    "peak_memory_mb": ("peak memory\nso far, MB", ",.0f"),
}
_WORKERS = {
    "workers": ("workers", "d"),
    "seconds": ("seconds", ".2f"),
    "times_one_worker": ("× one worker", ".2f"),
}


def bench(
    quick: Annotated[bool, typer.Option("--quick", help="Fewer episodes and arms: half a minute, rougher.")] = False,
    out: Annotated[Path | None, typer.Option("--out", "-o", metavar="FILE", help="Also write JSON to a file.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure the engine: against a plain compiled loop, for many arms, and with several workers."""
    from meritfair.core.machine import available_cores
    from meritfair.core.storage import write_whole
    from meritfair.simulation import bench as measuring

    files = Files(out)
    episodes, largest = (1000, 10_000) if quick else (10_000, 1_000_000)
    n_sizes = len(str(largest)) - 2
    steps = len(measuring.CASES) + 1 + n_sizes + available_cores() + 1
    results: dict[str, Any] = {"machine": measuring.machine(), "policies": [], "sizes": [], "workers": []}
    with progress_bar(steps) as begin:
        begin("against a plain loop")
        for row in measuring.measure_policies(episodes):
            results["policies"].append(row)
            begin("against a plain loop")
        for row in measuring.measure_sizes(largest):
            results["sizes"].append(row)
            begin("many arms")
        for row in measuring.measure_workers(episodes):
            results["workers"].append(row)
            begin("several workers")
    text = json.dumps(finite(results), indent=2) + "\n"
    files.save(out, lambda path: write_whole(path, lambda temporary: temporary.write_text(text)))
    if as_json:
        print_json(results)
    else:
        _show(results)
    files.tell(quiet=as_json)


def _show(results: dict[str, Any]) -> None:
    about, episodes = results["machine"], results["policies"][0]["episodes"]
    title = f"{about['processor']}, {about['cores']} cores · Python {about['python']}, Numba {about['numba']}"
    _table(_POLICIES, results["policies"], f"{title}\nOne run of {episodes:,} episodes of 200 steps, one core")
    print_note("Mean, exact, systematic: merit-fair with that estimate, and with that design and the mean.\n")
    _table(_SIZES, results["sizes"], "Merit-fair, episodes of 200 steps, one core")
    _table(_WORKERS, results["workers"], "8 runs of merit-fair, 100 arms, 20 pulled")


def _table(columns: dict[str, tuple[str, str]], rows: list[dict[str, Any]], title: str) -> None:
    """Print what was measured; a column has the name of a number, its heading and its format."""
    headings = [(heading, "right" if form else "left") for heading, form in columns.values()]
    cells = [[format(row[key], form) if key in row else "–" for key, (_, form) in columns.items()] for row in rows]
    print_table(headings, cells, title)
