"""Commands as a Kaldi user calls them: files, standard input, options, and errors."""

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


def write_archive(path, *lattices):
    write_all(path, lattices)
    return path


@pytest.fixture
def archives(tmp_path, monkeypatch):
    """Change to a folder with an archive of two lattices, an archive of the first one, and a symbol table."""
    monkeypatch.chdir(tmp_path)
    write_archive("a.ark", lattice("one"), lattice("two"))
    write_archive("b.ark", lattice("one", (0.5, 0.1, 2.0)))
    (tmp_path / "words.txt").write_text("<eps> 0\nthe 5\ncat 6\nhat 7\n")
    (tmp_path / "ref").write_text("one 5 6\ntwo 5 7\n")
    return tmp_path


def test_equivalent_does_not_count_failed_comparisons(ninja, archives, monkeypatch):
    from ninja import graph
    from ninja.errors import LatticeError

    def fail_for_two(first, *_):
        if first.key == "two":
            raise LatticeError("too much work")
        return True

    monkeypatch.setattr(graph, "equivalent", fail_for_two)
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
def test_two_outputs_with_the_same_file_are_refused(ninja, archives, arguments):
    code, out, errors = ninja(*arguments)
    assert (code, out, "two outputs would be written to this file" in errors) == (2, "", True)
    assert not (archives / "x").exists()


def test_several_outputs_can_be_dev_null(ninja, archives):
    assert ninja("best-path", "a.ark", "-o", "/dev/null", "--alignments", "ark:/dev/null")[0] == 0


def test_prune_has_an_inverse_acoustic_scale(ninja, tmp_path):
    alternatives = from_arcs("one", [0, 0], [1, 1], [5, 6], [0.0, 1.0], [4.0, 0.0], finals={1: 0.0})
    path = write_archive(tmp_path / "a.ark", alternatives)
    words = {}
    for option in ("--acoustic-scale=0.1", "--inv-acoustic-scale=10", "--acoustic-scale=1"):
        assert ninja("prune", path, "--beam=0.1", option, "-o", tmp_path / "out.ark")[0] == 0
        words[option] = [lattice.word.tolist() for _, lattice in package.read(tmp_path / "out.ark")]
    assert words["--inv-acoustic-scale=10"] == words["--acoustic-scale=0.1"] == [[5]]
    assert words["--acoustic-scale=1"] == [[6]]
    code, _, errors = ninja("prune", path, "--acoustic-scale=0.1", "--inv-acoustic-scale=10")
    assert (code, "--acoustic-scale cannot be used with --inv-acoustic-scale" in errors) == (2, True)
    assert ninja("prune", path, "--inv-acoustic-scale=0")[0] == 2


def test_one_best_applies_a_word_penalty_and_writes_costs_without_it(ninja, tmp_path):
    lattice = from_arcs("one", [0, 1, 0], [1, 2, 2], [5, 6, 7], [0.5, 0.5, 2.0], finals={2: 0.0})
    path = write_archive(tmp_path / "a.ark", lattice)
    for penalty, words, costs in ((0.5, [5, 6], [0.5, 0.5]), (1.5, [7], [2.0])):
        ninja("1best", path, f"--word-ins-penalty={penalty}", "-o", tmp_path / "best.ark")
        ((_, best),) = package.read(tmp_path / "best.ark")
        assert (best.word.tolist(), best.graph.tolist()) == (words, costs)


def test_best_path_scales_graph_costs(ninja, tmp_path):
    alternatives = from_arcs("one", [0, 0], [1, 1], [5, 6], [0.0, 1.0], [4.0, 2.0], finals={1: 0.0})
    path = write_archive(tmp_path / "a.ark", alternatives)
    assert ninja("best-path", path)[1] == "one 6\n"
    assert ninja("best-path", path, "--lm-scale=3")[1] == "one 5\n"


def test_best_path_reports_the_scaled_cost_per_frame(ninja, archives):
    errors = ninja("best-path", "a.ark", "--lm-scale=3")[2]  # 0.5 + 0.7 over 7 frames
    assert "cost per frame: 0.514286 = 0.514286 (graph) + 0 (acoustic), over 14 frames" in errors


@pytest.mark.parametrize("verb", ["best-path", "mbr-decode"])
def test_word_symbol_table_prints_words_on_stderr_only(ninja, archives, verb):
    code, out, errors = ninja(verb, "a.ark", "--word-symbol-table", "words.txt")
    assert (code, out) == (0, "one 5 7\ntwo 5 7\n")
    assert "one the hat\n" in errors
    assert ninja(verb, "a.ark", "--word-symbol-table=words.txt", "-o", "ark:out.tra")[0] == 0
    assert [ids.tolist() for _, ids in read_integers(archives / "out.tra")] == [[5, 7], [5, 7]]


def test_a_word_that_is_not_in_the_word_symbol_table_fails_its_key(ninja, archives):
    (archives / "few.txt").write_text("<eps> 0\nthe 5\n")
    code, out, errors = ninja("best-path", "a.ark", "--word-symbol-table=few.txt")
    assert (code, out) == (1, "one 5 7\ntwo 5 7\n")
    assert "2 failed: one, two" in errors


def test_nbest_to_ctm_prints_silence_on_request(ninja, archives):
    write_archive("path.ark", lattice_with_pause("one"))
    words = "one 1 0.00 0.03 the\none 1 0.07 0.05 cat\n"
    assert ninja("nbest-to-ctm", "path.ark", "--words", "words.txt")[1] == words
    with_silence = "one 1 0.00 0.03 the\none 1 0.03 0.04 <eps>\none 1 0.07 0.05 cat\n"
    assert ninja("nbest-to-ctm", "path.ark", "--words", "words.txt", "--print-silence")[1] == with_silence
    assert "one 1 0.03 0.04 <eps>\n" in ninja("nbest-to-ctm", "path.ark", "--print-silence=true")[1]


def test_the_third_argument_of_align_text_is_its_output(ninja, archives):
    assert ninja("align-text", "ark:ref", "ark:ref", "ark,t:out")[:2] == (0, "")
    assert (archives / "out").read_text() == ninja("align-text", "ref", "ref")[1]
    assert ninja("align-text", "ark:ref", "ark:ref", "ark,t:-")[1] == (archives / "out").read_text()
    code, _, errors = ninja("align-text", "ref", "ref", "out", "-o", "other")
    assert (code, "ALIGNMENT cannot be used with -o" in errors) == (2, True)


@pytest.mark.parametrize("option", ["--text", "--text=true", "--text=false"])
def test_compute_wer_accepts_the_text_option_of_kaldi(ninja, archives, option):
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
def test_all_names_of_standard_input_are_one_source(ninja, archives, arguments):
    code, _, errors = ninja(*arguments)
    assert (code, "only one of the inputs can be standard input (-)" in errors) == (2, True)


@pytest.mark.parametrize("name", ["/dev/../dev/stdin", "link"])
def test_all_names_of_a_pipe_at_standard_input_are_one_source(archives, name):
    os.symlink("/dev/stdin", "link")
    command = [sys.executable, "-m", "ninja", "union", "-", name, "-o", "out.ark"]
    process = subprocess.run(command, input=b"", stderr=subprocess.PIPE)
    assert (process.returncode, b"only one of the inputs can be standard input (-)" in process.stderr) == (2, True)


@pytest.mark.parametrize("arguments", [["prune", "", "-o", "out.ark"], ["best", "a.ark", "--words", ""]])
def test_an_empty_name_of_an_input_is_reported(ninja, archives, arguments):
    code, _, errors = ninja(*arguments)
    assert (code, "the name of an input is empty; if it comes from a shell variable, set the variable" in errors) == (
        1,
        True,
    ), errors


@pytest.mark.parametrize("source", ["missing.ark", "ark:missing.ark", "scp:missing.scp", "ark:gunzip -c missing.gz |"])
@pytest.mark.parametrize("verb", ["union", "combine", "copy-backoff", "mbr-decode"])
def test_a_missing_second_archive_stops_the_run(ninja, archives, verb, source):
    second = ["--with", source] if verb == "mbr-decode" else [source]
    code, _, errors = ninja(verb, "a.ark", *second, "-o", "out")
    assert (code, "missing" in errors, "cannot be read: No such file" in errors) == (1, True, True)
    assert not (archives / "out").exists()


def test_lookup_refuses_a_missing_source_before_reading(archives):
    with pytest.raises(InputError, match=r"missing.ark: cannot be read"):
        Lookup(["b.ark", "missing.ark"])


@pytest.mark.parametrize("command", ["exit 3", "cat b.ark; exit 3"])
def test_a_failed_pipe_command_stops_the_run(ninja, archives, command):
    code, _, errors = ninja("union", "a.ark", f"ark:{command} |", "--allow-pipes", "-o", "out.ark")
    assert (code, "the command failed with exit code 3" in errors) == (1, True)
    assert not (archives / "out.ark").exists()


@pytest.mark.parametrize("verb", ["union", "copy-backoff", "mbr-decode"])
def test_an_unreadable_second_archive_stops_the_run(ninja, archives, verb):
    (archives / "noise.ark").write_bytes(b"\0\xff no lattices " * 100)
    second = ["--with", "noise.ark"] if verb == "mbr-decode" else ["noise.ark"]
    code, _, errors = ninja(verb, "a.ark", *second, "-o", "out")
    assert (code, "noise.ark: no lattice of this source could be read" in errors) == (1, True)
    assert not (archives / "out").exists()


def test_standard_input_as_second_archive_is_read_from_its_start(ninja, archives, monkeypatch):
    with open("a.ark", "rb") as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        code, _, errors = ninja("union", "a.ark", "ark:-", "--strict", "-o", "out.ark")
    assert (code, "missing" in errors) == (0, False)


@pytest.mark.parametrize(
    ("command", "content"),
    [
        (["best", "a.ark", "--words"], "<eps> 0\nthe 5\ncat 6\nhat 7\n"),
        (["context", "a.ark", "-o", "ark,t:-", "--entities"], "cat\n"),
        (["compute-wer-bootci", "ref", "ref", "--utt2spk"], "one s\ntwo s\n"),
    ],
)
def test_text_files_of_options_can_be_the_standard_input(ninja, archives, monkeypatch, command, content):
    (archives / "file").write_text(content)
    expected = ninja(*command, "file")
    assert expected[0] == 0, expected[2]
    with open("file", "rb") as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        assert ninja(*command, "-")[:2] == expected[:2]


def test_a_damaged_lattice_of_the_second_archive_fails_only_its_key(ninja, archives):
    write_archive("c.ark", lattice("one"), lattice("two"))
    content = (archives / "c.ark").read_bytes()
    (archives / "c.ark").write_bytes(content[:-10])
    code, _, errors = ninja("union", "a.ark", "c.ark", "-o", "out.ark")
    assert (code, "1 failed: two" in errors) == (1, True)
    assert [key for key, _ in package.read("out.ark")] == ["one", "two"]


def test_nbest_to_lattice_refuses_keys_without_a_number(ninja, archives):
    write_archive("n.ark", *(lattice(key) for key in ("one-1", "one-2", "two-b", "-1", "three-1")))
    code, _, errors = ninja("nbest-to-lattice", "n.ark", "-o", "out.ark")
    assert (code, "2 failed: two-b, -1" in errors) == (1, True)
    assert [key for key, _ in package.read("out.ark")] == ["one", "three"]
    code, _, errors = ninja("nbest-to-lattice", "n.ark", "--on-error=raise", "-o", "other.ark")
    assert (code, "key 'two-b': the key does not end in -1" in errors) == (1, True)
    assert not (archives / "other.ark").exists()


def test_a_failed_nbest_list_does_not_affect_the_others(ninja, archives, monkeypatch):
    from ninja import graph
    from ninja.errors import LatticeError

    union = graph.union

    def fail_for_one(lattices, **options):
        if lattices[0].key == "one":
            raise LatticeError("too large")
        return union(lattices, **options)

    monkeypatch.setattr(graph, "union", fail_for_one)
    write_archive("n.ark", *(lattice(key) for key in ("one-1", "one-2", "two-1")))
    code, _, errors = ninja("nbest-to-lattice", "n.ark", "-o", "out.ark")
    assert (code, "key 'one': too large" in errors) == (1, True)
    assert [key for key, _ in package.read("out.ark")] == ["two"]


def test_a_key_that_is_not_a_mesh_file_name_does_not_affect_the_others(ninja, archives):
    write_archive("k.ark", lattice("one"), lattice("up/one"), lattice("two"))
    code, out, errors = ninja("mbr-decode", "k.ark", "--mesh-dir", "m")
    assert (code, out) == (1, "one the hat\ntwo the hat\n")
    assert "1 failed: up/one" in errors
    assert sorted(path.name for path in (archives / "m").iterdir()) == ["one.mesh", "two.mesh"]


def test_copy_backoff_counts_the_lattices_of_each_archive(ninja, archives):
    code, _, errors = ninja("copy-backoff", "a.ark", "b.ark", "-o", "out.ark")
    assert (code, "1 lattice is from a.ark, 1 from b.ark" in errors) == (0, True)


def test_a_too_large_union_suggests_determinize_false(ninja, archives):
    code, _, errors = ninja("union", "a.ark", "a.ark", "--max-arcs=1", "-o", "out.ark")
    assert (code, "--determinize=false" in errors) == (1, True)
