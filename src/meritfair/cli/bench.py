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
    reference = measuring.reference_simulator()
    n_sizes = len(str(largest)) - 2
    steps = len(measuring.CASES) + 1 + n_sizes + available_cores() + 1
    results: dict[str, Any] = {"machine": measuring.machine(), "policies": [], "sizes": [], "workers": []}
    with progress_bar(steps) as begin:
        begin("against a plain loop")
        for row in measuring.measure_policies(episodes, reference):
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
        _show(results, reference is not None)
    files.tell(quiet=as_json)


def _show(results: dict[str, Any], with_reference: bool) -> None:
    about = results["machine"]
    title = f"{about['processor']}, {about['cores']} cores · Python {about['python']}, Numba {about['numba']}"
    columns = [
        ("policy", "left"),
        ("arms", "right"),
        ("budget", "right"),
        ("c", "right"),
        ("seconds", "right"),
        ("ns per\narm-step", "right"),
        ("× plain\nloop", "right"),
        ("× NumPy\nreference", "right"),
    ]
    rows = [
        [
            row["policy"],
            f"{row['arms']:,}",
            f"{row['budget']:,}",
            f"{row['c']:g}",
            f"{row['seconds']:.3f}",
            f"{row['ns_per_arm_step']:.2f}",
            f"{row['ratio_to_plain']:.1f}" if "ratio_to_plain" in row else "–",
            f"{row['ratio_to_reference']:,.0f}" if "ratio_to_reference" in row else "–",
        ]
        for row in results["policies"]
    ]
    print_table(
        columns, rows, f"{title}\nOne run of {results['policies'][0]['episodes']:,} episodes of 200 steps, one core"
    )
    print_note("Mean, exact, systematic: merit-fair with that estimate, and with that design and the mean.\n")
    sizes = [
        [
            f"{row['arms']:,}",
            f"{row['budget']:,}",
            f"{row['seconds_per_episode']:.4f}",
            f"{row['ns_per_arm_step']:.2f}",
            f"{row['peak_memory_mb']:,.0f}",
        ]
        for row in results["sizes"]
    ]
    columns = [("arms", "right"), ("budget", "right"), ("seconds per\nepisode", "right"), ("ns per\narm-step", "right")]
    print_table([*columns, ("peak memory\nso far, MB", "right")], sizes, "Merit-fair, episodes of 200 steps, one core")
    workers = [
        [str(row["workers"]), f"{row['seconds']:.2f}", f"{row['times_one_worker']:.2f}"] for row in results["workers"]
    ]
    columns = [("workers", "right"), ("seconds", "right"), ("× one worker", "right")]
    print_table(columns, workers, "8 runs of merit-fair, 100 arms, 20 pulled")
    if not with_reference:
        print_note("The NumPy reference is part of the tests, and there only in a clone.")
