"""Whether the programme was fair: due against given against drawn against reached, accounts, waits, evidence."""

from __future__ import annotations

import csv
import io
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from meritfair.core.language import _, current
from meritfair.core.texts import to_spreadsheet
from meritfair.programme.reading import Snapshot
from meritfair.programme.showing.report_words import good_of
from meritfair.programme.showing.steering_words import listed_reasons, listed_rounds, names_of_users
from meritfair.programme.showing.wording import evidence
from meritfair.programme.users import Role
from meritfair.web.access import Here, Viewer
from meritfair.web.charts import Chart, Curve
from meritfair.web.pages.jobs import LatestResult, work_of
from meritfair.web.pages.responses import go
from meritfair.web.rendering import group_word, number, page, signed

router = APIRouter()
_COLUMNS = ("group", "people", "rounds", "due", "given", "drawn", "reached", "not_reached", "not_reported", "overrides")


def is_drawn(look: Snapshot) -> bool:
    """Return whether there was a draw yet."""
    return look.status.round > (look.status.phase == "committed")


@router.get("/p/{programme}/fairness")
def show_fairness(here: Viewer) -> Response:
    """Show the audit for the board."""
    look = here.look()
    if not is_drawn(look):
        shows = _("This page shows what people were due, were given and got, from the first round on.")
        return page(here, "no_draw.html", look=look, title=_("Fairness"), shows=shows)
    work = work_of(here, "report")
    values = _values(here, look, work) if work.result is not None else {}
    board = here.frame.jobs.recent("board", here.name)
    if board is not None and board.arguments.get("language") != current().code:
        board = None  # of someone who reads another language
    return page(here, "fairness.html", work=work, look=look, board=board, changes=look.changes()[::-1], **values)


@router.get("/p/{programme}/fairness/groups.csv")
def groups_csv(here: Viewer) -> Response:
    """Hand out the sums by group as a table."""
    found = work_of(here, "report").result
    if found is None:
        return go(here, "p", here.name, "fairness")
    text = io.StringIO()
    writer = csv.DictWriter(text, _COLUMNS, extrasaction="ignore")
    writer.writeheader()
    writer.writerows({**row, "group": to_spreadsheet(row["group"])} for row in found["groups"])
    headers = {"Content-Disposition": 'attachment; filename="groups.csv"'}
    return Response(text.getvalue(), media_type="text/csv; charset=utf-8", headers=headers)


@router.post("/p/{programme}/fairness/board")
def make_board(here: Viewer) -> Response:
    """Have the page for the board written."""
    here.frame.jobs.ask("board", here.name, {"language": current().code}, by=here.by, again=True)
    return go(here, "p", here.name, "fairness")


def _values(here: Here, look: Snapshot, work: LatestResult) -> dict[str, Any]:
    result = work.result or {}
    return {
        "found": result,
        "words": work.words(),
        "listed_reasons": listed_reasons,
        "waits": _waits(here, look, result),
        "improbable": _improbable(here, look, result),
        "findings": _findings(here, look, result, work.words()),
        "charts": {
            "groups": groups_chart(result),
            "accounts": accounts_chart(result),
            "evidence": evidence_chart(result),
            "range": range_chart(result),
        },
    }


def _waits(here: Here, look: Snapshot, found: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the least likely waits, each that of one person: only for those who may see single people."""
    if not here.may(Role.AUDITOR):
        return []
    ids = look.ids([row["number"] for row in found["waits"]])
    return [{**row, "id": ids[row["number"]]} for row in found["waits"]]


def _improbable(here: Here, look: Snapshot, found: dict[str, Any]) -> list[dict[str, Any]]:
    """Return whose outcomes are improbable beside those of the others: only for those who may see single people."""
    rows = found["improbable"]["people"]
    if not rows or not here.may(Role.AUDITOR):
        return []
    ids = look.ids([row["number"] for row in rows])
    return [
        {
            "number": row["number"],
            "id": ids[row["number"]],
            "reached": good_of(row["good_pulled"], row["pulled"]),
            "otherwise": good_of(row["good_unpulled"], row["unpulled"]),
            "evidence": evidence(row["log_evidence"]),
        }
        for row in rows
    ]


def _findings(here: Here, look: Snapshot, found: dict[str, Any], words: dict[str, list[str]]) -> list[dict[str, Any]]:
    """Return what needs an explanation; whom it is about only for those who may see single people."""
    made = []
    for row, text in zip(found["steering"]["findings"], words["steering_findings"], strict=True):
        ids = look.ids(row["people"]) if here.may(Role.AUDITOR) else {}
        cells = {"rounds": listed_rounds(row["rounds"]), "by": names_of_users(row["by"])}
        made.append({**row, **cells, "what": text, "reasons": listed_reasons(row["reasons"]), "ids": ids})
    return made


def groups_chart(found: dict[str, Any]) -> Chart:
    """Return what each group was due, given, drawn and reached."""
    rates = found["rates"]
    names = {"due": (_("due"), 6), "given": (_("given"), 3), "drawn": (_("drawn"), 1), "reached": (_("reached"), 2)}
    return Chart(
        "groups",
        _("Due, given, drawn and reached, in 100 rounds of one person"),
        x=list(range(len(rates["group"]))),
        names=list(map(group_word, rates["group"])),
        curves=[Curve(name, rates[key], color=color) for key, (name, color) in names.items()],
        headings=[
            _("group") if found["has_groups"] else _("who"),
            _("people"),
            _("due, in draws"),
            _("given"),
            _("drawn"),
            _("reached"),
            _("drawn less due"),
        ],
        rows=[
            [
                group_word(row["group"]),
                number(row["people"]),
                number(row["due"], 1),
                number(row["given"], 1),
                number(row["drawn"]),
                number(row["reached"]),
                signed(row["drawn"] - row["due"], 1),
            ]
            for row in found["groups"]
        ],
        kind="bars",
        note=_(
            "Groups may be due different amounts, since people gain differently from a call. Within a group the four "
            "should be alike, but for chance. The table has the sums over all rounds."
        ),
    )


def accounts_chart(found: dict[str, Any]) -> Chart:
    """Return how many people have which account now."""
    accounts, slack = found["accounts"], found["slack"]
    edges = accounts["edges"]
    rows = [
        [_("{low} to {high}").format(low=signed(low), high=signed(high)), number(people)]
        for low, high, people in zip(edges, edges[1:], accounts["people"], strict=False)
        if people
    ]
    return Chart(
        "accounts",
        _("Accounts now"),
        x=accounts["middles"],
        curves=[Curve(_("people"), accounts["people"])],
        headings=[_("account, in draws"), _("people")],
        rows=rows,
        x_label=_("draws still owed"),
        y_label=_("people"),
        kind="histogram",
        levels=[] if slack is None else [(_("slack"), slack), ("", -slack)],
        whole=False,
        note=_(
            "What was due less what was given. The dashed lines are the slack, which no account leaves unless rules "
            "keep people out of draws, or the slack was larger before."
        ),
    )


def evidence_chart(found: dict[str, Any]) -> Chart:
    """Return how the evidence against the draws went."""
    course = found["course"]
    return Chart(
        "evidence",
        _("Evidence against the draws"),
        x=course["round"],
        curves=[Curve(_("evidence"), course["evidence"])],
        headings=[_("up to round"), _("evidence")],
        rows=[
            [str(round_), number(10**power, 2)]
            for round_, power in zip(course["round"], course["evidence"], strict=True)
        ],
        x_label=_("round"),
        y_label=_("evidence"),
        levels=[(_("proof of unfair draws"), found["proof"])],
        powers=True,
        note=_("It starts at 1. Fair draws hardly ever reach the dashed line, however often one looks."),
    )


def range_chart(found: dict[str, Any]) -> Chart:
    """Return the range of all accounts after each round."""
    course, slack = found["course"], found["slack"]
    low, high = course["least_account"], course["largest_account"]
    return Chart(
        "range",
        _("Range of all accounts"),
        x=course["round"],
        curves=[
            Curve(_("farthest behind"), high, low, high, color=1, step=True),
            Curve(_("farthest ahead"), low, color=2, step=True),
        ],
        headings=[_("after round"), _("farthest ahead"), _("farthest behind")],
        rows=[
            [str(round_), signed(least), signed(most)]
            for round_, least, most in zip(course["round"], low, high, strict=True)
        ],
        x_label=_("round"),
        y_label=_("draws owed"),
        levels=[] if slack is None else [(_("slack"), slack), ("", -slack)],
    )
