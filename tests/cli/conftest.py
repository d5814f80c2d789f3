"""How the tests call the command line."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from meritfair.cli import main
from same_draws import same_draws as same_draws


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
