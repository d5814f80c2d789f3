"""What the server refuses that the core knows nothing of: a row of a body, or something that is not there."""

from __future__ import annotations

from typing import Any

from meritfair.core.errors import InputError


class MissingError(InputError):
    """Something that is asked for by its address is not there."""


class BodyError(InputError):
    """A row of a body cannot be used."""

    def __init__(
        self,
        problem: str,
        *,
        where: tuple[str | int, ...] = (),
        line: int | None = None,
        column: str | None = None,
    ) -> None:
        place = [f"line {line}"] * (line is not None) + [f"column {column}"] * (column is not None)
        super().__init__(f"{', '.join(place)}: {problem}" if place else problem)
        said: dict[str, Any] = {"problem": problem, "where": [*where]}
        self.errors = [said | {"line": line, "column": column}]
