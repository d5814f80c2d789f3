"""A server, and the programmes that it keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

import httpx

from meritfair.client.connection import Connection
from meritfair.client.programme import RemoteProgramme
from meritfair.client.results import ProgrammeLine, decode
from meritfair.core.errors import MeritfairError
from meritfair.programme.reporting import Receipt


class Client:
    """A server; made by `connect`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def __enter__(self) -> Client:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Let go of all connections."""
        self._connection.close()

    def programmes(self) -> tuple[ProgrammeLine, ...]:
        """Return the programmes in which you have a role."""
        found = self._connection.get("list_programmes")["programmes"]
        return tuple(decode(ProgrammeLine, each) for each in found)

    def programme(self, name: str) -> RemoteProgramme:
        """Return a programme; whether there is one is found when it is asked something."""
        return RemoteProgramme(self._connection, name)

    def create(
        self,
        name: str,
        budget: int | Sequence[int] | None = None,
        *,
        policy: str | None = None,
        floor: float | None = None,
        rules: Mapping[str, Any] | None = None,
        forget: float = 1.0,
        features: Sequence[str] = (),
        pseudonymise: bool = False,
        trial: Mapping[str, Any] | None = None,
        source: str = "secret",
        key: str | None = None,
    ) -> Receipt:
        """Create a programme, as `meritfair.programme.Programme.create`; it needs the role admin for all programmes.

        Parameters
        ----------
        name : str
        budget : int or sequence of int
        policy : str
            By name, with its settings.
        floor : float
        rules : mapping
            ``cooldown``, ``warmup``, ``once`` and ``accrue``.
        forget : float
        features : sequence of str
        pseudonymise : bool
        trial : mapping
            ``protocol``, the SHA-256 of a file; ``arms``, each with ``name`` and ``budget``; ``strata``.
        source : str
            Public randomness that no draw is made without, such as ``drand``.
        key : str
        """
        said = {"budget": budget, "policy": policy, "floor": floor, "rules": rules, "trial": trial}
        body = {"name": name, "forget": forget, "features": list(features), "pseudonymise": pseudonymise}
        body |= {"source": source}
        given = {each: value for each, value in said.items() if value is not None}
        return decode(Receipt, self._connection.get("create_programme", body={**body, **given}, key=key))

    def is_alive(self) -> bool:
        """Return whether the server answers."""
        return bool(self._connection.get("get_health")["status"] == "ok")

    def is_ready(self) -> bool:
        """Return whether the server can use its database."""
        try:
            return bool(self._connection.get("get_readiness")["status"] == "ok")
        except MeritfairError:
            return False

    def metrics(self) -> str:
        """Return the figures for Prometheus."""
        return self._connection.send("get_metrics").text


def connect(url: str, token: str, *, timeout: float = 60.0, tries: int = 6) -> Client:
    """Return a client of a server.

    Parameters
    ----------
    url : str
        Such as ``https://meritfair.example.org``.
    token : str
        As `meritfair tokens add` prints it, or the page of an administrator.
    timeout : float
        Seconds that one request may take.
    tries : int
        How often a request is sent at most, if the server cannot be reached or is busy.
    """
    http = httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=timeout)
    return Client(Connection(http, tries))
