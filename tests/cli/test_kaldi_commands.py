"""Output and exit codes of commands with the names of Kaldi's common programs."""

from __future__ import annotations

import click
import pytest
from example_lattices import KEYS, WORDS, gzip_lines, keys_of
from reference_graph import SHARED

import ninja as package
from ninja.cli.commands import COMMANDS
from ninja.cli.main import group
from ninja.graph import best_path, nbest
from ninja.lattice import Scales

FIRST = KEYS[:5]


def test_scale_and_add_penalty_change_the_costs(ninja, small, tmp_path):
    scaled, penalized = tmp_path / "a.ark", tmp_path / "b.ark"
    assert ninja("scale", small, "--inv-acoustic-scale=4", "--lm2acoustic-scale=1", "-o", scaled)[0] == 0
    assert ninja("add-penalty", scaled, "--word-ins-penalty", "2", "-o", penalized)[0] == 0
    for (_, old), (_, new) in zip(package.read(small), package.read(penalized), strict=True):
        assert new.acoustic == pytest.approx(old.acoustic / 4 + old.graph, abs=1e-4)
        assert new.graph == pytest.approx(old.graph + 2.0 * (old.word != 0), abs=1e-4)
    code, _, errors = ninja("scale", small, "--acoustic-scale=2", "--inv-acoustic-scale=4", "-o", scaled)
    assert code == 2
    assert "--acoustic-scale cannot be used with --inv-acoustic-scale" in errors
    assert ninja("scale", small, "--inv-acoustic-scale=0", "-o", scaled)[0] == 2
    assert ninja("scale", small, "--lm-scale=nan", "-o", tmp_path / "c.ark")[0] == 2
    assert not (tmp_path / "c.ark").exists()


@pytest.mark.parametrize("verb", ["depth", "depth-per-frame"])
def test_depths_agree_with_kaldi(ninja, korean, verb):
    code, printed, errors = ninja(verb, korean / "lat.ark.gz")
    assert code == 0
    assert printed.splitlines() == gzip_lines(korean / f"{verb.replace('-', '_')}.txt.gz")
    if verb == "depth":
        assert "60 lattices, overall depth 40.37875" in errors


def test_best_paths_agree_with_kaldi(ninja, korean, tmp_path):
    archive = tmp_path / "best.ark"
    code, printed, _ = ninja(
        "best-path", korean / "lat.ark.gz", "--alignments", tmp_path / "ali", "--write-lattices", archive
    )
    assert code == 0
    assert printed.splitlines() == gzip_lines(korean / "best.words.gz")
    assert (tmp_path / "ali").read_text().splitlines() == gzip_lines(korean / "best.ali.gz")
    assert ninja("1best", korean / "lat.ark.gz", "-o", tmp_path / "one.ark")[0] == 0
    paths, expected = package.read(archive), package.read(tmp_path / "one.ark")
    for (key, path), (expected_key, expected_path) in zip(paths, expected, strict=True):
        assert key == expected_key
        assert path.identical(expected_path)


def test_arc_posteriors_agree_with_kaldi(ninja, korean):
    code, printed, _ = ninja("arc-post", korean / "lat.ark.gz")
    expected = [line.split("\t") for line in gzip_lines(korean / "arc_post.txt.gz")]
    rows = [line.split("\t") for line in printed.splitlines()]
    assert code == 0
    without_posteriors = [sorted([*row[:3], row[4]] for row in table) for table in (rows, expected)]
    assert without_posteriors[0] == without_posteriors[1]
    assert all(len(row) == 5 for row in rows)


def test_arc_post_prints_alignments_and_phones(ninja, korean):
    model = SHARED / "data" / "korean" / "trans.mdl"
    code, printed, _ = ninja("arc-post", korean / "lat.ark.gz", "--print-alignment", "--model", model)
    assert code == 0
    row = printed.splitlines()[0].split("\t")
    assert len(row[5].split(",")) == int(row[2])
    assert row[6] == "1 15 97 153 165 41"
    assert len(ninja("arc-post", korean / "lat.ark.gz", "--min-post=0.5")[1]) < len(printed)


def test_to_fst_agrees_with_kaldi(ninja, korean, tmp_path):
    out = tmp_path / "fst.txt"
    code, _, _ = ninja("to-fst", korean / "lat.ark.gz", "--acoustic-scale=1", "--lm-scale=1", "-o", f"ark,t:{out}")
    assert code == 0
    printed, expected = out.read_text().splitlines(), gzip_lines(korean / "fst.txt.gz")
    assert len(printed) == len(expected)
    # Kaldi numbers the states differently; words and costs agree.
    assert sorted(line.split("\t")[2:] for line in printed) == sorted(line.split("\t")[2:] for line in expected)


def test_to_fst_writes_costs_only_on_request(ninja, small, tmp_path):
    ninja("to-fst", small, "-o", f"ark,t:{tmp_path}/fst.txt")
    rows = [line.split("\t") for line in (tmp_path / "fst.txt").read_text().splitlines()]
    assert {len(row) for row in rows} == {1, 4}
    ninja("to-fst", small, "-o", f"ark:{tmp_path}/fst.ark")
    content = (tmp_path / "fst.ark").read_bytes()
    assert content.startswith(f"{FIRST[0]} ".encode() + b"\xd6\xfd\xb2\x7e\x06\0\0\0vector\x08\0\0\0standard")
    code, _, errors = ninja("to-fst", small, "--convert-to-pdf-labels", "-o", tmp_path / "x")
    assert (code, "--convert-to-pdf-labels requires --read-compact=false" in errors) == (2, True)
    code, _, errors = ninja("to-fst", small, "--convert-to-pdf-labels", "--read-compact=false", "-o", tmp_path / "x")
    assert (code, "--convert-to-pdf-labels requires --trans-model" in errors) == (2, True)


def test_to_fst_writes_densities_as_labels(ninja, korean, tmp_path):
    model = SHARED / "data" / "korean" / "trans.mdl"
    out = tmp_path / "fst.txt"
    options = ("--read-compact=false", "--convert-to-pdf-labels", f"--trans-model={model}", "--project-output=false")
    assert ninja("to-fst", korean / "lat.ark.gz", *options, "--rm-eps=false", "-o", f"ark,t:{out}")[0] == 0
    from ninja.formats.kaldi.transition_model import read_transition_model

    (_, lattice), pdf = next(package.read(korean / "lat.ark.gz")), read_transition_model(model).pdf
    entry = out.read_text().split("\n\n")[0].splitlines()[1:]
    labels = sorted(int(line.split("\t")[2]) for line in entry if line.count("\t") > 2 and line.split("\t")[2] != "0")
    assert labels == sorted((pdf[[*lattice.ali, *lattice.final_ali]] + 1).tolist())


def test_nbest_to_linear_and_linear_to_nbest_are_inverse(ninja, small, tmp_path):
    nbests, out = tmp_path / "nbest.ark", tmp_path / "again.ark"
    assert ninja("to-nbest", small, "--n=3", "--acoustic-scale=0.1", "-o", nbests)[0] == 0
    assert keys_of(nbests) == [f"{key}-{number}" for key in FIRST for number in (1, 2, 3)]
    files = {name: tmp_path / name for name in ("ali", "lm", "ac", "tra")}
    options = ("--alignments", f"ark:{files['ali']}", "--lm-cost", f"ark:{files['lm']}", "--ac-cost", files["ac"])
    code, transcripts, _ = ninja("nbest-to-linear", nbests, *options)
    files["tra"].write_text(transcripts)
    assert code == 0
    options = ("--transcriptions", files["tra"], "--lm-cost", files["lm"], "--ac-cost", files["ac"])
    assert ninja("linear-to-nbest", f"ark:{files['ali']}", *options, "-o", out)[0] == 0
    for (old_key, old), (new_key, new) in zip(package.read(nbests), package.read(out), strict=True):
        (path,), (new_path,) = nbest(old, 2), nbest(new, 2)
        assert old_key == new_key
        assert path.words.tolist() == new_path.words.tolist()
        assert path.alignment.tolist() == new_path.alignment.tolist()
        new_costs = (new_path.graph_cost, new_path.acoustic_cost)
        assert (path.graph_cost, path.acoustic_cost) == pytest.approx(new_costs, rel=1e-6)
    assert ninja("nbest-to-lattice", nbests, "-o", tmp_path / "lat.ark")[0] == 0
    for (old_key, old), (new_key, new) in zip(package.read(small), package.read(tmp_path / "lat.ark"), strict=True):
        assert old_key == new_key
        sequences = [path.words.tolist() for path in nbest(new, 9, Scales(0.1))]
        assert sequences == [path.words.tolist() for path in nbest(old, 3, Scales(0.1))]


def test_linear_lattices_with_missing_entries_or_several_paths_are_reported(ninja, small, tmp_path):
    code, _, errors = ninja("nbest-to-linear", small)
    assert code == 1
    assert f"key {FIRST[0]!r}: the lattice has more than one path; run `ninja to-nbest` first" in errors
    (tmp_path / "ali").write_text("a 1 2\nb 3\nc 4\n")
    (tmp_path / "tra").write_text("c 5\na 5\n")
    (tmp_path / "lm").write_text("a 1.5\n")
    command = ("linear-to-nbest", tmp_path / "ali", "--transcriptions", tmp_path / "tra", "--lm-cost", tmp_path / "lm")
    code, _, errors = ninja(*command, "-o", tmp_path / "out.ark")
    assert code == 1
    assert f"key 'b': {tmp_path / 'tra'} does not contain this key" in errors
    assert f"key 'c': {tmp_path / 'lm'} does not contain this key" in errors
    assert "2 failed: b, c" in errors
    assert keys_of(tmp_path / "out.ark") == ["a"]
    code, _, errors = ninja("nbest-to-lattice", tmp_path / "out.ark", "-o", tmp_path / "x.ark")
    assert (code, "does not end in -1, -2" in errors) == (1, True)
    assert not (tmp_path / "x.ark").exists()


def test_string_to_lattice_reads_ids_or_words(ninja, tmp_path):
    (tmp_path / "text").write_text("a 5 6\nb\n")
    assert ninja("string-to-lattice", tmp_path / "text", "-o", tmp_path / "a.ark")[0] == 0
    lattices = dict(package.read(tmp_path / "a.ark"))
    assert [best_path(lattices[key]).words.tolist() for key in "ab"] == [[5, 6], []]
    assert lattices["a"].ali.tolist() == [5, 6]
    words = [line.split() for line in WORDS.read_text().splitlines()[5:7]]
    (tmp_path / "text").write_text(f"a {words[0][0]} {words[1][0]}\n")
    assert ninja("string-to-lattice", tmp_path / "text", "--words", WORDS, "-o", tmp_path / "a.ark")[0] == 0
    (path,) = nbest(dict(package.read(tmp_path / "a.ark"))["a"], 1)
    assert path.words.tolist() == [int(words[0][1]), int(words[1][1])]
    (tmp_path / "text").write_text(f"a nosuchwordatall\nb {words[0][0]}\n")
    code, _, errors = ninja("string-to-lattice", f"ark:{tmp_path}/text", "--words", WORDS, "-o", tmp_path / "b.ark")
    assert (code, "key 'a': the word 'nosuchwordatall' is not in the symbol table" in errors) == (1, True)
    assert keys_of(tmp_path / "b.ark") == ["b"]


def test_random_paths_depend_only_on_the_seed(ninja, small):
    command = ("to-nbest", small, "--n=3", "--random", "-o", "ark,t:-")
    assert ninja(*command)[1] == ninja(*command)[1] != ninja(*command, "--srand=1")[1]
    _, paths, errors = ninja(*command, "--acoustic-scale=0.1", "--normalizer=none", "--srand=0")
    assert (paths, "ignored with --random: --acoustic-scale, --normalizer\n" in errors) == (ninja(*command)[1], True)
    assert "ignored without --random: --srand\n" in ninja("to-nbest", small, "--srand=1", "-o", "ark,t:-")[2]


def test_boost_ali_requires_an_alignment_and_a_transition_model(ninja, korean, tmp_path):
    model = SHARED / "data" / "korean" / "trans.mdl"
    lattices = [lattice for _, lattice in package.read(korean / "prune4.ark.gz")]
    first = lattices[0]
    ali, out = tmp_path / "ali", tmp_path / "out.ark"
    ali.write_text(" ".join(map(str, [first.key, *best_path(first).alignment])) + "\n")
    command = ("boost-ali", korean / "prune4.ark.gz", "--ali", ali, "-o", out)
    code, _, errors = ninja(*command, "--model", model, "--silence-phones=1:2")
    assert code == 1
    assert f"key {lattices[1].key!r}: {ali} has no alignment for this key" in errors
    assert "59 failed" in errors
    ((key, boosted),) = package.read(out)
    assert key == first.key
    assert best_path(boosted).cost() <= best_path(first).cost()
    assert boosted.graph.sum() < first.graph.sum()
    assert ninja(*command, "--model", model, "--silence-phones=1,2")[0] == 2
    assert ninja(*command, "--model", ali)[0] == 1


def test_to_post_and_nbest_to_prons_agree_with_kaldi(ninja, korean, tmp_path):
    data = SHARED / "data" / "korean"
    code, printed, errors = ninja("to-post", korean / "lat.ark.gz", "--loglikes", tmp_path / "likes")
    assert (code, "60 lattices, log-likelihood per frame 1.7589" in errors) == (0, True)
    counts = {fields[0]: len(fields) - 1 for fields in map(str.split, gzip_lines(korean / "depth_per_frame.txt.gz"))}
    assert {line.split()[0]: line.count("[") for line in printed.splitlines()} == counts
    assert len((tmp_path / "likes").read_text().splitlines()) == 60
    ninja("1best", korean / "lat.ark.gz", "-o", tmp_path / "best.ark")
    options = ("--word-boundary", data / "word_boundary.int", "--model", data / "trans.mdl")
    assert ninja("align-words", tmp_path / "best.ark", *options, "-o", tmp_path / "aligned.ark")[0] == 0
    command = ("nbest-to-prons", tmp_path / "aligned.ark", "--model", data / "trans.mdl")
    rows = [line.split() for line in ninja(*command)[1].splitlines()]
    times = [(row[0], int(row[1]) * 3, int(row[2]) * 3, row[3]) for row in rows if row[3] != "0"]
    ctm = [line.split() for line in gzip_lines(korean / "ctm_best_aligned.gz")]
    assert times == [(row[0], round(float(row[2]) * 100), round(float(row[3]) * 100), row[4]) for row in ctm]
    lengths = [line.split()[2] for line in ninja(*command, "--print-lengths-per-phone")[1].splitlines()]
    assert [sum(map(int, length.split(","))) for length in lengths] == [int(row[2]) for row in rows]
    code, _, errors = ninja("nbest-to-prons", korean / "lat.ark.gz", "--model", data / "trans.mdl")
    assert (code, "more than one path" in errors) == (1, True)


@pytest.mark.parametrize("verb", ["to-mpe-post", "to-smbr-post"])
def test_accuracies_with_the_alignments_of_the_best_paths(ninja, korean, tmp_path, verb):
    ninja("best-path", korean / "prune4.ark.gz", "--alignments", f"ark:{tmp_path}/ali", "-o", tmp_path / "tra")
    command = (verb, korean / "prune4.ark.gz", "--model", SHARED / "data" / "korean" / "trans.mdl", "--ali")
    code, printed, errors = ninja(*command, f"ark:{tmp_path}/ali")
    assert code == 0
    assert len(printed.splitlines()) == 60
    assert 0.8 < float(errors.rsplit(" ", 1)[1]) < 1.0
    (tmp_path / "none").write_text("")
    code, _, errors = ninja(*command, tmp_path / "none")
    assert (code, "60 failed" in errors) == (1, False)
    assert "all 60 lattices failed" in errors


def test_project_gives_raw_acceptors_and_reverse_with_topsort_reverses_paths(ninja, small, tmp_path):
    assert ninja("project", small, "-o", tmp_path / "words.ark")[0] == 0
    assert ninja("project", small, "--project-output=false", "-o", tmp_path / "ids.ark")[0] == 0
    for (_, lattice), (_, ids) in zip(
        package.read(tmp_path / "words.ark"), package.read(tmp_path / "ids.ark"), strict=True
    ):
        assert lattice.kind == ids.kind == "raw"
        assert lattice.ali.tolist() == lattice.word[lattice.word != 0].tolist()
        assert ids.ali.tolist() == ids.word[ids.word != 0].tolist()
    assert ninja("reverse", small, "-o", tmp_path / "back.ark")[0] == 0
    assert ninja("topsort", tmp_path / "back.ark", "-o", tmp_path / "sorted.ark")[0] == 0
    for (_, old), (_, new) in zip(package.read(small), package.read(tmp_path / "sorted.ark"), strict=True):
        assert best_path(new).words.tolist() == best_path(old).words.tolist()[::-1]


@pytest.mark.parametrize(
    "verb", ["scale", "add-penalty", "limit-depth", "project", "rmali", "reverse", "topsort", "1best"]
)
def test_a_damaged_lattice_does_not_affect_the_others(ninja, small, tmp_path, verb):
    damaged = tmp_path / "damaged.txt"
    ninja("copy", small, "-o", f"ark,t:{damaged}")
    entries = damaged.read_text().split("\n\n")
    rows = entries[1].strip("\n").split("\n")
    entries[1] = "\n".join([*rows[:2], "1\t0\t5\t1,1,", *rows[2:]])
    damaged.write_text("\n\n".join(entries))
    code, _, errors = ninja(verb, damaged, "-o", tmp_path / "out.ark")
    assert code == 1
    assert f"1 failed: {FIRST[1]}" in errors
    assert keys_of(tmp_path / "out.ark") == [FIRST[0], *FIRST[2:]]


def test_a_boolean_option_needs_no_value(ninja, small, tmp_path):
    code, _, errors = ninja("copy", "--write-compact", small, "-o", tmp_path / "a.ark", "--resume")
    assert (code, "5 lattices copied" in errors) == (0, True)
    assert ninja("copy", small, "--write-compact=maybe", "-o", tmp_path / "b.ark")[0] == 2


def test_help_lists_each_command_once(ninja):
    code, printed, _ = ninja("--help")
    assert code == 0
    rows = [line.strip().split("  ")[0] for line in printed.splitlines() if line.startswith("  ") and line[2:3].strip()]
    assert [rows.count(name) for name in COMMANDS] == [1] * len(COMMANDS)
    assert all(isinstance(group.get_command(click.Context(group), name), click.Command) for name in COMMANDS)
