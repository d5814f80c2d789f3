"""Files of a reproduction that the viewer hands out: its report, figures and tables, and nothing else.

A name that is not of such a file is refused before the folder is looked at; one that leads elsewhere, by a symbolic
link, after it.
"""

from __future__ import annotations

import re
from pathlib import Path

_NAME = re.compile(
    r"(?P<report>report\.html)|verdicts\.csv|figures/[\w-]+\.(svg|png|pdf)|tables/[\w-]+\.(csv|tex)", re.ASCII
)
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".pdf": "application/pdf",
    ".csv": "text/csv; charset=utf-8",
    ".tex": "text/plain; charset=utf-8",
}
# what is inside a report or a figure may have a style, but no script
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'"


def file_of(folder: Path, name: str) -> Path | None:
    """Return the file of this name, None if there is none, or none that may be handed out.

    Examples
    --------
    >>> file_of(Path("paper"), "../secrets.txt") is None
    True
    """
    if not _NAME.fullmatch(name):
        return None
    whole, file = folder.resolve(), folder / name
    try:
        inside = file.resolve(strict=True) == whole / name
    except (OSError, RuntimeError):  # none, or links in a circle
        return None
    return file if inside and file.is_file() else None


def type_of(file: Path) -> str:
    """Return the media type of a file that may be handed out."""
    return _TYPES[file.suffix]


def artefact_files(folder: Path) -> dict[str, list[str]]:
    """Return the names of figures and tables that are there, by artefact or table."""
    found: dict[str, list[str]] = {}
    for part in ("figures", "tables"):
        for file in sorted((folder / part).glob("*.*")):
            name = f"{part}/{file.name}"
            if file_of(folder, name) is not None:
                found.setdefault(file.stem, []).append(name)
    return found
