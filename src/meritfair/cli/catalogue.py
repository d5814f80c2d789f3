"""`meritfair datasets` and `meritfair policies`: what there is, and with which settings."""

from __future__ import annotations

import dataclasses
import inspect
import json
import sys
from typing import Any

from meritfair.cli.options import JsonOption

__all__ = ["datasets", "policies"]

_NOT_SETTINGS = {"n_arms", "seed", "authors", "budget", "run"}


def datasets(as_json: JsonOption = False) -> None:
    """List the data sets, with their settings and defaults."""
    from meritfair.datasets import DATASETS

    rows = {}
    for name, make in DATASETS.items():
        parameters = inspect.signature(make).parameters.values()
        settings = {p.name: p.default for p in parameters if p.name not in _NOT_SETTINGS}
        rows[name] = (_first_line(make), settings)
    _show(rows, "data set", "meritfair simulate --dataset cpap:noise=0.2 …", as_json)


def policies(as_json: JsonOption = False) -> None:
    """List the policies, with their settings and defaults."""
    from meritfair.policies import registry

    rows = {}
    for name in registry.names():
        policy = registry.create(name)
        settings = {f.name: getattr(policy, f.name) for f in dataclasses.fields(policy)}  # type: ignore[arg-type]
        rows[name] = (_first_line(type(policy)), {key: _plain(value) for key, value in settings.items()})
    _show(rows, "policy", "meritfair simulate --policy merit-fair:estimate=mean …", as_json)


def _first_line(thing: Any) -> str:
    return (inspect.getdoc(thing) or "").splitlines()[0]


def _plain(value: Any) -> Any:
    return value if isinstance(value, (int, float, str)) else str(value)


def _show(rows: dict[str, tuple[str, dict[str, Any]]], heading: str, example: str, as_json: bool) -> None:
    if as_json:
        listing = [{"name": name, "summary": text, "settings": settings} for name, (text, settings) in rows.items()]
        json.dump(listing, sys.stdout, indent=2)
        sys.stdout.write("\n")
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(heading, "what it is", "settings and defaults", box=box.SIMPLE_HEAD)
    for name, (text, settings) in rows.items():
        table.add_row(name, text, "\n".join(f"{key}={value}" for key, value in settings.items()))
    console = Console()
    console.print(table)
    console.print(f"Use: [cyan]{example}[/]")
