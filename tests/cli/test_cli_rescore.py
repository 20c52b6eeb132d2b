"""``ninja train`` and ``ninja rescore``, from a text to rescored lattices, with a model with few words."""

import io
import os
import pty
import re
import shutil
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import SimpleNamespace

import pytest

import ninja as package
from ninja.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
SIZES = {"min-count": 1, "embedding": 8, "hidden": 16, "layers": 1, "epochs": 2, "batch-tokens": 256}
PACE = {"warmup": 1, "samples": 0, "check-steps": 2, "threads": 1}
TINY = [f"--{name}={value}" for name, value in {**SIZES, **PACE}.items()]


@pytest.fixture(scope="module")
def training(tmp_path_factory):
    """Create a folder with four lattices and their words, and train a model of these words; return all results."""
    folder = tmp_path_factory.mktemp("bed")
    with package.write(folder / "lat.ark") as output:
        for number, (_, lattice) in enumerate(package.read(EXAMPLES / "lat.ark.gz")):
            if number in (0, 2, 3, 4):
                output.write(lattice)
    shutil.copy(EXAMPLES / "words.txt", folder)
    words = [line.split()[0] for line in (EXAMPLES / "words.txt").read_text().splitlines() if line[0] != "<"]
    text = "\n".join([*(line.split(" ", 1)[1] for line in (EXAMPLES / "text").read_text().splitlines()), *words])
    (folder / "train.txt").write_text(text + "\n")
    train = str(folder / "train.txt")
    before = os.listdir(folder)
    with redirect_stdout(io.StringIO()) as output, redirect_stderr(io.StringIO()) as errors:
        code = main(["train", train, "--dev", train, "-o", str(folder / "lm.pt"), *TINY])
    new_files = [name for name in os.listdir(folder) if name not in before]
    return SimpleNamespace(
        folder=folder, code=code, output=output.getvalue(), errors=errors.getvalue(), new_files=new_files
    )


@pytest.fixture
def bed(training):
    """Return a folder with four lattices, their words, and a model that contains all of these words."""
    return training.folder


def test_train_reports_perplexity_and_removes_its_state(training):
    assert (training.code, training.output) == (0, "")
    assert "perplexity" in training.errors.splitlines()[-1]
    assert training.new_files == ["lm.pt"]


def test_rescore_reports_its_work_and_uses_the_table_next_to_the_archive(ninja, bed, tmp_path):
    output = tmp_path / "out.ark"
    code, printed, errors = ninja("rescore", bed / "lat.ark", "--rnnlm", bed / "lm.pt", "-o", output)
    assert (code, printed) == (0, "")
    table, scales, vocabulary, summary = errors.splitlines()
    assert scales == f"ninja: wrote the scales to {output}.scales.toml"
    assert table == f"ninja: using the symbol table {bed / 'words.txt'}"
    assert vocabulary.startswith("ninja: vocabulary: the language model contains all ")
    numbers = re.fullmatch(
        r"ninja: 4 lattices, (\d+) arcs \((\d+) expanded\), (\d+) histories, (\d+) LM steps with (\d+) scores, "
        r"([\d.]+) s \(([\d.]+) s in the LM\), ([\d.]+) s of audio \(real-time factor [\d.]+\)",
        summary,
    )
    assert numbers, summary
    arcs, expanded, histories, *_ = map(float, numbers.groups())
    assert 0 < histories < expanded
    assert arcs == sum(lattice.num_arcs for _, lattice in package.read(bed / "lat.ark"))
    assert list(package.keys(output)) == list(package.keys(bed / "lat.ark"))


@pytest.mark.parametrize("kind", ["lattice", "input", "best"])
def test_workers_write_the_lattices_of_a_single_process(ninja, bed, tmp_path, kind):
    arguments = ["rescore", bed / "lat.ark", "--rnnlm", bed / "lm.pt", "--output", kind, "--batch-arcs", 400]
    assert ninja(*arguments, "-o", tmp_path / "one.ark")[0] == 0
    code, _, errors = ninja(*arguments, "-o", tmp_path / "two.ark", "--jobs", 2)
    assert code == 0
    assert errors.count("vocabulary: ") == 1
    assert "ninja: 4 lattices, " in errors
    single, parallel = (dict(package.read(tmp_path / name)) for name in ("one.ark", "two.ark"))
    assert list(single) == list(parallel)
    for key, lattice in single.items():
        assert lattice.word.tolist() == parallel[key].word.tolist()
        assert lattice.graph == pytest.approx(parallel[key].graph, abs=1e-3)


def test_a_model_of_another_language_is_refused_with_frequent_unknown_words(ninja, bed, tmp_path):
    (tmp_path / "other.txt").write_text("ein ganz anderer Text\n" * 9)
    model = tmp_path / "other.pt"
    assert ninja("train", tmp_path / "other.txt", "--dev", tmp_path / "other.txt", "-o", model, *TINY)[0] == 0
    arguments = ["rescore", bed / "lat.ark", "--rnnlm", model, "-o", tmp_path / "out.ark"]
    for jobs in (1, 2):
        code, _, errors = ninja(*arguments, "--jobs", jobs)
        assert code == 1
        assert "of arcs have words unknown to the language model" in errors
        assert "most frequent: " in errors
        assert not (tmp_path / "out.ark").exists()
    assert ninja(*arguments, "--max-unknown", 1)[0] == 0


def test_rescoring_resumes_after_written_keys(ninja, bed, tmp_path):
    output = tmp_path / "out.ark"
    arguments = ["rescore", bed / "lat.ark", "--rnnlm", bed / "lm.pt", "-o", output, "--resume"]
    assert ninja(*arguments)[0] == 0
    complete = output.read_bytes()
    code, _, errors = ninja(*arguments)
    assert code == 0
    assert "skipped 4 lattices that are already in the output" in errors
    assert output.read_bytes() == complete


def test_rescore_prints_the_best_words_on_a_terminal(bed):
    controller, terminal = pty.openpty()
    command = [sys.executable, "-m", "ninja", "rescore", str(bed / "lat.ark"), "--rnnlm", str(bed / "lm.pt")]
    process = subprocess.run(command, cwd=ROOT, stdout=terminal, stderr=subprocess.PIPE, timeout=120)
    os.close(terminal)
    printed = b""
    while chunk := read_terminal(controller):
        printed += chunk
    assert process.returncode == 0, process.stderr
    lines = printed.decode().splitlines()
    assert [line.split()[0] for line in lines] == list(package.keys(bed / "lat.ark"))
    assert all(word.isascii() and not word.isdigit() for line in lines for word in line.split()[1:])


def read_terminal(descriptor):
    try:
        return os.read(descriptor, 65536)
    except OSError:  # on Linux, after the other end is closed
        return b""


def test_progress_is_shown_only_on_a_terminal(bed, tmp_path):
    controller, terminal = pty.openpty()
    command = [sys.executable, "-m", "ninja", "prune", str(bed / "lat.ark"), "-o", str(tmp_path / "p.ark")]
    environment = {**os.environ, "TERM": "xterm"}
    process = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=terminal, env=environment, timeout=120)
    os.close(terminal)
    printed = b""
    while chunk := read_terminal(controller):
        printed += chunk
    assert (process.returncode, process.stdout) == (0, b"")
    assert b"lattices" in printed
    assert b"\x1b[" in printed
