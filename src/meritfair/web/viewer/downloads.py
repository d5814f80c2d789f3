"""What can be taken along from a page: its figures as SVG and PNG, its data as CSV and Parquet.

Data are what is drawn (``regret``, ``exposure``, ``benefit``), what is in the table (``results``), or what is behind
it, as `meritfair.lab.load` has it: every run (``runs``), or every run and episode that was kept (``curves``).
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any

import numpy as np

from meritfair.core.errors import InputError
from meritfair.core.figures import house_style
from meritfair.core.language import _
from meritfair.core.tables import write_table
from meritfair.lab.results import Results
from meritfair.lab.side_by_side import REGRETS, SideBySide, side_by_side
from meritfair.lab.spec import Setting
from meritfair.simulation.bootstrap import interval_row
from meritfair.web.viewer.choice import Selection

PICTURES = {"svg": "image/svg+xml", "png": "image/png"}
TABLES = {"csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet"}
_WIDE, _NARROW = 9.0, 4.5  # inches
_DRAWING = Lock()  # the style of figures is one for the whole process


@lru_cache(maxsize=16)  # results are the same value for as long as nothing has changed
def picture(results: Results, choice: Selection, figure: str, kind: str, *, narrow: bool = False) -> bytes:
    """Return a figure, ``regret``, ``exposure`` or ``benefit``, as a file of one of `PICTURES`; narrow, for a phone."""
    shown = side_by_side(results.outcomes, _there(results, choice.shown))
    metadata = {"Date": None} if kind == "svg" else None
    with _DRAWING, house_style():
        stream = io.BytesIO()
        shown.plot(figure, choice.regret, width=_NARROW if narrow else _WIDE).savefig(
            stream, format=kind, metadata=metadata
        )
    return stream.getvalue()


def data(results: Results, settings: Sequence[Setting], what: str, kind: str, regret: str = REGRETS[0]) -> bytes:
    """Return the data of some settings as a file of one of `TABLES`."""
    kept = results.only(_there(results, settings))
    about = json.dumps({"versions": dict(results.manifest.versions), "missing": results.missing}, sort_keys=True)
    if what == "results":
        return _file(kind, kept.save)
    if what in ("runs", "curves"):
        frame = kept.table("curves" if what == "curves" else "runs")
        columns: Mapping[str, Any] = {str(name): frame[name].tolist() for name in frame}
    else:
        columns = {
            "regret": lambda shown: regret_columns(shown, regret),
            "exposure": exposure_columns,
            "benefit": benefit_columns,
        }[what](side_by_side(results.outcomes, kept.outcomes))
    return _file(kind, lambda path: write_table(path, "data", columns, {"meritfair": about}))


def _there(results: Results, settings: Sequence[Setting]) -> list[Setting]:
    """Return those of some settings of which there are results; refuse if there are none."""
    there = [setting for setting in settings if setting in results.outcomes]
    if not there:
        raise InputError(_("none of this has been played yet"))
    return there


def regret_columns(shown: SideBySide, regret: str = REGRETS[0]) -> dict[str, list[Any]]:
    """Return what the figure of regret shows: a row for each policy and episode."""
    bands = shown.curves(regret)
    return {
        "policy": [policy for policy, band in bands.items() for _ in band.steps],
        "episode": [int(step) for band in bands.values() for step in band.steps],
        regret: [x for band in bands.values() for x in band.mean.tolist()],
        f"{regret}_low": [x for band in bands.values() for x in band.low.tolist()],
        f"{regret}_high": [x for band in bands.values() for x in band.high.tolist()],
    }


def exposure_columns(shown: SideBySide) -> dict[str, list[Any]]:
    """Return what the figure of exposure shows: a row for each policy and rank of benefit, from the least."""
    bars, policies = shown.exposures, list(shown.outcomes)
    n_arms = len(bars.fair)
    return {
        "policy": [policy for policy in policies for _ in range(n_arms)],
        "rank": [*range(1, n_arms + 1)] * len(policies),
        "exposure": bars.given.ravel().tolist(),
        "fair_exposure": bars.fair.tolist() * len(policies),
    }


def benefit_columns(shown: SideBySide) -> dict[str, list[Any]]:
    """Return what the figure of benefit against fairness shows: a row for each policy."""
    points, names = shown.trade_off, (REGRETS[0], shown.reward)
    rows = [
        {"policy": policy, **interval_row({name: shown.measures[policy][name] for name in names})}
        for policy in points.labels
    ]
    columns = {name: [row[name] for row in rows] for name in rows[0]} if rows else {"policy": []}
    return columns | {"best": np.isin(np.arange(len(rows)), points.front).tolist()}


def _file(kind: str, write: Callable[[Path], None]) -> bytes:
    """Return what is written to a file of this kind."""
    with TemporaryDirectory() as folder:
        file = Path(folder, f"data.{kind}")
        write(file)
        return file.read_bytes()
