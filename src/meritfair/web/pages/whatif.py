"""What would come of other budgets or settings: an answer as a chart with its table."""

from __future__ import annotations

import math
from typing import Any

from meritfair.core.language import _, ngettext
from meritfair.web.charts import Chart, Curve
from meritfair.web.job_table import Job
from meritfair.web.rendering import number, percent, signed


def whatif_chart(job: Job) -> Chart:
    """Return what came of a what-if."""
    result = job.result or {}
    rows: list[dict[str, Any]] = result["rows"]
    answered = [row for row in rows if math.isfinite(row["share"])]
    bounds = [[100 * row[f"share{end}"] for row in answered] for end in ("", "_low", "_high")]
    headings = [_("scenario"), _("calls a round"), _("in the good state"), _("difference")]
    headings += [_("longest wait"), _("checked by the records")]
    title = ngettext(
        "People in the good state over the next {n} round",
        "People in the good state over the next {n} rounds",
        result["rounds"],
    ).format(n=number(result["rounds"]))
    return Chart(
        f"whatif-{job.id}",
        title,
        x=list(range(len(answered))),
        names=[scenario_words(row) for row in answered],
        curves=[Curve(_("expected, with a 95 % interval"), bounds[0], bounds[1], bounds[2])],
        headings=headings,
        rows=[_cells(row) for row in rows],
        y_label=_("% in the good state"),
        kind="intervals",
        note=_(
            "The table also has differences to what was done so far. They are surer than the intervals look, as "
            "they are taken draw by draw of what people may do."
        ),
    )


def scenario_words(row: dict[str, Any]) -> str:
    """Return a scenario in words."""
    if row["policy"] == "as logged":
        return _("as so far")
    text = _("{budget} a round, changed") if row["policy"] == "changed" else _("{budget} a round")
    return text.format(budget=number(row["budget"]))


def _cells(row: dict[str, Any]) -> list[str]:
    share = _between(row, "share", lambda value: percent(value))
    points = _between(row, "difference", lambda value: signed(100 * value, 1))
    held = "–" if row["policy"] == "as logged" or points == "–" else _("{points} points").format(points=points)
    return [scenario_words(row), number(row["budget"], 1), share, held, number(row["longest_wait"]), _verdict(row)]


def _between(row: dict[str, Any], name: str, written: Any) -> str:
    if not math.isfinite(row[name]):
        return "–"
    ends = {"mean": written(row[name]), "low": written(row[f"{name}_low"]), "high": written(row[f"{name}_high"])}
    return _("{mean} ({low} to {high})").format(**ends)


def _verdict(row: dict[str, Any]) -> str:
    return {
        "agrees": _("yes"),
        "disagrees": _("no: they disagree"),
        "refused": _("cannot be checked, no answer"),
        "model alone": _("cannot be checked, model alone"),
    }.get(row["verdict"], str(row["verdict"]))
