"""What a server can work out as a job: the kinds, what each takes, and what comes of it.

None of the results names a participant; they are told by their numbers in the ledger. Words are made in all languages
of the pages, since readers may differ from those who asked.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from meritfair.core.errors import InputError
from meritfair.core.language import ENGLISH, _, speaking
from meritfair.core.tables import write_table
from meritfair.policies.base import Policy
from meritfair.programme.programme import Programme
from meritfair.programme.settings import Part, Settings
from meritfair.programme.storage.store import Store
from meritfair.programme.users import Role
from meritfair.programme.work import Work

MOST_ROUNDS = 520  # that a what-if plays ahead
ESSENTIAL = ("verify", "report", "board", "learning")  # what everyone relies on: there is always room for it
MOST_SECONDS = {"whatif": 900.0, "preview": 900.0}  # that others may have to wait for what one user wonders about
_MOST_SCENARIOS = 8


@dataclass(frozen=True)
class JobContext:
    """What a job has to do.

    Attributes
    ----------
    store : Store
    programme : str
    arguments : mapping
    folder : Path
        Where files are written.
    tell : callable
        Is told what is going on, and how much of how much is done.
    """

    store: Store
    programme: str
    arguments: Mapping[str, Any]
    folder: Path
    tell: Callable[[str, int, int], None]


@dataclass(frozen=True)
class JobResult:
    """What came of a job: plain values, and the name of a file, if there is one."""

    values: dict[str, Any]
    file: str = ""


def report(task: JobContext) -> JobResult:
    """Make the audit for a board: numbers, words by language, and a file with a row for everyone by number."""
    from meritfair.programme.showing.board import board_values, board_words, people_columns
    from meritfair.programme.showing.report import report_of
    from meritfair.web.language import LANGUAGES, language_of

    task.tell(_("reading the ledger"), 0, 3)
    with task.store.reading(task.programme) as session:
        found = report_of(Work(session))
    task.tell(_("writing the report"), 1, 3)
    words = {}
    for code in LANGUAGES:
        language = language_of(code)
        assert language is not None
        with speaking(language):
            words[code] = board_words(found)
    write_table(task.folder / "people.csv", "people", people_columns(found))
    return JobResult({**board_values(found), "words": words}, "people.csv")


def board(task: JobContext) -> JobResult:
    """Write the audit as one page of HTML, without single people, in the `language` that is asked for."""
    from meritfair.programme.showing.board import without_names
    from meritfair.programme.showing.report import report_of
    from meritfair.programme.showing.report_page import write_report_page
    from meritfair.web.language import language_of

    task.tell(_("reading the ledger"), 0, 2)
    language = language_of(str(task.arguments.get("language", ""))) or ENGLISH
    with task.store.reading(task.programme) as session, speaking(language):  # a report has words of its own
        found = report_of(Work(session))
    task.tell(_("drawing"), 1, 2)
    with speaking(language):
        write_report_page(without_names(found), task.folder / "board.html", people=False)
    return JobResult({}, "board.html")


def learning(task: JobContext) -> JobResult:
    """Work out how what is known of people has grown, round after round."""
    from meritfair.programme.showing.learning import learning_of

    with task.store.reading(task.programme) as session:
        words = _("estimating what was known after each round")
        found = learning_of(Work(session), lambda done, total: task.tell(words, done, total))
    return JobResult(found.to_dict())


def verify(task: JobContext) -> JobResult:
    """Check the whole ledger, and that it holds heads that were kept."""
    heads = [str(each) for each in task.arguments.get("heads", [])]
    words = _("checking entries and draws")
    found = Programme(task.store, task.programme).verify(
        heads=heads, progress=lambda done, total: task.tell(words, done, total)
    )
    names = ("entries", "rounds", "draws", "exact", "near", "tied", "signed", "unsigned", "unchecked", "head")
    counts = {name: vars(found)[name] for name in names}
    return JobResult({**counts, "whole": found.whole, "words": str(found), "problems": list(map(str, found.problems))})


def whatif(task: JobContext) -> JobResult:
    """Play policies with some budgets in the rounds after the ledger.

    Arguments: ``budgets`` and ``rounds``; ``extrapolate``; and ``change``, settings of the part that would change, as
    the ledger has them, to be played beside those in force.
    """
    from meritfair.scenarios.asking import whatif as ask
    from meritfair.scenarios.start import start_of

    programme = Programme(task.store, task.programme)
    budgets = [int(each) for each in task.arguments.get("budgets", [])]
    rounds = int(task.arguments.get("rounds", 0)) or None
    if rounds is not None and not 1 <= rounds <= MOST_ROUNDS:
        raise InputError(f"rounds ahead must be between 1 and {MOST_ROUNDS}, got {rounds}")
    if not 1 <= len(budgets) <= _MOST_SCENARIOS:
        raise InputError(f"a what-if takes 1 to {_MOST_SCENARIOS} budgets, got {len(budgets)}")
    words, log = _("playing the rounds ahead"), programme.log()
    found = ask(
        log,
        _policies(task, budgets, start_of(log).n_arms),
        budget=budgets,
        rounds=rounds,
        extrapolate=bool(task.arguments.get("extrapolate")),
        progress=lambda _name, done, total: task.tell(words, done, total),
    )
    names = [each.name for each in found.outlooks]
    rows = [{"name": name, **row} for name, row in zip(names, found.rows(), strict=True)]
    contradicted = any(each.check.disagrees for each in found.asked)
    about = {"people": found.n_arms, "rounds": found.rounds, "refused": found.refused, "contradicted": contradicted}
    return JobResult({"rows": rows, **about})


def _policies(task: JobContext, budgets: Sequence[int], people: int) -> dict[str, dict[int, Policy]]:
    """Return the policy in force and, if a change is asked about, the one after it, by label and budget.

    The floor of a policy is that of this many people with that budget.
    """
    with task.store.reading(task.programme) as session:
        parts = Work(session).state.settings.parts
    if len(parts) > 1:
        raise InputError("a what-if is for programmes with one part, and this is a trial")
    asked = {"now": parts[0]}
    if task.arguments.get("change"):
        asked["changed"] = Part.from_body(task.arguments["change"])
    return {label: {budget: part.policy_for(people, budget) for budget in budgets} for label, part in asked.items()}


def preview(task: JobContext) -> JobResult:
    """Work out what other settings would do to the next draw; they are given as the ledger has them."""
    from meritfair.programme.showing.change_preview import preview_change

    task.tell(_("planning the next round"), 0, 1)
    with task.store.reading(task.programme) as session:
        found = preview_change(Work(session), Settings.from_body(task.arguments["settings"]))
    return JobResult(asdict(found))


def export(task: JobContext) -> JobResult:
    """Write the ledger with its verifier into a zip file, without anything that says who people are."""
    task.tell(_("writing the ledger"), 0, 2)
    name = f"ledger-{task.programme}" if task.programme.isalnum() else "ledger"
    folder = task.folder / "export" / name
    try:
        Programme(task.store, task.programme).export(folder, anonymous=True)
        task.tell(_("packing"), 1, 2)
        shutil.make_archive(str(task.folder / "ledger"), "zip", folder.parent, name)
    finally:
        shutil.rmtree(task.folder / "export", ignore_errors=True)
    return JobResult({}, "ledger.zip")


KINDS: dict[str, Callable[[JobContext], JobResult]] = {
    "report": report,
    "board": board,
    "learning": learning,
    "verify": verify,
    "whatif": whatif,
    "preview": preview,
    "export": export,
}
ROLES = {
    "report": Role.VIEWER,
    "board": Role.VIEWER,
    "learning": Role.VIEWER,
    "verify": Role.AUDITOR,
    "whatif": Role.VIEWER,
    "preview": Role.ADMIN,
    "export": Role.AUDITOR,
}


def warm_up() -> None:
    """Import what jobs need, so that the first one is not slow."""
    import meritfair.programme.showing.learning
    import meritfair.programme.showing.report
    import meritfair.programme.verifying
    import meritfair.scenarios.asking  # noqa: F401
    from meritfair.programme.work import versions

    versions()
