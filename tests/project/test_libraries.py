"""Features that work with the small libraries only, and messages that name the library to install."""

import importlib.metadata
import json
import subprocess
import sys
from pathlib import Path

import pytest

import ninja.libraries
import ninja.models
from ninja.cli.commands import COMMANDS
from ninja.errors import DependencyError
from ninja.libraries import LIBRARIES, explained, needed_for

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
SMALL = ("click", "isal", "kaldialign", "lazy_loader", "numpy")
TORCH = "pip install torch --index-url https://download.pytorch.org/whl/cpu"

# Run all command lines in one process, as separate processes would take a minute.
PROGRAM = """
import contextlib, io, json, sys
from ninja.cli.main import main

for arguments in json.load(sys.stdin):
    stdout = io.TextIOWrapper(io.BytesIO())
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(io.StringIO()) as said:
        code = main(arguments)
    print(json.dumps([code, said.getvalue()]))
"""


@pytest.fixture(scope="module")
def light_site(tmp_path_factory):
    """Create a folder with Ninja and the small libraries only."""
    site = tmp_path_factory.mktemp("site")
    for name in SMALL:
        distribution = importlib.metadata.distribution(name)
        for top in {Path(file).parts[0] for file in distribution.files} - {"..", "__pycache__"}:
            if not (site / top).exists():
                (site / top).symlink_to(distribution.locate_file(top))
    (site / "ninja").mkdir()
    package, models = (Path(module.__file__).parent for module in (ninja.libraries, ninja.models))
    for path in {*package.iterdir(), models}:  # in a checkout, the models are next to the package
        (site / "ninja" / path.name).symlink_to(path)
    return site


def run(site, lines, folder):
    """Run command lines without any other library; return exit code and messages of each."""
    environment = {"PYTHONPATH": str(site), "PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.run(
        [sys.executable, "-S", "-c", PROGRAM],
        input=json.dumps([[str(argument) for argument in line] for line in lines]),
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert process.returncode == 0, process.stderr
    return [json.loads(line) for line in process.stdout.splitlines()]


def test_every_command_shows_help_with_small_libraries_only(light_site, tmp_path):
    lines = [[*name.split(), "--help"] for name in COMMANDS]
    results = run(light_site, lines, tmp_path)
    for line, (code, stderr) in zip(lines, results, strict=True):
        assert code == 0, f"{line}: {stderr}"


def test_commands_work_with_small_libraries_only(light_site, tmp_path):
    lattices, words, text = EXAMPLES / "lat.ark.gz", ("--words", EXAMPLES / "words.txt"), EXAMPLES / "text"
    lines = [
        ["doctor"],
        ["info", lattices, *words],
        ["prune", lattices, "-o", "pruned.ark"],
        ["convert", "pruned.ark", *words, "--to", "slf", "-o", "slf"],
        ["convert", "pruned.ark", *words, "-o", "lat.pfsg"],
        ["convert", "pruned.ark", *words, "-o", "lat.json"],
        *(
            [verb, "pruned.ark", *words]
            for verb in ("best", "nbest", "posteriors", "mbr-decode", "to-ctm-conf", "depth")
        ),
        ["score", text, "pruned.ark", *words, "--acoustic-scale", "0.1"],
        ["oracle", "pruned.ark", "--ref", text, *words],
        ["determinize-pruned", "pruned.ark", "-o", "determinized.ark"],
        ["union", "pruned.ark", "determinized.ark", "-o", "union.ark"],
        ["train", "ngram", text, "-o", "ngram.arpa"],
        ["lmrescore", "pruned.ark", "--lm", "ngram.arpa", *words, "-o", "first.ark"],
        ["rescore", "pruned.ark", *words, "--rnnlm", "ngram.arpa", "--max-unknown", "1", "-o", "second.ark"],
        ["lm", "score", "ngram.arpa", text],
        ["rescore", "pruned.ark", *words, "-o", "neural.ark"],
        ["lm", "score", "english", text],
    ]
    results = run(light_site, lines, tmp_path)
    for line, (code, stderr) in zip(lines, results, strict=True):
        assert code == 0, f"{line}: {stderr}"


def test_missing_library_message_names_the_package_to_install(light_site, tmp_path):
    lattices, words, text = EXAMPLES / "lat.ark.gz", ("--words", EXAMPLES / "words.txt"), EXAMPLES / "text"
    key = text.read_text().split(maxsplit=1)[0]
    expected = {
        ("rescore", lattices, *words, "--backend", "torch", "-o", "out.ark"): (
            "a network of type lstm needs torch",
            TORCH,
        ),
        ("lm", "score", "english", text, "--device", "cuda"): ("a network of type lstm needs torch", TORCH),
        ("train", text, "--dev", text, "-o", "out.pt"): ("training a network needs torch", TORCH),
        ("convert", lattices, "-o", "out.pt"): ("writing a k2 file needs torch", TORCH),
        ("convert", lattices, "-o", "out.arrow"): ("the native format needs pyarrow", "pip install pyarrow"),
        ("equivalent", lattices, lattices): ("needs pywrapfst", "pip install pynini"),
        ("show", lattices, *words, "--key", key, "-o", "out.html"): ("a page needs jinja2", "pip install jinja2"),
    }
    for line, (code, stderr) in zip(expected, run(light_site, list(expected), tmp_path), strict=True):
        assert code == 1, line
        requirement, install = expected[line]
        assert f"{requirement}, which is not installed; {install}" in stderr, line
        assert "internal error" not in stderr
        assert len(stderr.splitlines()) < 4 or line[0] == "equivalent", stderr
    assert list(tmp_path.iterdir()) == []


def test_doctor_lists_missing_libraries_and_their_features(light_site, tmp_path):
    environment = {"PYTHONPATH": str(light_site), "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-S", "-m", "ninja", "doctor"]
    process = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100)
    assert process.returncode == 0, process.stdout
    assert "BAD" not in process.stdout
    missing = {line.split()[1] for line in process.stdout.splitlines() if line.startswith("-  ")}
    assert missing == set(LIBRARIES) - set(SMALL)
    features = "networks other than LSTMs and Kaldi RNNLMs, GPUs, training, writing k2 files"
    assert f"not installed, needed for {features}; {TORCH}" in process.stdout


def test_broken_library_message_has_the_import_error():
    with pytest.raises(DependencyError) as error, needed_for("a page", "out.html"):
        raise ImportError("libx.so: cannot open shared object file\nmore", name="torch._C")
    assert str(error.value).startswith(
        "out.html: a page needs torch, which cannot be imported (libx.so: cannot open shared object file); install it "
        f"again: {TORCH}"
    )


def test_unlisted_library_is_installed_by_its_name():
    error = explained(ModuleNotFoundError("No module named 'other.part'", name="other.part"))
    assert str(error) == "other is not installed; pip install other"


def test_import_error_within_ninja_is_not_changed():
    error = ImportError("cannot import name", name="ninja.graph")
    assert explained(error) is error
