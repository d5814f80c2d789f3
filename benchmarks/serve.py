"""How quick a server is: many readers and writers at once on 10,000 participants, and every page with 1,000,000.

    ./mf python benchmarks/serve.py [--quick] [--database both] [--no-pauses] [--seconds S] [--workers N] [--pages none]

Readers open a page or ask the API, at random, and pause about a second, as people do; then the same without pauses.
Writers report what came of one person each time, with an idempotency key. The load comes from a process of its own,
on the same machine. At the end the ledger is compared with what the server has acknowledged, and the databases are
shown beside each other. PostgreSQL is a server of its own on data in a temporary folder, unless `--postgresql` names an
empty database. `--pages only` measures every page once it is warm, one request at a time; `--store` keeps the store
with a million participants for the next time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

sys.path.pop(0)  # this folder, whose programme.py is not that of the tests
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import meritfair as mf
from meritfair.programme import Outcomes, People, Programme
from meritfair.programme.reading import Reader
from meritfair.programme.users import Role, Users
from programme import servers
from web.server import running_server

READERS, WRITERS, PAUSE = 50, 8, 1.0
READ_BAR, PAGE_BAR, LIST_BAR = 0.250, 1.0, 0.300  # seconds: p99 of reads; a page; the first byte of the list
NAME = "calls"
PAGES = {
    "programmes": "/programmes",
    "round": "/p/calls/round",
    "people": "/p/calls/people",
    "people, searched": "/p/calls/people?search=participant-{number}",
    "people, sorted": "/p/calls/people?sort=account&standing=all",
    "people, far": "/p/calls/people?offset={number}",
    "person": "/p/calls/people/{number}",
    "fairness": "/p/calls/fairness",
    "learning": "/p/calls/learning",
    "ledger": "/p/calls/ledger",
    "settings": "/p/calls/settings",
}
ANSWERS = {
    "API programme": "/api/v1/programmes/calls",
    "API participants": "/api/v1/programmes/calls/participants?limit=50",
    "API participant": "/api/v1/programmes/calls/participants/{number}",
    "API person": "/api/v1/programmes/calls/participants/{number}/report",
    "API round": "/api/v1/programmes/calls/rounds/{round}",
    "API ledger": "/api/v1/programmes/calls/ledger",
}


# ---- the programme


def make_programme(url: str, people: int, rounds: int) -> Programme:
    """Return a programme in the middle of a round."""
    calls = mf.programme.open(url, NAME)
    calls.create(max(1, people // 100), by="bench")
    ids = [f"participant-{number}" for number in range(people)]
    staff = [f"nurse-{number % 20}" for number in range(people)]
    calls.enrol(People(ids, ["north", "south"] * (people // 2), staff), by="bench")
    arms, rng = mf.datasets.cpap(n_arms=people, seed=1).transitions, np.random.default_rng(1)
    states = rng.integers(0, 2, people)
    for _ in range(rounds):
        actions = np.zeros(people, np.int64)
        actions[[each.number for each in calls.draw(by="bench").people]] = 1
        states = (rng.random(people) < arms[np.arange(people), states, actions]).astype(np.int64)
        known = np.where(rng.random(people) < 0.7, states, -1)
        calls.report(Outcomes(ids, actions, known), by="bench")
        calls.close(by="bench")
    calls.draw(by="bench")
    return calls


def let_in(calls: Programme) -> dict[str, str]:
    """Make a user; return what their browser and their program send."""
    users = Users(calls.store)
    if "Bench" not in [each.name for each in users.all()]:
        users.add("Bench", {"*": Role.ADMIN}, by="bench")
    session = users.use_link(users.link("Bench", by="bench"))
    return {"cookie": session, "token": users.new_token("Bench", "bench", by="bench")[1]}


def reported(calls: Programme, since: int) -> int:
    """Return how many outcomes were reported after an entry."""
    look = Reader(calls.store).look(NAME)
    return sum(line.rows for line in look.entry_lines(since, look.entries) if line.kind == "report")


# ---- the load, in a process of its own


@dataclass
class Answer:
    """What came back: its status, and the seconds until its first byte and its last."""

    status: int
    first: float
    whole: float
    body: bytes = b""


class Line:
    """A connection that is kept, with as little work as possible: the server is what is measured."""

    def __init__(self, host: str, port: int, headers: str) -> None:
        self._where, self._headers = (host, port), headers
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, method: str, path: str, body: str = "", more: str = "") -> Answer:
        began = time.perf_counter()
        kept = self._streams is not None
        try:
            return await self._ask(method, path, body, more, began)
        except (OSError, EOFError):  # the server may close what was idle
            self._streams = None
            if not kept:
                raise
            return await self._ask(method, path, body, more, began)

    async def _ask(self, method: str, path: str, body: str, more: str, began: float) -> Answer:
        if self._streams is None:
            self._streams = await asyncio.open_connection(*self._where, limit=1 << 24)
        reader, writer = self._streams
        length = f"Content-Length: {len(body)}\r\n" if method != "GET" else ""
        writer.write(f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{self._headers}{more}{length}\r\n{body}".encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        first = time.perf_counter() - began
        found = await self._body(reader, head)
        if "connection: close" in head:
            writer.close()
            self._streams = None
        return Answer(int(head.split(" ", 2)[1]), first, time.perf_counter() - began, found)

    async def _body(self, reader: asyncio.StreamReader, head: str) -> bytes:
        if "content-length:" in head:
            return await reader.readexactly(int(head.split("content-length:")[1].split("\r\n")[0]))
        found = b""
        while "transfer-encoding: chunked" in head:
            size = int(await reader.readuntil(b"\r\n"), 16)
            found += (await reader.readexactly(size + 2))[:-2]
            if not size:
                break
        return found


@dataclass
class Load:
    """Readers and writers, and what they found."""

    host: str
    port: int
    cookie: str
    token: str
    people: int
    round: int
    seconds: float
    pause: float
    first: int
    reads: list[tuple[str, float]] = field(default_factory=list)
    writes: list[float] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)

    async def run(self) -> None:
        """Let all of them work for some seconds."""
        until = time.perf_counter() + self.seconds
        everyone = [self.read(until, random.Random(each)) for each in range(READERS)]
        everyone += [self.write(until, each, random.Random(each)) for each in range(WRITERS)]
        await asyncio.gather(*everyone)

    async def read(self, until: float, rng: random.Random) -> None:
        cookie = Line(self.host, self.port, f"Cookie: meritfair_session={self.cookie}\r\nAccept: text/html\r\n")
        token = Line(self.host, self.port, f"Authorization: Bearer {self.token}\r\n")
        await asyncio.sleep(rng.random() * min(1.0, self.pause))
        while time.perf_counter() < until:
            name, path = rng.choice([*PAGES.items(), *ANSWERS.items()])
            line = token if name in ANSWERS else cookie
            found = await self.told(
                name, line.ask("GET", path.format(number=rng.randrange(self.people), round=self.round))
            )
            if found is not None and found.status == 200:
                self.reads.append((name, found.whole))
            await asyncio.sleep(self.pause * 2 * rng.random())

    async def write(self, until: float, own: int, rng: random.Random) -> None:
        line = Line(self.host, self.port, f"Authorization: Bearer {self.token}\r\nContent-Type: text/csv\r\n")
        path = f"/api/v1/programmes/calls/rounds/{self.round}/outcomes"
        for number in range(self.first + own, self.people, WRITERS):
            if time.perf_counter() > until:
                return
            body, key = f"id,state\nparticipant-{number},{rng.randrange(2)}\n", f"Idempotency-Key: bench-{number}\r\n"
            found = await self.told("report", line.ask("POST", path, body, key))
            if found is not None and found.status in (200, 201):
                self.writes.append(found.whole)
            await asyncio.sleep(self.pause * rng.random())

    async def told(self, name: str, asked: Any) -> Answer | None:
        try:
            found: Answer = await asked
        except (OSError, EOFError) as error:
            self.errors[f"{name}: {type(error).__name__}"] += 1
            return None
        if found.status not in (200, 201):
            self.errors[f"{name}: {found.status} {found.body[:200].decode(errors='replace')}"] += 1
        return found


def run_load(words: str) -> None:
    """Be the process that makes the load; what to do comes on the standard input."""
    load = Load(**json.loads(words))
    asyncio.run(load.run())
    print(json.dumps({"reads": load.reads, "writes": load.writes, "errors": load.errors}))


# ---- what is shown


def quantiles(times: list[float]) -> str:
    if not times:
        return "none"
    p50, p95, p99 = (1000 * float(np.quantile(times, q)) for q in (0.5, 0.95, 0.99))
    return f"p50 {p50:6.1f}  p95 {p95:6.1f}  p99 {p99:6.1f}  most {1000 * max(times):6.1f} ms"


def show(title: str, found: dict[str, Any], seconds: float, lost: int) -> None:
    reads, writes = [each for _, each in found["reads"]], found["writes"]
    print(f"\n{title}")
    print(f"  reads   {len(reads):6,} ({len(reads) / seconds:5.1f} a second)  {quantiles(reads)}")
    print(f"  writes  {len(writes):6,} ({len(writes) / seconds:5.1f} a second)  {quantiles(writes)}")
    print(f"  errors  {sum(found['errors'].values())}   acknowledged and not in the ledger, or there twice: {lost}")
    for what, times in sorted(found["errors"].items()):
        print(f"    {times} × {what}")
    if reads:
        p99 = float(np.quantile(reads, 0.99))
        verdict = "holds" if p99 < READ_BAR else "MISSED"
        print(f"  bar     p99 of reads below {1000 * READ_BAR:.0f} ms: {verdict}, bar / p99 = {READ_BAR / p99:.1f}x")
    by_name: dict[str, list[float]] = {}
    for name, each in found["reads"]:
        by_name.setdefault(name, []).append(each)
    for name in sorted(by_name, key=lambda name: -float(np.quantile(by_name[name], 0.95))):
        print(f"    {name:18} {quantiles(by_name[name])}", flush=True)


def summary(database: str, title: str, found: dict[str, Any], seconds: float, lost: int) -> str:
    """Return one line about a load, to be shown beside others."""
    reads, writes = [each for _, each in found["reads"]] or [np.inf], found["writes"] or [np.inf]
    (half, most), slow = np.quantile(reads, [0.5, 0.99]), float(np.quantile(writes, 0.99))
    return (
        f"{database:11} {title:21} {len(reads) / seconds:7.1f}  {1000 * half:6.1f}  {1000 * most:7.1f}  "
        f"{READ_BAR / most:11.2f}x  {len(writes) / seconds:8.1f}  {1000 * slow:7.1f}  "
        f"{sum(found['errors'].values()):6}  {lost:4}"
    )


def measure_load(url: str, people: int, seconds: float, workers: int, pauses: dict[str, float]) -> list[str]:
    """Print what a load finds; return a line for each."""
    lines, database = [], url.partition(":")[0]
    print(f"\n{people:,} participants, {READERS} readers, {WRITERS} writers, {workers} workers, {database}")
    calls = make_programme(url, people, 12)
    known, first = let_in(calls), 0
    with running_server(url, workers=workers) as server:
        host, port = server.address.removeprefix("http://").split(":")
        for title, pause in pauses.items():
            entries = Reader(calls.store).look(NAME).entries
            words = {"host": host, "port": int(port), "people": people, "round": 13, "pause": pause, "first": first}
            for each in (3.0, seconds):  # the first is to warm up
                found = load(words | known | {"seconds": each, "first": first})
                first += WRITERS * (len(found["writes"]) + 10)
                if each != seconds:
                    entries = Reader(calls.store).look(NAME).entries
            lost = abs(reported(calls, entries) - len(found["writes"]))
            show(f"{title}:", found, seconds, lost)
            lines.append(summary(database, title, found, seconds, lost))
    return lines


def load(words: dict[str, Any]) -> dict[str, Any]:
    command = [sys.executable, __file__, "--load"]
    done = subprocess.run(command, input=json.dumps(words), check=True, stdout=subprocess.PIPE, text=True)
    return dict(json.loads(done.stdout))


def measure_pages(url: str, people: int, rounds: int, workers: int, repeats: int) -> None:
    print(f"\n{people:,} participants, one request at a time, warm, {workers} workers")
    calls = mf.programme.open(url, NAME)
    if NAME not in calls.store.names():
        make_programme(url, people, rounds)
    known = let_in(calls)
    with running_server(url, workers=workers) as server:
        host, port = server.address.removeprefix("http://").split(":")
        found = asyncio.run(_each_page(host, int(port), known, people, rounds + 1, repeats * workers))
    worst, first = max(found[name][1] for name in PAGES), found["people"][0]
    for name, (start, whole) in found.items():
        print(f"  {name:18} first byte {1000 * start:7.1f} ms   whole {1000 * whole:7.1f} ms")
    for what, value, bar in (("every page", worst, PAGE_BAR), ("first byte of the list", first, LIST_BAR)):
        verdict = "holds" if value < bar else "MISSED"
        print(f"  bar     {what} below {1000 * bar:.0f} ms: {verdict}, bar / measured = {bar / value:.1f}x")


async def _each_page(
    host: str, port: int, known: dict[str, str], people: int, round_: int, repeats: int
) -> dict[str, tuple[float, float]]:
    """Return the longest time until the first and the last byte of each page, once every worker has shown it."""
    found, rng = {}, random.Random(1)
    await _warm_up(host, port, known, rng, people)
    for name, path in {**PAGES, **ANSWERS}.items():
        told = f"Authorization: Bearer {known['token']}\r\n"
        headers = told if name in ANSWERS else f"Cookie: meritfair_session={known['cookie']}\r\nAccept: text/html\r\n"
        answers = []
        for _ in range(2 * repeats):
            line = Line(host, port, f"{headers}Connection: close\r\n")  # so that each worker gets its turn
            with suppress(EOFError):
                asked = path.format(number=rng.randrange(people), round=round_)
                answers.append(await line.ask("GET", asked))
        bad = [each for each in answers if each.status != 200]
        if bad:
            print(f"  {name}: {bad[0].status} {bad[0].body[:300]!r}")
            continue
        warm = answers[repeats:]
        found[name] = max(each.first for each in warm), max(each.whole for each in warm)
    return found


async def _warm_up(host: str, port: int, known: dict[str, str], rng: random.Random, people: int) -> None:
    """Ask for pages about people until all workers have loaded the programme and worked out what these need."""
    quick, headers = 0, f"Cookie: meritfair_session={known['cookie']}\r\nAccept: text/html\r\nConnection: close\r\n"
    while quick < 20:
        with suppress(EOFError):
            answer = await Line(host, port, headers).ask("GET", PAGES["person"].format(number=rng.randrange(people)))
            quick = quick + 1 if answer.status == 200 and answer.whole < PAGE_BAR / 4 else 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few seconds, and 100,000 instead of a million")
    parser.add_argument("--database", choices=("sqlite", "postgresql", "both"), default="sqlite")
    parser.add_argument("--no-pauses", action="store_true", help="only clients that never pause")
    parser.add_argument("--pages", choices=("too", "none", "only"), default="too", help="with a million participants")
    parser.add_argument("--load", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--postgresql", metavar="URL", help="an empty database, instead of a server of its own")
    parser.add_argument("--store", metavar="FILE", help="where the programme with a million participants is kept")
    given = parser.parse_args()
    if given.load:
        run_load(sys.stdin.read())
        return
    with tempfile.TemporaryDirectory(prefix="meritfair-bench-") as folder:
        if given.pages != "only":
            measure_databases(given, folder)
        if given.pages != "none":
            people, url = 100_000 if given.quick else 1_000_000, f"sqlite:///{given.store or folder + '/many.db'}"
            measure_pages(url, people, 3, given.workers, 3)


def measure_databases(given: argparse.Namespace, folder: str) -> None:
    """Measure the load on one or both databases, and print them beside each other."""
    pauses = {} if given.no_pauses else {"pauses as of people": PAUSE}
    pauses |= {"without pauses": 0.0}
    seconds, lines = 6.0 if given.quick else given.seconds, list[str]()
    with ExitStack() as stack:
        urls = [] if given.postgresql or given.database == "postgresql" else [f"sqlite:///{folder}/calls.db"]
        if given.postgresql or given.database != "sqlite":
            urls.append(given.postgresql or own_postgresql(stack))
        for url in urls:
            lines += measure_load(url, 10_000, seconds, given.workers, pauses)
    bar = f"{1000 * READ_BAR:.0f} ms / p99"
    print(f"\n{'database':11} {'':21} reads/s  p50 ms   p99 ms  {bar}  writes/s   p99 ms  errors  lost")
    print("\n".join(lines), flush=True)


def own_postgresql(stack: ExitStack) -> str:
    """Start a server of PostgreSQL on data of its own; return the URL of an empty database."""
    programs = servers.server_folder()
    if programs is None:
        raise SystemExit("no PostgreSQL server is installed (on Debian: apt install postgresql)")
    return stack.enter_context(servers.running_server(programs)).fresh_database()


if __name__ == "__main__":
    main()
