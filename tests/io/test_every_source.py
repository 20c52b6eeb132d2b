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
def archive(tmp_path_factory):
    """Write three lattices of the example, in a folder without a symbol table."""
    return write_first(tmp_path_factory.mktemp("archive") / "lat.ark", 3)


@pytest.fixture
def slf(tmp_path):
    """Write two SLF lattices: one with one word, the other with the same word and a second one."""
    (tmp_path / "one.slf").write_text(ONE_WORD)
    (tmp_path / "two.slf").write_text(TWO_WORDS)
    return tmp_path / "one.slf", tmp_path / "two.slf"


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("verb", ["rescore", "score"])
def test_a_symbol_table_next_to_one_source_is_not_used_for_another(archive, tmp_path, ninja, order, verb):
    archive_with_table = tmp_path / "named" / "lat.ark"
    archive_with_table.parent.mkdir()
    shutil.copy(archive, archive_with_table)
    shutil.copy(EXAMPLES / "words.txt", archive_with_table.parent)
    sources = [(archive_with_table, archive)[index] for index in order]
    arguments = [*sources, "-o", tmp_path / "out.ark"] if verb == "rescore" else [EXAMPLES / "text", *sources]
    code, _, stderr = ninja(verb, *arguments)
    assert code != 0
    assert f"{archive}: found no words.txt or words.txt.gz next to it, but one next to {archive_with_table}" in stderr
    assert "--words" in stderr
    assert "no words.txt" not in ninja(verb, *arguments, "--words", EXAMPLES / "words.txt")[2]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_symbol_table_of_an_output_has_the_words_of_all_lattices(slf, tmp_path, order):
    pairs = [next(package.read(path)) for path in slf]
    words = {number: word for _, lattice in pairs for word, number in lattice.words}
    keys = []
    with package.write(tmp_path / "out.ark") as output:
        for key, lattice in (pairs[index] for index in order):
            try:
                output.write(lattice)
            except package.SymbolError:  # its second word is not in the table of the first lattice
                assert (key, order) == ("two", (0, 1))
            else:
                keys.append(key)
    lattices = dict(package.read(tmp_path / "out.ark", words=tmp_path / "out.ark.words.txt"))
    assert list(lattices) == keys
    for lattice in lattices.values():
        assert [lattice.words.word(word) for word in lattice.word] == [words[word] for word in lattice.word]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_lattices_and_transcripts_are_not_scored_together(slf, tmp_path, ninja, order):
    (tmp_path / "ref").write_text("one hello\nu hello\n")
    (tmp_path / "hyp.txt").write_text("u hello\n")
    sources = [(tmp_path / "hyp.txt", slf[0])[index] for index in order]
    code, stdout, stderr = ninja("score", tmp_path / "ref", *sources)
    assert (code, stdout) == (2, "")
    assert (
        f"{slf[0]} contains lattices, but {tmp_path / 'hyp.txt'} contains transcripts; score them separately" in stderr
    )


@pytest.mark.parametrize("content", [None, b""])
def test_a_missing_or_damaged_lattice_file_is_not_read_as_transcripts(slf, tmp_path, ninja, content):
    (tmp_path / "ref").write_text("one hello\n")
    if content is not None:
        (tmp_path / "three.slf").write_bytes(content)
    code, _, stderr = ninja("score", tmp_path / "ref", slf[0], tmp_path / "three.slf")
    assert code == 1
    assert "three.slf" in stderr
    assert "transcripts" not in stderr


def test_lattices_skipped_in_an_espnet_folder_are_noted(slf, tmp_path, ninja):
    folder = tmp_path / "decode"
    (folder / "1best_recog").mkdir(parents=True)
    for name, content in (("text", "u hello\n"), ("token", "u h\n"), ("score", "u tensor(-1.0)\n")):
        (folder / "1best_recog" / name).write_text(content)
    shutil.copy(folder / "1best_recog" / "text", folder / "text")
    code, stdout, stderr = ninja("best", folder, "--acoustic-scale", "1")
    assert (code, stdout, stderr) == (0, "u hello\n", "")
    shutil.copy(slf[0], folder)
    code, stdout, stderr = ninja("best", folder, "--acoustic-scale", "1")
    assert (code, stdout) == (0, "u hello\n")
    assert f"{folder}: skipped 1 lattice file in a folder of n-best lists: one.slf" in stderr


@pytest.mark.parametrize("verb", ["context", "rescore"])
def test_phrases_with_unknown_words_are_noted_for_tables_built_from_lattices(slf, tmp_path, ninja, verb):
    (tmp_path / "names.txt").write_text("world\nkathi\n")
    (tmp_path / "lm.arpa").write_text(
        "\\data\\\nngram 1=4\n\n\\1-grams:\n-1 <s>\n-1 </s>\n-1 hello\n-1 world\n\n\\end\\\n"
    )
    models = ["--rnnlm", tmp_path / "lm.arpa"] if verb == "rescore" else []
    arguments = [*slf, "--entities", tmp_path / "names.txt", *models, "-o", tmp_path / "out.jsonl"]
    code, _, stderr = ninja(verb, *arguments)
    assert code == 0, stderr
    assert "1 of 2 phrases has words that are not in the symbol table: 'kathi'" in stderr


def test_scales_in_the_header_of_a_later_file_are_noted(slf, tmp_path, ninja):
    slf[1].write_text(TWO_WORDS.replace("VERSION=1.0", "VERSION=1.0 lmscale=12"))
    code, _, stderr = ninja("best", *slf)
    assert code == 0
    assert f"{slf[1]}: ignoring the scales in the header (acoustic_scale 1, lm_scale 12, word_penalty 0)" in stderr
    code, _, stderr = ninja("best", *slf, "--lm-scale", "header")
    assert code == 2
    assert f"{slf[0]} and {slf[1]} have different scales" in stderr
