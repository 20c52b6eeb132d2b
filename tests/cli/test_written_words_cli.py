"""Commands that compare words by their lexical forms, as --normalizer defines them."""

from __future__ import annotations

import json

import pytest

from ninja.lattice.text import LOOKS_WRITTEN

FIRST = ("Kathy Clendenin, has twenty-three .", "kathy Clendenin has twenty three", "Cathy Clendenin has Twenty four .")
SECOND = ("kathy clendenin has twenty three", "Cathy Clendenin, Has")


def write_list(path, texts, key="utt"):
    hypotheses = [{"text": text, "score": -1.0 - 0.2 * place} for place, text in enumerate(texts)]
    path.write_text(json.dumps({"key": key, "nbest": hypotheses}) + "\n")
    return path


@pytest.fixture
def source(tmp_path):
    return write_list(tmp_path / "a.jsonl", FIRST)


def test_mbr_decode_prints_the_most_probable_written_forms(ninja, source, tmp_path):
    code, out, err = ninja("mbr-decode", source, "--json", tmp_path / "networks")
    assert (code, out) == (0, "utt Kathy Clendenin has twenty-three .\n")
    assert LOOKS_WRITTEN in err
    (network,) = map(json.loads, (tmp_path / "networks").read_text().splitlines())
    words = [{entry["word"] for entry in entries} - {None} for entries in network["bins"]]
    assert [entries for entries in words if entries] == [
        {"Kathy", "Cathy"}, {"Clendenin"}, {"has"}, {"twenty"}, {"three", "four"},
    ]  # fmt: skip


def test_words_are_compared_verbatim_without_a_normalizer(ninja, source, tmp_path):
    code, _, err = ninja("mbr-decode", source, "--normalizer", "none", "--json", tmp_path / "networks")
    assert code == 0
    assert LOOKS_WRITTEN not in err
    (network,) = map(json.loads, (tmp_path / "networks").read_text().splitlines())
    assert {"Kathy", "kathy", "Cathy"} <= {entry["word"] for entries in network["bins"] for entry in entries}


def test_systems_are_combined_by_lexical_words(ninja, source, tmp_path):
    second = write_list(tmp_path / "b.jsonl", SECOND)
    code, out, _ = ninja("mbr-decode", source, "--with", second)
    assert (code, out) == (0, "utt kathy Clendenin, has twenty three\n")


def test_ctm_lines_have_written_words(ninja, tmp_path):
    words = [{"word": "Ann,", "start": 0.0, "end": 0.5}, {"word": "yes.", "start": 0.5, "end": 1.0}]
    second_words = [words[0] | {"word": "ann"}, words[1] | {"word": "Yes!"}]
    lists = {"key": "utt", "nbest": [{"words": words, "score": -1.0}, {"words": second_words, "score": -1.5}]}
    (tmp_path / "list.jsonl").write_text(json.dumps(lists) + "\n")
    code, out, _ = ninja("to-ctm-conf", tmp_path / "list.jsonl")
    assert code == 0
    assert [line.split()[4:] for line in out.splitlines()] == [["Ann,", "1.00"], ["yes.", "1.00"]]


def test_nbest_prints_each_sequence_of_lexical_words_once(ninja, source, tmp_path):
    lines = "utt-1 Kathy Clendenin, has twenty-three .\nutt-2 Cathy Clendenin has Twenty four .\n"
    assert ninja("nbest", source)[:2] == (0, lines)
    assert ninja("nbest", source, "--normalizer", "none")[1].count("\n") == 3
    assert ninja("to-nbest", source, "--n", "5", "-o", tmp_path / "paths.jsonl")[0] == 0
    assert ninja("best", tmp_path / "paths.jsonl")[1].count("Clendenin") == 2


def test_the_word_penalty_of_nbest_counts_lexical_words(ninja, tmp_path):
    source = write_list(tmp_path / "a.jsonl", ("no , thanks", "no thanks"))  # a difference of 0.2
    arguments = ("nbest", source, "--word-penalty", "1", "--normalizer", "basic")
    for n in ("1", "2"):
        assert ninja(*arguments, "-n", n)[1] == "utt-1 no , thanks\n"
    assert ninja("best", source, "--word-penalty", "1")[1] == "utt no thanks\n"


def test_sentence_confidence_compares_lexical_words(ninja, source):
    assert ninja("confidence", source)[1].split() == ["utt", "0.4"]
    assert ninja("confidence", source, "--normalizer", "none")[1].split() == ["utt", "0.2"]


@pytest.mark.parametrize("options", [(), ("--normalizer", "basic")])
def test_lexical_words_come_from_the_symbol_table_next_to_the_lattices(ninja, source, tmp_path, options):
    archive = tmp_path / "a.ark"
    assert ninja("convert", source, "-o", archive, "--to", "kaldi", "--words-out", tmp_path / "words.txt")[0] == 0
    assert ninja("confidence", archive, *options)[1].split() == ["utt", "0.4"]
    code, _, err = ninja("to-nbest", archive, "--n", "5", "-o", tmp_path / "b.ark", *options)
    assert (code, ", 2 paths," in err) == (0, True), err


def test_oracle_counts_lexical_words(ninja, source, tmp_path):
    (tmp_path / "text").write_text("utt KATHY Clendenin had Twenty-Three, zzz\n")
    code, out, err = ninja("oracle", source, "--ref", tmp_path / "text", "--edits", tmp_path / "edits")
    assert (code, out) == (0, "utt Kathy Clendenin, has twenty-three .\n")
    assert (tmp_path / "edits").read_text() == "utt 2\n"
    assert "%WER 33.3333 [ 2 / 6, 0 insertions, 1 deletions, 1 substitutions ]" in err
    assert "2 reference words (2 distinct) not in any lattice cannot match (see --oov): had, zzz" in err
    code, _, err = ninja("oracle", source, "--ref", tmp_path / "text", "--oov", "Twenty")
    assert "[ 2 / 6" in err


def test_oracle_with_lexical_lattices_normalizes_written_references(ninja, tmp_path):
    lattices = write_list(tmp_path / "a.jsonl", ["ann is here", "anne is here"])
    (tmp_path / "text").write_text("utt Anne is here.\n")
    code, out, err = ninja("oracle", lattices, "--ref", tmp_path / "text")
    assert (code, out) == (0, "utt anne is here\n")
    assert "%WER 0 [ 0 / 3" in err


def test_a_normalizer_requires_a_symbol_table(ninja, small):
    code, _, err = ninja("mbr-decode", small, "--normalizer", "basic")
    assert code == 1
    assert "the normalizer basic requires the symbol table of the lattice; set it with --words" in err


def test_an_unknown_normalizer_is_refused(ninja, source):
    code, _, err = ninja("mbr-decode", source, "--normalizer", "basics")
    assert code != 0
    assert "normalizer is 'basics', but must be one of none, basic, english, or an existing file" in err
