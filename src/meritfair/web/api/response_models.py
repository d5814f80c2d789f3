"""What the API answers; null stands for what is not known, as in what it is handed.

Parts of a report about one person are the same values as in the library (`meritfair.programme.showing.person`).
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from meritfair.programme.showing.person import Account, Enrolment, Estimate, NextDraw, Seen
from meritfair.programme.showing.waits import Wait


class ResponseModel(BaseModel):
    """An answer."""

    model_config = ConfigDict(from_attributes=True)


class ProblemItem(ResponseModel):
    """One thing that is wrong with a request."""

    problem: str
    where: list[str | int] = Field(default_factory=list, description="The way to the value in the request.")
    line: int | None = Field(None, description="The line of a CSV body.")
    column: str | None = Field(None, description="The column of a CSV body.")


class Problem(ResponseModel):
    """What went wrong (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[ProblemItem] | None = Field(None, description="What is wrong with which value.")


class ReceiptOut(ResponseModel):
    """What came of a change."""

    what: str = Field(description="The kind of entry.")
    round: int = Field(description="The round that it is about; the last one, if it is about none.")
    taken: int = Field(description="How many participants something new is known of.")
    repeated: int = Field(description="How many rows said what was known already.")
    overrides: int = Field(description="How many were reached without being drawn.")
    entries: int = Field(description="How many entries were added to the ledger.")
    head: str = Field(description="The hash of the last entry. Keep it elsewhere.")
    warning: str = Field(description="What was noticed, such as a clock that is behind; empty if nothing was.")


class ProgrammeLine(ResponseModel):
    """A programme in a list."""

    name: str
    role: str = Field(description="Yours in it.")
    round: int
    phase: Literal["closed", "committed", "open"]
    ended: bool
    enrolled: int
    next_step: str
    head: str


class ProgrammeList(ResponseModel):
    """The programmes in which one has a role."""

    programmes: list[ProgrammeLine]


class PartOut(ResponseModel):
    """People who share a budget under one policy: all participants, or one arm of a trial."""

    name: str
    budget: list[int]
    policy: dict[str, Any]
    floor: float
    share: int


class RulesOut(ResponseModel):
    """Who may be drawn."""

    cooldown: int
    warmup: int
    once: bool
    accrue: bool


class TrialOut(ResponseModel):
    """What is fixed of a trial."""

    protocol: str
    strata: list[str]


class SettingsOut(ResponseModel):
    """The settings in force."""

    parts: list[PartOut]
    rules: RulesOut
    forget: float
    features: list[str]
    trial: TrialOut | None
    source: str = Field(description="Where draws take their randomness from beside the secret; `secret`: nowhere.")


class ProgrammeOut(ResponseModel):
    """How a programme stands."""

    name: str
    identity: str
    role: str = Field(description="Yours in it.")
    head: str = Field(description="The hash of the last entry of its ledger.")
    entries: int
    time: str = Field(description="When the last entry was made.")
    round: int = Field(description="The last round; 0 if there was none.")
    phase: Literal["closed", "committed", "open"] = Field(description="Of that round.")
    ended: bool
    enrolled: int
    away: int
    left: int
    drawn: int = Field(description="In the last round: how many were drawn.")
    reported: int = Field(description="In the last round: of how many of those it is known what was done.")
    states: int = Field(description="In the last round: of how many participants the state after it is known.")
    overdue: int = Field(description="Of the rounds before: how many draws have no report.")
    largest_account: float
    unchecked: int = Field(description="Draws on public values that no program can check.")
    next_step: str = Field(description="What to do next, in words.")
    settings: SettingsOut


class ParticipantOut(ResponseModel):
    """Someone who takes part, or has."""

    number: int = Field(description="In the ledger; it never changes.")
    id: str
    group: str
    staff: str
    part: str
    standing: Literal["enrolled", "away", "left"]
    account: float = Field(description="What is owed to them, in draws.")
    drawn: int
    last_drawn: int | None
    state: int | None
    state_round: int | None
    erased: bool


class ParticipantPage(ResponseModel):
    """A page of participants."""

    total: int
    offset: int
    participants: list[ParticipantOut]


class AccountOut(ResponseModel):
    """What is owed to someone: what they were due less what they were given, in draws."""

    number: int
    id: str
    group: str
    part: str
    standing: Literal["enrolled", "away", "left"]
    account: float
    drawn: int


class AccountPage(ResponseModel):
    """A page of accounts."""

    total: int
    offset: int
    accounts: list[AccountOut]


class CorrectionOut(ResponseModel):
    """A correction of what was reported of a round."""

    time: str
    by: str
    reason: str
    old: dict[str, int | None]
    new: dict[str, int | None]


class PersonRoundOut(ResponseModel):
    """One round of a participant."""

    round: int
    time: str
    state: int | None
    seen_after: int | None
    due: float
    chance: float
    drawn: bool | None
    action: int | None
    after: int | None
    account: float
    kept_out: str
    people: int
    budget: int
    reason: str
    late: bool
    override: bool
    corrections: list[CorrectionOut]


class PersonOut(ResponseModel):
    """Why someone was drawn or not."""

    programme: str
    id: str
    number: int
    round: int
    time: str
    head: str
    latest: bool
    ended: bool
    sentences: list[str] = Field(description="All of it in plain words.")
    drawn: int
    reached: int
    overrides: int
    enrolment: Enrolment
    seen: Seen
    estimate: Estimate
    next: NextDraw | None
    account: Account
    wait: Wait
    rounds: list[PersonRoundOut]


class ProofRowOut(ResponseModel):
    """A row of a table in the ledger, with its way up to the root that its entry has."""

    seq: int
    index: int
    row: str
    path: list[tuple[str, str]]


class ProofOut(ResponseModel):
    """What one person needs to prove what was recorded of them; the verifier of an export checks it."""

    programme: str
    id: str
    salt: str
    number: int
    entries: list[str]
    rows: list[ProofRowOut]


class DrawnOut(ResponseModel):
    """Someone in a draw."""

    number: int
    id: str
    group: str
    staff: str
    due: float
    chance: float
    state: int | None


class PreviewOut(ResponseModel):
    """What the next draw would be committed to; nothing is drawn."""

    round: int
    budgets: list[int] = Field(description="How many would be drawn, by part.")
    participants: list[DrawnOut]


class OutcomeOut(ResponseModel):
    """What came of someone who was drawn, or who was reached without being drawn."""

    number: int
    id: str
    group: str
    staff: str
    due: float
    chance: float
    drawn: bool
    before: int | None
    action: int | None
    after: int | None
    reason: str


class RoundLine(ResponseModel):
    """A round in a list."""

    number: int
    phase: Literal["closed", "committed", "open"]
    enrolled: int
    drawn: int
    committed_at: str
    drawn_at: str | None
    closed_at: str | None


class RoundList(ResponseModel):
    """A page of rounds, the last one first."""

    total: int
    offset: int
    rounds: list[RoundLine]


class RoundOut(ResponseModel):
    """A round."""

    number: int
    phase: Literal["closed", "committed", "open"]
    enrolled: int
    away: int
    commitment: str
    seed: str
    source: str = Field(description="The public source whose value it waits for or was drawn with; empty if none.")
    address: str = Field(description="Where that value is published; empty if that is not known.")
    appears: str = Field(description="From when on it is published; empty if that is not known.")
    time: str
    warning: str = Field(description="What was noticed, such as a clock that is behind; empty if nothing was.")
    head: str
    outcomes: list[OutcomeOut] = Field(description="Of those drawn, and of those reached without being drawn.")


class EntryOut(ResponseModel):
    """An entry of the ledger."""

    seq: int
    kind: str
    time: str
    by: str
    round: int | None
    rows: int
    digest: str


class LedgerPage(ResponseModel):
    """A page of entries, in order."""

    total: int
    offset: int
    head: str
    entries: list[EntryOut]


class HeadOut(ResponseModel):
    """The public head: whoever keeps it can tell if anything before it is ever changed."""

    programme: str
    identity: str
    entries: int
    time: str
    head: str


class JobOut(ResponseModel):
    """Long work."""

    id: str
    kind: str
    head: str = Field(description="As of which entry it is worked out.")
    state: Literal["waiting", "running", "done", "failed", "cancelled"]
    done: int
    total: int
    words: str
    error: str
    result: dict[str, Any] | None
    file: str | None = Field(description="The address of a file that was made.")


class EffectOut(ResponseModel):
    """Whether being drawn helps, and what was learned."""

    head: str
    effect: dict[str, Any] | None = Field(
        description="null while that cannot be said; `no_effect` says why. Its `sensitivity` is what states that are "
        "not known could change."
    )
    no_effect: str
    learned: list[dict[str, Any]]
    missing: dict[str, Any]


class AuditOut(BaseModel):
    """Whether the programme was fair: due, given, drawn and reached, accounts, waits, overrides, effect."""

    model_config = ConfigDict(extra="allow")

    verdict: str
    head: str
    entries: int
    rounds: int
    evidence: dict[str, Any]
    within_slack: bool
    total: dict[str, float]
    groups: list[dict[str, Any]]
    unchecked: int = Field(description="Rounds that were drawn with public values that no program can check.")
    steering: dict[str, Any] = Field(
        description="Whether anyone could have steered the draws: `answer` is nothing, explain or not-chance, and "
        "`findings` are what needs an explanation, with rounds, time, who entered it and which reasons were given."
    )
    improbable: dict[str, Any] = Field(
        description="Whose outcomes are improbable beside those of the others: `people`, for auditors."
    )
    waits: list[dict[str, Any]] = Field(description="Those that were least likely, for auditors; none for viewers.")
    words: dict[str, list[str]] = Field(description="All of it in plain words, by what they are about.")


class HealthOut(ResponseModel):
    """Whether the server can be asked."""

    status: Literal["ok"]
