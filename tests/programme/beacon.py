"""Published rounds of the drand network, and a clock at which they are to come."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from meritfair.programme import work

# Rounds of quicknet as its public address serves them, and as public repositories quote them: 1000 in several clients
# of drand in Rust, TypeScript and Solidity, 657413 in the README of mcdcam/python-drand-verify.
SIGNATURES = {
    1000: "b44679b9a59af2ec876b1a6b1ad52ea9b1615fc3982b19576350f93447cb1125e342b73a8dd2bacbe47e4b6b63ed5e39",
    657413: "b713718a38ae728dfd477991af2822e08d2f305e47718cef9f7848ce4050e7be41076862b98fad56e91a6b85b89cd97b",
}
RANDOMNESS = {
    1000: "fe290beca10872ef2fb164d2aa4442de4566183ec51c56ff3cd603d930e54fdd",
    657413: "fc1873a13f3545aeade8401532ef5519920652eee6b0d2b19ca12643b87b3587",
}


def time_of(round_: int) -> datetime:
    """Return when a round was published."""
    return datetime.fromtimestamp(1692803367 + 3 * (round_ - 1), UTC)


def set_clock(patch: pytest.MonkeyPatch, time: datetime) -> None:
    """Let the clock of this process say a time."""
    patch.setattr(work, "now", lambda: f"{time:%Y-%m-%dT%H:%M:%SZ}")


def before(round_: int) -> datetime:
    """Return a time at which a programme with the source ``drand`` commits to a round."""
    return time_of(round_) - timedelta(seconds=61)
