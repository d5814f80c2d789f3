"""Clients of a server in this process: browsers that are signed in, and programs with a token."""

from __future__ import annotations

import hashlib
import hmac
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from meritfair.programme.users import Role, Users
from meritfair.web.access import COOKIE
from meritfair.web.app import create_app
from meritfair.web.frame import Frame
from meritfair.web.settings import ServerSettings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it would rather have a successor of httpx, which is not needed here
    from starlette.testclient import TestClient as TestClient

ADDRESS = "http://127.0.0.1:8000"


@dataclass(frozen=True)
class Web:
    """A server in this process."""

    app: FastAPI

    @property
    def frame(self) -> Frame:
        """What its requests share."""
        found = self.app.state.frame
        assert isinstance(found, Frame)
        return found

    @property
    def users(self) -> Users:
        """Its users."""
        return self.frame.users

    def anyone(self, address: str = "192.0.2.1") -> TestClient:
        """Return a browser in which nobody is signed in, at an address."""
        return TestClient(
            self.app, ADDRESS, raise_server_exceptions=True, follow_redirects=False, client=(address, 5000)
        )

    def browser(self, name: str, roles: dict[str, Role] | None = None) -> TestClient:
        """Return a browser in which a user is signed in, who is made if they are not there."""
        if roles is not None:
            self.users.add(name, roles, by="test")
        client = self.anyone()
        client.cookies.set(COOKIE, self.users.use_link(self.users.link(name, by="test")))
        client.headers["X-CSRF-Token"] = self.csrf(client)
        return client

    def csrf(self, client: TestClient) -> str:
        """Return the token that pages of this browser have in their forms."""
        session = client.cookies.get(COOKIE) or ""
        return hmac.new(self.frame.key.encode(), b"csrf " + session.encode(), hashlib.sha256).hexdigest()

    def program(self, name: str, roles: dict[str, Role] | None = None, **limits: Any) -> TestClient:
        """Return a program with a token of a user, who is made if they are not there."""
        if roles is not None:
            self.users.add(name, roles, by="test")
        client = self.anyone()
        client.headers["Authorization"] = f"Bearer {self.users.new_token(name, 'test', by='test', **limits)[1]}"
        return client


def serving(store_url: str, folder: Path, **settings: Any) -> Web:
    """Return a server of a store."""
    return Web(create_app(ServerSettings(store=store_url, run_folder=str(folder), **settings)))
