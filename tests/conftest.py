"""What holds for all tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

SLOW_EXAMPLES = {  # in docstrings: they start processes, or run all checks
    "meritfair.lab.cluster.cluster",
    "meritfair.lab.running.run_spec",
    "meritfair.lab.sweep.run_sweep",
    "meritfair.testing.check_policy",
}

# Who starts the tests in the background or by nohup has these ignored, and so would all processes that tests start.
for each, usual in ((signal.SIGINT, signal.default_int_handler), (getattr(signal, "SIGHUP", None), signal.SIG_DFL)):
    if each is not None and signal.getsignal(each) == signal.SIG_IGN:
        signal.signal(each, usual)

settings.register_profile("meritfair", deadline=None)  # how long an example takes never decides a test
settings.load_profile("meritfair")


@pytest.hookimpl(tryfirst=True)  # before those that are not asked for are left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.name in SLOW_EXAMPLES:
            item.add_marker(pytest.mark.slow)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Before all tests are shared out to several processes, compile the engine once, and not in each of them."""
    config = session.config
    everything = config.args_source is config.ArgsSource.TESTPATHS and not config.getoption("keyword")
    if everything and config.getoption("numprocesses", 0) and "PYTEST_XDIST_WORKER" not in os.environ:
        subprocess.run([sys.executable, Path(__file__).parent / "compile_engine.py"], check=False)
