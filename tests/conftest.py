"""Settings of all tests."""

import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

from ninja.cli import main

SHARED = Path(os.environ.get("NINJA_SHARED", Path(__file__).parents[2] / "shared"))

settings.register_profile("ninja", deadline=None)  # a busy machine must not fail a test
settings.load_profile("ninja")

# A shell's background job ignores these signals, and what it starts would, too: the programs under test must not.
for number in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, lambda *_: None)


def pytest_sessionstart():
    """Refuse to let the comparisons with Kaldi's answers skip themselves where they must run."""
    if os.environ.get("CI") and not (SHARED / "golden").is_dir():
        pytest.exit(f"this is CI, but Kaldi's answers are not in {SHARED}; set NINJA_SHARED", returncode=3)


@pytest.fixture
def ninja(capfd):
    """Run a command in this process; return its exit code, stdout and stderr."""

    def run(*arguments):
        code = main([str(argument) for argument in arguments])
        output = capfd.readouterr()
        return code, output.out, output.err

    return run
