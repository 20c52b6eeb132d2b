"""Modules that commands import: starting costs little more than importing numpy and click."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PROGRAM = """
import json, sys
from ninja._launch import main

sys.argv = ["ninja", *sys.argv[1:]]
try:
    main()
except SystemExit as ended:
    assert not ended.code, ended.code
print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""
# Libraries that commands on lattices do not need, and modules that only some of their features need.
HEAVY = {"torch", "pywrapfst", "pyarrow", "jinja2", "rich", "matplotlib", "kaldialign", "scipy", "transformers"}
RARE = {
    "asyncio",
    "email",
    "hashlib",
    "http",
    "multiprocessing",
    "socket",
    "ssl",
    "subprocess",
    "tempfile",
    "urllib.request",
    "xml",
}
UNNEEDED_PACKAGES = (
    "ninja.lm",
    "ninja.rescoring",
    "ninja.context",
    "ninja.tune",
    "ninja.train",
    "ninja.show",
    "ninja.evaluate",
)
UNNEEDED_MODULES = {"ninja.formats.textual", "ninja.io.layouts", "ninja.io.resume"}  # for other formats, and to resume
SHARD_MODULES = {"ninja.pipeline.cluster", "ninja.pipeline.plan", "ninja.pipeline.record", "ninja.pipeline.shard"}
MAX_MODULES = 70  # modules of the package


def modules(*arguments, folder):
    """Return the modules that are imported after a command has run."""
    command = [sys.executable, "-c", PROGRAM, *map(str, arguments)]
    process = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert process.returncode == 0, process.stderr
    return set(json.loads(process.stderr.splitlines()[-1]))


@pytest.mark.parametrize(
    "command",
    [
        ["prune", EXAMPLES / "lat.ark.gz", "-o", "pruned.ark"],
        ["best", EXAMPLES / "lat.ark.gz", "--words", EXAMPLES / "words.txt"],
        ["determinize", EXAMPLES / "lat.ark.gz", "-o", "determinized.ark"],
    ],
    ids=lambda command: command[0],
)
def test_commands_without_models_import_no_unneeded_modules(command, tmp_path):
    imported = modules(*command, folder=tmp_path)
    assert not imported & (HEAVY | RARE | SHARD_MODULES | UNNEEDED_MODULES)
    assert not [name for name in imported if name.startswith(UNNEEDED_PACKAGES)]
    assert len([name for name in imported if name.startswith("ninja.")]) <= MAX_MODULES


def test_rescoring_with_the_default_model_imports_no_torch_and_no_other_model(tmp_path):
    lattices, words = EXAMPLES / "lat.ark.gz", ("--words", EXAMPLES / "words.txt")
    assert modules("prune", lattices, "--beam", "1", "-o", "pruned.ark", folder=tmp_path)
    imported = modules("rescore", "pruned.ark", *words, "--device", "cpu", "-o", "rescored.ark", folder=tmp_path)
    assert "ninja.lm.recurrent.array_lstm" in imported
    assert not imported & HEAVY
    model_packages = (
        "ninja.lm.kaldi",
        "ninja.lm.huggingface",
        "ninja.lm.imported",
        "ninja.lm.attention",
        "ninja.models.",
    )
    assert not [name for name in imported if name.startswith((*model_packages, "ninja.tune", "ninja.train"))]


def test_the_help_imports_no_numpy(tmp_path):
    imported = modules("--help", folder=tmp_path)
    assert not imported & (HEAVY | RARE | {"numpy", "ninja.lattice", "ninja.pipeline"})
