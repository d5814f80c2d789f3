"""How the tests call the command line."""

from __future__ import annotations

import random
import secrets
import zlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from meritfair.cli import main


class Answer(NamedTuple):
    """What a command gave back."""

    code: int
    out: str
    err: str

    @property
    def words(self) -> str:
        """The output without line breaks."""
        return " ".join(self.out.split())


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    """Return what runs `meritfair` with these arguments."""

    def run(*arguments: object) -> Answer:
        with pytest.raises(SystemExit) as stopped:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        code = stopped.value.code
        assert isinstance(code, int)
        return Answer(code, captured.out, captured.err)

    return run


@pytest.fixture(autouse=True)
def _same_draws(request: pytest.FixtureRequest) -> Iterator[None]:
    """Secrets follow from the name of the test: whom a draw favours never decides whether it passes."""
    rng = random.Random(zlib.crc32(request.node.nodeid.encode()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(secrets, "token_bytes", lambda size=32: rng.randbytes(size))
        patch.setattr(secrets, "token_hex", lambda size=32: rng.randbytes(size).hex())
        yield
