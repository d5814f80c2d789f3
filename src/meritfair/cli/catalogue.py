"""`meritfair datasets` and `meritfair policies`: what there is, and with which settings."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

from meritfair.cli.options import JsonOption
from meritfair.cli.show import print_json, print_note, print_table, say
from meritfair.core.errors import MeritfairError


def datasets(as_json: JsonOption = False) -> None:
    """List the data sets, with their settings and defaults."""
    from meritfair.datasets import DATASETS, dataset_settings

    rows = {name: (_first_line(make), dataset_settings(name)) for name, make in DATASETS.items()}
    _show(rows, "data set", "meritfair simulate --dataset cpap:noise=0.2 …", as_json)


def policies(as_json: JsonOption = False) -> None:
    """List the policies, with their settings and defaults."""
    from meritfair.policies import registry

    rows, left_out = {}, []
    for name in registry.names():
        try:
            policy = registry.create(name)
        except MeritfairError as error:  # from another package, which must not break the list
            left_out.append(f"skipped: {' '.join(str(error).split())}")
            continue
        settings = {f.name: getattr(policy, f.name) for f in dataclasses.fields(policy)}
        rows[name] = (_first_line(type(policy)), {key: _plain(value) for key, value in settings.items()})
    example = f"meritfair simulate --policy recommended …, which is short for {registry.RECOMMENDED_TEXT}"
    _show(rows, "policy", example, as_json)
    for line in left_out:
        say(line, err=as_json)


def _first_line(thing: Any) -> str:
    return next(iter((inspect.getdoc(thing) or "").splitlines()), "").removeprefix("Return ")


def _plain(value: Any) -> Any:
    return value if isinstance(value, (int, float, str)) else str(value)


def _show(rows: dict[str, tuple[str, dict[str, Any]]], heading: str, example: str, as_json: bool) -> None:
    if as_json:
        print_json([{"name": name, "summary": text, "settings": values} for name, (text, values) in rows.items()])
        return
    cells = [
        (name, text, "\n".join(key if value is None else f"{key}={value}" for key, value in values.items()))
        for name, (text, values) in rows.items()
    ]
    print_table([heading, "what it is", "settings and defaults"], cells, align="lll")
    print_note(f"For example: {example}")
