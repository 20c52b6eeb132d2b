"""The registry of formats: a format is one module and one entry, and is mentioned nowhere else."""

import ast
import re
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
from lattice_files import write_all
from recipes import recipe_code

import ninja as package
from ninja import formats as format_package
from ninja.errors import LatticeError, OptionError
from ninja.formats import format as registry
from ninja.formats.format import by_mark, formats
from ninja.graph import from_arcs
from ninja.lattice.nbest import Hypothesis, NBest
from ninja.lattice.symbols import SymbolTable

ROOT = Path(__file__).resolve().parents[2]
WORDS = SymbolTable([("<eps>", 0), ("hello", 1), ("world", 2)])
TEXT = "TOY\nhello 1.5\nworld -2\n"


@pytest.fixture
def toy(monkeypatch, tmp_path):
    """Add the format of a module to the registry by one entry, and return a folder."""
    folder = tmp_path / "modules"
    folder.mkdir()
    (module,) = recipe_code("Add a format")
    (folder / "toy.py").write_text(module)
    monkeypatch.setattr(format_package, "__path__", [*format_package.__path__, str(folder)])
    monkeypatch.setattr(registry, "MODULES", (*registry.MODULES, "toy"))
    yield tmp_path
    monkeypatch.delattr(format_package, "toy", raising=False)
    monkeypatch.delitem(sys.modules, "ninja.formats.toy", raising=False)


def toy_lattice():
    return from_arcs("utt", (0, 1), (1, 2), (1, 2), (1.5, -2.0), finals={2: 0.0}).with_words(WORDS)


def words_and_costs(lattice):
    return [lattice.words.word(word) for word in lattice.word.tolist()], lattice.graph.tolist()


def test_a_new_format_is_detected_and_read(toy):
    (toy / "utt.toy").write_text(TEXT)
    (toy / "unnamed").write_text(TEXT)
    assert by_mark(TEXT.encode()).name == "toy"
    for name in ("utt.toy", "unnamed"):
        ((key, lattice),) = package.read(toy / name)
        assert (key, *words_and_costs(lattice)) == (name.removesuffix(".toy"), ["hello", "world"], [1.5, -2.0])


def test_a_new_format_is_read_by_name_with_its_options(toy, ninja):
    (toy / "utt").write_text(TEXT)
    ((_, lattice),) = package.read(toy / "utt", format="plaything:scale=2")
    assert lattice.graph.tolist() == [3.0, -4.0]
    code, out, _ = ninja("best", "--from", "toy:scale=2", toy / "utt")
    assert (code, out) == (0, "utt hello world\n")
    code, _, err = ninja("best", "--from", "toy:size=2", toy / "utt")
    assert (code, "toy has no option 'size'; available options: scale" in err) == (2, True)


def test_a_new_format_is_found_in_folders(toy, ninja):
    (toy / "lattices").mkdir()
    (toy / "lattices" / "one.toy").write_text(TEXT)
    (toy / "lattices" / "notes").write_text("no lattice\n")
    assert [key for key, _ in package.read(toy / "lattices")] == ["one"]
    (toy / "lattices" / "two.toy").write_text("")
    code, out, err = ninja("best", toy / "lattices")
    assert (code, out, "two.toy" in err) == (1, "one hello world\n", True)


def test_a_new_format_is_written_by_extension_and_by_name(toy, ninja):
    for name, to in (("a.toy", None), ("b", "toy"), ("c", "plaything:scale=2")):
        write_all(toy / name, [toy_lattice()], to=to)
    texts = [(toy / name).read_text() for name in ("a.toy", "b/utt.toy", "c/utt.toy")]
    assert texts == [TEXT, TEXT, "TOY\nhello 3\nworld -4\n"]
    for name, options, file in (("d.toy", (), "d.toy"), ("e", ("--to", "toy"), "e/a.toy")):
        code, _, err = ninja("convert", toy / "a.toy", *options, "-o", toy / name)
        assert code == 0, err
        assert (toy / file).read_text() == TEXT
    code, _, err = ninja("convert", toy / "a.toy", "-o", toy / "f.jsonl")
    assert code == 0, err


def test_a_new_format_refuses_fields_that_it_cannot_store(toy, ninja):
    timed = toy_lattice().replace(time=np.array([0, 3, 9], np.int32), frame_shift=0.01)
    message = "toy cannot store: times; use lossy='allow' (--lossy allow)"
    with package.write(toy / "a", to="toy", lossy="refuse") as output, pytest.raises(LatticeError) as caught:
        output.write(timed)
    assert message in str(caught.value)
    write_all(toy / "timed.slf", [timed])
    code, _, err = ninja("convert", toy / "timed.slf", "--to", "toy", "-o", toy / "b", "--lossy", "refuse")
    assert (code, message in err) == (1, True)
    code, _, err = ninja("convert", toy / "timed.slf", "--to", "toy", "-o", toy / "b")
    assert (code, "toy files cannot store all fields; 1 lattice loses: times" in err) == (0, True)
    nbest = NBest("utt", (Hypothesis((1,), (0.0, 0.0), (0.0, 0.0)),), WORDS)
    with (
        package.write(toy / "c", to="toy") as output,
        pytest.raises(OptionError, match="toy stores lattices; convert an"),
    ):
        output.write(nbest)
    code, _, err = ninja("convert", toy / "timed.slf", "-o", toy / "d.toy", "--resume")
    assert (code, "resume applies only to Kaldi archives" in err, " is toy" in err) == (2, True, True)


def test_a_new_format_is_listed_in_help_and_errors(toy, ninja):
    code, out, _ = ninja("convert", "--help")
    (row,) = [" ".join(line.split()) for line in out.splitlines() if "toy" in line]
    assert (code, row) == (0, "toy, plaything words and costs of a single path; .toy")
    (toy / "a.slf").touch()
    for option, direction in (("--to", "output"), ("--from", "input")):
        code, _, err = ninja("convert", toy / "a.slf", option, "nothing", "-o", toy / "b")
        assert (code, f"unknown {direction} format 'nothing'" in err, ", toy" in err) == (2, True, True)


# Names of formats that have another meaning in a module or package: (module or package, word) -> meaning.
OTHER_MEANINGS = {
    ("ninja.cli.commands", "nbest"): "the command",
    ("ninja.cli.commands", "ctm"): "a suggestion for an unknown command",
    ("ninja.libraries", "google"): "the package of protocol buffers",
    ("ninja.formats", "nbest"): "the content of a format, and a field of JSON",
    ("ninja.graph", "nbest"): "the function",
    ("ninja.io", "nbest"): "the content of a format",
    ("ninja.lm.kaldi.components", "columns"): "a buffer of a component",
    ("ninja.lm.kaldi.array_operations", "columns"): "an array of a component",
    ("ninja.rescoring", "nbest"): "the algorithm of rescoring",
    ("ninja.serve", "nbest"): "a field of responses",
    ("ninja.serve", "json"): "the format of responses",
    ("ninja.serve", "slf"): "an option of the format, as a request has no file name",
    ("ninja.serve", "parquet"): "a format that cannot be the body of a response",
}
KALDI = ("kaldi.archive", "kaldi.text_archive")  # archive formats without a mark of their own


@pytest.mark.parametrize("name", ["openfst", "fst-text", "fst-ark", "k2", "native", "named-text", "nbest-kaldi"])
def test_a_growing_table_is_not_attached_to_ids(tmp_path, name):
    lattice = from_arcs("a", [0, 1], [1, 2], [7, 8], [0.0, 1.0], finals={2: 0.0})
    write_all(tmp_path / "x", [lattice], to="text" if name == "named-text" else name)
    (result,) = (entry for _, entry in package.read(tmp_path / "x", format=name, words=SymbolTable.growing()))
    assert result.words is None
    assert result.word.tolist() == [7, 8]


def test_no_format_is_mentioned_outside_its_module():
    module_of = {
        name: f"ninja.formats.{module}"
        for module in registry.MODULES
        if module not in KALDI
        for file_format in registry.formats_of(module)
        for name in (file_format.name, *file_format.aliases)
    }
    used_meanings = set()
    quoted = re.compile(f"[\"'](?:{'|'.join(map(re.escape, module_of))})[\"']")
    for path in sorted((ROOT / "ninja").rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if quoted.search(text) else ():
            word = node.value if isinstance(node, ast.Constant) else None
            if not isinstance(word, str) or word not in module_of or module_of[word] == module:
                continue
            if module == registry.__name__ and word in registry.MODULES:
                continue
            meanings = [meaning for meaning in OTHER_MEANINGS if meaning[1] == word and is_part(module, meaning[0])]
            assert meanings, f"{path}:{node.lineno}: the format {word!r} is mentioned outside {module_of[word]}"
            used_meanings.update(meanings)
    assert used_meanings == set(OTHER_MEANINGS), "some entries of OTHER_MEANINGS are no longer used"


def is_part(module, parent):
    return module == parent or (parent != "ninja" and module.startswith(f"{parent}."))


def test_the_page_of_formats_is_up_to_date():
    page = (ROOT / "docs" / "formats.md").read_text()
    assert runpy.run_path(str(ROOT / "docs" / "render_formats.py"))["render"]() == page, "run `make docs`"
    table = page.split("<!-- end of formats -->")[0]
    for file_format in formats():
        assert f"| `{file_format.name}`" in table
