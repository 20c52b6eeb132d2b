"""Run code blocks of documentation pages in a folder with the files that they use."""

import atexit
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from lattice_files import write_all

import ninja

ROOT = Path(__file__).resolve().parents[2]
SERVER = Path(__file__).with_name("command_server.py")
NOT_RUN = "pip install"  # marks the block that installs the package
# A decode folder of Kaldi and related files, copied from the examples.
DECODED = {
    "exp/decode_test/lat.1.gz": "lat.ark.gz",
    "data/test/text": "text",
    "data/lang/words.txt": "words.txt",
}


@functools.cache
def command_socket():
    """Start the command server of this test process; return its socket."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder)
    command = [sys.executable, str(SERVER), str(folder / "commands")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
    assert server.stdout.readline() == b"ready\n"
    atexit.register(server.communicate)  # it ends with its standard input
    return folder / "commands"


@functools.cache
def examples():
    """Return the examples without their largest lattices, which contain two thirds of the arcs."""
    folder = Path(tempfile.mkdtemp()) / "examples"
    atexit.register(shutil.rmtree, folder.parent)
    shutil.copytree(ROOT / "examples", folder)
    for directory, max_arcs in ((folder, 2000), (folder / "librispeech", 900)):
        small = {key: lattice for key, lattice in ninja.read(directory / "lat.ark.gz") if lattice.num_arcs < max_arcs}
        write_all(directory / "lat.ark.gz", small.values())
        lines = (directory / "text").read_text().splitlines(keepends=True)
        (directory / "text").write_text("".join(line for line in lines if line.split()[0] in small))
    return folder


def with_examples(folder, source=None):
    """Return the folder with all files that pages use; a source other than the small examples remains for later
    calls."""
    if not (folder / "bin").exists():
        source = source or examples()
        (folder / "examples").symlink_to(source)
        for place, example in DECODED.items():
            (folder / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source / example, folder / place)  # a copy, as a page may overwrite it
        (folder / "bin").mkdir()
        program = folder / "bin" / "ninja"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S -E "{SERVER}" "{command_socket()}" "$@"\n')
        program.chmod(0o755)
    return folder


def run(command, folder):
    with_examples(folder)
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    python_path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": python_path}
    process = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert process.returncode == 0, process.stderr
    return process


@pytest.fixture(name="run_python")
def python_runner(monkeypatch, capfd):
    """Run code in a folder, in this process, with torch already imported; return its output."""

    def run_here(code, folder):
        monkeypatch.chdir(with_examples(folder))
        exec(compile(code, "example", "exec"), {"__name__": "__main__"})
        return "".join(capfd.readouterr())

    return run_here
