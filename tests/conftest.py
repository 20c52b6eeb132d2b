"""Settings of all tests."""

import signal

from hypothesis import settings

settings.register_profile("ninja", deadline=None)  # a busy machine must not fail a test
settings.load_profile("ninja")

# A shell's background job ignores these signals, and what it starts would, too: the programs under test must not.
for number in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, lambda *_: None)
