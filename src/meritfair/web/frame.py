"""What all requests of one worker share: the store, who may do what, programmes in memory, long work."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from fastapi import Request

from meritfair.programme.live_demo import open_clinic
from meritfair.programme.reading import Reader
from meritfair.programme.storage.store import Store
from meritfair.programme.users import Users
from meritfair.web.jobs import Jobs
from meritfair.web.limits import Limits
from meritfair.web.pending_uploads import PendingUploads
from meritfair.web.settings import ServerSettings


@dataclass(frozen=True)
class Frame:
    """What all requests of one worker share.

    Attributes
    ----------
    key : str
        By which the servers on the store sign what they give to browsers: forms of one are taken by another.
    """

    settings: ServerSettings
    store: Store
    users: Users
    reader: Reader
    jobs: Jobs
    limits: Limits
    key: str

    @classmethod
    def of(cls, settings: ServerSettings) -> Frame:
        """Open the store of a server, with a simulated clinic in it if it is to be shown."""
        store = Store(settings.store or None)
        if settings.demo:
            open_clinic(store)
        key = store.setting_or_new("signing key", lambda: secrets.token_hex(32))
        limits = Limits(settings.workers)
        return cls(settings, store, Users(store), Reader(store), Jobs(settings, store), limits, key)

    def forget_files(self, programme: str) -> None:
        """Delete what is kept beside a programme for a while: results of long work, and uploads that wait."""
        self.jobs.forget(programme)
        PendingUploads(self.store).forget(programme)


def frame_of(request: Request) -> Frame:
    """Return what the worker of a request has."""
    found = request.app.state.frame
    assert isinstance(found, Frame)
    return found
