"""Fixtures of the pipeline tests."""

import shutil

import pytest
from example_lattices import ARCHIVE, WORDS
from lattice_files import write_all

import ninja as package


@pytest.fixture
def example_folder(tmp_path, monkeypatch):
    """Change to a folder with the example as an uncompressed archive of 40 lattices and its symbol table."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(WORDS, ".")
    write_all("lat.ark", (lattice for _, lattice in package.read(ARCHIVE)))
    return tmp_path
