"""`meritfair bench`: how fast the engine is on this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

from meritfair.cli.options import JsonOption, flag, text
from meritfair.cli.show import Files, print_note, print_table
from meritfair.core.json_values import finite
from meritfair.core.progress import progress_bar

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
    quick: Annotated[bool, flag("--quick", "Fewer episodes and arms: half a minute, less precise.")] = False,
    out: Annotated[Path | None, text("--out", "-o", metavar="FILE", help="Also save the results as JSON.")] = None,
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
    parts = {
        "policies": ("against a plain loop", measuring.measure_policies(episodes)),
        "sizes": ("many arms", measuring.measure_sizes(largest)),
        "workers": ("several workers", measuring.measure_workers(episodes)),
    }
    with progress_bar(steps) as begin:
        begin("against a plain loop")
        for key, (name, rows) in parts.items():
            for row in rows:
                results[key].append(row)
                begin(name)
    text = json.dumps(finite(results), indent=2) + "\n"
    files.save(out, lambda path: write_whole(path, lambda temporary: temporary.write_text(text)))
    files.report(as_json, lambda: results, lambda: _show(results))


def _show(results: dict[str, Any]) -> None:
    about, episodes = results["machine"], results["policies"][0]["episodes"]
    title = f"{about['processor']}, {about['cores']} cores · Python {about['python']}, Numba {about['numba']}"
    _table(_POLICIES, results["policies"], f"{title}\nOne run of {episodes:,} episodes of 200 steps, one core")
    print_note("Mean, exact, systematic: merit-fair with that estimate, and with that design and the mean.\n")
    _table(_SIZES, results["sizes"], "Merit-fair, episodes of 200 steps, one core")
    _table(_WORKERS, results["workers"], "8 runs of merit-fair, 100 arms, 20 pulled")


def _table(columns: dict[str, tuple[str, str]], rows: list[dict[str, Any]], title: str) -> None:
    """Print what was measured; a column has the name of a number, its heading and its format."""
    cells = [[format(row[key], form) if key in row else "–" for key, (_, form) in columns.items()] for row in rows]
    align = "".join("r" if form else "l" for _, form in columns.values())
    print_table([heading for heading, _ in columns.values()], cells, title, align)
