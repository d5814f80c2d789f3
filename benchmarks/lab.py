"""What sweeps cost: against playing the same runs in this process, with more workers, on disk; and the whole paper.

    ./mf python benchmarks/lab.py            about a minute
    ./mf python benchmarks/lab.py --paper    also `meritfair reproduce`, quick and whole: five minutes more

Ratios are of one run on one machine. Compiled code is loaded before anything is measured.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from meritfair.lab.spec import Spec
from meritfair.lab.sweep import outcomes, run_sweep
from meritfair.lab.tasks import play, tasks
from meritfair.reproduction.reproduce import FULL, QUICK, reproduce

if TYPE_CHECKING:
    from collections.abc import Callable

SPEC = Spec(
    datasets=("synthetic", "cpap"),
    sizes=((20, 4), (100, 20)),
    policies=("merit-fair", "optimal"),
    episodes=1000,
    runs=60,
)
TASKS = tasks([SPEC])
LARGEST = 500  # megabytes, of the whole paper


def timed(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def megabytes(folder: Path) -> float:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6


def sweeps(folder: Path) -> None:
    SPEC.try_out(SPEC.settings())  # compiled before it is timed
    here = timed(lambda: [play(task) for task in TASKS])
    print(f"{len(TASKS)} tasks of 10 runs, played one after another in this process: {here:.1f} s")
    seconds = {}
    for workers in (1, 2):
        place = folder / str(workers)
        seconds[workers] = timed(partial(run_sweep, TASKS, place, workers=workers))
        print(f"a sweep with {workers} worker{'s' * (workers > 1)}: {seconds[workers]:.1f} s", end="")
        print(f" ({seconds[workers] / here:.2f} times this process)" if workers == 1 else "")
    print(f"two workers are {seconds[1] / seconds[2]:.2f} times as fast as one")
    same = all(file.read_bytes() == (folder / "2" / "shards" / file.name).read_bytes() for file in shards(folder / "1"))
    print(f"their shards are {'the same bytes' if same else 'DIFFERENT'}")
    again = timed(lambda: run_sweep(TASKS, folder / "1"))
    reading = timed(lambda: outcomes(TASKS, folder / "1"))
    print(f"nothing left to do: {again:.2f} s; reading all of it: {reading:.2f} s")
    print(f"on disk: {1000 * megabytes(folder / '1') / len(TASKS):.0f} kB for ten runs")


def shards(folder: Path) -> list[Path]:
    return sorted((folder / "shards").glob("*.parquet"))


def paper(folder: Path) -> None:
    for name, scale, most in (("quick", QUICK, 45), ("whole", FULL, 300)):
        seconds = timed(partial(reproduce, folder / name, scale))
        print(
            f"the paper, {name}: {seconds:.0f} s (bar {most} s), {megabytes(folder / name):.0f} MB (bar {LARGEST} MB)"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--paper", action="store_true", help="also the whole paper, five minutes more")
    wanted = parser.parse_args()
    with TemporaryDirectory() as folder:
        sweeps(Path(folder))
        if wanted.paper:
            paper(Path(folder))


if __name__ == "__main__":
    main()
