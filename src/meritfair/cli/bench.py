"""`meritfair bench`: how fast the engine is on this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

from meritfair.cli.options import JsonOption, flag, text
from meritfair.cli.show import Files, finite, print_note, print_table
from meritfair.core.progress import progress_bar

EXAMPLES = "For example: [cyan]meritfair bench --quick[/], or [cyan]meritfair bench --out bench.json[/]"


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
    reference = measuring.reference_simulator()
    n_sizes = len(str(largest)) - 2
    steps = len(measuring.CASES) + 1 + n_sizes + available_cores() + 1
    results: dict[str, Any] = {"machine": measuring.machine(), "policies": [], "sizes": [], "workers": []}
    parts = {
        "policies": ("against a plain loop", measuring.measure_policies(episodes, reference)),
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
    files.report(as_json, lambda: results, lambda: _show(results, reference is not None))


_POLICIES = {
    "policy": ("policy", ""),
    "arms": ("arms", ","),
    "budget": ("budget", ","),
    "c": ("c", "g"),
    "seconds": ("seconds", ".3f"),
    "ns per\narm-step": ("ns_per_arm_step", ".2f"),
    "× plain\nloop": ("ratio_to_plain", ".1f"),
    "× NumPy\nreference": ("ratio_to_reference", ",.0f"),
}
_SIZES = {
    "arms": ("arms", ","),
    "budget": ("budget", ","),
    "seconds per\nepisode": ("seconds_per_episode", ".4f"),
    "ns per\narm-step": ("ns_per_arm_step", ".2f"),
    "peak memory\nso far, MB": ("peak_memory_mb", ",.0f"),
}
_WORKERS = {"workers": ("workers", ""), "seconds": ("seconds", ".2f"), "× one worker": ("times_one_worker", ".2f")}


def _show(results: dict[str, Any], with_reference: bool) -> None:
    about, episodes = results["machine"], results["policies"][0]["episodes"]
    title = f"{about['processor']}, {about['cores']} cores · Python {about['python']}, Numba {about['numba']}"
    _print(
        _POLICIES, results["policies"], f"{title}\nOne run of {episodes:,} episodes of 200 steps, one core", "lrrrrrrr"
    )
    print_note("Mean, exact, systematic: merit-fair with that estimate, and with that design and the mean.\n")
    _print(_SIZES, results["sizes"], "Merit-fair, episodes of 200 steps, one core", "rrrrr")
    _print(_WORKERS, results["workers"], "8 runs of merit-fair, 100 arms, 20 pulled", "rrr")
    if not with_reference:
        print_note("The NumPy reference is part of the tests, and there only in a clone.")


def _print(columns: dict[str, tuple[str, str]], rows: list[dict[str, Any]], title: str, align: str) -> None:
    """Print rows of numbers; a column has a heading, the name of a number and its format."""
    cells = [[format(row[key], how) if key in row else "–" for key, how in columns.values()] for row in rows]
    print_table(list(columns), cells, title, align)
