"""Run a command and keep what it prints, as the source of numbers in the documents.

    ./mf python benchmarks/record.py slack-programme python benchmarks/slack.py --part programme
    ./mf python benchmarks/record.py slack-programme

The first plays `./mf python benchmarks/slack.py --part programme`, and keeps what it prints in the file
benchmarks/recorded/slack-programme.txt, with the command, the version and the date; the second plays the recorded
command again. `git diff` then shows what has moved, and a test names the pages that have to follow. Nothing is written
if the command fails.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import meritfair as mf

ROOT = Path(__file__).parents[1]
RECORDED = ROOT / "benchmarks" / "recorded"
PROMPT = "$ ./mf "


def recorded_command(file: Path) -> list[str]:
    """Return the command that a file has in its first line, without `./mf`."""
    if not file.exists():
        sys.exit(f"{file.name} is not recorded yet: say which command makes it, after its name")
    first = file.read_text(encoding="utf-8").partition("\n")[0]
    return shlex.split(first.removeprefix(PROMPT))


def output_of(command: list[str]) -> str:
    """Return what `./mf command` prints, in lines that are not broken."""
    words = command[1:] if command[0] == "python" else ["-m", "meritfair", *command]
    environment = {**os.environ, "COLUMNS": "200", "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run([sys.executable, *words], cwd=ROOT, env=environment, stdout=subprocess.PIPE, encoding="utf-8")
    if done.returncode:
        sys.exit(f"{shlex.join(command)} failed with exit code {done.returncode}: nothing is kept")
    return "".join(line.rstrip() + "\n" for line in done.stdout.strip("\n").splitlines())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="of the file in benchmarks/recorded/, without .txt")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="what follows ./mf; none: the recorded one")
    given = parser.parse_args()
    file = RECORDED / f"{given.name}.txt"
    command = given.command or recorded_command(file)
    printed = output_of(command)
    made = f"# meritfair {mf.__version__}, {datetime.now(UTC):%Y-%m-%d}"
    file.write_text(f"{PROMPT}{shlex.join(command)}\n{made}\n\n{printed}", encoding="utf-8")
    print(file.relative_to(ROOT))


if __name__ == "__main__":
    main()
