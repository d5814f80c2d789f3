"""The lab in the browser: pages of a sweep and of a reproduction, what can be downloaded, and what is refused."""

from __future__ import annotations

import io
import os
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import meritfair as mf
from meritfair.cli import main
from meritfair.lab import load, read_results, run_spec
from meritfair.lab.results import Wording
from meritfair.lab.spec import Spec
from meritfair.lab.store import Manifest, Store, keep_manifest
from meritfair.lab.tasks import Outcome, Task, tasks
from meritfair.reproduction.artefact import Findings, Scale, Verdict
from meritfair.reproduction.report import Report, Section, write_report
from meritfair.web.viewer.app import create_viewer
from meritfair.web.viewer.choice import choose
from meritfair.web.viewer.contents import Folder
from meritfair.web.viewer.files import file_of
from meritfair.web.viewer.serving import address_of, listen_here
from web.clients import TestClient

POLICIES = ("merit-fair", "merit-fair:estimate=mean", "none", "whittle")
SPEC = Spec(
    datasets=("cpap", "synthetic"), sizes=((5, 1), (6, 2)), policies=POLICIES, episodes=3, horizon=20, runs=12, seed=4
)
PICKED = {"dataset": "synthetic", "n_arms": "6", "budget": "2", "policy": ["merit-fair", "none"]}


@contextmanager
def here() -> Iterator[Executor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a finished sweep; tests leave it as it is."""
    place = tmp_path_factory.mktemp("sweep") / "found"
    run_spec(SPEC, place, executor=here())
    return place


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    """Return a folder of the same contents, to be broken."""
    return Path(shutil.copytree(folder, tmp_path / "found"))


@pytest.fixture
def paper(copy: Path) -> Path:
    """Return a folder that looks like a reproduction."""
    for part in ("figures", "tables"):
        (copy / part).mkdir()
    (copy / "figures" / "figure-1.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg"/>')
    (copy / "tables" / "table-1.csv").write_text("a,b\n1,2\n")
    claims = (
        Verdict("Regret <b>grows</b>.", "Section 6.3", True, "exponent 0.6"),
        Verdict("It falls.", "Section 7", False, "it does not"),
        Verdict("Who knows?", "", None, "nobody"),
    )
    section = Section("figure-1", "Figure 1: exposure", Findings(None, verdicts=claims))
    write_report(Report(Scale(), (section,)), copy / "report.html")
    return copy


def browse(place: Path, **options: object) -> TestClient:
    return TestClient(create_viewer(place), base_url="http://127.0.0.1", **options)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def client(folder: Path) -> TestClient:
    return browse(folder)


# --- pages -------------------------------------------------------------------


@pytest.mark.parametrize(
    "address", ["/", "/compare", "/results", "/results?sort=gini", "/compare?sort=gini&descending=1"]
)
def test_pages_are_there_and_nothing_comes_from_elsewhere(client: TestClient, address: str) -> None:
    answer = client.get(address)
    assert answer.status_code == 200
    assert answer.text.count("<h1") == 1
    assert "http://" not in answer.text
    assert "https://" not in answer.text
    assert "script-src 'self'" in answer.headers["content-security-policy"]
    assert " style=" not in answer.text


def test_the_overview_says_what_was_played(client: TestClient) -> None:
    text = client.get("/").text
    for words in ("cpap · synthetic", "N = 5, K = 1 · N = 6, K = 2", "All 32 tasks are there.", "numba"):
        assert words in text
    assert "/report" not in text  # it is a sweep


def test_t0_and_g_that_are_not_known_are_marked(client: TestClient) -> None:
    # In 3 episodes with nobody pulled t0 is at least 3 and G at least 4.
    text = client.get("/results").text
    assert "≥ 3<br>" in text
    assert "≥ 4<br>" in text
    assert "With ≥ it is a lower bound" in client.get("/compare", params=PICKED).text


def test_figures_and_tables_are_of_what_is_picked(client: TestClient, folder: Path) -> None:
    text = client.get("/compare", params=PICKED).text
    found = read_results(folder)
    setting = next(s for s in found.outcomes if (s.dataset, s.n_arms, s.policy) == ("synthetic", 6, "merit-fair"))
    regret = found.measures[setting]["fairness_regret"]
    assert f"{regret.mean:.1f}<br>" in text
    assert f"{regret.low:.1f} to {regret.high:.1f}" in text
    assert text.count('<th scope="row">merit-fair</th>') == 2  # in the table of results, and of benefit
    assert "merit-fair:estimate=mean</th>" not in text
    assert text.count("<summary>As a table</summary>") == text.count("<figure") == 3
    assert '<option value="synthetic" selected>' in text
    assert "cpap ·" not in text


def test_a_combination_that_was_not_played_is_replaced_and_told(client: TestClient) -> None:
    text = client.get("/compare", params={"n_arms": "5", "budget": "2"}).text
    assert "Budget (K) 2 was not played with the rest of this: shown is 1." in text
    assert "(not played with the above)" in text
    assert (
        "was not played with" not in client.get("/compare", params={"n_arms": "77"}).text
    )  # nobody can have picked it


def test_a_table_is_sorted_by_any_column_and_what_is_unknown_comes_last(client: TestClient) -> None:
    def rows(**query: str) -> list[str]:
        text = client.get("/compare", params={"dataset": "cpap", "n_arms": "5", **query}).text
        return [part.split("<", 1)[0] for part in text.split('id="table"')[1].split('<th scope="row">')[1:]]

    assert rows(sort="policy", descending="1") == sorted(POLICIES, reverse=True)
    assert rows(sort="intervention_benefit", descending="1")[0] == "whittle"
    assert rows(sort="gini")[-1] == rows(sort="gini", descending="1")[-1] == "none"  # nobody is pulled
    assert rows(sort="no-such-column") == list(POLICIES)
    text = client.get("/results?sort=n_arms&descending=1").text
    assert 'aria-sort="descending"' in text


def test_names_from_a_folder_stay_text(tmp_path: Path) -> None:
    arms = mf.datasets.cpap(n_arms=3, seed=1)
    name = "<script>alert(1)</script>"
    spec = Spec(
        datasets=(name,), sizes=((3, 1),), policies=("none",), episodes=2, runs=2, horizon=10, own_arms={name: arms}
    )
    run_spec(spec, tmp_path / "<i>", executor=here())
    shown = browse(tmp_path / "<i>")
    for address in ("/", "/compare", "/results"):
        text = shown.get(address).text
        assert "<script>alert" not in text
        assert "<i>" not in text
    assert shown.get("/figure/regret.svg").status_code == 200
    assert shown.get("/data/runs.csv").headers["content-disposition"] == 'attachment; filename="_i_-runs.csv"'


# --- downloads ---------------------------------------------------------------


@pytest.mark.parametrize("figure", ["regret", "exposure", "benefit"])
def test_figures_can_be_downloaded(client: TestClient, figure: str) -> None:
    svg = client.get(f"/figure/{figure}.svg", params=PICKED)
    assert svg.headers["content-type"] == "image/svg+xml"
    assert svg.headers["content-disposition"] == f'attachment; filename="found-{figure}.svg"'
    assert svg.content.startswith(b"<?xml")
    png = client.get(f"/figure/{figure}.png", params={**PICKED, "narrow": "1"})
    assert png.content.startswith(b"\x89PNG")


def read(kind: str, content: bytes) -> pd.DataFrame:
    return pd.read_csv(io.BytesIO(content)) if kind == "csv" else pd.read_parquet(io.BytesIO(content))


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("curves", [False, True])
def test_runs_are_those_of_load(client: TestClient, folder: Path, kind: str, curves: bool) -> None:
    what = "curves" if curves else "runs"
    every = load(folder, curves=curves)
    found = read(kind, client.get(f"/data/{what}.{kind}?all=1").content)
    columns = [name for name in every if name not in ("budgets", "rules", "observed")]  # empty texts, in CSV not known
    pd.testing.assert_frame_equal(found[columns], every[columns])
    mask = (every.dataset == "synthetic") & (every.n_arms == 6) & every.policy.isin(PICKED["policy"])
    some = read(kind, client.get(f"/data/{what}.{kind}", params=PICKED).content)
    pd.testing.assert_frame_equal(some[columns], every[mask][columns].reset_index(drop=True))


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_data_of_a_figure_are_what_it_shows(client: TestClient, folder: Path, kind: str) -> None:
    runs = read("csv", client.get("/data/runs.csv", params=PICKED).content)
    mean = runs.groupby("policy").fairness_regret.mean()
    regret = read(kind, client.get(f"/data/regret.{kind}", params=PICKED).content)
    last = regret[regret.episode == 3].set_index("policy").fairness_regret
    pd.testing.assert_series_equal(last, mean[last.index])
    exposure = read(kind, client.get(f"/data/exposure.{kind}", params=PICKED).content)
    sums = exposure.groupby("policy").exposure.sum()
    np.testing.assert_allclose(sums[["merit-fair", "none"]], [2, 0])
    benefit = read(kind, client.get(f"/data/benefit.{kind}", params=PICKED).content).set_index("policy")
    pd.testing.assert_series_equal(benefit.fairness_regret, mean[benefit.index])
    assert benefit.intervention_benefit["none"] == 0
    assert benefit.best["merit-fair"]
    results = read(kind, client.get(f"/data/results.{kind}", params=PICKED).content)
    assert results.policy.tolist() == ["merit-fair", "none"]


@pytest.mark.parametrize(
    "address",
    ["/nothing", "/figure/regret.gif", "/figure/reward.svg", "/data/runs.xlsx", "/data/regret.csv?all=1", "/report"],
)
def test_what_there_is_not(client: TestClient, address: str) -> None:
    answer = client.get(address)
    assert answer.status_code == 404
    assert "Not found" in answer.text
    assert 'href="/"' in answer.text


# --- folders that are not whole ----------------------------------------------


def test_a_sweep_that_is_running_is_shown_as_far_as_it_is(copy: Path) -> None:
    missing = [task for task in Manifest.read(copy).tasks if task.setting.policy in ("none", "whittle") and task.first]
    data = {Store(copy).path(task): Store(copy).path(task).read_bytes() for task in missing}
    for path in data:
        path.unlink()
    shown = browse(copy)
    text = shown.get("/compare").text
    assert "24 of 32 tasks are there." in text
    assert "Not all runs are there yet: none, whittle." in text
    assert '<progress max="32" value="24"' in text
    for path, content in data.items():
        path.write_bytes(content)
    assert "tasks are there" not in shown.get("/compare").text


def test_a_damaged_shard_is_named_and_the_rest_is_shown(copy: Path) -> None:
    kept = Manifest.read(copy).tasks[0]
    path = Store(copy).path(kept)
    path.write_bytes(path.read_bytes()[:-1])
    shown = browse(copy)
    for address in ("/", "/compare", "/results"):
        text = shown.get(address).text
        assert f"Damaged shard, left out: shards/{path.name}" in text
        assert "31 of 32 tasks are there." in text
    assert len(read("csv", shown.get("/data/runs.csv?all=1").content)) == 16 * 12 - 10


def test_nothing_played_yet(tmp_path: Path) -> None:
    (tmp_path / "begun").mkdir()
    keep_manifest(tasks([SPEC]), tmp_path / "begun")
    shown = browse(tmp_path / "begun")
    assert "0 of 32 tasks are there." in shown.get("/").text
    assert "None of this has been played yet" in shown.get("/compare").text
    assert "Nothing has been played yet" in shown.get("/results").text
    for address in ("/figure/regret.svg", "/data/runs.csv", "/data/results.csv?all=1"):
        answer = shown.get(address)
        assert (answer.status_code, "none of this has been played yet" in answer.text) == (422, True)


def test_a_shard_is_read_again_only_if_it_has_changed(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Folder(copy)
    before = found.look()
    assert found.look() is before
    asked: list[str] = []
    real = Store.read

    def noted(self: Store, task: Task) -> Outcome | None:
        asked.append(task.key)
        return real(self, task)

    monkeypatch.setattr(Store, "read", noted)
    path = Store(copy).path(Manifest.read(copy).tasks[5])
    path.write_bytes(path.read_bytes())
    os.utime(path, ns=(1, 1))
    after = found.look()
    assert asked == [path.stem]
    assert after is not before
    assert after.results.missing == 0


def test_a_folder_that_goes_away_is_told_and_does_not_stop_the_server(copy: Path) -> None:
    shown = browse(copy)
    shutil.move(copy, copy.with_name("elsewhere"))
    answer = shown.get("/")
    assert (answer.status_code, "there is no such folder" in answer.text) == (422, True)
    shutil.move(copy.with_name("elsewhere"), copy)
    assert shown.get("/").status_code == 200


# --- a reproduction ----------------------------------------------------------


def test_a_reproduction_has_its_verdicts_and_its_files(paper: Path) -> None:
    shown = browse(paper)
    assert "A reproduction of the paper" in shown.get("/").text
    text = shown.get("/report").text
    assert "1 hold, 1 do not hold, and 1 are inconclusive." in text
    assert "Regret &lt;b&gt;grows&lt;/b&gt;." in text
    assert "exponent 0.6" in text
    for name in ("figures/figure-1.svg", "tables/table-1.csv", "verdicts.csv", "report.html"):
        assert f'href="/files/{name}"' in text
        answer = shown.get(f"/files/{name}")
        assert answer.content == (paper / name).read_bytes()
        assert "script-src" not in answer.headers["content-security-policy"]
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")


def test_a_reproduction_without_verdicts_or_report(paper: Path) -> None:
    (paper / "verdicts.csv").write_text("something,else\n1,2\n")
    shown = browse(paper)
    assert "verdicts.csv" in shown.get("/").text  # what is wrong with it is told
    (paper / "verdicts.csv").unlink()
    assert "The verdicts are in the report alone." in shown.get("/report").text
    (paper / "report.html").unlink()
    assert "There is no report yet" in shown.get("/report").text
    assert shown.get("/files/report.html").status_code == 404


@pytest.mark.parametrize(
    "name",
    [
        "../secret.txt",
        "..%2fsecret.txt",
        "%2e%2e/secret.txt",
        "figures/../../secret.txt",
        "figures/..%2f..%2fsecret.txt",
        "/etc/passwd",
        "%2fetc%2fpasswd",
        "figures/",
        "figures",
        "sweep.json",
        "shards/x.parquet",
        "figures/link.svg",
        "figures/circle.svg",
        "linked/figure-1.svg",
        "figures/figure-1.svg%00.png",
        "report.html/",
        "REPORT.HTML",
        "figures\\figure-1.svg",
        "figures/folder.svg",
    ],
)
def test_nothing_outside_is_handed_out(paper: Path, name: str) -> None:
    (paper.parent / "secret.txt").write_text("secret")
    (paper / "figures" / "link.svg").symlink_to(paper.parent / "secret.txt")
    (paper / "figures" / "circle.svg").symlink_to(paper / "figures" / "circle.svg")
    (paper / "figures" / "folder.svg").mkdir()
    (paper / "linked").symlink_to(paper / "figures")
    answer = browse(paper).get(f"/files/{name}")
    assert answer.status_code == 404
    assert "secret" not in answer.text.replace("secret.txt", "")


def test_a_folder_of_figures_that_leads_elsewhere(paper: Path) -> None:
    shutil.move(paper / "figures", paper.parent / "outside")
    (paper / "figures").symlink_to(paper.parent / "outside")
    assert file_of(paper, "figures/figure-1.svg") is None
    link = paper.parent / "alias"
    link.symlink_to(paper)  # the folder itself may be a link
    assert file_of(link, "tables/table-1.csv") is not None


# --- who is answered ---------------------------------------------------------


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", ""])
def test_other_names_of_the_host_are_refused(client: TestClient, host: str) -> None:
    assert client.get("/", headers={"host": host}).status_code == 400
    assert client.get("/", headers={"host": "localhost:8000"}).status_code == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
@pytest.mark.parametrize("address", ["/", "/compare", "/files/report.html", "/data/runs.csv"])
def test_nothing_can_be_changed(client: TestClient, method: str, address: str) -> None:
    assert client.request(method, address).status_code == 405


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.5", "::", "example.org", "", "127.0.0.1.example"])
def test_an_address_that_others_can_reach_is_refused(host: str) -> None:
    with pytest.raises(mf.InputError, match="host must be this machine itself"):
        listen_here(host, 0)


def test_a_free_port_near_8000() -> None:
    with listen_here("localhost", 0) as first, listen_here("127.0.0.1", 0) as second:
        port = first.getsockname()[1]
        assert port >= 8000
        assert second.getsockname()[1] != port
        assert address_of(first) == f"http://127.0.0.1:{port}/"
        with pytest.raises(mf.InputError, match=f"cannot listen on 127.0.0.1, port {port} .Address already in use"):
            listen_here("127.0.0.1", port)


# --- picking -----------------------------------------------------------------


class Asked(dict[str, list[str]]):
    """A query, as starlette has it."""

    def get(self, key: str, default: str) -> str:  # type: ignore[override]
        return super().get(key, [default])[-1]

    def getlist(self, key: str) -> list[str]:
        return super().get(key, [])


def test_what_is_picked_can_be_asked_for_again() -> None:
    wording = Wording(SPEC.settings())
    query = Asked(dataset=["synthetic"], n_arms=["6"], policy=["none", "no such policy"])
    choice = choose(wording, query)
    assert [field.name for field in choice.fields] == ["dataset", "n_arms", "budget"]
    assert [field.value for field in choice.fields] == ["synthetic", "6", "2"]
    assert [each.policy for each in choice.shown] == ["none"]
    assert choice.query == "dataset=synthetic&n_arms=6&budget=2&policy=none"
    assert [each.policy for each in choose(wording, Asked()).shown] == list(POLICIES)


# --- the command -------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["missing"], "missing: there is no such folder"),
        (["empty"], "empty: has no results of a sweep in it"),
        (["file.txt"], "file.txt: is not a folder"),
        (["found", "--host", "0.0.0.0"], "host must be this machine itself"),
        (["found", "--port", "70000"], "less than or equal to 65535"),
    ],
)
def test_what_cannot_be_shown_is_one_line(
    arguments: list[str],
    problem: str,
    copy: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(copy.parent)
    Path("empty").mkdir()
    Path("file.txt").write_text("")
    with pytest.raises(SystemExit) as stopped:
        main(["view", *arguments])
    told = capsys.readouterr()
    assert stopped.value.code == 2
    assert problem in told.err
    assert told.err.count("\n") == 1
    assert told.out == ""


@pytest.mark.slow
def test_the_command_serves_until_it_is_interrupted(folder: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "meritfair", "view", str(folder), "--port", str(port), "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert f"http://127.0.0.1:{port}/" in process.stdout.readline()
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/compare", timeout=60) as answer:
                assert answer.status == 200
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, out, err) == (0, "", "")
