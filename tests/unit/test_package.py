"""What holds of the package as a whole: its layers, its public names, its quick start."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import venv
from collections.abc import Iterator
from graphlib import TopologicalSorter
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zipfile import ZipFile

import pytest

import meritfair as mf

SOURCE = Path(mf.__file__).parent
ROOT = Path(__file__).parents[2]
EXTRAS: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
MODULES = {
    ".".join(file.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__"): file
    for file in sorted(SOURCE.rglob("*.py"))
}
# Packages on one line of the drawing do not import each other, but for these.
SIBLINGS = {("datasets", "model")}


def layers() -> dict[str, int]:
    """Return the layer of each package, counted from the bottom, as docs/architecture.md draws them."""
    blocks = re.findall(r"^```\n(.*?)^```", (ROOT / "docs" / "architecture.md").read_text(), re.MULTILINE | re.DOTALL)
    rows = [re.split(r"\s{2,}", line)[0].split() for line in blocks[0].splitlines()]
    return {name: number for number, names in enumerate(reversed(rows)) for name in names}


def imports(tree: ast.AST, inside: bool = False) -> Iterator[tuple[str, bool]]:
    """Yield every module of ours that is imported, and whether that is inside a function."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.split(".")[0] == "meritfair":
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full in MODULES else node.module, inside
        elif isinstance(node, ast.Import):
            yield from ((a.name, inside) for a in node.names if a.name.split(".")[0] == "meritfair")
        yield from imports(node, inside or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))


def test_imports_point_down_the_layers_as_they_are_drawn_and_never_in_a_circle() -> None:
    layer = layers()
    found = {(name, *each) for name, file in MODULES.items() for each in imports(ast.parse(file.read_text()))}
    down: dict[str, set[str]] = {}
    for importer, imported, inside in found:
        own, other = (f"{name}.".split(".")[1] for name in (importer, imported))
        if own not in ("", "__main__", other) and other != "" and (own, other) not in SIBLINGS:
            assert layer[other] < layer[own], f"{importer} must not import {imported}"
        if not inside:
            down.setdefault(importer, set()).add(imported)
    TopologicalSorter(down).prepare()  # raises a CycleError that names them


def test_every_module_is_in_a_layer() -> None:
    tops = {file.relative_to(SOURCE).parts[0].removesuffix(".py") for file in MODULES.values()}
    assert tops - {"__init__", "__main__"} == set(layers())


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


def run(*command: Any, **how: Any) -> str:
    """Run a command that must succeed; return what it prints."""
    done: subprocess.CompletedProcess[str] = subprocess.run(
        list(map(str, command)), capture_output=True, encoding="utf-8", **how
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_wheel_has_all_files_and_reproduces_a_figure_without_the_source_tree(tmp_path: Path) -> None:
    run(sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", tmp_path, cwd=ROOT)
    (wheel,) = tmp_path.glob("*.whl")
    own = (f for f in SOURCE.rglob("*") if f.is_file() and f.suffix != ".pyc")
    files = {f.relative_to(SOURCE.parent).as_posix() for f in own}
    code, pages, other = (
        {".py", ".pyi", ".typed"},
        {".html", ".jinja", ".css", ".js", ".svg", ".po"},
        {".csv", ".mplstyle", ".zip"},
    )
    assert {Path(name).suffix for name in files if "LICENSE" not in name} == code | pages | other
    assert {name for name in ZipFile(wheel).namelist() if name.startswith("meritfair/")} == files

    builder = venv.EnvBuilder(symlinks=sys.platform != "win32")
    builder.create(tmp_path / "venv")
    fresh = builder.ensure_directories(tmp_path / "venv")
    run(sys.executable, "-m", "pip", "--python", fresh.env_exe, "install", "--no-deps", "--no-index", wheel)
    folder = Path(run(fresh.env_exe, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    # The libraries it needs are those installed here; of a path in a .pth file, no other .pth files are read.
    (folder / "here.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")

    away = tmp_path / "away"
    away.mkdir()
    elsewhere = {"cwd": away, "env": {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}}
    where = run(fresh.env_exe, "-c", "import meritfair; print(meritfair.__file__)", **elsewhere).strip()
    assert Path(where).is_relative_to(folder)
    run(Path(fresh.bin_path) / "meritfair", "reproduce", "--quick", "--only", "figure-1", **elsewhere)
    assert (away / "paper-quick" / "report.html").stat().st_size > 10_000
    assert list((away / "paper-quick").rglob("figure-1*.png"))


def brought(extra: str) -> set[str]:
    """Return the extras that come with one, and the libraries."""
    found = {extra}
    for needed in EXTRAS[extra]:
        ours = re.fullmatch(r"meritfair\[(.*)\]", needed)
        found |= set[str]().union(*map(brought, ours[1].split(","))) if ours else {re.split("[<>=]", needed)[0]}
    return found


def test_all_is_every_extra_for_users() -> None:
    assert brought("all") >= set(EXTRAS) - {"docs", "test"}  # for those who change it
    assert brought("test") >= brought("all")


def test_an_error_advises_an_extra_that_there_is() -> None:
    advised = {
        extra
        for file in MODULES.values()
        for extra in re.findall(r'MissingExtraError\(".*?", "(\w+)"\)', file.read_text())
    }
    assert advised == {"beacon", "client", "dask", "gym", "lab", "plots", "postgres", "web"}
    assert advised <= set(EXTRAS)


def test_what_the_readme_installs_serves_what_it_shows() -> None:
    (extra,) = re.findall(r"^pip install '\.\[(\w+)\]'", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert brought(extra) >= {"matplotlib", "pandas", "jinja2"}  # Run.plot, lab.load, reproduce


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The script `mf`, which installs and runs nothing; its types are wrong if its `wrong_types` is 1."""
    spec = spec_from_loader("mf_script", SourceFileLoader("mf_script", str(ROOT / "mf")))
    assert spec is not None
    script: Any = module_from_spec(spec)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    SourceFileLoader("mf_script", str(ROOT / "mf")).exec_module(script)
    script.wrong_types = 0
    script.run = lambda *words: 0
    script.start = lambda *words: SimpleNamespace(communicate=lambda: ("found", None), returncode=script.wrong_types)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")  # which it takes away
    monkeypatch.chdir(ROOT)  # where it goes itself
    return script


@pytest.mark.parametrize("command", ["sweep", "reproduce", "python", "lint", "test"])
def test_the_script_installs_what_its_commands_need(script: Any, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    installed: list[str] = []
    script.set_up = installed.append
    monkeypatch.setattr(sys, "argv", ["mf", command])
    assert script.main() == 0
    assert brought(installed[0]) >= {"dask", "gym", "lab"}
    assert command not in ("lint", "test") or brought(installed[0]) >= {"ruff", "mypy", "pytest"}


def test_wrong_types_fail_the_test_command(script: Any, capsys: pytest.CaptureFixture[str]) -> None:
    script.wrong_types = 1
    assert script.test([]) == 1
    assert capsys.readouterr().err.splitlines()[-2:] == ["$ mypy", "found"]


@pytest.mark.parametrize("allowed", [True, False])
def test_what_tests_need_is_installed_where_it_may_be(
    script: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], allowed: bool
) -> None:
    installed: list[str] = []
    script.can_install = lambda: allowed
    script.install = installed.append
    script.has_chromium = lambda: "chromium" in installed
    script.need_chromium()
    script.need_chromium()
    assert installed == ["chromium"] * allowed  # once, if at all
    assert capsys.readouterr().err.count("tests in a browser are skipped") == (0 if allowed else 2)
