"""Fixtures of the pipeline's tests."""

import shutil

import pytest
from example_lattices import ARCHIVE, WORDS
from lattice_files import write_all

import ninja as package


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Work in a folder with the example as a plain archive of 40 lattices, and its words."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(WORDS, ".")
    write_all("lat.ark", (lattice for _, lattice in package.read(ARCHIVE)))
    return tmp_path
