"""Static files, which browsers may keep: their addresses change with them."""

from __future__ import annotations

from starlette import staticfiles
from starlette.responses import Response
from starlette.types import Scope


class StaticFiles(staticfiles.StaticFiles):
    """Static files that are kept by browsers for a year."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Return a file."""
        found = await super().get_response(path, scope)
        found.headers["Cache-Control"] = "public, max-age=31536000, immutable"
        return found
