"""The page of an answer, for a board: a sentence, a few numbers, the figure, the table, and what the log bears out."""

from __future__ import annotations

from meritfair.core.pages import Drawing, Page, PageSection, PageTable, svg
from meritfair.scenarios.answer import MOST_R_HAT, Outlook, WhatIf
from meritfair.scenarios.assumptions import ASSUMED
from meritfair.scenarios.figure import axis_of
from meritfair.scenarios.wording import cells, headings, lead, note

_CHECKED = (
    "The shares above come from chains fitted to the log. Here the log itself is asked, without any model, what would "
    "have been the share in the good state after a few rounds under each policy: rounds in which the log happened to "
    "do what the policy would have done count for more. Model, weights (normalised) and the combination of both "
    "(doubly robust) should agree within their errors. They are worth as many windows as the column says; where these "
    "are too few the log cannot answer."
)


def page_of(found: WhatIf) -> Page:
    """Return the page of an answer."""
    answered = [each for each in found.asked if each.answered]
    numbers = {"as logged": _percent(found.logged)}
    numbers |= {each.name: _percent(each) for each in answered[:2]}
    main = PageSection(
        "What would come of it",
        drawing=Drawing(svg(found.plot()), _alt(found), _caption(found)),
        tables=(PageTable("Each policy and budget", headings(found), cells(found)),),
        notes=(note(found),),
    )
    return Page(
        "What if?",
        lead(found),
        numbers,
        (main, _check_section(found)),
        {name: str(value) for name, value in found.settings.items() if name != "versions"}
        | {name: str(value) for name, value in found.settings["versions"].items()},
        warnings_of(found),
    )


def warnings_of(found: WhatIf) -> list[str]:
    """Return what a reader must know before anything else."""
    said, refused = [], dict[tuple[str, bool], list[str]]()
    for each in found.asked:
        if each.check.refusal:
            refused.setdefault((each.check.refusal, each.answered), []).append(each.name)
    for (reason, answered), names in refused.items():
        which = "all that was asked" if len(names) == len(found.asked) > 1 else "; ".join(names)
        said.append(f"{'By the model alone' if answered else 'No answer'} for {which}: {reason}.")
    if found.r_hat > MOST_R_HAT:
        said.append(
            f"The draws have not converged (split R-hat {found.r_hat:.2f}, more than {MOST_R_HAT}), so intervals are "
            f"not exact: take more draws, such as {4 * found.settings['draws']}."
        )
    return said


def _check_section(found: WhatIf) -> PageSection:
    columns = ["policy", "model", "weights", "doubly robust", "windows", "worth", "verdict"]
    rows = [
        [
            each.name,
            f"{100 * each.check.model:.1f} %",
            f"{100 * each.check.snips:.1f} ± {196 * each.check.snips_error:.1f}",
            f"{100 * each.check.robust:.1f} ± {196 * each.check.robust_error:.1f}",
            f"{each.check.windows:,}",
            f"{each.check.effective:,.0f}",
            each.verdict,
        ]
        for each in found.outlooks
        if each.check.windows
    ]
    if not rows:
        return PageSection("What the log itself bears out", [found.logged.check.refusal.capitalize() + "."])
    title = f"Share in the good state after {found.settings['window']} rounds, in percent"
    tables = PageTable(title, columns, rows), _assumptions_table(found)
    return PageSection("What the log itself bears out", [_CHECKED], tables=tables)


def _assumptions_table(found: WhatIf) -> PageTable:
    rows = [
        [ASSUMED[each.name], f"{100 * each.effect:+.1f} ± {196 * each.error:.1f}", "yes" if each.contradicted else "no"]
        for each in found.assumptions
    ]
    title = "Whether the next state depends on more than state and call, in percentage points"
    return PageTable(title, ["on", "more often good", "contradicts the model"], rows)


def _percent(of: Outlook) -> str:
    return f"{100 * of.share.mean:.1f} %"


def _alt(found: WhatIf) -> str:
    by = axis_of(found) or "policy"
    return (
        f"Expected share in the good state by {by}, with intervals, and fairness beside it; the table has the numbers."
    )


def _caption(found: WhatIf) -> str:
    hollow = " Hollow points rest on the model alone." * any(each.verdict == "model alone" for each in found.asked)
    cross = " Crosses: no answer." * any(not each.answered for each in found.asked)
    return f"Expected share in the good state over the next {found.rounds} rounds, with 95 % intervals.{hollow}{cross}"
