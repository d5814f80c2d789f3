"""The report: one page that stands alone, and files that are the same bytes each time."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import meritfair as mf
from lab.made_up import TINY, Numbers, draw
from meritfair.core.figures import Band
from meritfair.lab.spec import Spec
from meritfair.lab.spec_file import SpecFile
from meritfair.reproduction import ARTEFACTS
from meritfair.reproduction.artefact import Artefact, Findings, PaperTable, Scale, Verdict
from meritfair.reproduction.prose import count_verdicts, standing
from meritfair.reproduction.report import (
    Report,
    Section,
    render,
    save_figure,
    save_tables,
    spec_text,
    write_report,
)
from meritfair.reproduction.reproduce import FULL, QUICK

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EMPTY = {"meta", "br", "img", "hr", "link", "input"}  # elements that have no end
SPEC = Spec(datasets=("cpap:reseed=false",), sizes=((5, 1), (10, 2)), policies=("optimal",), episodes=100, authors=True)
SVG = b'<svg xmlns="http://www.w3.org/2000/svg"/>'


class Page(HTMLParser):
    """What a test wants to know of a page; refuses elements that are not closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.words = ""
        self.blocks: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        self.blocks += [""] * (tag == "pre")
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["pre"]:
            self.blocks[-1] += data
        if self.open[-1:] != ["style"]:
            self.words += f" {data}"

    def all(self, attribute: str) -> list[str]:
        return [attributes[attribute] for _, attributes in self.elements if attribute in attributes]


def section(**changes: object) -> Section:
    table = PaperTable("found", "A table", ["data set", "G"], [["CPAP", "8\n7 to 9"]], {"G": [8.25]})
    verdicts = (
        Verdict("Regret is sublinear.", "Section 6.3", True, "T^0.61 (0.58 to 0.65)"),
        Verdict("t0 < 40 & low", "Table 1", False, "37 to 669"),
        Verdict("Least at 0.3.", "Figure 2", None, "0.3 or 0.4"),
    )
    findings = Findings(None, "What is asked.", "What is to be seen.", "", (table,), verdicts, "It grows as T^0.61.")
    made = Section("figure-2", "Figure 2: regret", findings, specs=(SPEC,), figure=SVG)
    return Section(**{**vars(made), "files": ("figures/figure-2.svg",), **changes})


def page(*sections: Section, scale: Scale | None = None, **more: object) -> Page:
    return Page(render(Report(scale or Scale(), sections or (section(),), **more)))  # type: ignore[arg-type]


def figure() -> Figure:
    steps = np.arange(1.0, 5.0)
    return draw(Numbers(Band(steps, steps, steps - 0.5, steps + 0.5)))


def test_the_page_needs_nothing_beside_it() -> None:
    text = render(Report(Scale(), (section(),)))
    found = Page(text)
    assert not {"script", "link", "iframe", "object"} & {tag for tag, _ in found.elements}
    assert all(source.startswith("data:image/svg+xml;base64,") for source in found.all("src"))
    assert not re.search(r"url\(|@import", text)


def test_links_lead_somewhere_and_names_are_there_once() -> None:
    found = page(section(), section(name="table-1", title="Table 1", beyond=True, files=()))
    names = Counter(name for name in found.all("id") if name != "table-found")
    assert set(names.values()) == {1}
    inside = [link[1:] for link in found.all("href") if link.startswith("#")]
    assert {"figure-2", "table-1"} <= set(inside) <= set(names)
    assert "figures/figure-2.svg" in found.all("href")


def test_verdicts_are_shown_by_sign_and_words() -> None:
    words = page().words
    for shown in ("✓ holds", "✗ does not hold", "? inconclusive"):
        assert words.count(shown) == 3  # what it means, in the summary, and beside the figure
    assert "Of 3 claims of the paper, 1 holds, 1 does not hold and 1 is inconclusive." in words


def test_text_is_shown_as_it_is() -> None:
    hostile = Verdict("<script>alert(1)</script>", "a < b", True, "<b>x^2</b>")
    text = render(Report(Scale(), (section(findings=Findings(None, verdicts=(hostile,)), title="A & B"),)))
    assert "<script>" not in text
    assert "&lt;b&gt;x<sup>2</sup>&lt;/b&gt;" in text
    assert "A &amp; B" in text


def test_powers_are_raised() -> None:
    assert "It grows as T<sup>0.61</sup>." in render(Report(Scale(), (section(),)))


def test_a_figure_has_an_alternative_text_and_its_caption() -> None:
    found = page()
    (image,) = [attributes for tag, attributes in found.elements if tag == "img"]
    assert "Figure 2: regret" in image["alt"]
    assert image["aria-describedby"] in found.all("id")
    assert "What is to be seen." in found.words


def test_a_section_without_a_figure_still_tells_its_caption() -> None:
    found = page(section(figure=b""))
    assert "figure" not in {tag for tag, _ in found.elements}
    assert "What is to be seen." in found.words


def test_a_quick_look_says_so_and_a_full_one_does_not() -> None:
    quick = page(section(note="Quick look: 3 runs of 4 episodes"), scale=TINY).words
    assert "Quick look: 3 runs instead of 30, and shorter ones" in quick
    assert "Quick look: 3 runs of 4 episodes." in quick
    assert "Quick look" not in page().words


@pytest.mark.parametrize("artefact", ARTEFACTS, ids=lambda each: each.name)
def test_what_a_part_says_of_its_length_is_what_its_specs_have(artefact: Artefact) -> None:
    lengths = {
        "appendix-a": ("100", "1,000"),
        "appendix-a-slack": ("100", "1,000"),
        "designs": ("100", "1,000"),
        "pooled": ("50", "200"),
        "over-time": ("50 and 100", "200 and 1,000"),
    }
    here, full = lengths.get(artefact.name, ("1,000", "10,000"))
    assert artefact.note(QUICK) == f"Quick look: 10 runs of {here} episodes; the full version has 30 of {full}"
    assert {f"{spec.episodes:,}" for spec in artefact.specs(QUICK)} == set(here.split(" and "))
    assert artefact.note(FULL) == ""


def test_each_claim_has_its_rule() -> None:
    rule = Verdict("It grows.", "Section 6.3", True, "exponent 0.6", "It holds if the exponent is below 1.")
    words = page(section(findings=Findings(None, verdicts=(rule,)))).words
    assert "Found: exponent 0.6" in words
    assert "Rule: It holds if the exponent is below 1." in words
    assert "Rule:" not in page().words


def test_what_is_missing_is_named() -> None:
    words = page(left_out={"Figure 9": "2 of its 4 tasks failed"}, others=5).words
    assert "Figure 9: 2 of its 4 tasks failed" in words
    assert "5 more" in words
    assert "Parts are missing" not in page().words


def test_headlines_and_how_it_was_made_are_told() -> None:
    words = page(headlines=("One to remember.",), made_with={"Machine": "an abacus"}).words
    assert "One to remember." in words
    assert "an abacus" in words


def test_a_report_of_nothing_is_a_page() -> None:
    assert "reproduced" in Page(render(Report(Scale(), ()))).words


def test_numbers_stand_to_the_right_and_text_to_the_left() -> None:
    cells = [attributes["class"] for tag, attributes in page().elements if tag == "td" and "class" in attributes]
    assert [each.split()[0] for each in cells] == ["left", "right"]


@pytest.mark.parametrize(
    ("verdicts", "words"),
    [
        ([], ""),
        ([True], "Of 1 claim of ours, 1 holds."),
        ([False, False], "Of 2 claims of ours, 2 do not hold."),
        ([True, False, None], "Of 3 claims of ours, 1 holds, 1 does not hold and 1 is inconclusive."),
    ],
)
def test_counts_in_words(verdicts: list[bool | None], words: str) -> None:
    assert count_verdicts([Verdict("", "", each, "") for each in verdicts], "of ours") == words


def test_a_verdict_of_numpy_stands_as_one_of_python() -> None:
    assert standing(np.bool_(True)).words == "holds"  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("scale", [FULL, QUICK], ids=["full", "quick"])
@pytest.mark.parametrize("artefact", ARTEFACTS, ids=lambda each: each.name)
def test_specs_can_be_run_as_they_are_printed(artefact: Artefact, scale: Scale, tmp_path: Path) -> None:
    specs = artefact.specs(scale)
    printed = page(section(specs=specs)).blocks
    assert len(printed) == len(specs)
    for block, spec in zip(printed, specs, strict=True):
        (tmp_path / "spec.toml").write_text(block, encoding="utf-8")
        file = SpecFile.read(tmp_path / "spec.toml")
        assert file.spec == spec
        file.try_out(spec.settings())  # as `meritfair sweep` does before it plays


def test_arms_of_the_authors_are_the_same_for_every_seed() -> None:
    printed = spec_text(SPEC)
    assert "seed = 0\nauthors = true  # their seed numbers 1, 2, …" in printed
    other = replace(SPEC, seed=7).settings()[0].arms(range(2))
    assert [arms.transitions.tolist() for arms in other] == [
        mf.datasets.cpap(5, number, authors=True, budget=1, reseed=False).transitions.tolist() for number in (1, 2)
    ]


def test_a_figure_is_the_same_bytes_each_time_without_a_date(tmp_path: Path) -> None:
    first, second = (tmp_path / name for name in ("first", "second"))
    for folder in (first, second):
        folder.mkdir()
        assert save_figure(figure(), folder, "regret", "A remark", "A note") == (folder / "regret.svg").read_bytes()
    names = sorted(file.name for file in first.iterdir())
    assert names == ["regret.pdf", "regret.png", "regret.svg"]
    for name in names:
        content = (first / name).read_bytes()
        assert content == (second / name).read_bytes()
        assert not re.search(rb"CreationDate|<dc:date>|20\d\d-\d\d-\d\d", content)


def test_a_note_stands_above_all_that_is_drawn(tmp_path: Path) -> None:
    from matplotlib.image import imread

    plain, noted = figure(), figure()
    save_figure(plain, tmp_path, "plain")
    save_figure(noted, tmp_path, "noted", note="A note")
    (text,) = [each for each in noted.texts if each.get_text() == "A note"]
    (legend,) = noted.legends
    title = noted.axes[0].title
    assert text.get_window_extent().y0 > legend.get_window_extent().y1
    assert legend.get_window_extent().y0 > title.get_window_extent().y1
    heights = [imread(tmp_path / f"{name}.png").shape[0] for name in ("plain", "noted")]
    assert heights[1] - heights[0] == 36  # 0.3 inches at 120 dots
    assert "A note" not in [each.get_text() for each in plain.texts]


def test_tables_are_exact_as_csv_and_plain_as_latex(tmp_path: Path) -> None:
    table = PaperTable(
        "t-1", "", ["a_b", "≥ 5 ± 2"], [["x & “y”", "√2 ≤ 3·10¹²"]], {"name": ["x, y"], "value": [1 / 3]}
    )
    files = save_tables([table], tmp_path)
    assert [file.name for file in files] == ["t-1.csv", "t-1.tex"]
    rows = list(csv.reader(io.StringIO(files[0].read_text())))
    assert rows == [["name", "value"], ["x, y", repr(1 / 3)]]
    text = files[1].read_text()
    assert text.isascii()
    assert r"x \& ``y'' & $\sqrt{}$2 $\leq$ 3$\cdot$10$^{12}$ \\" in text
    assert r"$\geq$ 5 $\pm$ 2" in text


def test_a_report_replaces_an_old_one(tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text("old")
    write_report(Report(Scale(), (section(),)), file)
    assert file.read_text(encoding="utf-8") == render(Report(Scale(), (section(),)))
    assert sorted(each.name for each in tmp_path.iterdir()) == ["report.html", "verdicts.csv"]


def test_verdicts_are_a_table_beside_the_report(tmp_path: Path) -> None:
    claims = (Verdict("Regret grows.", "Section 1", False, "it falls"), Verdict("=1+1", "", None, "nobody knows"))
    beyond = Section("b", "B", Findings(None, verdicts=(Verdict("More.", "", True, "yes"),)), beyond=True)
    write_report(
        Report(Scale(), (Section("a", "A", Findings(None, verdicts=claims)), beyond)), tmp_path / "report.html"
    )
    with (tmp_path / "verdicts.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [(row["artefact"], row["about"], row["verdict"]) for row in rows] == [
        ("a", "the paper", "does not hold"),
        ("a", "the paper", "inconclusive"),
        ("b", "beyond the paper", "holds"),
    ]
    assert (rows[0]["claim"], rows[0]["where"], rows[0]["found"]) == ("Regret grows.", "Section 1", "it falls")
    assert rows[1]["claim"] == "'=1+1"  # no formula
