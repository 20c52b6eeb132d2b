"""Fixtures of the pipeline tests."""

import shutil

import pytest
from example_lattices import ARCHIVE, WORDS
from lattice_files import write_all

import ninja as package


@pytest.fixture(scope="session")
def pruned_archive(tmp_path_factory):
    """Write the 40 example lattices, pruned to 2 MB: more than the blocks that are read (512 KB) or searched (1 MB)."""
    path = tmp_path_factory.mktemp("pruned") / "lat.ark"
    scales = package.Scales(0.1)
    write_all(path, (package.graph.prune(lattice, 6.0, scales) for _, lattice in package.read(ARCHIVE)))
    return path


@pytest.fixture
def example_folder(tmp_path, monkeypatch, pruned_archive):
    """Change to a folder with an uncompressed archive of 40 lattices and its symbol table."""
    monkeypatch.chdir(tmp_path)
    for path in (WORDS, pruned_archive):
        shutil.copy(path, ".")
    return tmp_path
