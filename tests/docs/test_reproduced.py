"""What the pages print of the full reproduction is what it gave.

`./mf reproduce --json > tests/data/reproduced.json` writes the only source of these numbers anew.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from meritfair.lab.spec import Spec
from meritfair.lab.tasks import Task, play
from meritfair.model.merit import Exponential
from meritfair.reproduction import ARTEFACTS, BEYOND
from meritfair.reproduction.artefact import Verdict
from meritfair.reproduction.prose import count_verdicts, standing
from meritfair.reproduction.published import printed
from meritfair.reproduction.reproduce import FULL
from meritfair.reproduction.table1 import TABLE_1

ROOT = Path(__file__).parents[2]
FOUND = json.loads((ROOT / "tests" / "data" / "reproduced.json").read_text(encoding="utf-8"))
SECTIONS: dict[str, dict[str, Any]] = FOUND["sections"]


def text_of(page: str) -> str:
    """Return a page with lines joined and nothing bold."""
    return " ".join((ROOT / page).read_text(encoding="utf-8").replace("**", "").split())


README, REPRODUCING, PAPER = (text_of(page) for page in ("README.md", "docs/reproducing.md", "docs/paper.md"))


def found(section: str, claim: str) -> str:
    """Return the numbers behind the one verdict whose claim has these words."""
    (verdict,) = (each for each in SECTIONS[section]["verdicts"] if claim in each["claim"])
    return str(verdict["found"])


def numbers(pattern: str, text: str) -> tuple[str, ...]:
    """Return what is found in the places of a pattern."""
    match = re.search(pattern, text)
    assert match, f"{pattern!r} is not in {text!r}"
    return match.groups()


def cells(table: str, section: str) -> list[list[str]]:
    rows: list[list[str]] = SECTIONS[section]["tables"][table]["cells"]
    return rows


def test_the_file_is_of_a_full_run_of_all_parts() -> None:
    assert list(SECTIONS) == [each.name for each in ARTEFACTS]
    assert [name for name, each in SECTIONS.items() if each["beyond"]] == list(BEYOND)
    assert {each["note"] for each in SECTIONS.values()} == {""}
    assert (FOUND["left_out"], FOUND["tasks"]["failed"]) == ({}, 0)
    assert all(" hold" in each["rule"] for of in SECTIONS.values() for each in of["verdicts"])


@pytest.mark.parametrize(("number", "whose", "beyond"), [(0, "of the paper", False), (1, "beyond it", True)])
def test_claims_are_counted_as_the_pages_have_it(number: int, whose: str, beyond: bool) -> None:
    verdicts = [Verdict(**each) for of in SECTIONS.values() if of["beyond"] == beyond for each in of["verdicts"]]
    assert FOUND["summary"][number] == count_verdicts(verdicts, whose)
    assert FOUND["summary"][number] in REPRODUCING


def test_the_readme_counts_them_too() -> None:
    of_paper = [each["holds"] for of in SECTIONS.values() if not of["beyond"] for each in of["verdicts"]]
    counts = Counter(standing(each).key for each in of_paper)
    said = numbers(r"Of the paper's (\d+) claims (\d+) hold, (\d+) do not, and (\d+) (?:is|are) inconclusive", README)
    assert [int(each) for each in said] == [len(of_paper), *(counts[key] for key in ("yes", "no", "open"))]


def test_headlines_are_those_of_the_page() -> None:
    assert len(FOUND["headlines"]) == 4
    for headline in FOUND["headlines"]:
        assert headline in REPRODUCING


def test_t0_and_g_and_what_the_table_has_for_them() -> None:
    row = next(each for each in cells("table-1", "table-1") if each[:2] == ["Synthetic", "5"])
    t0, G = (float(row[place].split()[0]) for place in (4, 8))
    assert f"t0 measures {t0:.0f} for Synthetic with N = 5, K = 1, and G {G:.0f}" in PAPER
    assert f"the table has {row[3]} under G and {row[7]} under t0" in PAPER
    as_printed, swapped = SECTIONS["table-1"]["headline"].split()[-1].rstrip("."), "all 30 numbers"
    assert f"{swapped} are within sampling error; as printed, {as_printed}." in PAPER
    assert "30 of 30 published numbers are within sampling error" in SECTIONS["table-1"]["headline"]


def test_the_one_instance_that_does_not_reach_t0() -> None:
    reached, runs, arms = numbers(
        r"Reached in (\d+) of (\d+) runs of 10,000 episodes, not in 1 of Synthetic with N = (\d+)",
        found("table-1", "There is a t0"),
    )
    assert f"for one of the {runs} instances (Synthetic, N = {arms}" in PAPER
    assert int(runs) - int(reached) == 1
    assert "the authors' code writes the horizon, 200," in PAPER


@pytest.mark.slow
def test_it_is_the_one_with_the_seed_number_that_is_said() -> None:
    (number,) = numbers(r"\(Synthetic, N = 100, seed number (\d+)\)", PAPER)
    (setting,) = TABLE_1.specs(FULL)[0].settings()[4:5]
    assert (setting.dataset, setting.n_arms) == ("synthetic", 100)
    outcome = play(Task(setting, int(number) - 1, 1))  # the authors count from 1
    assert outcome.measures["first_valid_episode_censored"].tolist() == [1]
    assert outcome.measures["first_valid_episode_authors"].tolist() == [200]


def test_optimal_as_drawn_and_its_own() -> None:
    low, high = numbers(r"regret is ([\d.]+) to ([\d.]+) times", found("optimal-both-ways", "show its fairness regret"))
    assert f"As drawn, Optimal's regret is {low} to {high} of its own" in PAPER


@pytest.mark.parametrize(
    ("version", "name"),
    [
        (1, 'Li and Varakantham\'s release (`update="li"`)'),
        (2, "ours (`fawt-q`)"),
        (3, "the MF-RMAB repository's"),
        (4, "the same, visits and indices at the right age"),
    ],
)
def test_appendix_a_by_version_of_fawt_q(version: int, name: str) -> None:
    part, best, most = (row[version] for row in cells("appendix-a-versions", "appendix-a")[:3])
    assert f"| {name} | {part} | {best} | {most} |" in PAPER


def test_what_is_said_of_appendix_a_in_words() -> None:
    rows = {row[0]: row[1:] for row in cells("appendix-a-versions", "appendix-a")}
    (both,) = (answers for claim, answers in rows.items() if claim.startswith("MF-RMAB is both at once"))
    assert both == ["does not hold", "does not hold", "holds", "inconclusive"]
    assert "With both ages corrected the claim is inconclusive" in PAPER
    best, most = (list(rows.values())[place][2] for place in (1, 2))
    assert f"with most pulls have {most}, the best two in five {best}" in PAPER


def test_which_c_is_more_equal_than_which_window() -> None:
    for panel in found("appendix-a", "more egalitarian").split("N = ")[1:]:
        ginis = {knob: float(gini) for gini, knob in re.findall(r"(0\.\d+) with ([cL] = \d+)", panel)}
        if not ginis:
            continue  # the pairs that are named before
        assert set(ginis) == {"c = 1", "c = 3", "L = 15", "L = 30", "L = 50"}
        assert ginis["c = 1"] < min(gini for knob, gini in ginis.items() if knob != "c = 1")
        assert ginis["c = 3"] >= ginis["L = 15"]
    assert "c = 1 is more equal than any FaWT-Q, c = 3 is not more equal than L = 15." in PAPER


def test_the_spread_with_c_of_1() -> None:
    absolute = found("appendix-b-c1", "The variance of regret has increased.")
    parts = [float(each) for each in re.findall(r"(0\.\d+) \(", absolute)]
    assert 0.3 < min(parts) < max(parts) < 0.45
    assert "is about a third of that with c = 3" in PAPER
    (times,) = numbers(
        r"([\d.]+) \([\d.]+ to [\d.]+\) on Synthetic-alternate", found("appendix-b-c1", "relative to the mean")
    )
    assert f"higher on Synthetic-alternate only ({float(times):.1f} times)" in PAPER


def test_the_lemmas_limit_and_g() -> None:
    lemma = found("theorem-5-5", "In every G episodes")
    (limit,) = numbers(r"1/psi is ([\d.]+)", lemma)
    waits = [float(each) for each in re.findall(r"G is (?:≥ )?([\d.]+) \(", lemma)]
    said = f"for c = 1 it is {float(limit):.1f} with N = 5, and G measures {min(waits):.0f} to {max(waits):.0f}."
    assert said in PAPER


def test_the_steepness_of_merit() -> None:
    merit = Exponential(3.0)
    assert f"L/gamma alone is {merit.lipschitz / merit.gamma:,.0f} for c = 3" in PAPER


def mean_t0(dataset: str, size: tuple[int, int], seed: int) -> float:
    """Return the mean t0 of 30 runs, as the authors' code measures it; 200 episodes are enough for all to reach it."""
    same: dict[str, Any] = {"policies": ("merit-fair",), "episodes": 200, "authors": True}
    (setting,) = Spec(datasets=(dataset,), sizes=(size,), seed=seed, **same).settings()
    outcome = play(Task(setting, 0, 30))
    assert not outcome.measures["first_valid_episode_censored"].any()
    return float(outcome.measures["first_valid_episode_authors"].mean())


@pytest.mark.slow
def test_t0_of_cpap_by_how_arms_are_generated() -> None:
    one, other = (
        [f"{np.mean([mean_t0(dataset, size, seed) for seed in range(8)]):.0f}" for size in ((5, 1), (10, 2))]
        for dataset in ("cpap:reseed=false", "cpap")
    )
    assert f"measures {one[0]} and {one[1]}; with a new generator" in PAPER
    assert f"`authors=True`), {other[0]} and {other[1]} (means of eight seeds, 30 runs each)" in PAPER
    published = [printed()["CPAP", n].G for n in (5, 10)]  # its columns are swapped
    assert f"t0 = {published[0]} and {published[1]} for N = 5 and 10" in PAPER
