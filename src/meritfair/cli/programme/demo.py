"""`meritfair programme demo`: a year of a made-up clinic, to look at."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Annotated

from meritfair.cli.options import JsonOption, text, whole
from meritfair.cli.programme.common import StoreOption, next_command, open_programme, place_of
from meritfair.cli.show import print_json, print_note, say
from meritfair.core.progress import bar
from meritfair.core.texts import several


def demo(
    participants: Annotated[int, whole("--participants", "-n", help="People.")] = 200,
    rounds: Annotated[int, whole("--rounds", help="Weeks.")] = 52,
    seed: Annotated[
        int | None,
        whole("--seed", "-s", help="Fixes the people and what they do; not who is drawn, which nobody can choose."),
    ] = None,
    name: Annotated[str, text("--name", help="What the programme is called.")] = "demo",
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a year of a simulated clinic to look at: joins, leavers, late, missing and corrected reports, overrides."""
    from meritfair.programme.demo import make_demo

    programme = open_programme(store, name, new=True)
    with bar("creating", keep=False) as tell:
        made = make_demo(programme, participants, rounds, seed, partial(tell, "a year in the clinic"))
    if as_json:
        print_json({"programme": name, "store": programme.store.url, **asdict(made)})
        return
    say(f"Made {name} in {place_of(programme)}: {several(participants, 'person', 'people')}, {made.weeks:,} weeks.")
    print_note(
        f"{several(made.overrides, 'call')} to people who were not drawn; of the nurses' lists {made.late:,} came late "
        f"and {made.lost:,} never; {several(made.corrections, 'correction')}; {several(made.left, 'person', 'people')} "
        f"left, {made.returned:,} came back."
    )
    say("Look at it:")
    for words in ("status", f"person {made.waited}", "audit --html audit.html", "effect --group group", "verify"):
        say(f"  {next_command(words, store, programme)}")
