"""What the API is handed: strict models, so that ``false`` is not the state 0 and ``"1"`` is not 1.

Names and meanings are those of the files that the command line reads (`meritfair.programme.files`). null stands for
what is not known, and is the same as leaving a field out.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

MOST_ROWS = 1_000_000
_HEAD = "^([0-9a-f]{12,64}|[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4})$"  # whole, or a short code
_LONGEST = 200  # characters of an id or a name

Bit = Annotated[int, Field(ge=0, le=1)]
Budget = Annotated[int, Field(ge=0, le=2**31 - 1)]
Rounds = Annotated[int, Field(ge=0, le=10**9)]
Id = Annotated[str, Field(min_length=1, max_length=_LONGEST, description="What the programme calls the participant.")]
Text = Annotated[str, Field(max_length=_LONGEST)]
Reason = Annotated[
    str,
    Field(
        min_length=1,
        max_length=1000,
        pattern=r"\S",
        description="Why; it is kept in the ledger, so name no participant.",
    ),
]
WhyOut = Annotated[str, Field(max_length=1000)]
Policy = Annotated[
    str,
    Field(
        max_length=500,
        description="A policy with its settings, as on the command line.",
        examples=["merit-fair:estimate=pooled,design=exact,slack=2"],
    ),
]
Cycle = Annotated[
    Budget | Annotated[list[Budget], Field(min_length=1, max_length=1000)],
    Field(description="People drawn in a round, or a number for each of some rounds, which repeat."),
]
Floor = Annotated[float, Field(ge=0, le=1, description="The least that everyone is due, as a part of an equal share.")]


def _example(*values: dict[str, Any]) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": [*values]})


class RequestModel(BaseModel):
    """A body, in which types are as they are said and nothing else is."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


class RulesIn(RequestModel):
    """Who may be drawn; what is left out is as it was, in a new programme: no rule."""

    cooldown: Rounds | None = Field(None, description="Rounds after a draw in which one is not drawn again.")
    warmup: Rounds | None = Field(None, description="Rounds before a newcomer is drawn.")
    once: bool | None = Field(None, description="Whether everyone is drawn at most once.")
    accrue: bool | None = Field(None, description="Whether those who are away are due what they would be if not.")


class ArmIn(RequestModel):
    """An arm of a trial: a part of the participants with a budget and a policy of its own."""

    name: Annotated[str, Field(min_length=1, max_length=100)]
    budget: Cycle
    policy: Policy | None = None
    floor: Floor | None = None
    share: Annotated[int, Field(ge=1, le=1000)] = 1


class TrialIn(RequestModel):
    """What is fixed before a trial."""

    protocol: Annotated[str, Field(pattern="^[0-9a-f]{64}$", description="SHA-256 of the file with the protocol.")]
    arms: Annotated[list[ArmIn], Field(min_length=2, max_length=16)]
    strata: Annotated[list[Text], Field(max_length=100)] = Field(default_factory=list)


Source = Annotated[
    str,
    Field(
        max_length=300,
        description="Public randomness that no draw is made without: `drand`, `drand after 60 minutes`, or the name of "
        "another source, such as a lottery; `secret`: none.",
    ),
]


class NewProgramme(RequestModel):
    """A programme to be created."""

    model_config = _example({"name": "clinic", "budget": 40, "rules": {"cooldown": 2}, "features": ["age"]})

    name: Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^/\\]*$", description="What it is called.")]
    budget: Cycle | None = Field(None, description="As in a change; not for a trial, whose arms have budgets.")
    policy: Policy | None = None
    floor: Floor | None = None
    rules: RulesIn | None = None
    forget: Annotated[
        float, Field(gt=0, le=1, description="What an outcome is worth one round later; 1 forgets nothing.")
    ] = 1.0
    features: Annotated[list[Text], Field(max_length=100, description="What may be looked at of people.")] = Field(
        default_factory=list
    )
    pseudonymise: bool = Field(False, description="Whether pseudonyms are kept instead of ids.")
    trial: TrialIn | None = None
    source: Source = "secret"


class SettingsChange(RequestModel):
    """A change of settings from the next round on; what is left out stays as it is."""

    model_config = _example({"budget": 50, "reason": "a new nurse"})

    budget: Cycle | None = None
    policy: Policy | None = None
    floor: Floor | None = None
    rules: RulesIn | None = None
    source: Source | None = None
    part: Text = Field("", description="In a trial: of which arm.")
    reason: Reason


class ParticipantIn(RequestModel):
    """Someone who enrols, or comes back."""

    id: Id
    group: Text | None = Field(None, description="The group to which they belong.")
    staff: Text | None = Field(None, description="Who calls them.")
    features: dict[str, Text | int | float | None] = Field(
        default_factory=dict, description="A value for each feature that the programme was created with."
    )


class Enrolments(RequestModel):
    """Those who enrol."""

    model_config = _example({"participants": [{"id": "Ada", "group": "north"}, {"id": "Bo"}]})

    participants: Annotated[list[ParticipantIn], Field(min_length=1, max_length=MOST_ROWS)]


class Ids(RequestModel):
    """Some participants."""

    model_config = _example({"ids": ["Ada", "Bo"]})

    ids: Annotated[list[Id], Field(min_length=1, max_length=MOST_ROWS)]


class TakenOut(Ids):
    """Some participants who cannot be drawn from now on, and why."""

    model_config = _example({"ids": ["Ada", "Bo"], "reason": "the ward is closed"})

    reason: WhyOut = Field(
        "",
        description="Needed once more than a tenth of those enrolled (and more than 3) are taken out between two "
        "draws, or so many that fewer than twice the budget are left. The ledger keeps it.",
    )


class StateIn(RequestModel):
    """The state of someone that is observed now, before a draw."""

    id: Id
    state: Bit


class DrawIn(RequestModel):
    """What a draw is made with; all of it may be left out."""

    model_config = _example({"budget": 10}, {"states": [{"id": "Ada", "state": 0}]})

    states: Annotated[list[StateIn], Field(max_length=MOST_ROWS)] | None = Field(
        None, description="States that are observed now."
    )
    budget: Budget | dict[str, Budget] | None = Field(
        None, description="How many are drawn in this round alone; in a trial by arm."
    )
    away: Annotated[list[Id], Field(max_length=MOST_ROWS)] = Field(
        default_factory=list, description="Those who cannot be drawn from now on, until they are back."
    )
    value: Annotated[str, Field(max_length=10_000)] | None = Field(
        None,
        description="If the programme has a public source of randomness: the value that the committed round waits for; "
        "of drand, the signature of the round.",
    )
    reason: WhyOut = Field(
        "",
        description="Why the budget is not that of the settings, or why so many are away. The ledger keeps it.",
    )


class OutcomeIn(RequestModel):
    """What was done and seen of someone in a round."""

    id: Id
    action: Bit | None = Field(None, description="1 if they were reached, 0 if not.")
    state: Bit | None = Field(None, description="The state after the round, 0 (bad) or 1 (good), if it was seen.")
    before: Bit | None = Field(None, description="The state at the start of the round, if it was observed.")
    reason: Annotated[str, Field(max_length=1000)] | None = Field(
        None, description="Why someone was reached who was not drawn."
    )


class OutcomesIn(RequestModel):
    """What was done and seen in a round, of some participants or all."""

    model_config = _example({"outcomes": [{"id": "Ada", "action": 1, "state": 1}, {"id": "Bo", "action": 0}]})

    outcomes: Annotated[list[OutcomeIn], Field(min_length=1, max_length=MOST_ROWS)]


class CorrectionIn(RequestModel):
    """Values that take the place of what was reported of someone; ``unknown`` if it is not known after all."""

    id: Id
    action: Bit | Literal["unknown"] | None = None
    state: Bit | Literal["unknown"] | None = None
    before: Bit | Literal["unknown"] | None = None
    reason: Annotated[str, Field(max_length=1000)] | None = None


class CorrectionsIn(RequestModel):
    """Corrections of what was reported of a round."""

    model_config = _example({"reason": "wrong line", "outcomes": [{"id": "Ada", "action": 0}]})

    outcomes: Annotated[list[CorrectionIn], Field(min_length=1, max_length=MOST_ROWS)]
    reason: Reason


class Heads(RequestModel):
    """Heads that were kept elsewhere, or short codes of at least 12 digits; each must be in the ledger."""

    heads: Annotated[list[Annotated[str, Field(pattern=_HEAD)]], Field(max_length=1000)] = Field(default_factory=list)


class WhatIfIn(RequestModel):
    """Another budget, and for how many rounds to look ahead."""

    model_config = _example({"budgets": [20, 40], "rounds": 26})

    budgets: Annotated[list[Annotated[int, Field(ge=1, le=2**31 - 1)]], Field(min_length=1, max_length=8)]
    rounds: Annotated[int, Field(ge=1, le=520, description="How many rounds to look ahead.")] = 26
    extrapolate: bool = Field(False, description="Whether to go beyond what the records can tell.")
