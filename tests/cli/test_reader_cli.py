"""Problems that a Kaldi user found in commands: files, standard input, options, and errors."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from lattice_files import write_all

import ninja as package
from ninja.errors import InputError
from ninja.graph import from_arcs
from ninja.io.lookup import Lookup
from ninja.io.number_tables import read_integers


def lattice(key, costs=(0.5, 1.5, 0.7)):
    """Return a lattice with the word 5, followed by 6 or 7."""
    labels = ((1,) * 3, (2,) * 4, (2,) * 4)
    return from_arcs(key, [0, 1, 1], [1, 2, 2], [5, 6, 7], costs, finals={2: 0.0}, labels=labels)


def lattice_with_pause(key):
    """Return a lattice with a single path whose second arc has no word."""
    labels = ((1,) * 3, (2,) * 4, (3,) * 5)
    return from_arcs(key, [0, 1, 2], [1, 2, 3], [5, 0, 6], [0.5, 0.5, 0.5], finals={3: 0.0}, labels=labels)


def write(path, *lattices):
    write_all(path, lattices)
    return path


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Change to a folder with an archive of two lattices, an archive of the first one, and a symbol table."""
    monkeypatch.chdir(tmp_path)
    write("a.ark", lattice("one"), lattice("two"))
    write("b.ark", lattice("one", (0.5, 0.1, 2.0)))
    (tmp_path / "words.txt").write_text("<eps> 0\nthe 5\ncat 6\nhat 7\n")
    (tmp_path / "ref").write_text("one 5 6\ntwo 5 7\n")
    return tmp_path


def test_equivalent_does_not_count_what_it_could_not_compare(ninja, here, monkeypatch):
    from ninja import graph
    from ninja.errors import LatticeError

    def fails_for_two(first, *_):
        if first.key == "two":
            raise LatticeError("too much work")
        return True

    monkeypatch.setattr(graph, "equivalent", fails_for_two)
    code, _, errors = ninja("equivalent", "a.ark", "a.ark")
    assert code == 1
    assert "2 lattices, 1 of them equivalent" in errors
    assert "key 'two': too much work" in errors


@pytest.mark.parametrize(
    "arguments",
    [
        ["oracle", "a.ark", "--ref", "ref", "-o", "x", "--edits", "./x"],
        ["best-path", "a.ark", "-o", "x", "--alignments", "ark:x"],
        ["best-path", "a.ark", "--alignments", "ark,t:-"],
        ["best-path", "a.ark", "-o", "x", "--write-lattices", "ark,scp:y,x"],
        ["mbr-decode", "a.ark", "-o", "ark,t:x", "--times", "x"],
        ["nbest-to-linear", "a.ark", "-o", "x", "--lm-cost", "ark:c", "--ac-cost", "c"],
    ],
    ids=lambda arguments: " ".join(arguments),
)
def test_two_results_do_not_go_to_one_file(ninja, here, arguments):
    code, out, errors = ninja(*arguments)
    assert (code, out, "two outputs would be written to this file" in errors) == (2, "", True)
    assert not (here / "x").exists()


def test_several_results_may_go_nowhere(ninja, here):
    assert ninja("best-path", "a.ark", "-o", "/dev/null", "--alignments", "ark:/dev/null")[0] == 0


def test_prune_takes_one_over_the_acoustic_scale(ninja, tmp_path):
    path = write(tmp_path / "a.ark", from_arcs("one", [0, 0], [1, 1], [5, 6], [0.0, 1.0], [4.0, 0.0], finals={1: 0.0}))
    left = {}
    for option in ("--acoustic-scale=0.1", "--inv-acoustic-scale=10", "--acoustic-scale=1"):
        assert ninja("prune", path, "--beam=0.1", option, "-o", tmp_path / "out.ark")[0] == 0
        left[option] = [one.word.tolist() for _, one in package.read(tmp_path / "out.ark")]
    assert left["--inv-acoustic-scale=10"] == left["--acoustic-scale=0.1"] == [[5]]
    assert left["--acoustic-scale=1"] == [[6]]
    code, _, errors = ninja("prune", path, "--acoustic-scale=0.1", "--inv-acoustic-scale=10")
    assert (code, "--acoustic-scale cannot be used with --inv-acoustic-scale" in errors) == (2, True)
    assert ninja("prune", path, "--inv-acoustic-scale=0")[0] == 2


def test_one_best_pays_for_words_and_writes_costs_without_that(ninja, tmp_path):
    long_way = from_arcs("one", [0, 1, 0], [1, 2, 2], [5, 6, 7], [0.5, 0.5, 2.0], finals={2: 0.0})
    path = write(tmp_path / "a.ark", long_way)
    for penalty, words, costs in ((0.5, [5, 6], [0.5, 0.5]), (1.5, [7], [2.0])):
        ninja("1best", path, f"--word-ins-penalty={penalty}", "-o", tmp_path / "best.ark")
        ((_, best),) = package.read(tmp_path / "best.ark")
        assert (best.word.tolist(), best.graph.tolist()) == (words, costs)


def test_best_path_scales_graph_costs(ninja, tmp_path):
    path = write(tmp_path / "a.ark", from_arcs("one", [0, 0], [1, 1], [5, 6], [0.0, 1.0], [4.0, 2.0], finals={1: 0.0}))
    assert ninja("best-path", path)[1] == "one 6\n"
    assert ninja("best-path", path, "--lm-scale=3")[1] == "one 5\n"


def test_best_path_reports_the_scaled_cost_of_a_frame(ninja, here):
    errors = ninja("best-path", "a.ark", "--lm-scale=3")[2]  # 0.5 + 0.7 over 7 frames
    assert "cost per frame: 0.514286 = 0.514286 (graph) + 0 (acoustic), over 14 frames" in errors


@pytest.mark.parametrize("verb", ["best-path", "mbr-decode"])
def test_a_word_symbol_table_shows_words_on_stderr_and_leaves_the_output(ninja, here, verb):
    code, out, errors = ninja(verb, "a.ark", "--word-symbol-table", "words.txt")
    assert (code, out) == (0, "one 5 7\ntwo 5 7\n")
    assert "one the hat\n" in errors
    assert ninja(verb, "a.ark", "--word-symbol-table=words.txt", "-o", "ark:out.tra")[0] == 0
    assert [ids.tolist() for _, ids in read_integers(here / "out.tra")] == [[5, 7], [5, 7]]


def test_a_word_that_cannot_be_shown_is_the_failure_of_its_key(ninja, here):
    (here / "few.txt").write_text("<eps> 0\nthe 5\n")
    code, out, errors = ninja("best-path", "a.ark", "--word-symbol-table=few.txt")
    assert (code, out) == (1, "one 5 7\ntwo 5 7\n")
    assert "2 failed: one, two" in errors


def test_nbest_to_ctm_prints_silence_if_told_to(ninja, here):
    write("path.ark", lattice_with_pause("one"))
    spoken = "one 1 0.00 0.03 the\none 1 0.07 0.05 cat\n"
    assert ninja("nbest-to-ctm", "path.ark", "--words", "words.txt")[1] == spoken
    with_silence = "one 1 0.00 0.03 the\none 1 0.03 0.04 <eps>\none 1 0.07 0.05 cat\n"
    assert ninja("nbest-to-ctm", "path.ark", "--words", "words.txt", "--print-silence")[1] == with_silence
    assert "one 1 0.03 0.04 <eps>\n" in ninja("nbest-to-ctm", "path.ark", "--print-silence=true")[1]


def test_align_text_takes_its_output_as_third_argument(ninja, here):
    assert ninja("align-text", "ark:ref", "ark:ref", "ark,t:out")[:2] == (0, "")
    assert (here / "out").read_text() == ninja("align-text", "ref", "ref")[1]
    assert ninja("align-text", "ark:ref", "ark:ref", "ark,t:-")[1] == (here / "out").read_text()
    code, _, errors = ninja("align-text", "ref", "ref", "out", "-o", "other")
    assert (code, "ALIGNMENT cannot be used with -o" in errors) == (2, True)


@pytest.mark.parametrize("option", ["--text", "--text=true", "--text=false"])
def test_compute_wer_takes_text_as_kaldi_does(ninja, here, option):
    assert ninja("compute-wer", option, "--mode=present", "ark:ref", "ark:ref")[0] == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["union", "ark:-", "-"],
        ["combine", "ark:-", "ark,t:-"],
        ["interp", "-", "ark:"],
        ["mbr-decode", "-", "--with", "ark:-"],
        ["equivalent", "-", "ark,s,cs:-"],
        ["copy-backoff", "ark:-", "/dev/stdin"],
        ["union", "-", "/dev/fd/0"],
        ["union", "-", "ark:/proc/self/fd/0"],
    ],
    ids=lambda arguments: " ".join(arguments),
)
def test_the_standard_input_is_one_source_however_it_is_spelled(ninja, here, arguments):
    code, _, errors = ninja(*arguments)
    assert (code, "only one of the inputs can be standard input (-)" in errors) == (2, True)


@pytest.mark.parametrize("name", ["/dev/../dev/stdin", "link"])
def test_a_pipe_at_the_standard_input_is_one_source_by_any_name(here, name):
    os.symlink("/dev/stdin", "link")
    line = [sys.executable, "-m", "ninja", "union", "-", name, "-o", "out.ark"]
    run = subprocess.run(line, input=b"", stderr=subprocess.PIPE)
    assert (run.returncode, b"only one of the inputs can be standard input (-)" in run.stderr) == (2, True)


@pytest.mark.parametrize("arguments", [["prune", "", "-o", "out.ark"], ["best", "a.ark", "--words", ""]])
def test_the_error_of_an_empty_name_says_that_it_is_empty(ninja, here, arguments):
    code, _, errors = ninja(*arguments)
    assert (code, "the name of an input is empty; is a variable of the shell unset?" in errors) == (1, True), errors


@pytest.mark.parametrize("source", ["nothere.ark", "ark:nothere.ark", "scp:nothere.scp", "ark:gunzip -c nothere.gz |"])
@pytest.mark.parametrize("verb", ["union", "combine", "copy-backoff", "mbr-decode"])
def test_a_second_archive_that_is_not_there_ends_the_run(ninja, here, verb, source):
    second = ["--with", source] if verb == "mbr-decode" else [source]
    code, _, errors = ninja(verb, "a.ark", *second, "-o", "out")
    assert (code, "nothere" in errors, "cannot be read: No such file" in errors) == (1, True, True)
    assert not (here / "out").exists()


def test_a_source_that_is_not_there_is_refused_before_anything_is_read(here):
    with pytest.raises(InputError, match=r"nothere.ark: cannot be read"):
        Lookup(["b.ark", "nothere.ark"])


@pytest.mark.parametrize("command", ["exit 3", "cat b.ark; exit 3"])
def test_a_command_that_fails_ends_the_run(ninja, here, command):
    code, _, errors = ninja("union", "a.ark", f"ark:{command} |", "--allow-pipes", "-o", "out.ark")
    assert (code, "the command failed with exit code 3" in errors) == (1, True)
    assert not (here / "out.ark").exists()


@pytest.mark.parametrize("verb", ["union", "copy-backoff", "mbr-decode"])
def test_a_second_archive_of_which_nothing_can_be_read_ends_the_run(ninja, here, verb):
    (here / "noise.ark").write_bytes(b"\0\xff no lattices " * 100)
    second = ["--with", "noise.ark"] if verb == "mbr-decode" else ["noise.ark"]
    code, _, errors = ninja(verb, "a.ark", *second, "-o", "out")
    assert (code, "noise.ark: no lattice of this source could be read" in errors) == (1, True)
    assert not (here / "out").exists()


def test_the_standard_input_is_read_from_its_begin_as_second_archive(ninja, here, monkeypatch):
    with open("a.ark", "rb") as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        code, _, errors = ninja("union", "a.ark", "ark:-", "--strict", "-o", "out.ark")
    assert (code, "not in" in errors) == (0, False)


@pytest.mark.parametrize(
    ("command", "content"),
    [
        (["best", "a.ark", "--words"], "<eps> 0\nthe 5\ncat 6\nhat 7\n"),
        (["context", "a.ark", "-o", "ark,t:-", "--entities"], "cat\n"),
        (["compute-wer-bootci", "ref", "ref", "--utt2spk"], "one s\ntwo s\n"),
    ],
)
def test_text_files_of_options_can_be_the_standard_input(ninja, here, monkeypatch, command, content):
    (here / "file").write_text(content)
    expected = ninja(*command, "file")
    assert expected[0] == 0, expected[2]
    with open("file", "rb") as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        assert ninja(*command, "-")[:2] == expected[:2]


def test_a_damaged_lattice_of_the_second_archive_is_that_lattices_failure(ninja, here):
    write("c.ark", lattice("one"), lattice("two"))
    content = (here / "c.ark").read_bytes()
    (here / "c.ark").write_bytes(content[:-10])
    code, _, errors = ninja("union", "a.ark", "c.ark", "-o", "out.ark")
    assert (code, "1 failed: two" in errors) == (1, True)
    assert [key for key, _ in package.read("out.ark")] == ["one", "two"]


def test_keys_of_nbest_lists_end_in_numbers(ninja, here):
    write("n.ark", *(lattice(key) for key in ("one-1", "one-2", "two-b", "-1", "three-1")))
    code, _, errors = ninja("nbest-to-lattice", "n.ark", "-o", "out.ark")
    assert (code, "2 failed: two-b, -1" in errors) == (1, True)
    assert [key for key, _ in package.read("out.ark")] == ["one", "three"]
    code, _, errors = ninja("nbest-to-lattice", "n.ark", "--on-error=raise", "-o", "other.ark")
    assert (code, "key 'two-b': the key does not end in -1" in errors) == (1, True)
    assert not (here / "other.ark").exists()


def test_an_nbest_list_that_cannot_be_united_costs_no_other(ninja, here, monkeypatch):
    from ninja import graph
    from ninja.errors import LatticeError

    union = graph.union

    def failing(lattices, **options):
        if lattices[0].key == "one":
            raise LatticeError("too large")
        return union(lattices, **options)

    monkeypatch.setattr(graph, "union", failing)
    write("n.ark", *(lattice(key) for key in ("one-1", "one-2", "two-1")))
    code, _, errors = ninja("nbest-to-lattice", "n.ark", "-o", "out.ark")
    assert (code, "key 'one': too large" in errors) == (1, True)
    assert [key for key, _ in package.read("out.ark")] == ["two"]


def test_a_key_that_names_no_mesh_costs_no_other(ninja, here):
    write("k.ark", lattice("one"), lattice("up/one"), lattice("two"))
    code, out, errors = ninja("mbr-decode", "k.ark", "--mesh-dir", "m")
    assert (code, out) == (1, "one the hat\ntwo the hat\n")
    assert "1 failed: up/one" in errors
    assert sorted(path.name for path in (here / "m").iterdir()) == ["one.mesh", "two.mesh"]


def test_copy_backoff_says_how_many_came_from_each(ninja, here):
    code, _, errors = ninja("copy-backoff", "a.ark", "b.ark", "-o", "out.ark")
    assert (code, "1 lattice is from a.ark, 1 from b.ark" in errors) == (0, True)


def test_a_union_too_large_names_the_option_that_helps(ninja, here):
    code, _, errors = ninja("union", "a.ark", "a.ark", "--max-arcs=1", "-o", "out.ark")
    assert (code, "--determinize=false" in errors) == (1, True)
