"""The catalogues of translations, kept in step with the source: ``python -m meritfair.web.catalogue``.

Every text in `_` and `ngettext`, in the code and in the templates, is a message. A catalogue ``locale/LANGUAGE.po``
keeps the translations it has, gains the messages that are new, without a translation, and loses those that are gone.
It is sorted, and names neither dates nor lines, so that it changes only where a text does.
"""

from __future__ import annotations

import ast
import io
import re
from collections.abc import Iterator
from pathlib import Path

from babel.messages.catalog import Catalog, Message
from babel.messages.extract import extract
from babel.messages.pofile import read_po, write_po

from meritfair.web.language import CATALOGUES, LANGUAGES

SOURCE = Path(__file__).parent.parent
_Text = str | tuple[str, ...]
_KEYWORDS: dict[str, tuple[int, ...] | None] = {"_": None, "gettext": None, "ngettext": (1, 2)}
_JINJA = {"trim_blocks": "true", "lstrip_blocks": "true", "newstyle_gettext": "true", "silent": "false"}
_PLACEHOLDER = re.compile(r"%\((\w+)\)s|\{(\w+)[^{}]*\}")


def messages() -> Catalog:
    """Return every message of the source, with the files where it occurs."""
    found = Catalog()
    for file in _files():
        where = file.relative_to(SOURCE).as_posix()
        for text in _of_code(file) if file.suffix == ".py" else _of_template(file):
            found.add(text, locations=[(where, None)])  # type: ignore[list-item]
    return found


def _of_code(file: Path) -> Iterator[_Text]:
    """Find what is marked in Python, also within f-strings, which other tools look into only since Python 3.12."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _KEYWORDS:
            given = [each.value for each in node.args if isinstance(each, ast.Constant)]
            texts = tuple(each for each in given if isinstance(each, str))
            if texts:
                yield texts[0] if node.func.id == "_" else texts[:2]


def _of_template(file: Path) -> Iterator[_Text]:
    with file.open("rb") as stream:
        for _line, text, _comments, _context in extract("jinja2.ext:babel_extract", stream, _KEYWORDS, (), _JINJA):
            yield text


def _files() -> Iterator[Path]:
    for pattern in ("**/*.py", "core/templates/*.jinja", "web/templates/**/*.html"):
        yield from sorted(SOURCE.glob(pattern))


def read(language: str) -> Catalog:
    """Return the catalogue of a language, an empty one if there is none."""
    file = CATALOGUES / f"{language}.po"
    return read_po(io.BytesIO(file.read_bytes() if file.exists() else b""), locale=language)


def updated(language: str) -> bytes:
    """Return the catalogue of a language as it should be: its translations of the messages of the source."""
    old, new = read(language), Catalog(locale=language, header_comment=_header(language), fuzzy=False)
    for each in messages():
        if each.id:
            there = old.get(_first(each))
            translation = there.string if there is not None and there.id == each.id else None
            new.add(each.id, translation, locations=sorted(set(each.locations)), flags=each.flags)
    stream = io.BytesIO()
    write_po(stream, new, sort_output=True, ignore_obsolete=True, include_lineno=False, width=120)
    return _without_dates(stream.getvalue())


def wrong(catalogue: Catalog) -> list[str]:
    """Return what is missing in a catalogue, or does not fit its messages, a line for each."""
    return [f"{fault}: {_first(each)}" for each in catalogue if each.id and (fault := _fault(each))]


def _fault(message: Message) -> str:
    ids = [message.id] if isinstance(message.id, str) else list(message.id)
    strings = [message.string] if isinstance(message.string, str) else list(message.string or ())
    if len(ids) != len(strings) or not all(strings):
        return "no translation"
    if message.fuzzy:
        return "fuzzy"
    # A singular may leave the number out: "one person".
    if _placeholders(ids[-1]) != _placeholders(strings[-1]) or not _placeholders(strings[0]) <= _placeholders(ids[-1]):
        return "other placeholders"
    return ""


def _placeholders(text: str) -> set[str]:
    return {one or other for one, other in _PLACEHOLDER.findall(text)}


def _first(message: Message) -> str:
    return message.id if isinstance(message.id, str) else message.id[0]


def _header(language: str) -> str:
    return f"# Texts of meritfair in {LANGUAGES[language]}; `python -m meritfair.web.catalogue` brings in what is new."


def _without_dates(text: bytes) -> bytes:
    kept = (b"Language:", b"Plural-Forms", b"MIME-Version", b"Content-T")
    head, blank, rest = text.partition(b"\n\n")
    lines = [line for line in head.split(b"\n") if not line.startswith(b'"') or line[1:].startswith(kept)]
    return b"\n".join(lines) + blank + rest


def main() -> None:
    """Write every catalogue again, and say what is left to translate."""
    for language in sorted(set(LANGUAGES) - {"en"}):
        (CATALOGUES / f"{language}.po").write_bytes(updated(language))
        faults = wrong(read(language))
        print("\n".join([*faults, f"{language}: {len(faults)} to translate or mend"]))


if __name__ == "__main__":
    main()
