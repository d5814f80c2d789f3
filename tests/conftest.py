"""What holds for all tests."""

from __future__ import annotations

import signal

from hypothesis import settings

# Who starts the tests in the background or by nohup has these ignored, and so would all processes that tests start.
for each, usual in ((signal.SIGINT, signal.default_int_handler), (getattr(signal, "SIGHUP", None), signal.SIG_DFL)):
    if each is not None and signal.getsignal(each) == signal.SIG_IGN:
        signal.signal(each, usual)

settings.register_profile("meritfair", deadline=None)  # how long an example takes never decides a test
settings.load_profile("meritfair")
