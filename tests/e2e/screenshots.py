"""Take pictures of every page, light and dark, on a phone and on a desktop.

./mf python tests/e2e/screenshots.py FOLDER [NAME ...]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from e2e.browser import SCHEMES, SIZES, running_browser, watched
from e2e.pages import OUTSIDE, PAGES, let_in, make_store, settle
from web.server import running_server


def main(folder: Path, names: list[str]) -> None:
    """Write NAME-SIZE-SCHEME.png for each page, or for those that are named."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary, running_browser() as browser:
        store = f"{temporary}/pages.db"
        session = make_store(store)
        with running_server(store) as server:
            for size, scheme in ((size, scheme) for size in SIZES for scheme in SCHEMES):
                with watched(browser, server.address, SIZES[size], scheme) as window:
                    for name, path in {**OUTSIDE, **PAGES}.items():
                        if names and name not in names:
                            continue
                        if name in PAGES:
                            let_in(window, session)
                        window.go(path)
                        settle(window.page)
                        window.page.screenshot(path=folder / f"{name}-{size}-{scheme}.png", full_page=True)
                    for each in window.complaints:
                        print(f"{size}, {scheme}: {each}")
                    window.complaints.clear()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
