"""Output, messages and exit codes of commands."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest
from example_lattices import ARCHIVE, KEYS, ROOT, TEXT, WORDS
from lattice_files import write_all

import ninja as package


@pytest.fixture
def damaged(small, tmp_path):
    """Write a text archive whose second lattice has a cycle."""

    path = tmp_path / "damaged.txt"
    write_all(f"ark,t:{path}", (lattice for _, lattice in package.read(small)))
    entries = path.read_text().split("\n\n")
    lines = entries[1].strip("\n").split("\n")
    lines.insert(2, "1\t0\t5\t1,1,")
    entries[1] = "\n".join(lines)
    path.write_text("\n\n".join(entries))
    return path


def start_program(*arguments, **options):
    command = [sys.executable, "-m", "ninja", *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


def test_best_prints_words_only_with_a_symbol_table(ninja, small):
    code, ids, errors = ninja("best", small, "--acoustic-scale", "0.1")
    assert (code, errors) == (0, "")
    assert ids.splitlines()[0] == f"{KEYS[0]} 50450 9049 4431 45666 54814 125067 73957"
    code, words, _ = ninja("best", small, "--acoustic-scale", "0.1", "--words", WORDS)
    assert words.splitlines()[0] == f"{KEYS[0]} hello becky any good in your mind"
    assert len(words.splitlines()) == 5


def test_best_writes_alignments_and_costs_to_files(ninja, small, tmp_path):
    code, output, _ = ninja(
        "best", small, "--acoustic-scale", "0.1", "-o", tmp_path / "w", "--alignment", tmp_path / "a", "--cost",
        tmp_path / "c",
    )  # fmt: skip
    assert (code, output) == (0, "")
    key, graph, acoustic = (tmp_path / "c").read_text().splitlines()[0].split()
    assert (key, graph) == (KEYS[0], "42.2372")
    assert float(acoustic) > 0
    key, *labels = (tmp_path / "a").read_text().splitlines()[0].split()
    assert (key, set(labels)) == (KEYS[0], {"1", "2", "3"})
    assert (tmp_path / "w").read_text().splitlines()[0].startswith(f"{KEYS[0]} 50450 ")


def test_nbest_numbers_the_keys_and_starts_with_the_best_path(ninja, small):
    code, output, _ = ninja("nbest", small, "-n", 3, "--acoustic-scale", "0.1", "--words", WORDS)
    lines = output.splitlines()
    assert code == 0
    assert len(lines) == 15
    assert lines[0] == f"{KEYS[0]}-1 hello becky any good in your mind"
    assert lines[1] == f"{KEYS[0]}-2 hello but he any good in your mind"
    assert len({line.split(" ", 1)[1] for line in lines[:3]}) == 3


def test_posteriors_prints_the_columns_of_kaldi(ninja, small):
    code, output, _ = ninja("posteriors", small, "--acoustic-scale", "0.1")
    key, start, frames, probability, word, labels = output.splitlines()[0].split("\t")
    assert code == 0
    assert (key, start, frames, word) == (KEYS[0], "0", "90", "50450")
    assert float(probability) == pytest.approx(0.9988751, abs=1e-5)
    assert len(labels.split("_")) == 90
    options = ("--acoustic-scale", "0.1", "--min-post", "0.9", "--words", WORDS)
    _, output_with_words, _ = ninja("posteriors", small, *options)
    assert output_with_words.splitlines()[0].split("\t")[4] == "hello"
    assert len(output_with_words.splitlines()) < len(output.splitlines())


def test_info_prints_counts_of_lattices_states_and_arcs(ninja, small):
    code, output, _ = ninja("info", small, "--json")
    figures = json.loads(output)
    assert code == 0
    assert figures["lattices"] == 5
    assert figures["kinds"] == {"compact": 5}
    _, output, _ = ninja("info", small, "--per-lattice")
    assert output.splitlines()[0] == f"{KEYS[0]} 172 292 326 24.3865"


def test_score_prints_the_lines_of_kaldi_for_transcripts_lattices_and_oracles(ninja, tmp_path):
    ninja("best", ARCHIVE, "--words", WORDS, "--acoustic-scale", "0.1", "-o", tmp_path / "hyp")
    code, text, errors = ninja("score", TEXT, tmp_path / "hyp", "--alignments", tmp_path / "ali")
    assert (code, errors) == (0, "")
    assert text.splitlines()[0] == "%WER 32.35 [ 153 / 473, 35 ins, 6 del, 112 sub ]"
    assert (tmp_path / "ali").read_text().splitlines()[:3] == [
        KEYS[0],
        "ref: hello bertie any good in your mind",
        "hyp: hello becky  any good in your mind",
    ]
    assert ninja("score", TEXT, ARCHIVE, "--words", WORDS, "--acoustic-scale", "0.1")[1] == text
    oracle = ninja("score", TEXT, ARCHIVE, "--words", WORDS, "--oracle")[1]
    assert oracle.startswith("%WER 12.68 ")
    # The symbol table next to the archive is used.
    assert ninja("score", TEXT, ARCHIVE, "--acoustic-scale", "0.1")[1] == text


def test_prune_and_convert_write_readable_archives(ninja, small, tmp_path):
    code, _, errors = ninja("prune", small, "--acoustic-scale", "0.1", "--beam", 4, "-o", tmp_path / "p.ark.gz")
    assert (code, "5 lattices" in errors) == (0, True)
    sizes = [json.loads(ninja("info", path, "--json")[1])["arcs"] for path in (small, tmp_path / "p.ark.gz")]
    assert sizes[1] < sizes[0]
    text, scp, raw = tmp_path / "l.txt", tmp_path / "l.scp", tmp_path / "raw.ark"
    assert ninja("convert", small, "--to", "text", "-o", text)[0] == 0
    assert ninja("convert", text, "-o", f"ark,scp:{tmp_path / 'l.ark'},{scp}")[0] == 0
    assert ninja("convert", scp, "--kind", "raw", "-o", raw)[0] == 0
    expected = ninja("best", small, "--acoustic-scale", "0.1")[1]
    for path in (text, scp, raw, tmp_path / "p.ark.gz"):
        assert ninja("best", path, "--acoustic-scale", "0.1")[1] == expected
    assert json.loads(ninja("info", raw, "--json")[1])["kinds"] == {"raw": 5}


def test_convert_writes_one_openfst_file_per_lattice(ninja, small, tmp_path):
    folder = tmp_path / "fsts"
    assert ninja("convert", small, "--to", "openfst:acoustic_scale=0.1", "-o", folder)[0] == 0
    assert sorted(os.listdir(folder)) == sorted(f"{key}.fst" for key in KEYS[:5])
    best = ninja("best", folder)[1].splitlines()
    assert sorted(best) == sorted(ninja("best", small, "--acoustic-scale", "0.1")[1].splitlines())


def test_archives_are_read_from_stdin_and_written_to_stdout(ninja, small):
    with small.open("rb") as stream:
        first = start_program("prune", "-", "--beam", "4", stdin=stream)
        second = start_program("best", "-", stdin=first.stdout)
    output, errors = second.communicate(timeout=60)
    assert second.returncode == 0
    assert errors.endswith(b"set --acoustic-scale or --lmwt, or provide a scale file next to the lattices\n")
    assert errors.startswith(b"ninja: using acoustic scale 1; ")
    assert output.decode() == ninja("best", small)[1]
    assert b"5 lattices" in first.stderr.read()
    first.wait()


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_failed_lattice_is_reported_and_the_others_are_decoded(ninja, damaged, jobs):
    code, output, errors = ninja("best", damaged, "--jobs", jobs)
    assert code == 1
    assert [line.split()[0] for line in output.splitlines()] == [KEYS[0], *KEYS[2:5]]
    assert errors.splitlines()[0].startswith("ninja: failed: ")
    assert KEYS[1] in errors.splitlines()[0]
    assert "cycle" in errors.splitlines()[0]
    assert errors.splitlines()[-1] == f"ninja: 1 failed: {KEYS[1]}"


def test_on_error_raise_stops_at_the_first_failed_lattice(ninja, damaged):
    code, output, errors = ninja("best", damaged, "--on-error", "raise")
    assert code == 1
    assert len(output.splitlines()) == 1
    assert errors.startswith("ninja: error: ")
    assert len(errors.splitlines()) == 1


def test_a_truncated_archive_is_reported_with_its_byte_offset(ninja, small, tmp_path):
    (tmp_path / "cut.ark").write_bytes(small.read_bytes()[:-100])
    code, output, errors = ninja("best", tmp_path / "cut.ark")
    assert code == 1
    assert len(output.splitlines()) == 4
    assert "cut.ark" in errors
    assert "byte" in errors


BAD_INPUT = {
    "a missing archive": (("best", "nothing.ark"), "nothing.ark"),
    "a missing symbol table": (("best", ARCHIVE, "--words", "nothing.txt"), "nothing.txt"),
    "a file of another kind": (("best", __file__), "test_cli.py"),
    "a missing reference": (("score", "nothing", TEXT), "nothing"),
    "a missing model": (("rescore", ARCHIVE, "--rnnlm", "nothing.pt", "-o", os.devnull), "nothing.pt"),
    "a file that is not a model": (("rescore", ARCHIVE, "--rnnlm", WORDS, "-o", os.devnull), "words.txt"),
    "a missing output folder": (("prune", ARCHIVE, "-o", "no/such/folder/x.ark"), "no/such/folder"),
    "a missing text": (("train", "nothing.txt", "--dev", TEXT, "-o", "x.pt"), "nothing.txt"),
}


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_is_reported_with_the_file_name_and_exit_code_1(ninja, case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments, file_name = BAD_INPUT[case]
    code, output, errors = ninja(*arguments)
    assert (code, output) == (1, "")
    assert file_name in errors
    assert "Traceback" not in errors
    assert "internal error" not in errors
    assert 1 <= len(errors.splitlines()) <= 3
    assert os.listdir(tmp_path) == []


WRONG_USAGE = {
    "no source": ("best",),
    "an unknown command": ("rescue",),
    "an unknown option": ("best", ARCHIVE, "--beam", "3"),
    "an option out of range": ("rescore", ARCHIVE, "--lm-weight", "1.5", "-o", os.devnull),
    "a negative beam": ("prune", ARCHIVE, "--beam", "-1", "-o", os.devnull, "--on-error", "raise"),
    "an unknown format": ("convert", ARCHIVE, "--to", "openfts"),
    "an unknown format to read": ("convert", ARCHIVE, "--from", "slff"),
    "an unknown option of a format": ("convert", ARCHIVE, "--to", "slf:bass=10"),
    "two output formats": ("convert", ARCHIVE, "--to", "text", "-o", "ark:x"),
    "a model without a symbol table": ("info", ARCHIVE, "--rnnlm", "x.pt"),
    "an oracle of text": ("score", TEXT, TEXT, "--oracle"),
    "an unknown rspecifier option": ("best", "ark,x:nothing"),
}


@pytest.mark.parametrize("case", WRONG_USAGE)
def test_usage_errors_have_exit_code_2(ninja, case):
    code, output, errors = ninja(*WRONG_USAGE[case])
    assert (code, output) == (2, "")
    assert "Error: " in errors or "error: " in errors


def test_rescoring_requires_a_symbol_table(ninja, small):
    code, _, errors = ninja("rescore", small, "-o", os.devnull)
    assert code == 2
    assert (
        errors
        == f"ninja: error: {small}: found no words.txt or words.txt.gz next to it; set the symbol table with --words\n"
    )


def test_an_internal_error_prints_a_traceback_only_with_debug(ninja, small, monkeypatch):
    import ninja.graph as graph

    def raise_error(*arguments):
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(graph, "best_words", raise_error)
    code, _, errors = ninja("best", small)
    assert code == 1
    assert errors == (
        "ninja: error: internal error (ZeroDivisionError: division by zero); please report it with the traceback "
        "that `ninja --debug COMMAND ...` prints\n"
    )
    assert "Traceback" in ninja("--debug", "best", small)[2]


def test_a_closed_pipe_ends_the_command_without_a_message():
    process = start_program("posteriors", ARCHIVE, "--words", WORDS)
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=60) == 141
    assert process.stderr.read() == b""


@pytest.mark.parametrize(("signal_number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_signal_ends_the_command_without_traceback_or_files(tmp_path, small, jobs, signal_number, code):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    process = start_program("prune", pipe, "-o", tmp_path / "out.ark", "--jobs", jobs, start_new_session=True)
    with pipe.open("wb") as stream:
        stream.write(small.read_bytes())
        stream.flush()
        deadline = time.monotonic() + 30
        while len(os.listdir(tmp_path)) < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(0.3)
        os.killpg(process.pid, signal_number)  # including the workers, as a terminal does
        assert process.wait(timeout=60) == code
    assert b"Traceback" not in process.stderr.read()
    assert os.listdir(tmp_path) == ["pipe"]


def test_a_signal_during_an_import_that_suppresses_exceptions_ends_the_command(ninja, small, tmp_path, monkeypatch):
    def import_module(name):
        with suppress(BaseException):
            signal.raise_signal(signal.SIGTERM)
        return sys.modules[name]

    assert ninja("prune", small, "-o", tmp_path / "out.ark")[0] == 0
    monkeypatch.setattr("ninja.cli.main.importlib.import_module", import_module)
    assert ninja("prune", small, "-o", tmp_path / "other.ark") == (143, "", "ninja: terminated by SIGTERM\n")
    assert not (tmp_path / "other.ark").exists()
    monkeypatch.undo()
    assert ninja("prune", small, "-o", tmp_path / "other.ark")[0] == 0


def test_a_full_disk_is_reported(small):
    if not os.path.exists("/dev/full"):
        # Other systems have no such device; CI runs on Linux, where tests/conftest.py turns this skip into a failure.
        pytest.skip("only Linux has /dev/full, a device that is always full")
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-m", "ninja", "convert", str(small)]
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
        options = {"cwd": ROOT, "env": environment, "stdout": full, "stderr": subprocess.PIPE, "timeout": 60}
        convert = subprocess.run(command, **options)
        text_command = [sys.executable, "-m", "ninja", "best", str(small), "--lmwt", "1"]
        best = subprocess.run(text_command, **options)
    for process in convert, best:
        assert process.returncode == 1
        assert b"ninja: error: standard output: " in process.stderr
        assert b"No space left" in process.stderr
        assert process.stderr.count(b"\n") == 1


@pytest.mark.parametrize("command", ["best", "posteriors", "convert"])
def test_an_output_that_is_a_device_is_not_replaced(ninja, small, tmp_path, command):
    if not os.path.exists("/dev/full"):
        # Other systems have no such device; CI runs on Linux, where tests/conftest.py turns this skip into a failure.
        pytest.skip("only Linux has /dev/full, a device that is always full")
    link = tmp_path / "full"
    link.symlink_to("/dev/full")  # a replaced output would replace this link
    code, _, errors = ninja(command, small, "-o", link)
    assert (code, errors) == (1, f"ninja: error: {link}: cannot be written: No space left on device\n")
    assert os.listdir(tmp_path) == ["full"]
    assert link.is_symlink()


@pytest.mark.parametrize(("initial", "expected"), [(None, "4"), ("20", "20")])
def test_commands_set_the_timeout_of_idle_numpy_threads(ninja, monkeypatch, initial, expected):
    monkeypatch.setenv("OPENBLAS_THREAD_TIMEOUT", initial or "")
    if initial is None:
        monkeypatch.delenv("OPENBLAS_THREAD_TIMEOUT")
    assert ninja("version")[0] == 0
    assert os.environ["OPENBLAS_THREAD_TIMEOUT"] == expected


def test_keys_that_are_not_utf_8_are_written_unchanged(ninja, tmp_path):
    (tmp_path / "l.txt").write_bytes(b"caf\xe9 \n0 1 1 1,1,\n1 0,0,\n\n")
    assert ninja("best", tmp_path / "l.txt", "-o", tmp_path / "out")[0] == 0
    assert (tmp_path / "out").read_bytes() == b"caf\xe9 1\n"
    process = start_program("best", tmp_path / "l.txt")
    assert process.communicate(timeout=60)[0] == b"caf\xe9 1\n"


def test_words_are_printed_as_utf_8_in_any_locale(tmp_path):
    (tmp_path / "hyp").write_text("a über\n", encoding="utf-8")
    (tmp_path / "w").write_text("<eps> 0\nüber 1\n", encoding="utf-8")
    (tmp_path / "l.txt").write_text("a \n0 1 1 1,1,\n1 0,0,\n\n")
    environment = {**os.environ, "LC_ALL": "en_US.ISO-8859-1", "PYTHONIOENCODING": "latin-1"}
    process = start_program("best", tmp_path / "l.txt", "--words", tmp_path / "w", env=environment)
    assert process.communicate(timeout=60)[0].decode("utf-8") == "a über\n"


def test_best_reads_several_archives(ninja, small):
    code, output, _ = ninja("best", small, f"ark:gunzip -c {ARCHIVE} |")
    assert code == 0
    assert len(output.splitlines()) == 45


@pytest.mark.parametrize("command", ["best", "prune"])
def test_an_existing_output_is_not_replaced_if_all_lattices_fail(ninja, tmp_path, command):
    (tmp_path / "notes").write_text("this is not an archive of lattices\n")
    (tmp_path / "good").write_text("kept")
    code, _, errors = ninja(command, tmp_path / "notes", "-o", tmp_path / "good")
    assert code == 1
    assert "the only lattice failed; no output is written" in errors
    assert (tmp_path / "good").read_text() == "kept"
    assert [path.name for path in tmp_path.iterdir() if ".part" in path.name] == []
