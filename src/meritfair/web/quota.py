"""The answer to someone who has asked for enough: 429, and when to try again."""

from __future__ import annotations

from meritfair.core.errors import InputError

RETRY_SECONDS = 10


class QuotaError(InputError):
    """There is no room for this now: a user has enough under way, or everyone together has."""
