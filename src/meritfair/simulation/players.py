"""Who is compared: policies by label, from what users give, and why some of them cannot be played."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from meritfair.core.errors import InputError, MeritfairError
from meritfair.model.arms import Arms
from meritfair.model.criterion import Confidence, Criterion
from meritfair.policies import registry
from meritfair.policies.base import Policy
from meritfair.simulation.simulate import make_policy, simulate


@dataclass(frozen=True)
class Notes:
    """Why policies could not be played, if they may be skipped."""

    may_skip: bool
    skipped: dict[str, str] = dataclasses.field(default_factory=dict)

    @contextmanager
    def about(self, label: str) -> Iterator[None]:
        """Note why this policy fails, or raise it."""
        try:
            yield
        except MeritfairError as error:
            if not self.may_skip:
                raise InputError(f"{label} cannot be played here: {error}") from error
            self.skipped[label] = str(error)


def try_out(
    arms: Arms, players: Mapping[str, Policy], notes: Notes, tell: Callable[[str], None], **settings: Any
) -> None:
    """Play an episode of each policy: so that what cannot be played shows at once, and all is compiled together.

    Parameters
    ----------
    arms : Arms
    players : mapping of str to Policy
        By label.
    notes : Notes
        What may be skipped.
    tell : callable
        Is told what is going on.
    settings
        As for `simulate`.
    """
    for number, (label, policy) in enumerate(players.items()):
        tell(f"getting ready, {number} of {len(players)}")
        with notes.about(label):
            simulate(arms, policy, **{**settings, "episodes": 1})


def players_of(policies: Any, criterion: Criterion, confidence: Confidence, notes: Notes) -> dict[str, Policy]:
    """Return the policies to be compared, by label."""
    players: dict[str, Policy] = {}
    if policies is None:
        for label in [*registry.names(), registry.RECOMMENDED]:
            with notes.about(label):
                players[label] = make_policy(label, criterion, confidence)
        return players
    if not isinstance(policies, (Mapping, Sequence)) or isinstance(policies, str) or not policies:
        raise InputError(f"policies must be a non-empty list, or a mapping of labels to policies, got {policies!r}")
    for key in policies:
        each = policies[key] if isinstance(policies, Mapping) else key
        made = make_policy(each, criterion, confidence)
        label = str(key) if isinstance(policies, Mapping) or isinstance(each, str) else registry.text_of(made)
        if not (visible := "".join(label.split())) or not visible.isprintable():
            raise InputError(f"a label must be text that can be seen, without control characters, got {label!r}")
        if label in players:
            raise InputError(f"duplicate policy: {label}")
        players[label] = made
    return players
