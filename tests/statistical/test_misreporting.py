"""What a liar gains, and what helps: docs/settings.md has the table, by benchmarks/misreporting.py."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
RUNS = 6
ROWS = {  # of the page, by the name in the benchmark
    "none": "nothing done",
    "cap 0.3": r"\*\*`cap=0.3`\*\*",
    "half verified": "half of them",
}


def benchmark() -> ModuleType:
    spec = importlib.util.spec_from_file_location("misreporting_benchmark", ROOT / "benchmarks" / "misreporting.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # which dataclasses look up
    spec.loader.exec_module(module)
    return module


def stated(row: str, place: int) -> tuple[float, float, float]:
    """Return from the page how often the person is called who is honest, who lies, and the gain's standard error."""
    text = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    found = re.search(rf"^\| {row} \| CPAP \|(.*)\|\n\| \| Synthetic \|(.*)\|$", text, re.MULTILINE)
    assert found is not None
    honest, lying, gain, _ = found[1 + place].split("|")
    return float(honest), float(lying), float(gain.split("±")[1])


@pytest.mark.slow
@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("name", ROWS)
def test_the_page_says_what_a_liar_gains(name: str, place: int) -> None:
    """Six programmes of the sixty: within four standard errors of their mean."""
    made = benchmark()
    settings, verified = made.DEFENCES[name]
    make = made.POPULATIONS[("CPAP", "Synthetic")[place]]
    lying = [made.play(make(20, seed), settings, seed, liars=1, verified=verified).calls[0] for seed in range(RUNS)]
    honest, says, error = stated(ROWS[name], place)
    assert abs(np.mean(lying) - says) < 4 * error * np.sqrt(60 / RUNS)
    assert says > honest
