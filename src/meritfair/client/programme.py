"""A programme that a server keeps: the verbs of `meritfair.programme.Programme`, over HTTP.

Every verb that changes something takes `key`, any text that stands for the request, and makes one if none is given. Who
did it is the user whose token it is.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from meritfair.client.connection import Connection
from meritfair.client.results import (
    Entry,
    Head,
    Participant,
    ParticipantAccount,
    PersonExplained,
    Preview,
    ProgrammeStatus,
    RemoteRound,
    RoundLine,
    decode,
)
from meritfair.core.errors import MeritfairError
from meritfair.core.storage import write_whole
from meritfair.programme.inputs import Outcomes, People
from meritfair.programme.reporting import Receipt

_PAGE = 1000


class RemoteProgramme:
    """A programme that a server keeps.

    Attributes
    ----------
    name : str
    """

    def __init__(self, connection: Connection, name: str, head: str = "") -> None:
        self._connection, self.name, self._head = connection, name, head

    def __repr__(self) -> str:
        return f"RemoteProgramme({self.name!r})"

    def expecting(self, head: str) -> RemoteProgramme:
        """Return the programme such that changes are refused if its head is another one when they are made."""
        return RemoteProgramme(self._connection, self.name, head)

    # ---- looking

    def status(self) -> ProgrammeStatus:
        """Return how the programme stands, what to do next, and its settings."""
        return decode(ProgrammeStatus, self._get("get_programme"))

    def participants(
        self,
        *,
        search: str = "",
        group: str = "",
        staff: str = "",
        part: str = "",
        standing: str = "enrolled",
        sort: str = "id",
        descending: bool = False,
    ) -> Iterator[Participant]:
        """Yield participants, page after page; `standing` is enrolled, away, left or all."""
        query = {"search": search, "group": group, "staff": staff, "part": part, "standing": standing, "sort": sort}
        more = {"order": "descending" if descending else "ascending", "limit": _PAGE}
        for each in self._pages("list_participants", "participants", {**query, **more}):
            yield decode(Participant, each)

    def participant(self, number: int) -> Participant:
        """Return one participant, by number in the ledger."""
        return decode(Participant, self._get("get_participant", number=number))

    def person(self, number: int, *, round: int | None = None) -> PersonExplained:  # noqa: A002
        """Return why someone was drawn or not, as it is known now or was after a round."""
        return decode(PersonExplained, self._get("explain_participant", number=number, query={"round": round}))

    def proof(self, number: int) -> dict[str, Any]:
        """Return what one person needs to prove what was recorded of them."""
        return dict(self._get("get_proof", number=number))

    def accounts(self) -> Iterator[ParticipantAccount]:
        """Yield what is owed to everyone, by number."""
        for each in self._pages("list_accounts", "accounts", {"limit": _PAGE}):
            yield decode(ParticipantAccount, each)

    def rounds(self) -> Iterator[RoundLine]:
        """Yield the rounds, the last one first."""
        for each in self._pages("list_rounds", "rounds", {"limit": _PAGE}):
            yield decode(RoundLine, each)

    def round(self, number: int | None = None) -> RemoteRound:
        """Return a round with what came of it, by default the last one."""
        wanted = self.status().round if number is None else number
        return decode(RemoteRound, self._get("get_round", number=wanted))

    def call_list(self, number: int) -> str:
        """Return the list of those to be called in a round as CSV, to be filled in and handed to `report`."""
        return self._connection.send(
            "get_round", programme=self.name, number=number, headers={"Accept": "text/csv"}
        ).text

    def preview(self, *, budget: int | None = None) -> Preview:
        """Return what the next draw would be committed to; nothing is drawn, nothing is kept."""
        return decode(Preview, self._get("preview_round", query={"budget": budget}))

    def ledger(self) -> Iterator[Entry]:
        """Yield the entries of the ledger, in order."""
        for each in self._pages("list_entries", "entries", {"limit": _PAGE}):
            yield decode(Entry, each)

    def head(self) -> Head:
        """Return the public head."""
        return decode(Head, self._get("get_head"))

    # ---- changing

    def change(
        self,
        *,
        budget: int | Sequence[int] | None = None,
        policy: str | None = None,
        floor: float | None = None,
        rules: Mapping[str, Any] | None = None,
        source: str | None = None,
        part: str = "",
        reason: str,
        key: str | None = None,
    ) -> Receipt:
        """Change settings from the next round on; in a trial those of one part."""
        said = {"budget": budget, "policy": policy, "floor": floor, "rules": rules, "source": source}
        body = {name: value for name, value in said.items() if value is not None}
        return self._write("change_settings", key, body={**body, "part": part, "reason": reason})

    def enrol(self, people: People | Sequence[str] | str, *, key: str | None = None) -> Receipt:
        """Let people join: as columns, a list of ids, or the text of a CSV file."""
        if isinstance(people, str):
            return self._write("enrol_participants", key, csv=people.encode())
        given = people if isinstance(people, People) else People(people)
        rows: list[dict[str, Any]] = [{"id": id_} for id_ in given.ids]
        for name, column in (("group", given.group), ("staff", given.staff)):
            for row, value in zip(rows, column or (), strict=False):
                row[name] = value
        for place, row in enumerate(rows):
            row["features"] = {name: column[place] for name, column in given.features.items()}
        return self._write("enrol_participants", key, body={"participants": rows})

    def withdraw(self, ids: Sequence[str], *, reason: str = "", key: str | None = None) -> Receipt:
        """Let people leave; what is known of them stays, for when they come back. Many need a reason."""
        return self._write("withdraw_participants", key, body={"ids": list(ids), "reason": reason})

    def away(self, ids: Sequence[str], *, back: bool = False, reason: str = "", key: str | None = None) -> Receipt:
        """Note that people cannot be drawn for now, or are back. Many who are away need a reason."""
        if back:
            return self._write("mark_back", key, body={"ids": list(ids)})
        return self._write("mark_away", key, body={"ids": list(ids), "reason": reason})

    def erase(self, number: int, *, key: str | None = None) -> Receipt:
        """Delete who someone is, for good, by their number in the ledger. They must have left before."""
        return self._write("erase_participant", key, number=number)

    def draw(
        self,
        *,
        states: Mapping[str, int] | None = None,
        budget: int | Mapping[str, int] | None = None,
        away: Sequence[str] = (),
        value: str | None = None,
        reason: str = "",
        key: str | None = None,
    ) -> RemoteRound:
        """Draw the next round; `states` are those observed now, by id. While it is open, the same draw is returned.

        A budget other than that of the settings needs a reason, and so do many who are away.
        """
        body: dict[str, Any] = {"away": list(away), "value": value, "budget": budget, "reason": reason}
        if states is not None:
            body["states"] = [{"id": id_, "state": state} for id_, state in states.items()]
        return decode(RemoteRound, self._get("draw_round", body=body, key=key, headers=self._headers()))

    def report(self, outcomes: Outcomes | str, *, round: int, key: str | None = None) -> Receipt:  # noqa: A002
        """Take in what was done and seen in a round: as columns, or the text of a CSV file."""
        if isinstance(outcomes, str):
            return self._write("report_outcomes", key, number=round, csv=outcomes.encode())
        return self._write("report_outcomes", key, number=round, body={"outcomes": _rows(outcomes)})

    def correct(self, outcomes: Outcomes, *, round: int, reason: str, key: str | None = None) -> Receipt:  # noqa: A002
        """Correct what was reported of a round; -2 stands for what is not known after all."""
        return self._write("correct_outcomes", key, number=round, body={"outcomes": _rows(outcomes), "reason": reason})

    def close(self, *, round: int, key: str | None = None) -> Receipt:  # noqa: A002
        """End the open round, if it is this one."""
        return self._write("close_round", key, number=round)

    def end(self, *, key: str | None = None) -> Receipt:
        """End the programme for good and publish its secret."""
        return self._write("end_programme", key)

    # ---- long work

    def audit(self, *, seconds: float = 600.0) -> dict[str, Any]:
        """Return whether the programme was fair; wait for it that long at most."""
        return self._wait(seconds, "audit")

    def effect(self, *, seconds: float = 600.0) -> dict[str, Any]:
        """Return whether being drawn helps."""
        return self._wait(seconds, "effect")

    def verify(self, *, heads: Sequence[str] = (), seconds: float = 600.0) -> dict[str, Any]:
        """Check the whole ledger, and that it holds these heads."""
        return dict(self._wait(seconds, "verify", body={"heads": list(heads)})["result"])

    def what_if(
        self, budgets: Sequence[int], *, rounds: int = 26, extrapolate: bool = False, seconds: float = 600.0
    ) -> dict[str, Any]:
        """Return what other budgets would do in the next rounds."""
        body = {"budgets": list(budgets), "rounds": rounds, "extrapolate": extrapolate}
        return dict(self._wait(seconds, "what_if", body=body)["result"])

    def export(self, path: str | Path, *, seconds: float = 600.0) -> Path:
        """Write an anonymous export of the ledger to a zip file, with a verifier of its own."""
        job = self._wait(seconds, "export")
        data = self._connection.send("get_job_file", programme=self.name, job=job["id"]).content
        write_whole(Path(path), lambda file: file.write_bytes(data))
        return Path(path)

    def _wait(self, seconds: float, operation: str, **how: Any) -> dict[str, Any]:
        """Ask for long work until it is done; cancel it when that takes too long."""
        until = time.monotonic() + seconds
        pause = 0.05
        while True:
            answer = self._connection.send(operation, programme=self.name, **how)
            found: dict[str, Any] = answer.json()
            if answer.status_code == 200:
                return found
            while found["state"] in ("waiting", "running"):
                if time.monotonic() > until:
                    with suppress(MeritfairError):  # it may be over by now
                        self._connection.send("cancel_job", programme=self.name, job=found["id"])
                    raise MeritfairError(f"{operation} was not done within {seconds:g} seconds: {found['words']}")
                time.sleep(pause)
                pause = min(1.0, 1.5 * pause)
                found = self._get("get_job", job=found["id"])
            if found["state"] == "failed":
                raise MeritfairError(found["error"])
            if found["state"] == "cancelled":
                raise MeritfairError(f"{operation} was cancelled on the server")

    def _get(self, operation: str, **how: Any) -> Any:
        return self._connection.get(operation, programme=self.name, **how)

    def _pages(self, operation: str, field: str, query: Mapping[str, Any]) -> Iterator[Any]:
        return self._connection.pages(operation, field, query, programme=self.name)

    def _write(self, operation: str, key: str | None, **how: Any) -> Receipt:
        return decode(Receipt, self._get(operation, key=key, headers=self._headers(), **how))

    def _headers(self) -> dict[str, str]:
        return {"If-Match": f'"{self._head}"'} if self._head else {}


def _rows(outcomes: Outcomes) -> list[dict[str, Any]]:
    """Return what was done and seen by participant, with what is not known left out."""
    rows = []
    columns = {"action": outcomes.action, "state": outcomes.after, "before": outcomes.before}
    for place, id_ in enumerate(outcomes.ids):
        codes = {name: int(column[place]) for name, column in columns.items()}
        row: dict[str, Any] = {name: "unknown" if code < -1 else code for name, code in codes.items() if code != -1}
        reason = outcomes.reasons.get(id_)
        rows.append({"id": id_, **row, **({"reason": reason} if reason else {})})
    return rows
