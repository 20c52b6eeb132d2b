"""Fixtures for tests of the command line."""

import pytest
from example_lattices import write_first
from reference_graph import SHARED


@pytest.fixture(scope="session")
def small(tmp_path_factory):
    """Return an archive of the first five example lattices."""
    return write_first(tmp_path_factory.mktemp("small") / "small.ark")


@pytest.fixture(scope="session")
def korean():
    """Return the folder of the golden files that Kaldi wrote."""
    folder = SHARED / "golden" / "korean"
    if not folder.exists():
        # The folder ../shared is not part of the project; in CI, tests/conftest.py turns this skip into a failure.
        pytest.skip("Kaldi's golden files are not part of the project")
    return folder
