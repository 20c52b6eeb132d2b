"""Output, messages and exit codes of commands."""

import json
import os
import signal
import subprocess
import sys
import time

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


def program(*arguments, **options):
    command = [sys.executable, "-m", "ninja", *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


def test_best_prints_ids_without_words_and_words_with_them(ninja, small):
    code, ids, errors = ninja("best", small, "--acoustic-scale", "0.1")
    assert (code, errors) == (0, "")
    assert ids.splitlines()[0] == f"{KEYS[0]} 50450 9049 4431 45666 54814 125067 73957"
    code, words, _ = ninja("best", small, "--acoustic-scale", "0.1", "--words", WORDS)
    assert words.splitlines()[0] == f"{KEYS[0]} hello becky any good in your mind"
    assert len(words.splitlines()) == 5


def test_best_writes_alignments_and_costs_beside_the_words(ninja, small, tmp_path):
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


def test_nbest_numbers_the_keys_and_begins_with_the_best(ninja, small):
    code, output, _ = ninja("nbest", small, "-n", 3, "--acoustic-scale", "0.1", "--words", WORDS)
    lines = output.splitlines()
    assert code == 0
    assert len(lines) == 15
    assert lines[0] == f"{KEYS[0]}-1 hello becky any good in your mind"
    assert lines[1] == f"{KEYS[0]}-2 hello but he any good in your mind"
    assert len({line.split(" ", 1)[1] for line in lines[:3]}) == 3


def test_posteriors_print_kaldis_columns(ninja, small):
    code, output, _ = ninja("posteriors", small, "--acoustic-scale", "0.1")
    key, start, frames, probability, word, labels = output.splitlines()[0].split("\t")
    assert code == 0
    assert (key, start, frames, word) == (KEYS[0], "0", "90", "50450")
    assert float(probability) == pytest.approx(0.9988751, abs=1e-5)
    assert len(labels.split("_")) == 90
    _, named, _ = ninja("posteriors", small, "--acoustic-scale", "0.1", "--min-post", "0.9", "--words", WORDS)
    assert named.splitlines()[0].split("\t")[4] == "hello"
    assert len(named.splitlines()) < len(output.splitlines())


def test_info_counts(ninja, small):
    code, output, _ = ninja("info", small, "--json")
    figures = json.loads(output)
    assert code == 0
    assert figures["lattices"] == 5
    assert figures["kinds"] == {"compact": 5}
    _, output, _ = ninja("info", small, "--per-lattice")
    assert output.splitlines()[0] == f"{KEYS[0]} 172 292 326 24.3865"


def test_score_gives_kaldis_lines_for_text_lattices_and_the_oracle(ninja, tmp_path):
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
    assert ninja("score", TEXT, ARCHIVE, "--acoustic-scale", "0.1")[1] == text  # by the table beside it


def test_prune_and_convert_write_archives_that_read_back(ninja, small, tmp_path):
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


def test_convert_makes_a_file_of_each_lattice_for_openfst(ninja, small, tmp_path):
    folder = tmp_path / "fsts"
    assert ninja("convert", small, "--to", "openfst:acoustic_scale=0.1", "-o", folder)[0] == 0
    assert sorted(os.listdir(folder)) == sorted(f"{key}.fst" for key in KEYS[:5])
    best = ninja("best", folder)[1].splitlines()
    assert sorted(best) == sorted(ninja("best", small, "--acoustic-scale", "0.1")[1].splitlines())


def test_stdin_and_stdout_carry_archives(ninja, small):
    with small.open("rb") as stream:
        first = program("prune", "-", "--beam", "4", stdin=stream)
        second = program("best", "-", stdin=first.stdout)
    output, errors = second.communicate(timeout=60)
    assert second.returncode == 0
    assert errors.endswith(b"set --acoustic-scale or --lmwt, or provide a scale file next to the lattices\n")
    assert errors.startswith(b"ninja: using acoustic scale 1; ")
    assert output.decode() == ninja("best", small)[1]
    assert b"5 lattices" in first.stderr.read()
    first.wait()


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_failed_lattice_is_named_and_the_rest_goes_on(ninja, damaged, jobs):
    code, output, errors = ninja("best", damaged, "--jobs", jobs)
    assert code == 1
    assert [line.split()[0] for line in output.splitlines()] == [KEYS[0], *KEYS[2:5]]
    assert errors.splitlines()[0].startswith("ninja: failed: ")
    assert KEYS[1] in errors.splitlines()[0]
    assert "cycle" in errors.splitlines()[0]
    assert errors.splitlines()[-1] == f"ninja: 1 failed: {KEYS[1]}"


def test_on_error_raise_stops_at_the_first_failure(ninja, damaged):
    code, output, errors = ninja("best", damaged, "--on-error", "raise")
    assert code == 1
    assert len(output.splitlines()) == 1
    assert errors.startswith("ninja: error: ")
    assert len(errors.splitlines()) == 1


def test_a_truncated_archive_is_one_failure_with_its_place(ninja, small, tmp_path):
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
    "a model that is none": (("rescore", ARCHIVE, "--rnnlm", WORDS, "-o", os.devnull), "words.txt"),
    "an output folder that is not there": (("prune", ARCHIVE, "-o", "no/such/folder/x.ark"), "no/such/folder"),
    "a missing text": (("train", "nothing.txt", "--dev", TEXT, "-o", "x.pt"), "nothing.txt"),
}


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_is_one_line_with_its_place_and_exit_code_1(ninja, case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments, place = BAD_INPUT[case]
    code, output, errors = ninja(*arguments)
    told = [line for line in errors.splitlines() if "words of" not in line]
    assert (code, output) == (1, "")
    assert place in errors
    assert "Traceback" not in errors
    assert "internal error" not in errors
    assert 1 <= len(told) <= 3
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
    "two forms": ("convert", ARCHIVE, "--to", "text", "-o", "ark:x"),
    "a model without words": ("info", ARCHIVE, "--rnnlm", "x.pt"),
    "an oracle of text": ("score", TEXT, TEXT, "--oracle"),
    "an unknown rspecifier option": ("best", "ark,x:nothing"),
}


@pytest.mark.parametrize("case", WRONG_USAGE)
def test_wrong_usage_is_exit_code_2(ninja, case):
    code, output, errors = ninja(*WRONG_USAGE[case])
    assert (code, output) == (2, "")
    assert "Error: " in errors or "error: " in errors


def test_rescoring_needs_to_know_the_spelling_of_words(ninja, small):
    code, _, errors = ninja("rescore", small, "-o", os.devnull)
    assert code == 2
    assert (
        errors
        == f"ninja: error: {small}: found no words.txt or words.txt.gz next to it; set the symbol table with --words\n"
    )


def test_an_unexpected_error_is_one_line_and_a_traceback_on_request(ninja, small, monkeypatch):
    import ninja.graph as graph

    def broken(*arguments):
        raise ZeroDivisionError("of all things")

    monkeypatch.setattr(graph, "best_words", broken)
    code, _, errors = ninja("best", small)
    assert code == 1
    assert errors == (
        "ninja: error: internal error (ZeroDivisionError: of all things); please report it with the traceback "
        "that `ninja --debug COMMAND ...` prints\n"
    )
    assert "Traceback" in ninja("--debug", "best", small)[2]


def test_a_reader_that_goes_away_ends_the_command_quietly():
    first = program("posteriors", ARCHIVE, "--words", WORDS)
    first.stdout.readline()
    first.stdout.close()
    assert first.wait(timeout=60) == 141
    assert first.stderr.read() == b""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_signal_ends_the_command_without_a_trace(tmp_path, small, jobs, number, code):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    running = program("prune", pipe, "-o", tmp_path / "out.ark", "--jobs", jobs, start_new_session=True)
    with pipe.open("wb") as stream:
        stream.write(small.read_bytes())
        stream.flush()
        deadline = time.monotonic() + 30
        while len(os.listdir(tmp_path)) < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(0.3)
        os.killpg(running.pid, number)  # as a terminal sends it: to the workers too
        assert running.wait(timeout=60) == code
    assert b"Traceback" not in running.stderr.read()
    assert os.listdir(tmp_path) == ["pipe"]


def test_a_full_disk_is_told(small):
    if not os.path.exists("/dev/full"):
        # Elsewhere no file is always full; on Linux, our CI, this runs.
        pytest.skip("only Linux has /dev/full, a disk that is always full")
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-m", "ninja", "convert", str(small)]
        buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
        done = subprocess.run(command, cwd=ROOT, env=buffered, stdout=full, stderr=subprocess.PIPE, timeout=60)
        words = [sys.executable, "-m", "ninja", "best", str(small), "--lmwt", "1"]
        text = subprocess.run(words, cwd=ROOT, env=buffered, stdout=full, stderr=subprocess.PIPE, timeout=60)
    for ended in (done, text):
        assert ended.returncode == 1
        assert b"ninja: error: standard output: " in ended.stderr
        assert b"No space left" in ended.stderr
        assert ended.stderr.count(b"\n") == 1


@pytest.mark.parametrize("command", ["best", "posteriors", "convert"])
def test_a_device_named_as_output_is_written_to_and_not_replaced(ninja, small, tmp_path, command):
    if not os.path.exists("/dev/full"):
        # Elsewhere no file is always full; on Linux, our CI, this runs.
        pytest.skip("only Linux has /dev/full, a disk that is always full")
    link = tmp_path / "full"
    link.symlink_to("/dev/full")  # were it replaced, it would be the link
    code, _, errors = ninja(command, small, "-o", link)
    assert (code, errors) == (1, f"ninja: error: {link}: cannot be written: No space left on device\n")
    assert os.listdir(tmp_path) == ["full"]
    assert link.is_symlink()


@pytest.mark.parametrize(("given", "kept"), [(None, "4"), ("20", "20")])
def test_threads_of_numpy_that_wait_are_told_to_sleep(ninja, monkeypatch, given, kept):
    monkeypatch.setenv("OPENBLAS_THREAD_TIMEOUT", given or "")
    if given is None:
        monkeypatch.delenv("OPENBLAS_THREAD_TIMEOUT")
    assert ninja("version")[0] == 0
    assert os.environ["OPENBLAS_THREAD_TIMEOUT"] == kept


def test_keys_that_are_not_utf_8_come_out_as_they_went_in(ninja, tmp_path):
    (tmp_path / "l.txt").write_bytes(b"caf\xe9 \n0 1 1 1,1,\n1 0,0,\n\n")
    assert ninja("best", tmp_path / "l.txt", "-o", tmp_path / "out")[0] == 0
    assert (tmp_path / "out").read_bytes() == b"caf\xe9 1\n"
    running = program("best", tmp_path / "l.txt")
    assert running.communicate(timeout=60)[0] == b"caf\xe9 1\n"


def test_words_are_printed_as_utf_8_in_any_locale(tmp_path):
    (tmp_path / "hyp").write_text("a über\n", encoding="utf-8")
    (tmp_path / "w").write_text("<eps> 0\nüber 1\n", encoding="utf-8")
    (tmp_path / "l.txt").write_text("a \n0 1 1 1,1,\n1 0,0,\n\n")
    environment = {**os.environ, "LC_ALL": "en_US.ISO-8859-1", "PYTHONIOENCODING": "latin-1"}
    running = program("best", tmp_path / "l.txt", "--words", tmp_path / "w", env=environment)
    assert running.communicate(timeout=60)[0].decode("utf-8") == "a über\n"


def test_several_archives_are_one_source(ninja, small):
    code, output, _ = ninja("best", small, f"ark:gunzip -c {ARCHIVE} |")
    assert code == 0
    assert len(output.splitlines()) == 45


@pytest.mark.parametrize("command", ["best", "prune"])
def test_an_output_that_stood_is_not_replaced_by_nothing(ninja, tmp_path, command):
    (tmp_path / "notes").write_text("this is not an archive of lattices\n")
    (tmp_path / "good").write_text("kept")
    code, _, errors = ninja(command, tmp_path / "notes", "-o", tmp_path / "good")
    assert code == 1
    assert "the only lattice failed; no output is written" in errors
    assert (tmp_path / "good").read_text() == "kept"
    assert [path.name for path in tmp_path.iterdir() if ".part" in path.name] == []
