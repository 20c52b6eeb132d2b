"""Decisions about a run depend on all of its sources and lattices, not only on the first."""

import shutil
from pathlib import Path

import pytest
from example_lattices import write_first

import ninja as package

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
ONE_WORD = "VERSION=1.0\nN=2 L=1\nI=0\nI=1\nJ=0 S=0 E=1 W=hello a=-1 l=-1\n"
TWO_WORDS = "VERSION=1.0\nN=3 L=2\nI=0\nI=1\nI=2\nJ=0 S=0 E=1 W=hello a=-1 l=-1\nJ=1 S=1 E=2 W=world a=-1 l=-1\n"


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """Write three lattices of the example, in a folder without a symbol table."""
    return write_first(tmp_path_factory.mktemp("few") / "lat.ark", 3)


@pytest.fixture
def slf(tmp_path):
    """Write two lattices in SLF: one with one word, the other with that word and another."""
    (tmp_path / "one.slf").write_text(ONE_WORD)
    (tmp_path / "two.slf").write_text(TWO_WORDS)
    return tmp_path / "one.slf", tmp_path / "two.slf"


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("verb", ["rescore", "score"])
def test_a_table_beside_one_source_says_nothing_of_the_ids_of_another(few, tmp_path, ninja, order, verb):
    named = tmp_path / "named" / "lat.ark"
    named.parent.mkdir()
    shutil.copy(few, named)
    shutil.copy(EXAMPLES / "words.txt", named.parent)
    sources = [(named, few)[place] for place in order]
    how = [*sources, "-o", tmp_path / "out.ark"] if verb == "rescore" else [EXAMPLES / "text", *sources]
    code, _, said = ninja(verb, *how)
    assert code != 0
    assert f"{few}: found no words.txt or words.txt.gz next to it, but one next to {named}" in said
    assert "--words" in said
    assert "no words.txt" not in ninja(verb, *how, "--words", EXAMPLES / "words.txt")[2]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_table_beside_an_output_names_the_words_of_every_lattice(slf, tmp_path, order):
    pairs = [next(package.read(path)) for path in slf]
    one_table = {number: word for _, lattice in pairs for word, number in lattice.words}
    written = []
    with package.write(tmp_path / "out.ark") as output:
        for key, lattice in (pairs[place] for place in order):
            try:
                output.write(lattice)
            except package.SymbolError:  # its second word has no name in the table of the first lattice
                assert (key, order) == ("two", (0, 1))
            else:
                written.append(key)
    found = dict(package.read(tmp_path / "out.ark", words=tmp_path / "out.ark.words.txt"))
    assert list(found) == written
    for lattice in found.values():
        assert [lattice.words.word(each) for each in lattice.word] == [one_table[each] for each in lattice.word]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_lattices_and_transcripts_are_not_scored_together(slf, tmp_path, ninja, order):
    (tmp_path / "ref").write_text("one hello\nu hello\n")
    (tmp_path / "hyp.txt").write_text("u hello\n")
    sources = [(tmp_path / "hyp.txt", slf[0])[place] for place in order]
    code, printed, said = ninja("score", tmp_path / "ref", *sources)
    assert (code, printed) == (2, "")
    assert f"{slf[0]} contains lattices, but {tmp_path / 'hyp.txt'} contains transcripts; score them separately" in said


@pytest.mark.parametrize("content", [None, b""])
def test_a_lacking_or_damaged_file_of_lattices_is_not_taken_for_transcripts(slf, tmp_path, ninja, content):
    (tmp_path / "ref").write_text("one hello\n")
    if content is not None:
        (tmp_path / "three.slf").write_bytes(content)
    code, _, said = ninja("score", tmp_path / "ref", slf[0], tmp_path / "three.slf")
    assert code == 1
    assert "three.slf" in said
    assert "transcripts" not in said


def test_lattices_in_a_folder_of_espnets_are_not_left_out_silently(slf, tmp_path, ninja):
    folder = tmp_path / "decode"
    (folder / "1best_recog").mkdir(parents=True)
    for name, content in (("text", "u hello\n"), ("token", "u h\n"), ("score", "u tensor(-1.0)\n")):
        (folder / "1best_recog" / name).write_text(content)
    shutil.copy(folder / "1best_recog" / "text", folder / "text")
    code, printed, said = ninja("best", folder, "--acoustic-scale", "1")
    assert (code, printed, said) == (0, "u hello\n", "")
    shutil.copy(slf[0], folder)
    code, printed, said = ninja("best", folder, "--acoustic-scale", "1")
    assert (code, printed) == (0, "u hello\n")
    assert f"{folder}: skipped 1 lattice file in a folder of n-best lists: one.slf" in said


@pytest.mark.parametrize("verb", ["context", "rescore"])
def test_phrases_that_no_lattice_can_say_are_noted_where_lattices_make_the_table(slf, tmp_path, ninja, verb):
    (tmp_path / "names.txt").write_text("world\nkathi\n")
    (tmp_path / "lm.arpa").write_text(
        "\\data\\\nngram 1=4\n\n\\1-grams:\n-1 <s>\n-1 </s>\n-1 hello\n-1 world\n\n\\end\\\n"
    )
    models = ["--rnnlm", tmp_path / "lm.arpa"] if verb == "rescore" else []
    how = [*slf, "--entities", tmp_path / "names.txt", *models, "-o", tmp_path / "out.jsonl"]
    code, _, said = ninja(verb, *how)
    assert code == 0, said
    assert "1 of 2 phrases has words that are not in the symbol table: 'kathi'" in said


def test_scales_in_the_header_of_a_later_file_are_noted(slf, tmp_path, ninja):
    slf[1].write_text(TWO_WORDS.replace("VERSION=1.0", "VERSION=1.0 lmscale=12"))
    code, _, said = ninja("best", *slf)
    assert code == 0
    assert f"{slf[1]}: ignoring the scales in the header (acoustic_scale 1, lm_scale 12, word_penalty 0)" in said
    code, _, said = ninja("best", *slf, "--lm-scale", "header")
    assert code == 2
    assert f"{slf[0]} and {slf[1]} have different scales" in said
