"""What holds of the package as a whole: its layers, its public names, its quick start."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

import pytest

import meritfair as mf

SOURCE = Path(mf.__file__).parent
ROOT = Path(__file__).parents[2]
EXTRAS: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
# From the bottom up; a module may import from its own layer and those before it.
LAYERS = [
    {"core"},
    {"engine"},
    {"model", "datasets"},
    {"policies"},
    {"auditing", "fitting", "gym", "simulation"},
    {"testing", "lab"},
    {"reproduction"},
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
    assert set(dir(mf)) >= set(mf.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        getattr(mf, "nothing")  # noqa: B009


def test_names_are_functions_whatever_was_imported_first() -> None:
    code = (
        "import meritfair.simulation.simulate, meritfair.auditing, meritfair.fitting, meritfair as mf\n"
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


def brought(extra: str) -> set[str]:
    """Return the extras that come with one, and the libraries."""
    found = {extra}
    for needed in EXTRAS[extra]:
        ours = re.fullmatch(r"meritfair\[(.*)\]", needed)
        found |= set[str]().union(*map(brought, ours[1].split(","))) if ours else {re.split("[<>=]", needed)[0]}
    return found


def test_all_is_every_extra_for_users() -> None:
    assert brought("all") >= set(EXTRAS) - {"test"}
    assert brought("test") >= brought("all")


def test_an_error_advises_an_extra_that_there_is() -> None:
    advised = {
        extra for file in MODULES for extra in re.findall(r'MissingExtraError\(".*?", "(\w+)"\)', file.read_text())
    }
    assert advised == {"dask", "gym", "lab", "plots"}
    assert advised <= set(EXTRAS)


def test_what_the_readme_installs_serves_what_it_shows() -> None:
    (extra,) = re.findall(r"^pip install '\.\[(\w+)\]'", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert brought(extra) >= {"matplotlib", "pandas", "jinja2"}  # Run.plot, lab.load, reproduce


@pytest.mark.parametrize("command", ["sweep", "reproduce", "python"])
def test_the_script_installs_what_its_commands_need(monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    spec = spec_from_loader("mf_script", SourceFileLoader("mf_script", str(ROOT / "mf")))
    assert spec is not None
    script: Any = module_from_spec(spec)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    SourceFileLoader("mf_script", str(ROOT / "mf")).exec_module(script)
    installed: list[str] = []
    monkeypatch.setattr(script, "set_up", installed.append)
    monkeypatch.setattr(script, "run", lambda *words: 0)
    monkeypatch.setattr(sys, "argv", ["mf", command])
    assert script.main() == 0
    assert brought(installed[0]) >= {"dask", "gym", "lab"}
