"""Texts that are made to harm: patterns that take long, headers that take long, and lines in logs that are not ours."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from meritfair.core import csv_files, texts
from meritfair.core.errors import FileError
from meritfair.programme.ledger import randomness
from meritfair.programme.users import Role
from meritfair.web import language, logs
from web.clients import serving
from web.server import running_server
from web.test_bodies import connect, status

FORGED = 'x\n{"level": "info", "message": "forged"}\r\x1b[2J\x9b31m\u202e\u2028\x7f\u0085\x00'


# ---- time that grows with the square


LONG = 1_000_000
AT_ONCE: dict[str, Callable[[], Any]] = {  # each takes hours if the time grows with the square of the length
    "a row that does not fit": lambda: csv_files._misfit(["a" * LONG, "1" * LONG, "x"], 2, ","),
    "quotation marks": lambda: csv_files._QUOTED.sub("", '"' * (LONG + 1)),
    "a decimal comma": lambda: csv_files.with_point("1" * LONG),
    "a separator": lambda: csv_files._SEPARATOR_LINE.fullmatch('"sep=' + '"' * LONG),
    "apostrophes": lambda: texts.from_spreadsheet("'" * LONG),
    "a source of randomness": lambda: randomness._SETTING.fullmatch("drand" + " " * LONG),
    "hexadecimal digits": lambda: randomness._HEX.fullmatch("a" * LONG + "g"),
    "a language": lambda: language.choose("", "de;" * LONG),
}


@pytest.mark.parametrize("what", AT_ONCE)
def test_long_texts_are_looked_at_once(what: str) -> None:
    AT_ONCE[what]()


def test_a_comma_in_a_text_is_still_told(tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    file.write_text("id,group\nAda,north, east\n")
    with pytest.raises(FileError, match="perhaps a comma inside a text, 'Ada,north'"):
        csv_files.read_csv(file, lambda header, _line: [(name, place) for place, name in enumerate(header)])


def test_a_long_content_type_is_refused(tmp_path: Path) -> None:
    web = serving(f"sqlite:///{tmp_path / 'x.db'}", tmp_path)
    program = web.program("Ada", {"*": Role.ADMIN})
    for kind in ("application/x-www-form-urlencoded", "multipart/form-data", "text/csv"):
        headers = {"Content-Type": f'{kind}; charset="{";" * 60_000}'}
        assert web.anyone().post("/sign-in", content=b"name=Ada", headers=headers).status_code == 400
        assert program.post("/api/v1/programmes", content=b"{}", headers=headers).status_code == 400


def test_made_up_languages_are_not_kept_for_ever() -> None:
    for number in range(3000):
        language.choose("", f"x{number}")
    assert language.language_of.cache_info().currsize <= 1000


# ---- lines of logs


def record(message: str, *arguments: Any, name: str = "meritfair.web", **more: Any) -> logging.LogRecord:
    made = logging.LogRecord(name, logging.WARNING, __file__, 1, message, arguments, None)
    vars(made).update(more)
    return made


def failed(message: str) -> Any:
    try:
        raise type(f"Err{message}", (ValueError,), {})(message)
    except ValueError:
        return sys.exc_info()


@pytest.mark.parametrize("formatter", [logs._Lines(), logs._Readable()])
def test_no_message_begins_a_line_or_controls_a_terminal(formatter: logging.Formatter) -> None:
    for made in (
        record("a name: %s", FORGED),
        record(FORGED, name="uvicorn.error"),
        record("hidden %s", FORGED, name=f"other{FORGED}"),
    ):
        line = formatter.format(made)
        assert texts.printable(line) == line
        if isinstance(formatter, logs._Lines):
            assert line.isascii()
            assert json.loads(line)["level"] == "warning"


@pytest.mark.parametrize("formatter", [logs._Lines(), logs._Readable()])
def test_an_error_of_any_name_is_written_harmlessly(formatter: logging.Formatter) -> None:
    line = formatter.format(record("a request failed", exc_info=failed(FORGED)))
    assert texts.printable(line.replace("\n", "")) == line.replace("\n", "")
    assert not any(each.startswith("{") for each in line.splitlines()[1:])


def test_another_library_that_repeats_itself_is_written_down_seldom() -> None:
    seldom = logs._Seldom()
    made = [record("too many open files", name="asyncio") for _ in range(1000)]
    for each in made:
        each.created = 600.0
    assert sum(map(seldom.filter, made)) == logs._A_MINUTE
    assert seldom.filter(record("too many", name="h11"))
    made[0].created = 660.0
    assert seldom.filter(made[0]), "in the next minute"
    assert all(seldom.filter(record("ours")) for _ in range(1000))


@pytest.mark.parametrize("formatter", [logs._Lines(), logs._Readable()])
def test_lines_are_bounded(formatter: logging.Formatter) -> None:
    assert len(formatter.format(record("%s", "x" * 1_000_000))) < 10_000
    assert len(formatter.format(record("%s", "\U0001f600" * 1_000_000))) < 100_000
    assert len(formatter.format(record("failed", exc_info=failed("x" * 1_000_000)))) < 20_000


@pytest.mark.slow
def test_a_server_writes_only_lines_of_its_own(tmp_path: Path) -> None:
    with running_server(f"sqlite:///{tmp_path / 'x.db'}") as server:
        port = int(server.address.rpartition(":")[2])
        evil = "%0A%7B%22level%22%3A%22forged%22%7D%1B%5B2J%E2%80%AE"
        heads = [
            f"GET /p/{evil}/round HTTP/1.1\r\nHost: 127.0.0.1\r\n",
            f"GET /{evil}?{evil} HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: \x1b[2Jforged\r\nReferer: forged\r\n",
            "FORGED / HTTP/1.1\r\nHost: 127.0.0.1\r\n",
            "GET / HTTP/1.1\r\nHost: forged\r\nX-Forwarded-For: forged\r\nCookie: meritfair_session=forged\r\n",
            "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Request-Id: forged\r\nUpgrade: forged\r\nConnection: upgrade\r\n",
            "POST /sign-in HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 22\r\n"
            "Content-Type: application/x-www-form-urlencoded\r\n\r\nname=%0Aforged%1B&a=bb",
            "nonsense \x1b[2J forged\r\n",
        ]
        for head in heads:
            with connect(port, head if "\r\n\r\n" in head else head + "\r\n") as made:
                assert status(made) >= 300
        server.stop()
        lines = server.log.read_text().splitlines()
    assert len(lines) > len(heads)
    for line in lines:
        assert line.isascii()
        assert "forged" not in json.loads(line).get("message", "") + line
        assert len(line) < 20_000
