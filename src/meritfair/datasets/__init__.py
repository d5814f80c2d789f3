"""Data sets of the paper, arms from files, and made-up records of a clinic."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from meritfair.core.checks import check_flag, check_known, check_settings, check_whole
from meritfair.core.machine import check_arms
from meritfair.core.seeding import fresh_seed
from meritfair.datasets.clinic import clinic, clinic_arms
from meritfair.datasets.cpap import cpap
from meritfair.datasets.files import read_arms, write_arms
from meritfair.datasets.synthetic import synthetic, synthetic_alternate
from meritfair.model.arms import Arms

__all__ = [
    "DATASETS",
    "clinic",
    "clinic_arms",
    "cpap",
    "dataset_settings",
    "instances",
    "read_arms",
    "synthetic",
    "synthetic_alternate",
    "write_arms",
]

DATASETS: dict[str, Callable[..., Arms]] = {
    "synthetic": synthetic,
    "synthetic-alternate": synthetic_alternate,
    "cpap": cpap,
}


_NOT_SETTINGS = ("n_arms", "seed", "authors", "budget", "run")


def dataset_settings(name: str) -> dict[str, Any]:
    """Return the settings of a data set, with their defaults.

    Examples
    --------
    >>> dataset_settings("synthetic")
    {'epsilon': 0.01}
    """
    parameters = inspect.signature(DATASETS[name]).parameters.values()
    return {p.name: p.default for p in parameters if p.name not in _NOT_SETTINGS}


def check_dataset(name: str, settings: Iterable[str]) -> str:
    """Return the name of a data set as it is in `DATASETS`, if there is one and it has these settings."""
    known = check_known("data set", name.replace("_", "-"), DATASETS)
    check_settings(known, settings, dataset_settings(known))
    return known


def instances(
    name: str,
    n_arms: int,
    runs: int,
    seed: int | None = None,
    *,
    authors: bool = False,
    budget: int | None = None,
    first_run: int = 0,
    **parameters: Any,
) -> tuple[Arms, ...]:
    """Return one instance of a data set for each run, as the paper's experiments have.

    With `authors`, run r has the authors' seed number r, counted from `seed`, 1 by default. With `first_run`
    those of the first runs are left out, as for `simulate`.

    Examples
    --------
    >>> [arms.n_arms for arms in instances("cpap", n_arms=4, runs=2, seed=0)]
    [4, 4]
    """
    make = DATASETS[check_dataset(name, parameters)]
    before = check_whole("first_run", first_run, 0)
    numbers = range(before, before + check_whole("runs", runs, 1))
    check_arms(n_arms, runs)
    if check_flag("authors", authors):
        first = 1 if seed is None else seed
        return tuple(make(n_arms, first + r, authors=True, budget=budget, **parameters) for r in numbers)
    root = fresh_seed(seed)
    return tuple(make(n_arms, root, run=r, **parameters) for r in numbers)
