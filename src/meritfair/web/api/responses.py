"""Answers of the API: pages with a link to the next one, CSV files, and codes of what is not known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import Request, Response

from meritfair.core.tables import write_table
from meritfair.web.api.bodies import CSV, JSON
from meritfair.web.api.dependencies import Reading


def wants_csv(request: Request) -> bool:
    """Return whether a client asks for CSV rather than for JSON."""
    wanted = {kind: _weight(request.headers.get("accept", ""), kind) for kind in (CSV, JSON)}
    return wanted[CSV] > wanted[JSON]


def _weight(accept: str, kind: str) -> float:
    """Return how much a client wants a media type, by the header Accept: the most precise range counts (RFC 9110)."""
    ranges = {}
    for each in accept.split(","):
        name, *parameters = (part.strip().lower() for part in each.split(";"))
        said = [part[2:] for part in parameters if part.startswith("q=")]
        try:
            ranges[name] = float(said[0]) if said else 1.0
        except ValueError:
            ranges[name] = 0.0
    choices = (kind, f"{kind.partition('/')[0]}/*", "*/*")
    return next((ranges[each] for each in choices if each in ranges), 0.0)


def csv_answer(reading: Reading, name: str, columns: Mapping[str, Sequence[Any]]) -> Response:
    """Return columns as a CSV file, in which no spreadsheet takes a text for a formula."""
    return csv_file(reading, name, lambda path: write_table(path, name, columns))


def csv_file(reading: Reading, name: str, write: Callable[[Path], None]) -> Response:
    """Return the CSV file that is written by a function."""
    with TemporaryDirectory(prefix="meritfair-") as folder:
        path = Path(folder) / "answer.csv"
        write(path)
        data = path.read_bytes()
    said = {"Content-Disposition": f'attachment; filename="{name}.csv"', **reading.headers}
    return Response(data, media_type=f"{CSV}; charset=utf-8", headers=said)


def link_next(request: Request, response: Response, offset: int, limit: int, total: int) -> None:
    """Say where the next page is, if there is one (RFC 8288)."""
    if offset + limit < total:
        query = {**request.query_params, "offset": offset + limit, "limit": limit}
        response.headers["Link"] = f'<{quote(request.url.path)}?{urlencode(query)}>; rel="next"'


def known(code: int) -> int | None:
    """Return a code, None if it stands for what is not known."""
    return None if code < 0 else int(code)
