"""The report of a reproduction: files of figures and tables, and one page of HTML that needs nothing beside it.

What a figure or a table says depends on the findings of its artefact alone. No time, host or path is in it, so it is
the same bytes each time. Only the page says when, where and how long.

Examples
--------
>>> from meritfair.reproduction.artefact import Findings, Scale, Verdict
>>> verdict = Verdict("Regret grows more slowly than time.", "Section 6.3", True, "exponent 0.6 (0.5 to 0.7)")
>>> section = Section("figure-2", "Figure 2", Findings(None, about="What is asked.", verdicts=(verdict,)))
>>> page = render(Report(Scale(), (section,)))
>>> "✓" in page and "exponent 0.6" in page
True
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import meritfair
from meritfair.core.figures import house_style
from meritfair.core.storage import write_whole
from meritfair.core.tables import latex_table, write_table
from meritfair.lab.spec import Spec
from meritfair.reproduction.artefact import Findings, PaperTable, Scale, Verdict
from meritfair.reproduction.prose import count_verdicts, environment, standing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".svg", ".png", ".pdf")
VERDICTS = "verdicts.csv"
_DPI = 120
_STRIP = 0.3  # inches
_POWER = re.compile(r"\^(\d+(?:\.\d+)?)")
_AUTHORS = "  # their seed numbers 1, 2, … are the arms of the runs; seed is for all else"
_ALWAYS = ("datasets", "sizes", "policies", "merits", "episodes", "runs", "seed")  # what a spec always says


@dataclass(frozen=True)
class Section:
    """An artefact as the report shows it.

    Attributes
    ----------
    name, title : str
        As the artefact has them.
    findings : Findings
        What it says; the numbers are not looked at.
    beyond : bool
        Whether it goes beyond the paper.
    specs : tuple of Spec
        What was played for it.
    note : str
        What has to be said of how long its runs are, empty at full scale.
    figure : bytes
        Its drawing as SVG, empty if it has none.
    files : tuple of str
        Its files, relative to the report.
    """

    name: str
    title: str
    findings: Findings
    beyond: bool = False
    specs: tuple[Spec, ...] = ()
    note: str = ""
    figure: bytes = b""
    files: tuple[str, ...] = ()


@dataclass(frozen=True)
class Report:
    """All that the page says.

    Attributes
    ----------
    scale : Scale
    sections : tuple of Section
    headlines : tuple of str
        What to remember, a sentence each.
    made_with : mapping of str to str
        Versions, machine, time: a line for each.
    left_out : mapping of str to str
        Why an artefact is missing, by title.
    others : int
        How many artefacts were not asked for.
    """

    scale: Scale
    sections: tuple[Section, ...]
    headlines: tuple[str, ...] = ()
    made_with: Mapping[str, str] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    others: int = 0

    def verdicts(self, *, beyond: bool) -> tuple[Verdict, ...]:
        """Return the verdicts on the paper, or on what goes beyond it."""
        return tuple(verdict for each in self.sections if each.beyond == beyond for verdict in each.findings.verdicts)

    @property
    def summary(self) -> tuple[str, ...]:
        """How many claims hold, a sentence for those of the paper and one for those beyond it."""
        kinds = {"of the paper": False, "beyond it": True}
        counts = (count_verdicts(self.verdicts(beyond=beyond), whose) for whose, beyond in kinds.items())
        return tuple(filter(None, counts))


def save_figure(figure: Figure, folder: Path, name: str, remark: str = "", note: str = "") -> bytes:
    """Write a figure in all formats, with a remark below it and a note in a strip above it, if any; return the SVG.

    The layout is found once, and each format drawn once: `Figure.savefig` does both anew for each, which takes twice
    as long.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_pdf import FigureCanvasPdf
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    formats: dict[str, tuple[Any, dict[str, None]]] = {
        ".png": (FigureCanvasAgg, {}),  # first, as the others leave a figure with dots of their own
        ".svg": (FigureCanvasSVG, {"Date": None}),
        ".pdf": (FigureCanvasPdf, {"CreationDate": None}),
    }
    drawn = {}
    with house_style():
        figure.set_dpi(_DPI)
        figure.supxlabel(remark, fontsize=8.5, color="#444444", x=0.01, ha="left")
        _lay_out(figure, _STRIP if note else 0.0)
        if note:
            figure.text(0.01, 1 - _STRIP / 2 / figure.get_figheight(), note, fontsize=9, color="#a63c00", va="center")
        for suffix, (canvas, metadata) in formats.items():
            stream = io.BytesIO()
            getattr(canvas(figure), f"print_{suffix[1:]}")(stream, metadata=metadata)
            drawn[suffix] = stream.getvalue()
            _write(folder / f"{name}{suffix}", drawn[suffix])
    return drawn[".svg"]


def _lay_out(figure: Figure, strip: float) -> None:
    """Find the layout of a figure, once and for all, with a free strip of that many inches above all that is drawn."""
    width, height = figure.get_size_inches()
    top = height / (height + strip)
    figure.set_size_inches(width, height + strip)
    figure.set_layout_engine("constrained", rect=(0, 0, 1, top))
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for legend in figure.legends:
        legend.set_bbox_to_anchor((0, 0, 1, top), transform=figure.transFigure)


def save_tables(tables: Sequence[PaperTable], folder: Path) -> tuple[Path, ...]:
    """Write tables as .csv in full precision and as .tex as people are shown them; return the files."""
    written = []
    for table in tables:
        numbers, text = folder / f"{table.name}.csv", folder / f"{table.name}.tex"
        write_table(numbers, "tables", table.columns)
        _write(text, latex_table(table.headings, table.cells).encode())
        written += [numbers, text]
    return tuple(written)


def spec_text(spec: Spec) -> str:
    """Return a spec as the text of a file for `meritfair sweep`; what is as by default is left out, or nearly so.

    Examples
    --------
    >>> from meritfair.lab.spec import Spec
    >>> print(spec_text(Spec(datasets=("cpap",), sizes=((5, 1), (10, 2)), policies=("optimal",), episodes=100)))
    datasets = ["cpap"]
    sizes = [[5, 1], [10, 2]]
    policies = ["optimal"]
    merits = ["exponential:c=3"]
    episodes = 100
    runs = 30
    seed = 0
    """
    default = {
        each.name: each.default for each in fields(spec) if each.name not in ("own_arms", "own_policies", *_ALWAYS)
    }
    others = [name for name, value in default.items() if getattr(spec, name) != value]
    lines = (f"{name} = {json.dumps(getattr(spec, name))}" for name in (*_ALWAYS, *others))
    return "\n".join(line + _AUTHORS * (line == "authors = true") for line in lines)


def render(report: Report) -> str:
    """Return the report as a page of HTML, with everything inside."""
    templates = environment()
    templates.filters |= {"spec_text": spec_text, "powers": _powers}
    page = templates.get_template("report.html.jinja")
    return page.render(report=report, scale=report.scale, version=meritfair.__version__)


def write_report(report: Report, path: Path) -> None:
    """Write the report and beside it its verdicts as a table, which replace old ones once they are complete."""
    _write(path, render(report).encode())
    write_table(path.with_name(VERDICTS), "verdicts", verdict_columns(report))


def verdict_columns(report: Report) -> dict[str, list[str]]:
    """Return a row for each claim: where it is tested, what it says, whether it holds, the numbers, and the rule.

    Examples
    --------
    >>> verdict = Verdict("Regret grows more slowly than time.", "Section 6.3", None, "exponent 0.9")
    >>> section = Section("figure-2", "Figure 2", Findings(None, verdicts=(verdict,)))
    >>> verdict_columns(Report(Scale(), (section,)))["verdict"]
    ['inconclusive']
    """
    both = [(section, verdict) for section in report.sections for verdict in section.findings.verdicts]
    return {
        "artefact": [section.name for section, _ in both],
        "title": [section.title for section, _ in both],
        "about": ["beyond the paper" if section.beyond else "the paper" for section, _ in both],
        "verdict": [standing(verdict.holds).words for _, verdict in both],
        "claim": [verdict.claim for _, verdict in both],
        "where": [verdict.where for _, verdict in both],
        "found": [verdict.found for _, verdict in both],
        "rule": [verdict.rule for _, verdict in both],
    }


def _write(path: Path, content: bytes) -> None:
    write_whole(path, lambda temporary: temporary.write_bytes(content))


def _powers(text: str) -> Any:
    """Return a text as HTML in which powers, written T^0.7, are raised."""
    from markupsafe import Markup, escape

    return Markup(_POWER.sub(r"<sup>\1</sup>", str(escape(text))))  # the text is escaped, and only numbers are put in
