"""Fixtures for tests of the command line."""

import pytest
from example_lattices import write_first
from reference_graph import SHARED


@pytest.fixture(scope="session")
def small(tmp_path_factory):
    """An archive of the first five example lattices."""
    return write_first(tmp_path_factory.mktemp("small") / "small.ark")


@pytest.fixture(scope="session")
def korean():
    """Return the folder of Kaldi's results."""
    folder = SHARED / "golden" / "korean"
    if not folder.exists():
        # A user's checkout has no ../shared; in CI tests/conftest.py turns this skip into a failure.
        pytest.skip("Kaldi's answers do not come with the project")
    return folder
