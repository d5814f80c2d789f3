"""The HTTP API, version 1: what the command line can do, for programs."""

from __future__ import annotations

from fastapi import FastAPI


def install(app: FastAPI) -> None:
    """Add all routes of the API."""
