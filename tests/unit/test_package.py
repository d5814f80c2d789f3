"""What holds of the package as a whole: its layers, its public names, its quick start."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import meritfair as mf

SOURCE = Path(mf.__file__).parent
# From the bottom up; a module may import from its own layer and those before it.
LAYERS = [
    {"errors", "arrays", "checks", "seeding", "storage", "tables", "texts", "parsing", "machine"},
    {"engine"},
    {"model", "datasets"},
    {"policies"},
    {"metrics", "run", "playing", "simulation", "plots", "auditing", "fitting", "comparison", "gym"},
    {"bench", "testing", "lab"},
    {"cli", "__main__"},
]
LAYER_OF = {name: number for number, names in enumerate(LAYERS) for name in names}
MODULES = sorted(SOURCE.rglob("*.py"))


def imported(file: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "meritfair":
            parts = node.module.split(".")
            found |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {a.name.split(".")[1] for a in node.names if a.name.startswith("meritfair.")}
    return found


@pytest.mark.parametrize("file", MODULES, ids=lambda f: str(f.relative_to(SOURCE)))
def test_imports_point_down(file: Path) -> None:
    own = file.relative_to(SOURCE).parts[0].removesuffix(".py")
    if own == "__init__":
        return
    for name in imported(file):
        assert LAYER_OF[name] <= LAYER_OF[own], f"{own} must not import {name}"


def test_every_module_is_in_a_layer() -> None:
    tops = {f.relative_to(SOURCE).parts[0].removesuffix(".py") for f in MODULES} - {"__init__"}
    assert tops == set(LAYER_OF)


def test_public_names_can_be_had_and_are_typed() -> None:
    for name in mf.__all__:
        assert getattr(mf, name) is not None
    tree = ast.parse((SOURCE / "__init__.py").read_text())
    typed = {
        alias.name
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert typed == set(mf.__all__)
    assert set(dir(mf)) >= set(mf.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        mf.nothing  # noqa: B018


def test_names_are_functions_whatever_was_imported_first() -> None:
    code = (
        "import meritfair.simulation, meritfair.auditing, meritfair.fitting, meritfair as mf\n"
        "assert callable(mf.simulate) and callable(mf.audit) and callable(mf.fit)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_help_does_not_wait_for_heavy_libraries() -> None:
    code = (
        "import sys, meritfair.cli\n"
        "try: meritfair.cli.main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'numba', 'numpy', 'pyarrow', 'matplotlib', 'scipy'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "simulate" in done.stdout


def test_the_package_says_that_it_is_typed() -> None:
    assert (SOURCE / "py.typed").exists()
