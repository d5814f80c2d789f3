"""Bodies of requests: JSON by a strict model or, for rows, a CSV file as the command line reads it.

A body is read after it is known that the caller may send it, so that nobody can make the server read what it will not
use. What is wrong with a CSV file is told with line and column.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import Message
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fastapi import Depends, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError

from meritfair.core.errors import FileError
from meritfair.programme.inputs import ParticipantError
from meritfair.web.errors import BodyError

JSON, CSV = "application/json", "text/csv"
_CALLED = {"ids": "id", "after": "state", "reasons": "reason"}  # columns that bodies call otherwise


@dataclass(frozen=True)
class CsvBody:
    """A CSV file that was sent, in its encoding."""

    data: bytes
    encoding: str

    @contextmanager
    def file(self) -> Iterator[Path]:
        """Give a file to the readers of files; errors name the line and not the file, which nobody else knows."""
        with TemporaryDirectory(prefix="meritfair-") as folder:
            path = Path(folder) / "body.csv"
            path.write_bytes(self.data)
            try:
                yield path
            except FileError as error:
                raise BodyError(error.problem, line=error.line, column=error.column) from None


@dataclass(frozen=True)
class ReadsBody:
    """A dependency that reads a body.

    Attributes
    ----------
    model : type
        What JSON must be.
    csv : str
        An example of a CSV file that may be sent instead; empty if none may.
    optional : bool
        Whether nothing may be sent, which is the same as an empty object.
    """

    model: type[BaseModel]
    csv: str = ""
    optional: bool = False

    async def __call__(self, request: Request) -> Any:
        data = await request.body()
        if not data and self.optional:
            return self.model()
        kind, encoding = media_type(request.headers.get("content-type", ""))
        if kind == CSV and self.csv:
            return CsvBody(data, encoding)
        if kind != JSON:
            wanted = f"{JSON} or {CSV}" if self.csv else JSON
            raise HTTPException(415, f"Content-Type must be {wanted}, got {kind or 'none'}")
        try:
            return self.model.model_validate_json(data)
        except ValidationError as error:
            found = error.errors(include_url=False, include_context=False, include_input=False)
            raise RequestValidationError([{**each, "loc": ("body", *each["loc"])} for each in found]) from None


def body(model: type[BaseModel], *, csv: str = "", optional: bool = False) -> Any:
    """Return the dependency of a route that reads a body."""
    return Depends(ReadsBody(model, csv, optional))


def media_type(header: str) -> tuple[str, str]:
    """Return the media type and the encoding that a header says.

    Examples
    --------
    >>> media_type('text/csv; charset="cp1252"')
    ('text/csv', 'cp1252')
    >>> media_type("Application/JSON")
    ('application/json', 'utf-8')
    """
    if not header:
        return "", "utf-8"
    message = Message()
    message["content-type"] = header
    return message.get_content_type(), message.get_content_charset("utf-8")


@contextmanager
def locating(field: str) -> Iterator[None]:
    """Say in which row of a JSON body something is that was refused."""
    try:
        yield
    except ParticipantError as error:
        column = _CALLED.get(error.column, error.column)
        raise BodyError(str(error), where=("body", field, error.row, column)) from None
