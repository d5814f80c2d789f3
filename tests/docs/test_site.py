"""Pages build without a warning, no link is broken, nothing comes from elsewhere, every public name is there."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import zlib
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import meritfair
from meritfair.cli import app
from meritfair.policies import registry

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "meritfair",
    *(f"meritfair.{name}" for name in ("datasets", "gym", "lab", "policies", "programme", "testing")),
)
MODULES = {
    "datasets",
    "lab",
    "metrics",
    "model",
    "plots",
    "policies",
    "programme",
    "registry",
    "testing",
    "theory",
}  # not names


class Page(HTMLParser):
    """What a page has (ids), links to, and loads."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.file, self.ids, self.links, self.loads = file, {""}, set[str](), set[str]()
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        has = {name: value or "" for name, value in attrs}
        self.ids |= {has[name] for name in ("id", "name") if name in has}
        if tag == "a" and "href" in has:
            self.links.add(has["href"])
        elif tag in ("script", "link", "img", "source", "iframe"):
            self.loads |= {has[name] for name in ("src", "href") if name in has}


def broken_links(pages: dict[Path, Page]) -> list[str]:
    broken = []
    for page in pages.values():
        for link in page.links:
            to = urlsplit(link)
            if to.scheme or to.netloc:
                continue
            if "_modules" in page.file.parts:  # links back from a source, whose anchors Sphinx only guesses
                to = to._replace(fragment="")
            target = (page.file.parent / unquote(to.path)).resolve() if to.path else page.file
            if not target.is_file() or (target in pages and unquote(to.fragment) not in pages[target].ids):
                broken.append(f"{page.file.name}: {link}")
    return broken


def documented(inventory: Path) -> set[str]:
    entries = zlib.decompress(inventory.read_bytes().split(b"\n", 4)[4]).decode()
    return {line.split()[0] for line in entries.splitlines()}


@pytest.mark.slow
def test_the_site(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-d", str(tmp_path / "cache")]
    paths = os.pathsep.join(path for path in sys.path if path)  # what is tested is what is documented
    built = subprocess.run(
        [*command, str(ROOT / "docs"), str(tmp_path / "site")],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
    )
    assert built.returncode == 0, built.stderr
    pages = {file.resolve(): Page(file.resolve()) for file in (tmp_path / "site").rglob("*.html")}
    assert len(pages) > 30
    assert broken_links(pages) == []
    assert {load for page in pages.values() for load in page.loads if urlsplit(load).netloc} == set()
    styles = [file.read_text(encoding="utf-8") for file in (tmp_path / "site").rglob("*.css")]
    assert not any("url(http" in style or "@import" in style for style in styles)

    names = documented(tmp_path / "site" / "objects.inv")
    for package in PACKAGES:
        public = set(importlib.import_module(package).__all__) - MODULES
        assert {name for name in public if not {f"{package}.{name}", f"meritfair.{name}"} & names} == set(), package
    assert {f"meritfair.metrics.{name}" for name in meritfair.metrics.__all__} <= names


def test_broken_links_are_found(tmp_path: Path) -> None:
    one, two = tmp_path / "one.html", tmp_path / "two.html"
    one.write_text('<a href="two.html#here">a</a><a href="two.html#gone">b</a><a href="none.html">c</a>')
    two.write_text('<p id="here"><a href="https://example.org/x">d</a><a href="#top">e</a></p>')
    assert sorted(broken_links({file: Page(file) for file in (one, two)})) == [
        "one.html: none.html",
        "one.html: two.html#gone",
        "two.html: #top",
    ]


def test_the_table_of_policies_has_them_all() -> None:
    rows = [
        line.split("|")[1].strip()
        for line in (ROOT / "docs/policies.md").read_text(encoding="utf-8").splitlines()
        if "|" in line
    ]
    first = {row.partition("](")[0].strip("[`") for row in rows if row.startswith("[`")}
    assert first == set(registry.names())


def test_every_command_has_its_help() -> None:
    pages = (ROOT / "docs/command-line.md").read_text(encoding="utf-8").splitlines()
    shown = {tuple(line.split()[1:]) for line in pages if line.startswith("```{command-help} ")}
    groups = {
        group.typer_instance.info.name: group.typer_instance for group in app.registered_groups if group.typer_instance
    }
    within = {(name, each.name) for name, group in groups.items() for each in group.registered_commands}
    assert shown == {(command.name,) for command in app.registered_commands} | {(name,) for name in groups} | within
