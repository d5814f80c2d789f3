"""Files for servers are well formed, agree with each other, and call commands that there are."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import shutil
import subprocess
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml  # type: ignore[import-untyped]

from meritfair.cli import app
from meritfair.programme.storage.database import Database
from meritfair.web.processes import FINISH_SECONDS
from meritfair.web.settings import MEGABYTE, ServerSettings

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
PAGES = [ROOT / "docs" / f"{name}.md" for name in ("team", "roles", "operations", "protects", "programme")]
INSTRUCTIONS = {"FROM", "RUN", "COPY", "ENV", "USER", "WORKDIR", "VOLUME", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK"}
INSTRUCTIONS |= {"ENTRYPOINT", "CMD"}


def parse(words: list[str]) -> dict[str, Any]:
    """Return what a command line of meritfair says; raises if there is no such command or option."""
    command: Any = typer.main.get_command(app)
    while hasattr(command, "commands"):
        command, words = command.commands[words[0]], words[1:]
    values: dict[str, Any] = command.make_context(command.name, list(words)).params
    return values


def test_the_parser_finds_what_is_wrong() -> None:
    assert parse(["serve", "--port", "81"])["port"] == 81
    for wrong in (["serve", "--ports", "81"], ["serve", "surplus"], ["backup"], ["users", "add", "Ada"]):
        with pytest.raises(typer.TyperException):
            parse(wrong)
    with pytest.raises(KeyError):
        parse(["server"])


def dockerfile() -> list[tuple[str, str]]:
    """Return the instructions, each with what follows it."""
    lines = [each for each in (DEPLOY / "Dockerfile").read_text().splitlines() if not each.startswith("#")]
    text = "\n".join(lines).replace("\\\n", " ")
    return [(name, rest.strip()) for name, _, rest in (each.partition(" ") for each in text.splitlines() if each)]


def of(name: str) -> list[str]:
    return [rest for each, rest in dockerfile() if each == name]


def test_the_image_is_made_of_what_is_there() -> None:
    assert {name for name, _ in dockerfile()} <= INSTRUCTIONS
    assert len(of("FROM")) == 2
    assert all(re.fullmatch(r"python:3\.\d+-slim( AS \w+)?", each) for each in of("FROM"))
    kept = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    assert "*" in (ROOT / ".dockerignore").read_text().splitlines()
    sources = [word for each in of("COPY") if "--from" not in each for word in each.split()[:-1]]
    for source in sources:
        assert (ROOT / source).exists(), source
        assert any(fnmatch(source, each) for each in kept), source
    assert set(kept) <= set(sources)
    extras = re.findall(r"'\.\[([\w,]+)\]'", " ".join(of("RUN")))
    assert extras == ["web,postgres"]


def test_the_image_does_not_run_as_root_and_is_asked_whether_it_is_well() -> None:
    names = [name for name, _ in dockerfile()]
    (user,) = of("USER")
    assert user == "meritfair"
    assert names.index("USER") < names.index("ENTRYPOINT")
    assert not [each for each in of("ENV") if re.search("(?i)password|secret|token", each)]
    (entry,), (default,), (health,), (port,) = of("ENTRYPOINT"), of("CMD"), of("HEALTHCHECK"), of("EXPOSE")
    words = json.loads(entry) + json.loads(default)
    assert words[0] == "meritfair"
    options = parse(words[1:])
    assert (options["host"], str(options["port"])) == ("0.0.0.0", port)
    test = json.loads(health.partition("CMD")[2])
    assert test[:2] == ["python", "-c"]
    compile(test[2], "health", "exec")
    assert f"http://127.0.0.1:{port}/healthz" in test[2]
    (warm,) = re.findall(r"meritfair (programme demo [^&]*)", " ".join(of("RUN")))
    assert parse(shlex.split(warm))["rounds"] == 3


def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return found


def test_the_services_fit_each_other() -> None:
    services = compose()["services"]
    server, database = services["server"], services["database"]
    options = parse(server["command"])
    assert options["host"] == "0.0.0.0"
    assert options["url"].startswith("${MERITFAIR_URL:?")  # must be said
    (port,) = server["ports"]
    assert port == f"127.0.0.1:{options['port']}:{of('EXPOSE')[0]}"  # for the proxy alone
    store = Database(server["environment"]["MERITFAIR_STORE"])
    address = store.engine.url
    assert not store.is_sqlite
    assert services[address.host] is database
    assert (address.username, address.database) == (
        database["environment"]["POSTGRES_USER"],
        database["environment"]["POSTGRES_DB"],
    )
    assert server["environment"]["PGPASSWORD"] == database["environment"]["POSTGRES_PASSWORD"]
    assert server["depends_on"]["database"]["condition"] == "service_healthy"
    assert "healthcheck" in database
    assert {each["restart"] for each in services.values()} == {"unless-stopped"}
    assert (DEPLOY / server["build"]["context"] / server["build"]["dockerfile"]).samefile(DEPLOY / "Dockerfile")
    mounted = {each.partition(":")[0] for service in services.values() for each in service["volumes"]}
    assert mounted == set(compose()["volumes"])
    assert int(server["stop_grace_period"].rstrip("s")) > FINISH_SECONDS + 5


def test_no_password_is_written_down() -> None:
    text = (DEPLOY / "compose.yaml").read_text()
    for name, value in re.findall(r"(\w*PASSWORD\w*): (.*)", text):
        assert value.startswith("${DATABASE_PASSWORD:?"), name


def test_compose_itself_takes_the_file() -> None:
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "compose", "version"], capture_output=True, check=False).returncode:
        pytest.skip("docker compose is not installed")
    given = {"MERITFAIR_URL": "https://calls.example.org", "DATABASE_PASSWORD": "x", "PATH": str(Path(docker).parent)}
    subprocess.run([docker, "compose", "-f", DEPLOY / "compose.yaml", "config", "-q"], check=True, env=given)


def unit(name: str) -> configparser.ConfigParser:
    found = configparser.ConfigParser(interpolation=None, delimiters="=", comment_prefixes="#")
    found.optionxform = str  # type: ignore[assignment, method-assign]
    found.read(DEPLOY / name)
    return found


def test_units_call_commands_that_there_are() -> None:
    serving = unit("meritfair.service")["Service"]
    program, *words = shlex.split(serving["ExecStart"])
    assert program == "/opt/meritfair/bin/meritfair"
    options = parse(words)
    assert (options["host"], options["url"]) == ("127.0.0.1", "${MERITFAIR_URL}")
    assert int(serving["TimeoutStopSec"]) > FINISH_SECONDS + 5
    assert (serving["Restart"], serving["StateDirectory"], serving["NoNewPrivileges"]) == (
        "on-failure",
        "meritfair",
        "yes",
    )
    assert (serving["ProtectSystem"], serving["PrivateTmp"], serving["User"]) == ("strict", "yes", "meritfair")
    saving = unit("meritfair-backup.service")["Service"]
    program, *words = shlex.split(saving["ExecStart"])
    folder = str(parse(words)["file"])
    assert folder.removeprefix("/var/lib/") in saving["StateDirectory"].split()
    assert saving["Environment"] == serving["Environment"]
    assert unit("meritfair-backup.timer")["Timer"]["Persistent"] == "yes"


def test_systemd_itself_takes_the_units(tmp_path: Path) -> None:
    systemd = shutil.which("systemd-analyze")
    if systemd is None:
        pytest.skip("systemd-analyze is not installed")
    files = sorted([*DEPLOY.glob("*.service"), *DEPLOY.glob("*.timer")])
    assert len(files) == 3
    for file in files:  # with a program that is there
        (tmp_path / file.name).write_text(file.read_text().replace("/opt/meritfair/bin/meritfair", "/bin/true"))
    names = [tmp_path / file.name for file in files]
    done = subprocess.run([systemd, "verify", "--man=no", *names], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_proxy_leads_to_the_server() -> None:
    text = re.sub("#.*", "", (DEPLOY / "nginx.conf").read_text())
    assert text.count("{") == text.count("}")
    for line in filter(None, map(str.strip, text.splitlines())):
        assert line[-1] in "{};", line
    assert re.findall(r"proxy_pass (.*);", text) == [ServerSettings().address]
    assert re.findall(r"client_max_body_size (\d+)m;", text) == [str(ServerSettings().max_body // MEGABYTE)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_that_the_documentation_shows_can_be_given(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    blocks = "\n".join(re.findall(r"^ *```(?:bash|ini|sh)\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL))
    lines = blocks.replace("\\\n", " ").splitlines()
    for found in filter(None, (re.fullmatch(r"(?:.*[ /])?meritfair ([a-z].*)", line) for line in lines)):
        parse(shlex.split(found[1], comments=True))
    for file in re.findall(r"deploy/([\w.-]+\w)", text):
        assert (DEPLOY / file).exists(), file
